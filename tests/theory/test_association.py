"""What the norm goes with: false alarms on nulls and on length-only truths, exponents, invariances, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, spearmanr

from normwise.core.errors import InputError
from normwise.theory import association
from normwise.theory.association import associations
from normwise.theory.factor_reading import factor_columns, kind_of
from normwise.theory.partial_rank import residuals
from normwise.theory.rank_design import control_columns, numeric_columns

# Curves by which a norm may hang on the length alone.
CURVES = {
    "power": lambda z: -0.25 * z,
    "saturating": lambda z: 1.0 / (1.0 + np.exp(2.7 + 0.7 * z) / 10.0),
    "decaying": lambda z: np.exp(-np.exp(2.7 + 0.7 * z) / 8.0),
    "hump": lambda z: -0.3 * z**2,
    "step": lambda z: 0.5 * np.tanh(3.0 * z),
}


def words(seed, rows, strength):
    """Token counts and a frequency that bends with their log, correlated at `strength`."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=rows)
    w = strength * z + np.sqrt(1.0 - strength**2) * rng.normal(size=rows)
    tokens = np.maximum(1.0, np.round(np.exp(2.7 + 0.7 * z)))
    return rng, z, tokens, np.exp(2.0 * w + 0.4 * strength * (z**2 - 1.0))


def by_name(found):
    return {record.name: record for record in found}


def test_without_others_partial_is_spearman():
    rng = np.random.default_rng(0)
    y, x = np.round(rng.normal(size=300), 1), rng.integers(0, 9, 300)
    (found,) = associations(y, {"year": x}, seed=0)
    assert found.spearman == pytest.approx(spearmanr(x, y)[0])
    assert found.partial_spearman == pytest.approx(found.spearman)
    assert found.controls == ()


def test_partial_is_the_correlation_of_two_sets_of_residuals():
    rng, z, tokens, frequency = words(0, 400, 0.8)
    y = -0.3 * np.log(tokens) + 0.2 * np.log(frequency) + rng.normal(size=400)
    found = by_name(associations(y, {"tokens": tokens, "frequency": frequency}, seed=0))["frequency"]
    design = np.column_stack([np.ones(400), control_columns([numeric_columns(tokens)])])
    sides = [np.argsort(np.argsort(side)).astype(float) for side in (y, frequency)]
    left = [side - design @ np.linalg.lstsq(design, side, rcond=None)[0] for side in sides]
    assert found.partial_spearman == pytest.approx(np.corrcoef(*left)[0, 1], abs=1e-6)
    log = [side - design @ np.linalg.lstsq(design, side, rcond=None)[0] for side in (np.log(frequency), y)]
    assert found.exponent.mean == pytest.approx(np.polyfit(*log, 1)[0], abs=1e-6)


@given(st.integers(0, 10**6))
def test_units_and_scales_do_not_matter(seed):
    rng, z, tokens, frequency = words(seed, 120, 0.6)
    y = -0.2 * np.log(tokens) + rng.normal(size=120)
    first = associations(y, {"tokens": tokens, "frequency": frequency}, seed=1, resamples=100)
    second = associations(np.sinh(y), {"tokens": 7 * tokens**2, "frequency": np.log(frequency)}, seed=1, resamples=100)
    for a, b in zip(first, second, strict=True):
        assert (a.partial_spearman, a.p_adjusted, a.ci_low) == pytest.approx((b.partial_spearman, b.p_adjusted, b.ci_low), abs=1e-6)
    order = rng.permutation(120)
    third = associations(y[order], {"frequency": frequency[order], "tokens": tokens[order]}, seed=1, resamples=100)
    for a, b in zip(first, reversed(third), strict=True):
        assert (a.partial_spearman, a.p_adjusted) == pytest.approx((b.partial_spearman, b.p_adjusted), abs=1e-6)
    for a, b in zip(first, associations(-y, {"tokens": tokens, "frequency": frequency}, seed=1, resamples=100), strict=True):
        assert a.partial_spearman == pytest.approx(-b.partial_spearman, abs=1e-9)


def test_noise_names_nothing():
    """Three correlated factors and a category, heavy-tailed noise, 200 runs: at most 18 may come below 5%."""
    alarms = 0
    for seed in range(200):
        rng, z, tokens, frequency = words(seed, 120, 0.6)
        factors = {
            "tokens": tokens,
            "frequency": frequency,
            "dispersion": np.exp(rng.normal(size=120)) * frequency**0.2,
            "group": rng.choice(list("abc"), 120),
        }
        found = associations(rng.standard_t(3, size=120), factors, seed=seed, resamples=100)
        alarms += any(record.p_adjusted < 0.05 for record in found)
    assert alarms <= 18


