"""E0, E1, E2 against brute force, at their identities and limits, and on data drawn from the models themselves."""

import math

import numpy as np
import pytest
from calibrator_worlds import loss, softmax_world
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.first_place import rivals
from normwise.theory.fit_rows import MOST_ROWS, thinned
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.softmax_calibrators import (
    QUERY_CONTROLS,
    QUERY_NORM,
    NormTemperatureCalibrator,
    SoftmaxCalibrator,
    TemperatureCalibrator,
)
from normwise.theory.softmax_fit import inverse_loss


@pytest.fixture(scope="module")
def drawn():
    return softmax_world(seed=0, count=2500, norm_power=-0.7, unanswerable=0.1)


def naive(hits, inverse):
    """Softmax of the first hit row by row."""
    found = []
    for row, b in zip(hits.scores, inverse, strict=True):
        weights = [math.exp(b * (s - row[0])) for s in row]
        found.append(weights[0] / sum(weights))
    return np.array(found)


def naive_loss(judged, inverse):
    p = np.clip(naive(judged.hits, inverse), 1e-300, 1 - 1e-16)
    return float(-np.mean(np.where(judged.right, np.log(p), np.log1p(-p))))


def with_scores(judged, scores):
    hits = judged.hits
    return JudgedHits(
        HitLists(scores, hits.query_norms, hits.hit_norms, hits.similarity), judged.relevant, judged.clusters, judged.answerable
    )


def test_softmax_is_the_softmax(drawn):
    p = SoftmaxCalibrator.fit(drawn, temperature=0.05).predict(drawn.hits)
    np.testing.assert_allclose(p, naive(drawn.hits, np.full(len(drawn), 20.0)), rtol=1e-12)


def test_temperature_is_where_a_brute_search_ends(drawn):
    part = drawn.subset(np.arange(300))
    wanted = minimize_scalar(lambda x: naive_loss(part, np.full(300, math.exp(x))), bounds=(-2, 6), method="bounded")
    fitted = TemperatureCalibrator.fit(part)
    assert math.log(fitted.inverse_temperature) == pytest.approx(wanted.x, abs=1e-4)


def test_norm_temperature_is_where_a_brute_search_ends(drawn):
    part = drawn.subset(np.arange(200))
    logs = np.log(part.hits.query_norms)
    wanted = minimize(lambda a: naive_loss(part, np.exp(a[0] + a[1] * logs)), np.array([2.0, 0.0]), method="Nelder-Mead", tol=1e-8)
    fitted = NormTemperatureCalibrator.fit(part)
    assert [fitted.intercept, fitted.exponents[QUERY_NORM]] == pytest.approx(wanted.x.tolist(), abs=1e-3)


def test_gradient_and_hessian_of_the_loss_are_its_differences(drawn):
    part = drawn.subset(np.arange(80))
    gaps = rivals(part.hits.scores, np.zeros(80, dtype=np.int64))
    edges = (0.0, 3.2)
    objective = inverse_loss(gaps, part.right, np.log(part.hits.query_norms)[:, None], edges)
    point, step = np.array([2.5, -0.7]), 1e-5
    assert objective(point)[0] == pytest.approx(
        naive_loss(part, np.exp(np.clip(point[0] + point[1] * np.log(part.hits.query_norms), *edges))), rel=1e-9
    )
    _, gradient, hessian = objective(point)
    for i, move in enumerate(step * np.eye(2)):
        up, down = objective(point + move), objective(point - move)
        assert gradient[i] == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-5)
        np.testing.assert_allclose(hessian[i], (up[1] - down[1]) / (2 * step), rtol=1e-4)


def test_a_temperature_at_the_training_value_is_the_softmax(drawn):
    as_fitted = TemperatureCalibrator(inverse_temperature=1.0 / 0.05, bounds=(0.1, 1e4))
    np.testing.assert_array_equal(as_fitted.predict(drawn.hits), SoftmaxCalibrator(temperature=0.05).predict(drawn.hits))


def test_without_an_exponent_the_norm_temperature_is_a_temperature(drawn):
    flat = NormTemperatureCalibrator(kind="norm_temperature", intercept=math.log(12.0), exponents={QUERY_NORM: 0.0}, bounds=(1e-3, 1e4))
    plain = TemperatureCalibrator(inverse_temperature=12.0, bounds=(1e-3, 1e4))
    np.testing.assert_allclose(flat.predict(drawn.hits), plain.predict(drawn.hits), rtol=1e-12)


