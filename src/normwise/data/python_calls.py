"""`python-calls`: code around a call, the called name masked -> documentation of the called function; popularity is real usage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.cache import BuiltTables, cached_tables
from normwise.data.calls import CallSite, ModuleNames, Resolver, call_sites, imports_of
from normwise.data.clusters import components
from normwise.data.functions import signature_of
from normwise.data.neighbors import keep_distinct
from normwise.data.python_docs import source_notes
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs, is_skewed
from normwise.data.sources import SourceFile, SourceSet, documented, folder_sources, installed_sources, parse, parsing, stable_fraction

NAME = "python-calls"
KIND = "call site to documentation, skewed popularity"
MASK = "<mask>"
_BUILD = 1  # raise whenever the rules below change, so that caches are built anew
_MOST_TRAIN = 60_000
_BEFORE, _INSIDE, _AFTER = 3, 6, 2
_LONGEST_DOC = 1000
_SPLIT_SHARES = (("test", 0.15), ("dev", 0.10))

_Site = tuple[str, CallSite, str]
_Documentation = dict[str, str]


def build_python_calls(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (code around a call with the called name masked, documentation of the called function or class).

    Called names are resolved through the file's imports and through re-exports to definitions with a docstring in the
    same files (`python-docs` says which); calls of a file's own names and of methods of objects are not resolved. A query
    is the call's lines with 3 lines before and 2 after; every occurrence of the called name in it, under any of its names
    and whatever the case, becomes `<mask>`. A candidate is the signature and the docstring up to 1,000 characters.

    Files are split by a hash of their module's name: about 15 % test, 10 % dev. Training draws call sites uniformly, so a
    function is a positive in proportion to its use; dev and test take one call site per file, likewise drawn uniformly,
    so that their clusters (queries that share a file or a target) stay small. Near-identical call sites (Jaccard of
    5-token shingles >= 0.7) count once, test before dev before train. Candidates are all functions that are called
    anywhere, and as many others, drawn by hash.

    Args:
        roots: folders of the user's own code, or None.
        cache_dir: where the built set is kept, keyed by all versions.

    Raises:
        InputError: a root is no folder, or too few resolvable calls were found.
    """
    sources = installed_sources() if roots is None else folder_sources(roots)
    tables, facts = cached_tables(NAME, key=f"{NAME} {_BUILD} {sources.key}", cache_dir=cache_dir, build=lambda: _build(sources))
    table, candidates = tables["calls"], tables["candidates"]
    corpus = Corpus(tuple(candidates["id"]), tuple(candidates["text"]))
    splits = np.asarray(table["split"])
    sizes = {split: int((splits == split).sum()) for split in ("train", "dev", "test")}
    if min(sizes["dev"], sizes["test"]) < 1 or sizes["train"] < 2:
        raise InputError(
            f"{NAME}: too few calls of documented imported functions in {len(sources.files)} files "
            f"(train {sizes['train']}, dev {sizes['dev']}, test {sizes['test']}): add folders to data.roots"
        )
    queries = np.asarray(table["query"], dtype=object)
    targets = np.asarray(table["target"], dtype=np.int64)
    depends = [[("file", source), ("target", target)] for source, target in zip(table["source"], table["target"], strict=True)]
    clusters = {split: components([depends[row] for row in np.flatnonzero(splits == split)]) for split in sizes}
    judged: dict[str, Judged] = {}
    for split in ("dev", "test"):
        rows = np.flatnonzero(splits == split)
        judged[split] = Judged(
            query_ids=tuple(f"{split}:{table['source'][row]}:{table['line'][row]}" for row in rows),
            queries=tuple(queries[rows]),
            relevance=tuple({int(targets[row]): 1.0} for row in rows),
            corpus=corpus,
            clusters=clusters[split],
        )
    rows = np.flatnonzero(splits == "train")
    train = TrainingPairs(tuple(queries[rows]), targets[rows], ((),) * len(rows), corpus, clusters["train"])
    return RetrievalData(
        NAME, KIND, train, judged["dev"], judged["test"],
        skewed=is_skewed(train.positives), notes=source_notes(sources, facts),
    )  # fmt: skip


def _build(sources: SourceSet) -> BuiltTables:
    left_out: Counter[str] = Counter()
    modules: dict[str, ModuleNames] = {}
    documentation: _Documentation = {}
    found: list[tuple[str, CallSite]] = []
    texts: dict[str, SourceFile] = {source.module: source for source in sources.files}
    tops = {source.group for source in sources.files}
    with parsing():
        for source in sources.files:
            parsed = parse(source)
            if parsed is None:
                left_out["files that do not parse"] += 1
                continue
            tree = parsed[1]
            names = imports_of(tree, source, everywhere=False)
            for name, node, docstring in documented(tree):
                names.defined.add(name)
                documentation.setdefault(f"{source.module}:{name}", f"{signature_of(node, name)}\n{docstring}")
            modules[source.module] = names
            calls = call_sites(tree, imports_of(tree, source, everywhere=True))
            found += [(source.module, site) for site in calls if site.dotted.partition(".")[0] in tops]
    resolver = Resolver(modules)
    sites: list[_Site] = [(module, site, target) for module, site in found if (target := resolver.resolve(site.dotted)) is not None]
    left_out["calls of names without documentation"] = len(found) - len(sites)
    return _tables(sites, documentation, texts, left_out)