@pytest.mark.parametrize("strength", [0.3, 0.6, 0.9, 0.97])
def test_length_only_truths_do_not_speak_for_a_correlated_frequency(strength):
    """One false alarm in twenty, whatever the curve and the correlation; 3 in 1,000 for this bound to fail by chance."""
    alarms, runs = 0, 0
    for curve, (name, of_length) in enumerate(CURVES.items()):
        for seed in range(10):
            rng, z, tokens, frequency = words(1000 * curve + seed, 600, strength)
            truth = of_length((np.log(tokens) - 2.7) / 0.7)
            y = truth + 0.5 * truth.std() * rng.normal(size=600)
            found = by_name(associations(y, {"tokens": tokens, "frequency": frequency}, seed=seed, resamples=100))
            alarms += found["frequency"].p_value < 0.05
            runs += 1
            sees_length = found["tokens"].curve > 0.2 and found["tokens"].curve_p_adjusted < 0.01
            assert sees_length, (name, seed)
    assert alarms <= binom.ppf(0.997, runs, 0.05)


def test_straight_lines_would_raise_false_alarms():
    """The reason for splines: residuals of straight lines on the raw length accuse frequency nearly always, ours do not."""
    lines = ours = 0
    for seed in range(40):
        rng, z, tokens, frequency = words(seed, 1000, 0.6)
        y = np.exp(-tokens / 8.0) + 0.05 * rng.normal(size=1000)
        design = np.column_stack([np.ones(1000), tokens])
        left = [side - design @ np.linalg.lstsq(design, side, rcond=None)[0] for side in (y, np.log(frequency))]
        lines += spearmanr(*left).pvalue < 0.05
        ours += by_name(associations(y, {"tokens": tokens, "frequency": frequency}, seed=0, resamples=100))["frequency"].p_value < 0.05
    assert lines >= 38
    assert ours <= binom.ppf(0.999, 40, 0.05)


def test_controls_that_act_together_do_not_speak_for_a_third():
    """Norm and dispersion both hang on a product of the two controls: sums of curves alone would accuse dispersion every time."""
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        z, other, mine, noise = rng.normal(size=(4, 1000))
        w = 0.6 * z + 0.8 * other
        factors = {"tokens": np.exp(2.7 + 0.7 * z), "frequency": np.exp(2.0 * w), "dispersion": np.exp(0.5 * z * w + 0.5 * z + 0.7 * mine)}
        alarms += associations(0.5 * np.tanh(z) * w + 0.3 * noise, factors, seed=seed, resamples=100)[2].p_value < 0.05
    assert alarms <= binom.ppf(0.999, 50, 0.05)


def test_intervals_cover_and_exponents_are_found():
    inside = slopes = 0
    wide = words(99, 200_000, 0.6)
    truth = 0.25 * np.log(wide[3]) - 0.2 * np.log(wide[2]) + 0.4 * wide[0].normal(size=200_000)
    target = np.mean(
        [
            by_name(associations(truth[part::20], {"tokens": wide[2][part::20], "frequency": wide[3][part::20]}, seed=0, resamples=100))[
                "frequency"
            ].partial_spearman
            for part in range(5)
        ]
    )
    for seed in range(120):
        rng, z, tokens, frequency = words(seed, 250, 0.6)
        y = 0.25 * np.log(frequency) - 0.2 * np.log(tokens) + 0.4 * rng.normal(size=250)
        found = by_name(associations(y, {"tokens": tokens, "frequency": frequency}, seed=seed, resamples=300))["frequency"]
        inside += found.ci_low <= target <= found.ci_high
        slopes += found.exponent.ci_low <= 0.25 <= found.exponent.ci_high
    assert inside >= binom.ppf(0.002, 120, 0.95)
    assert slopes >= binom.ppf(0.002, 120, 0.95)


def test_categories_hold_and_are_held():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], 600)
    effect = np.select([group == "a", group == "b"], [1.0, -1.0], 0.0)
    number = effect + rng.normal(size=600)
    y = effect + 0.5 * rng.normal(size=600)
    found = by_name(associations(y, {"number": number, "group": group}, seed=0))
    assert abs(found["number"].spearman) > 0.4
    assert found["number"].p_adjusted > 0.05
    assert found["group"].categorical
    assert found["group"].ci_low > 0.5
    assert found["group"].exponent is None


def test_a_category_behind_a_number_is_no_finding():
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        group = rng.choice(["a", "b", "c"], 300)
        number = np.select([group == "a", group == "b"], [1.0, -1.0], 0.0) + rng.normal(size=300)
        found = by_name(associations(number + 0.5 * rng.normal(size=300), {"number": number, "group": group}, seed=0, resamples=100))
        assert found["group"].spearman > 0.4
        alarms += found["group"].p_value < 0.05
    assert alarms <= binom.ppf(0.999, 100, 0.05)


