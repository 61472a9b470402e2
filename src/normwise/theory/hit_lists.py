"""What a search found, as a confidence reads it: the K best candidates of each query with scores, norms and lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity

# Log weights of candidates that a re-ranking may use, and the controls that it has to beat.
PRIORS = ("norm", "length", "frequency", "permuted norm")


@dataclass(frozen=True)
class HitLists:
    """The K best candidates of B queries under one similarity, before any calibration.

    Args:
        scores: (B, K) float64 under `similarity`, descending in each row; of any scale and sign.
        query_norms: (B,) Euclidean norms of the raw queries, >= 0.
        hit_norms: (B, K) those of the candidates, >= 0.
        similarity: what the scores are.
        complete: whether K covers every candidate, so that a softmax over the row is one over the corpus.
        query_lengths: (B,) token counts of the queries, where known.
        hit_lengths: (B, K) those of the candidates, where known.
        query_frequency: (B,) how often each query is asked, where known.
        hit_frequency: (B, K) how often each candidate was a positive in training, where known.
        hit_density: (B, K) mean cosine of each candidate with the queries nearest to it (r of CSLS), where known.

    Raises:
        InputError: shapes differ, a value is not finite or below its range, or scores ascend; the message names the query.

    Example:
        >>> HitLists(np.array([[0.9, 0.2]]), np.array([1.0]), np.array([[2.0, 3.0]]), Similarity.COSINE).depth
        2
    """

    scores: np.ndarray
    query_norms: np.ndarray
    hit_norms: np.ndarray
    similarity: Similarity
    complete: bool = False
    query_lengths: np.ndarray | None = None
    hit_lengths: np.ndarray | None = None
    query_frequency: np.ndarray | None = None
    hit_frequency: np.ndarray | None = None
    hit_density: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != 2 or self.scores.shape[1] < 1:
            raise InputError(f"scores have shape {self.scores.shape}; expected (queries, hits) with at least one hit each")
        for name, least in _LEAST.items():
            values = getattr(self, name)
            if values is None:
                continue
            wanted = self.scores.shape if name == "scores" or name.startswith("hit_") else self.scores.shape[:1]
            if values.shape != wanted:
                raise InputError(f"{name} have shape {values.shape}; expected {wanted} beside scores of shape {self.scores.shape}")
            bad = np.argwhere(~np.isfinite(values) | (values < least))
            if bad.size:
                came = values[tuple(bad[0])]
                raise InputError(f"{name} of query {bad[0][0]} hold {came}; expected finite numbers{'' if least < 0 else f' >= {least:g}'}")
        rising = np.flatnonzero((np.diff(self.scores, axis=1) > 0).any(axis=1))
        if rising.size:
            raise InputError(f"scores of query {rising[0]} ascend somewhere; expected the best hit first")

    def __len__(self) -> int:
        return self.scores.shape[0]

    @property
    def depth(self) -> int:
        """K, the number of hits per query."""
        return self.scores.shape[1]

    @property
    def usable(self) -> np.ndarray:
        """(B,) whether query and first hit have a direction: a zero vector scores 0, and one abstains on it."""
        return (self.query_norms > 0.0) & (self.hit_norms[:, 0] > 0.0)

    @property
    def cosines(self) -> np.ndarray:
        """(B, K) the same hits by cosine; 0 where a norm is 0."""
        scores = self.scores
        if not self.similarity.normalizes_query:
            scores = _divided(scores, self.query_norms[:, None])
        return scores if self.similarity.normalizes_candidate else _divided(scores, self.hit_norms)

    @property
    def first_cosines(self) -> np.ndarray:
        """(B,) the first column of `cosines`."""
        first = self.scores[:, 0]
        if not self.similarity.normalizes_query:
            first = _divided(first, self.query_norms)
        return first if self.similarity.normalizes_candidate else _divided(first, self.hit_norms[:, 0])

    def subset(self, rows: np.ndarray) -> HitLists:
        """The lists of some queries, by row numbers or a mask."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return _unchecked({name: value[rows] if isinstance(value, np.ndarray) else value for name, value in values.items()})


@dataclass(frozen=True)
class JudgedHits:
    """Hit lists whose hits were judged, to fit on or to report on.

    Args:
        hits: B queries.
        relevant: (B, K) bool, whether each hit is relevant; a row of a query without an answer is all False.
        clusters: (B,) int64; queries of one cluster (the same text, a shared document) never part.
        answerable: (B,) bool, whether the corpus holds a relevant candidate at all.
        priors: log weights (B, K) of the hits by name, some of `PRIORS`, for re-ranking and its controls.

    Raises:
        InputError: shapes differ.
    """

    hits: HitLists
    relevant: np.ndarray
    clusters: np.ndarray
    answerable: np.ndarray
    priors: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = self.hits.scores.shape
        wanted = {"relevant": shape, "clusters": shape[:1], "answerable": shape[:1]}
        came = {name: getattr(self, name).shape for name in wanted}
        wanted |= dict.fromkeys(self.priors, shape)
        came |= {name: values.shape for name, values in self.priors.items()}
        for name, expected in wanted.items():
            if came[name] != expected:
                raise InputError(f"{name} has shape {came[name]}; expected {expected}: one value for each query or hit")

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def right(self) -> np.ndarray:
        """(B,) bool, whether the first hit is relevant."""
        return self.relevant[:, 0]

    def subset(self, rows: np.ndarray) -> JudgedHits:
        """The lists of some queries, by row numbers or a mask."""
        return JudgedHits(
            self.hits.subset(rows),
            self.relevant[rows],
            self.clusters[rows],
            self.answerable[rows],
            {name: values[rows] for name, values in self.priors.items()},
        )


_LEAST = {
    "scores": -np.inf,
    "query_norms": 0.0,
    "hit_norms": 0.0,
    "query_lengths": 0.0,
    "hit_lengths": 0.0,
    "query_frequency": 0.0,
    "hit_frequency": 0.0,
    "hit_density": -np.inf,
}


def _unchecked(values: Mapping[str, object]) -> HitLists:
    """Lists of rows that were looked at before: a bake-off takes parts by the hundred."""
    made = object.__new__(HitLists)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _divided(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    by = np.broadcast_to(by, values.shape)
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0.0)
