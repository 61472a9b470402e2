"""What all calibrators share: exact round trips through JSON, ranges, determinism, rows that stand alone, the control world."""

import numpy as np
import pydantic
import pytest
from calibrator_worlds import control_world, loss, softmax_world
from free_queries import train
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.similarity import Similarity
from normwise.theory.calibrators import (
    BetaCalibrator,
    IsotonicCalibrator,
    LogisticCalibrator,
    NormTemperatureCalibrator,
    PriorCalibrator,
    RerankingCalibrator,
    SoftmaxCalibrator,
    TemperatureCalibrator,
    chosen_right,
    read_calibrator,
)
from normwise.theory.hit_lists import PRIORS, HitLists, JudgedHits
from normwise.theory.risk_coverage import excess_aurc, negative_log_likelihood

KINDS = ("logistic", "logistic_norm", "logistic_controls", "logistic_controls_norm")


def fit_all(judged):
    found = {
        "softmax": SoftmaxCalibrator.fit(judged, temperature=1 / 15),
        "temperature": TemperatureCalibrator.fit(judged),
        "norm_temperature": NormTemperatureCalibrator.fit(judged),
        "norm_temperature_controls": NormTemperatureCalibrator.fit(judged, controls=("query length", "query frequency")),
        **{kind: LogisticCalibrator.fit(judged, kind=kind) for kind in KINDS},
        **{f"{prior.replace(' ', '_')}_reranking": RerankingCalibrator.fit(judged, prior=prior) for prior in PRIORS},
        **{f"{prior.replace(' ', '_')}_prior": PriorCalibrator.fit(judged, prior=prior) for prior in PRIORS},
    }
    found["isotonic"] = IsotonicCalibrator.fit(judged, base=found["norm_temperature"])
    found["beta"] = BetaCalibrator.fit(judged, base=found["norm_prior"])
    return found


@pytest.fixture(scope="module")
def judged():
    return softmax_world(seed=0, count=600, norm_power=-0.5, prior_power=0.5, unanswerable=0.1)


@pytest.fixture(scope="module")
def fitted(judged):
    return fit_all(judged)


def test_kinds_are_the_names_and_each_has_words(fitted):
    assert {name: each.kind for name, each in fitted.items()} == {name: name for name in fitted}
    assert all(each.words and "\n" not in each.words for each in fitted.values())
    assert all(each.parameters >= 0 for each in fitted.values())


def test_predictions_after_a_trip_through_json_are_equal_to_the_last_bit(fitted, judged):
    fresh = softmax_world(seed=1, count=300)
    for name, calibrator in fitted.items():
        again = read_calibrator(calibrator.to_json())
        assert again == calibrator, name
        np.testing.assert_array_equal(
            again.predict(fresh.hits, priors=fresh.priors), calibrator.predict(fresh.hits, priors=fresh.priors), err_msg=name
        )
        assert type(calibrator).from_json(calibrator.to_json()) == calibrator


def test_fits_are_deterministic(fitted, judged):
    assert fit_all(judged) == fitted


def test_a_query_is_answered_alike_alone_and_in_company(fitted):
    fresh = softmax_world(seed=2, count=40)
    for name, calibrator in fitted.items():
        together = calibrator.predict(fresh.hits, priors=fresh.priors)
        alone = [calibrator.predict(one.hits, priors=one.priors)[0] for one in (fresh.subset(np.array([i])) for i in range(40))]
        np.testing.assert_array_equal(together, alone, err_msg=name)


def test_order_says_which_hit_is_meant(fitted, judged):
    for name, calibrator in fitted.items():
        places = calibrator.order(judged.hits, priors=judged.priors)
        assert places.dtype == np.int64
        if not name.endswith(("reranking", "prior")) and name != "beta":
            assert not places.any()
        assert chosen_right(judged, places).tolist() == [judged.relevant[i, j] for i, j in enumerate(places)]


def test_an_unknown_kind_or_key_is_no_calibrator():
    with pytest.raises(pydantic.ValidationError, match="does not match any of the expected tags"):
        read_calibrator('{"kind": "platt"}')
    with pytest.raises(pydantic.ValidationError, match="Extra inputs are not permitted"):
        read_calibrator('{"kind": "softmax", "temperature": 0.1, "pickle": "x"}')


