"""Signatures against sums over every position and tuple, their identities, exact tasks, and what is refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_worlds import a_law, additive, slow_signature

from normwise.core.errors import InputError
from normwise.theory import signatures
from normwise.theory.sequence_law import SequenceLaw, token_frequency
from normwise.theory.signatures import contract, cooccurrence_signature, label_signature

seeds = st.integers(0, 10**6)
orders = st.integers(0, 3)


def gram(found):
    rows = found.values.reshape(len(found.of), -1)
    return rows @ rows.T


@given(seeds, orders)
def test_label_signatures_are_sums_over_every_position(seed, order):
    law = a_law(seed)
    found = label_signature(law, order=order)
    assert found.values == pytest.approx(slow_signature(law, order, labeled=True), abs=1e-14)
    assert found.frequency == pytest.approx(token_frequency(law), abs=1e-15)
    assert found.order == order
    assert not found.left_out.any()


@given(seeds, orders)
def test_cooccurrence_signatures_are_sums_over_every_position(seed, order):
    law = a_law(seed)
    found = cooccurrence_signature(law, order=order)
    assert found.values == pytest.approx(slow_signature(law, order, labeled=False), abs=1e-14)
    assert found.order == order
    assert found.targets is None


@given(seeds, st.integers(1, 3), st.data())
def test_the_sum_over_any_context_is_the_order_below(seed, order, data):
    law, axis = a_law(seed), data.draw(st.integers(1, order))
    for make in (label_signature, cooccurrence_signature):
        above, below = make(law, order=order).values, make(law, order=order - 1).values
        assert above.sum(axis=above.ndim - axis) == pytest.approx(below, abs=1e-14)


@given(seeds, orders)
def test_the_sum_over_labels_is_the_cooccurrence(seed, order):
    law = a_law(seed)
    assert label_signature(law, order=order).values.sum(axis=1) == pytest.approx(cooccurrence_signature(law, order=order).values, abs=1e-14)


@given(seeds)
def test_frobenius_norms_do_not_grow_with_the_order(seed):
    law = a_law(seed)
    for make in (label_signature, cooccurrence_signature):
        norms = np.array([np.diagonal(gram(make(law, order=order))) for order in range(4)])
        assert (np.diff(norms, axis=0) <= 1e-14).all()


@given(seeds, orders)
def test_seen_tokens_have_a_law_and_others_are_named(seed, order):
    law = a_law(seed)
    found = label_signature(law, order=order)
    assert found.values.reshape(len(found.of), -1).sum(axis=1) == pytest.approx(found.seen.astype(float), abs=1e-14)
    assert set(found.unseen.tolist()) == set(range(law.vocabulary)) - set(law.tokens[law.weights > 0.0].ravel().tolist())


@given(seeds, orders)
def test_names_of_tokens_and_labels_do_not_matter(seed, order):
    law, rng = a_law(seed), np.random.default_rng(seed)
    renamed, relabeled = rng.permutation(law.vocabulary), rng.permutation(law.labels_known)
    other = dataclasses.replace(law, tokens=renamed[law.tokens], labels=relabeled[law.labels])
    found = label_signature(other, order=order).values
    assert found[np.ix_(renamed, relabeled, *[renamed] * order)] == pytest.approx(label_signature(law, order=order).values, abs=1e-14)


@given(seeds, orders)
def test_the_order_of_sequences_and_positions_and_the_scale_of_weights_do_not_matter(seed, order):
    law, rng = a_law(seed), np.random.default_rng(seed)
    rows = rng.permutation(len(law.tokens))
    tokens = rng.permuted(law.tokens[rows], axis=1)
    other = SequenceLaw(tokens, law.labels[rows], vocabulary=5, label_count=3, weights=1e200 * law.weights[rows])
    assert label_signature(other, order=order).values == pytest.approx(label_signature(law, order=order).values, abs=1e-14)


@given(seeds, orders)
def test_a_weight_is_a_number_of_copies(seed, order):
    law = a_law(seed)
    copies = np.random.default_rng(seed).integers(1, 4, len(law.tokens))
    weighted = dataclasses.replace(law, weights=copies.astype(float))
    copied = dataclasses.replace(law, tokens=law.tokens.repeat(copies, axis=0), labels=law.labels.repeat(copies), weights=None)
    assert label_signature(copied, order=order).values == pytest.approx(label_signature(weighted, order=order).values, abs=1e-14)


@given(seeds, orders)
def test_kept_tokens_have_their_values_and_the_rest_is_mass_left_out(seed, order):
    law = a_law(seed)
    of, contexts, targets = np.array([4, 2, 0]), np.array([3, 1]), np.array([2, 0])
    full = label_signature(law, order=order)
    found = label_signature(law, order=order, of=of, contexts=contexts, targets=targets)
    assert found.values == pytest.approx(full.values[np.ix_(of, targets, *[contexts] * order)], abs=1e-14)
    assert found.frequency == pytest.approx(full.frequency[of], abs=1e-15)
    kept = found.values.reshape(3, -1).sum(axis=1)
    assert found.left_out == pytest.approx(np.where(found.seen, 1.0 - kept, 0.0), abs=1e-14)
    assert (found.of.tolist(), found.targets.tolist()) == (of.tolist(), targets.tolist())
    together = cooccurrence_signature(law, order=order, of=of, contexts=contexts)
    assert together.left_out == pytest.approx(np.where(found.seen, 1.0 - together.values.reshape(3, -1).sum(axis=1), 0.0), abs=1e-14)


def test_parts_make_the_same_sum(monkeypatch):
    law = a_law(3, sequences=40)
    whole = label_signature(law, order=2, contexts=np.array([0, 1]))
    monkeypatch.setattr(signatures, "_CHUNK_VALUES", 13)
    monkeypatch.setattr(signatures, "_CHUNK_TUPLES", 2)
    parts = label_signature(law, order=2, contexts=np.array([0, 1]))
    assert parts.values == pytest.approx(whole.values, abs=1e-13)
    assert parts.left_out == pytest.approx(whole.left_out, abs=1e-13)


def test_the_modular_task_has_its_values():
    found = label_signature(additive(5, vocabulary=8), order=1)
    for a in range(5):
        for b in range(5):
            expected = np.zeros(8)
            expected[(a + b + 1) % 5] = 0.2
            assert found.values[a, :, b] == pytest.approx(expected, abs=1e-15)
    assert found.unseen.tolist() == [5, 6, 7]
    assert label_signature(additive(5, vocabulary=8)).values[:5, :5] == pytest.approx(np.full((5, 5), 0.2))


def test_the_modular_task_grows_at_its_closed_rate():
    """Rows L r_a (Phi_0 - 1/V) of rank one and singular value (2 / sqrt N) sqrt(1/N - 1/V)."""
    found = label_signature(additive(20, vocabulary=81))
    singular = np.linalg.svd(2.0 * found.frequency[:, None] * (found.values - 1.0 / 81), compute_uv=False)
    assert singular[0] == pytest.approx(2.0 / np.sqrt(20) * np.sqrt(1.0 / 20 - 1.0 / 81), rel=1e-12)
    assert singular[1] < 1e-15


@pytest.mark.parametrize("length", [2, 3])
def test_label_and_all_contexts_name_the_token_of_a_sum_and_the_top_gram_is_diagonal(length):
    found = gram(label_signature(additive(5, length=length), order=length - 1))
    assert np.count_nonzero(found - np.diag(np.diagonal(found))) == 0
    assert np.diagonal(found) == pytest.approx(np.full(5, 5.0 ** (1 - length)))


@pytest.mark.parametrize(("label", "product"), [(lambda x: x[:, 0] * 0, 5 / 25), (lambda x: x.max(axis=1), 4 / 25)])
def test_a_label_that_is_a_function_does_not_make_the_gram_diagonal(label, product):
    """A constant, and a maximum: tokens 0 and 1 with a context above them have one label; what is needed is a label that names them."""
    tokens = additive(5).tokens
    found = gram(label_signature(SequenceLaw(tokens, label(tokens), vocabulary=5), order=1))
    assert found[0, 1] == pytest.approx(product)


def test_below_the_top_order_a_sum_of_three_says_nothing_of_the_token():
    found = label_signature(additive(5, length=3), order=1).values
    assert found == pytest.approx(np.full((5, 5, 5), 0.04))


def test_a_sequence_of_one_token_has_order_0_alone():
    law = SequenceLaw(np.array([[0], [1]]), np.array([1, 1]), vocabulary=2)
    assert label_signature(law).values.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert cooccurrence_signature(law, order=0).values.tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match=r"order is 1 in sequences of length 1; expected 0 to 0"):
        label_signature(law, order=1)


@pytest.mark.parametrize("order", [-1, 4])
def test_an_order_without_positions_is_refused(order):
    with pytest.raises(InputError, match=rf"order is {order} in sequences of length 4; expected 0 to 3"):
        cooccurrence_signature(a_law(0), order=order)


def test_sizes_are_refused_with_a_way_out():
    law = SequenceLaw(np.array([[0, 1, 2]]), np.array([0]), vocabulary=1000)
    with pytest.raises(InputError, match=r"1,000 x 1,000 x 1,000 x 1,000 values are above 50,000,000.*name fewer.*sketch_signature"):
        label_signature(law, order=2)
    assert label_signature(law, order=2, of=np.array([0]), contexts=np.array([1, 2])).values[0, 0].tolist() == [[0.0, 0.5], [0.5, 0.0]]


def test_ids_that_are_not_there_are_refused():
    with pytest.raises(InputError, match=r"contexts: row 0 \(from 0\) is 5; expected ids from 0 to 4"):
        label_signature(a_law(0), order=1, contexts=np.array([5]))
    with pytest.raises(InputError, match=r"targets: row 0 \(from 0\) is 3; expected ids from 0 to 2"):
        label_signature(a_law(0), targets=np.array([3]))


@given(seeds, st.integers(1, 3))
def test_contractions_are_sums(seed, order):
    rng = np.random.default_rng(seed)
    values, vectors = rng.normal(size=(2, 3, *[4] * order)), rng.normal(size=(5, order, 4))
    letters = "bcd"[:order]
    expected = [np.einsum(f"av{letters},{','.join(letters)}->av", values, *vector) for vector in vectors]
    assert contract(values, vectors) == pytest.approx(np.array(expected), abs=1e-12)
    assert contract(values, vectors[0]) == pytest.approx(expected[0], abs=1e-12)


def test_fewer_vectors_contract_the_last_axes():
    values, vector = np.random.default_rng(0).normal(size=(2, 3, 3)), np.array([[1.0, 2.0, 3.0]])
    assert contract(values, vector) == pytest.approx(values @ vector[0])


@pytest.mark.parametrize("shape", [(3,), (1, 4), (4, 3), (2, 4, 3), (0, 3)])
def test_vectors_that_do_not_fit_are_refused(shape):
    with pytest.raises(InputError, match=r"vectors have shape .*; expected \(m, B\) or \(R, m, B\)"):
        contract(np.ones((2, 3, 3)), np.ones(shape))
