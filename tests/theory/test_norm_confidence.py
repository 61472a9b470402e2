"""Confidence from norms where the truth is known: learned norms that carry it, norms that are length, norms that are nothing."""

import numpy as np
import pytest
from free_queries import train
from scipy.stats import spearmanr
from usefulness_worlds import hits, top_hits_of

from normwise.core.errors import InputError
from normwise.core.records import Interval
from normwise.core.usefulness_records import Confidence
from normwise.theory.bootstrap import paired_difference_interval
from normwise.theory.norm_confidence import NORMS, TopHits, confidence_outcome, excess_aurc_gain, held_out_confidence, norm_confidence
from normwise.theory.risk_coverage import excess_aurc, log_losses


@pytest.fixture(scope="module")
def learned():
    """The control experiment: norms of free queries after SGD with dense decay."""
    world = train(seed=0)
    return world, top_hits_of(world, seed=1)


def test_learned_norms_carry_confidence_and_it_is_found(learned):
    """Published control: E-AURC .092 without and .083 with the norm, clean once the frequency is held; NLL falls too."""
    world, found = learned
    assert spearmanr(np.linalg.norm(world.vectors, axis=1), world.kappa).statistic < -0.35
    result = norm_confidence(found, controls={"visits": np.repeat(world.rates, 4)})
    assert 0.07 < result.models["score and margin"].e_aurc < 0.13
    assert result.models["score, margin and norms"].e_aurc < 0.95 * result.models["score and margin"].e_aurc
    assert result.gains["e_aurc"].ci_low > 0
    assert result.gains["nll"].ci_low > 0
    assert result.outcome == "reproduced"
    assert result.coefficients[NORMS[0]] < 0, "long = ambiguous in this regime"
    assert result.coefficients[NORMS[1]] == 0.0, "all documents have norm 1"


@pytest.mark.slow
def test_five_learned_worlds_agree():
    """Measured: E-AURC .096 -> .086 on the mean of five (published: .092 -> .083), beside the frequency .090 -> .083."""
    plain, beside = [], []
    for seed in range(5):
        world = train(seed=seed)
        found = norm_confidence(top_hits_of(world, seed=seed + 1), controls={"visits": np.repeat(world.rates, 4)}, seed=seed)
        plain.append([found.models[name].e_aurc for name in ("score and margin", "score, margin and norms")])
        beside.append([found.gains_beyond[name].mean for name in ("e_aurc", "nll")])
    before, after = np.mean(plain, axis=0)
    assert 0.08 < before < 0.11
    assert 0.05 < (before - after) / before < 0.2
    assert np.min(beside) > 0, "all five seeds gain in both figures"


def test_the_same_world_with_shuffled_norms_carries_none(learned):
    _, found = learned
    shuffled = np.repeat(np.random.default_rng(3).permutation(found.query_norms[::4]), 4)
    nothing = TopHits(found.score, found.margin, found.right, shuffled, found.hit_norms, found.clusters)
    assert norm_confidence(nothing).outcome != "reproduced"


def test_chance_is_not_praised():
    """A reduced run of benchmarks/usefulness_nulls.py: 6 worlds in which norms mean nothing beside length."""
    alarms = 0
    for seed in range(6):
        found, controls = hits(seed=seed, count=250, by_length=0.8, norm_is_length=bool(seed % 2))
        result = norm_confidence(found, controls=controls, seed=seed, samples=200)
        alarms += result.outcome == "reproduced"
    assert alarms == 0


def test_a_norm_that_is_length_is_praised_only_if_length_is_forgotten():
    found, controls = hits(seed=11, count=900, by_length=0.9, norm_is_length=True)
    assert norm_confidence(found).outcome == "reproduced"
    assert norm_confidence(found, controls=controls).outcome != "reproduced"


def test_a_norm_that_tells_right_from_wrong_is_found_beside_length():
    found, controls = hits(seed=12, count=800, by_norm=1.0, by_length=0.5)
    result = norm_confidence(found, controls=controls)
    assert result.outcome == "reproduced"
    assert result.gains_beyond["e_aurc"].ci_low > 0
    assert result.gains_beyond["nll"].ci_low > 0
    assert result.coefficients[NORMS[1]] > 0.3
    assert abs(result.coefficients[NORMS[0]]) < 0.3
    assert result.models["controls and norms"].nll < result.models["controls"].nll
    assert result.models["controls and norms"].features[-2:] == NORMS


