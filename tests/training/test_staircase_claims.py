"""Claims about the stairs in training, over preset seeds: how fast order 0 grows, and what the size of the init does to it."""

import numpy as np
import pytest
import torch

from normwise.theory.bootstrap import hierarchical_interval
from normwise.theory.early_phase import EarlyPhase
from normwise.theory.sequence_law import token_frequency
from normwise.theory.signatures import label_signature
from normwise.theory.zeroth_stair import modular_growth_rate
from normwise.training.staircase_figures import StairMeter
from normwise.training.staircase_models import StairInit, feed_forward_net
from normwise.training.staircase_tasks import addition_task, modular_task
from normwise.training.staircase_training import StairRun, train_stairs

# Set before they were run.
SEEDS = tuple(range(200, 205))
# A step grows the fastest direction by 1 + .01: log(1.01) per .01 of time, half a percent below the flow.
STEP = 0.01
TASKS = {"mod": lambda: modular_task(20, vocabulary=81), "add": lambda: addition_task(20, vocabulary=81)}


def _drive(task):
    """A of the early phase from counts of the table: over sequences of equal weight and the tokens in them, 1 at the label less 1/Y."""
    law = task.law
    drive = np.zeros((law.vocabulary, law.labels_known))
    for sequence, label in zip(law.tokens, law.labels, strict=True):
        for token in sequence:
            drive[token] += (np.arange(law.labels_known) == label) - 1.0 / law.labels_known
    return drive / len(law.labels)


@pytest.fixture(autouse=True)
def _one_thread():
    """Small products: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _train(task, *, steps, looks, rate):
    """Straight networks from an init so small that the top direction grows by e^8 before logits are at .005."""
    net = feed_forward_net(task.law, StairInit(SEEDS, width=16, gamma=4.0), activation="identity")
    found = train_stairs(net, task, StairRun(steps, looks, learning_rate=rate), seeds=SEEDS)
    return found.embedding.astype(np.float64), found.unembedding.astype(np.float64)


def _top(embedding):
    return np.linalg.svd(embedding, compute_uv=False)[..., 0]


@pytest.mark.parametrize(("modulus", "vocabulary"), [(20, 81), (20, 21), (20, 20), (7, 30), (3, 4), (16, 400)])
def test_the_growth_rate_of_a_modular_task_is_the_closed_form(modulus, vocabulary):
    """(2 / sqrt N) sqrt(1/N - 1/V), of rank one, against singular values of what descent on the table does."""
    sizes = np.linalg.svd(_drive(modular_task(modulus, vocabulary=vocabulary)), compute_uv=False)
    expected = 2.0 / np.sqrt(modulus) * np.sqrt(1.0 / modulus - 1.0 / vocabulary)
    np.testing.assert_allclose(sizes, [expected, *np.zeros(vocabulary - 1)], atol=1e-14)
    assert modular_growth_rate(modulus, vocabulary) == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_as_many_outputs_as_labels_drive_nothing():
    """In the time in which twice as many outputs let the top singular value grow, it stays in each of five seeds."""
    ratios = []
    for vocabulary in (8, 16):
        task = modular_task(8, vocabulary=vocabulary)
        assert (np.abs(_drive(task)).max() <= 1e-15) == (vocabulary == 8)
        embedding, _ = _train(task, steps=400, looks=(0, 400), rate=STEP / modular_growth_rate(8, 16))
        tops = _top(embedding[:, :, task.seen])
        ratios.append(tops[:, 1] / tops[:, 0])
    np.testing.assert_allclose(ratios[0], 1.0, rtol=1e-3)
    assert (ratios[1] > 10.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_training_grows_by_the_top_singular_value(name):
    """In each of five seeds the log of E's top singular value grows by sigma_1 per unit of time within 1%, and E(t) is the closed form
    within 2e-3 of its way, until logits are at .005."""
    task = TASKS[name]()
    growth = _top(_drive(task))
    phase = EarlyPhase(label_signature(task.law, order=0).values, token_frequency(task.law), length=2)
    rate = STEP / growth
    start = _train(task, steps=1, looks=(0,), rate=rate)
    ends = min(phase.ends(start[0][s, 0], start[1][s, 0]) for s in range(len(SEEDS)))
    steps = int(ends / rate)
    looks = [0, steps // 2, 3 * steps // 4, steps]
    embedding, _ = _train(task, steps=steps, looks=looks, rate=rate)
    # Tokens that never occur keep their init and would be the rest of the singular values.
    tops = _top(embedding[:, :, task.seen])
    assert (tops[:, 3] > 500.0 * tops[:, 0]).all()
    found = np.log(tops[:, 3] / tops[:, 2]) / (rate * (looks[3] - looks[2]))
    np.testing.assert_allclose(found, growth, rtol=0.01)
    for s, look in np.ndindex(len(SEEDS), 3):
        time = looks[look + 1] * np.log1p(STEP) / growth
        expected = phase.at(time, start[0][s, 0], start[1][s, 0]).embedding
        moved = np.linalg.norm(expected - start[0][s, 0])
        assert np.linalg.norm(embedding[s, look + 1] - expected) <= 2e-3 * moved


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "rate"), [("adam", 0.001), ("sgd", 1.0)])
def test_a_small_init_is_closer_to_order_0_and_a_smaller_one_only_later(optimizer, rate):
    """Addition. In each of five seeds gamma .8 is above .5 at steps 100, 200 and 400, and 1.0 is at 200.

    That 1.0 is above .8 at step 200 does not hold: in each seed it is below at step 100, not yet out of its init, and above at 400 only.
    At 200 the 95% interval of the difference over seeds ends below .005, the least that was to matter.
    """
    task = addition_task(20, vocabulary=81)
    meter, run = StairMeter(task, probed=False), StairRun(400, (0, 100, 200, 400), optimizer, rate)
    found = []
    for gamma in (0.5, 0.8, 1.0):
        series = train_stairs(feed_forward_net(task.law, StairInit(SEEDS, gamma=gamma)), task, run, seeds=SEEDS)
        found.append(meter.figures(series).alignment[0, :, 1:])
    large, small, smaller = found
    assert (small > large).all()
    assert (smaller > large)[:, 1:].all()
    difference = smaller - small
    assert (difference[:, 0] < 0.0).all()
    assert (difference[:, 2] > 0.0).all()
    interval = hierarchical_interval(difference[:, 1:2], np.zeros(1, dtype=np.int64), seed=0)
    assert interval.ci_high is not None
    assert interval.ci_high < 0.005