@pytest.mark.parametrize("power", [-0.7, 0.0, 0.6])
def test_the_exponent_of_the_norm_is_recovered(power):
    """Standard error of a_1 at 6,000 queries: .03 to .04."""
    judged = softmax_world(seed=7, count=6000, norm_power=power)
    fitted = NormTemperatureCalibrator.fit(judged)
    assert fitted.exponents[QUERY_NORM] == pytest.approx(power, abs=0.13)
    assert fitted.intercept == pytest.approx(math.log(15.0), abs=0.1)
    if power:
        assert ("noise regime" if power < 0 else "signal regime") in fitted.regime
        assert loss(fitted, judged) < loss(TemperatureCalibrator.fit(judged), judged) - 0.003


def test_controls_that_are_noise_get_no_weight_and_a_control_that_acts_gets_its_own():
    judged = softmax_world(seed=8, count=6000, norm_power=-0.5)
    fitted = NormTemperatureCalibrator.fit(judged, controls=QUERY_CONTROLS)
    assert fitted.kind == "norm_temperature_controls"
    assert fitted.parameters == 4
    assert abs(fitted.exponents["query length"]) < 0.15
    assert abs(fitted.exponents["query frequency"]) < 0.15
    assert fitted.exponents[QUERY_NORM] == pytest.approx(-0.5, abs=0.13)
    # The same norms handed over as lengths: log(1 + tokens) = log r + 2.
    hits = judged.hits
    as_length = HitLists(
        hits.scores, np.ones(len(hits)), hits.hit_norms, hits.similarity, query_lengths=np.expm1(np.log(hits.query_norms) + 4.0)
    )
    moved = JudgedHits(as_length, judged.relevant, judged.clusters, judged.answerable)
    other = NormTemperatureCalibrator.fit(moved, controls=("query length",))
    assert other.exponents["query length"] == pytest.approx(-0.5, abs=0.13)
    assert other.exponents[QUERY_NORM] == 0.0
    assert "all equal" in other.regime


def test_more_freedom_never_fits_worse(drawn):
    losses = [
        loss(each, drawn)
        for each in (
            TemperatureCalibrator.fit(drawn),
            NormTemperatureCalibrator.fit(drawn),
            NormTemperatureCalibrator.fit(drawn, controls=QUERY_CONTROLS),
        )
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] <= loss(SoftmaxCalibrator(temperature=0.05), drawn)


def test_temperature_limits(drawn):
    hot, cold = SoftmaxCalibrator(temperature=1e12), SoftmaxCalibrator(temperature=1e-12)
    np.testing.assert_allclose(hot.predict(drawn.hits), 1 / 8, rtol=1e-9)
    np.testing.assert_allclose(cold.predict(drawn.hits), 1.0, rtol=1e-9)
    tied = HitLists(np.array([[0.5, 0.5, 0.1]]), np.ones(1), np.ones((1, 3)), Similarity.COSINE)
    assert cold.predict(tied).tolist() == [0.5]


@given(shift=st.sampled_from([-900.0, -3.0, 400.0]), seed=st.integers(0, 20))
def test_a_shift_of_every_score_and_the_order_of_queries_change_nothing(shift, seed):
    judged = softmax_world(seed=seed, count=120, norm_power=0.4)
    order = np.random.default_rng(seed).permutation(120)
    for fit in (TemperatureCalibrator.fit, NormTemperatureCalibrator.fit):
        here = fit(judged).predict(judged.hits)
        moved = with_scores(judged, judged.hits.scores + shift)
        np.testing.assert_allclose(fit(moved).predict(moved.hits), here, atol=1e-5)
        mixed = judged.subset(order)
        np.testing.assert_allclose(fit(mixed).predict(judged.hits), here, atol=1e-5)


def test_a_change_of_units_changes_no_probability(drawn):
    scaled = with_scores(drawn, 400.0 * drawn.hits.scores)
    fitted, large = TemperatureCalibrator.fit(drawn), TemperatureCalibrator.fit(scaled)
    assert large.inverse_temperature == pytest.approx(fitted.inverse_temperature / 400.0, rel=1e-4)
    np.testing.assert_allclose(large.predict(scaled.hits), fitted.predict(drawn.hits), rtol=1e-3)


