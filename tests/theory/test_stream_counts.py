"""Counts of parts add up to those of the whole, bit for bit; what was left out; what is refused."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_worlds import a_stream

from normwise.core.errors import InputError
from normwise.theory import stream_kernels
from normwise.theory.signature_sketch import random_probes
from normwise.theory.signatures import contract
from normwise.theory.stream_counts import CountPlan, StreamCounts, StreamPart, StreamTally, count_parts, pack_counts, whole
from normwise.theory.stream_signatures import (
    TokenStream,
    counted_cooccurrence,
    counted_next_token,
    counted_pair_sketch,
    counted_presence,
    counted_sketch,
    next_token_signature,
    presence_signature,
    window_cooccurrence,
)

seeds = st.integers(0, 10**6)
presences = st.one_of(st.none(), st.just("prefix"), st.integers(1, 9))
nears = st.one_of(st.none(), st.integers(1, 9))


def a_plan(seed, presence, near):
    """Some tokens, next tokens and contexts of five, in any order; sketches where there are presences, at times nothing but them."""
    rng = np.random.default_rng(seed)
    of, targets, contexts = (rng.permutation(5)[: rng.integers(1, 6)] for _ in range(3))
    probes = None if presence is None else random_probes(3, 1, 5, seed=seed)[:, 0].astype(np.int8)
    pairs = None if presence is None or seed % 3 == 0 else random_probes(2, 2, 5, seed=seed)
    if presence is not None and near is None and seed % 2:
        contexts = contexts[:0]
    return CountPlan(vocabulary=5, of=of, targets=targets, contexts=contexts, presence=presence, near=near, probes=probes, pairs=pairs)


def slow_parts(texts, cuts, plan):
    """Parts of the joined texts between cuts, each with the least that it needs around it, found by walking over the documents."""
    joined = [(number, place, token) for number, text in enumerate(texts) for place, token in enumerate(text)]
    for low, high in zip(cuts, cuts[1:], strict=False):
        number, place, _ = joined[low]
        back = min(place, plan.before)
        far = sorted(set(texts[number][: place - back])) if plan.needs_prefix else []
        number, place, _ = joined[high - 1]
        on = min(len(texts[number]) - 1 - place, plan.after)
        block = [*[(joined[low][0], -1, token) for token in far], *joined[low - back : high + on]]
        starts = [0, *[i for i in range(1, len(block)) if block[i][0] != block[i - 1][0]]]
        stream = TokenStream(np.array([token for _, _, token in block]), vocabulary=5, starts=np.array(starts))
        first = len(far) + back
        yield StreamPart(stream, first, first + high - low)


def same(one, two):
    return one.arrays.keys() == two.arrays.keys() and all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)


@given(seeds, presences, nears)
def test_counts_of_parts_add_up_to_those_of_the_whole(seed, presence, near):
    stream, texts = a_stream(seed)
    plan = a_plan(seed, presence, near)
    expected = count_parts([whole(stream)], plan)
    rng = np.random.default_rng(seed)
    inner = rng.choice(np.arange(1, stream.ids.size), size=rng.integers(1, 6), replace=False)
    parts = list(slow_parts(texts, [0, *sorted(inner.tolist()), stream.ids.size], plan))
    assert same(count_parts(parts, plan), expected)
    singles = [count_parts([part], plan) for part in parts]
    order = rng.permutation(len(singles))
    total = singles[order[0]]
    for place in order[1:]:
        total = total + singles[place]
    assert same(total, expected)
    assert all(array.dtype == np.int64 for array in total.arrays.values())
    tally = StreamTally(plan)
    for single in singles:
        tally.merge(pickle.loads(pickle.dumps(pack_counts(single))))
    assert same(tally.counts(), expected)


@given(seeds, presences, nears)
def test_a_part_for_each_token_makes_the_same_counts(seed, presence, near):
    stream, texts = a_stream(seed, documents=3)
    plan = a_plan(seed, presence, near)
    assert same(count_parts(slow_parts(texts, list(range(stream.ids.size + 1)), plan), plan), count_parts([whole(stream)], plan))


@given(seeds, st.integers(1, 9))
def test_signatures_are_those_of_counts(seed, window):
    stream, texts = a_stream(seed)
    plan = CountPlan(vocabulary=5, presence=window, near=window)
    cuts = [0, *range(1, stream.ids.size, 3), stream.ids.size]
    counts = count_parts(slow_parts(texts, cuts, plan), plan)
    for made, known in (
        (counted_next_token(counts), next_token_signature(stream)),
        (counted_presence(counts), presence_signature(stream, window=window)),
        (counted_cooccurrence(counts), window_cooccurrence(stream, window=window)),
    ):
        for field in ("values", "frequency", "left_out"):
            assert np.array_equal(getattr(made, field), getattr(known, field))


@given(seeds, st.one_of(st.just("prefix"), st.integers(1, 9)))
def test_a_sketch_holds_the_contexts_without_a_place(seed, presence):
    stream, _ = a_stream(seed)
    probes = random_probes(4, 1, 5, seed=seed)
    plan = CountPlan(vocabulary=5, presence=presence, contexts=np.array([2]), targets=np.array([1, 3]), probes=probes[:, 0])
    found = counted_sketch(count_parts([whole(stream)], plan))
    dense = presence_signature(stream, window=None if presence == "prefix" else presence, targets=np.array([1, 3]))
    assert found.values == pytest.approx(contract(dense.values, probes), abs=1e-13)
    assert found.left_out == pytest.approx(next_token_signature(stream, targets=np.array([1, 3])).left_out, abs=1e-15)


@given(seeds)
def test_tokens_are_counted_at_every_place(seed):
    stream, _ = a_stream(seed)
    counts = count_parts([whole(stream)], CountPlan(vocabulary=5, next_token=False))
    assert counts.tokens.tolist() == np.bincount(stream.ids, minlength=5).tolist()
    assert counts.moments == stream.ids.size - (stream.bounds.size - 1)
    assert {name: array.size for name, array in counts.arrays.items() if array.size} == {"numbers": 3, "tokens": 5}


def test_numbers_of_a_stream_worked_out_by_hand():
    stream = TokenStream(np.array([1, 2, 1, 1, 2]), vocabulary=3, starts=np.array([0, 3]))
    probes = np.array([[0, 1, -1]])
    counts = count_parts([whole(stream)], CountPlan(vocabulary=3, presence=2, near=1, of=np.array([2, 1]), probes=probes))
    assert (counts.moments, counts.positions, counts.longest) == (3, 5, 2)
    assert counts.seen.tolist() == [1, 2]
    assert counts.followed.tolist() == [[0, 1, 0], [0, 0, 2]]
    assert counts.presence[0].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert (counts.presences.tolist(), counts.sketch[:, :, 0].tolist()) == ([1, 0], [[0, 1, 0], [0, 0, 0]])
    assert counts.centers.tolist() == [[1, 3], [1, 0]]
    assert counts.near.tolist() == [[[0, 1, 0], [0, 0, 3]], [[0, 2, 0], [0, 0, 0]]]


@pytest.mark.parametrize("vocabulary", [200, 70_000, 2**33])
def test_order_by_token_is_that_of_a_stable_sort(vocabulary):
    ids = np.random.default_rng(0).choice(np.arange(min(vocabulary, 2**17)), 3000)
    assert np.array_equal(stream_kernels.stable_order(ids, vocabulary), np.argsort(ids, kind="stable"))


def test_counts_come_back_from_their_arrays():
    stream, _ = a_stream(1)
    plan = a_plan(1, 3, 2)
    counts = count_parts([whole(stream)], plan)
    assert same(StreamCounts.from_arrays(plan, counts.arrays), counts)
    arrays = counts.arrays
    with pytest.raises(InputError, match=r"counts: tokens is int64 of shape \(4,\); expected int64 of shape \(5,\)"):
        StreamCounts.from_arrays(plan, arrays | {"tokens": arrays["tokens"][1:]})
    with pytest.raises(InputError, match=r"counts: near is float64"):
        StreamCounts.from_arrays(plan, arrays | {"near": arrays["near"] / 1.0})
    with pytest.raises(InputError, match=r"counts have no array 'seen'"):
        StreamCounts.from_arrays(plan, {name: array for name, array in arrays.items() if name != "seen"})


def test_counts_on_their_way_hold_what_is_not_zero():
    stream, _ = a_stream(1)
    counts = count_parts([whole(dataclasses.replace(stream, vocabulary=300))], CountPlan(vocabulary=300, presence=3, targets=np.arange(9)))
    packed = pack_counts(counts)
    places, numbers = packed.cells["presence"]
    assert numbers.tolist() == counts.presence.reshape(-1)[places].tolist()
    assert numbers.sum() == counts.presence.sum() > 0
    assert len(pickle.dumps(packed)) < counts.presence.nbytes / 50


def test_fingerprints_tell_plans_apart():
    plan = CountPlan(vocabulary=5, presence=2, near=3, probes=np.ones((1, 5), dtype=np.int8), pairs=np.ones((1, 2, 5)))
    others = [
        {"vocabulary": 6, "probes": np.ones((1, 6)), "pairs": np.ones((1, 2, 6))},
        {"of": np.array([1])},
        {"targets": np.array([1])},
        {"contexts": np.array([1])},
        {"presence": "prefix"},
        {"near": 2},
        {"probes": -np.ones((1, 5))},
        {"probes": None},
        {"pairs": np.ones((2, 2, 5))},
        {"pairs": np.ones((1, 2, 5)) * np.array([1, 0, 1, 1, 1])},
        {"pairs": None},
        {"near": None, "contexts": np.arange(0)},
    ]
    found = {plan.fingerprint, *(dataclasses.replace(plan, **other).fingerprint for other in others)}
    assert len(found) == 1 + len(others)
    assert dataclasses.replace(plan, of=np.arange(5), probes=np.ones((1, 5))).fingerprint == plan.fingerprint


def test_counts_of_two_plans_do_not_add_up():
    stream, _ = a_stream(0)
    one, two = (count_parts([whole(stream)], CountPlan(vocabulary=5, presence=window)) for window in (1, 2))
    with pytest.raises(InputError, match=r"counts of two plans do not add up"):
        one + two


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"presence": 0}, r"presence is 0; expected at least 1 token, 'prefix', or None"),
        ({"near": 0}, r"near is 0; expected at least 1 position, or None"),
        ({"presence": 1, "next_token": False}, r"presence is counted for pairs of a token and the next one"),
        ({"probes": np.ones((1, 5))}, r"probes sketch presences; expected presence with them"),
        ({"presence": 1, "probes": np.ones(5)}, r"probes have shape \(5,\); expected \(R, 5\)"),
        ({"presence": 1, "probes": np.full((1, 5), 0.5)}, r"probes hold other numbers than -1, 0 and 1"),
        ({"of": np.array([5])}, r"of: row 0 \(from 0\) is 5; expected ids from 0 to 4"),
        ({"vocabulary": 10_000}, r"10,000 x 10,000 values are above 50,000,000.*name fewer tokens"),
    ],
)
def test_plans_that_count_nothing_sensible_are_refused(given_, words):
    with pytest.raises(InputError, match=words):
        CountPlan(**({"vocabulary": 5} | given_))


def test_signatures_ask_for_what_was_counted():
    stream, _ = a_stream(0)
    counts = count_parts([whole(stream)], CountPlan(vocabulary=5, next_token=False))
    for make, needed in (
        (counted_next_token, "next_token=True"),
        (counted_presence, "a presence"),
        (counted_sketch, "probes"),
        (counted_pair_sketch, "pairs"),
        (counted_cooccurrence, "near"),
    ):
        with pytest.raises(InputError, match=rf"expected a plan with {needed}"):
            make(counts)


@pytest.mark.parametrize(("plan", "window"), [({"presence": 10, "near": 2}, 10), ({"presence": 3, "near": 11}, 11), ({"near": 10}, 10)])
def test_short_documents_are_told(plan, window):
    stream, _ = a_stream(0)
    counts = count_parts([whole(stream)], CountPlan(vocabulary=5, **plan))
    with pytest.raises(InputError, match=rf"window is {window}; expected 1 to 9, the tokens of the longest document"):
        counted_next_token(counts)


def test_documents_of_one_token_are_told():
    alone = count_parts([whole(TokenStream(np.array([0, 1]), vocabulary=5, starts=np.array([0, 1])))], CountPlan(vocabulary=5))
    with pytest.raises(InputError, match=r"none of the documents has two tokens"):
        counted_next_token(alone)