def test_few_distinct_values_are_held_exactly():
    """Six rare lengths beside a common one lie between two knots of the spline: only indicators take out any function of them."""
    length = np.repeat(np.arange(1, 8), [480, 20, 20, 20, 20, 20, 20])
    left = residuals((length[:, None] == np.arange(1, 8)).astype(float), control_columns([numeric_columns(length)]))
    assert np.abs(left.values).max() < 1e-6


def test_functions_of_each_other_get_no_partial_figure():
    rng, z, tokens, frequency = words(0, 500, 0.5)
    y = 0.25 * np.log(frequency) + 0.2 * rng.normal(size=500)
    found = by_name(associations(y, {"frequency": frequency, "idf": -np.log(frequency), "tokens": tokens}, seed=0))
    for name, twin in (("frequency", "idf"), ("idf", "frequency")):
        record = found[name]
        assert (record.partial_spearman, record.ci_low, record.p_value, record.p_adjusted, record.exponent) == (None,) * 5
        assert record.collinear_with == (twin,)
        assert f"a function of {twin}" in record.note
    alone = by_name(associations(y, {"frequency": frequency, "tokens": tokens}, seed=0))["frequency"]
    assert found["frequency"].shared.mean == pytest.approx(alone.partial_spearman)
    assert found["idf"].shared.mean == pytest.approx(-alone.partial_spearman)
    assert found["tokens"].partial_spearman is not None
    folded = associations(y, {"a": z**2, "b": z}, seed=0)
    assert folded[0].collinear_with == ("b",), "a function of the other, though not a monotone one"
    assert folded[1].collinear_with == ()


def test_two_measures_of_one_thing_do_not_control_each_other():
    rng, z, tokens, frequency = words(0, 500, 0.5)
    y = -0.25 * np.log(tokens) + 0.1 * rng.normal(size=500)
    factors = {"tokens": tokens, "characters": 5 * tokens + rng.integers(0, 4, 500), "frequency": frequency}
    found = by_name(associations(y, factors, seed=0))
    assert found["tokens"].controls == ("frequency",)
    assert abs(found["characters"].partial_spearman) > 0.5
    assert found["frequency"].controls == ("tokens", "characters")
    held = by_name(associations(y, factors, seed=0, controls=["tokens"]))
    assert held["characters"].controls == ("tokens", "frequency")
    named = by_name(associations(y, factors, seed=0, kinds={"characters": "mine"}))
    assert named["characters"].kind == "mine"
    assert named["tokens"].controls == ("characters", "frequency")


def test_what_cannot_be_had_is_none_and_says_why():
    rng = np.random.default_rng(0)
    few = associations(rng.normal(size=29), {"a": rng.normal(size=29)}, seed=0)[0]
    assert few.spearman is None
    assert few.note.startswith("29 rows: no correlation is given below 30")
    equal = associations(np.full(50, 0.3) + 1e-8 * rng.normal(size=50), {"a": rng.normal(size=50)}, seed=0)[0]
    assert (equal.spearman, equal.partial_spearman) == (None, None)
    assert "all norms are equal" in equal.note
    constant, other = associations(rng.normal(size=50), {"a": np.ones(50), "b": rng.normal(size=50)}, seed=0)
    assert constant.note.startswith("constant")
    assert (constant.spearman, other.controls) == (None, ())
    many = associations(rng.normal(size=30), {name: rng.normal(size=30) for name in "abcdefg"}, seed=0)
    assert "too few to hold 6 other factors" in many[0].note
    x = rng.normal(size=100)
    explained = by_name(associations(x, {"a": x, "b": rng.normal(size=100)}, seed=0))
    assert "explain the norm's ranks completely" in explained["b"].note
    assert explained["a"].partial_spearman == pytest.approx(1.0)
    assert associations(rng.normal(size=50), {}, seed=0) == ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.append(np.ones(48), [np.nan, 2.0]), r"factor 'a': row 48 is nan; expected a value in every row: fill it"),
        (np.append([np.inf, np.nan], np.ones(48)), r"row 0 is inf \(and 1 more rows\)"),
        (np.array([1.0] * 49 + [None], dtype=object), "row 49 is missing"),
        (np.array(["x"] * 49 + [" "], dtype=object), "row 49 is empty"),
        (np.array([1.0, "x"] + [2.0] * 48, dtype=object), "row 1 is the text 'x' among numbers"),
        (np.array([[1.0]] * 50, dtype=object), r"factor 'a' has shape \(50, 1\)"),
        (np.ones(49), "factor 'a' has 49 values for 50 norms"),
        (np.array([f"row {i}" for i in range(50)]), "holds 50 different texts in 50 rows; expected categories that repeat"),
        (np.ones(50, dtype=complex), "values of type complex128"),
    ],
)
def test_bad_factors_are_told_with_their_row(values, message):
    with pytest.raises(InputError, match=message):
        associations(np.random.default_rng(0).normal(size=50), {"a": values}, seed=0)


