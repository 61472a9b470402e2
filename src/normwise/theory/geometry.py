"""The geometry of embeddings: what the norm repeats of the direction, and how the directions fill the sphere."""

from __future__ import annotations

import numpy as np
from scipy.stats import skew

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.theory.directions import exact_norms, normalize
from normwise.theory.entanglement import NAN, distance_correlation, moran_index, pearson, spearman
from normwise.theory.near_copies import first_of_kind
from normwise.theory.neighbors import nearest_directions
from normwise.theory.radial import NEIGHBORS, TESTS, radial_tests
from normwise.theory.search import exact_top_k

SAMPLE_ROWS = 2000
_LARGEST_SAMPLE = 5000
_ROWS_PER_DIMENSION = 5
_ANISOTROPY: tuple[str, ...] = ("a1_random_cosine", "a2_mean_direction", "a3_effective_rank", "a3_isoscore", "a4_hubness", "a5_uniformity")


def embedding_geometry(
    queries: Float[np.ndarray, "B D"],
    positives_of_queries: Float[np.ndarray, "_ _"],
    candidates: Float[np.ndarray, "N _"],
    *,
    seed: int,
) -> dict[str, float]:
    """Return the entanglement (E) and anisotropy (A) figures of raw vectors, on seeded samples.

    | key                                     | figure                                                                     |
    |-----------------------------------------|----------------------------------------------------------------------------|
    | e1_pearson, e2_spearman                 | correlation of log(||q|| ||c+||) with cos(q, c+)                             |
    | e3_affine, e3_ellipsoid, e3_knn, e3_ridge | held-out R2 of the norm from the direction; see `radial_tests`            |
    | radial_freedom                          | 1 - the best of these                                                      |
    | e4_moran                                | Moran's I of log r on the graph of 10 nearest directions                   |
    | e5_distance_correlation                 | of directions and log r, bias-corrected                                    |
    | a1_random_cosine                          | mean cosine of all sampled query-candidate pairs                           |
    | a2_mean_direction                       | ||mean hat u||^2                                                           |
    | a3_effective_rank, a3_isoscore          | of the covariance of the directions                                        |
    | a4_hubness                              | skewness of how often a candidate is among the 10 nearest of the others    |
    | a5_uniformity, a5_alignment             | log mean exp(-2 ||hat u - hat v||^2); mean ||hat q - hat c+||^2              |
    | hub_share_cosine, hub_share_dot         | share of queries that the most frequent first place takes                  |
    | norm_mean_*, norm_cv_*                  | mean and standard deviation / mean of the norms of queries, candidates     |

    E3 to E5 and A2 to A5 are of the candidates, whose norms rank. Zero vectors are left out of every figure of directions,
    near copies out of E3.

    Args:
        queries: (B, D) raw vectors (before any normalization).
        positives_of_queries: (B, D) the raw vector of one relevant candidate of each query.
        candidates: (N, D) raw vectors; may be a memory map.
        seed: of the samples: at most 2,000 rows of each side (5 D, up to 5,000, for the closed forms of E3).

    Returns:
        Every key above; NaN where a figure is undefined: too few rows, or norms that are equal up to the rounding of
        the dtype, so that nothing is read out of noise. `hub_share_*` is within the samples; see `hub_share`.

    Raises:
        InputError: shapes do not agree or a value is not finite.

    Reference: PACE (2609.15152) for E1 and A1; Wang and Isola (2020) for A5; Rudman et al. (2022) for IsoScore;
    Radovanovic et al. (2010) for hubness; the radial tests are ours.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 4))
        >>> round(embedding_geometry(x, x, x, seed=0)["a5_alignment"], 6)
        0.0
    """
    if queries.shape != positives_of_queries.shape or queries.shape[1] != candidates.shape[1]:
        shapes = f"{queries.shape}, {positives_of_queries.shape} and {candidates.shape}"
        raise InputError(f"queries, their positives and candidates have shapes {shapes}; expected (B, D), (B, D) and (N, D)")
    rng = np.random.default_rng(seed)
    rows = _sample(rng, queries.shape[0], SAMPLE_ROWS)
    asked, answers = _finite_rows("queries", queries, rows), _finite_rows("positives_of_queries", positives_of_queries, rows)
    linear_rows = max(SAMPLE_ROWS, min(_LARGEST_SAMPLE, _ROWS_PER_DIMENSION * candidates.shape[1]))
    large = _finite_rows("candidates", candidates, _sample(rng, candidates.shape[0], linear_rows))
    # The larger sample is in random order of rows here, so that its head is a sample too.
    some = large[:SAMPLE_ROWS]
    return {
        **_pair_figures(asked, answers),
        **_radial_figures(large, seed=seed),
        **_norm_graph_figures(some),
        **anisotropy(asked, some),
        "a5_alignment": alignment(asked, answers),
        **_hub_figures(asked, some),
        **_norm_summary("queries", asked),
        **_norm_summary("candidates", some),
    }