def test_separable_and_hopeless_data_end_inside_the_stated_range():
    scores = np.tile([[0.9, 0.1]], (20, 1))
    scores[10:, 1] = 0.9
    right = np.arange(20) < 10
    hits = HitLists(scores, np.ones(20), np.ones((20, 2)), Similarity.COSINE)
    separable = JudgedHits(hits, np.stack([right, ~right], axis=1), np.arange(20), np.ones(20, dtype=bool))
    fitted = TemperatureCalibrator.fit(separable)
    assert fitted.predict(hits)[:10].min() > 0.999
    assert fitted.inverse_temperature <= fitted.bounds[1]
    hopeless = JudgedHits(hits, np.stack([~right, right], axis=1), np.arange(20), np.ones(20, dtype=bool))
    # All that score apart are wrong: the least confident softmax is the best one.
    flat = TemperatureCalibrator.fit(hopeless)
    assert flat.inverse_temperature == pytest.approx(flat.bounds[0])
    np.testing.assert_allclose(flat.predict(hits), 0.5, atol=1e-3)
    assert np.isfinite(loss(NormTemperatureCalibrator.fit(hopeless), hopeless))


def test_rows_without_a_direction_are_answered_with_0_and_fitted_on_by_nobody(drawn):
    part = drawn.subset(np.arange(400))
    norms, relevant = part.hits.query_norms.copy(), part.relevant.copy()
    norms[::4], relevant[::4] = 0.0, True
    spoiled = JudgedHits(
        HitLists(part.hits.scores, norms, part.hits.hit_norms, part.hits.similarity), relevant, part.clusters, part.answerable
    )
    kept = part.subset(norms > 0)
    for fit in (TemperatureCalibrator.fit, NormTemperatureCalibrator.fit):
        fitted = fit(spoiled)
        assert fitted == fit(kept)
        p = fitted.predict(spoiled.hits)
        assert (p[::4] == 0.0).all()
        assert (p[norms > 0] > 0.0).all()


def test_a_norm_never_seen_keeps_the_temperature_in_range(drawn):
    fitted = NormTemperatureCalibrator.fit(drawn)
    far = HitLists(np.array([[0.5, 0.4], [0.5, 0.4]]), np.array([1e-280, 1e280]), np.ones((2, 2)), Similarity.COSINE)
    inverse = fitted.inverse_temperatures(far)
    assert inverse == pytest.approx([fitted.bounds[1], fitted.bounds[0]])
    assert np.isfinite(fitted.predict(far)).all()


def test_of_very_many_queries_an_even_sample_is_fitted():
    rows = thinned(np.arange(5 * MOST_ROWS))
    assert rows.size == MOST_ROWS
    assert set(np.diff(rows).tolist()) == {5}


def test_what_cannot_be_fitted_is_refused_in_words(drawn):
    part = drawn.subset(np.arange(40))
    with pytest.raises(InputError, match="softmax: no training temperature is known"):
        SoftmaxCalibrator.fit(part, temperature=None)
    all_right = part.relevant.copy()
    all_right[:, 0] = True
    one_class = JudgedHits(part.hits, all_right, part.clusters, part.answerable)
    with pytest.raises(InputError, match="temperature: 40 right and 0 wrong first hits in 40 usable queries; expected at least 2 of both"):
        TemperatureCalibrator.fit(one_class)
    with pytest.raises(InputError, match="temperature: all hits of each query score alike"):
        TemperatureCalibrator.fit(with_scores(part, np.full((40, 8), 0.3)))
    single = JudgedHits(
        HitLists(part.hits.scores[:, :1], part.hits.query_norms, part.hits.hit_norms[:, :1], part.hits.similarity),
        part.relevant[:, :1],
        part.clusters,
        part.answerable,
    )
    with pytest.raises(InputError, match="norm_temperature: one hit per query"):
        NormTemperatureCalibrator.fit(single)
    with pytest.raises(InputError, match="one hit per query; a softmax over one hit is always 1"):
        TemperatureCalibrator.fit(part).predict(single.hits)
    with pytest.raises(InputError, match="control 'length' is unknown; expected some of query length, query frequency"):
        NormTemperatureCalibrator.fit(part, controls=("length",))
    with pytest.raises(InputError, match="query length is not known of these queries"):
        NormTemperatureCalibrator.fit(with_scores(part, part.hits.scores), controls=("query length",))
