"""The flow by orders of signature against autograd on laws that are not exchangeable, and its hierarchy at init."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sequence_law import frequencies, label_signature, random_law

from normwise.core.errors import InputError
from normwise.theory.embedding_flow import PolynomialNetwork, coefficient_tensors, context_coefficients, label_terms, prediction_terms

V, Y, D = 4, 3, 5
SHAPES = [(1, 3), (2, 1), (2, 4), (3, 2), (3, 4), (3, 6), (4, 2), (4, 3), (4, 5)]  # (L, K): L - 1 below, at and above K - 1


def network(rng, *, length, degree, scale=1.0):
    return PolynomialNetwork(scale * rng.normal(size=(V, D)), scale * rng.normal(size=(Y, D)), rng.normal(size=degree + 1), length=length)


def drawn(seed, *, length, degree):
    """A network, a law, its frequencies, and its label signatures of every order that exists."""
    rng = np.random.default_rng(seed)
    law = random_law(rng, vocabulary=V, labels=Y, length=length)
    signatures = [label_signature(*law, order=m, vocabulary=V, outputs=Y) for m in range(length)]
    return network(rng, length=length, degree=degree), law, frequencies(law[0], law[2], V), signatures


def gradient(net, law, readout):
    """Autograd of E[<readout(y), sigma(sum_i e_{x_i})>]."""
    tokens, labels, weights = (torch.from_numpy(part) for part in law)
    table = torch.tensor(net.embedding, requires_grad=True)
    z = table[tokens].sum(dim=1)
    hidden = sum(float(c) * z**k for k, c in enumerate(net.coefficients))
    (weights * (readout[labels] * hidden).sum(dim=1)).sum().backward()
    return table.grad.numpy()


@pytest.mark.parametrize(("length", "degree"), SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_orders_sum_to_the_gradient_of_the_labels(seed, length, degree):
    net, law, frequency, signatures = drawn(seed, length=length, degree=degree)
    terms = label_terms(net, signatures, frequency)
    expected = gradient(net, law, torch.from_numpy(net.unembedding))
    assert terms.sum(axis=0) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert (terms[:, -1] == 0.0).all()  # the id that never occurs
    accessible = net.accessible_order
    assert accessible == min(length - 1, degree - 1)
    assert not terms[accessible + 1 :].any()
    # Every accessible order is there: without the last one the gradient is another.
    assert np.abs(terms[accessible]).max() > 1e-3
    assert label_terms(net, signatures[: accessible + 1], frequency).tolist() == terms[: accessible + 1].tolist()


@pytest.mark.parametrize(("length", "degree"), SHAPES)
def test_the_orders_sum_to_the_gradient_of_uniform_predictions(length, degree):
    net, law, frequency, signatures = drawn(2, length=length, degree=degree)
    cooccurrences = [signature.sum(axis=1) for signature in signatures]
    terms = prediction_terms(net, cooccurrences, frequency)
    mean = torch.from_numpy(net.unembedding).mean(dim=0).expand(Y, D)
    assert -terms.sum(axis=0) == pytest.approx(gradient(net, law, mean), rel=1e-10, abs=1e-10)
    assert not terms[net.accessible_order + 1 :].any()


def test_at_a_vanishing_unembedding_both_parts_are_the_gradient_of_the_loss():
    """A small U makes the softmax uniform to first order, so that the flow is the true one up to U^2."""
    net, law, frequency, signatures = drawn(3, length=3, degree=3)
    errors = []
    for scale in (1e-3, 1e-4):
        small = PolynomialNetwork(net.embedding, scale * net.unembedding, net.coefficients, length=3)
        tokens, labels, weights = (torch.from_numpy(part) for part in law)
        table = torch.tensor(small.embedding, requires_grad=True)
        hidden = sum(float(c) * table[tokens].sum(dim=1) ** k for k, c in enumerate(small.coefficients))
        losses = torch.nn.functional.cross_entropy(hidden @ torch.from_numpy(small.unembedding).T, labels, reduction="none")
        (weights * losses).sum().backward()
        flow = label_terms(small, signatures, frequency) + prediction_terms(small, [s.sum(axis=1) for s in signatures], frequency)
        errors.append(np.abs(flow.sum(axis=0) + table.grad.numpy()).max() / scale)
    assert errors[0] < 0.1
    assert errors[1] == pytest.approx(errors[0] / 10.0, rel=0.05)


@pytest.mark.parametrize(("length", "degree"), [(3, 4), (4, 3), (3, 6)])
def test_contracted_tensors_are_the_terms(length, degree):
    net, _, frequency, signatures = drawn(4, length=length, degree=degree)
    terms = label_terms(net, signatures, frequency)
    for order, signature in enumerate(signatures):
        tensors = coefficient_tensors(net, order=order)
        assert tensors.shape == (V, Y, *(V,) * order, D)
        slow = length * frequency[:, None] * (tensors * signature[..., None]).reshape(V, -1, D).sum(axis=1)
        assert terms[order] == pytest.approx(slow, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("length", "degree"), [(3, 4), (4, 6), (4, 2)])
def test_context_coefficients_are_mixed_differences_of_the_slope(length, degree):
    """Inclusion and exclusion: T_{a,m}(b) = binom(L-1, m) sum_S (-1)^{m-|S|} sigma'(e_a + sum_{r in S} e_{b_r}), for any sigma."""
    rng = np.random.default_rng(5)
    net = network(rng, length=length, degree=degree)
    slope = np.polynomial.Polynomial(net.coefficients).deriv()
    for order in range(length):
        found = context_coefficients(net, order=order)
        ways = [1, length - 1, (length - 1) * (length - 2) / 2, (length - 1) * (length - 2) * (length - 3) / 6][order]
        for a, *contexts in itertools.product(range(V), repeat=order + 1):
            slow = np.zeros(D)
            for kept in itertools.product((0, 1), repeat=order):
                chosen = [b for b, keep in zip(contexts, kept, strict=True) if keep]
                slow += (-1.0) ** (order - len(chosen)) * slope(net.embedding[a] + net.embedding[chosen].sum(axis=0))
            assert found[(a, *contexts)] == pytest.approx(ways * slow, rel=1e-9, abs=1e-8)


