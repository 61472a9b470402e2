"""Verdicts on planted onsets, parts of the report against direct calls, refused arguments, and the real verdicts over ten seeds."""

import numpy as np
import pytest

from normwise.core.errors import InputError, WorkError
from normwise.core.staircase_records import BeyondOrderZero, PredictedStair, SeedStairsRecord, StaircaseReport
from normwise.theory.zeroth_stair import modular_growth_rate
from normwise.training.staircase_models import StairInit, feed_forward_net
from normwise.training.staircase_tasks import modular_task
from normwise.training.staircase_training import StairRun, train_stairs
from normwise.workflows.staircase_demo import staircase_demo
from normwise.workflows.staircase_parts import integrity_of
from normwise.workflows.staircase_verdict import LABELS, largest_gain, needed, verdict_of

YES = PredictedStair(exists=True, reason="")
NO = PredictedStair(exists=False, reason="labels are uniform")


def seeds(*groups):
    """Groups of (count, order 0, order 1, task)."""
    rows = []
    for count, zero, one, task in groups:
        ordered = zero is not None and one is not None and zero < one and (task is None or one <= task)
        rows += [SeedStairsRecord(seed=0, order_0=zero, order_1=one, task=task, in_order=ordered)] * count
    return rows


@pytest.mark.parametrize(
    ("rows", "predicted", "label"),
    [
        (seeds((8, 10, 20, 30), (2, None, None, None)), YES, "staircase"),
        (seeds((7, 10, 20, 30), (3, 20, 20, 30)), YES, "out-of-order"),
        (seeds((10, 10, 40, 30)), YES, "out-of-order"),
        (seeds((10, 10, 20, None)), YES, "staircase"),
        (seeds((10, 10, None, None)), YES, "not-learned"),
        (seeds((7, 10, 30, 20), (3, 10, 30, None)), YES, "not-learned"),
        (seeds((10, 10, None, 30)), YES, "order-0-only"),
        (seeds((7, 10, None, 30), (3, None, 10, 30)), YES, "no-stair"),
        (seeds((10, None, 20, 30)), YES, "no-stair"),
        (seeds((10, None, 20, 30)), NO, "no-zeroth-stair"),
        (seeds((8, None, 20, 30), (2, 10, 20, 30)), NO, "no-zeroth-stair"),
        (seeds((7, None, 20, 30), (3, 10, 20, 30)), NO, "no-stair"),
        (seeds((10, 10, 20, 30)), NO, "staircase"),
    ],
)
def test_the_verdict_is_the_first_that_holds(rows, predicted, label):
    found = verdict_of(rows, predicted, last_step=50)
    assert found.label == label
    assert label in LABELS
    task = [row.task for row in rows if row.task is not None]
    assert f"the task is learned in {len(task)} of 10 seeds" in found.text
    assert f"not after the task: {sum(row.in_order for row in rows)} of 10" in found.text
    assert ("labels are uniform" in found.text) == (label == "no-zeroth-stair")


def test_order_1_that_adds_nothing_to_order_0_is_no_stair_of_its_own():
    rows = seeds((10, 10, 20, 30))
    little = [
        BeyondOrderZero(step=20, r2_order_0=0.7, gain=0.05, null=-0.02),
        BeyondOrderZero(step=30, r2_order_0=0.9, gain=None, null=0.0),
    ]
    found = verdict_of(rows, YES, beyond=little, last_step=50)
    assert found.label == "order-0-only"
    assert "add at most 0.070 of R^2 to order 0, above the null (step 20)" in found.text
    much = [*little, BeyondOrderZero(step=10, r2_order_0=0.4, gain=0.08, null=-0.03)]
    assert verdict_of(rows, YES, beyond=much, last_step=50).label == "staircase"
    assert largest_gain(much).step == 10
    assert largest_gain(little[1:]) is None


@pytest.mark.parametrize(("count", "need"), [(2, 2), (4, 4), (5, 4), (10, 8), (15, 12), (100, 80)])
def test_eight_of_ten_seeds_and_as_many_of_others(count, need):
    assert needed(count) == need


@pytest.fixture(scope="module")
def short():
    return staircase_demo("mod", modulus=15, vocabulary=40, seeds=2, steps=60, gamma=0.7)


