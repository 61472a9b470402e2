"""Verdicts: positive controls, honest refusals, regimes, and no sign without its regime."""

import numpy as np
import pytest
from verdict_material import NO_TOKENS, NOISE, PLANE, SPREAD, TOKENS, factor, judged, table

from normwise.core.norm_records import FactorAssociation, NormDistribution, RadialEvidence, TrainingEvidence, Usefulness
from normwise.core.records import Interval
from normwise.theory.norm_findings import strength
from normwise.theory.norm_verdict import judge
from normwise.theory.regime_evidence import equilibrium_reached, judge_regime, law_of
from normwise.theory.regimes import STATEMENTS

BETTER, WORSE = Interval(mean=0.02, ci_low=0.01, ci_high=0.03), Interval(mean=-0.02, ci_low=-0.03, ci_high=-0.01)
UNSURE = Interval(mean=0.0, ci_low=-0.01, ci_high=0.01)


def test_visits_are_named_with_their_exponent():
    factors, noise = table(0)
    found, regime, verdict = judged(0.25 * np.log(factors["visits"]) + 0.2 * noise, factors, training=NOISE)
    assert (verdict.label, verdict.follows, regime.regime) == ("frequency", ("visits",), "noise")
    assert found[0].exponent.ci_low <= 0.25 <= found[0].exponent.ci_high
    assert found[0].exponent.mean == pytest.approx(0.25, abs=0.02)
    assert verdict.effect == pytest.approx(abs(found[0].partial_spearman))
    assert "r ~ visits^0.2" in verdict.text
    assert any("frequency +, exponent 0.25" in line for line in regime.evidence)


def test_dispersion_alone_and_both_together():
    factors, noise = table(1)
    by_dispersion = 0.25 * np.log(factors["dispersion"])
    assert judged(by_dispersion + 0.2 * noise, factors)[2].label == "specificity"
    _, _, both = judged(by_dispersion + 0.17 * np.log(factors["visits"]) + 0.2 * noise, factors)
    assert (both.label, set(both.follows)) == ("mixed", {"visits", "dispersion"})


def test_a_norm_that_follows_nothing_is_uninformative():
    factors, noise = table(2)
    _, regime, verdict = judged(0.05 * noise, factors, training=TrainingEvidence(optimizer="adamw", learning_rate=1e-3, weight_decay=0.01))
    assert (verdict.label, regime.regime, verdict.usable_for, verdict.next_step) == ("uninformative", "adam", (), "cosine")
    assert "excluded at 95%" in verdict.text


def test_two_hundred_nulls_name_at_most_eighteen():
    named = 0
    for seed in range(200):
        factors, noise = table(seed, rows=100)
        named += bool(judged(noise, factors | {"tokens": factors["tokens"] + np.round(np.log(factors["visits"]))})[2].follows)
    assert named <= 18


@pytest.mark.parametrize("strength_of_tie", [0.5, 0.9])
@pytest.mark.parametrize("of_length", [lambda z: -0.25 * z, lambda z: np.exp(-np.exp(z)), lambda z: -0.2 * z**2])
def test_length_only_truths_are_called_length(strength_of_tie, of_length):
    labels = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=500)
        frequency = np.exp(2 * strength_of_tie * z + 2 * np.sqrt(1 - strength_of_tie**2) * rng.normal(size=500))
        y = of_length(z)
        tokens = np.maximum(1, np.round(20 * np.exp(0.6 * z)))
        labels.append(judged(y + 0.4 * y.std() * rng.normal(size=500), {"frequency": frequency, "tokens": tokens})[2].label)
    assert labels.count("length") >= 9
    assert "frequency" not in labels


def test_named_by_the_factor_where_it_is_of_no_known_kind():
    assert judge([factor("year", "year"), NO_TOKENS], SPREAD)[1].label == "year"
    group = factor("domain", "domain", 0.5, categorical=True, curve=None)
    found = judge([group], SPREAD)[1]
    assert found.label == "domain"
    assert "correlation ratio 0.50" in found.text
    assert strength(group.model_copy(update={"partial_spearman": 0.19})) == 0.0


