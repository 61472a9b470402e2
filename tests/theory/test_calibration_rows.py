"""Rows of calibrators and signals: the plain figures, slow bootstraps of each, undefined figures in words, paired gains."""

import math

import numpy as np
import pytest

from normwise.core.calibration_records import CalibratorRow
from normwise.core.errors import InputError
from normwise.theory import calibration_metrics as door
from normwise.theory.calibration_rows import CERTAIN_AND_WRONG, COVERAGES, RISKS, calibrator_row, likelihoods, paired_gain, signal_row
from normwise.theory.norm_confidence import excess_aurc_gain
from normwise.theory.resamples import Resamples
from normwise.theory.tied_answers import Answers, tied_answers

PUSHED_UP = ("ece", "ece_mass", "ece_debiased", "ks", "reliability", "resolution")


def sample(seed=0, count=60, decimals=2):
    rng = np.random.default_rng(seed)
    confidence = (0.02 + 0.96 * rng.random(count)).round(decimals)
    right = rng.random(count) < confidence
    return confidence, right, rng.integers(0, count // 3, count), (right * rng.random(count)).round(2)


# Every figure of a row by its own public function of confidence, right and nDCG.
PLAIN = {
    "ece": lambda c, y, _: door.expected_calibration_error(c, y),
    "ece_mass": lambda c, y, _: door.equal_mass_calibration_error(c, y),
    "ece_debiased": lambda c, y, _: door.debiased_calibration_error(c, y),
    "ks": lambda c, y, _: door.ks_calibration_error(c, y),
    "brier": lambda c, y, _: door.brier_score(c, y),
    "reliability": lambda c, y, _: door.brier_parts(c, y).reliability,
    "resolution": lambda c, y, _: door.brier_parts(c, y).resolution,
    "uncertainty": lambda c, y, _: door.brier_parts(c, y).uncertainty,
    "nll": lambda c, y, _: door.negative_log_likelihood(c, y),
    "auroc": lambda c, y, _: door.auroc(c, y),
    "aurc": lambda c, y, _: door.aurc(c, y),
    "e_aurc": lambda c, y, _: door.excess_aurc(c, y),
    "nauc": lambda c, _, m: door.abstention_nauc(c, m),
    "precision": lambda _, y, __: y.mean(),
    **{f"coverage_at_risk@{risk:g}": lambda c, y, _, r=risk: door.coverage_at_risk(c, y, risk=r) for risk in RISKS},
    **{f"risk_at_coverage@{share:g}": lambda c, y, _, s=share: door.risk_at_coverage(c, y, coverage=s) for share in COVERAGES},
}


def plainly(confidence, right, ndcg):
    return {name: figure(confidence, right, ndcg) for name, figure in PLAIN.items()}


def drawn_rows(clusters, *, seed, samples):
    names, random = np.unique(clusters), np.random.default_rng(seed)
    for _ in range(samples):
        drawn = names[random.integers(names.size, size=names.size)]
        yield np.concatenate([np.flatnonzero(clusters == name) for name in drawn])


@pytest.mark.parametrize("decimals", [1, 9])
def test_a_row_holds_every_figure_with_its_slow_bootstrap(decimals):
    confidence, right, clusters, ndcg = sample(decimals=decimals)
    row = calibrator_row("x", confidence, right, clusters, seed=5, ndcg=ndcg, level=0.8, samples=50)
    expected = plainly(confidence, right, ndcg)
    draws = [plainly(confidence[rows], right[rows], ndcg[rows]) for rows in drawn_rows(clusters, seed=5, samples=50)]
    assert set(row.intervals) == set(expected)
    for name, value in expected.items():
        group, _, level = name.partition("@")
        assert (getattr(row, group)[level] if level else getattr(row, name)) == pytest.approx(value, abs=1e-9), name
        found = row.intervals[name]
        ends = np.quantile([each[name] for each in draws], [0.1, 0.9])
        if name in PUSHED_UP:
            ends = np.maximum(ends - np.mean([each[name] for each in draws]) + value, -1.0 if name == "resolution" else 0.0)
        assert found.mean == pytest.approx(value, abs=1e-9), name
        assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends), abs=1e-7), name
    assert row.brier == pytest.approx(row.reliability - row.resolution + row.uncertainty, abs=1e-12)


def test_what_is_passed_on_and_what_comes_back_from_json():
    confidence, right, clusters, ndcg = sample(1)
    row = calibrator_row(
        "logistic", confidence, right, clusters, seed=0, ndcg=ndcg, parameters=3, cv_nll=0.5, cv_se=0.1, eligible=False, words="why"
    )
    assert (row.name, row.parameters, row.cv_nll, row.cv_se, row.eligible, row.words) == ("logistic", 3, 0.5, 0.1, False, "why")
    assert tuple(row.coverage_at_risk) == ("0.01", "0.05", "0.1", "0.2")
    assert tuple(row.risk_at_coverage) == ("0.5", "0.8", "0.9", "1")
    assert CalibratorRow.from_json(row.to_json()) == row
    without = calibrator_row("logistic", confidence, right, clusters, seed=0)
    assert without.nauc is None
    assert "nauc" not in without.intervals
    assert without.intervals["ece"] == row.intervals["ece"], "the draws do not depend on what else is computed"