def test_some_tokens_alone_are_rows_of_all():
    net, _, frequency, signatures = drawn(6, length=3, degree=4)
    of = np.array([2, 0])
    terms = label_terms(net, [signature[of] for signature in signatures], frequency[of], of=of)
    assert terms == pytest.approx(label_terms(net, signatures, frequency)[:, of], rel=1e-13)
    assert coefficient_tensors(net, order=1, of=of).tolist() == coefficient_tensors(net, order=1)[of].tolist()


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_exchanging_context_axes_and_naming_tokens_otherwise_change_nothing(seed, length, degree):
    net, _, frequency, signatures = drawn(seed, length=length, degree=degree)
    terms = label_terms(net, signatures, frequency)
    turned = [signature.transpose(0, 1, *range(signature.ndim - 1, 1, -1)) for signature in signatures]
    assert label_terms(net, turned, frequency) == pytest.approx(terms, rel=1e-9, abs=1e-9)
    names = np.random.default_rng(seed).permutation(V)
    renamed = PolynomialNetwork(net.embedding[names], net.unembedding, net.coefficients, length=length)
    moved = [
        signature[np.ix_(names, range(Y), *(names,) * order)] if order else signature[names] for order, signature in enumerate(signatures)
    ]
    assert label_terms(renamed, moved, frequency[names]) == pytest.approx(terms[:, names], rel=1e-9, abs=1e-9)


def test_many_tokens_in_parts_are_the_same(monkeypatch):
    net, _, frequency, signatures = drawn(7, length=3, degree=4)
    whole = label_terms(net, signatures, frequency)
    monkeypatch.setattr("normwise.theory.embedding_flow._CHUNK_VALUES", 1)
    assert label_terms(net, signatures, frequency) == pytest.approx(whole, rel=1e-13)


@pytest.mark.parametrize("gamma", [0.6, 0.8, 1.0])
def test_at_init_order_m_is_as_small_as_the_width_to_the_minus_m_gamma(gamma):
    """Root mean square over inits, entries N(0, d^{-2 gamma}); the slope in log d over 64 times the width."""
    length, widths, inits = 3, np.array([16, 64, 256, 1024]), 24
    rng = np.random.default_rng(8)
    law = random_law(rng, vocabulary=V, labels=Y, length=length)
    signatures = [label_signature(*law, order=m, vocabulary=V, outputs=Y) for m in range(length)]
    frequency = frequencies(law[0], law[2], V)
    squares = np.zeros((len(widths), length))
    for row, width in zip(squares, widths, strict=True):
        for _ in range(inits):
            scale = width**-gamma
            net = PolynomialNetwork(
                scale * rng.normal(size=(V, width)), scale * rng.normal(size=(Y, width)), np.array([0.0, 1.0, 0.7, 0.4]), length=length
            )
            row += (label_terms(net, signatures, frequency) ** 2).sum(axis=(1, 2)) / inits
    ratios = np.sqrt(squares[:, 1:] / squares[:, :1])
    for order in (1, 2):
        assert np.polyfit(np.log(widths), np.log(ratios[:, order - 1]), 1)[0] == pytest.approx(-order * gamma, abs=0.08)