@given(
    scale=st.sampled_from([0.0, 1e-6, 1.0, 400.0]),
    shift=st.sampled_from([-400.0, -0.2, 0.0, 400.0]),
    zero=st.booleans(),
    seed=st.integers(0, 50),
)
def test_any_scores_give_probabilities(fitted, scale, shift, zero, seed):
    """Scores far from those fitted on, of both signs, constant rows, zero vectors: 0 to 1, and 0 exactly where unusable."""
    world = softmax_world(seed=seed, count=5)
    norms, hit_norms = world.hits.query_norms.copy(), world.hits.hit_norms.copy()
    if zero:
        norms[0], hit_norms[1, 0], hit_norms[2, 1] = 0.0, 0.0, 0.0
    hits = HitLists(
        scale * world.hits.scores + shift,
        norms,
        hit_norms,
        Similarity.DOT,
        query_lengths=world.hits.query_lengths,
        hit_lengths=world.hits.hit_lengths,
        query_frequency=world.hits.query_frequency,
        hit_frequency=world.hits.hit_frequency,
    )
    for name, calibrator in fitted.items():
        p = calibrator.predict(hits, priors=world.priors)
        assert ((p > 0.0) & (p < 1.0))[hits.usable].all(), name
        assert (p[~hits.usable] == 0.0).all(), name


def test_scores_of_400_of_either_sign_can_be_fitted():
    world = softmax_world(seed=3, count=400)
    for scores in (400.0 * world.hits.scores, world.hits.scores - 2.0, 1e-5 * world.hits.scores):
        hits = HitLists(
            scores,
            world.hits.query_norms,
            world.hits.hit_norms,
            Similarity.QUERY_NORMALIZED,
            query_lengths=world.hits.query_lengths,
            hit_lengths=world.hits.hit_lengths,
            query_frequency=world.hits.query_frequency,
            hit_frequency=world.hits.hit_frequency,
        )
        moved = JudgedHits(hits, world.relevant, world.clusters, world.answerable, world.priors)
        for name, calibrator in fit_all(moved).items():
            assert np.isfinite(loss(calibrator, moved)), name


def control_figures(seed):
    """NLL, Brier and E-AURC on test queries, the calibrators fitted on the other half of the queries; a_1 on top."""
    judged = control_world(train(seed=seed), per_query=8, seed=seed + 1)
    fit_half = np.isin(judged.clusters, np.random.default_rng(seed).permutation(600)[:300])
    fit, test = judged.subset(fit_half), judged.subset(~fit_half)
    linear = ("score", "margin", "query frequency")
    calibrators = {
        "softmax": SoftmaxCalibrator.fit(fit, temperature=0.2),
        "temperature": TemperatureCalibrator.fit(fit),
        "norm temperature": NormTemperatureCalibrator.fit(fit),
        "logit": LogisticCalibrator.fit(fit),
        "logit + norm": LogisticCalibrator.fit(fit, kind="logistic_norm"),
        "logit + norm + frequency": LogisticCalibrator.fit(fit, kind="logistic_norm", signals=linear),
        "logit + frequency": LogisticCalibrator.fit(fit, signals=linear),
    }
    figures = {}
    for name, calibrator in calibrators.items():
        p = calibrator.predict(test.hits)
        figures[name] = [
            negative_log_likelihood(p, test.right),
            np.mean((p - test.right) ** 2),
            excess_aurc(p, test.right),
        ]
    return figures, calibrators["norm temperature"].exponents["log query norm"]


def check_control(seeds):
    runs = [control_figures(seed) for seed in seeds]
    nll, brier, e_aurc = ({name: np.mean([run[0][name][i] for run in runs]) for name in runs[0][0]} for i in range(3))
    assert all(run[1] < -0.2 for run in runs), "a_1: long = ambiguous in this regime"
    for figure in (nll, brier):
        assert figure["norm temperature"] < figure["temperature"] < figure["softmax"]
    assert e_aurc["norm temperature"] < e_aurc["temperature"]
    assert e_aurc["logit + norm + frequency"] < e_aurc["logit + norm"] < e_aurc["logit"]
    assert e_aurc["logit + norm + frequency"] < e_aurc["logit + frequency"], "it is the norm, cleaned of frequency"
    return nll, brier, e_aurc


def test_the_control_world_orders_calibrators_as_published():
    check_control(range(2))


@pytest.mark.slow
def test_four_control_worlds_have_the_published_figures():
    """Published: NLL .482 .367 .343, Brier .162 .113 .105, E-AURC .092 .083 .079, held to half a published step or so."""
    nll, brier, e_aurc = check_control(range(4))
    assert [nll["softmax"], nll["temperature"], nll["norm temperature"]] == pytest.approx([0.482, 0.367, 0.343], abs=0.015)
    assert [brier["softmax"], brier["temperature"], brier["norm temperature"]] == pytest.approx([0.162, 0.113, 0.105], abs=0.006)
    names = ("logit", "logit + norm", "logit + norm + frequency")
    assert [e_aurc[name] for name in names] == pytest.approx([0.092, 0.083, 0.079], abs=0.006)
