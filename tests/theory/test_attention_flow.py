"""Value, key and query against autograd of the readout, and their orders in the size of the parameters."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sequence_law import frequencies, label_signature, random_law

from normwise.core.errors import InputError
from normwise.theory.attention_flow import (
    AttentionLayer,
    attention_label_terms,
    attention_prediction_terms,
    attention_signature,
)

V, Y, D, KEYS = 5, 4, 6, 3


def drawn(seed, *, length, scale=1.0, score_scale=None):
    """A layer whose four matrices and two tables are all of one size, and a law that is not exchangeable."""
    rng = np.random.default_rng(seed)
    table, readout, key, query = (scale * rng.normal(size=(rows, D)) for rows in (V, Y, KEYS, KEYS))
    value, output = (scale * rng.normal(size=(D, D)) for _ in range(2))
    layer = AttentionLayer(table, readout, key.T @ query, output @ value, score_scale)
    return layer, random_law(rng, vocabulary=V, labels=Y, length=length)


def gradients(layer, law, readouts):
    """Autograd of E[<readout, W_OV sum_s a_s e_{x_s}>], split by the place in which an embedding stands: value, key, query."""
    tokens, _, weights = law
    tables = [torch.tensor(layer.embedding, requires_grad=True) for _ in range(3)]
    values, keys, queries = (table[torch.from_numpy(tokens)] for table in tables)
    key_query, output_value = torch.from_numpy(layer.key_query), torch.from_numpy(layer.output_value)
    scores = layer.scale * torch.einsum("nld,de,ne->nl", keys, key_query, queries[:, -1])
    mean = torch.einsum("nl,nld->nd", torch.softmax(scores, dim=1), values)
    (torch.from_numpy(weights) * (torch.from_numpy(readouts) * (mean @ output_value.T)).sum(dim=1)).sum().backward()
    return [table.grad.numpy() for table in tables]


@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize(("seed", "score_scale"), [(0, None), (1, None), (2, 0.9)])
def test_value_key_and_query_are_the_gradients(seed, length, score_scale):
    layer, law = drawn(seed, length=length, score_scale=score_scale)
    assert layer.scale == pytest.approx(score_scale or D**-0.5)
    terms = attention_label_terms(layer, *law)
    expected = gradients(layer, law, layer.unembedding[law[1]])
    for found, of_autograd in zip((terms.value, terms.key, terms.query), expected, strict=True):
        assert found == pytest.approx(of_autograd, rel=1e-10, abs=1e-10)
        assert np.abs(of_autograd).max() > 1e-2 or length == 1
    assert terms.total == pytest.approx(sum(expected), rel=1e-10, abs=1e-10)


def test_predictions_are_the_gradient_of_the_mean_readout():
    layer, law = drawn(3, length=3)
    terms = attention_prediction_terms(layer, law[0], law[2])
    expected = gradients(layer, law, np.tile(-layer.unembedding.mean(axis=0), (len(law[0]), 1)))
    for found, of_autograd in zip((terms.value, terms.key, terms.query), expected, strict=True):
        assert found == pytest.approx(of_autograd, rel=1e-10, abs=1e-10)


def test_the_three_terms_are_their_equations():
    """A loop over sequences and positions, written from the displayed expectations; r_a E[. | a] = sum over (I, a) / L."""
    layer, law = drawn(4, length=3)
    value, key, query = (np.zeros((V, D)) for _ in range(3))
    for row, label, weight in zip(*law, strict=True):
        weights, vectors = layer.attention(row[None])[0], layer.embedding[row]
        u, mean = layer.unembedding[label] @ layer.output_value, weights @ vectors
        for place, token in enumerate(row):
            value[token] += weight * weights[place] * u
            key[token] += layer.scale * weight * weights[place] * (layer.key_query @ vectors[-1]) * (u @ (vectors[place] - mean))
        seen = sum(weights[s] * vectors[s] * (u @ vectors[s]) for s in range(len(row)))
        query[row[-1]] += layer.scale * weight * layer.key_query.T @ (seen - mean * (u @ mean))
    terms = attention_label_terms(layer, *law)
    assert terms.value == pytest.approx(value, abs=1e-12)
    assert terms.key == pytest.approx(key, abs=1e-12)
    assert terms.query == pytest.approx(query, abs=1e-12)
    # With W_QK in place of its transpose the query term is another one.
    assert np.abs(query @ np.linalg.pinv(layer.key_query) @ layer.key_query.T - query).max() > 0.1


def test_uniform_attention_leaves_the_order_zero_signature():
    layer, law = drawn(5, length=3)
    even = AttentionLayer(layer.embedding, layer.unembedding, np.zeros((D, D)), layer.output_value)
    signature = label_signature(*law, order=0, vocabulary=V, outputs=Y)
    expected = frequencies(law[0], law[2], V)[:, None] * signature  # L r_a phi_a / L
    assert attention_signature(even, *law) == pytest.approx(expected, rel=1e-12)
    terms = attention_label_terms(even, *law)
    assert terms.value == pytest.approx(expected @ layer.unembedding @ layer.output_value, rel=1e-12)
    assert not terms.key.any()
    assert not terms.query.any()


def test_value_goes_with_the_third_power_of_the_size_and_key_and_query_with_the_seventh():
    sizes = np.array([0.2, 0.1, 0.05, 0.025])
    norms = []
    for size in sizes:
        layer, law = drawn(6, length=4, scale=size)
        terms = attention_label_terms(layer, *law)
        norms.append([np.linalg.norm(part) for part in (terms.value, terms.key, terms.query)])
    slopes = np.diff(np.log(norms), axis=0) / np.diff(np.log(sizes))[:, None]
    assert slopes[-1] == pytest.approx([3.0, 7.0, 7.0], abs=0.01)


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_signatures_sum_to_one_and_weights_may_be_of_any_sum(seed, length):
    layer, law = drawn(seed, length=length)
    assert attention_signature(layer, *law).sum() == pytest.approx(1.0)
    assert attention_signature(layer, *law[:2], 7.0 * law[2]) == pytest.approx(attention_signature(layer, *law))
    # Whatever the attention, all values together get E[W_OV^T u_y], and the keys of a sequence only compete.
    terms = attention_label_terms(layer, *law)
    assert terms.value.sum(axis=0) == pytest.approx(law[2] @ layer.unembedding[law[1]] @ layer.output_value, abs=1e-10)
    assert terms.key.sum(axis=0) == pytest.approx(np.zeros(D), abs=1e-9)


def test_a_sequence_twice_is_one_of_twice_the_weight():
    layer, (tokens, labels, _) = drawn(7, length=3)
    twice = attention_label_terms(layer, np.concatenate([tokens, tokens[:1]]), np.append(labels, labels[0]))
    weighted = attention_label_terms(layer, tokens, labels, np.append(2.0, np.ones(len(labels) - 1)))
    assert twice.total == pytest.approx(weighted.total, rel=1e-12, abs=1e-13)


def test_a_token_that_never_occurs_does_not_move():
    layer, law = drawn(8, length=3)
    assert not attention_label_terms(layer, *law).total[V - 1].any()


def test_bad_values_are_refused():
    layer, (tokens, labels, weights) = drawn(9, length=3)
    with pytest.raises(InputError, match=r"key_query has shape \(6, 5\); expected \(6, 6\), d = 6"):
        AttentionLayer(layer.embedding, layer.unembedding, layer.key_query[:, :5], layer.output_value)
    with pytest.raises(InputError, match=r"unembedding has shape \(4, 5\)"):
        AttentionLayer(layer.embedding, layer.unembedding[:, :5], layer.key_query, layer.output_value)
    with pytest.raises(InputError, match="score_scale is 0.0; expected a finite number > 0"):
        AttentionLayer(layer.embedding, layer.unembedding, layer.key_query, layer.output_value, 0.0)
    with pytest.raises(InputError, match=r"tokens has shape \(12, 3\) and labels \(11,\)"):
        attention_label_terms(layer, tokens, labels[:-1])
    with pytest.raises(InputError, match=r"tokens holds int64 in .*\.\.5; expected whole numbers in 0\.\.4"):
        attention_label_terms(layer, np.where(tokens == tokens.max(), 5, tokens), labels)
    with pytest.raises(InputError, match="labels holds float64"):
        attention_signature(layer, tokens, labels.astype(float))
    with pytest.raises(InputError, match=r"weights has shape \(12,\), least value -.*expected \(12,\), values >= 0"):
        attention_label_terms(layer, tokens, labels, -weights)
    with pytest.raises(InputError, match=r"weights has shape \(11,\)"):
        attention_prediction_terms(layer, tokens, weights[:-1])
