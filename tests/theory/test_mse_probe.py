"""Probes by least squares: errors, gradients, planted probes, and what is told of tokens that were held out."""

import numpy as np
import pytest
from cyclic_world import random_rows, rotation
from hypothesis import given
from hypothesis import strategies as st

from normwise.theory.alignment import cosine_gram
from normwise.theory.mse_probe import fit_probe_mse, probe_error
from normwise.theory.signature_probes import FitProbe, FittedProbe, fit_probe
from normwise.theory.token_pairs import token_pairs

seeds = st.integers(0, 10**6)


def a_problem(seed):
    """Signatures of 7 tokens, a probe, 15 of the 21 pairs and numbers to be met."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=5), rng.random((7, 3, 5)), rng.uniform(-1.0, 1.0, 15), token_pairs(np.arange(7))[:, rng.permutation(21)[:15]]


@given(seeds)
def test_the_error_is_the_mean_over_pairs(seed):
    probe, phi, cosines, pairs = a_problem(seed)
    total = 0.0
    for (a, b), t in zip(pairs.T.tolist(), cosines.tolist(), strict=True):
        one, two = phi[a] @ probe, phi[b] @ probe
        total += (one @ two / np.sqrt((one @ one) * (two @ two)) - t) ** 2
    assert probe_error(probe, phi, cosines, pairs)[0] == pytest.approx(total / 15)


@given(seeds)
def test_the_gradient_is_that_of_finite_differences(seed):
    probe, phi, cosines, pairs = a_problem(seed)
    value, slope = probe_error(probe, phi, cosines, pairs)
    step = 1e-6 * np.linalg.norm(probe)
    for i, unit in enumerate(np.eye(5)):
        ends = [probe_error(probe + sign * step * unit, phi, cosines, pairs)[0] for sign in (1.0, -1.0)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-4, abs=1e-4 * np.linalg.norm(slope) + 1e-8)
    assert slope @ probe == pytest.approx(0.0, abs=1e-9 * (1.0 + np.linalg.norm(slope) * np.linalg.norm(probe)))
    longer = probe_error(40.0 * probe, phi, cosines, pairs)
    assert longer[0] == pytest.approx(value)
    assert longer[1] == pytest.approx(slope / 40.0, abs=1e-9 * (1.0 + np.linalg.norm(slope)))


@given(seeds)
def test_a_token_without_a_head_is_at_right_angles_to_all(seed):
    probe, phi, cosines, pairs = a_problem(seed)
    phi[1] = 0.0
    value, slope = probe_error(probe, phi, cosines, pairs)
    said = cosine_gram(phi @ probe)
    assert value == pytest.approx(np.mean((said[pairs[0], pairs[1]] - cosines) ** 2))
    assert (said[1] == 0.0).all()
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_planted_probe_is_found_wherever_it_starts_on_its_ray(scale):
    rng = np.random.default_rng(0)
    phi, planted, pairs = rng.random((12, 6, 4)), rng.normal(size=4), token_pairs(np.arange(12))
    cosines = cosine_gram(phi @ planted)[pairs[0], pairs[1]]
    start = planted + 0.5 * rng.normal(size=4)
    found = fit_probe_mse(phi, cosines, pairs, start=scale * start)
    assert np.linalg.norm(found) == pytest.approx(1.0)
    assert abs(found @ planted) / np.linalg.norm(planted) > 1.0 - 1e-6
    assert probe_error(found, phi, cosines, pairs)[0] < 1e-8 < probe_error(start, phi, cosines, pairs)[0]
    assert found == pytest.approx(fit_probe_mse(phi, cosines, pairs, start=start), abs=1e-9)


@given(seeds)
def test_what_is_found_is_level_and_no_worse_than_the_start(seed):
    """With more labels than contexts no probe brings a head to 0, where the error has a corner."""
    rng = np.random.default_rng(seed)
    phi, probe, pairs = rng.normal(size=(8, 6, 3)), rng.normal(size=3), token_pairs(np.arange(8))
    cosines = rng.uniform(-1.0, 1.0, 28)
    found = fit_probe_mse(phi, cosines, pairs, start=probe)
    value, slope = probe_error(found, phi, cosines, pairs)
    assert value <= probe_error(probe, phi, cosines, pairs)[0]
    assert np.abs(slope).max() < 1e-4


def test_a_level_is_an_error_that_a_correlation_does_not_see():
    """Similarities that are planted ones drawn together: least squares meets them better, the correlation is met better by the other."""
    rng = np.random.default_rng(4)
    phi, planted, pairs = rng.random((12, 6, 4)), rng.normal(size=4), token_pairs(np.arange(12))
    cosines = 0.6 * cosine_gram(phi @ planted)[pairs[0], pairs[1]] - 0.3
    by_error, by_correlation = (fit(phi, cosines, pairs, start=planted + 0.3) for fit in (fit_probe_mse, fit_probe))
    errors = [probe_error(probe, phi, cosines, pairs)[0] for probe in (by_error, by_correlation)]
    assert errors[0] < errors[1]
    said = [np.corrcoef(cosine_gram(phi @ probe)[pairs[0], pairs[1]], cosines)[0, 1] for probe in (by_error, by_correlation)]
    assert said[0] < said[1]
    assert said[1] > 0.999


def test_a_planted_probe_tells_tokens_that_were_held_out_and_random_embeddings_do_not():
    assert isinstance(fit_probe_mse, FitProbe)
    rng = np.random.default_rng(1)
    phi, planted = rng.random((20, 6, 4)), rng.normal(size=4)
    table = (phi @ planted) @ rotation(6, seed=0) * rng.uniform(0.5, 2.0, size=(20, 1))
    found = FittedProbe(phi, permutations=3, starts=1, fit=fit_probe_mse).at(table)
    assert found.figure.value > 0.99
    assert found.figure.null < 0.4
    assert found.train > 0.99
    assert probe_error(found.probes[0], phi, cosine_gram(table)[0, 1:2], np.array([[0], [1]]))[0] < 1e-6
    # Rows of a random embedding are exchangeable: figure and null have one mean, here within three standard errors.
    chance = []
    for seed in range(10):
        phi = np.random.default_rng(seed).random((20, 6, 4))
        chance.append(FittedProbe(phi, permutations=2, starts=1, fit=fit_probe_mse).at(random_rows(20, seed=seed)).figure.above_null)
    error = np.std(chance, ddof=1) / np.sqrt(10)
    assert error < 0.15
    assert abs(np.mean(chance)) < 3.0 * error