def test_without_a_linear_term_no_order_is_smaller_at_init():
    """The hierarchy needs C_1: for z^K all orders hold K - 1 factors of e, however small they are."""
    net, _, frequency, signatures = drawn(9, length=3, degree=3)
    sizes = []
    for scale in (1.0, 1e-3):
        pure = PolynomialNetwork(scale * net.embedding, scale * net.unembedding, np.array([0.0, 0.0, 0.0, 1.0]), length=3)
        sizes.append(np.linalg.norm(label_terms(pure, signatures, frequency), axis=(1, 2)))
    assert sizes[1] / sizes[0] == pytest.approx(np.full(3, 1e-9), rel=1e-9)


def test_bad_networks_are_refused():
    good = np.ones((V, D))
    with pytest.raises(InputError, match=r"embedding has shape \(4,\); expected \(V, d\)"):
        PolynomialNetwork(np.ones(4), good, np.ones(2), length=2)
    with pytest.raises(InputError, match="embedding has width 5 and unembedding 6"):
        PolynomialNetwork(good, np.ones((Y, 6)), np.ones(2), length=2)
    with pytest.raises(InputError, match=r"unembedding\[1, 0\] is nan"):
        PolynomialNetwork(good, np.where(np.arange(V)[:, None] == 1, np.nan, good), np.ones(2), length=2)
    with pytest.raises(InputError, match="length is 0"):
        PolynomialNetwork(good, good, np.ones(2), length=0)
    with pytest.raises(InputError, match="no embedding ever moves"):
        PolynomialNetwork(good, good, np.array([1.0, 0.0]), length=2)


def test_bad_signatures_are_refused():
    net, _, frequency, signatures = drawn(10, length=2, degree=3)
    with pytest.raises(InputError, match="no signature came"):
        label_terms(net, [], frequency)
    with pytest.raises(InputError, match=r"signatures\[1\] has shape \(4, 3\); expected \(4, 3, 4\)"):
        label_terms(net, [signatures[0], signatures[0]], frequency)
    with pytest.raises(InputError, match=r"signatures\[0\]: row 0 sums to 2, .* divide counts by their sum"):
        label_terms(net, [2.0 * signatures[0]], frequency)
    with pytest.raises(InputError, match=r"row 3 sums to 0, .* its frequency 0.1"):
        label_terms(net, [signatures[0]], np.append(frequency[:3], 0.1))
    with pytest.raises(InputError, match=r"order is 2; expected 0\.\.1, because a sequence of 2"):
        label_terms(net, [*signatures, np.zeros((V, Y, V, V))], frequency)
    with pytest.raises(InputError, match=r"frequency has shape \(3,\)"):
        label_terms(net, signatures, frequency[:3])
    with pytest.raises(InputError, match=r"frequency has shape \(4,\) and lies in .*\.\.4"):
        label_terms(net, signatures, np.append(frequency[:3], 4.0))
    with pytest.raises(InputError, match=r"of has shape \(1,\) and values \[4\].*expected \(A,\) tokens in 0\.\.3"):
        label_terms(net, signatures, frequency, of=np.array([4]))
    with pytest.raises(InputError, match=r"signatures\[0\] has shape \(4, 3\); expected \(4,\)"):
        prediction_terms(net, signatures, frequency)


def test_a_tensor_too_large_is_refused_before_it_is_made():
    net = PolynomialNetwork(np.ones((2000, 8)), np.ones((2000, 8)), np.ones(4), length=4)
    with pytest.raises(InputError, match="the dense tensor would hold 64,000,000,000 values; expected at most 50,000,000"):
        context_coefficients(net, order=2)
    with pytest.raises(InputError, match="take fewer tokens with of=, or context_coefficients, or a lower order"):
        coefficient_tensors(net, order=1, of=np.arange(2))
