"""E3: against a brute-force search, on truths that it can hold, and on norms that are length in disguise."""

import math

import numpy as np
import pytest
from calibrator_worlds import loss, softmax_world
from scipy.optimize import minimize
from scipy.special import expit

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.logistic_calibrator import CONTROL_SIGNALS, NORM_SIGNALS, SCORE_SIGNALS, LogisticCalibrator
from normwise.theory.signals import signals


def judged_by(chance, *, seed, count, **known):
    """Two hits a row whose first is right with a chance that is a function of the signals; norms as given."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(0.3, 0.9, size=count)
    scores = np.stack([first, first - rng.exponential(0.1, size=count)], axis=1)
    norms = {"query_norms": rng.lognormal(0, 0.3, size=count), "hit_norms": rng.lognormal(0, 0.3, size=(count, 2))} | known
    hits = HitLists(scores, similarity=Similarity.COSINE, **norms)
    right = rng.random(count) < expit(chance(signals(hits)))
    return JudgedHits(hits, np.stack([right, np.zeros_like(right)], axis=1), np.arange(count), np.ones(count, dtype=bool))


def test_coefficients_are_where_a_brute_search_ends():
    judged = judged_by(lambda s: 4 * (s["score"] - 0.6) + 6 * s["margin"], seed=0, count=150)
    fitted = LogisticCalibrator.fit(judged, penalty=0.3)
    values = signals(judged.hits)
    columns = np.stack([(values[n] - values[n].mean()) / values[n].std() for n in SCORE_SIGNALS], axis=1)
    sign = np.where(judged.right, 1, -1)

    def penalized(w):
        return np.logaddexp(0, -sign * (columns @ w[:2] + w[2])).sum() + 0.5 / 0.3 * (w[:2] ** 2).sum()

    wanted = minimize(penalized, np.zeros(3), tol=1e-10).x
    assert [*(c.coefficient for c in fitted.columns), fitted.intercept] == pytest.approx(wanted.tolist(), abs=1e-4)
    p = fitted.predict(judged.hits)
    np.testing.assert_allclose(p, expit(columns @ wanted[:2] + wanted[2]), atol=1e-4)


def test_true_coefficients_are_recovered():
    judged = judged_by(
        lambda s: 5 * (s["score"] - 0.6) + 8 * (s["margin"] - 0.1) - 2 * s["log query norm"] + s["log hit norm"], seed=1, count=20_000
    )
    fitted = LogisticCalibrator.fit(judged, kind="logistic_norm")
    raw = {column.signal: column.coefficient / column.scale for column in fitted.columns}
    assert raw == pytest.approx({"score": 5, "margin": 8, "log query norm": -2, "log hit norm": 1}, abs=0.4)
    assert loss(fitted, judged) < loss(LogisticCalibrator.fit(judged), judged) - 0.02


def test_kinds_hold_what_the_table_says():
    judged = softmax_world(seed=2, count=400)
    columns = {
        kind: [(c.signal, c.knot is not None) for c in LogisticCalibrator.fit(judged, kind=kind).columns]
        for kind in ("logistic", "logistic_norm", "logistic_controls", "logistic_controls_norm")
    }
    assert columns["logistic"] == [(name, False) for name in SCORE_SIGNALS]
    assert columns["logistic_norm"] == [(name, False) for name in (*SCORE_SIGNALS, *NORM_SIGNALS)]
    bent = columns["logistic_controls"]
    assert {name for name, knot in bent if knot} == {*SCORE_SIGNALS, *CONTROL_SIGNALS}
    assert columns["logistic_controls_norm"] == [*((name, False) for name in NORM_SIGNALS), *bent]


def test_a_norm_that_is_length_is_not_praised_for_the_bend_of_length():
    """Right answers peak at middle lengths; the norm is the square of log length and means nothing else."""
    count = 6000
    tokens = np.round(np.random.default_rng(9).lognormal(3.0, 0.7, size=count)) + 1
    z = (np.log1p(tokens) - np.log1p(tokens).mean()) / np.log1p(tokens).std()
    judged = judged_by(lambda _: 1.5 - z**2, seed=3, count=count, query_lengths=tokens, query_norms=np.exp(0.1 * z**2))
    half = np.arange(count) < count // 2
    fit, test = judged.subset(half), judged.subset(~half)
    losses = {
        kind: loss(LogisticCalibrator.fit(fit, kind=kind), test)
        for kind in ("logistic", "logistic_norm", "logistic_controls", "logistic_controls_norm")
    }
    assert losses["logistic"] - losses["logistic_norm"] > 0.08, "the norm mends a bend that lines cannot follow"
    assert abs(losses["logistic_controls"] - losses["logistic_controls_norm"]) < 0.004, "curves of length leave it nothing"


def test_few_distinct_values_are_fitted_exactly():
    """Three frequencies: two columns of a broken line are one number for each."""
    frequency = np.tile([0.0, 1.0, 9.0], 2000)
    chance = {0.0: 1.0, 1.0: -1.0, 9.0: 0.5}
    judged = judged_by(lambda _: np.array([chance[f] for f in frequency]), seed=4, count=6000, query_frequency=frequency)
    fitted = LogisticCalibrator.fit(judged, kind="logistic_controls", signals=(), penalty=1e6)
    p = fitted.predict(judged.hits)
    for f in chance:
        assert p[frequency == f].mean() == pytest.approx(judged.right[frequency == f].mean(), abs=1e-4)
        assert np.ptp(p[frequency == f]) == 0.0
    assert fitted.parameters == 3
    assert fitted.depth == 1


def test_nothing_that_varies_gives_the_share_of_right_answers():
    hits = HitLists(np.full((10, 2), 0.5), np.ones(10), np.ones((10, 2)), Similarity.COSINE)
    right = np.arange(10) < 7
    judged = JudgedHits(hits, np.stack([right, right], axis=1), np.arange(10), np.ones(10, dtype=bool))
    fitted = LogisticCalibrator.fit(judged, kind="logistic_norm")
    assert fitted.columns == ()
    np.testing.assert_allclose(fitted.predict(hits), 0.7)
    assert "nothing that varies" in fitted.words


def test_depth_is_that_of_the_deepest_signal():
    judged = softmax_world(seed=5, count=200, depth=20)
    assert LogisticCalibrator.fit(judged).depth == 2
    assert LogisticCalibrator.fit(judged, signals=("score", "entropy"), temperature=0.1).depth == 10
    whole = LogisticCalibrator.fit(judged, signals=("score", "residual"), temperature=0.1)
    assert whole.depth is None
    assert whole.temperature == 0.1
    assert LogisticCalibrator.fit(judged, temperature=0.1).temperature is None, "no signal needs it"


def test_separable_answers_stay_finite():
    judged = softmax_world(seed=6, count=60)
    separable = judged.relevant.copy()
    separable[:, 0] = judged.hits.scores[:, 0] > np.median(judged.hits.scores[:, 0])
    fitted = LogisticCalibrator.fit(JudgedHits(judged.hits, separable, judged.clusters, judged.answerable), penalty=1e6)
    p = fitted.predict(judged.hits)
    assert ((p > 0) & (p < 1)).all()


def test_what_cannot_be_fitted_is_refused_in_words():
    judged = softmax_world(seed=7, count=50)
    bare = JudgedHits(
        HitLists(judged.hits.scores, judged.hits.query_norms, judged.hits.hit_norms, Similarity.COSINE),
        judged.relevant,
        judged.clusters,
        judged.answerable,
    )
    with pytest.raises(InputError, match="logistic: entropy is not known of these hits; expected the training temperature"):
        LogisticCalibrator.fit(judged, signals=("entropy",))
    with pytest.raises(InputError, match="logistic: signal 'scores' is unknown"):
        LogisticCalibrator.fit(judged, signals=("scores",))
    with pytest.raises(InputError, match="logistic_controls: neither lengths nor frequencies of these hits are known"):
        LogisticCalibrator.fit(bare, kind="logistic_controls")
    with pytest.raises(InputError, match="logistic_controls: query length is not known of these hits"):
        LogisticCalibrator.fit(judged, kind="logistic_controls").predict(bare.hits)
    with pytest.raises(InputError, match="logistic: penalty is 0.0; expected a finite inverse strength above 0"):
        LogisticCalibrator.fit(judged, penalty=0.0)
    huge = JudgedHits(
        HitLists(judged.hits.scores * 1e200, judged.hits.query_norms, judged.hits.hit_norms, Similarity.DOT),
        judged.relevant,
        judged.clusters,
        judged.answerable,
    )
    with pytest.raises(InputError, match=r"score reaches .*; expected magnitudes up to 1e\+100"):
        LogisticCalibrator.fit(huge)


def test_unusable_rows_get_0_and_do_not_fit():
    judged = softmax_world(seed=8, count=300)
    norms = judged.hits.hit_norms.copy()
    norms[:50, 0] = 0.0
    hits = HitLists(judged.hits.scores, judged.hits.query_norms, norms, Similarity.COSINE)
    spoiled = JudgedHits(hits, judged.relevant, judged.clusters, judged.answerable)
    fitted = LogisticCalibrator.fit(spoiled, kind="logistic_norm")
    assert fitted == LogisticCalibrator.fit(judged.subset(np.arange(50, 300)), kind="logistic_norm")
    p = fitted.predict(hits)
    assert (p[:50] == 0).all()
    assert (p[50:] > 0).all()
    assert math.isfinite(p.sum())


@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_the_unit_of_the_scores_does_not_matter(scale):
    """Scores of short vectors differ by less than rounding does beside 1, and are no constants for that."""
    judged = judged_by(lambda s: 4 * (s["score"] - 0.6) + 6 * s["margin"], seed=0, count=150)
    hits = judged.hits
    names, fits = (*SCORE_SIGNALS, "score under dot"), []
    for unit in (1.0, scale):
        moved = HitLists(hits.scores * unit, hits.query_norms * unit, hits.hit_norms, Similarity.CANDIDATE_NORMALIZED)
        fitted = LogisticCalibrator.fit(JudgedHits(moved, judged.relevant, judged.clusters, judged.answerable), signals=names)
        assert {column.signal for column in fitted.columns} == set(names)
        fits.append(fitted.predict(moved))
    np.testing.assert_allclose(fits[1], fits[0], rtol=1e-6)


def test_equal_short_scores_are_constants():
    judged = judged_by(lambda s: s["log query norm"], seed=0, count=150)
    # Rounding alone: 1e-10, and margins of some 1e-25.
    scores = -np.sort(-1e-10 * (1.0 + 1e-15 * np.random.default_rng(1).random((150, 2))), axis=1)
    hits = HitLists(scores, judged.hits.query_norms, judged.hits.hit_norms, Similarity.DOT)
    fitted = LogisticCalibrator.fit(JudgedHits(hits, judged.relevant, judged.clusters, judged.answerable))
    assert fitted.columns == ()
