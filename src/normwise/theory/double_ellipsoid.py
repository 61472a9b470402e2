"""The double ellipsoid: whether each modality lies on a thin shell of its own, off the origin and tilted against the axes.

Every property has a threshold that stands here, before any data: it holds where the whole 95% interval of its figure lies beyond
the threshold, does not hold where the whole interval lies on the other side, and is undecided in between. The picture holds where all
its properties do, and does not where one of them does not.

Reference: Levi and Gilboa, "The double-ellipsoid geometry of CLIP", arXiv 2411.14517. The figures, thresholds and nulls are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.covariance import ledoit_wolf

from normwise.core.errors import InputError
from normwise.core.modality_records import DoubleEllipsoid, Ellipsoid, EllipsoidProperty, Holds
from normwise.core.records import Interval
from normwise.core.shapes import Float
from normwise.theory.resamples import cluster_resamples

# A shell thinner than a quarter of its radius; a Gaussian of 8 equal dimensions is just as thick (1 / sqrt(2 D)).
SHELL_BELOW = 0.25
# The mean holds at least a twentieth of the mean squared length.
OFFSET_ABOVE = 0.05
# At least a tenth of the squared correlations between coordinates lies off the diagonal, beyond chance.
TILT_ABOVE = 0.1
# A direction that other rows chose tells the modalities apart in 95 of 100 pairs.
SEPARATES_ABOVE = 0.95
LEAST_ROWS, MOST_ROWS = 60, 2_000
_GROUPS, _FLIPS, _SHUFFLES, _DRAWS = 20, 199, 49, 1_000
# A coordinate that varies less than this share of the most varied one is rounding.
_FLAT = 1e-6
_WORTH = 1.959964


def offset_share(x: Float[np.ndarray, "N D"]) -> float:
    """Return ||mean||^2 over the mean squared length, without the excess that chance gives.

    Equation: mean over i != j of <x_i, x_j> / mean ||x_i||^2: 0 on average for a cloud around the origin, 1 for one point.

    Example:
        >>> offset_share(np.array([[1.0, 0.0], [0.0, 1.0]])), offset_share(np.ones((3, 2)))
        (0.0, 1.0)
    """
    total, squares = x.sum(axis=0), float((x**2).sum())
    rows = len(x)
    return 0.0 if squares == 0.0 else float((total @ total - squares) / (rows - 1) / squares)


def tilt_share(x: Float[np.ndarray, "N D"]) -> float:
    """Return the share of the squared correlations between coordinates that is off the diagonal, less what chance gives.

    Equation: with R the correlations and T = sum_(i != j) R_ij^2, S = (T - T_0) / (1 - 1 / (N - 1)), T_0 = D (D - 1) / (N - 1), which
    is the exact mean of T when every coordinate is shuffled by itself: max(S, 0) / (D + max(S, 0)). 0 for axes of their own, near 1
    where all coordinates move together; D (1 - share) is the number of dimensions that correlations leave.

    Example:
        >>> tilt_share(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
        0.0
    """
    correlations = _correlations(x)
    width, rows = len(correlations), len(x)
    chance = width * (width - 1) / (rows - 1)
    beyond = max(0.0, (float((correlations**2).sum()) - width - chance) / (1.0 - 1.0 / (rows - 1)))
    return beyond / (width + beyond)


def held_out_distances(x: Float[np.ndarray, "N D"], *, seed: int) -> tuple[Float[np.ndarray, " N"], float]:
    """Return Mahalanobis distances under a covariance that other rows gave, and how many dimensions these distances have.

    Equation: for each half, r_i^2 = (x_i - m)' S^-1 (x_i - m), S the shrunk covariance of the other half (Ledoit-Wolf) and m the mean
    of the half itself, scaled to mean r^2 = 1. With W = S^-1/2 C S^-1/2 and C the covariance of the half, a Gaussian has
    Var(r^2) / E(r^2)^2 = 2 / D_eff, D_eff = (tr W)^2 / tr W^2 <= D: equal to D where S is right.

    Args:
        x: (N, D), at least 8 rows.
        seed: of the halves.

    Returns:
        (N,) distances and the mean D_eff of both halves.
    """
    order = np.random.default_rng(seed).permutation(len(x))
    half = len(x) // 2
    distances, dimensions = np.empty(len(x)), []
    for held, known in ((order[:half], order[half:]), (order[half:], order[:half])):
        factor = np.linalg.cholesky(ledoit_wolf(x[known])[0])
        whitened = solve_triangular(factor, (x[held] - x[held].mean(axis=0)).T, lower=True).T
        squares = np.einsum("nd,nd->n", whitened, whitened)
        rows = len(held)
        gram = whitened.T @ whitened if x.shape[1] < rows else whitened @ whitened.T
        # Pairs of different rows only: a row with itself would count its own tail.
        second = (float((gram**2).sum()) - float((squares**2).sum())) / (rows * (rows - 1))
        dimensions.append(float(squares.mean()) ** 2 / second)
        distances[held] = np.sqrt(squares / squares.mean())
    return distances, float(np.mean(dimensions))


def thickness(distances: Float[np.ndarray, " N"], *, seed: int) -> Interval:
    """Return the spread of distances over their mean with its bootstrap interval; 0 for a shell without thickness.

    Example:
        >>> thickness(np.ones(10), seed=0).mean
        0.0
    """
    moments = np.stack([np.ones_like(distances), distances, distances**2], axis=1)
    draws = [
        part.times(np.arange(distances.size)) @ moments for part in cluster_resamples(np.arange(distances.size), seed=seed, samples=_DRAWS)
    ]
    sums = np.concatenate(draws)
    means = sums[:, 1] / sums[:, 0]
    low, high = np.quantile(np.sqrt(np.maximum(sums[:, 2] / sums[:, 0] - means**2, 0.0)) / means, [0.025, 0.975])
    return Interval(mean=float(distances.std() / distances.mean()), ci_low=float(low), ci_high=float(high))  # fmt: skip


def ellipsoid(x: Float[np.ndarray, "N D"], *, seed: int) -> Ellipsoid:
    """Judge one modality's cloud: shell, offset and tilt, each against the threshold of this module.

    Args:
        x: (N, D) raw vectors, rows that are independent; more than 2,000 are sampled.
        seed: of samples, halves, nulls and the bootstrap.

    Returns:
        The figures with outcomes. With fewer than 60 rows nothing is decided, and the note says so.

    Raises:
        InputError: no two-dimensional array of at least two coordinates.

    Example:
        >>> ellipsoid(np.random.default_rng(0).normal(size=(300, 16)), seed=0).offset.outcome
        'does not hold'
    """
    if x.ndim != 2 or x.shape[1] < 2:
        raise InputError(f"vectors have shape {x.shape}: expected rows of at least two coordinates")
    if len(x) < LEAST_ROWS:
        return _too_few(len(x))
    rng = np.random.default_rng(seed)
    chosen = x if len(x) <= MOST_ROWS else x[np.sort(rng.choice(len(x), MOST_ROWS, replace=False))]
    cloud = chosen.astype(np.float64)
    spread = cloud.std(axis=0)
    if not spread.max() > 0.0:
        return _too_few(len(x)).model_copy(update={"note": "all vectors are equal: a point has no shell"})
    cloud = cloud / np.sqrt((cloud**2).mean())
    distances, dimensions = held_out_distances(cloud, seed=seed)
    squares = distances**2
    shell = judged(thickness(distances, seed=seed), SHELL_BELOW, above=False)
    offset = judged(_jackknifed(offset_share, cloud, rng), OFFSET_ABOVE, p_value=_offset_chance(cloud, rng))
    tilt = judged(_jackknifed(tilt_share, cloud, rng), TILT_ABOVE, p_value=_tilt_chance(cloud, rng))
    return Ellipsoid(
        rows=len(cloud),
        shell=shell,
        gaussian_shell=1.0 / np.sqrt(2.0 * dimensions),
        shell_ratio=float(squares.var() / squares.mean() ** 2 * dimensions / 2.0),
        effective_dimensions=dimensions,
        offset=offset,
        tilt=tilt,
        outcome=together([shell.outcome, offset.outcome, tilt.outcome]),
    )


def double_ellipsoid(
    x: Float[np.ndarray, "N D"], y: Float[np.ndarray, "M D"], separability: Interval, *, names: tuple[str, str], seed: int
) -> DoubleEllipsoid:
    """Judge whether two modalities lie each on an ellipsoid of its own.

    Args:
        x: (N, D) raw vectors of the first.
        y: (M, D) raw vectors of the second.
        separability: the held-out AUC of the direction between them (`ModalityGap.direction_auc`).
        names: what they are called.
        seed: as in `ellipsoid`.

    Returns:
        Both clouds and the outcome: "holds" only where shell, offset and tilt hold for both and they are told apart.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> apart = Interval(mean=0.5, ci_low=0.4, ci_high=0.6)
        >>> double_ellipsoid(rng.normal(size=(99, 16)), rng.normal(size=(99, 16)), apart, names=("a", "b"), seed=0).outcome
        'does not hold'
    """
    first, second = ellipsoid(x, seed=seed), ellipsoid(y, seed=seed)
    apart = judged(separability, SEPARATES_ABOVE)
    outcome = together([first.outcome, second.outcome, apart.outcome])
    return DoubleEllipsoid(
        first=first, second=second, separability=apart, outcome=outcome, words=_words(first, second, apart, outcome, names)
    )


def judged(figure: Interval, threshold: float, *, above: bool = True, p_value: float | None = None) -> EllipsoidProperty:
    """Return a property with its outcome, by the side of the threshold on which the whole interval lies.

    A null that chance reaches (p >= 0.05) keeps a property from holding.

    Example:
        >>> judged(Interval(mean=0.5, ci_low=0.4, ci_high=0.6), 0.3).outcome
        'holds'
    """
    low, high = figure.ci_low, figure.ci_high
    outcome: Holds = "undecided"
    if low is not None and high is not None:
        beyond, short = (low > threshold, high < threshold) if above else (high < threshold, low > threshold)
        by_chance = p_value is not None and p_value >= 0.05
        outcome = "holds" if beyond and not by_chance else "does not hold" if short else "undecided"
    return EllipsoidProperty(figure=figure, threshold=threshold, above=above, outcome=outcome, p_value=p_value)


def together(outcomes: Sequence[Holds]) -> Holds:
    """Return the outcome of a claim that needs all of several.

    Example:
        >>> together(["holds", "undecided"]), together(["holds", "does not hold", "undecided"])
        ('undecided', 'does not hold')
    """
    if "does not hold" in outcomes:
        return "does not hold"
    return "undecided" if "undecided" in outcomes else "holds"


def _correlations(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    kept = spread > _FLAT * spread.max()
    scaled = (x[:, kept] - x[:, kept].mean(axis=0)) / spread[kept]
    return scaled.T @ scaled / len(x)


def _jackknifed(figure: Callable[[np.ndarray], float], x: np.ndarray, rng: np.random.Generator) -> Interval:
    """A figure with the normal interval of a jackknife that leaves a twentieth of the rows out: copies of a bootstrap would bias it."""
    whole = figure(x)
    group = rng.permutation(len(x)) % _GROUPS
    left = np.array([figure(x[group != number]) for number in range(_GROUPS)])
    error = float(np.sqrt((_GROUPS - 1) / _GROUPS * ((left - left.mean()) ** 2).sum()))
    return Interval(mean=whole, ci_low=whole - _WORTH * error, ci_high=whole + _WORTH * error)


def _offset_chance(x: np.ndarray, rng: np.random.Generator) -> float:
    """How often rows with random signs, a cloud that is symmetric about the origin, are as far off it."""
    signs = rng.integers(0, 2, size=(_FLIPS, len(x))) * 2.0 - 1.0
    lengths = np.linalg.norm(signs @ x, axis=1)
    return float(1 + (lengths >= np.linalg.norm(x.sum(axis=0))).sum()) / (1 + _FLIPS)


def _tilt_chance(x: np.ndarray, rng: np.random.Generator) -> float:
    """How often coordinates that are shuffled, each by itself, go together as much."""
    found = float((_correlations(x) ** 2).sum())
    shuffled = [float((_correlations(rng.permuted(x, axis=0)) ** 2).sum()) for _ in range(_SHUFFLES)]
    return float(1 + (np.array(shuffled) >= found).sum()) / (1 + _SHUFFLES)


def _too_few(rows: int) -> Ellipsoid:
    nothing = Interval(mean=None, ci_low=None, ci_high=None)
    return Ellipsoid(
        rows=rows,
        shell=judged(nothing, SHELL_BELOW, above=False),
        gaussian_shell=None,
        shell_ratio=None,
        effective_dimensions=None,
        offset=judged(nothing, OFFSET_ABOVE),
        tilt=judged(nothing, TILT_ABOVE),
        outcome="undecided",
        note=f"{rows} independent rows: an ellipsoid is not judged below {LEAST_ROWS}",
    )


def _words(first: Ellipsoid, second: Ellipsoid, apart: EllipsoidProperty, outcome: Holds, names: tuple[str, str]) -> str:
    checks = [
        (f"{what} of the {name}", found.outcome)
        for name, cloud in zip(names, (first, second), strict=True)
        for what, found in (("shell", cloud.shell), ("offset", cloud.offset), ("tilt", cloud.tilt))
    ]
    checks.append(("separability", apart.outcome))
    if outcome == "holds":
        return "holds: both are thin, shifted and tilted shells, and a direction tells them apart"
    named = ", ".join(what for what, found in checks if found == outcome)
    return f"{outcome}: {named}"
