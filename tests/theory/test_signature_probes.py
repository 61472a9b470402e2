"""Fitted probes: gradients, planted probes, their identity with frequencies, and why tokens are held out and not pairs."""

import numpy as np
import pytest
from cyclic_world import circle_rows, cyclic_signature, random_rows, rotation
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.alignment import cosine_gram
from normwise.theory.fourier_probes import fourier_grams
from normwise.theory.signature_probes import FittedProbe, fit_probe, fit_probe_adam, probe_correlation
from normwise.theory.token_pairs import token_folds, token_pairs


@given(st.integers(0, 10**6))
def test_the_gradient_is_that_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    phi, probe = rng.random((7, 3, 5)), rng.normal(size=5)
    pairs = token_pairs(np.arange(7))[:, rng.permutation(21)[:15]]
    cosines = rng.normal(size=15)
    value, slope = probe_correlation(probe, phi, cosines, pairs)
    said = cosine_gram(phi @ probe)[pairs[0], pairs[1]]
    assert value == pytest.approx(np.corrcoef(said, cosines)[0, 1])
    step = 1e-6 * np.linalg.norm(probe)
    for i, unit in enumerate(np.eye(5)):
        ends = [probe_correlation(probe + sign * step * unit, phi, cosines, pairs)[0] for sign in (1.0, -1.0)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-4, abs=1e-4 * np.linalg.norm(slope) + 1e-8)
    assert slope @ probe == pytest.approx(0.0, abs=1e-9 * (1.0 + np.linalg.norm(slope) * np.linalg.norm(probe)))
    assert probe_correlation(40.0 * probe, phi, cosines, pairs)[0] == pytest.approx(value)


def test_a_constant_probe_of_equal_order_zero_rows_has_no_correlation():
    value, slope = probe_correlation(np.ones(6), cyclic_signature(6), np.arange(15.0), token_pairs(np.arange(6)))
    assert value == 0.0
    assert not slope.any()


def test_a_token_without_a_head_has_no_slope():
    phi = np.random.default_rng(0).random((5, 2, 3))
    phi[1] = 0.0
    value, slope = probe_correlation(np.array([1.0, -0.5, 2.0]), phi, np.arange(10.0), token_pairs(np.arange(5)))
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


def test_on_a_cycle_the_probes_gram_is_a_mixture_of_frequencies():
    p, probe = 11, np.random.default_rng(2).normal(size=11)
    power = np.abs(np.fft.rfft(probe)) ** 2
    power[1:] *= 2.0
    mixed = np.tensordot(power / power.sum(), fourier_grams(cyclic_signature(p)), axes=1)
    assert cosine_gram(cyclic_signature(p) @ probe) == pytest.approx(mixed)


@pytest.mark.parametrize("fit", [fit_probe, fit_probe_adam])
def test_a_planted_probe_is_found(fit):
    rng = np.random.default_rng(0)
    phi, planted, pairs = rng.random((12, 6, 4)), rng.normal(size=4), token_pairs(np.arange(12))
    cosines = cosine_gram(phi @ planted)[pairs[0], pairs[1]]
    found = fit(phi, cosines, pairs, start=planted + 0.5 * rng.normal(size=4))
    assert np.linalg.norm(found) == pytest.approx(1.0)
    assert abs(found @ planted) / np.linalg.norm(planted) > 0.99
    assert probe_correlation(found, phi, cosines, pairs)[0] > 0.999


def test_a_planted_probe_tells_tokens_that_were_held_out_and_permuted_rows_do_not():
    rng = np.random.default_rng(1)
    phi, planted = rng.random((24, 5, 6)), rng.normal(size=6)
    table = (phi @ planted) @ rotation(5, seed=0) * rng.uniform(0.5, 2.0, size=(24, 1))
    found = FittedProbe(phi, permutations=4).with_initial(random_rows(24)).at(table)
    assert found.figure.value > 0.99
    assert found.figure.null < 0.5
    assert found.figure.initial < 0.5
    assert found.train > 0.99
    assert found.probes.shape == (5, 6)
    turned = FittedProbe(phi, permutations=4).at(table @ rotation(5, seed=3) * 1e-6)
    assert turned.figure.value == pytest.approx(found.figure.value, abs=1e-3)


def test_a_circle_is_found_without_being_told_of_frequencies():
    found = FittedProbe(cyclic_signature(15), starts=2, permutations=2).at(circle_rows(15, 2, noise=0.05))
    assert found.figure.value > 0.95
    power = np.abs(np.fft.rfft(found.probes[0])) ** 2
    assert int(np.argmax(power[1:])) + 1 == 2


def test_held_out_pairs_leak_and_held_out_tokens_do_not():
    """A random embedding in the plane and random signatures with more context tokens than can be known: nothing is there to be found.

    The probe can place each token freely, and pairs that it was fitted on place the tokens of the pairs that it was not.
    """
    leaks, clean = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        phi, table = rng.normal(size=(25, 2, 100)), rng.normal(size=(25, 2))
        pairs = token_pairs(np.arange(25))
        cosines, start = cosine_gram(table)[pairs[0], pairs[1]], rng.normal(size=100)
        order = rng.permutation(300)
        train, held = order[:240], order[240:]
        probe = fit_probe(phi, cosines[train], pairs[:, train], start=start)
        leaks.append(probe_correlation(probe, phi, cosines[held], pairs[:, held])[0])
        clean.append(FittedProbe(phi, starts=1, permutations=2).at(table).figure.value)
    assert min(leaks) > 0.9
    assert abs(np.mean(clean)) < 0.3


def test_the_null_is_the_same_fit_to_permuted_rows():
    phi, table, folds = np.random.default_rng(5).random((12, 3, 4)), random_rows(12), token_folds(12, folds=3)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(12) for _ in range(2)]
    found = FittedProbe(phi, folds=folds, permutations=2).at(table).figure
    again = [FittedProbe(phi, folds=folds, permutations=2).at(table[order]).figure.value for order in orders]
    assert (found.null, found.spread) == pytest.approx((np.mean(again), np.std(again, ddof=1)))


def test_bad_input_is_refused():
    phi, table = cyclic_signature(15), random_rows(15)
    with pytest.raises(InputError, match="permutations is 1 and starts 3; expected at least 2 and 1"):
        FittedProbe(phi, permutations=1)
    with pytest.raises(InputError, match="permutations is 3 and starts 0"):
        FittedProbe(phi, starts=0)
    with pytest.raises(InputError, match="embedding has 14 rows and the signature 15"):
        FittedProbe(phi).at(table[:14])
    table[0] = 0.0
    with pytest.raises(InputError, match="row 0 is a zero vector"):
        FittedProbe(phi).at(table)
