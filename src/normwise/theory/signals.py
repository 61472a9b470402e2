"""What a first hit shows of its own reliability: scores, gaps, norms, lengths, counts. Norms stand beside the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists

# Signals of neighbors read this many hits, so that a search needs no more of them than a first page shows.
NEAR_HITS = 10
_LARGEST = 1e300


@dataclass(frozen=True)
class Signal:
    """What one signal is.

    Args:
        orientation: +1 if a higher value should mean a more certain first hit, -1 if a lower one; said before any data.
        depth: how many hits it reads; None = the whole row.
        words: one line for a reader.
    """

    orientation: int
    depth: int | None
    words: str


def _score_under(similarity: Similarity) -> str:
    return f"score under {similarity.value}"


SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {
        "score": Signal(1, 1, "score of the first hit under the model's similarity"),
        "margin": Signal(1, 2, "first score minus second"),
        "spread": Signal(1, NEAR_HITS, "standard deviation of the first ten scores"),
        "lead": Signal(1, NEAR_HITS, "first score minus the mean of the next nine"),
        "entropy": Signal(-1, NEAR_HITS, "entropy of the softmax over the first ten hits at the training temperature"),
        "residual": Signal(-1, None, "what the softmax over the whole row leaves to the other hits"),
        "log query norm": Signal(1, 1, "log norm of the query; which way it points depends on the regime it was trained in"),
        "log hit norm": Signal(1, 1, "log norm of the first hit; which way it points depends on the regime"),
        **{_score_under(each): Signal(1, 1, f"score of the same first hit under {each.value}") for each in Similarity},
        "query length": Signal(1, 1, "log(1 + tokens) of the query"),
        "hit length": Signal(1, 1, "log(1 + tokens) of the first hit"),
        "query frequency": Signal(1, 1, "log(1 + how often the query is asked)"),
        "hit frequency": Signal(1, 1, "log(1 + how often the first hit was a positive in training)"),
        "local scaling": Signal(1, NEAR_HITS, "twice the cosine, less the mean cosine around the query and around the hit"),
    }
)


def signals(
    hits: HitLists, *, temperature: float | None = None, names: Collection[str] | None = None
) -> dict[str, Float[np.ndarray, " B"]]:
    """Return every signal of `SIGNALS` that these hit lists allow, or some of them, one number per query.

    Equation, with s_1 >= s_2 >= ... the row's scores and m = min(10, K):
    margin = s_1 - s_2; spread = std(s_1..s_m); lead = s_1 - mean(s_2..s_m); with a temperature, p the softmax of s / tau,
    entropy = -sum p log p over the first m, residual = 1 - p_1 over the whole row; lengths and frequencies as log(1 + x);
    local scaling = 2 cos - r_D - r_Q, r_D the mean cosine of the row's first m hits (the query's nearest, where the ranking is
    that of cosine), r_Q the first hit's density. With a single hit margin, spread, lead, entropy and residual are 0.

    "score under X" is the first hit's score under each similarity other than the model's own. Where a norm is zero its log
    stands in as 0 and its cosine as 0: such a row is not `usable`, so nothing reads them. All is computed from differences to
    the first score, so scores of any size and sign are safe.

    Args:
        hits: B queries.
        temperature: tau > 0 of the training loss; None leaves entropy and residual out.
        names: which to compute, where they are known; None for all.

    Returns:
        (B,) finite float64 by name, in the order of `SIGNALS`.

    Raises:
        InputError: the temperature is not a positive finite number.

    Reference: local scaling is CSLS of Conneau et al. (2018), lead its query side alone; the rest are common ground.

    Example:
        >>> one = HitLists(np.array([[0.9, 0.7, 0.2]]), np.array([2.0]), np.array([[1.0, 1.0, 3.0]]), Similarity.COSINE)
        >>> {name: round(float(value[0]), 3) for name, value in signals(one).items()}["score under dot"]
        1.8
    """
    tau = None if temperature is None else check_temperature(temperature)
    # Products of absurd norms may leave float64; they come back as its largest numbers, so that every signal is finite.
    with np.errstate(over="ignore", invalid="ignore"):
        read = {name: _READERS[name](hits, tau) for name in SIGNALS if names is None or name in names}
    return {name: np.nan_to_num(each, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST) for name, each in read.items() if each is not None}


def check_temperature(temperature: float) -> float:
    """Return the temperature of a softmax, or say what is wrong with it."""
    if not (np.isfinite(temperature) and temperature > 0.0):
        raise InputError(f"temperature is {temperature}; expected a finite number above 0: the tau of the training loss")
    return float(temperature)


def _below(hits: HitLists) -> np.ndarray:
    """(B, m) how far each of the first hits lies below the very first."""
    near = hits.scores[:, :NEAR_HITS].astype(np.float64)
    return near[:, :1] - near


def _margin(hits: HitLists, _: float | None) -> np.ndarray:
    return hits.scores[:, 0] - hits.scores[:, 1] if hits.depth > 1 else np.zeros(len(hits))


def _lead(hits: HitLists, _: float | None) -> np.ndarray:
    return _below(hits)[:, 1:].mean(axis=1) if hits.depth > 1 else np.zeros(len(hits))


def _entropy(hits: HitLists, temperature: float | None) -> np.ndarray | None:
    if temperature is None:
        return None
    gaps = _below(hits) / temperature
    weights = np.exp(-gaps)
    total = weights.sum(axis=1)
    # log p = -gap - log total, so that a vanished p never meets its logarithm.
    return np.log(total) + np.where(weights > 0.0, weights * np.where(weights > 0.0, gaps, 0.0), 0.0).sum(axis=1) / total


def _residual(hits: HitLists, temperature: float | None) -> np.ndarray | None:
    if temperature is None:
        return None
    others = np.exp((hits.scores[:, 1:] - hits.scores[:, :1]) / temperature).sum(axis=1)
    return others / (1.0 + others)


def _local_scaling(hits: HitLists, _: float | None) -> np.ndarray | None:
    if hits.hit_density is None:
        return None
    cosines = hits.cosines[:, :NEAR_HITS]
    return 2.0 * cosines[:, 0] - cosines.mean(axis=1) - hits.hit_density[:, 0]


def _log_norm(norms: np.ndarray) -> np.ndarray:
    return np.log(np.where(norms > 0.0, norms, 1.0))


def _log_count(values: np.ndarray | None) -> np.ndarray | None:
    return None if values is None else np.log1p(values if values.ndim == 1 else values[:, 0])


def _other_score(hits: HitLists, similarity: Similarity) -> np.ndarray | None:
    if similarity is hits.similarity:
        return None
    query = 1.0 if similarity.normalizes_query else hits.query_norms
    return hits.first_cosines * query * (1.0 if similarity.normalizes_candidate else hits.hit_norms[:, 0])


# Each from the hits and the temperature; None where these hits do not know it.
_READERS: Mapping[str, Callable[[HitLists, float | None], np.ndarray | None]] = MappingProxyType(
    {
        "score": lambda hits, _: hits.scores[:, 0].astype(np.float64),
        "margin": _margin,
        "spread": lambda hits, _: _below(hits).std(axis=1),
        "lead": _lead,
        "entropy": _entropy,
        "residual": _residual,
        "log query norm": lambda hits, _: _log_norm(hits.query_norms),
        "log hit norm": lambda hits, _: _log_norm(hits.hit_norms[:, 0]),
        **{_score_under(each): lambda hits, _, each=each: _other_score(hits, each) for each in Similarity},
        "query length": lambda hits, _: _log_count(hits.query_lengths),
        "hit length": lambda hits, _: _log_count(hits.hit_lengths),
        "query frequency": lambda hits, _: _log_count(hits.query_frequency),
        "hit frequency": lambda hits, _: _log_count(hits.hit_frequency),
        "local scaling": _local_scaling,
    }
)
