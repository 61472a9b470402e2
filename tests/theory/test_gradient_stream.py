import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.gradient_stream import GradientStream, tangential
from normwise.theory.regimes import split_second_moment


def _fed(gradients):
    stream = GradientStream(1, gradients.shape[1])
    for g in gradients:
        stream.add(np.array([0]), g[None])
    return stream


@given(seed=st.integers(0, 10_000), count=st.integers(2, 12), shift=st.floats(-1e3, 1e3))
def test_a_stream_gives_what_the_split_of_all_gradients_gives(seed, count, shift):
    gradients = np.random.default_rng(seed).normal(size=(count, 5)) + shift
    stream, found = _fed(gradients), split_second_moment(gradients)
    size = (gradients**2).sum(axis=1).mean()
    assert stream.signals[0] == pytest.approx(found.signal, abs=1e-9 * size)
    assert stream.noises[0] == pytest.approx(found.noise, abs=1e-9 * size)
    assert stream.second_moments[0] == pytest.approx(size)
    assert stream.signal_shares[0] == pytest.approx(found.signal_share, abs=1e-9)


def test_agreement_is_the_mean_product_of_neighboring_visits_and_shows_a_signal_that_turns():
    angles = np.linspace(0, 2 * np.pi, 101)[:-1]
    gradients = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    stream = _fed(gradients)
    slow = np.mean([gradients[n] @ gradients[n - 1] for n in range(1, 100)])
    assert stream.agreements[0] == pytest.approx(slow, rel=1e-5)
    assert stream.agreements[0] > 0.99
    assert abs(stream.signals[0]) < 0.02  # the mean over the run is zero: a turning signal looks like noise to it


def test_items_do_not_touch_each_other_and_unvisited_ones_are_undefined():
    stream = GradientStream(3, 2)
    stream.add(np.array([2, 0]), np.array([[3.0, 4.0], [1.0, 0.0]]))
    stream.add(np.array([2]), np.array([[3.0, 4.0]]))
    assert stream.visits.tolist() == [1, 0, 2]
    assert stream.second_moments[[0, 2]].tolist() == [1.0, 25.0]
    assert np.isnan(stream.second_moments[1])
    assert np.isnan(stream.noises[:2]).all()
    assert stream.noises[2] == 0.0


def test_an_item_twice_or_a_broken_gradient_is_refused():
    stream = GradientStream(2, 1)
    with pytest.raises(InputError, match="twice in one visit"):
        stream.add(np.array([0, 0]), np.ones((2, 1)))
    with pytest.raises(InputError, match="item 1 has a gradient that is not finite"):
        stream.add(np.array([0, 1]), np.array([[1.0], [np.nan]]))
    with pytest.raises(InputError, match="at least 1 of each"):
        GradientStream(0, 1)


@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100.0))
def test_tangential_gradients_are_orthogonal_and_do_not_see_the_norm(seed, scale):
    rng = np.random.default_rng(seed)
    z, target = rng.normal(size=(4, 6)), rng.normal(size=6)

    def cosine_gradient(vectors):
        r = np.linalg.norm(vectors, axis=1, keepdims=True)
        u = vectors / r
        return (target - (u @ target)[:, None] * u) / r

    g, along = tangential(z, cosine_gradient(z))
    other, _ = tangential(scale * z, cosine_gradient(scale * z))
    assert np.abs(np.einsum("bd,bd->b", g, z)).max() < 1e-9
    assert np.abs(along).max() < 1e-9
    assert np.allclose(g, other)