@pytest.mark.parametrize("all_right", [True, False])
def test_one_class_only(all_right):
    confidence, _, clusters, _ = sample(2)
    right = np.full(60, all_right)
    row = calibrator_row("x", confidence, right, clusters, seed=0, ndcg=right.astype(float), samples=50)
    assert row.auroc is None
    assert row.nauc is None
    assert row.intervals["auroc"].ci_low is None
    assert row.aurc == pytest.approx(1.0 - all_right)
    assert row.e_aurc == 0.0
    assert set(row.coverage_at_risk.values()) == {float(all_right)}
    assert row.intervals["ece"].ci_low is not None
    signal = signal_row("x", confidence, right, clusters, orientation=1, seed=0, samples=50)
    assert (signal.auroc, signal.ci_low, signal.ci_high) == (None, None, None)


@pytest.mark.parametrize(("confidence", "right"), [(1.0, False), (0.0, True)])
def test_a_wrong_certainty_is_said_in_words(confidence, right):
    given, answers = np.array([confidence, 0.5, 0.5]), np.array([right, True, False])
    row = calibrator_row("x", given, answers, np.arange(3), seed=0, samples=50, words="first")
    assert row.nll is None
    assert "nll" not in row.intervals
    assert row.words == f"first; {CERTAIN_AND_WRONG}"
    assert calibrator_row("x", given, answers, np.arange(3), seed=0, samples=50).words == CERTAIN_AND_WRONG
    certain = calibrator_row("x", 1.0 - given, answers, np.arange(3), seed=0, samples=50)
    assert certain.nll == pytest.approx(2.0 * math.log(2.0) / 3.0)
    assert certain.words == ""


def test_likelihoods_of_resamples_are_repeated_answers():
    confidence, right = np.array([1.0, 1.0, 0.0, 0.0, 0.3, 0.3]), np.array([True, False, False, True, True, False])
    times = np.array([[1, 1, 1, 0, 1, 1], [2, 0, 1, 0, 3, 0], [0, 0, 4, 0, 1, 1], [1, 0, 1, 1, 1, 1]])
    found = likelihoods(tied_answers(Answers(confidence, right), Resamples(times.astype(float), np.arange(6))))
    expected = [door.negative_log_likelihood(np.repeat(confidence, row), np.repeat(right, row)) for row in times]
    assert found == pytest.approx(expected)
    assert found[[0, 3]].tolist() == [math.inf, math.inf]


def test_one_cluster_has_figures_without_ends():
    confidence, right, _, ndcg = sample(3)
    row = calibrator_row("x", confidence, right, np.zeros(60, dtype=int), seed=0, ndcg=ndcg)
    assert all(each.ci_low is None and each.ci_high is None for each in row.intervals.values())
    assert row.intervals["ece"].mean == row.ece
    assert signal_row("x", confidence, right, np.zeros(60, dtype=int), orientation=1, seed=0).ci_low is None


def test_clusters_widen_the_interval():
    """Ten copies of each query are no more evidence than one."""
    confidence, right, _, _ = (np.repeat(values, 10) for values in sample(4, count=80))
    apart = calibrator_row("x", confidence, right, np.arange(800), seed=0, samples=300).intervals["auroc"]
    whole = calibrator_row("x", confidence, right, np.repeat(np.arange(80), 10), seed=0, samples=300).intervals["auroc"]
    assert whole.ci_high - whole.ci_low > 2.0 * (apart.ci_high - apart.ci_low)


def test_a_signal_is_read_in_its_orientation():
    confidence, right, clusters, _ = sample(5)
    up = signal_row("score", 400.0 * confidence - 900.0, right, clusters, orientation=1, seed=1, similarity="dot", samples=80, words="w")
    down = signal_row("entropy", -confidence, right, clusters, orientation=-1, seed=1, samples=80)
    assert up.auroc == pytest.approx(door.auroc(confidence, right))
    assert (down.auroc, down.ci_low, down.ci_high) == (up.auroc, up.ci_low, up.ci_high)
    assert (up.similarity, up.words, up.name) == ("dot", "w", "score")
    draws = [door.auroc(confidence[rows], right[rows]) for rows in drawn_rows(clusters, seed=1, samples=80)]
    assert (up.ci_low, up.ci_high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])))
    wrong_way = signal_row("score", confidence, right, clusters, orientation=-1, seed=1, samples=80)
    assert wrong_way.auroc == pytest.approx(1.0 - up.auroc)


