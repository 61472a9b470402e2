import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from normwise.core.errors import InputError
from normwise.theory.concept_world import (
    ConceptGradients,
    concept_gradients,
    concept_tree,
    draw_labels,
    labelled_world,
    stationary_second_moments,
)
from normwise.theory.simulated_gradients import GradientSource


def _slow_gradient(u, positive, negatives, tau):
    """One term of InfoNCE, from -log softmax by central differences on the sphere."""

    def loss(x):
        x = x / np.linalg.norm(x)
        logits = np.array([x @ positive, *(x @ c for c in negatives)]) / tau
        return np.log(np.exp(logits).sum()) - logits[0]

    steps = 1e-6 * np.eye(u.size)
    return np.array([(loss(u + step) - loss(u - step)) / 2e-6 for step in steps])


class _Scripted(np.random.Generator):
    """A generator that hands out what the test says."""

    def __init__(self, uniforms, integers):
        super().__init__(np.random.PCG64(0))
        self._uniforms, self._integers = uniforms, integers

    def random(self, shape):
        return np.full(shape, self._uniforms)

    def integers(self, low, high, shape):
        return np.broadcast_to(self._integers, shape).copy()


def test_gradients_and_losses_are_those_of_infonce():
    rng = np.random.default_rng(0)
    candidates = rng.normal(size=(6, 5))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    shares = np.array([[0.0, 1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0, 0]])
    source = ConceptGradients(candidates, shares, shares == 0, temperature=0.3, negatives=3)
    u = rng.normal(size=(2, 5))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    found = source.draw(np.array([0, 1]), u, _Scripted(0.5, np.array([0, 2, 3])))
    for row, positive in enumerate((1, 4)):
        expected = _slow_gradient(u[row], candidates[positive], candidates[[0, 2, 3]], 0.3)
        assert np.allclose(found.values[row], expected, atol=1e-6)
        logits = candidates[[positive, 0, 2, 3]] @ u[row] / 0.3
        p = np.exp(logits) / np.exp(logits).sum()
        assert found.losses[row] == pytest.approx(-np.log(p[0]))
        assert found.hardness[row] == pytest.approx((1 - p[0]) ** 2)


def test_the_source_is_one_that_the_simulator_takes():
    assert isinstance(concept_gradients(concept_tree(per_level=1, width=8, seed=0), temperature=0.2, negatives=4), GradientSource)


@given(seed=st.integers(0, 500))
def test_the_tree_is_general_at_the_top_and_its_frequencies_are_dealt_apart(seed):
    world = concept_tree(per_level=12, width=24, seed=seed)
    assert np.allclose(np.linalg.norm(world.candidates, axis=1), 1.0)
    assert np.allclose(world.shares.sum(axis=1), 1.0)
    for level in (1, 2, 3, 4):
        assert set((world.shares[world.levels == level] > 0).sum(axis=1)) == {3 ** (5 - level)}
        assert np.allclose(np.sort(world.visit_rates[world.levels == level]), np.geomspace(0.03, 1.0, 12))
    assert spearmanr(world.dispersions, world.levels).statistic < -0.7


def test_positives_lie_below_the_concept_and_negatives_do_not():
    world = concept_tree(per_level=3, width=16, seed=1)
    source = concept_gradients(world, temperature=0.2, negatives=50)
    chosen = draw_labels(world.shares, np.random.default_rng(0), count=40)
    assert (np.take_along_axis(world.shares, chosen, axis=1) > 0).all()
    others = source._others(np.arange(12), chosen[:, :2], np.random.default_rng(0))
    assert (np.take_along_axis(world.shares, others.reshape(12, -1), axis=1) == 0).all()


def test_labels_come_as_often_as_people_gave_them():
    drawn = draw_labels(np.array([[0.2, 0.0, 0.8]]), np.random.default_rng(0), count=20_000)
    assert np.bincount(drawn[0], minlength=3) / 20_000 == pytest.approx([0.2, 0.0, 0.8], abs=0.01)


def test_people_who_agree_leave_no_dispersion():
    world = labelled_world(np.array([[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]]), width=8, seed=0)
    assert world.dispersions == pytest.approx([0, 1 / 2, 2 / 3], abs=1e-12)
    with pytest.raises(InputError, match="at most 2"):
        labelled_world(np.ones((1, 3)) / 3, width=2, seed=0)


def test_the_stationary_second_moment_has_no_signal_left_and_falls_with_specificity():
    world = concept_tree(per_level=6, width=24, seed=2)
    source = concept_gradients(world, temperature=0.2, negatives=16)
    moments = stationary_second_moments(source, start=world.centers, seed=0)
    by_level = [moments[world.levels == level].mean() for level in (1, 2, 3, 4)]
    assert by_level == sorted(by_level, reverse=True)


def test_worlds_and_sources_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="per_level is 0"):
        concept_tree(per_level=0, width=8, seed=0)
    shares, candidates = np.array([[1.0, 0.0, 0.0]]), np.eye(3)
    with pytest.raises(InputError, match="sum to 1"):
        ConceptGradients(candidates, 2 * shares, shares == 0, temperature=0.2, negatives=1)
    with pytest.raises(InputError, match="fewer than two negatives"):
        ConceptGradients(candidates, shares, np.array([[False, True, False]]), temperature=0.2, negatives=1)
    with pytest.raises(InputError, match=r"expected both \(items, candidates\)"):
        ConceptGradients(candidates[:2], shares, shares == 0, temperature=0.2, negatives=1)
    with pytest.raises(InputError, match="temperature is 0"):
        ConceptGradients(candidates, shares, shares == 0, temperature=0.0, negatives=1)