def _tables(sites: list[_Site], documentation: _Documentation, files: dict[str, SourceFile], left_out: Counter[str]) -> BuiltTables:
    chosen = _choose(sites)
    left_out["calls beyond one per held-out file or 60,000 in training"] = len(sites) - len(chosen)
    queries: list[str | None] = [None] * len(chosen)
    lines: dict[str, list[str]] = {}
    for row, (_, (module, site, target)) in enumerate(chosen):
        if module not in lines:
            text = files[module].path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
            lines[module] = text.split("\n")
        queries[row] = masked_context(lines[module], site, target)
    usable = [(query, *rest) for query, rest in zip(queries, chosen, strict=True) if query is not None]
    left_out["calls with too little around them"] = len(chosen) - len(usable)
    keep = keep_distinct([query for query, _, _ in usable])
    kept = [row for row, good in zip(usable, keep, strict=True) if good]
    left_out["near-identical call sites"] = len(usable) - len(kept)
    called = sorted({target for _, _, target in sites})
    others = sorted(set(documentation).difference(called), key=stable_fraction)[: len(called)]
    numbers: dict[str, int] = {}
    ids: list[str] = []
    place: dict[str, int] = {}
    for target in [*called, *others]:
        text = _short(documentation[target])
        if numbers.setdefault(text, len(numbers)) == len(ids):
            ids.append(target)
        place[target] = numbers[text]
    table = {
        "query": [query for query, _, _ in kept],
        "target": [place[site[2]] for _, _, site in kept],
        "source": [site[0] for _, _, site in kept],
        "line": [site[1].line for _, _, site in kept],
        "split": [split for _, split, _ in kept],
    }
    words = "split by source file (hash of its module's name), one call site per dev and test file"
    facts = {"left_out": dict(left_out), "split": f"{words}; {len(sites):,} calls of {len(called):,} documented names found"}
    return {"calls": table, "candidates": {"id": ids, "text": list(numbers)}}, facts


def split_of(module: str) -> str:
    """The split of a file, by a hash of its module's name."""
    fraction = stable_fraction(f"file {module}")
    for split, share in _SPLIT_SHARES:
        if fraction < share:
            return split
        fraction -= share
    return "train"


def _choose(sites: Sequence[_Site]) -> list[tuple[str, _Site]]:
    """Test, dev and train call sites, in that order; the hash of a site's place is its lot in the draw."""
    lots = sorted((stable_fraction(f"{module} {site.line} {site.dotted}"), number) for number, (module, site, _) in enumerate(sites))
    by_split: dict[str, list[tuple[str, _Site]]] = {"test": [], "dev": [], "train": []}
    seen: set[str] = set()
    splits: dict[str, str] = {}
    for _, number in lots:
        module = sites[number][0]
        split = splits.setdefault(module, split_of(module))
        if split != "train" and module in seen:
            continue
        seen.add(module)
        if split != "train" or len(by_split["train"]) < _MOST_TRAIN:
            by_split[split].append((split, sites[number]))
    return [item for part in by_split.values() for item in part]


def masked_context(lines: Sequence[str], site: CallSite, target: str) -> str | None:
    r"""The code around a call, every occurrence of the called name replaced by `<mask>`.

    Masked are the name as written and as defined, ignoring case: wherever they stand when they have 5 characters or more,
    else where no letter or digit adjoins them.

    Args:
        lines: of the file.
        site: the call.
        target: `module:qualified.name` of what is called.

    Returns:
        Dedented code; None when less than 4 words are left beside the mask.

    Example:
        >>> site = CallSite(2, 2, "np.mean", "numpy.mean")
        >>> masked_context(["values = load(path)", "mean_value = np.mean(values)"], site, "numpy:mean")
        'values = load(path)\n<mask>_value = np.<mask>(values)'
    """
    first = max(1, site.line - _BEFORE)
    last = min(len(lines), min(site.end_line, site.line + _INSIDE) + _AFTER)
    context = _dedent(lines[first - 1 : last])
    names = {site.written.rpartition(".")[2], site.dotted.rpartition(".")[2], target.rpartition(":")[2].rpartition(".")[2]}
    for name in sorted(names, key=lambda name: (-len(name), name)):
        pattern = re.escape(name) if len(name) >= 5 else rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
        context = re.sub(pattern, "\x00", context, flags=re.IGNORECASE)
    context = context.replace("\x00", MASK)
    left = re.findall(r"[A-Za-z]{2,}", context.replace(MASK, " "))
    return context if len(left) >= 4 and MASK in context else None


def _dedent(lines: Sequence[str]) -> str:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    indent = min(indents, default=0)
    return "\n".join(line[indent:].rstrip() for line in lines).strip("\n")


def _short(text: str) -> str:
    text = "\n".join(line.rstrip() for line in text.splitlines())
    if len(text) <= _LONGEST_DOC:
        return text.strip()
    cut = text.rfind("\n", 0, _LONGEST_DOC)
    return text[: cut if cut > _LONGEST_DOC // 2 else _LONGEST_DOC].strip()
