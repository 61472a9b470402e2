"""E4: pools by a slow loop, what a monotone map must keep, and the sign rule of beta calibration."""

import numpy as np
import pytest
from calibrator_worlds import loss, softmax_world
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from normwise.core.errors import InputError
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.monotone_calibrators import BetaCalibrator, IsotonicCalibrator
from normwise.theory.prior_calibrators import PriorCalibrator
from normwise.theory.softmax_calibrators import SoftmaxCalibrator, TemperatureCalibrator


def pools(values):
    """Pool adjacent violators: (mean, count) of each pool."""
    found = []
    for value in values:
        found.append([float(value), 1])
        while len(found) > 1 and found[-2][0] >= found[-1][0]:
            (a, m), (b, n) = found[-2:]
            found[-2:] = [[(a * m + b * n) / (m + n), m + n]]
    return np.repeat([mean for mean, _ in found], [count for _, count in found])


def overconfident(seed=0, count=1500):
    judged = softmax_world(seed=seed, count=count, inverse=8.0, unanswerable=0.2)
    return judged, SoftmaxCalibrator(temperature=0.03)


def test_isotonic_is_pool_adjacent_violators_with_laplace_ends():
    judged, base = overconfident(count=300)
    fitted = IsotonicCalibrator.fit(judged, base=base)
    given_p = base.predict(judged.hits)
    order = np.argsort(given_p, kind="stable")
    wanted = pools(judged.right[order])
    zeros, ones = np.count_nonzero(wanted == 0), np.count_nonzero(wanted == 1)
    wanted[wanted == 0] = min(1 / (zeros + 2), wanted[zeros])
    wanted[wanted == 1] = max((ones + 1) / (ones + 2), wanted[-ones - 1])
    np.testing.assert_allclose(fitted.predict(judged.hits)[order], wanted, atol=1e-9)
    assert zeros + ones > 0, "an end is drawn in here, so the rule is tested"


@given(seed=st.integers(0, 500), count=st.integers(12, 200))
def test_isotonic_never_falls_keeps_the_mean_and_stays_off_the_ends(seed, count):
    judged = softmax_world(seed=seed, count=count, inverse=6.0)
    assume(min(judged.right.sum(), (~judged.right).sum()) >= 2)
    base = SoftmaxCalibrator(temperature=0.05)
    fitted = IsotonicCalibrator.fit(judged, base=base)
    p = fitted.predict(judged.hits)[np.argsort(base.predict(judged.hits))]
    assert (np.diff(p) >= 0).all()
    assert p[0] > 0
    assert p[-1] < 1
    # A pool of m rows moves by m / (m + 2) in sum.
    assert abs(p.sum() - judged.right.sum()) < 2.0 + 1e-9
    assert np.isfinite(loss(fitted, judged))


def test_isotonic_keeps_the_mean_exactly_where_no_end_is_drawn_in():
    judged, base = overconfident()
    right = judged.relevant.copy()
    order = np.argsort(base.predict(judged.hits))
    right[order[[0, -1]], 0] = True, False
    fitted = IsotonicCalibrator.fit(JudgedHits(judged.hits, right, judged.clusters, judged.answerable), base=base)
    assert fitted.predict(judged.hits).mean() == pytest.approx(right[:, 0].mean(), abs=1e-12)


def test_maps_mend_an_overconfident_base_on_fresh_queries():
    judged, base = overconfident()
    fresh, _ = overconfident(seed=1, count=4000)
    before = loss(base, fresh)
    for calibrator in (IsotonicCalibrator, BetaCalibrator):
        fitted = calibrator.fit(judged, base=base)
        assert loss(fitted, fresh) < before - 0.1
        assert abs(fitted.predict(fresh.hits).mean() - fresh.right.mean()) < 0.03


def test_beta_is_where_a_brute_search_ends():
    judged, base = overconfident(count=400)
    p = base.predict(judged.hits)
    sign = np.where(judged.right, 1, -1)
    wanted = minimize(lambda w: np.logaddexp(0, -sign * (w[0] * np.log(p) - w[1] * np.log1p(-p) + w[2])).sum(), np.zeros(3), tol=1e-10).x
    assert wanted.min() > -1 or wanted[:2].min() >= 0
    fitted = BetaCalibrator.fit(judged, base=base)
    if wanted[:2].min() >= 0:
        assert [fitted.a, fitted.b, fitted.c] == pytest.approx(wanted.tolist(), abs=1e-3)
    np.testing.assert_allclose(fitted.predict(judged.hits), expit(fitted.a * np.log(p) - fitted.b * np.log1p(-p) + fitted.c), rtol=1e-9)