def anisotropy(queries: Float[np.ndarray, "B D"], candidates: Float[np.ndarray, "N D"]) -> dict[str, float]:
    """Return A1 to A4 and the uniformity of A5, as `embedding_geometry` lists them, without sampling.

    Equations: A1 = mean_ij hat q_i . hat c_j; A2 = ||mean_j hat c_j||^2; effective rank = exp(-sum_k p_k log p_k), p the
    eigenvalues of the covariance of the hat c over their sum; IsoScore of the same eigenvalues, see `isoscore`;
    A4 = skewness of N_10(j) = #{i : j among the 10 nearest of i}; uniformity over pairs of distinct rows.

    Args:
        queries: (B, D) raw vectors.
        candidates: (N, D) raw vectors; the (N, N) cosines are held in memory.

    Returns:
        a1_random_cosine, a2_mean_direction, a3_effective_rank, a3_isoscore, a4_hubness, a5_uniformity; NaN if undefined.

    Example:
        >>> anisotropy(np.eye(2), np.eye(2))["a1_random_cosine"]
        0.5
    """
    asked, known = _directions(queries), _directions(candidates)
    values: dict[str, float] = dict.fromkeys(_ANISOTROPY, NAN)
    if known.shape[0] == 0:
        return values
    center = known.mean(axis=0)
    values["a2_mean_direction"] = float(center @ center)
    if asked.shape[0]:
        values["a1_random_cosine"] = float(asked.mean(axis=0) @ center)
    if known.shape[0] < 2:
        return values
    eigenvalues = np.linalg.svd(known - center, compute_uv=False) ** 2
    eigenvalues = np.concatenate([eigenvalues, np.zeros(max(0, known.shape[1] - eigenvalues.size))])
    values["a3_effective_rank"] = effective_rank(eigenvalues)
    values["a3_isoscore"] = isoscore(eigenvalues)
    cosines = known @ known.T
    upper = np.triu_indices(known.shape[0], k=1)
    values["a5_uniformity"] = float(np.log(np.mean(np.exp(-4.0 * (1.0 - cosines[upper])))))
    if known.shape[0] > NEIGHBORS:
        values["a4_hubness"] = occurrence_skewness(nearest_directions(known, known, k=NEIGHBORS, skip_self=True), candidates=known.shape[0])
    return values


