"""The verdict in words: what was not tested is not excluded, and no sign stands without its regime."""

import itertools

import numpy as np
import pytest
from verdict_material import NO_TOKENS, NOISE, PLANE, SIGN, SPREAD, TOKENS, factor, judged, table

from normwise.core.norm_records import FactorAssociation, NormDistribution
from normwise.core.records import Interval
from normwise.theory.norm_findings import overlapping
from normwise.theory.norm_verdict import judge


def test_factors_that_repeat_each_other_are_not_told_apart():
    factors, noise = table(3)
    y = 0.25 * np.log(factors["visits"]) + 0.2 * noise
    _, _, verdict = judged(y, factors | {"idf": -np.log(factors["visits"])})
    assert (verdict.label, verdict.follows) == ("undetermined", ())
    assert "visits and idf repeat each other" in verdict.text


def test_factors_that_all_repeat_each_other_exclude_nothing():
    """Nothing was tested on its own; what they share bounds them together."""
    factors, noise = table(4)
    f = {"f": factors["visits"], "f2": 2 * factors["visits"] + 1}
    found, _, verdict = judged(noise, f)
    bound = max(abs(found[0].shared.ci_low), abs(found[0].shared.ci_high))
    assert (verdict.label, verdict.follows, verdict.next_step) == ("undetermined", (), "more data")
    assert "excluded" not in verdict.text
    assert "f and f2 repeat each other in these rows, so none of them has a part of its own to test" in verdict.text
    assert f"to test, and together they may have up to {bound:.2f}." in verdict.text
    assert verdict.text.endswith("Next: give factors that differ more from each other.")
    found, _, verdict = judged(noise, f | {"h": factors["dispersion"]})
    spans = [found[0].shared, Interval(mean=0.0, ci_low=found[2].ci_low, ci_high=found[2].ci_high)]
    widest = max(max(abs(span.ci_low), abs(span.ci_high)) for span in spans)
    assert verdict.label == "uninformative"
    assert f"follows none of h, nor f and f2 together, which repeat each other: effects beyond {widest:.2f} are excluded" in verdict.text
    # What the group may have counts, not only what the third one has.
    loose = [record.model_copy(update={"shared": Interval(mean=0.1, ci_low=-0.1, ci_high=0.4)}) for record in found[:2]]
    _, verdict = judge([*loose, found[2]], SPREAD)
    assert verdict.label == "undetermined"
    assert "f and f2 repeat each other in these rows" in verdict.text
    # Beside a third that is named, they are not passed over.
    _, _, named = judged(0.3 * np.log(factors["dispersion"]) + 0.1 * noise, f | {"h": factors["dispersion"]})
    assert (named.label, named.follows) == ("h", ("h",))
    assert "f and f2 repeat each other" in named.text


def test_a_factor_that_could_not_be_tested_is_not_excluded_with_the_others():
    small = FactorAssociation(name="shop", kind="shop", categorical=True, rows=1000, note="levels too small: none of 500 has the 5 rows")
    _, verdict = judge([NO_TOKENS, small], SPREAD)
    assert verdict.label == "undetermined"
    assert "tokens can be excluded, but not shop (levels too small: none of 500" in verdict.text
    assert judge([small], SPREAD)[1].text.endswith("Next: mend the factors as their notes say.")


def test_overlapping_factors_are_not_called_uninformative():
    """Each explains the norm alone, none once the other is held: the norm follows one of them, and nobody can say which."""
    overlap = [
        factor("a", "a", 0.02, spearman=0.6, alone=0.36, p_value=0.5, controls=("b",)),
        factor("b", "b", 0.01, spearman=0.6, alone=0.35, p_value=0.8, controls=("a",)),
    ]
    verdict = judge(overlap, SPREAD)[1]
    assert verdict.label == "undetermined"
    assert "a and b go with the norm alone, but not once the others are held" in verdict.text
    assert overlapping(overlap) == overlap
    assert judge([NO_TOKENS], SPREAD)[1].label == "uninformative"
    # One factor alone overlaps with nothing: it takes more rows.
    single = judge([factor("a", "a", -0.36, half=0.4, p_value=0.04, alone=0.13, rows=40)], SPREAD)[1]
    assert "40 rows are too few" in single.text
    assert single.text.endswith("Next: give more rows.")


def test_refusals_reach_the_verdict():
    rng = np.random.default_rng(0)
    few, none = judged(rng.normal(size=20), {"tokens": np.arange(20)})[2], judge([], SPREAD)[1]
    assert (few.label, none.label) == ("undetermined", "undetermined")
    assert "no correlation is given below 30" in few.text
    assert few.text.endswith("Next: give at least 30 rows that are no copies of each other.")
    assert "cannot be told: no factor was given." in none.text
    assert "--factors F.csv" in none.text
    assert "--texts" in none.text
    assert "30" not in none.text
    both = judge([], SPREAD.model_copy(update={"usable": 12}))[1].text
    assert "no factor was given, and 12 usable rows are too few to test one (it takes 30)" in both
    assert both.endswith("(--texts), and at least 30 rows.")


