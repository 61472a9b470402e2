"""One sentence to act on: what it says follows the interval, not the estimate."""

from dataclasses import replace

import numpy as np
import pytest
from test_infonce_temperatures import world

from normwise.theory.infonce_estimates import Estimate
from normwise.theory.infonce_regime import Regime
from normwise.theory.infonce_temperatures import temperature_sweep
from normwise.theory.negatives_advice import batch_advice, change_interval, ease_advice, limit_advice, temperature_advice


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (-0.002, 0.001, "not worth it"),
        (-0.2, 0.01, "more negatives still change what is learned"),
        (0.2, 0.01, "more negatives still change what is learned"),
        (-0.012, 0.004, "cannot be told"),
        (-0.001, 0.05, "cannot be told"),
        (-0.1, float("nan"), "too few queries or negatives"),
    ],
)
def test_more_negatives_are_judged_by_the_whole_interval(change, error, words):
    assert words in batch_advice(256, 1024, Estimate(change, error), None)


def test_a_loss_of_nothing_is_no_reason_for_more_negatives_though_the_risk_falls():
    text = batch_advice(256, 1024, Estimate(-1.38, 0.01), -5.0, loss=0.003)
    assert text.endswith("teach next to nothing")
    assert "teach" not in batch_advice(256, 1024, Estimate(-1.38, 0.01), -5.0, loss=0.3)


def test_what_is_left_to_the_limit_is_said_where_it_is_more():
    assert "of the -0.300 that all further ones would" in batch_advice(8, 32, Estimate(-0.2, 0.01), -0.3)
    assert "further ones" not in batch_advice(8, 32, Estimate(-0.2, 0.01), -0.1)


def test_a_pool_that_is_too_small_is_told_how_large_it_has_to_be():
    regime = Regime(4.0, 9.0, 12.34, 1.0, 123.4, 123.4, 100)
    assert "within 100 negatives: it needs k >> 12.3" in limit_advice(regime)
    assert "say 130;" in limit_advice(regime)
    assert "15 negatives are too few to extrapolate from: it takes 16" in limit_advice(Regime(0.1, 0.1, 0.1, 1.0, 1.0, 10.0, 15))
    assert "no extrapolation is given" in limit_advice(Regime(1.0, 1.0, float("inf"), 1.0, float("inf"), float("inf"), 100))


def test_another_temperature_is_advised_only_beyond_the_error_of_the_difference():
    queries, positives, pool = world(0)
    sweep = temperature_sweep(queries, positives, pool, temperature=1.0, others=[0.25, 0.5, 2.0])
    text = temperature_advice(sweep, 1.0)
    assert text.startswith("temperature 1 -> 0.25 lowers the cross-entropy of a search with these vectors by ")
    assert text.endswith("look further")
    unsure = [replace(each, change=Estimate(-0.3, 0.2)) if each.temperature == 0.5 else replace(each, change=None) for each in sweep[:3]]
    unsure[2] = sweep[2]
    assert temperature_advice(unsure[1:], 1.0) == "no temperature of the sweep is better than 1 beyond the error of the difference"
    assert temperature_advice(unsure, 1.0).startswith(
        "of the temperatures whose limit can be told, none is better than 1 beyond the error of the difference; colder ones cannot be told"
    )
    alone = temperature_sweep(queries, positives, pool, temperature=1.0, others=[])
    assert temperature_advice(alone, 1.0) == "no other temperature was compared with 1"
    colder = [replace(alone[0], temperature=2.0, change=Estimate(0.1, 0.01)), *alone]
    assert temperature_advice(colder, 1.0) == "no temperature of the sweep tells positives better than 1"
    cold = temperature_sweep(queries, positives, pool[:32], temperature=0.01, others=[0.02])
    assert "cannot be told" in temperature_advice(cold, 0.01)


