"""What a search found, in columns: arrays for programs, hits one by one for people."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import SupportsIndex, overload

import numpy as np

from normwise.core.search_records import Hit
from normwise.report.words import counted

Reason = Callable[[int, int], str]


@dataclass(frozen=True)
class SearchResult:
    """The k best candidates of B queries; everything is (B, k), and a row's places behind `counts` hold nothing.

    A sequence of B lists of hits: `found[0]` is `found.hits(0)`, `found[-1]` those of the last query.

    Args:
        ids: object array of str, None behind `counts`.
        scores: float64 under `similarity`, best first unless the calibration re-ranks; -inf behind `counts`.
        norms: float64 lengths of the raw candidate vectors; 0 behind `counts`.
        counts: (B,) how many hits each query has.
        similarity: what the scores are.
        probabilities: float64 that each hit is relevant; NaN where nobody knows. A zero vector has 0.
        abstains: bool, whether a hit is not to be trusted.
        reason_at: from row and place to why, in words.
        queries: B texts, or the words of pictures; None where vectors asked.
        texts_of: from ids to texts, where the index has them; it must be open when hits are made.
        why_not_calibrated: why no probabilities are there; empty where they are.
        notes: what a person should know of this search.
        verdict: why no threshold exists, where a calibration has none; the reasons of its hits say only that it does not. Empty
            elsewhere.
    """

    ids: np.ndarray
    scores: np.ndarray
    norms: np.ndarray
    counts: np.ndarray
    similarity: str
    probabilities: np.ndarray
    abstains: np.ndarray
    reason_at: Reason = field(repr=False)
    queries: tuple[str, ...] | None = None
    texts_of: Callable[[Sequence[str]], list[str | None]] | None = field(default=None, repr=False)
    why_not_calibrated: str = ""
    notes: tuple[str, ...] = ()
    verdict: str = ""

    def __len__(self) -> int:
        return self.ids.shape[0]

    def __iter__(self) -> Iterator[list[Hit]]:
        return (self.hits(row) for row in range(len(self)))

    @overload
    def __getitem__(self, row: SupportsIndex) -> list[Hit]: ...
    @overload
    def __getitem__(self, row: slice) -> list[list[Hit]]: ...
    def __getitem__(self, row: SupportsIndex | slice) -> list[Hit] | list[list[Hit]]:
        return [self.hits(one) for one in range(len(self))[row]] if isinstance(row, slice) else self.hits(row)

    def query(self, row: SupportsIndex) -> str | int:
        """The text that asked (of a picture its words), or the row of its vector."""
        place = self._place(row)
        return place if self.queries is None else self.queries[place]

    def hits(self, row: SupportsIndex) -> list[Hit]:
        """The hits of one query, best first; a negative row counts from the end.

        Raises:
            IndexError: no such row.
        """
        return self._made([self._place(row)])

    def all_hits(self) -> list[Hit]:
        """The hits of all queries, one query after the other."""
        return self._made(range(len(self)))

    def with_texts(self) -> SearchResult:
        """The same with the texts of all hits at hand, so that the index may be closed."""
        if self.texts_of is None:
            return self
        distinct = list(dict.fromkeys(name for name in self.ids.ravel().tolist() if name is not None))
        known = dict(zip(distinct, self.texts_of(distinct), strict=True))
        return replace(self, texts_of=lambda names: [known[name] for name in names])

    def to_json(self) -> str:
        """One flat JSON list of hits, as `normwise search --json` prints it."""
        return json.dumps([hit.model_dump(mode="json") for hit in self.all_hits()], ensure_ascii=False, allow_nan=False)

    def _place(self, row: SupportsIndex) -> int:
        wanted = index(row)
        try:
            return range(len(self))[wanted]
        except IndexError:
            raise IndexError(f"row {wanted} of a result of {counted(len(self), 'query')}") from None

    def _made(self, rows: Sequence[int]) -> list[Hit]:
        places = [(row, place) for row in rows for place in range(int(self.counts[row]))]
        texts = self._texts([self.ids[at] for at in places])
        return [
            Hit(
                id=self.ids[at],
                score=float(self.scores[at]),
                similarity=self.similarity,
                norm=float(self.norms[at]),
                probability=None if math.isnan(known := float(self.probabilities[at])) else known,
                abstain=bool(self.abstains[at]),
                reason=self.reason_at(*at),
                query=self.query(at[0]),
                rank=at[1] + 1,
                text=text,
            )
            for at, text in zip(places, texts, strict=True)
        ]

    def _texts(self, ids: list[str]) -> list[str | None]:
        if self.texts_of is None or not ids:
            return [None] * len(ids)
        distinct = list(dict.fromkeys(ids))
        known = dict(zip(distinct, self.texts_of(distinct), strict=True))
        return [known[name] for name in ids]
