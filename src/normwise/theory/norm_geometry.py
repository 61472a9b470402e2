"""How directions fill the sphere and who takes the first places, on a seeded sample, each figure with its error."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from normwise.core.shapes import Float
from normwise.theory.directions import exact_norms, normalize
from normwise.theory.entanglement import NAN
from normwise.theory.geometry import effective_rank, hub_share, isoscore, occurrence_skewness
from normwise.theory.near_copies import first_of_kind
from normwise.theory.neighbors import nearest_directions
from normwise.theory.radial import NEIGHBORS, TESTS, radial_tests
from normwise.theory.search import exact_top_k

PAIR_ROWS = 2_000
SEARCH_ROWS = 20_000
_LARGEST_RADIAL = 5_000
_ROWS_PER_DIMENSION = 5
_GROUPS = 5
_LONGEST = 0.01

Figures = dict[str, float]


def sampled_geometry(sample: Float[np.ndarray, "N D"], *, seed: int, norms_vary: bool) -> Figures:
    """Return the figures of directions and of first places among sampled vectors, with standard errors.

    | key                                        | figure                                                                     |
    |--------------------------------------------|----------------------------------------------------------------------------|
    | mean_cosine                                | of all pairs of distinct rows: (n ||m||^2 - 1) / (n - 1), m the mean direction |
    | effective_rank, isoscore                   | of the covariance of directions (the rank is at most n - 1)                 |
    | hubness                                    | skewness of how often a row is among the 10 nearest of the others          |
    | norm_hubs_dot, norm_hubs_cosine            | share of first places that the longest 1% of the rows take                 |
    | hub_share_dot, hub_share_cosine            | share of first places that the most frequent row takes                     |
    | e3_affine ... e3_ridge, radial_freedom     | see `radial_tests`, without near copies; left out where norms do not vary  |
    | X_error                                    | standard error of X by leaving out a fifth of the rows (of the queries for  |
    |                                            | hubness) at a time; of the shares, sqrt(p (1 - p) / queries)               |
    | pair_rows, search_rows, search_queries     | how many rows each rests on                                                |

    First places: each of up to 2,000 rows asks the up to 20,000 of the sample, itself left out. Without norm hubs the
    longest 1% take 1%.

    Args:
        sample: (N, D) raw vectors in random order, finite and not zero; more than 20,000 are cut.
        seed: of the split of the radial tests.
        norms_vary: whether norms differ by more than rounding; if not, whatever they would say is left out.

    Returns:
        The figures; NaN where undefined (fewer than 12 rows).

    Raises:
        InputError: a value is not finite.

    Reference: Roy and Vetterli (2007) for the rank, Rudman et al. (2022) for IsoScore, Radovanovic et al. (2010) for
    hubness; norm hubs and the radial tests are ours.

    Example:
        >>> found = sampled_geometry(np.random.default_rng(0).normal(size=(200, 4)), seed=0, norms_vary=True)
        >>> abs(found["mean_cosine"]) < 0.1 and 3.0 < found["effective_rank"] < 4.0
        True
    """
    kept = sample[:SEARCH_ROWS]
    linear = max(PAIR_ROWS, min(_LARGEST_RADIAL, _ROWS_PER_DIMENSION * sample.shape[1]))
    some = normalize(kept[:PAIR_ROWS].astype(np.float64))
    found = {**_with_error("mean_cosine", mean_cosine, some), **_spread_figures(some), **_hubness(some)}
    found |= _first_places(kept, norms_vary=norms_vary)
    # A row in the fit whose copy is held out would pass for a law of the direction.
    judged = kept[:linear][first_of_kind(kept[:linear])]
    if norms_vary:
        found |= radial_tests(normalize(judged.astype(np.float64)), exact_norms(judged, name="vectors"), seed=seed)
    else:
        found |= dict.fromkeys((*TESTS, "radial_freedom"), NAN)
    return found | {"pair_rows": float(some.shape[0]), "search_rows": float(kept.shape[0]), "radial_rows": float(judged.shape[0])}


def mean_cosine(directions: Float[np.ndarray, "N D"]) -> float:
    """Return the mean cosine of all pairs of distinct rows: (n ||mean||^2 - 1) / (n - 1); NaN below two rows.

    Example:
        >>> mean_cosine(np.eye(3))
        0.0
    """
    n = directions.shape[0]
    center = directions.mean(axis=0) if n else np.zeros(directions.shape[1])
    return float((n * (center @ center) - 1.0) / (n - 1.0)) if n > 1 else NAN


def covariance_eigenvalues(rows: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """Return the D eigenvalues of the covariance of rows times n, through the smaller of the two Gram matrices.

    Example:
        >>> covariance_eigenvalues(np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])).round(6).tolist()
        [0.0, 0.0, 2.0]
    """
    centered = rows - rows.mean(axis=0)
    gram = centered @ centered.T if rows.shape[0] < rows.shape[1] else centered.T @ centered
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    return np.concatenate([np.zeros(rows.shape[1] - values.size), values])


def jackknife_error(figure: Callable[[np.ndarray], float], rows: np.ndarray) -> float:
    """Return the standard error of a figure of rows by leaving out a fifth at a time; NaN below 10 rows.

    Equation: sqrt((g - 1) / g sum_i (t_i - mean t)^2) with t_i the figure without the i-th of g = 5 groups.

    Args:
        figure: of an array of rows.
        rows: in random order.

    Reference: the delete-a-group jackknife, Kott (2001).

    Example:
        >>> jackknife_error(lambda x: float(x.mean()), np.ones(20))
        0.0
    """
    if len(rows) < 2 * _GROUPS:
        return NAN
    groups = np.array_split(np.arange(len(rows)), _GROUPS)
    values = np.array([figure(np.delete(rows, group, axis=0)) for group in groups])
    return float(np.sqrt((_GROUPS - 1) / _GROUPS * ((values - values.mean()) ** 2).sum()))


def _with_error(name: str, figure: Callable[[np.ndarray], float], rows: np.ndarray) -> Figures:
    return {name: figure(rows), f"{name}_error": jackknife_error(figure, rows)}


def _spread_figures(directions: np.ndarray) -> Figures:
    """Rank and IsoScore from the same eigenvalues, so that each group is decomposed once."""
    names = ("effective_rank", "isoscore")
    if directions.shape[0] < 2 * _GROUPS:
        return {key: NAN for name in names for key in (name, f"{name}_error")}
    left_out: list[tuple[float, float]] = []

    def both(rows: np.ndarray) -> tuple[float, float]:
        values = covariance_eigenvalues(rows)
        return effective_rank(values), isoscore(values)

    for group in np.array_split(np.arange(directions.shape[0]), _GROUPS):
        left_out.append(both(np.delete(directions, group, axis=0)))
    spread = np.array(left_out)
    errors = np.sqrt((_GROUPS - 1) / _GROUPS * ((spread - spread.mean(axis=0)) ** 2).sum(axis=0))
    found = dict(zip(names, both(directions), strict=True))
    return found | {f"{name}_error": float(error) for name, error in zip(names, errors, strict=True)}


def _hubness(directions: np.ndarray) -> Figures:
    count = directions.shape[0]
    if count <= NEIGHBORS + 1:
        return {"hubness": NAN, "hubness_error": NAN}
    near = nearest_directions(directions, directions, k=NEIGHBORS, skip_self=True)
    return _with_error("hubness", lambda lists: occurrence_skewness(lists, candidates=count), near)


def _first_places(vectors: np.ndarray, *, norms_vary: bool) -> Figures:
    names = [f"{kind}_{ranking}" for kind in ("norm_hubs", "hub_share") for ranking in ("dot", "cosine")]
    undefined: Figures = dict.fromkeys([*names, *(f"{name}_error" for name in names)], NAN)
    count = vectors.shape[0]
    asked = np.arange(min(PAIR_ROWS, count))
    if count < 12:
        return undefined | {"search_queries": 0.0}
    lengths = exact_norms(vectors, name="vectors")
    longest = np.zeros(count, dtype=bool)
    longest[np.argsort(-lengths, kind="stable")[: math.ceil(_LONGEST * count)]] = True
    found = dict(undefined)
    for ranking, top in exact_top_k(vectors[asked], vectors, k=2).items():
        first = np.where(top.indices[:, 0] == asked, top.indices[:, 1], top.indices[:, 0])
        shares = {f"hub_share_{ranking}": hub_share(first)}
        if norms_vary:
            shares[f"norm_hubs_{ranking}"] = float(longest[first].mean())
        for name, share in shares.items():
            found |= {name: share, f"{name}_error": math.sqrt(share * (1.0 - share) / asked.size)}
    return found | {"search_queries": float(asked.size)}