def test_series_are_means_over_the_seeds_of_that_training(short):
    task = modular_task(15, vocabulary=40)
    series = train_stairs(feed_forward_net(task.law, StairInit((100, 101), gamma=0.7)), task, StairRun(60, range(61)), seeds=(100, 101))
    assert short.steps == tuple(range(61))
    np.testing.assert_allclose(short.loss, series.loss.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(short.spread["accuracy"], series.accuracy.std(axis=0, ddof=1), atol=1e-6)
    assert [row.seed for row in short.stairs_by_seed] == [100, 101]
    assert {name: set(getattr(short, name)) for name in ("alignment", "null")} == {name: {"0", "1"} for name in ("alignment", "null")}
    assert {len(each) for each in (*short.alignment.values(), *short.null.values(), *short.spread.values())} == {61}
    assert short.rule == "one minus mse"
    assert short.beyond_order_0 == ()


def test_stairs_of_the_mean_and_of_the_seeds_agree(short):
    assert [stair.order for stair in short.stairs] == [0, 1]
    onsets = [row.order_0 for row in short.stairs_by_seed]
    stair = short.stairs[0]
    assert None not in onsets
    assert (stair.seeds, stair.earliest, stair.latest) == (2, min(onsets), max(onsets))
    assert stair.earliest <= stair.onset <= stair.latest


def test_the_prediction_is_the_closed_form(short):
    rate = modular_growth_rate(15, 40, slope=0.5)
    assert short.predicted.growth_rate == pytest.approx(rate)
    assert short.predicted.steps == pytest.approx(0.7 * np.log(128.0) / rate)
    assert short.predicted.steps == pytest.approx(2.0 * short.predicted.steps_at_slope_1)


def test_few_seeds_are_a_hint_and_the_report_round_trips(short):
    assert "2 seeds: seeds differ" in short.notes[0]
    assert StaircaseReport.from_json(short.to_json()) == short


def test_descent_by_adam_has_no_predicted_step():
    found = staircase_demo("add", modulus=15, seeds=2, steps=10, optimizer="adam")
    assert (found.predicted.steps, found.settings.learning_rate) == (None, 0.001)
    assert found.predicted.exists
    assert found.predicted.growth_rate > 0.0
    assert found.rule == "pearson"
    assert [row.step for row in found.beyond_order_0][:3] == [0, 5, 10]


def test_parity_tells_of_anchors_and_noise():
    found = staircase_demo("parity", seeds=2, steps=12)
    assert [group.name for group in found.tokens] == ["anchors", "noise"]
    assert {len(series) for group in found.tokens for series in (group.norm, group.attention)} == {13}
    # One anchor and seven of noise in each sequence share the attention of one.
    anchors, noise = (np.array(group.attention) for group in found.tokens)
    np.testing.assert_allclose((anchors + 7.0 * noise), 1.0, atol=0.01)
    assert found.settings.modulus is None
    assert found.predicted.exists
    assert found.predicted.growth_rate is None
    assert "anchors 0.23 ->" in found.verdict.text


def test_copies_gaps_and_jumps_are_named():
    task = modular_task(6, vocabulary=6)
    series = train_stairs(feed_forward_net(task.law, StairInit((0, 1))), task, StairRun(90, range(0, 91, 10)), seeds=(0, 1))
    assert integrity_of(series.steps, series.embedding).model_dump() == {"duplicates": (), "gaps": (), "jumps": ()}
    copied = series.embedding.copy()
    copied[1, 4] = copied[1, 2]
    copied[0, 7] += 5.0
    steps = series.steps.copy()
    steps[5:] += 40
    found = integrity_of(steps, copied)
    assert found.duplicates == ((20, 40),)
    assert found.gaps == ((40, 90),)
    assert (100, 110) in found.jumps


def test_a_run_without_movement_is_all_copies():
    found = staircase_demo("mod", modulus=15, vocabulary=40, seeds=2, steps=10, learning_rate=1e-30)
    assert found.integrity.duplicates == tuple((0, step) for step in range(1, 11))
    assert found.verdict.label == "not-learned"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "words"}, "task is 'words'; expected mod, add, parity, text"),
        ({"task": None}, "task is None"),
        ({"modulus": 14}, "modulus is 14; expected a whole number of 15 to 200"),
        ({"modulus": 20.0}, "modulus is 20.0"),
        ({"modulus": True}, "modulus is True"),
        ({"modulus": 10**9999}, "modulus is a whole number far too large"),
        ({"vocabulary": 19}, r"vocabulary is 19; expected at least 20, the values 0\.\.19"),
        ({"task": "add", "vocabulary": 38}, r"vocabulary is 38; expected at least 39, the sums 0\.\.38"),
        ({"task": "parity", "vocabulary": 60}, "vocabulary is 60; expected at least 61"),
        ({"task": "parity", "modulus": 20}, "modulus is 20 and the task parity, which has none"),
        ({"gamma": 0.0}, "gamma is 0.0; expected a number above 0, 3 at most"),
        ({"gamma": float("nan")}, "gamma is nan"),
        ({"gamma": "big"}, "gamma is 'big'"),
        ({"seeds": 1}, "seeds is 1; expected a whole number of 2 to 100"),
        ({"steps": 9}, "steps is 9; expected a whole number of 10 to 100,000"),
        ({"learning_rate": float("inf")}, "learning_rate is inf"),
        ({"learning_rate": -1}, "learning_rate is -1"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; expected sgd or adam"),
        ({"seeds": 100, "vocabulary": 10_000}, "would not fit in memory; take fewer seeds"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        staircase_demo(**arguments)


def test_a_run_that_diverges_is_told():
    with pytest.raises(WorkError, match="take a lower learning rate"):
        staircase_demo("mod", modulus=15, vocabulary=40, seeds=2, steps=20, learning_rate=1e6, gamma=0.1)


@pytest.mark.slow
def test_modular_addition_climbs_and_with_as_many_ids_as_labels_has_no_zeroth_stair():
    found = staircase_demo("mod")
    assert found.verdict.label == "staircase"
    assert found.predicted.growth_rate == pytest.approx(0.0868 / 2.0, abs=1e-4)
    assert not any((found.integrity.duplicates, found.integrity.gaps))
    bare = staircase_demo("mod", modulus=20, vocabulary=20)
    assert bare.verdict.label == "no-zeroth-stair"
    assert "uniform over all 20 outputs" in bare.verdict.text
    assert [row.task is not None for row in bare.stairs_by_seed] == [True] * 10


@pytest.mark.slow
def test_order_1_of_addition_is_not_one_of_its_own():
    found = staircase_demo("add")
    assert found.verdict.label == "order-0-only"
    assert "resembles order 0" in found.verdict.text


@pytest.mark.slow
def test_anchors_grow_and_draw_attention_and_noise_freezes():
    found = staircase_demo("parity")
    anchors, noise = found.tokens
    assert anchors.norm[-1] > 2.0 * anchors.norm[0]
    assert noise.norm[-1] == pytest.approx(noise.norm[0], rel=0.1)
    assert anchors.attention[-1] > 0.14 > 0.125 > noise.attention[-1]
