"""Norms in one pass and figures of a sample, against slow loops, identities and constructed cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from normwise.core.errors import InputError
from normwise.theory import norm_summary
from normwise.theory.geometry import anisotropy
from normwise.theory.norm_geometry import covariance_eigenvalues, jackknife_error, mean_cosine, sampled_geometry
from normwise.theory.norm_summary import is_normalized, norm_figures, rounding_spread, scan_rows

VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, 1e-30, 1e30, float("nan"), float("inf"), float("-inf")])
ROWS = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=VALUES.map(np.float32))


@given(ROWS)
def test_a_scan_is_a_slow_loop_over_rows(x):
    found = scan_rows(x)
    infinite = nan = zero = duplicates = 0
    seen = set()
    for row, norm in zip(x.astype(np.float64), found.norms, strict=True):
        if np.isnan(row).any():
            nan += 1
        elif np.isinf(row).any():
            infinite += 1
        else:
            assert norm == pytest.approx(math.sqrt(sum(value * value for value in row)), rel=1e-14)
            zero += not row.any()
            if row.any():
                duplicates += row.astype(np.float32).tobytes() in seen
                seen.add(row.astype(np.float32).tobytes())
            continue
        assert math.isnan(norm)
    assert (found.infinite, found.nan, found.zero, found.duplicates) == (infinite, nan, zero, duplicates)
    assert found.usable.tolist() == [bool(norm > 0) for norm in found.norms]


def test_blocks_do_not_change_a_scan(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(97, 5)).astype(np.float32)
    x[50], x[96] = x[3], x[3]
    x[20, 1] = np.inf
    whole = scan_rows(x)
    monkeypatch.setattr(norm_summary, "_BLOCK_VALUES", 12)
    parts = scan_rows(x)
    np.testing.assert_array_equal(whole.norms, parts.norms)
    assert whole.duplicates == parts.duplicates == 2


def test_equal_norms_alone_are_no_duplicates():
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(300, 64))
    assert scan_rows(signs).duplicates == 0
    assert scan_rows(np.concatenate([signs, signs[:7]])).duplicates == 7


def test_what_overflowed_half_precision_is_counted():
    x = np.array([[70_000.0, 1.0], [3.0, 4.0]])
    with np.errstate(over="ignore"):
        found = scan_rows(x.astype(np.float16))
    assert (found.infinite, found.nan) == (1, 0)
    assert found.norms[1] == 5.0


def test_only_rows_of_vectors_are_scanned():
    with pytest.raises(InputError, match=r"vectors have shape \(3,\)"):
        scan_rows(np.ones(3))
    with pytest.raises(InputError, match="beyond float64"):
        scan_rows(np.full((1, 4), 1e308))


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(1e-3, 1e3)))
def test_figures_are_those_of_the_definitions(norms):
    found = norm_figures(norms)
    ordered = sorted(norms)
    place = 0.95 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    assert found.quantiles["0.95"] == pytest.approx(ordered[low] + (place - low) * (ordered[high] - ordered[low]))
    assert found.mean == pytest.approx(sum(norms) / len(norms))
    assert found.std_log == pytest.approx(math.sqrt(np.mean((np.log(norms) - np.mean(np.log(norms))) ** 2)), abs=1e-9)
    assert found.tail_high >= 1.0 - 1e-12
    assert found.tail_low >= 1.0 - 1e-12
    histogram = found.histogram
    assert sum(histogram.counts) + histogram.below + histogram.above == len(norms)


def test_a_scale_moves_only_what_it_should():
    norms = np.random.default_rng(0).lognormal(size=500)
    one, ten = norm_figures(norms), norm_figures(10 * norms)
    assert ten.mean == pytest.approx(10 * one.mean)
    assert ten.histogram.counts == one.histogram.counts
    for name in ("cv", "std_log", "skew_log", "tail_low", "tail_high"):
        assert getattr(ten, name) == pytest.approx(getattr(one, name))


def test_equal_norms_have_a_histogram_of_one_place():
    found = norm_figures(np.full(40, 3.0))
    assert found.cv == 0.0
    assert math.isnan(found.skew_log)
    assert sum(found.histogram.counts) == 40
    with pytest.raises(InputError, match="must be positive and finite"):
        norm_figures(np.array([1.0, 0.0]))
    with pytest.raises(InputError, match="must be positive and finite"):
        norm_figures(np.array([]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("width", [8, 384, 2048])
def test_unit_vectors_of_every_type_are_known_and_their_spread_is_rounding(dtype, width):
    x = np.random.default_rng(0).normal(size=(400, width))
    unit = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)
    norms = scan_rows(unit).norms
    assert is_normalized(norms)
    assert np.log(norms).std() <= rounding_spread(float(np.finfo(dtype).eps), width)


def test_norms_near_one_that_vary_are_not_normalized():
    rng = np.random.default_rng(0)
    assert not is_normalized(1.0 + 0.01 * rng.normal(size=1000))
    assert not is_normalized(np.full(10, 2.0))
    # One stray row in 2,000 does not hide that the others were normalized.
    assert is_normalized(np.concatenate([np.ones(1999), [7.0]]))
    assert not is_normalized(np.array([]))
    assert not is_normalized(np.array([1.0, 1.1]))
    assert is_normalized(np.array([1.0]))


def test_the_mean_cosine_is_that_of_all_pairs():
    x = np.random.default_rng(0).normal(size=(30, 5)) + 0.5
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = [u[i] @ u[j] for i in range(30) for j in range(30) if i != j]
    assert mean_cosine(u) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
def test_eigenvalues_are_those_of_the_covariance(shape):
    x = np.random.default_rng(0).normal(size=shape)
    expected = np.linalg.eigvalsh(np.cov(x.T, bias=True) * shape[0])
    np.testing.assert_allclose(np.sort(covariance_eigenvalues(x)), np.maximum(expected, 0.0), atol=1e-9)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    x = np.random.default_rng(0).normal(size=(5000, 1))
    groups = x.reshape(5, 1000).mean(axis=1)
    # For a mean the delete-a-group jackknife is the spread of the group means over sqrt(g).
    assert jackknife_error(lambda rows: float(rows.mean()), x) == pytest.approx(groups.std(ddof=1) / math.sqrt(5))
    assert math.isnan(jackknife_error(lambda rows: 0.0, x[:9]))


def test_the_sampled_figures_agree_with_those_of_the_evaluation():
    x = np.random.default_rng(1).normal(size=(300, 8)) + 0.7
    found, other = sampled_geometry(x, seed=0, norms_vary=True), anisotropy(x, x)
    assert found["effective_rank"] == pytest.approx(other["a3_effective_rank"])
    assert found["isoscore"] == pytest.approx(other["a3_isoscore"])
    assert found["hubness"] == pytest.approx(other["a4_hubness"])
    # The evaluation's mean counts each row with itself as well.
    assert found["mean_cosine"] == pytest.approx((300 * other["a1_random_cosine"] - 1) / 299)
    for name in ("mean_cosine", "effective_rank", "isoscore", "hubness"):
        assert 0.0 < found[f"{name}_error"] < 0.2 * abs(found[name]) + 0.1


def test_norm_hubs_against_a_slow_loop():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(250, 6)) * rng.lognormal(0.0, 0.5, size=(250, 1))
    lengths = np.linalg.norm(x, axis=1)
    longest = set(np.argsort(-lengths)[:3].tolist())
    found = sampled_geometry(x, seed=0, norms_vary=True)
    for name, keys in (("dot", x), ("cosine", x / lengths[:, None])):
        hits = []
        for row in range(250):
            scores = keys @ x[row]
            scores[row] = -np.inf
            hits.append(int(np.argmax(scores)))
        assert found[f"norm_hubs_{name}"] == pytest.approx(np.mean([hit in longest for hit in hits]))
        assert found[f"hub_share_{name}"] == pytest.approx(np.bincount(hits).max() / 250)


def test_a_few_giants_take_the_first_places_by_dot_only():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 16)) + 0.5
    x[:5] *= 50.0
    found = sampled_geometry(x, seed=0, norms_vary=True)
    assert found["norm_hubs_dot"] > 0.95
    assert found["norm_hubs_cosine"] < 0.1


def test_equal_norms_leave_out_what_norms_would_say():
    x = np.random.default_rng(0).normal(size=(100, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = sampled_geometry(x, seed=0, norms_vary=False)
    assert math.isnan(found["norm_hubs_dot"])
    assert math.isnan(found["radial_freedom"])
    assert found["hub_share_dot"] == found["hub_share_cosine"] > 0.0


def test_few_rows_have_no_figures_and_no_error():
    found = sampled_geometry(np.random.default_rng(0).normal(size=(3, 4)), seed=0, norms_vary=True)
    assert math.isnan(found["hubness"])
    assert math.isnan(found["norm_hubs_dot"])
    assert math.isnan(found["effective_rank"])


@pytest.mark.parametrize(("distinct", "times", "width"), [(40, 10, 64), (200, 5, 64), (100, 10, 24), (8, 50, 24)])
@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_copies_make_no_law_of_the_direction(distinct, times, width, noise):
    """Norms that have nothing to do with the direction, each row stored many times: the fit must not have seen what it is judged on."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(distinct, width))
    x *= (rng.lognormal(0.0, 0.3, size=distinct) / np.linalg.norm(x, axis=1))[:, None]
    x = np.repeat(x, times, axis=0)
    x = x * (1.0 + 10 * noise * rng.normal(size=(len(x), 1))) + noise * rng.normal(size=x.shape)
    found = sampled_geometry(x[rng.permutation(len(x))], seed=0, norms_vary=True)
    assert found["radial_rows"] == distinct
    assert math.isnan(found["radial_freedom"]) == (distinct < 14)
    assert math.isnan(found["e3_affine"]) == (0.8 * distinct < 4 * width)
    assert not found["radial_freedom"] < 0.7


def test_a_plane_is_found():
    x = np.random.default_rng(0).normal(size=(400, 5))
    x[:, 4] = 2.0
    assert sampled_geometry(x, seed=0, norms_vary=True)["radial_freedom"] == pytest.approx(0.0, abs=1e-9)
