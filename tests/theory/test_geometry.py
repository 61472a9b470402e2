"""Geometry figures against slow transcriptions, closed forms and limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from normwise.core.errors import InputError
from normwise.theory.entanglement import distance_correlation, moran_index, pearson, spearman
from normwise.theory.geometry import (
    alignment,
    anisotropy,
    effective_rank,
    embedding_geometry,
    hub_share,
    isoscore,
    occurrence_skewness,
)
from normwise.theory.neighbors import nearest_directions

KEYS = {
    *(
        "e1_pearson",
        "e2_spearman",
        "e3_affine",
        "e3_ellipsoid",
        "e3_knn",
        "e3_ridge",
        "radial_freedom",
        "e4_moran",
        "e5_distance_correlation",
    ),
    *("a1_random_cosine", "a2_mean_direction", "a3_effective_rank", "a3_isoscore", "a4_hubness", "a5_uniformity", "a5_alignment"),
    *("hub_share_cosine", "hub_share_dot", "norm_mean_queries", "norm_cv_queries", "norm_mean_candidates", "norm_cv_candidates"),
}
seeds = st.integers(0, 2**32 - 1)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def points(seed, count=40, width=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) * rng.lognormal(size=(count, 1))


@given(seeds)
def test_correlations_equal_scipys(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=20), rng.integers(0, 5, 20).astype(float)
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])
    assert pearson((x - 3) / 7, y) == pytest.approx(pearson(x, y))


def test_correlations_without_variation_are_undefined():
    assert math.isnan(pearson(np.ones(5), np.arange(5.0)))
    assert math.isnan(spearman(np.arange(2.0), np.arange(2.0)))


@given(seeds)
def test_neighbors_equal_a_sort(seed):
    x = unit(points(seed, 15))
    found = nearest_directions(x, x, k=4, skip_self=True)
    for i in range(15):
        expected = sorted((j for j in range(15) if j != i), key=lambda j, i=i: (-float(x[i] @ x[j]), j))[:4]
        assert found[i].tolist() == expected


@given(seeds)
def test_morans_index_equals_its_double_sum(seed):
    rng = np.random.default_rng(seed)
    values, near = rng.normal(size=12), nearest_directions(unit(points(seed, 12)), unit(points(seed, 12)), k=3, skip_self=True)
    weights = np.zeros((12, 12))
    for i in range(12):
        weights[i, near[i]] = 1.0
    z = values - values.mean()
    total = sum(weights[i, j] * z[i] * z[j] for i in range(12) for j in range(12))
    assert moran_index(values, near) == pytest.approx(12 / weights.sum() * total / (z @ z))


def test_morans_index_of_equal_values_is_undefined():
    assert math.isnan(moran_index(np.ones(3), np.array([[1], [2], [0]])))


def slow_distance_correlation(x, y):
    n = len(y)

    def centered(a):
        out = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                if i != j:
                    out[i, j] = a[i, j] - a[i].sum() / (n - 2) - a[:, j].sum() / (n - 2) + a.sum() / ((n - 1) * (n - 2))
        return out

    a = centered(np.array([[np.linalg.norm(x[i] - x[j]) for j in range(n)] for i in range(n)]))
    b = centered(np.array([[abs(y[i] - y[j]) for j in range(n)] for i in range(n)]))
    return math.sqrt(max(0.0, (a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum())))


@given(seeds)
def test_distance_correlation_equals_its_definition(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, 3))
    y = x[:, 0] + rng.normal(size=9) * 0.3
    assert distance_correlation(x, y) == pytest.approx(slow_distance_correlation(x, y), abs=1e-7)


def test_distance_correlation_sees_what_pearson_cannot_and_nothing_in_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    assert distance_correlation(x, x[:, 0] ** 2) > 0.4
    assert distance_correlation(rng.normal(size=(400, 300)), rng.normal(size=400)) < 0.25
    assert math.isnan(distance_correlation(x[:3], x[:3, 0]))
    assert math.isnan(distance_correlation(x, np.ones(400)))


@given(seeds)
def test_anisotropy_equals_loops(seed):
    queries, candidates = points(seed, 6), points(seed + 1, 14)
    q, c = unit(queries), unit(candidates)
    found = anisotropy(queries, candidates)
    assert found["a1_random_cosine"] == pytest.approx(np.mean([a @ b for a in q for b in c]))
    assert found["a2_mean_direction"] == pytest.approx(sum(c[:, d].mean() ** 2 for d in range(5)))
    pairs = [math.exp(-2 * ((c[i] - c[j]) ** 2).sum()) for i in range(14) for j in range(i)]
    assert found["a5_uniformity"] == pytest.approx(math.log(np.mean(pairs)))
    eigenvalues = np.linalg.eigvalsh(np.cov(c.T, bias=True))
    shares = eigenvalues / eigenvalues.sum()
    assert found["a3_effective_rank"] == pytest.approx(math.exp(-(shares * np.log(shares)).sum()))
    counts = np.zeros(14)
    for i in range(14):
        for j in sorted((j for j in range(14) if j != i), key=lambda j, i=i: -float(c[i] @ c[j]))[:10]:
            counts[j] += 1
    if counts.std() > 0:
        third = ((counts - counts.mean()) ** 3).mean()
        assert found["a4_hubness"] == pytest.approx(third / counts.std() ** 3)


@given(seeds)
def test_isoscore_equals_its_algorithm(seed):
    eigenvalues = np.random.default_rng(seed).random(6)
    n = 6
    sigma = math.sqrt(n) * eigenvalues / math.sqrt(sum(e * e for e in eigenvalues))
    delta = math.sqrt(sum((s - 1) ** 2 for s in sigma)) / math.sqrt(2 * (n - math.sqrt(n)))
    phi = (n - delta**2 * (n - math.sqrt(n))) ** 2 / n**2
    assert isoscore(eigenvalues) == pytest.approx((n * phi - 1) / (n - 1))
    assert isoscore(5 * eigenvalues) == pytest.approx(isoscore(eigenvalues))


def test_limits_of_anisotropy():
    assert effective_rank(np.array([1.0, 0.0])) == pytest.approx(1.0)
    assert math.isnan(effective_rank(np.zeros(3)))
    assert math.isnan(isoscore(np.ones(1)))
    collapsed = anisotropy(np.ones((4, 3)), np.ones((20, 3)) * np.arange(1, 21)[:, None])
    assert collapsed["a1_random_cosine"] == pytest.approx(1.0)
    assert collapsed["a2_mean_direction"] == pytest.approx(1.0)
    assert collapsed["a5_uniformity"] == pytest.approx(0.0)


def test_alignment_equals_its_mean_and_skips_zero_vectors():
    q, c = points(0, 10), points(1, 10)
    expected = np.mean([((a - b) ** 2).sum() for a, b in zip(unit(q)[1:], unit(c)[1:], strict=True)])
    q[0] = 0
    assert alignment(q, c) == pytest.approx(expected)
    assert math.isnan(alignment(np.zeros((2, 3)), np.ones((2, 3))))


def test_hubs():
    assert hub_share(np.array([1, 2, 2, 4])) == 0.5
    assert math.isnan(hub_share(np.array([], dtype=int)))
    assert occurrence_skewness(np.array([[0, 1], [0, 1], [0, 2]]), candidates=4) == pytest.approx(stats.skew([3, 2, 1, 0]), abs=1e-12)
    assert math.isnan(occurrence_skewness(np.array([[0], [1]]), candidates=2))


def test_every_key_is_there_and_deterministic():
    q, c = points(0, 60), points(1, 200)
    found = embedding_geometry(q, c[:60], c, seed=3)
    assert set(found) == KEYS
    assert all(math.isfinite(value) for value in found.values())
    assert found == embedding_geometry(q, c[:60], c, seed=3)


def test_a_query_norm_and_a_positive_norm_drive_e1():
    rng = np.random.default_rng(0)
    c = unit(rng.normal(size=(300, 8)))
    q = unit(c + 0.5 * rng.normal(size=(300, 8)))
    cosines = (q * c).sum(axis=1)
    found = embedding_geometry(q * np.exp(-cosines)[:, None], c * np.exp(-2 * cosines)[:, None], c, seed=0)
    assert found["e1_pearson"] == pytest.approx(-1.0)
    assert found["e2_spearman"] == pytest.approx(-1.0)


def test_equal_norms_leave_norm_figures_undefined():
    c = unit(points(0, 200)).astype(np.float32)
    found = embedding_geometry(c[:50], c[:50], c, seed=0)
    undefined = {key for key, value in found.items() if math.isnan(value)}
    assert undefined == {key for key in KEYS if key.startswith("e") or key == "radial_freedom"}


def test_norms_of_free_vectors_are_free_and_unrelated_to_direction():
    rng = np.random.default_rng(0)
    c = unit(rng.normal(size=(900, 12))) * rng.lognormal(0, 0.3, size=(900, 1))
    found = embedding_geometry(c[:100], c[100:200], c, seed=0)
    assert found["radial_freedom"] > 0.95
    assert abs(found["e4_moran"]) < 0.1
    assert found["e5_distance_correlation"] < 0.2
    assert max(found[key] for key in ("e3_affine", "e3_ellipsoid", "e3_knn", "e3_ridge")) < 0.05


def test_no_queries_leave_query_figures_undefined():
    c = points(0, 50)
    found = embedding_geometry(np.empty((0, 5)), np.empty((0, 5)), c, seed=0)
    for key in ("e1_pearson", "a1_random_cosine", "a5_alignment", "hub_share_dot", "norm_mean_queries"):
        assert math.isnan(found[key])
    assert math.isfinite(found["a2_mean_direction"])


def test_zero_vectors_and_tiny_sets_give_no_garbage():
    found = embedding_geometry(np.zeros((3, 4)), np.zeros((3, 4)), np.zeros((5, 4)), seed=0)
    assert {key for key, value in found.items() if math.isfinite(value)} == {
        "hub_share_cosine", "hub_share_dot", "norm_mean_queries", "norm_mean_candidates",
    }  # fmt: skip
    assert set(embedding_geometry(np.ones((1, 4)), np.ones((1, 4)), np.ones((1, 4)), seed=0)) == KEYS


def test_large_sets_are_sampled(monkeypatch):
    from normwise.theory import geometry

    monkeypatch.setattr(geometry, "SAMPLE_ROWS", 50)
    c = points(0, 3000, width=3)
    found = embedding_geometry(c, c, c, seed=1)
    assert found["hub_share_cosine"] * 50 == pytest.approx(round(found["hub_share_cosine"] * 50))
    assert found != embedding_geometry(c, c, c, seed=2)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"have shapes \(2, 3\), \(1, 3\) and \(4, 3\)"):
        embedding_geometry(np.ones((2, 3)), np.ones((1, 3)), np.ones((4, 3)), seed=0)
    with pytest.raises(InputError, match="candidates: row 1, column 0 is nan"):
        embedding_geometry(np.ones((2, 1)), np.ones((2, 1)), np.array([[1.0], [np.nan]]), seed=0)