def test_an_error_that_is_not_known_is_none_and_decides_nothing():
    text = batch_advice(1, 4, Estimate(-0.02, float("nan")), None)
    assert text == "going from 1 to 4 negatives changes the risk by -0.0200 nats: too few queries or negatives to tell its error"
    queries, positives, pool = world(0)
    sweep = temperature_sweep(queries[:1], positives[:1], pool, temperature=1.0, others=[0.5])
    assert "cannot be told: with so few queries no difference has an error" in temperature_advice(
        [replace(each, change=Estimate(-0.3, float("nan"))) if each.temperature == 0.5 else each for each in sweep], 1.0
    )


def test_a_small_error_is_written_out_and_none_is_zero():
    assert "by -1.3153 ± 2e-06 nats" in batch_advice(1, 4, Estimate(-1.3153, 1e-6), None)
    assert "by -1.3153 ± 0.0000 nats" in batch_advice(1, 4, Estimate(-1.3153, 0.0), None)


def test_a_change_away_from_the_limit_is_no_part_of_what_is_left():
    assert "further ones" not in batch_advice(8, 32, Estimate(0.2, 0.01), -0.3)


def test_one_negative_is_one():
    assert limit_advice(Regime(0.1, 0.1, 0.1, 1.0, 1.0, 10.0, 1)).startswith("1 negative is too few to extrapolate from")
    assert "within 1 negative:" in limit_advice(Regime(4.0, 9.0, 12.34, 1.0, 123.4, 123.4, 1))


def test_the_interval_of_a_change_is_what_the_advice_judges():
    queries, positives, pool = world(0)
    own, other = temperature_sweep(queries, positives, pool, temperature=0.5, others=[1.0])
    assert other.change is not None
    low, high = change_interval(other, own) or (0.0, 0.0)
    assert high - low == pytest.approx(2 * 1.959964 * other.change.error + 2 * (own.beyond + other.beyond))
    assert change_interval(own, own) == (0.0, 0.0)
    assert change_interval(replace(other, change=None), own) is None
    # By its error alone it would be told; by what the limits may be off by it is not.
    wide = replace(other, change=Estimate(-0.1, 0.01), beyond=0.2)
    assert "beyond the error of the difference" in temperature_advice([own, wide], 0.5)
    told = replace(wide, beyond=0.0)
    low, high = change_interval(told, replace(own, beyond=0.0)) or (0.0, 0.0)
    assert f"({-high:.3f} to {-low:.3f})" in temperature_advice([replace(own, beyond=0.0), told], 0.5)


def test_a_sweep_of_which_only_the_own_temperature_has_a_limit_is_said():
    queries, positives, pool = world(0)
    own, other = temperature_sweep(queries, positives, pool, temperature=0.5, others=[1.0])
    text = temperature_advice([own, replace(other, change=None)], 0.5)
    assert text == (
        "no other temperature of the sweep has a limit that can be told beside 0.5; over these 3,000 candidates the risk is least at 0.5"
    )


def small(*, temperature, others, seed=0, pool=498, noise=0.6):
    queries, positives, candidates = world(seed, noise=noise)
    return temperature_sweep(queries, positives, candidates[:pool], temperature=temperature, others=others)


def test_colder_temperatures_that_cannot_be_told_are_no_proof_that_one_is_best():
    colder, own, _ = sweep = small(temperature=0.1, others=[0.05, 0.2])
    assert colder.change is None
    assert own.change is not None
    text = temperature_advice(sweep, 0.1)
    assert text.startswith(
        "of the temperatures whose limit can be told, 0.1 is best; colder ones cannot be told from this pool; over these 498"
    )
    least = min(sweep, key=lambda each: each.risk.value)
    assert f"the risk is least at {least.temperature:g}" in text
    assert temperature_advice(sweep[1:], 0.1) == "no temperature of the sweep tells positives better than 0.1"
    lower = replace(colder, pool_change=Estimate(-0.1, 0.01))
    assert temperature_advice([lower, *sweep[1:]], 0.1).endswith(
        "; over these 498 candidates the risk is least at 0.05, by 0.100 nats (0.080 to 0.120) below that at 0.1, the last of the sweep: "
        "look further"
    )
    assert "recall@1 is 1.000" in temperature_advice(sweep, 0.1, recall=1.0)


