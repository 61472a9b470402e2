"""InfoNCE on a finite space, where every expectation is a finite sum: the oracle of bounds, constants and estimators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp, rel_entr

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int

# Counts that one enumeration holds in memory, ways times points; 96 draws on 4 points are 156,849 times 4.
MOST_COUNTS = 20_000_000
_CHUNK_VALUES = 1 << 20
_SUM = 1e-9


@dataclass(frozen=True, eq=False)
class FiniteSpace:
    """Points with a data law, a positive kernel, and scores that an encoder gives their pairs.

    A tuple is a point z ~ law, its positive z+ ~ positives[z], and k negatives ~ law, independent of each other.

    Args:
        law: (n,) probabilities pi of the points, all above 0, in float64.
        scores: (n, n) s(z, z') = similarity / temperature, of any sign.
        positives: (n, n) rows M(z, .), the law of z's positive. The law of all positives need not be `law`.

    Raises:
        InputError: shapes differ, a row is no law, or a value is not finite.

    Reference: Whiteley (2026), section 2, for the objects; densities are relative to pi.

    Example:
        >>> space = FiniteSpace(np.full(2, 0.5), np.zeros((2, 2)), np.eye(2))
        >>> space.cross_entropy, round(space.risk(3), 6)
        (0.0, 0.287682)
    """

    law: np.ndarray
    scores: np.ndarray
    positives: np.ndarray

    def __post_init__(self) -> None:
        n = self.law.size
        for name, expected in (("law", (n,)), ("scores", (n, n)), ("positives", (n, n))):
            came = getattr(self, name)
            if came.shape != expected or not n:
                raise InputError(f"{name} has shape {came.shape}; expected (n,) for law, (n, n) for scores and positives, n at least 1")
            bad = np.argwhere(~np.isfinite(came))
            if bad.size:
                place = tuple(bad[0].tolist())
                raise InputError(f"{name} is {came[place]} at {place}; expected finite values")
        if (self.law <= 0.0).any() or abs(self.law.sum() - 1.0) > _SUM:
            raise InputError(
                f"law sums to {self.law.sum():.12g}, its least value is {self.law.min():.6g}; "
                "expected values above 0 of sum 1: leave out points of probability 0, and divide by the sum"
            )
        sums, least = self.positives.sum(axis=1), self.positives.min(axis=1)
        bad = np.flatnonzero((least < 0.0) | (np.abs(sums - 1.0) > _SUM))
        if bad.size:
            row = int(bad[0])
            raise InputError(
                f"positives: row {row} sums to {sums[row]:.12g}, its least value is {least[row]:.6g}; "
                "expected values of at least 0 of sum 1: divide each row by its sum"
            )

    @classmethod
    def at_optimum(cls, law: np.ndarray, positives: np.ndarray) -> FiniteSpace:
        """Return the space whose scores are log dM/dpi, where the search law Q is M and H is least.

        Raises:
            InputError: as the class, or a positive of probability 0, whose score would be minus infinity.
        """
        space = cls(law, np.zeros((law.size, law.size)), positives)
        return cls(law, space._log_ratio("the score of the best encoder, log dM/dpi,"), positives)

    @cached_property
    def log_mean(self) -> Float[np.ndarray, " n"]:
        """(n,) log mu(z), mu(z) = E_{z' ~ pi} e^{s(z, z')}."""
        return np.asarray(logsumexp(self.scores + np.log(self.law), axis=1))

    @property
    def density(self) -> Float[np.ndarray, "n n"]:
        """(n, n) dQ/dpi(z, z') = e^{s(z, z')} / mu(z), of the softmax search law."""
        return np.exp(self.scores - self.log_mean[:, None])

    @property
    def cv2(self) -> Float[np.ndarray, " n"]:
        """(n,) Var_{z' ~ pi}(e^s) / mu^2 = chi2(Q(z, .) || pi), >= 0."""
        return (((self.density - 1.0) * np.sqrt(self.law)) ** 2).sum(axis=1)

    @property
    def cross_entropy(self) -> float:
        """H = E_{z ~ pi} CrossEnt[M(z, .) || Q(z, .)] = E[-s(z, z+)] + E log mu(z), densities relative to pi; may be negative."""
        return float(self.law @ (self.positives * (self.log_mean[:, None] - self.scores)).sum(axis=1))

    @property
    def information(self) -> float:
        """E_z KL(M(z, .) || pi) in nats; -H never exceeds it, and reaches it where Q is M."""
        return float(self.law @ rel_entr(self.positives, self.law).sum(axis=1))

    @property
    def chi2(self) -> float:
        """E_z of the chi-square divergence of M(z, .) from pi, E_pi[(dM/dpi)^2] - 1; 0 where positives are drawn as negatives are."""
        return float(self.law @ (((self.positives / self.law - 1.0) * np.sqrt(self.law)) ** 2).sum(axis=1))

    def risk(self, k: int) -> float:
        """Return the InfoNCE risk with k negatives, less log k.

        Equation: R_k = E log(1/k + (1/k) sum_j e^{s(z, z_j) - s(z, z+)}), z_j ~ pi.

        Args:
            k: negatives, >= 1.

        Raises:
            InputError: k is below 1, or too large to enumerate (`count_vectors`).
        """
        weights = self.law[:, None] * self.positives
        return sum(
            float(chance @ np.einsum("czw,zw->c", np.logaddexp(-math.log(k), log_means[:, :, None] - self.scores), weights))
            for chance, log_means, _ in self._draws(k)
        )

    def decoupled_risk(self, k: int) -> float:
        """Return the risk whose denominator lacks the positive (DCL), less log k.

        Equation: Rt_k = E[-s(z, z+)] + E log((1/k) sum_j e^{s(z, z_j)}), z_j ~ pi.

        Raises:
            InputError: as `risk`.
        """
        # Taken off log mu, a mean keeps the digits that the gap of a large k consists of.
        return self.cross_entropy + sum(float(chance @ ((log_means - self.log_mean) @ self.law)) for chance, log_means, _ in self._draws(k))

    def search_cross_entropy(self, m: int) -> float:
        """Return H_m, the mean cross-entropy of softmax search over m points against the ideal search over the same points.

        Equation: H_m = -E sum_i w_i log(m q_i), points xi_1..xi_m ~ pi; w_i is in proportion to dM/dpi(z, xi_i), q_i to e^{s(z, xi_i)},
        each of sum 1. Relative to the uniform law of the m points, as H is to pi.

        Args:
            m: candidates, >= 1.

        Raises:
            InputError: as `risk`, or a positive of probability 0: all m points may then have weight 0.
        """
        ratio = self._log_ratio("the ideal search over m points")
        total = 0.0
        for chance, log_means, log_counts in self._draws(m):
            ideal = log_counts + ratio
            ideal = np.exp(ideal - logsumexp(ideal, axis=2, keepdims=True))
            total += float(chance @ ((ideal * (log_means[:, :, None] - self.scores)).sum(axis=2) @ self.law))
        return total

    def _log_ratio(self, needed: str) -> np.ndarray:
        """Log dM/dpi, which must be finite for what is needed."""
        bad = np.argwhere(self.positives <= 0.0)
        if bad.size:
            raise InputError(f"positives is 0 at {tuple(bad[0].tolist())}; {needed} is not defined there: expected values above 0")
        return np.log(self.positives / self.law)

    def _draws(self, k: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Every way in which k draws fall on the points, in parts.

        Yields:
            Chances (C,), log (1/k) sum_j e^{s(z, z_j)} (C, n), and the log of the counts (C, 1, n).
        """
        n = self.law.size
        counts = count_vectors(k, n)
        step = max(1, _CHUNK_VALUES // n**2)
        for start in range(0, len(counts), step):
            part = counts[start : start + step].astype(np.float64)
            chance = np.exp(gammaln(k + 1.0) - gammaln(part + 1.0).sum(axis=1) + part @ np.log(self.law))
            with np.errstate(divide="ignore"):
                logs = np.log(part)[:, None, :]
            yield chance, np.asarray(logsumexp(logs + self.scores, axis=2)) - math.log(k), logs


def count_vectors(k: int, points: int) -> Int[np.ndarray, "C n"]:
    """Return every way in which k draws fall on some points, as the count of each point.

    Args:
        k: draws, >= 1.
        points: n, >= 1.

    Returns:
        (C, n) counts of sum k, in lexical order; C = (k + n - 1)! / (k! (n - 1)!).

    Raises:
        InputError: k or points is below 1, or C n is above `MOST_COUNTS`.

    Example:
        >>> count_vectors(2, 2).tolist()
        [[0, 2], [1, 1], [2, 0]]
    """
    if k < 1 or points < 1:
        raise InputError(f"k is {k}, points is {points}; expected at least 1 draw on at least 1 point")
    if gammaln(k + points) - gammaln(k + 1.0) - gammaln(points) > math.log(MOST_COUNTS / points):
        raise InputError(f"{k} draws fall on {points} points in more than {MOST_COUNTS // points:,} ways; take fewer draws or fewer points")
    found, left = np.empty((1, 0), dtype=np.int64), np.array([k])
    for _ in range(points - 1):
        times = left + 1
        first = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        found = np.concatenate([np.repeat(found, times, axis=0), first[:, None]], axis=1)
        left = np.repeat(left, times) - first
    return np.concatenate([found, left[:, None]], axis=1)
