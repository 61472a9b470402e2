"""Where 1/k starts, and a limit that is refused where it has not."""

import numpy as np
import pytest
from infonce_world import circle, circle_limit

from normwise.theory.infonce_estimates import risk_curve
from normwise.theory.infonce_regime import fit_curve, limit_of, regime_of
from normwise.theory.negative_sums import negative_sums


def drawn(seed, **world):
    queries, _, pool, positive = circle(np.random.default_rng(seed), **world)
    return positive, negative_sums(queries, pool)


def test_spread_and_weight_are_those_of_their_definitions():
    positive, sums = drawn(0, queries=200, pool=4096, temperature=0.2)
    found = regime_of(positive, sums)
    means = np.exp(sums.log_mean)
    assert found.positive_weight == pytest.approx(np.mean(np.exp(positive) / means))
    assert found.cv2_mean == pytest.approx(np.mean(sums.cv2))
    assert found.cv2_median <= found.cv2_p90
    assert found.start == 10.0 * max(found.cv2_mean, found.positive_weight)
    assert found.constant == pytest.approx(found.cv2_mean / 2.0 - found.positive_weight)
    assert found.extrapolates


def test_the_fitted_constant_is_the_leading_one_and_its_limit_is_that_of_the_jackknife():
    positive, sums = drawn(1, queries=4000, pool=16_384, temperature=0.4)
    regime, curve = regime_of(positive, sums), risk_curve(positive, sums)
    fit = fit_curve(curve, regime.start)
    assert fit.points >= 3
    assert fit.constant == pytest.approx(regime.constant, rel=0.1)
    limit = limit_of(positive, sums, regime)
    assert limit is not None
    assert fit.limit == pytest.approx(limit[0].value, abs=3e-3)
    low, high = limit[0].interval(beyond=limit[1])
    assert low < circle_limit(temperature=0.4) < high


def test_heavy_tails_get_no_limit():
    random = np.random.default_rng(2)
    queries = random.normal(size=(50, 64)) * 3.0
    pool = random.normal(size=(256, 64))
    sums = negative_sums(queries, pool)
    regime = regime_of(np.full(50, 20.0), sums)
    assert regime.decoupled_start > 256
    assert not regime.extrapolates
    assert limit_of(np.full(50, 20.0), sums, regime) is None


def test_few_negatives_get_no_limit_however_alike_they_are():
    sums = negative_sums(np.zeros((5, 2)), np.ones((15, 2)))
    assert not regime_of(np.zeros(5), sums).extrapolates
    assert regime_of(np.zeros(5), negative_sums(np.zeros((5, 2)), np.ones((16, 2)))).extrapolates


def test_too_few_points_are_not_fitted():
    positive, sums = drawn(3, queries=50, pool=64, temperature=0.2)
    fit = fit_curve(risk_curve(positive, sums), 33.0)
    assert fit.points == 1
    assert np.isnan(fit.limit)
    assert np.isnan(fit.constant)