def test_a_function_of_the_direction_excludes_no_more_than_was_tested():
    few = FactorAssociation(name="tokens", kind="length", rows=20, note="20 rows: no correlation is given below 30")
    wide = factor(rho=0.05, half=0.4, p_value=0.6, rows=30)
    for factors, why in (
        ([], "no factor was given"),
        ([few], "nothing could be tested (tokens: 20 rows"),
        ([wide], "30 rows are too few to name a factor or to exclude one"),
    ):
        _, verdict = judge(factors, SPREAD, radial=PLANE)
        assert verdict.label == "direction"
        assert f"not the same as uninformative; what else goes with it cannot be told: {why}" in verdict.text
        assert "none of" not in verdict.text


def test_where_there_are_no_two_norms_nothing_is_called_equal():
    none, one = (judge([], NormDistribution(mean=mean, cv=cv, usable=n))[1] for mean, cv, n in ((None, None, 0), (2.0, 0.0, 1)))
    assert (none.label, one.label) == ("degenerate", "degenerate")
    assert none.text == (
        "No row is usable: each is zero or holds NaN or infinite values, so there is no norm to read. Next: repair what made these vectors."
    )
    assert one.text == "One row is usable: its norm (2) has nothing to be compared with. Next: give more rows."
    assert (none.next_step, one.next_step) == ("more data", "more data")
    assert "All norms are equal up to rounding (mean 2)" in judge([], NormDistribution(mean=2.0, cv=0.0, usable=2))[1].text


def test_no_sign_without_its_regime():
    """Whatever is found: as long as the regime is undetermined the words hold no sign; beside a regime they do."""
    choices = [
        factor(rho=-0.4),
        factor("idf", "specificity", 0.3),
        TOKENS,
        factor("entropy", "uncertainty", -0.5),
        factor("year", "year", 0.2),
    ]
    for picked in itertools.chain.from_iterable(itertools.combinations(choices, size) for size in (1, 2, 3)):
        regime, verdict = judge(list(picked), SPREAD)
        assert bool(SIGN.search(verdict.text.split(" Use:")[0])) == (regime.regime != "undetermined"), verdict.text
        known, verdict = judge(list(picked), SPREAD, training=NOISE)
        assert known.regime in ("noise", "length-bound")
        assert SIGN.search(verdict.text)
        assert f"Regime: {known.regime}" in verdict.text


@pytest.mark.parametrize(
    ("radial", "training", "factors", "sentence"),
    [
        (
            PLANE,
            None,
            [factor()],
            "Regime: plane-bound; no law of training stands behind the sign of visits: which way it goes is this model's",
        ),
        (None, None, [TOKENS], "Regime: length-bound; no law of training stands behind the sign of tokens"),
        (None, NOISE, [factor("year", "year")], "Regime: noise; its law says nothing of year"),
        (None, NOISE, [factor(), factor("year", "year", 0.2)], "Regime: noise; its law says nothing of year"),
    ],
)
def test_a_sign_that_no_law_gives_is_called_the_models_own(radial, training, factors, sentence):
    assert sentence in judge(factors, SPREAD, radial=radial, training=training)[1].text


def test_a_sign_that_a_law_gives_needs_no_such_words():
    assert "Regime: noise. " in judge([factor()], SPREAD, training=NOISE)[1].text
    # What bends has no sign at all, whoever could stand behind it.
    hump = factor("tokens", "length", 0.1, curve=0.7, curve_p_adjusted=1e-9)
    assert "Regime: plane-bound. " in judge([hump], SPREAD, radial=PLANE)[1].text


def test_the_figure_with_nothing_held_stands_beside_one_that_tells_another_story():
    """Raw +0.02, partial -0.27: whoever reads only the second would look in vain for it in a scatter."""
    turned = factor("tokens", "length", -0.27, spearman=0.02, controls=("frequency",))
    bound = judge([turned], SPREAD, radial=PLANE)[1].text
    assert (
        "rank correlation -0.27 [-0.32, -0.22], with frequency held fixed (with nothing held +0.02): "
        "vectors with larger values of tokens are shorter" in bound
    )
    free = judge([turned], SPREAD)[1].text
    assert "0.27 [0.22, 0.32] without its sign, with frequency held fixed (with nothing held 0.02 and the other sign)" in free
    assert not SIGN.search(free.split(" Use:")[0])
    near = judge([factor("tokens", "length", -0.27, spearman=-0.36, controls=("frequency",))], SPREAD, radial=PLANE)[1].text
    assert "nothing held" not in near
    assert "nothing held" not in judge([factor()], SPREAD)[1].text


@pytest.mark.parametrize(("rho", "word"), [(0.12, "weak"), (-0.299, "weak"), (0.3, "medium"), (-0.49, "medium"), (0.5, "strong")])
def test_every_strength_has_a_word(rho, word):
    for more in ({}, {"categorical": True}, {"curve": 0.9, "curve_p_adjusted": 1e-9}):
        _, verdict = judge([factor("domain", "domain", rho, half=0.01, **more)], SPREAD)
        if not verdict.follows:
            continue
        expected = "strong" if "curve" in more else word
        assert f"domain: a {expected} effect" in verdict.text
        assert verdict.strength == expected
    assert judge([NO_TOKENS], SPREAD)[1].strength is None
