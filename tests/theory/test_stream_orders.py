"""Signatures of several orders beside embeddings: figures, gains, frequency, neighbors, the growth rate of order 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from normwise.core.errors import InputError
from normwise.theory.alignment import SignatureAlignment, cosine_gram
from normwise.theory.stream_orders import OrderRows, StreamOrders
from normwise.theory.stream_signatures import next_token_signature, presence_signature
from normwise.theory.token_stream import TokenStream


def random_stream(seed: int, *, vocabulary: int = 24, length: int = 4_000) -> TokenStream:
    """A Markov chain with a few states that repeat each other, so that tokens differ in frequency and in what follows."""
    random = np.random.default_rng(seed)
    chain = random.dirichlet(np.full(vocabulary, 0.3), size=vocabulary)
    ids = np.zeros(length, dtype=np.int64)
    for place in range(1, length):
        ids[place] = random.choice(vocabulary, p=chain[ids[place - 1]])
    return TokenStream(ids, vocabulary=vocabulary)


def orders_of(stream: TokenStream, *, judged: int | None = None) -> StreamOrders:
    counts = np.bincount(stream.ids, minlength=stream.vocabulary)
    of = np.flatnonzero(counts)[np.argsort(-counts[counts > 0], kind="stable")]
    zero = next_token_signature(stream, of=of)
    one = presence_signature(stream, window=4, of=of)
    rows = [OrderRows(0, zero.values), OrderRows(1, one.values)]
    return StreamOrders(zero, rows, counts=counts[of], judged=judged, vocabulary=stream.vocabulary)


@pytest.fixture(scope="module")
def found() -> StreamOrders:
    return orders_of(random_stream(0))


def test_an_embedding_that_is_the_signature_is_aligned_with_its_own_order(found: StreamOrders) -> None:
    zero, one = (found._values[order].reshape(found.tokens.size, -1) for order in (0, 1))
    assert found.at(zero)[0].figure.value == pytest.approx(1.0)
    assert found.at(one)[1].figure.value == pytest.approx(1.0)
    assert found.at(zero)[1].figure.value < 1.0 - 1e-3


def test_figures_are_those_of_signature_alignment(found: StreamOrders) -> None:
    embedding = np.random.default_rng(1).normal(size=(found.tokens.size, 5))
    alone = SignatureAlignment(found._values[1]).at(embedding)
    assert found.at(embedding)[1] == alone


def test_only_the_judged_tokens_are_compared() -> None:
    stream = random_stream(0)
    some, all_of_them = orders_of(stream, judged=10), orders_of(stream)
    embedding = np.random.default_rng(2).normal(size=(some.tokens.size, 6))
    moved = embedding.copy()
    moved[10:] = np.random.default_rng(3).normal(size=moved[10:].shape)
    assert some.at(embedding) == some.at(moved)
    assert all_of_them.at(embedding) != all_of_them.at(moved)
    assert some.at(embedding)[0].tokens == 10


def test_gains_find_what_was_planted(found: StreamOrders) -> None:
    random = np.random.default_rng(4)
    shares = found.gains(found._values[1].reshape(found.tokens.size, -1))
    assert [share.order for share in shares] == [-1, 0, 1]
    assert shares[-1].r2 > 0.99
    noise = found.gains(random.normal(size=(found.tokens.size, 30)))
    assert noise[-1].r2 < 0.2
    assert all(abs(share.gain.value - share.gain.null) < 0.2 for share in noise)


def test_frequency_comes_before_every_order(found: StreamOrders) -> None:
    level = np.log(found.counts)
    level = level - level.mean()
    # Cosines that depend on the two counts alone.
    angle = level / np.abs(level).max()
    by_count = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    shares = found.gains(by_count)
    assert shares[0].order == -1
    assert shares[0].gain.value > 0.8
    assert shares[0].gain.value > shares[0].gain.null + 0.5


def test_gains_need_fifteen_tokens() -> None:
    few = orders_of(random_stream(5, vocabulary=9))
    assert few.gains(np.random.default_rng(0).normal(size=(few.tokens.size, 4))) == ()


def test_norm_frequency_is_spearmans(found: StreamOrders) -> None:
    embedding = np.random.default_rng(6).normal(size=(found.tokens.size, 3))
    expected = spearmanr(np.linalg.norm(embedding, axis=1), found.counts)[0]
    assert found.norm_frequency(embedding) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(found.norm_frequency(np.tile([1.0, 0.0], (found.tokens.size, 1))))


def test_nearest_are_those_of_the_largest_cosine(found: StreamOrders) -> None:
    embedding = np.random.default_rng(7).normal(size=(found.tokens.size, 4))
    gram = cosine_gram(embedding)
    near = found.nearest(3, 5, embedding=embedding)
    best = [place for place in np.argsort(-gram[3]) if place != 3][:5]
    assert near.tolist() == best
    embedding[3] = 0.0
    assert found.nearest(3, 5, embedding=embedding).size == 0
    embedding[3] = embedding[4]
    embedding[9] = 0.0
    near = found.nearest(3, found.tokens.size, embedding=embedding)
    assert near[0] == 4
    assert 9 not in near
    assert found.nearest(0, 3).tolist() == [place for place in np.argsort(-cosine_gram(found._values[0])[0]) if place != 0][:3]


@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_growth_rate_is_the_singular_value_of_the_whole_drive(seed: int) -> None:
    stream = random_stream(seed, vocabulary=7, length=300)
    whole = next_token_signature(stream)
    drive = whole.frequency[:, None] * (whole.values - 1.0 / 7.0)
    drive[whole.frequency == 0.0] = 0.0
    exact = np.linalg.svd(drive, compute_uv=False)
    found = orders_of(stream).growth_rates
    assert found == pytest.approx(exact[: found.size], rel=1e-6, abs=1e-8)
    assert orders_of(stream).growth_rate == pytest.approx(exact[0], rel=1e-9)


def test_growth_rate_of_some_tokens_is_at_most_that_of_all() -> None:
    stream = random_stream(8)
    counts = np.bincount(stream.ids, minlength=stream.vocabulary)
    top = np.argsort(-counts)[:8]
    cut = next_token_signature(stream, of=top, targets=top)
    few = StreamOrders(cut, [OrderRows(0, cut.values)], counts=counts[top], vocabulary=stream.vocabulary)
    assert 0.0 < few.growth_rate <= orders_of(stream).growth_rate
    assert 0.0 < few.left_out < 1.0


def test_uniform_streams_have_nothing_for_order_0() -> None:
    # Each pair of three tokens once.
    signature = next_token_signature(TokenStream(np.array([0, 0, 1, 1, 2, 2, 0, 2, 1, 0]), vocabulary=3))
    three = StreamOrders(signature, [OrderRows(0, signature.values)], counts=np.array([4, 3, 3]), vocabulary=3)
    assert three.uniform
    assert three.growth_rate == pytest.approx(0.0, abs=1e-12)
    assert not orders_of(random_stream(1)).uniform


def test_bad_orders_are_refused() -> None:
    zero = next_token_signature(random_stream(2))
    counts = np.ones(zero.of.size, dtype=np.int64)
    with pytest.raises(InputError, match="orders are none; expected one or more"):
        StreamOrders(zero, [], counts=counts, vocabulary=24)
    with pytest.raises(InputError, match="orders are 0, 0; expected one or more, each once"):
        StreamOrders(zero, [OrderRows(0, zero.values)] * 2, counts=counts, vocabulary=24)
    with pytest.raises(InputError, match="order 1 has signatures of 3 tokens; expected 24"):
        StreamOrders(zero, [OrderRows(1, zero.values[:3])], counts=counts, vocabulary=24)
    with pytest.raises(InputError, match="embedding has 3 rows; expected one for each of 24 tokens"):
        StreamOrders(zero, [OrderRows(0, zero.values)], counts=counts, vocabulary=24).at(np.ones((3, 2)))