def test_true_beta_curve_is_recovered():
    rng = np.random.default_rng(2)
    judged = softmax_world(seed=2, count=20_000)
    p = rng.uniform(0.02, 0.98, size=20_000)
    right = judged.relevant.copy()
    right[:, 0] = rng.random(20_000) < expit(0.6 * np.log(p) - 1.5 * np.log1p(-p) - 0.5)
    fitted = BetaCalibrator.fit(
        JudgedHits(judged.hits, right, judged.clusters, judged.answerable), base=SoftmaxCalibrator(temperature=0.05), confidence=p
    )
    assert [fitted.a, fitted.b, fitted.c] == pytest.approx([0.6, 1.5, -0.5], abs=0.12)


@pytest.mark.parametrize(("a", "b", "zero"), [(-0.8, 2.5, "a"), (2.5, -0.8, "b"), (-1.0, -1.0, "ab")])
def test_a_coefficient_that_comes_out_negative_is_0(a, b, zero):
    """The curve stays monotone; a base whose order is upside down keeps the share of right answers only."""
    rng = np.random.default_rng(3)
    judged = softmax_world(seed=3, count=5000)
    p = rng.uniform(0.02, 0.98, size=5000)
    right = judged.relevant.copy()
    right[:, 0] = rng.random(5000) < expit(a * np.log(p) - b * np.log1p(-p))
    data = JudgedHits(judged.hits, right, judged.clusters, judged.answerable)
    fitted = BetaCalibrator.fit(data, base=SoftmaxCalibrator(temperature=0.05), confidence=p)
    assert {name for name in "ab" if getattr(fitted, name) == 0.0} == set(zero)
    if zero == "ab":
        assert fitted.c == pytest.approx(logit(right[:, 0].mean()))


def test_identity_curve_changes_nothing():
    judged, base = overconfident(count=100)
    same = BetaCalibrator(base=base, a=1.0, b=1.0, c=0.0)
    np.testing.assert_allclose(same.predict(judged.hits), base.predict(judged.hits), rtol=1e-6)


def test_a_re_ranking_base_is_judged_by_the_hit_that_it_puts_first():
    judged = softmax_world(seed=4, count=3000, prior_power=1.5)
    base = PriorCalibrator.fit(judged)
    places = base.order(judged.hits)
    assert places.any()
    right = judged.relevant[np.arange(3000), places]
    assert right.mean() > judged.right.mean() + 0.02
    for calibrator in (IsotonicCalibrator, BetaCalibrator):
        fitted = calibrator.fit(judged, base=base)
        np.testing.assert_array_equal(fitted.order(judged.hits), places)
        assert fitted.predict(judged.hits).mean() == pytest.approx(right.mean(), abs=2e-3)


def test_unusable_rows_parameters_depth_and_words():
    judged, base = overconfident(count=200)
    norms = judged.hits.query_norms.copy()
    norms[:30] = 0.0
    hits = type(judged.hits)(judged.hits.scores, norms, judged.hits.hit_norms, judged.hits.similarity)
    spoiled = JudgedHits(hits, judged.relevant, judged.clusters, judged.answerable)
    for calibrator in (IsotonicCalibrator, BetaCalibrator):
        fitted = calibrator.fit(spoiled, base=base)
        assert fitted == calibrator.fit(judged.subset(np.arange(30, 200)), base=base)
        assert (fitted.predict(hits)[:30] == 0).all()
        assert fitted.depth is None
        assert "on top of: softmax" in fitted.words
    assert BetaCalibrator.fit(spoiled, base=TemperatureCalibrator.fit(spoiled)).parameters == 4
    on_top = IsotonicCalibrator.fit(spoiled, base=LogisticCalibrator.fit(spoiled))
    assert on_top.depth == 2
    assert on_top.parameters == len(set(on_top.y)) + 3


def test_a_constant_base_gives_the_share_of_right_answers():
    judged, base = overconfident(count=100)
    for calibrator in (IsotonicCalibrator, BetaCalibrator):
        fitted = calibrator.fit(judged, base=base, confidence=np.full(100, 0.4))
        flat = (
            fitted.predict(judged.hits)
            if isinstance(fitted, IsotonicCalibrator)
            else expit([fitted.a * np.log(0.4) - fitted.b * np.log(0.6) + fitted.c])
        )
        np.testing.assert_allclose(flat, judged.right.mean(), atol=1e-4)


def test_confidences_that_do_not_fit_are_refused():
    judged, base = overconfident(count=50)
    for bad in (np.full(49, 0.5), np.full(50, 1.5), np.full(50, np.nan)):
        with pytest.raises(InputError, match="isotonic: confidence has shape .*; expected 50 probabilities"):
            IsotonicCalibrator.fit(judged, base=base, confidence=bad)