def test_the_figures_are_those_of_the_held_out_confidences():
    found, controls = hits(seed=13, by_norm=0.5)
    result = norm_confidence(found, controls=controls, seed=4)
    columns = np.stack([(v - v.mean()) / v.std() for v in (found.score, found.margin)], axis=1)
    logs = np.stack([(v - v.mean()) / v.std() for v in (np.log(found.query_norms), np.log(found.hit_norms))], axis=1)
    plain = held_out_confidence(columns, found.right, found.clusters, seed=4)
    normed = held_out_confidence(np.concatenate([columns, logs], axis=1), found.right, found.clusters, seed=4)
    assert result.models["score and margin"].e_aurc == pytest.approx(excess_aurc(plain, found.right))
    assert result.gains["e_aurc"].mean == pytest.approx(excess_aurc(plain, found.right) - excess_aurc(normed, found.right))
    losses = log_losses(plain, found.right), log_losses(normed, found.right)
    assert result.models["score, margin and norms"].nll == pytest.approx(losses[1].mean())
    assert result.gains["nll"] == paired_difference_interval(*losses, found.clusters, seed=4, level=result.level)


def test_no_query_is_judged_by_a_model_that_saw_its_cluster():
    """Each cluster has one answer and a signature; a split by queries would read the answer off the signature."""
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(40), 10)
    right = np.repeat(rng.permutation(40) < 20, 10)
    columns = np.repeat(rng.normal(size=(40, 60)), 10, axis=0)
    confidence = held_out_confidence(columns, right, clusters, seed=0)
    assert np.mean((confidence > 0.5) == right) < 0.75
    leaky = held_out_confidence(columns, right, rng.permutation(400), seed=0)
    assert np.mean((leaky > 0.5) == right) > 0.95


def test_the_interval_of_a_gain_is_a_slow_bootstrap():
    rng = np.random.default_rng(6)
    right, clusters = rng.random(60) < 0.5, rng.integers(0, 20, 60)
    old, new = rng.random(60).round(1), right + rng.random(60)
    found = excess_aurc_gain(old, new, right, clusters, seed=7, level=0.8, samples=250)
    names, draws, random = np.unique(clusters), [], np.random.default_rng(7)
    for _ in range(250):
        drawn = names[random.integers(names.size, size=names.size)]
        rows = np.concatenate([np.flatnonzero(clusters == name) for name in drawn])
        draws.append(excess_aurc(old[rows], right[rows]) - excess_aurc(new[rows], right[rows]))
    assert found.mean == pytest.approx(excess_aurc(old, right) - excess_aurc(new, right))
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])))
    assert excess_aurc_gain(old, new, right, np.zeros(60, dtype=int), seed=0).ci_low is None
    assert excess_aurc_gain(old, old, right, clusters, seed=0).ci_high == 0.0


def test_both_figures_must_gain():
    up, flat, wide = (Interval(mean=0.0, ci_low=low, ci_high=high) for low, high in ((0.01, 0.02), (-0.002, 0.002), (-0.1, 0.1)))
    outcomes = {
        "reproduced": [(up, up)],
        "not reproduced": [(flat, up), (flat, wide)],
        "undecided at this size": [(up, flat), (up, wide), (wide, up)],
    }
    for outcome, pairs in outcomes.items():
        assert all(confidence_outcome({"e_aurc": area, "nll": loss}, 0.1) == outcome for area, loss in pairs)
    assert confidence_outcome({"e_aurc": flat, "nll": up}, 0.03) == "undecided at this size", "5% of E-AURC .03 is below .002"


def test_too_few_answers_give_no_figures():
    found, controls = hits(seed=14, count=50)
    result = norm_confidence(found, controls=controls)
    assert (result.outcome, result.models, result.gains_beyond) == ("undecided at this size", {}, {})
    assert "expected at least 30 of both" in result.words
    one = TopHits(found.score, found.margin, found.right, found.query_norms, found.hit_norms, np.zeros(50, dtype=int))
    assert "in 1 clusters" in norm_confidence(one).words


def test_equal_norms_add_exactly_nothing():
    found, controls = hits(seed=15)
    flat = TopHits(found.score, found.margin, found.right, np.ones(400), np.ones(400), found.clusters)
    result = norm_confidence(flat, controls=controls)
    assert result.outcome == "not reproduced"
    assert result.gains_beyond["e_aurc"].mean == pytest.approx(0.0, abs=1e-9)


def test_the_record_survives_json():
    found, controls = hits(seed=16)
    result = norm_confidence(found, controls=controls, samples=100)
    assert Confidence.from_json(result.to_json()) == result


def test_refusals():
    found, _ = hits(seed=17)
    with pytest.raises(InputError, match="control 'tokens': expected 400 finite numbers"):
        norm_confidence(found, controls={"tokens": np.ones(3)})
    with pytest.raises(InputError, match="query_norms of query 0 is 0.0"):
        TopHits(found.score, found.margin, found.right, np.zeros(400), found.hit_norms, found.clusters)
    with pytest.raises(InputError, match="expected one value of each per query"):
        TopHits(found.score[:3], found.margin, found.right, found.query_norms, found.hit_norms, found.clusters)
