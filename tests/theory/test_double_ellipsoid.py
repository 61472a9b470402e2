"""The double ellipsoid: figures against loops and closed forms, yes on constructed shells, no on centered Gaussians."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modality_worlds import ellipsoid_shell, isotropic

from normwise.core.errors import InputError
from normwise.core.modality_records import DoubleEllipsoid
from normwise.core.records import Interval
from normwise.theory.double_ellipsoid import (
    LEAST_ROWS,
    double_ellipsoid,
    ellipsoid,
    held_out_distances,
    judged,
    offset_share,
    thickness,
    tilt_share,
    together,
)
from normwise.theory.modality_gap import TwoModalities, modality_gap

NAMES = ("texts", "pictures")
APART = Interval(mean=0.99, ci_low=0.98, ci_high=1.0)


def test_the_offset_is_that_of_a_slow_loop_and_has_no_excess():
    x = isotropic(12, 3, seed=0) + 0.5
    pairs = np.mean([x[i] @ x[j] for i in range(12) for j in range(12) if i != j])
    assert offset_share(x) == pytest.approx(pairs / np.mean([v @ v for v in x]))
    assert np.mean([offset_share(isotropic(20, 8, seed=seed)) for seed in range(300)]) == pytest.approx(0.0, abs=0.01)
    # A cloud of spread 1 in D dimensions at distance a: a^2 / (a^2 + D).
    assert offset_share(isotropic(20_000, 4, seed=1) + np.array([2.0, 0, 0, 0])) == pytest.approx(0.5, abs=0.02)


def test_the_tilt_is_that_of_a_slow_loop_and_has_no_excess():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    squares = sum(np.corrcoef(x[:, i], x[:, j])[0, 1] ** 2 for i in range(3) for j in range(3) if i != j)
    beyond = max(0.0, (squares - 6 / 39) / (1 - 1 / 39))
    assert tilt_share(x) == pytest.approx(beyond / (3 + beyond))
    # Chance alone leaves about half of the draws at 0, and none far from it.
    assert np.mean([tilt_share(isotropic(50, 10, seed=seed)) for seed in range(100)]) < 0.02
    # Equal correlations c: D (D - 1) c^2 off the diagonal.
    common = rng.normal(size=(20_000, 1))
    mixed = np.sqrt(0.5) * common + np.sqrt(0.5) * rng.normal(size=(20_000, 10))
    assert tilt_share(mixed) == pytest.approx(90 * 0.25 / (10 + 90 * 0.25), abs=0.02)


def test_a_coordinate_that_does_not_vary_is_left_out_of_the_tilt():
    x = isotropic(60, 4, seed=0)
    x[:, 1] += x[:, 0]
    assert tilt_share(np.column_stack([x, np.full(60, 3.0)])) == pytest.approx(tilt_share(x))


@pytest.mark.parametrize(("rows", "width"), [(2000, 8), (300, 64), (120, 200)])
def test_a_gaussian_is_as_thick_as_its_dimensions_say(rows, width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, width)) * np.exp(0.3 * rng.normal(size=width))
    distances, dimensions = held_out_distances(x, seed=0)
    squares = distances**2
    assert squares.var() / squares.mean() ** 2 * dimensions / 2 == pytest.approx(1.0, abs=0.3)
    assert dimensions <= width * 1.05
    if rows > 20 * width:
        assert dimensions == pytest.approx(width, rel=0.1)


def test_a_shell_is_thinner_than_a_gaussian_and_a_heavy_tail_thicker():
    rng = np.random.default_rng(1)
    gaussian = rng.normal(size=(1500, 6))
    sphere = gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)
    heavy = gaussian / np.sqrt(rng.chisquare(5, size=(1500, 1)) / 5)
    found = [ellipsoid(x, seed=0) for x in (sphere, gaussian, heavy)]
    ratios = [each.shell_ratio for each in found]
    assert ratios[0] < 0.1
    assert ratios[1] == pytest.approx(1.0, abs=0.25)
    assert ratios[2] > 2.0
    assert [each.shell.outcome for each in found] == ["holds", "does not hold", "does not hold"]


def test_the_thickness_is_the_spread_over_the_mean():
    distances = np.random.default_rng(0).normal(10.0, 1.0, size=4000)
    found = thickness(distances, seed=0)
    assert found.mean == pytest.approx(distances.std() / distances.mean())
    assert found.ci_low < 0.1 < found.ci_high
    # The standard error of a coefficient of variation v is v sqrt(1/2 + v^2) / sqrt(n).
    assert found.ci_high - found.ci_low == pytest.approx(2 * 1.96 * 0.1 * np.sqrt(0.51 / 4000), rel=0.15)


@settings(max_examples=10, deadline=None)
@given(scale=st.floats(0.01, 100), seed=st.integers(0, 100))
def test_no_figure_depends_on_the_scale(scale, seed):
    x = ellipsoid_shell(80, 6, seed=seed)
    one, two = ellipsoid(x, seed=0), ellipsoid(scale * x, seed=0)
    for name in ("shell", "offset", "tilt"):
        assert getattr(two, name).figure.mean == pytest.approx(getattr(one, name).figure.mean, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_centered_gaussians_are_no_double_ellipsoid(seed):
    x, y = isotropic(300, 24, seed=seed), isotropic(300, 24, seed=seed + 50)
    gap = modality_gap(TwoModalities(x, y), seed=seed)
    found = double_ellipsoid(x, y, gap.direction_auc, names=NAMES, seed=seed)
    assert found.outcome == "does not hold"
    assert [cloud.offset.outcome for cloud in (found.first, found.second)] == ["does not hold"] * 2
    assert found.separability.outcome == "does not hold"
    assert found.words.startswith("does not hold: offset of the texts, ")
    assert found.words.endswith("separability")


@pytest.mark.parametrize("seed", range(3))
def test_constructed_double_ellipsoids_are_found(seed):
    x, y = ellipsoid_shell(400, 24, seed=seed), ellipsoid_shell(400, 24, seed=seed + 50)
    gap = modality_gap(TwoModalities(x, y), seed=seed)
    found = double_ellipsoid(x, y, gap.direction_auc, names=NAMES, seed=seed)
    assert found.outcome == "holds", found.words
    assert found.words.startswith("holds: both")
    assert DoubleEllipsoid.from_json(found.to_json()) == found


def test_one_property_that_fails_is_named():
    x, y = ellipsoid_shell(400, 24, seed=0), ellipsoid_shell(400, 24, seed=1, offset=0.0)
    found = double_ellipsoid(x, y, APART, names=NAMES, seed=0)
    assert found.words == "does not hold: offset of the pictures"
    straight = double_ellipsoid(x, isotropic(400, 24, seed=3) + 1.0, APART, names=NAMES, seed=0)
    assert straight.words == "does not hold: tilt of the pictures"
    near = double_ellipsoid(x, ellipsoid_shell(400, 24, seed=1), Interval(mean=0.95, ci_low=0.9, ci_high=0.97), names=NAMES, seed=0)
    assert near.words == "undecided: separability"


def test_the_nulls_reject_as_rarely_as_they_promise():
    found = [ellipsoid(isotropic(100, 6, seed=seed), seed=seed) for seed in range(60)]
    assert sum(each.offset.p_value < 0.05 for each in found) <= 8
    assert sum(each.tilt.p_value < 0.05 for each in found) <= 8
    assert sum(each.offset.outcome == "holds" for each in found) == 0
    assert sum(each.tilt.outcome == "holds" for each in found) == 0


def test_few_or_equal_rows_decide_nothing():
    few = ellipsoid(ellipsoid_shell(LEAST_ROWS - 1, 6, seed=0), seed=0)
    assert few.outcome == "undecided"
    assert f"{LEAST_ROWS - 1} independent rows" in few.note
    assert ellipsoid(np.ones((80, 3)), seed=0).note == "all vectors are equal: a point has no shell"
    with pytest.raises(InputError, match="at least two coordinates"):
        ellipsoid(np.ones((80, 1)), seed=0)


def test_the_outcome_is_the_side_of_the_whole_interval():
    def outcome(low, high, **settings):
        return judged(Interval(mean=0.5, ci_low=low, ci_high=high), 0.5, **settings).outcome

    assert (outcome(0.6, 0.7), outcome(0.4, 0.6), outcome(0.3, 0.4)) == ("holds", "undecided", "does not hold")
    assert (outcome(0.6, 0.7, above=False), outcome(0.3, 0.4, above=False)) == ("does not hold", "holds")
    assert (outcome(0.6, 0.7, p_value=0.2), outcome(0.6, 0.7, p_value=0.01), outcome(0.3, 0.4, p_value=0.2)) == (
        "undecided",
        "holds",
        "does not hold",
    )
    assert (together(["holds", "holds"]), together([])) == ("holds", "holds")