def test_a_signal_of_nothing_has_one_half_inside():
    rng = np.random.default_rng(6)
    found = [
        signal_row("x", rng.normal(size=200), rng.random(200) < 0.6, np.arange(200), orientation=1, seed=s, samples=200) for s in range(60)
    ]
    assert np.mean([each.ci_low <= 0.5 <= each.ci_high for each in found]) > 0.85
    constant = signal_row("x", np.full(200, 3.0), rng.random(200) < 0.6, np.arange(200), orientation=1, seed=0)
    assert (constant.auroc, constant.ci_low, constant.ci_high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("metric", ["aurc", "e_aurc", "auroc", "brier", "nll", "ece", "ece_mass"])
def test_a_gain_between_different_first_hits_is_a_slow_bootstrap(metric):
    confidence, right, clusters, _ = sample(7)
    other, other_right, _, _ = sample(8)
    sign = -1.0 if metric == "auroc" else 1.0

    def gain(rows):
        return sign * (PLAIN[metric](confidence[rows], right[rows], None) - PLAIN[metric](other[rows], other_right[rows], None))

    old, new = Answers(confidence, right), Answers(other, other_right)
    found = paired_gain(metric, old, new, clusters, seed=9, level=0.8, samples=60)
    ends = np.quantile([gain(rows) for rows in drawn_rows(clusters, seed=9, samples=60)], [0.1, 0.9])
    assert found.mean == pytest.approx(gain(np.arange(60)), abs=1e-12)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends), abs=1e-9)
    turned = paired_gain(metric, new, old, clusters, seed=9, level=0.8, samples=60)
    assert (turned.ci_low, turned.ci_high) == pytest.approx((-found.ci_high, -found.ci_low), abs=1e-12)


def test_a_gain_of_one_set_of_first_hits_is_the_known_one():
    confidence, right, clusters, _ = sample(10)
    better = confidence + 0.2 * right
    expected = excess_aurc_gain(confidence, better, right, clusters, seed=2, samples=1000)
    found = paired_gain("e_aurc", Answers(confidence, right), Answers(better, right), clusters, seed=2)
    assert (found.mean, found.ci_low, found.ci_high) == pytest.approx((expected.mean, expected.ci_low, expected.ci_high), abs=1e-12)
    same = paired_gain("aurc", Answers(confidence, right), Answers(confidence, right), clusters, seed=2)
    assert (same.mean, same.ci_low, same.ci_high) == (0.0, 0.0, 0.0)


def test_a_gain_that_is_undefined_is_none():
    confidence, right, clusters, _ = sample(11)
    old = Answers(confidence, right)
    for metric, new in (("auroc", Answers(confidence, np.ones(60, dtype=bool))), ("nll", Answers((~right).astype(float), right))):
        found = paired_gain(metric, old, new, clusters, seed=0)
        assert (found.mean, found.ci_low, found.ci_high) == (None, None, None)
    assert paired_gain("aurc", old, old, np.zeros(60, dtype=int), seed=0).ci_low is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence": np.array([0.2, np.nan])}, "calibrator 'x': confidence of query 1 is nan"),
        ({"confidence": np.array([0.2, 1.2])}, "calibrator 'x': confidence of query 1 is 1.2; expected a probability"),
        ({"confidence": np.array([0.2])}, r"calibrator 'x': confidence has shape \(1,\), right \(2,\)"),
        ({"confidence": np.array([]), "right": np.array([], dtype=bool)}, "calibrator 'x': confidence holds no answer"),
        ({"clusters": np.array([1])}, r"calibrator 'x': clusters have shape \(1,\) for 2 answers"),
        ({"ndcg": np.array([0.5, np.nan])}, "calibrator 'x': metric of query 1 is nan; expected a finite number, 0 for a query"),
        ({"ndcg": np.array([0.5])}, r"calibrator 'x': metric has shape \(1,\) for 2 confidences"),
        ({"level": 0.0}, "level is 0.0; expected a coverage"),
    ],
)
def test_a_row_refuses(change, message):
    given = {"confidence": np.array([0.2, 0.8]), "right": np.array([True, False]), "clusters": np.array([0, 1]), "seed": 0}
    with pytest.raises(InputError, match=message):
        calibrator_row("x", **(given | change))


def test_a_signal_and_a_gain_refuse():
    values, right, clusters = np.array([0.2, np.inf]), np.array([True, False]), np.array([0, 1])
    with pytest.raises(InputError, match="signal 'margin': value of query 1 is inf; expected a finite number"):
        signal_row("margin", values, right, clusters, orientation=1, seed=0)
    with pytest.raises(InputError, match="signal 'margin': orientation is 0; expected 1"):
        signal_row("margin", np.array([0.2, 0.3]), right, clusters, orientation=0, seed=0)
    two, three = Answers(np.array([0.2, 3.0]), right), Answers(np.zeros(3), np.ones(3, dtype=bool))
    with pytest.raises(InputError, match="old has 2 answers, new 3"):
        paired_gain("aurc", two, three, clusters, seed=0)
    with pytest.raises(InputError, match="confidence of query 1 is 3; expected a probability"):
        paired_gain("brier", two, two, clusters, seed=0)
    with pytest.raises(InputError, match="clusters have shape"):
        paired_gain("aurc", two, two, np.array([0]), seed=0)
