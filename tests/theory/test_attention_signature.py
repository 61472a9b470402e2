"""Attention signatures against loops, attention that has a closed form, and what is no attention."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.attention_signature import attention_signature
from normwise.theory.stream_signatures import TokenStream, next_token_signature

seeds = st.integers(0, 10**6)


def some_tokens(seed, *, sequences=5, length=7, vocabulary=6):
    """Sequences without token V - 1."""
    return np.random.default_rng(seed).integers(0, vocabulary - 1, size=(sequences, length))


def some_attention(seed, tokens):
    """Rows from a softmax with a causal mask, at times nearly all on one position."""
    scores = np.random.default_rng([seed, 1]).normal(size=(*tokens.shape, tokens.shape[1]), scale=3.0)
    weights = np.tril(np.exp(scores))
    return weights / weights.sum(axis=2, keepdims=True)


def causal_mean(tokens):
    """Uniform over all positions so far."""
    length = tokens.shape[1]
    return np.broadcast_to(np.tril(np.ones((length, length))) / np.arange(1.0, length + 1.0)[:, None], (*tokens.shape, length))


def own_place(tokens):
    """All on the position itself."""
    return np.broadcast_to(np.eye(tokens.shape[1]), (*tokens.shape, tokens.shape[1]))


def slow_signature(tokens, attention, vocabulary):
    """Every token at every position in turn: values, and the share of positions at or before which each stands."""
    drawn = {a: [] for a in range(vocabulary)}
    moments = 0
    for ids, weights in zip(tokens.tolist(), attention.tolist(), strict=True):
        for s in range(len(ids) - 1):
            moments += 1
            for a in set(ids[: s + 1]):
                places = [i for i in range(s + 1) if ids[i] == a]
                drawn[a].append((ids[s + 1], math.fsum(weights[s][i] for i in places) / len(places)))
    values = np.zeros((vocabulary, vocabulary))
    for a, found in drawn.items():
        for v, share in found:
            values[a, v] += share / len(found)
    return values, np.array([len(drawn[a]) / moments for a in range(vocabulary)])


@given(seeds)
def test_the_signature_is_a_mean_over_positions_and_places(seed):
    tokens = some_tokens(seed)
    attention = some_attention(seed, tokens)
    values, frequency = slow_signature(tokens, attention, 6)
    found = attention_signature(tokens, attention, vocabulary=6)
    assert found.values == pytest.approx(values, abs=1e-14)
    assert found.frequency == pytest.approx(frequency, abs=1e-15)
    assert (found.order, found.contexts, found.targets.tolist()) == (0, None, list(range(6)))
    assert 5 in found.unseen
    assert not found.left_out.any()


@given(seeds)
def test_kept_tokens_have_their_values_and_the_rest_of_attention_is_left_out(seed):
    tokens = some_tokens(seed)
    attention = some_attention(seed, tokens)
    of, targets = np.array([5, 2, 0]), np.array([3, 1])
    full = attention_signature(tokens, attention, vocabulary=6)
    found = attention_signature(tokens, attention, vocabulary=6, of=of, targets=targets)
    assert found.values == pytest.approx(full.values[np.ix_(of, targets)], abs=1e-15)
    assert np.array_equal(found.frequency, full.frequency[of])
    total = full.values[of].sum(axis=1)
    expected = np.where(total > 0.0, (total - found.values.sum(axis=1)) / np.where(total > 0.0, total, 1.0), 0.0)
    assert found.left_out == pytest.approx(expected, abs=1e-12)


@given(seeds)
def test_uniform_attention_gives_each_place_its_share_of_the_text_so_far(seed):
    """phi_a(v) is then the mean of 1{x_{s+1} = v} / s, s counted from 1, over the positions at or before which a stands."""
    tokens = some_tokens(seed)
    found = attention_signature(tokens, causal_mean(tokens), vocabulary=6).values
    for a in range(5):
        first = [ids.index(a) if a in ids else len(ids) for ids in tokens.tolist()]
        ends = [(ids[s + 1], 1.0 / (s + 1)) for ids, start in zip(tokens.tolist(), first, strict=True) for s in range(start, len(ids) - 1)]
        for v in range(6):
            assert found[a, v] == pytest.approx(math.fsum(share for token, share in ends if token == v) / max(1, len(ends)))


@given(seeds)
def test_attention_that_stays_weighs_the_kth_occurrence_by_1_over_k(seed):
    tokens = some_tokens(seed)
    found = attention_signature(tokens, own_place(tokens), vocabulary=6)
    sums = np.zeros((6, 6))
    for ids in tokens.tolist():
        for s in range(len(ids) - 1):
            sums[ids[s], ids[s + 1]] += 1.0 / ids[: s + 1].count(ids[s])
    moments = tokens.shape[0] * (tokens.shape[1] - 1)
    assert found.frequency[:, None] * found.values == pytest.approx(sums / moments, abs=1e-14)


def without_repeats(seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(9)[:6] for _ in range(8)])


def next_tokens(tokens, vocabulary):
    return next_token_signature(TokenStream(tokens.ravel(), vocabulary=vocabulary, starts=np.arange(0, tokens.size, tokens.shape[1])))


@given(seeds)
def test_attention_that_stays_is_the_next_token_signature_where_no_token_stands_twice(seed):
    tokens = without_repeats(seed)
    found, follows = attention_signature(tokens, own_place(tokens), vocabulary=9), next_tokens(tokens, 9)
    assert found.frequency[:, None] * found.values == pytest.approx(follows.frequency[:, None] * follows.values, abs=1e-15)
    assert (found.frequency >= follows.frequency).all()


@given(seeds)
def test_all_attention_together_is_the_law_of_the_next_token_where_no_token_stands_twice(seed):
    tokens = without_repeats(seed)
    found, follows = attention_signature(tokens, some_attention(seed, tokens), vocabulary=9), next_tokens(tokens, 9)
    assert found.frequency @ found.values == pytest.approx(follows.frequency @ follows.values, abs=1e-14)


@given(seeds, st.integers(1, 4))
def test_sequences_in_two_parts_are_the_mean_of_both_by_frequency(seed, cut):
    tokens = some_tokens(seed)
    attention = some_attention(seed, tokens)
    joint = []
    for part in (slice(None), slice(None, cut), slice(cut, None)):
        found = attention_signature(tokens[part], attention[part], vocabulary=6)
        joint.append(found.frequency[:, None] * found.values * len(tokens[part]))
    assert joint[0] == pytest.approx(joint[1] + joint[2], abs=1e-13)


@given(seeds)
def test_names_of_tokens_do_not_matter(seed):
    tokens = some_tokens(seed)
    attention, renamed = some_attention(seed, tokens), np.random.default_rng(seed).permutation(6)
    found = attention_signature(renamed[tokens], attention, vocabulary=6).values[np.ix_(renamed, renamed)]
    assert found == pytest.approx(attention_signature(tokens, attention, vocabulary=6).values, abs=1e-14)


def test_what_the_last_position_attends_to_does_not_matter():
    tokens = some_tokens(0)
    attention = some_attention(0, tokens)
    other = attention.copy()
    other[:, -1] = np.eye(7)[0]
    assert np.array_equal(
        attention_signature(tokens, other, vocabulary=6).values, attention_signature(tokens, attention, vocabulary=6).values
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_weights_of_models_are_taken(kind):
    tokens = some_tokens(1, sequences=3, length=40)
    attention = some_attention(1, tokens)
    found = attention_signature(tokens.astype(np.uint16), attention.astype(kind), vocabulary=6)
    assert found.values == pytest.approx(attention_signature(tokens, attention, vocabulary=6).values, abs=5e-4)
    assert found.values.dtype == np.float64


def spoiled(place, value):
    attention = np.array(causal_mean(some_tokens(0)))
    attention[place] = value
    return attention


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (
            {"tokens": np.zeros((5, 1), int), "attention": np.ones((5, 1, 1))},
            r"tokens have shape \(5, 1\).*L at least 2: some token needs a",
        ),
        ({"tokens": np.zeros(7, int)}, r"tokens have shape \(7,\); expected \(S, L\)"),
        ({"tokens": np.zeros((0, 7), int), "attention": np.ones((0, 7, 7))}, r"tokens have shape \(0, 7\)"),
        ({"tokens": some_tokens(0) + 1}, r"tokens: row \d+, position \d+ \(from 0\) is 5; expected ids from 0 to 4"),
        ({"of": np.array([1, 1])}, r"of: id 1 is there twice"),
        ({"targets": np.array([5])}, r"targets: row 0 \(from 0\) is 5"),
        ({"attention": spoiled((3, 2, 4), 0.1)}, r"sequence 3, row 2, position 4 \(from 0\) is 0\.1; expected at least 0, and 0 behind"),
        ({"attention": spoiled((1, 4, 0), -0.2)}, r"sequence 1, row 4, position 0 \(from 0\) is -0\.2"),
        ({"attention": spoiled((1, 4, 0), np.nan)}, r"sequence 1, row 4, position 0 \(from 0\) is nan"),
        ({"attention": spoiled((1, 4, 0), np.inf)}, r"sequence 1, row 4 \(from 0\) sums to inf; expected 1"),
        ({"attention": 8.0 * causal_mean(some_tokens(0))}, r"sequence 0, row 0 \(from 0\) sums to 8; expected 1: the mean over heads"),
    ],
)
def test_what_is_no_attention_is_refused(given_, words):
    tokens = some_tokens(0)
    with pytest.raises(InputError, match=words):
        attention_signature(**({"tokens": tokens, "attention": np.array(causal_mean(tokens)), "vocabulary": 5} | given_))


def test_a_matrix_of_another_length_is_refused():
    tokens = some_tokens(0)
    with pytest.raises(InputError, match=r"attention has shape \(5, 6, 6\), tokens \(5, 7\); expected \(5, 7, 7\)"):
        attention_signature(tokens, np.array(causal_mean(tokens[:, :6])), vocabulary=6)


def test_a_table_too_large_is_refused_before_it_is_made():
    tokens = np.array([[0, 1]])
    with pytest.raises(InputError, match=r"100,000 x 100,000 values are above 50,000,000.*name fewer tokens in of or targets"):
        attention_signature(tokens, np.array(causal_mean(tokens)), vocabulary=100_000)
