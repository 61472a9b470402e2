"""`python-docs`: a docstring's summary -> the function it stood in, its docstring removed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.data.cache import BuiltTables, cached_tables
from normwise.data.clusters import renumber
from normwise.data.functions import code_lines, does_nothing, summary_of, without_docstrings
from normwise.data.neighbors import keep_distinct
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs
from normwise.data.sources import SourceFile, SourceSet, documented, folder_sources, installed_sources, parse, parsing, stable_fraction
from normwise.data.texts import normalize_text

NAME = "python-docs"
KIND = "known-item code search"
SEEN = "possibly seen in pre-training: public code models have read such pairs"
_BUILD = 2  # raise whenever the rules below change, so that caches are built anew
_LONGEST = 6000
_SPLITS = ("train", "dev", "test")


def build_python_docs(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (docstring summary, function source without docstrings) from code on this machine, parsed, never imported.

    Read are the standard library and a fixed list of distributions, or the folders `roots`. Functions and methods count
    when their summary passes `summary_of`, at least 3 lines of code that do something remain, the code is at most 6,000
    characters, and the summary does not stand in the code. One function per summary; near-duplicate functions
    (Jaccard of 5-token shingles >= 0.7) are dropped wherever they stand, hence also across splits. Train, dev and test
    are split by package or top module by a hash of its name (see `split_groups`), whatever the seed. All functions of
    all splits are the candidates of each split. Clusters are source files.

    Args:
        roots: folders of the user's own code, or None.
        cache_dir: where the built set is kept, keyed by all versions.

    Raises:
        InputError: a root is no folder, or too few documented functions were found.
    """
    sources = installed_sources() if roots is None else folder_sources(roots)
    tables, facts = cached_tables(NAME, key=f"{NAME} {_BUILD} {sources.key}", cache_dir=cache_dir, build=lambda: _build(sources))
    table = tables["functions"]
    count = len(table["query"])
    if count < 4:
        raise InputError(
            f"{NAME}: {count} documented functions found in {len(sources.files)} files: at least 4 are needed; add folders to data.roots"
        )
    corpus = Corpus(tuple(table["id"]), tuple(table["code"]))
    splits = np.asarray(table["split"])
    queries = np.asarray(table["query"], dtype=object)
    _, labels = np.unique(np.asarray(table["source"]), return_inverse=True)
    judged: dict[str, Judged] = {}
    for split in ("dev", "test"):
        rows = np.flatnonzero(splits == split)
        judged[split] = Judged(
            query_ids=tuple(f"q:{corpus.ids[row]}" for row in rows),
            queries=tuple(queries[rows]),
            relevance=tuple({int(row): 1.0} for row in rows),
            corpus=corpus,
            clusters=renumber(labels[rows]),
        )
    rows = np.flatnonzero(splits == "train")
    train = TrainingPairs(tuple(queries[rows]), rows.astype(np.int64), ((),) * len(rows), corpus, renumber(labels[rows]))
    return RetrievalData(NAME, KIND, train, judged["dev"], judged["test"], skewed=False, notes=source_notes(sources, facts))


def source_notes(sources: SourceSet, facts: dict[str, Any]) -> tuple[str, ...]:
    """Sentences about what was read, for the page."""
    versions = ", ".join(f"{name} {version}" for name, version in sources.versions)
    notes = [SEEN, f"read from {versions}", str(facts["split"])]
    if sources.missing:
        notes.append(f"not installed, so not in the set: {', '.join(sources.missing)}")
    notes.append("left out: " + ", ".join(f"{count:,} {reason}" for reason, count in facts["left_out"].items()))
    if "cache" in facts:
        notes.append(f"cache {facts['cache']}")
    return tuple(notes)


def _build(sources: SourceSet) -> BuiltTables:
    left_out: Counter[str] = Counter()
    rows: list[tuple[str, str, str, str]] = []
    with parsing():
        for source in sources.files:
            parsed = parse(source)
            if parsed is None:
                left_out["files that do not parse"] += 1
            else:
                rows += _functions(source, *parsed, left_out)
    queries = [normalize_text(query) for _, query, _, _ in rows]
    first = {query: row for row, query in reversed(list(enumerate(queries)))}
    distinct = [row for number, row in enumerate(rows) if first[queries[number]] == number]
    left_out["functions with the summary of another"] = len(rows) - len(distinct)
    keep = keep_distinct([code for _, _, code, _ in distinct])
    kept = [row for row, good in zip(distinct, keep, strict=True) if good]
    left_out["near-duplicate functions"] = len(distinct) - len(kept)
    splits, words = split_groups([module for _, _, _, module in kept])
    table = {
        "id": [name for name, _, _, _ in kept],
        "query": [query for _, query, _, _ in kept],
        "code": [code for _, _, code, _ in kept],
        "source": [module for _, _, _, module in kept],
        "split": splits,
    }
    return {"functions": table}, {"left_out": dict(left_out), "split": words}


def _functions(source: SourceFile, text: str, tree: ast.Module, left_out: Counter[str]) -> list[tuple[str, str, str, str]]:
    lines = text.split("\n")
    rows: dict[str, tuple[str, str, str, str]] = {}
    for name, node, docstring in documented(tree):
        if isinstance(node, ast.ClassDef):
            continue
        summary = summary_of(docstring)
        if summary is None:
            left_out["functions whose summary says too little"] += 1
            continue
        code = None if does_nothing(node) else without_docstrings(lines, node)
        if code is None or code_lines(code) < 3 or len(code) > _LONGEST:
            left_out["functions with too little or too much code"] += 1
            continue
        if normalize_text(summary).rstrip(".") in normalize_text(code):
            left_out["functions whose code repeats the summary"] += 1
            continue
        rows.setdefault(name, (f"{source.module}:{name}", summary, code, source.module))
    return list(rows.values())


def split_groups(modules: Sequence[str]) -> tuple[list[str], str]:
    """Give every module's rows a split, by groups taken in the order of a hash of their names.

    Groups are top packages or modules; when those are too few or too large for test and dev to get about a tenth of the
    rows each, the first two parts of the module name, then three, then modules, then single rows. A group with more than
    an eighth of the rows stays in training.

    Args:
        modules: dotted module name of each row.

    Returns:
        A split per row, and a note.

    Example:
        >>> split_groups([f"m{number}.a" for number in range(20)])[0].count("train")
        16
    """
    depths = {"top package or module": 1, "subpackage": 2, "sub-subpackage": 3, "module": 99}
    for words, depth in depths.items():
        groups = [".".join(module.split(".")[:depth]) for module in modules]
        if (splits := _fill(groups)) is not None:
            return splits, f"train, dev and test split by {words} (hash of its name)"
    splits = _fill([f"{module} {row}" for row, module in enumerate(modules)])
    return splits or ["train"] * len(modules), "train, dev and test split by single function (too few modules), so they share files"


def _fill(groups: Sequence[str]) -> list[str] | None:
    sizes = Counter(groups)
    wanted = max(1, round(0.1 * len(groups)))
    largest = max(1, len(groups) // 8)
    taken = {"test": 0, "dev": 0}
    chosen: dict[str, str] = {}
    for group in sorted(sizes, key=stable_fraction):
        split = next((split for split, count in taken.items() if count < wanted), None)
        if split is None:
            break
        if sizes[group] <= largest:
            chosen[group] = split
            taken[split] += sizes[group]
    if min(taken.values()) < max(1, wanted // 2) or len(groups) - sum(taken.values()) < 2:
        return None
    return [chosen.get(group, "train") for group in groups]