def test_one_kind_must_be_twice_as_strong_as_the_next():
    strong, weak = factor(rho=0.6), factor("idf", "specificity", 0.29)
    assert judge([weak, strong], SPREAD)[1].label == "frequency"
    assert judge([weak, strong], SPREAD)[1].follows == ("visits", "idf")
    assert judge([strong, factor("idf", "specificity", 0.31)], SPREAD)[1].label == "mixed"
    assert judge([strong, factor("corpus_count", "frequency", 0.5)], SPREAD)[1].label == "frequency"


def test_wide_intervals_are_undetermined_not_uninformative():
    assert judge([factor(rho=0.05, half=0.24, p_value=0.6)], SPREAD)[1].label == "uninformative"
    verdict = judge([factor(rho=0.05, half=0.26, p_value=0.6)], SPREAD)[1]
    assert (verdict.label, verdict.next_step) == ("undetermined", "more data")
    assert "too few to name a factor or to exclude one" in verdict.text


@pytest.mark.parametrize(
    "radial", [PLANE, RadialEvidence(freedom=0.5, closed_form="plane-bound"), RadialEvidence(freedom=0.005, test="e3_knn")]
)
def test_a_function_of_the_direction_still_tells_what_it_follows(radial):
    _, verdict = judge([TOKENS], SPREAD, radial=radial)
    assert (verdict.label, verdict.follows, verdict.next_step) == ("direction", ("tokens",), "cosine")
    assert verdict.text.startswith("The norm follows tokens, and is a function of the direction: unit vectors contain it too.")
    assert "; it follows none of tokens: effects beyond 0.06 are excluded" in judge([NO_TOKENS], SPREAD, radial=radial)[1].text


@pytest.mark.parametrize("normalized", [False, True])
def test_norms_that_do_not_vary_are_degenerate(normalized):
    norm = SPREAD if normalized else NormDistribution(mean=3.0, cv=1e-8)
    regime, verdict = judge([factor()], norm, normalized_input=normalized, radial=PLANE, training=NOISE)
    assert (regime.regime, verdict.label, verdict.follows, verdict.usable_for) == ("undetermined", "degenerate", (), ())
    assert verdict.next_step == ("recover" if normalized else "cosine")


@pytest.mark.parametrize(
    ("radial", "training", "factors", "expected"),
    [
        (None, None, [factor()], "undetermined"),
        (PLANE, TrainingEvidence(optimizer="adam"), [TOKENS], "plane-bound"),
        (RadialEvidence(freedom=1e-6, test="e3_ellipsoid"), None, [], "ellipsoid-bound"),
        (RadialEvidence(freedom=1e-3, test="e3_knn"), None, [], "undetermined"),
        (RadialEvidence(freedom=0.02, test="e3_affine"), None, [], "undetermined"),
        (None, TrainingEvidence(optimizer="adam"), [TOKENS], "length-bound"),
        (None, None, [TOKENS, factor(rho=0.7)], "undetermined"),
        (None, None, [factor("tokens", "length", -0.6)], "undetermined"),
        (None, TrainingEvidence(optimizer="adamw"), [factor()], "adam"),
        (None, TrainingEvidence(optimizer="adam", similarity="dot"), [], "undetermined"),
        (None, NOISE, [], "noise"),
        (None, TrainingEvidence(optimizer="sgd", signal_share=0.9), [], "signal"),
        (None, TrainingEvidence(optimizer="sgd", signal_share=0.5), [], "undetermined"),
        (None, TrainingEvidence(signal_share=0.9), [], "undetermined"),
        (None, TrainingEvidence(optimizer="sgd", learning_rate=0.1), [], "undetermined"),
        (None, TrainingEvidence(optimizer="sgd", learning_rate=0.1, weight_decay=0.01, steps=300), [], "noise"),
        (None, TrainingEvidence(optimizer="sgd", learning_rate=0.1, weight_decay=0.01, steps=200), [], "undetermined"),
    ],
)
def test_regimes(radial, training, factors, expected):
    regime, _ = judge(factors, SPREAD, radial=radial, training=training)
    assert regime.regime == expected
    assert regime.evidence


def test_the_order_of_the_evidence_does_not_hide_the_rest():
    evidence = judge_regime([TOKENS], {"tokens": 0.8}, degenerate=False, radial=PLANE, training=TrainingEvidence(optimizer="adam")).evidence
    assert [any(word in line for line in evidence) for word in ("1/r is linear", "tokens goes with 64%", "trained with adam")] == [True] * 3