def effective_rank(eigenvalues: Float[np.ndarray, " D"]) -> float:
    """Return exp of the entropy of eigenvalues over their sum: 1 for a line, D for equal ones; NaN if all are 0.

    Reference: Roy and Vetterli (2007), here of the covariance's eigenvalues.

    Example:
        >>> round(effective_rank(np.array([2.0, 2.0, 0.0])), 6)
        2.0
    """
    total = eigenvalues.sum()
    if total <= 0.0:
        return NAN
    shares = eigenvalues[eigenvalues > 0.0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def isoscore(eigenvalues: Float[np.ndarray, " D"]) -> float:
    """Return how evenly D dimensions are used: 1 all alike, 0 only one; NaN for D = 1 or all 0.

    Equations: s = sqrt(D) lambda / ||lambda||; delta = ||s - 1|| / sqrt(2 (D - sqrt D));
    phi = (D - delta^2 (D - sqrt D))^2 / D^2; IsoScore = (D phi - 1) / (D - 1).

    Reference: Rudman et al. (2022), IsoScore, algorithm 1; here of the covariance of directions.

    Example:
        >>> round(isoscore(np.array([1.0, 1.0, 1.0])), 6), round(abs(isoscore(np.array([1.0, 0.0, 0.0]))), 6)
        (1.0, 0.0)
    """
    d = eigenvalues.size
    length = float(np.linalg.norm(eigenvalues))
    if d < 2 or length == 0.0:
        return NAN
    defect = np.linalg.norm(np.sqrt(d) * eigenvalues / length - 1.0) / np.sqrt(2.0 * (d - np.sqrt(d)))
    used = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return float((d * used - 1.0) / (d - 1.0))


def occurrence_skewness(neighbors: Int[np.ndarray, "B K"], *, candidates: int) -> float:
    """Return the skewness of how often each candidate occurs in lists of neighbors; NaN where all occur equally often.

    Example:
        >>> round(occurrence_skewness(np.array([[0], [0], [0]]), candidates=3), 3)
        0.707
    """
    counts = np.bincount(neighbors.reshape(-1), minlength=candidates).astype(np.float64)
    return float(skew(counts)) if counts.std() > 0.0 else NAN


def hub_share(first_places: Int[np.ndarray, " B"]) -> float:
    """Return the share of queries whose first place is the most frequent one: 1 / B at best, 1 for a total hub.

    Example:
        >>> hub_share(np.array([3, 3, 3, 8]))
        0.75
    """
    if first_places.size == 0:
        return NAN
    return float(np.unique(first_places, return_counts=True)[1].max() / first_places.size)


def alignment(queries: Float[np.ndarray, "B D"], positives_of_queries: Float[np.ndarray, "B D"]) -> float:
    """Return the mean of ||hat q - hat c+||^2 over pairs without a zero vector; NaN without one.

    Example:
        >>> alignment(np.eye(2), -np.eye(2))
        4.0
    """
    q, c, _ = _nonzero_pairs(queries, positives_of_queries)
    return float(((q - c) ** 2).sum(axis=1).mean()) if q.shape[0] else NAN


def _pair_figures(queries: np.ndarray, positives: np.ndarray) -> dict[str, float]:
    q, c, logs = _nonzero_pairs(queries, positives)
    if logs.size < 3 or logs.std() <= _tolerance(queries):
        return {"e1_pearson": NAN, "e2_spearman": NAN}
    cosines = (q * c).sum(axis=1)
    return {"e1_pearson": pearson(logs, cosines), "e2_spearman": spearman(logs, cosines)}


def _nonzero_pairs(queries: np.ndarray, positives: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    query_norms, positive_norms = exact_norms(queries, name="queries"), exact_norms(positives, name="positives_of_queries")
    kept = (query_norms > 0.0) & (positive_norms > 0.0)
    q, c = normalize(queries[kept].astype(np.float64)), normalize(positives[kept].astype(np.float64))
    return q, c, np.log(query_norms[kept]) + np.log(positive_norms[kept])


def _radial_figures(candidates: np.ndarray, *, seed: int) -> dict[str, float]:
    candidates = candidates[first_of_kind(candidates)]
    directions, norms = _directions(candidates), _positive_norms(candidates)
    if norms.size == 0 or np.log(norms).std() <= _tolerance(candidates):
        return dict.fromkeys((*TESTS, "radial_freedom"), NAN)
    return radial_tests(directions, norms, seed=seed)


def _norm_graph_figures(candidates: np.ndarray) -> dict[str, float]:
    directions, logs = _directions(candidates), np.log(_positive_norms(candidates))
    if logs.size <= NEIGHBORS or logs.std() <= _tolerance(candidates):
        return {"e4_moran": NAN, "e5_distance_correlation": NAN}
    near = nearest_directions(directions, directions, k=NEIGHBORS, skip_self=True)
    return {"e4_moran": moran_index(logs, near), "e5_distance_correlation": distance_correlation(directions, logs)}


def _hub_figures(queries: np.ndarray, candidates: np.ndarray) -> dict[str, float]:
    if queries.shape[0] == 0 or candidates.shape[0] == 0:
        return {"hub_share_cosine": NAN, "hub_share_dot": NAN}
    top = exact_top_k(queries, candidates, k=1)
    return {f"hub_share_{name}": hub_share(found.indices[:, 0]) for name, found in top.items()}


def _norm_summary(name: str, vectors: np.ndarray) -> dict[str, float]:
    lengths = exact_norms(vectors, name=name)
    mean = float(lengths.mean()) if lengths.size else NAN
    return {f"norm_mean_{name}": mean, f"norm_cv_{name}": float(lengths.std() / mean) if mean > 0.0 else NAN}


def _directions(vectors: np.ndarray) -> np.ndarray:
    directions = normalize(vectors.astype(np.float64))
    return directions[directions.any(axis=1)]


def _positive_norms(vectors: np.ndarray) -> np.ndarray:
    lengths = exact_norms(vectors, name="candidates")
    return lengths[lengths > 0.0]


def _tolerance(vectors: np.ndarray) -> float:
    """The spread of log norms that rounding alone gives to vectors stored as unit vectors in this dtype."""
    return 4.0 * max(float(np.finfo(vectors.dtype).eps), float(np.finfo(np.float32).eps))


def _finite_rows(name: str, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    sampled = np.asarray(vectors[rows])
    bad = np.argwhere(~np.isfinite(sampled))
    if bad.size:
        row, column = int(rows[bad[0, 0]]), int(bad[0, 1])
        raise InputError(f"{name}: row {row}, column {column} is {vectors[row, column]}; expected finite values: drop or repair that row")
    return sampled


def _sample(rng: np.random.Generator, count: int, limit: int) -> np.ndarray:
    return rng.permutation(count)[:limit]
