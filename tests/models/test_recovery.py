"""Norms from unit vectors: all-MiniLM to 1e-5, an RMSNorm decoder, and every way in which it must refuse."""

import numpy as np
import pytest
import torch
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dense

from normwise.core.errors import InputError
from normwise.models.freedom import Constraint
from normwise.models.probe import PROBE_TEXTS, probe_vectors
from normwise.models.recovery import recover_norms, rounding_bound


def split(vectors):
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), norms


def test_all_minilm_gives_its_norms_back_from_its_own_unit_vectors(make_small):
    st = make_small(layers=None)
    raw = probe_vectors(st)
    st.append(Normalize())
    unit = probe_vectors(st)
    assert np.abs(np.linalg.norm(unit, axis=1) - 1).max() < 1e-6
    found = recover_norms(unit, st)
    norms = np.linalg.norm(raw.astype(np.float64), axis=1)
    error = np.abs(found.norms / norms - 1).max()
    assert error < 1e-5
    # What rounding may have done, and what the model's own arithmetic leaves, cover what was seen.
    assert error <= found.bound + found.model_error
    assert found.bound < 1e-6
    assert found.bound_median <= found.bound
    assert found.words.startswith("plane-bound")


def test_an_error_of_the_stored_length_does_not_enter(make_small):
    st = make_small()
    unit, norms = split(probe_vectors(st))
    found = recover_norms((unit * 1.003).astype(np.float32), st)
    np.testing.assert_allclose(found.norms, norms, rtol=1e-5)


def test_half_precision_is_refused_where_the_tie_lives_in_tiny_coordinates(make_small):
    st = make_small(layers=None)
    unit, _ = split(probe_vectors(st))
    with pytest.raises(InputError, match="rounding to float16 leaves its norm uncertain by up to .*store unit vectors in float32"):
        recover_norms(unit.astype(np.float16), st)


def test_half_precision_is_bounded_where_it_carries_the_tie(make_decoder):
    st = make_decoder("lasttoken")
    unit, norms = split(probe_vectors(st))
    found = recover_norms(unit.astype(np.float16), st)
    error = np.abs(found.norms / norms - 1).max()
    assert found.words.startswith("ellipsoid-bound")
    assert 1e-5 < found.bound < 1e-2
    assert error <= found.bound + found.model_error
    # A coarser type before this one is not seen in the values: its epsilon is told.
    coarse = recover_norms(unit, st, epsilon=2.0**-7)
    assert coarse.bound > found.bound


def test_the_bound_holds_against_rounding_done_on_purpose():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=6)
    z = rng.normal(size=(500, 6))
    z += np.outer(3.0 - z @ normal, normal) / (normal @ normal)
    matrix = rng.normal(size=(6, 6))
    forms = [Constraint("plane-bound", normal, 3.0), Constraint("ellipsoid-bound", matrix, 1.0)]
    for form in forms:
        vectors = z if form.kind == "plane-bound" else z / np.linalg.norm(z @ matrix.T, axis=1, keepdims=True)
        norms = np.linalg.norm(vectors, axis=1)
        exact = vectors / norms[:, None]
        np.testing.assert_allclose(form.norms(exact), norms)
        rounded = exact.astype(np.float16).astype(np.float64)
        bound = rounding_bound(exact, form, epsilon=float(np.finfo(np.float16).eps), tiny=float(np.finfo(np.float16).smallest_subnormal))
        error = np.abs(norms / form.norms(rounded) - 1)
        assert (error <= bound * (1 + 1e-9)).all()
        assert error.max() > 0.01 * bound.min()


def test_whole_numbers_are_refused_before_the_model_is_looked_at():
    with pytest.raises(InputError, match="vectors hold int8: norms cannot be recovered from whole numbers"):
        recover_norms(np.ones((2, 384), dtype=np.int8), None)


def test_vectors_that_do_not_fit_are_refused(make_small):
    st = make_small()
    unit, _ = split(probe_vectors(st))
    with pytest.raises(InputError, match="this model's have 384 dimensions"):
        recover_norms(unit[:, :100].copy(), st)
    with pytest.raises(InputError, match="row 1 has length 2; expected 1: .*those of other vectors are their lengths"):
        recover_norms(unit * np.where(np.arange(len(unit)) == 1, 2.0, 1.0)[:, None].astype(np.float32), st)
    with pytest.raises(InputError, match="is no vector of this model: its norm would be -"):
        recover_norms(np.where(np.arange(len(unit)) == 2, -1.0, 1.0)[:, None].astype(np.float32) * unit, st)


def test_a_free_norm_cannot_be_recovered(make_small):
    st = make_small()
    torch.manual_seed(0)
    st.append(Dense(384, 384))
    unit, _ = split(probe_vectors(st, PROBE_TEXTS))
    with pytest.raises(InputError, match="norms cannot be recovered from this model's unit vectors: free: .*encode the texts again"):
        recover_norms(unit, st)
