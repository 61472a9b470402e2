"""Laws of sequences: frequencies against counting, weights of any scale, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_worlds import a_law

from normwise.core.errors import InputError
from normwise.theory.sequence_law import SequenceLaw, kept_ids, token_frequency, top_tokens

TOKENS = np.array([[0, 1], [2, 1]])
LABELS = np.array([0, 1])


@given(st.integers(0, 10**6))
def test_frequencies_are_mean_counts_over_the_length(seed):
    law = a_law(seed)
    total = math.fsum(law.weights)
    expected = [
        math.fsum(w * row.count(a) for w, row in zip(law.weights.tolist(), law.tokens.tolist(), strict=True)) / total / law.length
        for a in range(law.vocabulary)
    ]
    assert token_frequency(law) == pytest.approx(expected, abs=1e-15)


def test_rows_weigh_the_same_without_weights():
    assert SequenceLaw(TOKENS, LABELS, vocabulary=3).chances.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1.5e308])
def test_chances_have_no_scale(scale):
    law = SequenceLaw(np.array([[0], [1], [1]]), np.zeros(3, int), vocabulary=2, weights=scale * np.array([1.0, 0.5, 0.5]))
    assert law.chances == pytest.approx([0.5, 0.25, 0.25], rel=1e-12)


def test_labels_are_tokens_where_nothing_else_is_said():
    assert SequenceLaw(TOKENS, LABELS, vocabulary=7).labels_known == 7
    assert SequenceLaw(TOKENS, LABELS, vocabulary=7, label_count=2).labels_known == 2


def test_the_most_frequent_tokens_come_first_and_ties_by_id():
    assert top_tokens(np.array([2.0, 5.0, 0.0, 2.0, 9.0]), 4).tolist() == [4, 1, 0, 3]


@pytest.mark.parametrize("count", [0, 3])
def test_only_tokens_that_are_seen_are_top(count):
    with pytest.raises(InputError, match=rf"count is {count}; expected 1 to 2"):
        top_tokens(np.array([1.0, 0.0, 2.0]), count)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tokens": TOKENS[0]}, r"tokens have shape \(2,\).*sequences of several lengths"),
        ({"tokens": TOKENS[:, :0]}, r"tokens have shape \(2, 0\)"),
        ({"labels": LABELS[:1]}, r"labels \(1,\); expected \(N, L\) and \(N,\)"),
        ({"tokens": TOKENS.astype(np.float32)}, r"tokens are of type float32; expected integer ids"),
        ({"tokens": TOKENS + 1}, r"tokens: row 1, position 0 \(from 0\) is 3; expected ids from 0 to 2"),
        ({"tokens": TOKENS - 1}, r"tokens: row 0, position 0 \(from 0\) is -1"),
        ({"labels": LABELS + 2}, r"labels: row 1 \(from 0\) is 3; expected ids from 0 to 2"),
        ({"label_count": 1}, r"labels: row 1 \(from 0\) is 1; expected ids from 0 to 0"),
        ({"vocabulary": 0}, r"tokens: there are 0 ids; expected at least 1"),
        ({"weights": np.ones(3)}, r"weights have shape \(3,\); expected one for each of 2"),
        ({"weights": np.array([1.0, -0.5])}, r"weights: row 1 is -0.5; expected a finite value of at least 0"),
        ({"weights": np.array([np.nan, 1.0])}, r"weights: row 0 is nan"),
        ({"weights": np.zeros(2)}, r"weights are all 0"),
    ],
)
def test_a_law_that_is_none_is_refused(changed, words):
    with pytest.raises(InputError, match=words):
        SequenceLaw(**({"tokens": TOKENS, "labels": LABELS, "vocabulary": 3} | changed))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.uint64])
def test_any_integer_type_will_do(kind):
    law = SequenceLaw(TOKENS.astype(kind), LABELS.astype(kind), vocabulary=3)
    assert token_frequency(law).tolist() == [0.25, 0.5, 0.25]


def test_kept_ids_have_places_in_their_order():
    ids, slots = kept_ids("of", np.array([3, 1], dtype=np.uint8), 4)
    assert ids.tolist() == [3, 1]
    assert slots.tolist() == [-1, 1, -1, 0]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([0, 2, 0], r"of: id 0 is there twice"),
        ([0, 4], r"of: row 1 \(from 0\) is 4; expected ids from 0 to 3"),
        ([[0]], r"of has shape \(1, 1\); expected one or more ids in one row"),
    ],
)
def test_ids_that_cannot_be_kept(ids, words):
    with pytest.raises(InputError, match=words):
        kept_ids("of", np.array(ids), 4)


def test_no_id_at_all_is_refused():
    with pytest.raises(InputError, match=r"targets has shape \(0,\)"):
        kept_ids("targets", np.array([], dtype=int), 4)
