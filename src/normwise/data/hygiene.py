"""What is wrong with data, said before training: unusable texts, duplicates, leakage, truncation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field

from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.data.columns import BadRowsError
from normwise.data.contents import Content, content_problem, count_modalities, sameness
from normwise.data.sets import Corpus, Judged, Origin, RetrievalData, TrainingPairs, is_skewed, repeated_share
from normwise.data.texts import text_problem

TokenCounter = Callable[[Sequence[str]], np.ndarray]
_SHOWN = 5
_MUCH = 0.25
_CONTRADICTION = "the positive is also an explicit negative of its query"
_COUNTED = 20_000


class HygieneReport(Record):
    """What was found in a set.

    Args:
        data: name of the set.
        rows: how many train pairs, dev and test queries, and candidates there are.
        modalities: how many queries and candidates are text, image, or both; empty for a set of texts alone.
        refusals: problems that training must not start with; each names file (or split), row and column.
        warnings: what a reader of the results should know.
        counts: every check with its number of rows, also where that is 0.
        truncated: share of texts longer than `max_tokens`, by side; empty when no token counter was given.
        dropped: rows left out on request while loading, by reason.
    """

    data: str
    rows: Mapping[str, int]
    modalities: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
    truncated: Mapping[str, float] = Field(default_factory=dict)
    dropped: Mapping[str, int] = Field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing forbids training."""
        return not self.refusals

    def require_ok(self) -> None:
        """Raise when there is a refusal.

        Raises:
            InputError: holds every refusal.
        """
        if self.refusals:
            advice = 'repair the data (data.on_bad_rows = "drop" leaves bad rows out)'
            raise InputError(f"{self.data}: " + "; ".join(self.refusals) + f"; {advice}")

    def __str__(self) -> str:
        lines = [f"{self.data}: " + ", ".join(f"{count:,} {name}" for name, count in self.rows.items())]
        lines += [f"  REFUSED  {text}" for text in self.refusals]
        lines += [f"  warning  {text}" for text in self.warnings]
        lines += [f"  dropped  {count:,} x {reason}" for reason, count in self.dropped.items()]
        lines += [f"  longer than the model reads: {share:.1%} of {side}" for side, share in self.truncated.items()]
        return "\n".join(lines if len(lines) > 1 else [*lines, "  nothing to report"])


def check_data(data: RetrievalData, *, token_counter: TokenCounter | None = None, max_tokens: int | None = None) -> HygieneReport:
    """Check a set before training.

    Refused: texts that are None, NaN, empty, whitespace or hold a lone surrogate; a positive that is also an explicit
    negative of its query; a training pair (query and positive) that is also a judged pair of dev or test, up to case
    and whitespace; a dev or test split in which no query has a relevant candidate (only reported where there is nothing
    to train on and the other split can be evaluated). Reported: exact duplicate pairs, repeated positives, queries equal
    to their positive, queries shared by training and dev or test, judged pairs shared by dev and test, texts longer than
    `max_tokens` (on at most 20,000 texts a side, evenly spread).

    Args:
        data: the set.
        token_counter: maps texts to their numbers of tokens, special tokens included, before truncation.
        max_tokens: what the model reads; needed with `token_counter`.

    Returns:
        The report; `require_ok` raises on refusals.

    Raises:
        InputError: only one of `token_counter` and `max_tokens` is given.
    """
    if (token_counter is None) != (max_tokens is None):
        raise InputError("check_data: give token_counter and max_tokens together, or neither")
    found = _Findings()
    _check_texts(data, found)
    if not found.refusals:
        if data.train is not None:
            _check_pairs(data.train, found)
        _check_leaks(data, found)
        _check_dev_in_test(data, found)
    _check_judgements(data, found)
    truncated = _truncated(data, token_counter, max_tokens) if token_counter is not None and max_tokens is not None else {}
    for side, share in truncated.items():
        if share > _MUCH:
            found.warn(
                f"truncated {side}",
                round(share * 100),
                f"{share:.0%} of {side} are longer than the {max_tokens} tokens that the encoder reads",
            )
    no_answer = sum(part.no_answer for part in (data.dev, data.test) if part is not None)
    if no_answer:
        found.warn(
            "queries without a relevant candidate", no_answer, f"{no_answer:,} dev and test queries have no relevant candidate (no_answer)"
        )
    return HygieneReport(
        data=data.name,
        rows=set_sizes(data),
        modalities=_modalities(data),
        refusals=tuple(found.refusals),
        warnings=tuple(found.warnings),
        counts=found.counts,
        truncated=truncated,
        dropped=dict(data.dropped),
    )