def test_laws_are_those_of_the_table():
    def sgd(**more):
        return TrainingEvidence(optimizer="sgd", learning_rate=0.1, steps=10**6, **more)

    adam = TrainingEvidence(optimizer="adamw", lazy=True)
    found = [
        law_of("noise", sgd()),
        law_of("signal", sgd()),
        law_of("noise", sgd(weight_decay=0.1)),
        law_of("noise", sgd(weight_decay=0.1, lazy=True)),
        law_of("adam", TrainingEvidence(optimizer="adam")),
        law_of("adam", TrainingEvidence(optimizer="adamw", weight_decay=0.1)),
        law_of("adam", adam),
        law_of("adam", TrainingEvidence(optimizer="adamw", lazy=True, weight_decay=0.1)),
    ]
    assert [statement.name in words for statement, words in zip(STATEMENTS, found, strict=False)] == [True] * 8
    assert "only for visit rates below" in found[4]
    assert law_of("signal", sgd(weight_decay=0.1)) == "", "weight decay run to its end is not a matter of signal"
    assert not equilibrium_reached(TrainingEvidence(optimizer="sgd", learning_rate=0.1, weight_decay=0.0, steps=10))


def test_ranking_is_claimed_only_where_it_was_measured():
    for factors in ([factor()], [TOKENS], [factor("entropy", "uncertainty", 0.9), NO_TOKENS]):
        assert "ranking" not in judge(factors, SPREAD)[1].usable_for
    _, better = judge([factor()], SPREAD, usefulness=Usefulness(ranking=BETTER, beyond_length=BETTER))
    assert (better.usable_for, better.next_step) == (("ranking",), "dot")
    assert "+0.0200 [+0.01, +0.03] nDCG@10" in better.text
    _, both = judge([factor()], SPREAD, usefulness=Usefulness(ranking=BETTER, beyond_length=BETTER, confidence=BETTER))
    assert (both.usable_for, both.next_step) == (("ranking", "confidence"), "one-sided")
    for beyond, words in ((None, "the length was not controlled"), (UNSURE, "the length may do it as well"), (WORSE, "may do it as well")):
        _, verdict = judge([factor()], SPREAD, usefulness=Usefulness(ranking=BETTER, beyond_length=beyond))
        assert (verdict.usable_for, verdict.next_step) == ((), "dot")
        assert words in verdict.text
    for ranking, words in ((UNSURE, "not shown to help ranking"), (WORSE, "the norm makes this ranking worse")):
        _, verdict = judge([factor()], SPREAD, usefulness=Usefulness(ranking=ranking, confidence=ranking))
        assert (verdict.usable_for, verdict.next_step) == ((), "cosine")
        assert words in verdict.text
    assert "it makes a confidence worse" in verdict.text
    asked = judge([factor()], SPREAD)[1]
    assert asked.next_step == "evaluate"
    assert "normwise evaluate --similarity all" in asked.text


def test_confidence_needs_a_measured_uncertainty_with_the_length_held():
    entropy = factor("entropy", "uncertainty", 0.4)
    constant = FactorAssociation(name="tokens", kind="length", rows=1000, note="constant")
    for length in (NO_TOKENS, constant):
        _, verdict = judge([entropy, length], SPREAD)
        assert (verdict.label, verdict.usable_for, verdict.next_step) == ("uncertainty", ("confidence",), "calibrate")
    _, alone = judge([entropy], SPREAD)
    assert alone.usable_for == ()
    assert "No length was given" in alone.text
    assert judge([factor("entropy", "uncertainty", 0.19), NO_TOKENS], SPREAD)[1].usable_for == ()
    assert judge([factor("idf", "specificity", 0.9), NO_TOKENS], SPREAD)[1].usable_for == ()
    measured = Usefulness(confidence=UNSURE)
    assert judge([entropy, NO_TOKENS], SPREAD, usefulness=measured)[1].usable_for == (), "a measurement outranks an association"
    assert judge([factor()], SPREAD, usefulness=Usefulness(confidence=BETTER))[1].usable_for == ("confidence",)
