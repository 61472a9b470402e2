"""Norms from unit vectors: all-MiniLM to 1e-5, an RMSNorm decoder, and every way in which it must refuse."""

import numpy as np
import pytest
import torch
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dense

from normwise.core.errors import InputError
from normwise.data.norm_inputs import open_vectors
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


def cut_to_bfloat16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16 << 16).view(np.float32)


def renormalized(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def printed(x, digits):
    return np.array([[float(f"{value:.{digits}g}") for value in row] for row in x])


COARSE = {
    "float16": (
        lambda x: x.astype(np.float16),
        "row [0-9]+: norms cannot be recovered from float16: rounding can have changed its norm by",
    ),
    "float16 in float32": (
        lambda x: x.astype(np.float16).astype(np.float32),
        "from vectors stored as float32 whose values carry float16 precision: rounding can have changed its norm by as much as the norm",
    ),
    "bfloat16 in float32": (
        lambda x: cut_to_bfloat16(x),
        "stored as float32 whose values carry bfloat16 precision: rounding can have changed its norm by [0-9.]+%.*; normalize in float32",
    ),
    "bfloat16 in float64": (lambda x: cut_to_bfloat16(x).astype(np.float64), "stored as float64 whose values carry bfloat16 precision"),
    "one row of many": (
        lambda x: np.concatenate([x[:-1], cut_to_bfloat16(x[-1:])]),
        "carry bfloat16 precision: .* in 1 of [0-9]+ rows",
    ),
    "decimals": (lambda x: np.round(x, 6).astype(np.float32), "whose values carry 6 decimals only"),
    "int8 on a scale": (
        lambda x: (np.rint(x / np.abs(x).max(axis=0) * 127) * np.abs(x).max(axis=0) / 127).astype(np.float32),
        "stored as float32, but its values meet as often as if there were only about [0-9,]+ of them: they were quantized",
    ),
    "int8 as it is": (lambda x: renormalized(np.rint(x * 400)), "values meet as often as if there were only about"),
    "half precision, normalized again": (lambda x: renormalized(cut_to_bfloat16(x)), "normalized again after half precision"),
    "lengths": (
        lambda x: x * np.linspace(0.9995, 1.0005, len(x), dtype=np.float32)[:, None],
        r"row 0 has length 0\.9995.*rounded more coarsely before they were stored as float32",
    ),
}


@pytest.mark.parametrize("name", COARSE)
def test_what_was_rounded_before_it_was_stored_is_refused_and_named(make_small, name):
    st = make_small(layers=None)
    unit, _ = split(probe_vectors(st))
    rounded, message = COARSE[name]
    with pytest.raises(InputError, match=message):
        recover_norms(rounded(unit), st)


@pytest.mark.parametrize(
    ("rounded", "precision"),
    [
        (lambda x: x.astype(np.float64), "float32"),
        (lambda x: np.array([[float(str(value)) for value in row] for row in x]), "9 significant digits"),
        (lambda x: printed(x, 6), "6 significant digits"),
        (lambda x: (x.astype(np.float32) * np.float32(1.7)) / np.float32(1.7), "float32"),
    ],
    ids=["as float64", "as JSON", "six digits", "scaled and back"],
)
def test_the_stated_error_covers_the_true_one(make_small, rounded, precision):
    st = make_small(layers=None)
    unit, norms = split(probe_vectors(st))
    found = recover_norms(rounded(unit), st)
    assert found.precision == precision
    error = np.abs(found.norms / norms - 1).max()
    assert error <= found.bound + found.model_error
    assert error > 0.01 * found.bound


def test_a_model_in_half_precision_is_refused_by_its_vectors(make_decoder):
    st = make_decoder("lasttoken")
    raw = probe_vectors(make_decoder("lasttoken").bfloat16())
    unit = (torch.tensor(raw).bfloat16() / torch.tensor(raw).bfloat16().norm(dim=1, keepdim=True)).float().numpy()
    with pytest.raises(InputError, match="whose values carry bfloat16 precision"):
        recover_norms(unit, st)
    # Normalized in float32, they look whole but for meeting too often.
    with pytest.raises(InputError, match="normalized again after half precision"):
        recover_norms(renormalized(raw), st)


def test_messages_name_the_file_and_count_rows_from_zero(make_small, tmp_path):
    st = make_small()
    unit, _ = split(probe_vectors(st))
    unit[3] *= 2
    np.save(tmp_path / "u.npy", unit)
    with pytest.raises(InputError, match=r"^u\.npy, row 3 has length 2; expected 1"):
        recover_norms(open_vectors(tmp_path / "u.npy").rows, st)
    for value, came in ((0.0, "is a zero vector"), (np.nan, "holds a value that is not finite"), (3.0, "holds whole numbers")):
        unit[3] = value
        np.save(tmp_path / "u.npy", unit)
        with pytest.raises(InputError, match=rf"^u\.npy, row 3 {came}"):
            recover_norms(open_vectors(tmp_path / "u.npy").rows, st)


def test_messages_name_the_model(make_small, tmp_path):
    st = make_small()
    unit, _ = split(probe_vectors(st))
    np.save(tmp_path / "u.npy", -unit)
    with pytest.raises(InputError, match=r"^u\.npy, row 0 cannot be a vector of org/other: "):
        recover_norms(open_vectors(tmp_path / "u.npy").rows, st, model="org/other")
    np.save(tmp_path / "u.npy", unit[:, :64])
    with pytest.raises(InputError, match=r"^u\.npy of shape \([0-9]+, 64\) cannot be vectors of org/other, which have 384 dimensions"):
        recover_norms(open_vectors(tmp_path / "u.npy").rows, st, model="org/other")


@pytest.mark.parametrize("small", [1.0, 2.0**-12], ids=["usual values", "below the smallest normal number"])
def test_half_precision_is_named_as_what_it_is(make_small, small):
    st = make_small(layers=None)
    unit, _ = split(np.concatenate([probe_vectors(st)] * 20))
    # Numbers of float16 that small are whole steps, and equal themselves at 8 decimals whatever they went through.
    unit[:, :8] *= np.float32(small)
    half = renormalized(unit).astype(np.float16)
    with pytest.raises(InputError, match="norms cannot be recovered from float16: rounding"):
        recover_norms(half, st)
    with pytest.raises(InputError, match="from vectors stored as float16 whose values carry 4 decimals only"):
        recover_norms(np.round(renormalized(unit), 4).astype(np.float16), st)


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
        lengths = np.linalg.norm(rounded, axis=1, keepdims=True)
        errors = np.maximum(np.abs(rounded) * 2.0**-11, 2.0**-25)
        bound = rounding_bound(rounded / lengths, form, errors / lengths)
        error = np.abs(form.norms(rounded / lengths) / norms - 1)
        assert (error <= bound * (1 + 1e-9)).all()
        assert error.max() > 0.01 * bound.min()


def test_the_bound_holds_for_the_worst_signs_where_only_the_length_moves():
    exact = np.array([[0.5, 0.6, np.sqrt(1 - 0.25 - 0.36)]])
    errors = np.array([[0.0, 1e-3, 1e-3]])
    moved = exact + errors
    length = np.linalg.norm(moved)
    for form in (Constraint("plane-bound", np.array([1.0, 0.0, 0.0]), 2.0), Constraint("ellipsoid-bound", np.diag([1.0, 0.0, 0.0]), 2.0)):
        error = abs(form.norms(moved / length) / form.norms(exact) - 1)[0]
        assert error > 1e-3
        bound = rounding_bound(moved / length, form, errors / length)[0]
        assert error <= bound <= 1.1 * error


def test_whole_numbers_are_refused_before_the_model_is_looked_at():
    with pytest.raises(InputError, match="vectors hold int8: norms cannot be recovered from whole numbers"):
        recover_norms(np.ones((2, 384), dtype=np.int8), None)


def test_vectors_that_do_not_fit_are_refused(make_small):
    st = make_small()
    unit, _ = split(probe_vectors(st))
    with pytest.raises(InputError, match=r"^vectors of shape \([0-9]+, 100\) cannot be vectors of this model, which have 384 dimensions"):
        recover_norms(unit[:, :100].copy(), st)
    with pytest.raises(InputError, match="row 1 has length 2; expected 1: .*those of other vectors are their lengths"):
        recover_norms(unit * np.where(np.arange(len(unit)) == 1, 2.0, 1.0)[:, None].astype(np.float32), st)
    with pytest.raises(InputError, match=r"row 2 cannot be a vector of this model: .*norms about [0-9.]+\) its norm would be negative;"):
        recover_norms(np.where(np.arange(len(unit)) == 2, -1.0, 1.0)[:, None].astype(np.float32) * unit, st)


def test_vectors_of_another_model_are_refused_whatever_the_sign_of_what_would_come(make_small):
    st = make_small(layers=None)
    random = renormalized(np.random.default_rng(0).normal(size=(40, 384)))
    for sign in (1, -1):
        with pytest.raises(InputError, match="row 0 cannot be a vector of this model: .* its norm would be (negative|more|less)"):
            recover_norms(sign * random[:1], st)


def test_a_free_norm_cannot_be_recovered(make_small):
    st = make_small()
    torch.manual_seed(0)
    st.append(Dense(384, 384))
    unit, _ = split(probe_vectors(st, PROBE_TEXTS))
    with pytest.raises(InputError, match="norms cannot be recovered from this model's unit vectors: free: .*encode the texts again"):
        recover_norms(unit, st)