class _Findings:
    """Refusals, warnings and counts while a check runs."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.warnings: list[str] = []
        self.counts: dict[str, int] = {}

    def refuse(self, name: str, places: Sequence[str], what: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + len(places)
        if places:
            more = f"; and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
            self.refusals.append(f"{what}: " + "; ".join(places[:_SHOWN]) + more)

    def warn(self, name: str, count: int, text: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + count
        if count:
            self.warnings.append(text)


def _modalities(data: RetrievalData) -> dict[str, dict[str, int]]:
    parts = _parts(data)
    counts: dict[str, dict[str, int]] = {f"{split} queries": {**count_modalities(part.queries)} for split, part in parts}
    corpora = {id(part.corpus): part.corpus for _, part in parts}
    for number, corpus in enumerate(corpora.values()):
        counts["candidates" if not number else f"candidates {number + 1}"] = {**count_modalities(corpus.contents)}
    return {} if all(set(kinds) <= {"text"} for kinds in counts.values()) else counts


def set_sizes(data: RetrievalData) -> dict[str, int]:
    """How many train pairs, dev and test queries and candidates a set has."""
    sizes = {"train pairs": 0 if data.train is None else len(data.train)}
    sizes |= {f"{split} queries": len(part) for split, part in (("dev", data.dev), ("test", data.test)) if part is not None}
    corpora = [part.corpus for part in (data.train, data.dev, data.test) if part is not None]
    return sizes | {"candidates": max((len(corpus) for corpus in corpora), default=0)}


def _place(part: str, origin: Origin | None, row: int, column: str) -> str:
    where = f"{part}, row {row + 1}" if origin is None else origin.at(row)
    return f"{where}, column {column}"


def _parts(data: RetrievalData) -> list[tuple[str, TrainingPairs | Judged]]:
    return [(name, part) for name, part in (("train", data.train), ("dev", data.dev), ("test", data.test)) if part is not None]


def _check_texts(data: RetrievalData, found: _Findings) -> None:
    places: list[str] = []
    seen: set[int] = set()
    for split, part in _parts(data):
        for row, content in enumerate(part.queries):
            if (problem := content_problem(content)) is not None:
                places.append(f"{_place(split, part.origin, row, 'query')}: {problem}")
        if id(part.corpus) not in seen:
            seen.add(id(part.corpus))
            for row, content in enumerate(part.corpus.contents):
                if (problem := content_problem(content)) is not None:
                    places.append(f"{_place(f'{split} candidates', part.corpus.origin, row, 'text')}: {problem}")
    found.refuse("unusable texts", places, "unusable texts")


def _check_judgements(data: RetrievalData, found: _Findings) -> None:
    judged = {split: part for split, part in (("dev", data.dev), ("test", data.test)) if part is not None}
    places = [
        f"{split}{'' if part.file is None else f' ({part.file})'}: {f'{len(part):,} queries' if len(part) else 'no query'}"
        for split, part in judged.items()
        if not part.usable
    ]
    if data.train is None and len(places) < len(judged):
        found.warn("splits without a relevant candidate", len(places), f"nothing can be measured on {'; '.join(places)}")
    else:
        found.refuse("splits without a relevant candidate", places, "no query has a relevant candidate, so no metric is defined")


def _check_dev_in_test(data: RetrievalData, found: _Findings) -> None:
    if data.dev is None or data.test is None:
        return
    dev = {key for keys in _pair_keys(data.dev) for key in keys}
    rows = [row for row, keys in enumerate(_pair_keys(data.test)) if dev.intersection(keys)]
    first = _place("test", data.test.origin, rows[0], "query") if rows else ""
    found.warn(
        "queries with a judged pair of dev and test",
        len(rows),
        f"{len(rows):,} test queries stand in dev with the same answer (up to case and whitespace), first at {first}: "
        "what is chosen on dev is no longer independent of test",
    )


def refuse_contradictions(train: TrainingPairs) -> None:
    """Refuse pairs whose positive is also an explicit negative of its query, before splitting loses sight of the negatives.

    Raises:
        InputError: names file and row.
    """
    places = _contradictions(train)
    if places:
        raise BadRowsError(_CONTRADICTION, places)


def _contradictions(train: TrainingPairs) -> list[str]:
    return [_place("train", train.origin, int(row), "positive") for row in _contradicting(train)]


def _contradicting(train: TrainingPairs) -> np.ndarray:
    rows = [
        row
        for row, (positive, bad) in enumerate(zip(train.positives, train.negatives, strict=True))
        if bad and _hits(train.corpus, int(positive), bad)
    ]
    return np.asarray(rows, dtype=np.int64)


def _hits(corpus: Corpus, positive: int, negatives: tuple[int, ...]) -> bool:
    return any(negative == positive or corpus.contents[negative] == corpus.contents[positive] for negative in negatives)


def _check_pairs(train: TrainingPairs, found: _Findings) -> None:
    found.refuse("positive is also a negative", _contradictions(train), _CONTRADICTION)
    pairs = Counter(zip(train.queries, train.positives.tolist(), strict=True))
    repeated = sum(count - 1 for count in pairs.values())
    found.warn("duplicate pairs", repeated, f"{repeated:,} training pairs repeat an earlier pair exactly")
    share = repeated_share(train.positives)
    again = round(share * len(train))
    plan = "random batches with the duplicate mask" if is_skewed(train.positives) else "no-duplicate batches"
    by_task = ", chosen for each task where batches are drawn by task" if train.tasks else ""
    found.warn("repeated positives", again, f"{share:.1%} of training pairs repeat an earlier positive: {plan}{by_task}")
    same = [row for row, query in enumerate(train.queries) if query == train.corpus.contents[train.positives[row]]]
    where = _place("train", train.origin, same[0], "query") if same else ""
    found.warn("query equals positive", len(same), f"{len(same):,} queries equal their positive word for word, first at {where}")


def _pair_keys(part: TrainingPairs | Judged) -> list[list[tuple[str, str]]]:
    known: dict[int, str] = {}

    def text(row: int) -> str:
        if row not in known:
            known[row] = sameness(part.corpus.contents[row])
        return known[row]

    targets = [[int(row)] for row in part.positives] if isinstance(part, TrainingPairs) else [list(grades) for grades in part.relevance]
    return [[(key, text(row)) for row in rows] for key, rows in zip(map(sameness, part.queries), targets, strict=True)]


def _check_leaks(data: RetrievalData, found: _Findings) -> None:
    if data.train is None:
        return
    train_keys = [keys[0] for keys in _pair_keys(data.train)]
    first = {key: row for row, key in reversed(list(enumerate(train_keys)))}
    queries = {key[0] for key in train_keys}
    places: list[str] = []
    shared: Counter[str] = Counter()
    mirrored = 0
    for split, part in (("dev", data.dev), ("test", data.test)):
        if part is None:
            continue
        for row, keys in enumerate(_pair_keys(part)):
            hit = next((first[key] for key in keys if key in first), None)
            mirrored += any((target, query) in first for query, target in keys)
            if hit is not None:
                places.append(f"{_place(split, part.origin, row, 'query')} is {_place('train', data.train.origin, hit, 'query')}")
            elif sameness(part.queries[row]) in queries:
                shared[split] += 1
    found.refuse("leaked pairs", places, "judged pairs that are also training pairs (up to case and whitespace)")
    found.warn("mirrored pairs", mirrored, f"{mirrored:,} dev and test queries stand in training as the answer of their answer")
    words = ", ".join(f"{count:,} of {split}" for split, count in shared.items())
    found.warn("shared queries", sum(shared.values()), f"queries also seen in training, with other positives: {words}")


def _truncated(data: RetrievalData, token_counter: TokenCounter, max_tokens: int) -> dict[str, float]:
    sides: dict[str, Sequence[Content]] = {}
    if data.train is not None:
        sides["training queries"] = data.train.queries
    corpus = next((part.corpus for _, part in _parts(data)), None)
    if corpus is not None:
        sides["candidates"] = corpus.contents
    shares: dict[str, float] = {}
    for side, texts in sides.items():
        usable = [text for text in _spread(texts) if isinstance(text, str) and text_problem(text) is None]
        if usable:
            shares[side] = float(np.mean(np.asarray(token_counter(usable)) > max_tokens))
    return shares


def _spread(texts: Sequence[Content]) -> list[Content]:
    rows = np.linspace(0, len(texts) - 1, min(len(texts), _COUNTED)).astype(np.int64)
    return [texts[int(row)] for row in rows]


def drop_bad_pairs(data: RetrievalData) -> RetrievalData:
    """Leave out the training pairs that `check_data` refuses for their content, and count them.

    Dropped: pairs whose positive is also an explicit negative, and pairs that are judged pairs of dev or test. Unusable
    texts are dropped earlier, while reading.

    Example:
        >>> corpus = Corpus(("a", "b"), ("x", "y"))
        >>> train = TrainingPairs(("q", "r"), np.array([0, 1]), ((0,), (0,)), corpus, np.array([0, 1]))
        >>> kept = drop_bad_pairs(RetrievalData("toy", "pairs", train, None, None, skewed=False))
        >>> kept.train.queries, kept.dropped
        (('r',), {'positive is also a negative': 1})
    """
    train = data.train
    if train is None:
        return data
    contradicting = np.zeros(len(train), dtype=bool)
    contradicting[_contradicting(train)] = True
    judged = {key for part in (data.dev, data.test) if part is not None for keys in _pair_keys(part) for key in keys}
    leaked = np.asarray([keys[0] in judged for keys in _pair_keys(train)], dtype=bool) & ~contradicting
    keep = ~(contradicting | leaked)
    if keep.all():
        return data
    dropped = Counter(data.dropped)
    for reason, mask in (("positive is also a negative", contradicting), ("training pair is also a judged pair", leaked)):
        if mask.any():
            dropped[reason] += int(mask.sum())
    kept = train.subset(np.flatnonzero(keep))
    return replace(data, train=kept, skewed=is_skewed(kept.positives), dropped=dict(dropped))