def test_the_coldest_that_can_be_told_is_not_the_last_of_the_sweep():
    sweep = small(temperature=0.4, others=[0.05, 0.1])
    text = temperature_advice(sweep, 0.4)
    assert text.startswith("temperature 0.4 -> 0.1 lowers")
    assert text.endswith(", the coldest whose limit can be told from this pool")


def test_where_every_positive_is_first_a_colder_temperature_is_no_advice():
    sweep = small(temperature=0.4, others=[0.2, 0.8])
    assert "0.4 -> 0.2 lowers" in temperature_advice(sweep, 0.4, recall=0.98)
    text = temperature_advice(sweep, 0.4, recall=0.995)
    assert text.startswith("recall@1 is 0.995 among 498 negatives already")
    assert "look further" not in text
    # A warmer one is told nevertheless, and so is that none is better.
    assert "0.8 -> 0.4 lowers" in temperature_advice([replace(sweep[1], change=Estimate(-0.3, 0.01)), sweep[2]], 0.8, recall=0.98)
    warm = [sweep[0], replace(sweep[1], change=Estimate(-0.3, 0.01))]
    warm[0] = replace(warm[0], change=Estimate(0.0, 0.0))
    assert "0.2 -> 0.4 lowers" in temperature_advice(warm, 0.2, recall=1.0)
    assert "recall@1 is 1.000" in temperature_advice(small(temperature=0.2, others=[0.1, 0.4]), 0.2, recall=1.0)


def test_where_no_limit_can_be_told_the_risks_over_the_pool_are_compared():
    sweep = small(temperature=0.05, others=[0.1, 0.14, 0.2], noise=1.0)
    own = sweep[0]
    assert own.change is None
    least = min(sweep, key=lambda each: each.risk.value)
    text = temperature_advice(sweep, 0.05)
    low, high = least.pool_change.interval()
    assert high < 0.0
    assert text == (
        "the limit at 0.05 cannot be told, nor so which temperature has the least; over these 498 candidates the risk is least at "
        f"{least.temperature:g}, by {-least.pool_change.value:.3f} nats ({-high:.3f} to {-low:.3f}) below that at 0.05"
    )
    unsure = [own, *(replace(each, pool_change=Estimate(-0.1, 0.2)) for each in sweep[1:2])]
    assert temperature_advice(unsure, 0.05).endswith("by 0.100 nats, which is not beyond the error of the difference")
    assert "few queries" in temperature_advice([own, replace(sweep[1], pool_change=Estimate(-0.1, float("nan")))], 0.05)
    warm = temperature_advice([replace(each, change=None) for each in sweep], least.temperature, recall=1.0)
    assert warm.endswith(f"the risk is least at {least.temperature:g}")


def test_a_change_that_the_few_hard_queries_make_is_said_to_be_theirs():
    text = batch_advice(256, 1024, Estimate(-0.5, 0.01), -0.6, easy=True)
    assert "they teach the few hard queries alone, since for most nothing is left to learn" in text
    assert text.endswith("falls by log 4 = 1.386 whatever is learned")
    assert "still change what is learned" not in text
    assert "not worth it" in batch_advice(256, 1024, Estimate(-0.002, 0.001), None, easy=True)


def test_negatives_that_teach_nothing_are_named():
    queries = np.eye(6)
    easy = temperature_sweep(queries, queries, -np.ones((64, 6)), temperature=0.05, others=[])[0]
    assert "too easy" in str(ease_advice(easy, 64))
    hard = temperature_sweep(queries, -queries, queries, temperature=0.05, others=[])[0]
    assert ease_advice(hard, 6) is None
