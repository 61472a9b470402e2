"""Signatures of streams against loops over the documents, their identities, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_worlds import a_stream

from normwise.core.errors import InputError
from normwise.theory import stream_kernels
from normwise.theory.sequence_law import SequenceLaw
from normwise.theory.signatures import cooccurrence_signature
from normwise.theory.stream_signatures import TokenStream, next_token_signature, presence_signature, window_cooccurrence

seeds = st.integers(0, 10**6)
windows = st.one_of(st.none(), st.integers(1, 9))


def moments(texts):
    """Each token with a next one: document, place, token, next token."""
    return [(text, s, text[s], text[s + 1]) for text in texts for s in range(len(text) - 1)]


def slow_presence(texts, vocabulary, window):
    counts, seen = np.zeros((vocabulary,) * 3), np.zeros(vocabulary)
    for text, s, a, v in moments(texts):
        seen[a] += 1
        for b in set(text[:s] if window is None else text[max(0, s - window) : s]):
            counts[a, v, b] += 1
    return counts, seen


def slow_near(texts, vocabulary, window):
    sums, seen = np.zeros((vocabulary, vocabulary)), np.zeros(vocabulary)
    for text in texts:
        for i, a in enumerate(text):
            near = [text[j] for j in range(max(0, i - window), min(len(text), i + window + 1)) if j != i]
            seen[a] += bool(near)
            for b in near:
                sums[a, b] += 1.0 / len(near)
    return sums, seen


def rows(sums, seen):
    return sums / np.maximum(seen, 1).reshape(-1, *[1] * (sums.ndim - 1))


@given(seeds)
def test_next_tokens_are_counted_within_documents(seed):
    stream, texts = a_stream(seed)
    counts = np.zeros((5, 5))
    for _, _, a, v in moments(texts):
        counts[a, v] += 1
    found = next_token_signature(stream)
    assert np.array_equal(found.values, rows(counts, counts.sum(axis=1)))
    assert np.array_equal(found.frequency, counts.sum(axis=1) / counts.sum())
    assert (found.order, found.contexts) == (0, None)
    assert 4 in found.unseen
    assert not found.left_out.any()


@given(seeds, windows)
def test_presences_are_counted_once_each(seed, window):
    stream, texts = a_stream(seed)
    counts, seen = slow_presence(texts, 5, window)
    found = presence_signature(stream, window=window)
    assert np.array_equal(found.values, rows(counts, seen))
    assert np.array_equal(found.frequency, seen / seen.sum())
    assert found.order == 1
    assert not found.left_out.any()


@given(seeds, windows)
def test_kept_tokens_have_their_presences_and_the_rest_is_left_out(seed, window):
    stream, texts = a_stream(seed)
    of, targets, contexts = np.array([4, 2, 0]), np.array([3, 1]), np.array([1, 2])
    counts, seen = slow_presence(texts, 5, window)
    found = presence_signature(stream, window=window, of=of, targets=targets, contexts=contexts)
    assert np.array_equal(found.values, rows(counts, seen)[np.ix_(of, targets, contexts)])
    total, kept = counts[of].sum(axis=(1, 2)), counts[np.ix_(of, targets, contexts)].sum(axis=(1, 2))
    assert found.left_out == pytest.approx((total - kept) / np.maximum(total, 1), abs=1e-15)
    following = next_token_signature(stream, of=of, targets=targets)
    full = next_token_signature(stream).values[of]
    assert np.array_equal(following.values, full[:, targets])
    assert following.left_out == pytest.approx(np.where(following.seen, 1.0 - full[:, targets].sum(axis=1), 0.0), abs=1e-15)


@given(seeds, st.integers(1, 9))
def test_what_stands_near_is_counted_within_documents(seed, window):
    stream, texts = a_stream(seed)
    sums, seen = slow_near(texts, 5, window)
    found = window_cooccurrence(stream, window=window)
    assert found.values == pytest.approx(rows(sums, seen), abs=1e-14)
    assert found.frequency == pytest.approx(seen / seen.sum(), abs=1e-15)
    of, contexts = np.array([4, 2]), np.array([0, 3])
    part = window_cooccurrence(stream, window=window, of=of, contexts=contexts)
    assert part.values == pytest.approx(found.values[np.ix_(of, contexts)], abs=1e-14)
    assert part.left_out == pytest.approx(np.where(part.seen, 1.0 - part.values.sum(axis=1), 0.0), abs=1e-14)


@given(seeds)
def test_a_window_over_whole_documents_of_one_length_is_the_cooccurrence_of_sequences(seed):
    tokens = np.random.default_rng(seed).integers(0, 4, size=(6, 5))
    stream = TokenStream(tokens.ravel(), vocabulary=4, starts=np.arange(0, 30, 5))
    expected = cooccurrence_signature(SequenceLaw(tokens, np.zeros(6, int), vocabulary=4))
    found = window_cooccurrence(stream, window=4)
    assert found.values == pytest.approx(expected.values, abs=1e-14)
    assert found.frequency == pytest.approx(expected.frequency, abs=1e-15)


@given(seeds)
def test_a_window_of_one_is_a_trigram(seed):
    stream, texts = a_stream(seed)
    counts = np.zeros((5, 5, 5))
    for text, s, a, v in moments(texts):
        if s:
            counts[a, v, text[s - 1]] += 1
    assert np.array_equal(presence_signature(stream, window=1).values, rows(counts, slow_presence(texts, 5, 1)[1]))


@given(seeds)
def test_presence_grows_with_the_window_up_to_the_next_token_signature(seed):
    stream, _ = a_stream(seed)
    steps = [presence_signature(stream, window=window).values for window in (1, 3, 9, None)]
    assert all((above >= below).all() for below, above in zip(steps, steps[1:], strict=False))
    assert np.array_equal(steps[2], steps[3])
    assert (steps[3] <= next_token_signature(stream).values[:, :, None]).all()


@given(seeds)
def test_the_order_of_documents_does_not_matter(seed):
    stream, texts = a_stream(seed)
    other = TokenStream(np.array(sum(texts[::-1], [])), vocabulary=5, starts=np.cumsum([0, *[len(text) for text in texts[:0:-1]]]))
    assert np.array_equal(presence_signature(other, window=3).values, presence_signature(stream, window=3).values)
    assert np.array_equal(next_token_signature(other).values, next_token_signature(stream).values)
    assert window_cooccurrence(other, window=2).values == pytest.approx(window_cooccurrence(stream, window=2).values, abs=1e-14)


@given(seeds)
def test_names_of_tokens_do_not_matter(seed):
    stream, _ = a_stream(seed)
    renamed = np.random.default_rng(seed).permutation(5)
    other = dataclasses.replace(stream, ids=renamed[stream.ids])
    found = presence_signature(other).values[np.ix_(renamed, renamed, renamed)]
    assert np.array_equal(found, presence_signature(stream).values)


@given(seeds, st.sampled_from([np.uint8, np.uint16, np.int32, np.uint64]))
def test_an_end_of_text_id_ends_documents_and_is_their_last_token(seed, kind):
    _, texts = a_stream(seed)
    texts = [[*text, 4] for text in texts]
    ids = np.array(sum(texts, []), dtype=kind)
    by_end = TokenStream(ids, vocabulary=5, end=4)
    by_start = TokenStream(ids, vocabulary=5, starts=np.cumsum([0, *map(len, texts[:-1])]))
    assert np.array_equal(by_end.bounds, by_start.bounds)
    counts, seen = slow_presence(texts, 5, None)
    found = presence_signature(by_end)
    assert np.array_equal(found.values, rows(counts, seen))
    assert found.values[:, 4].any()
    assert found.unseen.tolist()[-1] == 4


def test_documents_may_be_empty_and_one_may_have_no_end():
    stream = TokenStream(np.array([1, 1, 2]), vocabulary=3, starts=np.array([0, 0, 2, 2, 3]))
    assert stream.bounds.tolist() == [0, 2, 3]
    assert next_token_signature(stream).values.tolist() == [[0.0] * 3, [0.0, 1.0, 0.0], [0.0] * 3]
    assert TokenStream(np.array([1, 0, 2]), vocabulary=3, end=0).bounds.tolist() == [0, 2, 3]
    assert TokenStream(np.array([1, 0, 2]), vocabulary=3).bounds.tolist() == [0, 3]


@given(seeds, windows)
def test_parts_make_the_same_counts(seed, window):
    stream, _ = a_stream(seed, documents=20)
    whole = presence_signature(stream, window=window).values
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream_kernels, "_CHUNK_PAIRS", 7)
        assert np.array_equal(presence_signature(stream, window=window).values, whole)


def test_a_long_stream_of_one_token_has_one_context():
    stream = TokenStream(np.zeros(1000, dtype=np.uint8), vocabulary=1)
    assert presence_signature(stream).values[0, 0, 0] == 998 / 999
    assert presence_signature(stream, window=5).values[0, 0, 0] == 998 / 999
    assert math.isclose(window_cooccurrence(stream, window=5).values[0, 0], 1.0)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"ids": np.array([], dtype=int)}, r"ids have shape \(0,\); expected one row of at least 1 token"),
        ({"ids": np.array([0, 3])}, r"ids: row 1 \(from 0\) is 3; expected ids from 0 to 2"),
        ({"ids": np.array([0.0])}, r"ids are of type float64"),
        ({"end": 3}, r"end is 3; expected an id from 0 to 2"),
        ({"end": 0, "starts": np.array([0])}, r"starts and end are both given"),
        ({"starts": np.array([1])}, r"starts do not ascend from 0"),
        ({"starts": np.array([0, 2, 1])}, r"starts do not ascend from 0"),
        ({"starts": np.array([0, 4])}, r"starts: row 1 \(from 0\) is 4; expected ids from 0 to 3"),
        ({"starts": np.array([], dtype=int)}, r"starts have shape \(0,\)"),
    ],
)
def test_a_stream_that_is_none_is_refused(given_, words):
    with pytest.raises(InputError, match=words):
        TokenStream(**({"ids": np.array([0, 1, 2]), "vocabulary": 3} | given_))


def test_documents_of_one_token_are_refused():
    stream = TokenStream(np.array([0, 1]), vocabulary=2, starts=np.array([0, 1]))
    for make in (next_token_signature, presence_signature):
        with pytest.raises(InputError, match=r"none of 2 documents has two tokens"):
            make(stream)
    with pytest.raises(InputError, match=r"none of 2 documents has two tokens"):
        window_cooccurrence(stream, window=1)


@pytest.mark.parametrize("window", [0, 10])
def test_a_window_longer_than_every_document_is_refused(window):
    stream, _ = a_stream(0)
    for make in (presence_signature, window_cooccurrence):
        with pytest.raises(InputError, match=rf"window is {window}; expected 1 to 9, the tokens of the longest document"):
            make(stream, window=window)


def test_sizes_are_refused_with_a_way_out():
    stream = TokenStream(np.array([0, 1, 2]), vocabulary=1000)
    with pytest.raises(
        InputError, match=r"1,000 x 1,000 x 1,000 values are above 50,000,000.*name fewer tokens in of, targets or contexts"
    ):
        presence_signature(stream)
