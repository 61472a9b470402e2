"""Queries that stand in two splits: dev queries that are test queries, and judged ones that are training queries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from normwise.core.errors import InputError
from normwise.data.contents import content_words, sameness
from normwise.data.sets import Judged, TrainingPairs
from normwise.data.texts import printable

TOO_MUCH = "knows the answers, and its calibration would promise too much"


def known_from_training(parts: Mapping[str, Judged | None], train: TrainingPairs | None) -> list[str]:
    """Say how many judged queries are training queries too.

    Args:
        parts: judged queries by the name of their split.
        train: training pairs, if the data have any. One id has one text, so that texts tell of both.

    Returns:
        A note, or none.

    Example:
        >>> from normwise.data.sets import Corpus
        >>> corpus = Corpus(("a",), ("x",))
        >>> test = Judged(("1", "2"), ("what is x?", "and y?"), ({0: 1.0}, {}), corpus, np.arange(2))
        >>> train = TrainingPairs(("What  is x?",), np.array([0]), ((),), corpus, np.arange(1))
        >>> known_from_training({"test": test}, train)[0].partition(":")[0]
        '1 of 2 test queries are training queries too, by id or text'
    """
    if train is None:
        return []
    trained = set(map(sameness, train.queries))
    found = {name: sum(sameness(content) in trained for content in part.queries) for name, part in parts.items() if part is not None}
    words = " and ".join(f"{count:,} of {len(parts[name] or ()):,} {name} queries" for name, count in found.items() if count)
    return [f"{words} are training queries too, by id or text: a model that was trained on them {TOO_MUCH}"] if words else []


def without_repeated(dev: Judged, test: Judged, *, may_drop: bool) -> tuple[Judged, int]:
    """Refuse a query that is in dev and in test, by id or text; of a built-in set, which nobody can repair, leave it out of dev.

    Returns:
        The dev queries, and how many were left out.

    Raises:
        InputError: names both queries by row.
    """
    ids = {name: row for row, name in enumerate(test.query_ids)}
    contents = {sameness(content): row for row, content in enumerate(test.queries)}
    kept = []
    for row, (name, content) in enumerate(zip(dev.query_ids, dev.queries, strict=True)):
        twin = ids.get(name, contents.get(sameness(content)))
        if twin is None:
            kept.append(row)
        elif not may_drop:
            shown = content_words(content)
            raise InputError(
                f"{_named(dev, row)} (dev, which fits) and {_named(test, twin)} (test) are the same query, {shown!r:.80}: a calibration "
                "that is tested on what fitted it promises too much; take it out of one of them, or delete the dev judgements, and "
                "the test queries are split in halves"
            )
    return (dev if len(kept) == len(dev) else dev.subset(np.asarray(kept, dtype=np.int64))), len(dev) - len(kept)


def _named(judged: Judged, row: int) -> str:
    where = "" if judged.origin is None else f" in {judged.origin.at(row)}"
    return f"query {printable(judged.query_ids[row])!r}{where}"