def test_bad_arguments():
    y, factors = np.random.default_rng(0).normal(size=50), {"tokens": np.arange(50)}
    with pytest.raises(InputError, match=r"row 3 is -inf; expected finite values: leave zero and non-finite vectors out first"):
        associations(np.where(np.arange(50) == 3, -np.inf, y), factors, seed=0)
    with pytest.raises(InputError, match="controls names 'token', which is no factor; did you mean tokens"):
        associations(y, factors, seed=0, controls=["token"])
    with pytest.raises(InputError, match="kinds names 'x'"):
        associations(y, factors, seed=0, kinds={"x": "length"})
    with pytest.raises(InputError, match="resamples is 10; expected at least 100"):
        associations(y, factors, seed=0, resamples=10)


def test_many_rows_are_sampled_with_the_seed():
    rng, z, tokens, frequency = words(0, 60_000, 0.5)
    y = 0.25 * np.log(frequency) + rng.normal(size=60_000)
    first, again, other = (associations(y, {"frequency": frequency}, seed=seed, resamples=100)[0] for seed in (1, 1, 2))
    assert first.rows == association.SAMPLE_ROWS
    assert first == again
    assert first.spearman != other.spearman
    assert first.spearman == pytest.approx(spearmanr(frequency, y)[0], abs=0.04)
    with pytest.raises(InputError, match="row 59999 is nan"):
        associations(y, {"frequency": np.append(frequency[:-1], np.nan)}, seed=0)


def test_heavy_tails_do_not_rule():
    rng, z, tokens, frequency = words(0, 500, 0.0)
    y = 0.25 * np.log(frequency) + 0.1 * rng.normal(size=500)
    tame = by_name(associations(y, {"frequency": frequency, "tokens": tokens}, seed=0))
    wild = by_name(associations(np.where(np.arange(500) < 3, 300.0, y), {"frequency": frequency**20, "tokens": tokens}, seed=0))
    assert wild["frequency"].partial_spearman == pytest.approx(tame["frequency"].partial_spearman, abs=0.03)


def test_no_exponent_on_what_is_a_logarithm_or_not_positive():
    rng, z, tokens, frequency = words(0, 100, 0.0)
    y = 0.25 * np.log(frequency)
    for name, values in (("zipf_frequency", frequency), ("log_visits", frequency), ("idf", frequency), ("depth", np.round(z))):
        assert associations(y, {name: values}, seed=0, resamples=100)[0].exponent is None
    assert associations(y, {"visits": frequency}, seed=0, resamples=100)[0].exponent.mean == pytest.approx(0.25)


def test_rare_categories_are_pooled():
    values = np.array(["a"] * 40 + ["b"] * 40 + [f"rare {i}" for i in range(8)])
    assert factor_columns("x", values).codes.max() == 2
    assert factor_columns("x", np.array(["a"] * 9)) is None


@pytest.mark.parametrize(
    ("values", "note"),
    [
        (np.repeat([f"shop {i}" for i in range(500)], 2), "levels too small: none of 500 has the 5 rows that each level needs"),
        (np.array(["a"] * 998 + ["b", "c"]), "levels too small: 1 of 3 has the 5 rows"),
        (np.r_[np.zeros(996), np.ones(4)], "nearly constant: only 4 of 1,000 rows differ from the most common value"),
    ],
)
def test_what_too_few_rows_tell_apart_is_not_tested_and_not_called_constant(values, note):
    for seed in range(5):
        found = associations(np.random.default_rng(seed).normal(size=1000), {"a": values}, seed=0, resamples=100)[0]
        assert (found.partial_spearman, found.ci_low, found.ci_high, found.p_adjusted) == (None,) * 4
        assert found.note.startswith(note)


def test_no_interval_of_a_category_is_empty():
    """Forty nulls of two even levels: one in forty would have the interval [0, 0], which excludes what no 1,000 rows can exclude."""
    for sizes in ((500, 500), (995, 5)):
        group = np.repeat(["a", "b"], sizes)
        for seed in range(40):
            found = associations(np.random.default_rng(seed).normal(size=1000), {"group": group}, seed=0, resamples=100)[0]
            assert found.ci_high > 0.07


def test_names_stand_for_labels():
    assert [kind_of(name) for name in ("n_tokens", "Corpus Count", "visits", "depth", "log_entropy", "Color")] == [
        "length",
        "frequency",
        "frequency",
        "specificity",
        "uncertainty",
        "Color",
    ]
