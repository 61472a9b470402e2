"""Figures of a series against direct calls, and the stairs of modular addition and addition over preset seeds."""

import dataclasses

import numpy as np
import pytest
import torch

from normwise.core.errors import InputError
from normwise.theory.alignment import SignatureAlignment
from normwise.theory.fourier_probes import FourierProbe
from normwise.theory.sequence_law import SequenceLaw
from normwise.theory.signature_probes import FittedProbe
from normwise.theory.signatures import label_signature
from normwise.theory.stairs import StairRule
from normwise.training.staircase_figures import LEARNED, STAIR, StairFigures, StairMeter, stairs_by_seed
from normwise.training.staircase_models import StairInit, feed_forward_net
from normwise.training.staircase_tasks import StairTask, addition_task, extreme_task, modular_task
from normwise.training.staircase_training import StairRun, StairSeries, train_stairs

# Set before they were run.
SEEDS = tuple(range(100, 110))
RUN = StairRun(600, range(0, 601, 10))


def _series(task, *, run=RUN, seeds=SEEDS):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    found = train_stairs(feed_forward_net(task.law, StairInit(seeds)), task, run, seeds=seeds)
    torch.set_num_threads(before)
    return found


def _first(steps, high):
    """The first step at which each row is true; one after all where none is."""
    return np.where(high.any(axis=1), steps[high.argmax(axis=1)], steps[-1] + 1)


@pytest.fixture(scope="module")
def small():
    task = modular_task(15, vocabulary=20)
    return task, _series(task, run=StairRun(60, (0, 30, 60)), seeds=(0, 1))


@pytest.fixture(scope="module")
def modular():
    task = modular_task(20, vocabulary=81)
    series = _series(task)
    return series, StairMeter(task).figures(series)


def test_figures_are_those_of_the_alignments(small):
    task, series = small
    found = StairMeter(task, permutations=4, seed=3).figures(series)
    assert found.rule == "one minus mse"
    zero = SignatureAlignment(label_signature(task.law, order=0).values)
    one = FourierProbe(label_signature(task.law, order=1).values, cycle=np.arange(15), permutations=4, seed=3)
    for s, t in np.ndindex(2, 3):
        copies = series.embedding[s].astype(np.float64)
        figure = zero.with_initial(copies[0]).at(copies[t]).figure
        assert (found.alignment[0, s, t], found.null[0, s, t]) == pytest.approx((figure.value, figure.initial))
        probe = one.at(copies[t])
        assert (found.alignment[1, s, t], found.null[1, s, t]) == pytest.approx((probe.figure.value, probe.figure.null))
        np.testing.assert_allclose(found.by_frequency[s, t], probe.by_frequency, atol=1e-9)
    np.testing.assert_array_equal(found.above_null, found.alignment - found.null)


def test_without_a_cycle_order_1_is_a_fitted_probe_or_none():
    task = extreme_task("max", 15, vocabulary=15)
    series = _series(task, run=StairRun(20, (20,)), seeds=(0,))
    signature = label_signature(task.law, order=1).values
    fitted = StairMeter(task, permutations=2, seed=1).figures(series)
    expected = FittedProbe(signature, permutations=2, starts=1, seed=1).at(series.embedding[0, 0]).figure
    assert (fitted.alignment[1, 0, 0], fitted.null[1, 0, 0]) == pytest.approx((expected.value, expected.null), abs=1e-6)
    assert fitted.by_frequency is None
    plain = StairMeter(task, probed=False).figures(series)
    expected = SignatureAlignment(signature).at(series.embedding[0, 0]).figure
    assert (plain.alignment[1, 0, 0], plain.null[1, 0, 0]) == pytest.approx((expected.value, 0.0))


def test_embeddings_of_another_vocabulary_are_refused(small):
    with pytest.raises(InputError, match="embeddings have 20 rows; expected 21, the task's vocabulary"):
        StairMeter(modular_task(15, vocabulary=21)).figures(small[1])


def test_stairs_are_read_from_planted_figures():
    steps = np.arange(5) * 10
    series = StairSeries(
        (7, 8), steps, np.zeros((2, 5)), np.array([[0, 0.2, 0.9, 0.95, 1.0], [0.0] * 5]), *[np.zeros((2, 5, 1, 1))] * 2, None
    )
    planted = np.array([[[0, 0.9, 0.9, 0.9, 0], [0, 0.4, 0.9, 0.4, 0]], [[0, 0, 0.9, 0.9, 0.9], [0, 0, 0, 0.9, 0.9]]])
    figures = StairFigures("pearson", planted, np.full((2, 2, 5), 0.1), None)
    first, second = stairs_by_seed(series, figures)
    assert (first.seed, first.order_0.onset, first.order_1.onset, first.task, first.in_order) == (7, 10, 20, 30, True)
    assert (second.seed, second.order_0.onset, second.order_1.onset, second.task, second.in_order) == (8, None, 30, None, False)
    # One checkpoint above the threshold is enough by a rule that says so.
    loose = stairs_by_seed(series, figures, rule=StairRule(0.5, stays=1), learned=0.9)
    assert ([each.order_0.onset for each in loose], [each.task for each in loose]) == ([10, 20], [20, None])
    assert dataclasses.astuple(STAIR) == (0.5, 2)
    assert LEARNED == 0.95


@pytest.mark.slow
def test_order_0_comes_before_the_task_in_modular_addition(modular):
    """Above .95 before accuracy is above .3, in all of ten preset seeds."""
    series, figures = modular
    assert figures.rule == "one minus mse"
    assert (_first(series.steps, figures.alignment[0] > 0.95) < _first(series.steps, series.accuracy > 0.3)).all()


@pytest.mark.slow
def test_order_0_comes_before_the_task_in_addition():
    task = addition_task(20, vocabulary=81)
    series = _series(task)
    figures = StairMeter(task).figures(series)
    assert figures.rule == "pearson"
    assert (_first(series.steps, figures.alignment[0] > 0.95) < _first(series.steps, series.accuracy > 0.3)).all()


@pytest.mark.slow
def test_order_1_rises_after_order_0_and_not_after_the_task(modular):
    stairs = stairs_by_seed(*modular)
    assert [each.task is not None for each in stairs] == [True] * 10
    assert sum(each.in_order for each in stairs) >= 8


@pytest.mark.slow
def test_as_many_tokens_as_labels_show_no_zeroth_stair():
    task = modular_task(20, vocabulary=20)
    series = _series(task)
    assert [each.order_0.onset for each in stairs_by_seed(series, StairMeter(task).figures(series))] == [None] * 10


@pytest.mark.slow
def test_labels_without_the_structure_show_no_first_stair():
    """The same table with its labels shuffled: embeddings learn it, and the frequencies of the cycle do not rise in them."""
    task = modular_task(20, vocabulary=81)
    labels = np.random.default_rng(0).permutation(task.law.labels)
    series = _series(StairTask("shuffled", SequenceLaw(task.law.tokens, labels, 81), task.cycle), seeds=SEEDS[:5])
    assert (series.accuracy[:, -1] > 0.3).all()
    assert [each.order_1.onset for each in stairs_by_seed(series, StairMeter(task).figures(series))] == [None] * 5
