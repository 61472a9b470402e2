"""Sketches against contractions of the dense signatures and direct sums, and what random probes estimate."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequence_worlds import a_law, additive

from normwise.core.errors import InputError
from normwise.theory import signature_sketch
from normwise.theory.sequence_law import SequenceLaw
from normwise.theory.signature_sketch import random_probes, sketch_signature
from normwise.theory.signatures import contract, cooccurrence_signature, label_signature

seeds = st.integers(0, 10**6)
orders = st.integers(1, 3)


@given(seeds, orders)
def test_a_sketch_is_the_contraction_of_the_dense_signature(seed, order):
    law = a_law(seed)
    probes = np.random.default_rng(seed).normal(size=(3, order, 5))
    found, dense = sketch_signature(law, probes), label_signature(law, order=order)
    assert found.values == pytest.approx(contract(dense.values, probes), abs=1e-13)
    assert found.values.sum(axis=2) == pytest.approx(contract(cooccurrence_signature(law, order=order).values, probes), abs=1e-13)
    assert found.frequency == pytest.approx(dense.frequency, abs=1e-15)
    assert found.seen.tolist() == dense.seen.tolist()
    assert not found.left_out.any()


@given(seeds, orders)
def test_kept_tokens_and_labels_have_their_values(seed, order):
    law, of, targets = a_law(seed), np.array([4, 2, 0]), np.array([2, 0])
    probes = random_probes(2, order, 5, seed=seed)
    found, full = sketch_signature(law, probes, of=of, targets=targets), sketch_signature(law, probes)
    assert found.values == pytest.approx(full.values[:, of][:, :, targets], abs=1e-13)
    dense = label_signature(law, of=of, targets=targets)
    assert found.left_out == pytest.approx(dense.left_out, abs=1e-15)


def test_order_4_is_a_mean_over_every_tuple():
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 3, 6)
    probes = rng.normal(size=(2, 4, 3))
    found = sketch_signature(SequenceLaw(tokens[None], np.array([1]), vocabulary=3), probes)
    for a, r in itertools.product(set(tokens.tolist()), range(2)):
        places = [i for i in range(6) if tokens[i] == a]
        products = [
            math.prod(probes[r, k, tokens[j]] for k, j in enumerate(chosen))
            for i in places
            for chosen in itertools.permutations([j for j in range(6) if j != i], 4)
        ]
        assert found.values[r, a, 1] == pytest.approx(math.fsum(products) / len(products), abs=1e-12)


@given(seeds, st.integers(2, 3))
def test_a_probe_of_ones_lowers_the_order(seed, order):
    law, probes = a_law(seed), np.random.default_rng(seed).normal(size=(2, order, 5))
    probes[:, 0] = 1.0
    assert sketch_signature(law, probes).values == pytest.approx(sketch_signature(law, probes[:, 1:]).values, abs=1e-13)


@given(seeds)
def test_probes_of_ones_leave_order_0(seed):
    law = a_law(seed)
    assert sketch_signature(law, np.ones((1, 3, 5))).values[0] == pytest.approx(label_signature(law).values, abs=1e-13)


def test_a_vocabulary_too_large_for_a_dense_signature_has_a_sketch():
    law = SequenceLaw(np.array([[0, 1, 2], [7, 9, 7]]), np.array([0, 1]), vocabulary=20_000, label_count=2)
    probes = np.random.default_rng(1).normal(size=(4, 2, 20_000))
    with pytest.raises(InputError, match=r"sketch_signature"):
        label_signature(law, order=2)
    found = sketch_signature(law, probes, of=np.array([7, 0])).values
    p, q = probes[:, 0], probes[:, 1]
    assert found[:, 0, 1] == pytest.approx((p[:, 9] * q[:, 7] + p[:, 7] * q[:, 9]) / 2.0)
    assert found[:, 1, 0] == pytest.approx((p[:, 1] * q[:, 2] + p[:, 2] * q[:, 1]) / 2.0)


def test_parts_make_the_same_sketch(monkeypatch):
    law, probes = a_law(3, sequences=40), random_probes(3, 2, 5, seed=0)
    whole = sketch_signature(law, probes, targets=np.array([1])).values
    monkeypatch.setattr(signature_sketch, "_CHUNK_VALUES", 200)
    assert sketch_signature(law, probes, targets=np.array([1])).values == pytest.approx(whole, abs=1e-14)


def test_random_probes_estimate_the_gram():
    """Mean over probes of <h_a, h_b> is <phi_a, phi_b>, within four standard errors."""
    law = additive(4, length=3)
    rows = label_signature(law, order=2).values.reshape(4, -1)
    found = sketch_signature(law, random_probes(4000, 2, 4, seed=5)).values
    products = np.einsum("rav,rbv->rab", found, found)
    errors = 4.0 * products.std(axis=0) / math.sqrt(4000)
    assert (np.abs(products.mean(axis=0) - rows @ rows.T) <= errors + 1e-12).all()


def test_probes_are_signs_that_the_seed_repeats():
    probes = random_probes(3, 2, 50, seed=1)
    assert set(np.unique(probes).tolist()) == {-1.0, 1.0}
    assert np.array_equal(probes, random_probes(3, 2, 50, seed=1))
    assert not np.array_equal(probes, random_probes(3, 2, 50, seed=2))


def test_no_probes_are_refused():
    with pytest.raises(InputError, match=r"count is 2, order 0, vocabulary 3; expected at least 1 each"):
        random_probes(2, 0, 3, seed=0)


@pytest.mark.parametrize(
    ("probes", "words"),
    [
        (np.ones((2, 5)), r"probes have shape \(2, 5\); expected \(R, m, 5\)"),
        (np.ones((2, 1, 4)), r"probes have shape \(2, 1, 4\)"),
        (np.ones((2, 0, 5)), r"order 0 needs no probe, label_signature makes it"),
        (np.ones((1, 4, 5)), r"order is 4 in sequences of length 4; expected 0 to 3"),
        (np.full((1, 1, 5), np.inf), r"probes hold 5 values that are not finite"),
        (np.broadcast_to(1.0, (4_000_000, 1, 5)), r"4,000,000 x 5 x 3 values are above 50,000,000.*take fewer probes at a time"),
    ],
)
def test_probes_that_do_not_fit_are_refused(probes, words):
    with pytest.raises(InputError, match=words):
        sketch_signature(a_law(0), probes)
