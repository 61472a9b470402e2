"""Sketches of the second order of streams against loops over pairs, what signs estimate, and plans that only sketch."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_worlds import a_stream

from normwise.core.errors import InputError
from normwise.theory.signature_sketch import random_probes
from normwise.theory.stream_counts import CountPlan, count_parts, whole
from normwise.theory.stream_signatures import counted_pair_sketch, counted_presence, counted_sketch, next_token_signature
from normwise.theory.token_stream import TokenStream

seeds = st.integers(0, 10**6)
reaches = st.one_of(st.just("prefix"), st.integers(1, 9))
NONE = np.arange(0)


def before(text, s, presence):
    return set(text[:s] if presence == "prefix" else text[max(0, s - presence) : s])


def slow_second_order(texts, presence, *, vocabulary=5):
    """P(x_{s+1} = v, b in X_{<s}, c in X_{<s}, b != c | x_s = a), every pair at every position in turn."""
    sums, seen = np.zeros((vocabulary,) * 4), np.zeros(vocabulary)
    for text in texts:
        for s in range(len(text) - 1):
            seen[text[s]] += 1
            for b, c in itertools.permutations(before(text, s, presence), 2):
                sums[text[s], text[s + 1], b, c] += 1
    return sums / np.maximum(seen, 1)[:, None, None, None]


def sketched(stream, presence, pairs, **kept):
    return counted_pair_sketch(count_parts([whole(stream)], CountPlan(**{"vocabulary": 5, "presence": presence, "pairs": pairs} | kept)))


@given(seeds, reaches)
def test_a_sketch_of_pairs_is_the_contraction_of_the_second_order(seed, presence):
    stream, texts = a_stream(seed)
    pairs = np.random.default_rng(seed).integers(-1, 2, size=(4, 2, 5))
    dense = slow_second_order(texts, presence)
    found = sketched(stream, presence, pairs)
    assert found.values == pytest.approx(np.einsum("avbc,rb,rc->rav", dense, pairs[:, 0], pairs[:, 1]), abs=1e-13)
    assert found.frequency == pytest.approx(next_token_signature(stream).frequency)
    assert not found.left_out.any()
    of, targets = np.array([4, 2, 0]), np.array([3, 1])
    part = sketched(stream, presence, pairs, of=of, targets=targets, contexts=NONE)
    assert np.array_equal(part.values, found.values[:, of][:, :, targets])
    assert part.left_out == pytest.approx(next_token_signature(stream, of=of, targets=targets).left_out, abs=1e-15)


@given(seeds, reaches)
def test_probes_of_one_token_each_read_the_second_order_off(seed, presence):
    stream, texts = a_stream(seed)
    single = np.eye(5, dtype=np.int8)
    pairs = np.array([[single[b], single[c]] for b in range(5) for c in range(5)])
    found = np.moveaxis(sketched(stream, presence, pairs).values.reshape(5, 5, 5, 5), (0, 1), (2, 3))
    assert np.array_equal(found, slow_second_order(texts, presence))
    assert np.array_equal(found, found.swapaxes(2, 3))
    assert not np.diagonal(found, axis1=2, axis2=3).any()


@given(seeds, reaches)
def test_ones_give_the_mean_number_of_pairs_of_different_tokens(seed, presence):
    stream, texts = a_stream(seed)
    counts = [(text[s], len(before(text, s, presence))) for text in texts for s in range(len(text) - 1)]
    found = sketched(stream, presence, np.ones((1, 2, 5))).values[0].sum(axis=1)
    for a in range(4):
        sizes = [n * (n - 1) for token, n in counts if token == a]
        assert found[a] == pytest.approx(math.fsum(sizes) / max(1, len(sizes)))


def test_a_token_that_stands_often_is_no_pair():
    stream = TokenStream(np.array([1, 1, 1, 0, 2]), vocabulary=3)
    ones = np.ones((1, 2, 3), dtype=np.int8)
    assert sketched(stream, "prefix", ones, vocabulary=3).values[0].tolist() == [[0.0, 0.0, 0.0]] * 3
    stream = TokenStream(np.array([1, 2, 1, 0, 2]), vocabulary=3)
    assert sketched(stream, "prefix", ones, vocabulary=3).values[0, 0].tolist() == [0.0, 0.0, 2.0]


def test_the_mean_over_all_signs_is_the_product_of_the_second_orders():
    stream, texts = a_stream(3, vocabulary=4, documents=8)
    signs = np.array(list(itertools.product([-1, 1], repeat=4)))
    pairs = np.array(list(itertools.product(signs, signs)))
    rows = slow_second_order(texts, "prefix", vocabulary=4).reshape(4, -1)
    found = sketched(stream, "prefix", pairs, vocabulary=4).values
    assert np.einsum("rav,rbv->ab", found, found) / len(pairs) == pytest.approx(rows @ rows.T, abs=1e-12)
    assert (rows @ rows.T)[:3, :3].min() > 0.0


def test_random_signs_estimate_the_product_of_the_second_orders():
    """Within four standard errors."""
    stream, texts = a_stream(5, documents=12)
    rows = slow_second_order(texts, 4).reshape(5, -1)
    found = sketched(stream, 4, random_probes(4000, 2, 5, seed=7)).values
    products = np.einsum("rav,rbv->rab", found, found)
    errors = 4.0 * products.std(axis=0) / math.sqrt(4000)
    assert (np.abs(products.mean(axis=0) - rows @ rows.T) <= errors + 1e-12).all()


@given(seeds, reaches)
def test_a_plan_without_contexts_sketches_the_same_and_holds_no_presences(seed, presence):
    stream, _ = a_stream(seed)
    probes = random_probes(3, 2, 5, seed=seed)
    plan = CountPlan(vocabulary=5, presence=presence, probes=probes[:, 0], pairs=probes)
    full, bare = (count_parts([whole(stream)], each) for each in (plan, dataclasses.replace(plan, contexts=NONE)))
    assert (full.presence.shape, bare.presence.shape) == ((5, 5, 5), (5, 5, 0))
    for name in ("sketch", "pair_sketch", "presences", "followed"):
        assert np.array_equal(getattr(full, name), getattr(bare, name))
    assert np.array_equal(counted_sketch(bare).values, counted_sketch(full).values)
    with pytest.raises(InputError, match=r"expected a plan with a presence and contexts"):
        counted_presence(bare)


def test_a_vocabulary_too_large_for_presences_is_sketched():
    ids = np.array([70_000, 3, 70_000, 5, 3, 9], dtype=np.int32)
    stream, kept = TokenStream(ids, vocabulary=80_000), {"of": np.array([5, 3]), "targets": np.array([3, 9])}
    pairs = random_probes(6, 2, 80_000, seed=1).astype(np.int8)
    with pytest.raises(InputError, match=r"30 x 30 x 80,000 values are above 50,000,000"):
        sketched(stream, "prefix", pairs, vocabulary=80_000, of=np.arange(30), targets=np.arange(30))
    sketched(stream, "prefix", pairs, vocabulary=80_000, of=np.arange(30), targets=np.arange(30), contexts=NONE)
    found = sketched(stream, "prefix", pairs, vocabulary=80_000, contexts=NONE, **kept).values
    p, q = pairs[:, 0].astype(float), pairs[:, 1].astype(float)
    assert found[:, 0, 0] == pytest.approx(p[:, 3] * q[:, 70_000] + p[:, 70_000] * q[:, 3])
    among = [70_000, 3, 5]
    expected = sum(p[:, b] * q[:, c] for b, c in itertools.permutations(among, 2))
    # The first 3 has another next token.
    assert found[:, 1, 1] == pytest.approx(expected / 2.0)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"presence": None}, r"pairs sketch presences; expected presence with them: a window or 'prefix'"),
        ({"pairs": np.ones((1, 5))}, r"pairs have shape \(1, 5\); expected \(R, 2, 5\), R at least 1"),
        ({"pairs": np.ones((1, 3, 5))}, r"pairs have shape \(1, 3, 5\)"),
        ({"pairs": np.ones((0, 2, 5))}, r"pairs have shape \(0, 2, 5\)"),
        ({"pairs": np.full((1, 2, 5), 2)}, r"pairs hold other numbers than -1, 0 and 1"),
        ({"contexts": NONE, "near": 2}, r"contexts hold no token, and near counts those that have a place"),
        ({"contexts": NONE, "pairs": None}, r"contexts hold no token, and nothing sketches presences"),
        ({"vocabulary": 4000, "pairs": np.ones((4, 2, 4000))}, r"4,000 x 4,000 x 4 values are above .* or take fewer probes or pairs"),
    ],
)
def test_pairs_that_sketch_nothing_are_refused(given_, words):
    with pytest.raises(InputError, match=words):
        CountPlan(**({"vocabulary": 5, "presence": 3, "contexts": np.array([1]), "pairs": np.ones((1, 2, 5))} | given_))


def test_sums_that_may_have_passed_64_bits_are_refused():
    stream, _ = a_stream(0)
    counts = count_parts([whole(stream)], CountPlan(vocabulary=5, presence="prefix", pairs=np.ones((1, 2, 5))))
    most = np.iinfo(np.int64).max // 4
    assert counted_pair_sketch(dataclasses.replace(counts, presences=np.full(5, most))).values.any()
    with pytest.raises(InputError, match=r"up to 5 different tokens before it; pairs of them may have passed 64 bits: tell where doc"):
        counted_pair_sketch(dataclasses.replace(counts, presences=np.array([0, 0, most + 1, 0, 0])))
