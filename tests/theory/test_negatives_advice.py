"""One sentence to act on: what it says follows the interval, not the estimate."""

from dataclasses import replace

import numpy as np
import pytest
from test_infonce_temperatures import world

from normwise.theory.infonce_estimates import Estimate
from normwise.theory.infonce_regime import Regime
from normwise.theory.infonce_temperatures import temperature_sweep
from normwise.theory.negatives_advice import batch_advice, ease_advice, limit_advice, temperature_advice


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
    assert temperature_advice(unsure, 1.0) == "no temperature of the sweep is better than 1 beyond the error of the difference"
    alone = temperature_sweep(queries, positives, pool, temperature=1.0, others=[])
    assert temperature_advice(alone, 1.0) == "no temperature of the sweep tells positives better than 1"
    cold = temperature_sweep(queries, positives, pool[:32], temperature=0.01, others=[0.02])
    assert "cannot be told" in temperature_advice(cold, 0.01)


def test_negatives_that_teach_nothing_are_named():
    queries = np.eye(6)
    easy = temperature_sweep(queries, queries, -np.ones((64, 6)), temperature=0.05, others=[])[0]
    assert "too easy" in str(ease_advice(easy, 64))
    hard = temperature_sweep(queries, -queries, queries, temperature=0.05, others=[])[0]
    assert ease_advice(hard, 6) is None
