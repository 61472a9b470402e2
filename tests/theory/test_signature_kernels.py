"""Kernels of centered signatures: the flow's matrix, what centering over tokens hides, and exact nulls."""

import itertools

import numpy as np
import pytest
from cyclic_world import cyclic_signature, random_rows, rotation

from normwise.core.errors import InputError
from normwise.theory.signature_kernels import centered_kernel_alignment, centered_signature_gram, kernel_alignment


def _labels(count=10, labels=4, seed=0):
    rows = np.random.default_rng(seed).random((count, labels))
    return rows / rows.sum(axis=1, keepdims=True)


def test_the_gram_of_order_zero_is_that_of_the_early_phase():
    phi, frequency = _labels(), np.random.default_rng(1).random(10)
    full = np.concatenate([phi, np.zeros((10, 5))], axis=1) - 1.0 / 9.0
    matrix = np.diag(frequency) @ full
    assert centered_signature_gram(phi, vocabulary=9, frequency=frequency) == pytest.approx(matrix @ matrix.T)


def test_the_gram_of_order_one_takes_the_uniform_softmax_off_each_context():
    phi = np.random.default_rng(0).random((5, 3, 6))
    full = np.concatenate([phi, np.zeros((5, 2, 6))], axis=1) - phi.sum(axis=1, keepdims=True) / 5.0
    assert centered_signature_gram(phi, vocabulary=5) == pytest.approx(full.reshape(5, -1) @ full.reshape(5, -1).T)


def test_uniform_labels_over_the_whole_vocabulary_leave_nothing():
    phi = cyclic_signature(13).sum(axis=2)
    gram = centered_signature_gram(phi, vocabulary=13)
    assert not gram.any()
    assert np.isnan(kernel_alignment(gram, random_rows(13)).value)
    assert centered_signature_gram(phi, vocabulary=20)[0, 0] == pytest.approx(1 / 13 - 1 / 20)


def test_the_figures_by_their_formulas():
    gram, table = centered_signature_gram(_labels(), vocabulary=6), random_rows(10)
    other, away = table @ table.T, np.eye(10) - 0.1
    assert kernel_alignment(gram, table).value == pytest.approx((gram * other).sum() / np.linalg.norm(gram) / np.linalg.norm(other))
    k, m = away @ gram @ away, away @ other @ away
    assert centered_kernel_alignment(gram, table).value == pytest.approx(np.trace(k @ m) / np.linalg.norm(k) / np.linalg.norm(m))


@pytest.mark.parametrize("figure", [kernel_alignment, centered_kernel_alignment])
def test_nulls_are_those_of_all_permutations(figure):
    gram, table = centered_signature_gram(_labels(count=6), vocabulary=6), random_rows(6)
    values = [figure(gram[np.ix_(order, order)], table).value for order in map(list, itertools.permutations(range(6)))]
    found = figure(gram, table)
    assert (found.null, found.spread) == pytest.approx((np.mean(values), np.std(values)), rel=1e-8)
    assert found.null > 0.0


@pytest.mark.parametrize("figure", [kernel_alignment, centered_kernel_alignment])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e6])
def test_rotation_and_scale_change_nothing(figure, scale):
    gram, table = centered_signature_gram(_labels(), vocabulary=6), random_rows(10)
    turned = figure(gram, scale * table @ rotation(16, seed=0))
    assert vars(turned) == pytest.approx(vars(figure(gram, table)))


def test_centering_over_tokens_hides_the_uniform_softmax_and_an_order_zero_phase_of_equal_signatures():
    phi, table = _labels(), random_rows(10)
    small, large = (centered_signature_gram(phi, vocabulary=vocabulary) for vocabulary in (4, 50))
    assert centered_kernel_alignment(small, table).value == pytest.approx(centered_kernel_alignment(large, table).value)
    assert kernel_alignment(small, table).value != pytest.approx(kernel_alignment(large, table).value, abs=0.01)
    equal = centered_signature_gram(cyclic_signature(10).sum(axis=2), vocabulary=40)
    condensed = 1.0 + 0.01 * table
    assert np.isnan(centered_kernel_alignment(equal, condensed).value)
    assert kernel_alignment(equal, condensed).value > 0.99
    assert kernel_alignment(equal, table).value < 0.5


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="vocabulary is 3, and the signature has 4 label columns; expected at most"):
        centered_signature_gram(_labels(), vocabulary=3)
    with pytest.raises(InputError, match=r"shape \(10, 10\) and embedding 9 rows; expected one row per token"):
        kernel_alignment(np.eye(10), random_rows(9))
    table = random_rows(10)
    table[2, 3] = np.inf
    with pytest.raises(InputError, match="embedding: row 2 holds a value that is not finite"):
        kernel_alignment(np.eye(10), table)
