"""What every index does, whichever engine is behind it: raw norms kept, the right metric and sign, one answer in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from normwise.core.index_records import IndexManifest

Where = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Found:
    """The K best candidates of B queries.

    Args:
        ids: (B, K) object array of str; None in places behind `counts`.
        scores: (B, K) float64 under the index's own similarity, query norm included where it has one; descending; 0 for a
            zero vector; -inf behind `counts`.
        norms: (B, K) float64 norms of the raw candidate vectors, as precise as they are stored; 0 behind `counts`.
        counts: (B,) int64 how many hits each query has: fewer than K only where a filter or deletions leave fewer.
        lengths: (B, K) float64 token counts of the candidates; None where the index has none.
    """

    ids: np.ndarray
    scores: np.ndarray
    norms: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray | None = None


class Index(Protocol):
    """Nearest candidates by cosine or by inner product, with the norm of every raw vector beside them.

    Equal scores come in the order in which candidates were added, in exact kinds. Zero vectors score 0, never NaN.
    """

    @property
    def manifest(self) -> IndexManifest:
        """What is in it and how it was built; after `add` and `delete`, the corpus as it is now."""
        ...

    def __len__(self) -> int: ...

    def search(self, queries: np.ndarray, *, k: int, where: Where | None = None) -> Found:
        """Return the k best candidates (all, where there are fewer) of raw queries (B, D).

        Args:
            queries: (B, D) float16, float32 or float64 raw vectors; B may be 0.
            k: >= 1.
            where: metadata that a hit must have, all of it, by equality.

        Raises:
            InputError: width, k, a value that is not finite, or a metadata key that the index does not have.
            WorkError: a server is down, too slow or holds something else than it should.
        """
        ...

    def add(
        self,
        ids: Sequence[str],
        vectors: np.ndarray,
        *,
        texts: Sequence[str] | None = None,
        lengths: np.ndarray | None = None,
        metadata: Sequence[Mapping[str, str | int | float | bool]] | None = None,
    ) -> None:
        """Add candidates; an id that is there already is an InputError: delete it first."""
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Take candidates out; an id that is not there is an InputError, and nothing is deleted then."""
        ...

    def texts(self, ids: Sequence[str]) -> list[str | None]:
        """The texts of candidates, where the index was given them."""
        ...

    def metadata(self, ids: Sequence[str]) -> list[Mapping[str, str | int | float | bool]]:
        """The metadata of candidates, each value of the type that it was given with; empty where there are none.

        Raises:
            InputError: an id is not there.
        """
        ...

    def save(self) -> None:
        """Put what `add` and `delete` changed into the folder; nothing is left to do where a server has it already.

        Raises:
            WorkError: the disk refused, or somebody else has saved since this one was opened; the folder is as it was.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
