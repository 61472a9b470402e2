"""What norms add on queries that fitted nothing: found where it is, not found where norms are noise, length or all equal."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from bake_off_worlds import judged

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.theory import bake_off_training, norm_gain
from normwise.theory.bake_off_entrants import Setting
from normwise.theory.bake_off_training import Training
from normwise.theory.norm_confidence import excess_aurc_gain
from normwise.theory.norm_gain import METRICS, NULL, NormPair, aurc_influence, fit_norm_pair, norm_gains, shuffled_norms
from normwise.theory.resamples import Resamples
from normwise.theory.risk_coverage import aurc
from normwise.theory.selective_metrics import areas
from normwise.theory.tied_answers import Answers, tied_answers


@dataclass(frozen=True)
class Fitted:
    norm_pair: NormPair


def pair_of(world, *, temperature=0.1, seed=0):
    return Fitted(fit_norm_pair(Training(world, seed), Setting(temperature, lengths_at_search=True)))


def gains_of(seed, *, count=400, samples=300, **truth):
    fitted = pair_of(judged(seed=seed, count=count, depth=4, **truth), seed=seed)
    return norm_gains(fitted, judged(seed=seed + 10_000, count=count, depth=4, **truth), seed=seed, samples=samples)


def test_a_norm_that_tells_right_from_wrong_lowers_every_figure_and_shuffled_it_lowers_none():
    found = {each.metric: each for each in gains_of(1, count=800, by_norm=1.0)}
    assert tuple(found) == (*METRICS, NULL)
    for metric in METRICS:
        assert found[metric].ci_low > 0.0
        assert found[metric].words.startswith("the norm helped: it lowers ")
    assert found["e_aurc"].controls == ("score", "margin", "entropy", "query length", "hit length")
    assert found["e_aurc"].words.endswith(", beyond what curves of score, margin, entropy, query length, hit length tell")
    assert found[NULL].ci_low <= 0.0
    assert found[NULL].delta < 0.2 * found["e_aurc"].delta


@pytest.mark.parametrize(
    ("low", "mean", "high", "words"),
    [
        (0.001, 0.0012, 0.002, "the norm helped: it lowers E-AURC by 0.0012, interval 0.0010 to 0.0020, beyond what curves of score tell"),
        (-0.002, -0.0012, -0.001, "the norm did not help, it made things worse: it raises E-AURC by 0.0012, interval 0.0010 to 0.0020,"),
        (-0.004, -0.0012, 0.0002, "did not help by as much as 5% of E-AURC: it raises E-AURC by 0.0012, interval -0.0002 to 0.0040,"),
        (
            -0.004,
            0.0012,
            0.9,
            "whether the norm helps cannot be told at this size: it lowers E-AURC by 0.0012, interval -0.0040 to 0.9000,",
        ),
        (None, -0.0012, None, "cannot be told, since all test queries are one cluster: it raises E-AURC by 0.0012, beyond what"),
        (-0.00004, -0.00001, 0.00003, "it raises E-AURC by 0.0000, interval 0.0000 to 0.0000,"),
        (0.0, 0.0, 0.0, "the norm did not help: it leaves E-AURC as it was, beyond what curves of score tell"),
    ],
)
def test_no_word_speaks_of_a_negative_lowering(low, mean, high, words):
    found = Interval(mean=mean, ci_low=low, ci_high=high)
    said = norm_gain._gain("e_aurc", found, ("score", "query length"), idle=False, least=0.01).words
    assert words.replace("of score tell", "of score, query length tell") in said
    assert "by -" not in said
    assert "+" not in said
    # The record keeps the sign of its definition: what the figure falls by.
    assert norm_gain._gain("e_aurc", found, ("score",), idle=False, least=0.01).delta == mean
    null = norm_gain._gain(NULL, found, (), idle=False, least=0.0).words
    assert f"know nothing, {'raise' if mean < 0 else 'lower'} E-AURC by 0.00" in null


def test_chance_is_rarely_praised_and_the_interval_covers_zero(monkeypatch):
    """40 worlds in which norms say nothing: a 95% interval lies above 0 in 2.5% of them, and 4 or more of 40 in 2%."""
    # No choice of penalties, which costs most of the time.
    monkeypatch.setattr(bake_off_training, "INNER_BELOW", 0)
    found = [gains_of(seed, count=250)[0] for seed in range(40)]
    assert sum(each.ci_low > 0.0 for each in found) <= 4
    # Fitted noise makes the true gain a little negative, so that an honest interval may also miss 0 from below.
    assert sum(each.ci_low <= 0.0 <= each.ci_high for each in found) >= 32


def test_a_norm_that_is_length_gains_only_where_length_is_forgotten():
    def world(seed):
        made = judged(seed=seed, count=1200, depth=4, by_length=1.2)
        return replace(made, hits=replace(made.hits, hit_norms=made.hits.hit_lengths**-0.3))

    fit, test = world(3), world(4)
    held = norm_gains(pair_of(fit), test, seed=0)[0]
    bare = [replace(each, hits=replace(each.hits, query_lengths=None, hit_lengths=None)) for each in (fit, test)]
    forgotten = norm_gains(pair_of(bare[0]), bare[1], seed=0)[0]
    assert forgotten.ci_low > 0.0
    assert "lengths are not known, so length is not controlled" in forgotten.words
    assert abs(held.delta) < 0.2 * forgotten.delta
    assert "not controlled" not in held.words


def test_equal_norms_change_nothing_to_the_last_bit():
    made = judged(seed=0, depth=4)
    flat = replace(made, hits=replace(made.hits, query_norms=np.ones(400), hit_norms=np.ones((400, 4))))
    found = norm_gains(pair_of(flat), flat, seed=0, samples=50)
    assert [each.metric for each in found] == list(METRICS)
    assert {(each.delta, each.ci_low, each.ci_high) for each in found} == {(0.0, 0.0, 0.0)}
    assert found[0].words.startswith("the norm did not help: all norms are equal")


def test_rounding_of_a_normalized_model_is_no_norm():
    made = judged(seed=0, depth=4)
    near = 1.0 + 1e-7 * np.random.default_rng(0).normal(size=400)
    flat = replace(made, hits=replace(made.hits, query_norms=near, hit_norms=np.ones((400, 4))))
    assert pair_of(flat).norm_pair.shuffled is None


def test_queries_without_a_direction_are_left_out_and_none_left_says_so():
    fitted = pair_of(judged(seed=0, depth=4))
    test = judged(seed=1, count=200, depth=4)
    dead = np.arange(200) >= 150
    zeroed = replace(test, hits=replace(test.hits, query_norms=np.where(dead, 0.0, test.hits.query_norms)))
    assert norm_gains(fitted, zeroed, seed=0) == norm_gains(fitted, test.subset(~dead), seed=0)
    nobody = norm_gains(fitted, zeroed.subset(dead), seed=0)
    assert [each.delta for each in nobody] == [None] * 3
    assert nobody[0].words == "whether the norm helps cannot be told: no test query has a direction"


def test_one_cluster_has_a_gain_and_no_interval():
    test = replace(judged(seed=1, count=200, depth=4), clusters=np.zeros(200, dtype=np.int64))
    found = norm_gains(pair_of(judged(seed=0, depth=4)), test, seed=0)[0]
    assert found.delta is not None
    assert found.ci_low is None
    assert "one cluster" in found.words


def test_test_queries_must_know_what_the_fit_held():
    with pytest.raises(InputError, match="length is not known"):
        norm_gains(pair_of(judged(seed=0, depth=4)), judged(seed=1, depth=4, lengths=False), seed=0)


def test_the_same_seed_gives_the_same_gains():
    assert gains_of(7, samples=100) == gains_of(7, samples=100)


def test_shuffling_moves_query_and_hit_norms_together_and_leaves_scores():
    hits = judged(seed=0, count=50).hits
    mixed = shuffled_norms(hits, seed=3)
    assert np.array_equal(mixed.scores, hits.scores)
    where = [int(np.flatnonzero(hits.query_norms == value)[0]) for value in mixed.query_norms]
    assert sorted(where) == list(range(50))
    assert where != list(range(50))
    assert np.array_equal(mixed.hit_norms, hits.hit_norms[where])


def resampled_areas(confidence, right, times):
    return areas(tied_answers(Answers(confidence, right), Resamples(times.astype(float), np.arange(right.size))))


@pytest.mark.parametrize("levels", [None, 6])
def test_influence_is_the_derivative_of_the_area_by_weight(levels):
    """Oracle: every answer 2,000 times, and one of them once more."""
    rng = np.random.default_rng(0)
    confidence = rng.random(40) if levels is None else rng.integers(levels, size=40) / levels
    right = rng.random(40) < confidence
    times = 2000 * np.ones((41, 40), dtype=np.int64) + np.eye(41, 40, dtype=np.int64)
    found = resampled_areas(confidence, right, times)
    expected = 40 * 2000 * (found[:40] - found[40])
    assert np.abs(aurc_influence(confidence, right) - expected).max() < 5e-3


def test_to_first_order_a_resample_has_the_area_that_influence_says():
    rng = np.random.default_rng(1)
    confidence = rng.random(4000)
    right = rng.random(4000) < confidence
    times = rng.multinomial(4000, np.full(4000, 1 / 4000), size=20)
    linear = aurc(confidence, right) + times @ aurc_influence(confidence, right) / 4000
    moved = resampled_areas(confidence, right, times)
    assert np.corrcoef(linear, moved)[0, 1] > 0.99
    assert np.abs(linear - moved).max() < 0.15 * moved.std()


def test_many_queries_get_the_interval_of_the_bootstrap_without_one(monkeypatch):
    # Every answer three times, as one cluster: an error that forgot clusters would be too small by sqrt(3).
    rng = np.random.default_rng(2)
    truth = rng.random(500)
    right, clusters = np.repeat(rng.random(500) < truth, 3), np.arange(1500) // 3
    without, with_norm = (np.repeat(truth + noise * rng.normal(size=500), 3) for noise in (0.5, 0.3))
    drawn = excess_aurc_gain(without, with_norm, right, clusters, seed=0)
    monkeypatch.setattr(norm_gain, "LINEAR_FROM", 1000)
    linear = norm_gain._Pair(without, with_norm, right, clusters, seed=0, level=0.95, samples=1).area()
    assert linear.mean == pytest.approx(drawn.mean, abs=1e-12)
    assert linear.ci_high - linear.ci_low == pytest.approx(drawn.ci_high - drawn.ci_low, rel=0.12)
