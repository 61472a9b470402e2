"""The tests of radial freedom on encoders whose closed form is known."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from normwise.theory.geometry import embedding_geometry
from normwise.theory.radial import _TRAIN_SHARE, deciding_test, r_squared, radial_tests

WIDTH = 12


def layer_norm_mean_pooled(rng, count, *, tokens=5):
    """What a BERT-type encoder gives: LayerNorm with bias per token, then the mean over tokens."""
    gain, bias = rng.uniform(0.2, 2.0, WIDTH), rng.normal(size=WIDTH)
    h = rng.normal(size=(count, tokens, WIDTH)) + rng.normal(size=(count, 1, WIDTH))
    n = (h - h.mean(axis=2, keepdims=True)) / h.std(axis=2, keepdims=True)
    return (gain * n + bias).mean(axis=1)


def rms_norm(rng, count):
    gain = rng.uniform(0.2, 2.0, WIDTH)
    h = rng.normal(size=(count, WIDTH))
    return gain * h * math.sqrt(WIDTH) / np.linalg.norm(h, axis=1, keepdims=True)


def split(z):
    r = np.linalg.norm(z, axis=1)
    return z / r[:, None], r


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layer_norm_with_mean_pooling_is_bound_to_a_plane(dtype):
    z = layer_norm_mean_pooled(np.random.default_rng(0), 600).astype(dtype)
    found = embedding_geometry(z[:20], z[:20], z, seed=0)
    assert found["e3_affine"] == pytest.approx(1.0, abs=1e-5)
    assert found["radial_freedom"] == pytest.approx(0.0, abs=1e-5)
    assert found["e3_knn"] < 0.9
    assert deciding_test(found) == "e3_affine"


def test_rms_norm_is_bound_to_an_ellipsoid():
    found = radial_tests(*split(rms_norm(np.random.default_rng(0), 600)), seed=0)
    assert found["e3_ellipsoid"] == pytest.approx(1.0, abs=1e-9)
    assert found["e3_affine"] < 0.9
    assert deciding_test(found) == "e3_ellipsoid"


def test_a_projection_to_fewer_dimensions_frees_the_norm():
    rng = np.random.default_rng(0)
    z = layer_norm_mean_pooled(rng, 800) @ rng.normal(size=(WIDTH, 4))
    assert radial_tests(*split(z), seed=0)["radial_freedom"] > 0.05


def test_a_dense_map_of_full_rank_does_not():
    rng = np.random.default_rng(0)
    z = layer_norm_mean_pooled(rng, 800) @ rng.normal(size=(WIDTH, WIDTH))
    assert radial_tests(*split(z), seed=0)["radial_freedom"] == pytest.approx(0.0, abs=1e-8)


def test_tiny_gains_do_not_hide_the_plane():
    """Trained gains go down to 1e-33: those coordinates are constants, and they say where the plane is."""
    rng = np.random.default_rng(0)
    z = layer_norm_mean_pooled(rng, 600)
    z[:, 0] = 1e-6
    assert radial_tests(*split(z), seed=0)["e3_affine"] == pytest.approx(1.0, abs=1e-6)


def test_smooth_norms_are_seen_by_the_weak_tests():
    rng = np.random.default_rng(0)
    u, _ = split(rng.normal(size=(1500, 3)))
    found = radial_tests(u, np.exp(u[:, 0] + u[:, 1] ** 2), seed=0)
    assert found["e3_ridge"] > 0.99
    assert found["e3_knn"] > 0.95


def test_each_test_equals_its_own_library_call():
    u, r = split(np.random.default_rng(4).normal(size=(300, 5)) + 1.0)
    found = radial_tests(u, r, seed=7)
    order = np.random.default_rng(7).permutation(300)
    train, held = order[: int(_TRAIN_SHARE * 300)], order[int(_TRAIN_SHARE * 300) :]
    knn = KNeighborsRegressor(10, metric="cosine").fit(u[train], np.log(r[train])).score(u[held], np.log(r[held]))
    affine = LinearRegression().fit(u[train], 1 / r[train]).score(u[held], 1 / r[held])
    ellipsoid = LinearRegression(fit_intercept=False).fit(u[train] ** 2, r[train] ** -2).score(u[held] ** 2, r[held] ** -2)
    assert found["e3_knn"] == pytest.approx(knn)
    assert found["e3_affine"] == pytest.approx(affine)
    assert found["e3_ellipsoid"] == pytest.approx(ellipsoid)
    best = max(found[key] for key in ("e3_knn", "e3_ridge", "e3_affine", "e3_ellipsoid"))
    assert found["radial_freedom"] == pytest.approx(1 - best)


def test_the_scale_of_all_norms_does_not_matter():
    u, r = split(np.random.default_rng(1).normal(size=(300, 5)) + 1.0)
    small, large = radial_tests(u, r * 1e-12, seed=0), radial_tests(u, r * 1e12, seed=0)
    assert small == pytest.approx(large, rel=1e-6)


def test_freedom_stays_within_its_range():
    rng = np.random.default_rng(0)
    u, _ = split(rng.normal(size=(60, 5)))
    found = radial_tests(u, rng.lognormal(size=60), seed=0)
    assert found["radial_freedom"] <= 1.0


def test_too_few_rows_leave_the_closed_forms_out():
    u, r = split(np.random.default_rng(1).normal(size=(40, 20)))
    found = radial_tests(u, r, seed=0)
    assert {key for key, value in found.items() if math.isnan(value)} == {"e3_affine", "e3_ellipsoid"}
    assert all(math.isnan(value) for value in radial_tests(u[:8], r[:8], seed=0).values())
    assert deciding_test(radial_tests(u[:8], r[:8], seed=0)) is None


def test_r_squared_of_a_constant_is_undefined():
    assert math.isnan(r_squared(np.ones(3), np.ones(3)))
