"""Raw norms from vectors that were stored normalized, where the encoder's ending ties the norm to the direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError
from normwise.models.freedom import Constraint, ending, norm_freedom, terminal_norm
from normwise.models.probe import PROBE_TEXTS
from normwise.models.structure import strip_normalize
from normwise.theory.carried_precision import CarriedPrecision, carried_precision, distinct_levels
from normwise.theory.norm_summary import Rows, row_blocks

# A norm that is known to less than this says little, since norms of one encoder differ by some percent.
LARGEST_BOUND = 1e-2
_UNIT = 1e-2
# Norms of one encoder differ by a few times at most; an equation that is not theirs gives anything.
_FARTHEST = 100.0
_SAMPLE = 512
_ENOUGH_ROWS = 8
_DECIMALS_SHOW = 2.0**20
_AGAIN = "encode the texts again and keep the raw vectors"
_STORE = f"normalize in float32 and store that as it is, or {_AGAIN}"


@dataclass(frozen=True)
class RecoveredNorms:
    """Norms with what they may be wrong by.

    `norms` (N,) float64. `bound` is the largest relative error that rounding can have caused, by the precision that the
    values themselves carry, over all rows, and `bound_median` its median; `precision` names the coarsest one. `model_error`
    is the largest relative error of the closed form on the encoder's own vectors of the probe texts. `words` name the closed
    form.
    """

    norms: np.ndarray
    bound: float
    bound_median: float
    model_error: float
    words: str
    precision: str


@dataclass(frozen=True)
class ClosedForm:
    """The equation of an encoder, its largest relative error and the mean norm on the probe texts, and what it is in words."""

    constraint: Constraint
    error: float
    norm: float
    words: str


@dataclass(frozen=True)
class _Evidence:
    """What a sample of rows tells about all: their precision as one, the length that they share, the file's name."""

    whole: CarriedPrecision
    length: float
    stored: str
    epsilon: float | None
    where: str


def closed_form(st: SentenceTransformer) -> ClosedForm:
    """Find the equation that ties this encoder's norm to its direction, and how exactly its own vectors meet it.

    Args:
        st: the encoder; a `Normalize` module at its end is taken away, in place.

    Returns:
        The closed form, with the words of the gate `norm_freedom`.

    Raises:
        InputError: no closed form binds the norm, so that unit vectors do not contain it.
    """
    strip_normalize(st)
    report = norm_freedom(st)
    error, norm = report.figures["closed_form_error"], report.figures["norm_mean"]
    _, constraint, _ = ending(st, terminal_norm(st, PROBE_TEXTS[:4]))
    if report.passed or constraint is None or error is None or norm is None:
        raise InputError(f"norms cannot be recovered from this model's unit vectors: {report.words}; {_AGAIN}")
    return ClosedForm(constraint, error, norm, report.words)


def recover_norms(rows: Rows, st: SentenceTransformer, *, epsilon: float | None = None, model: str = "this model") -> RecoveredNorms:
    """Give the norms back that vectors had before they were divided by them.

    Equations: with n . z = c for every raw vector z (LayerNorm with bias, an average over tokens), r = c / (n . hat z);
    with ||M z|| = c (one token of an RMSNorm), r = c / ||M hat z||. What is stored is divided by its own length first, so
    that an error of the stored length does not enter. The errors e_i of the coordinates are those of the precision that the
    values carry (`carried_precision`), not of the type they came in; `rounding_bound` says what they do to the norm.

    Args:
        rows: (N, D) unit vectors of this encoder: float16, float32 or float64.
        st: the encoder; a `Normalize` module at its end is taken away, in place.
        epsilon: of a type that the vectors are known to have passed, when that is coarser than the one they are given in.
        model: what messages call the encoder.

    Returns:
        The norms, with the bound. float32 vectors of all-MiniLM: about 3e-7.

    Raises:
        InputError: the norm is free in this encoder; another width; whole numbers (int8), values that were quantized, or
            lengths that rounding does not explain, for none of which a bound is known; a vector that is not of unit length
            or not of this encoder; or a bound above 1%, as float16 can have, whose small coordinates are lost.

    Reference: our derivation (`norm_freedom`); the double ellipsoid of Levi and Gilboa (2411.14517).
    """
    if rows.dtype.kind != "f":
        raise InputError(
            f"vectors hold {rows.dtype}: norms cannot be recovered from whole numbers, whose small coordinates are lost; {_AGAIN}"
        )
    form = closed_form(st)
    width = form.constraint.form.shape[-1]
    if len(rows.shape) != 2 or rows.shape[1] != width:
        whose = _file_of(rows) or "vectors"
        raise InputError(
            f"{whose} of shape {tuple(rows.shape)} cannot be vectors of {model}, which have {width} dimensions: name the model that "
            "made them"
        )
    evidence = _of_sample(rows, epsilon)
    norms, bounds = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    coarsest, name = -1.0, ""
    for part in row_blocks(rows.shape[0], rows.shape[1]):
        norms[part], bounds[part], names = _of_block(np.asarray(rows[part]), form, evidence, first=part.start, model=model)
        worst = int(np.argmax(bounds[part]))
        if bounds[part][worst] > coarsest:
            coarsest, name = float(bounds[part][worst]), names.name(worst)
    name = evidence.whole.name(0) if evidence.whole.decimals[0] or evidence.whole.digits[0] else name
    if not coarsest <= LARGEST_BOUND:
        raise InputError(_too_coarse(bounds, evidence, name))
    return RecoveredNorms(norms, coarsest, float(np.median(bounds)), form.error, form.words, name)


def rounding_bound(directions: np.ndarray, constraint: Constraint, errors: np.ndarray) -> np.ndarray:
    """Return the largest relative error that errors of unit vectors give to norms from a closed form.

    Equations: with |u_i - hat z_i| <= e_i, the form moves by at most A = sum_i |n_i| e_i / |n . u|, or by
    A = || |M| e || / ||M u||, relative to itself, and the length of u by L = sum_i |u_i| e_i + sum_i e_i^2 / 2; hence

        |r'/r - 1| <= (1 + A) (1 + L) - 1.

    Args:
        directions: (n, D) float64, u.
        constraint: the closed form.
        errors: (n, D), e >= 0.

    Returns:
        (n,); infinite or NaN where the form of a direction is 0.

    Reference: ours.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if constraint.kind == "plane-bound":
            moved = (errors @ np.abs(constraint.form)) / np.abs(directions @ constraint.form)
        else:
            moved = np.linalg.norm(errors @ np.abs(constraint.form).T, axis=1) / np.linalg.norm(directions @ constraint.form.T, axis=1)
        along = (np.abs(directions) * errors).sum(axis=1)
        shrunk = np.where(along < 0.5, 1.0 / np.sqrt(1.0 - 2.0 * along) - 1.0, np.inf)
        scaled = np.maximum(shrunk, along + 0.5 * (errors * errors).sum(axis=1))
        return moved + scaled + moved * scaled


def _file_of(rows: Rows) -> str:
    path = getattr(rows, "path", None)
    return path.name if isinstance(path, Path) else ""


def _of_sample(rows: Rows, epsilon: float | None) -> _Evidence:
    """Judge some hundred rows together; refuse them where they show a rounding whose size is not known."""
    count = rows.shape[0]
    sample = np.asarray(rows[np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64))])
    file = _file_of(rows)
    where = f"{file}, " if file else ""
    # Copies of a row would meet in every value.
    usable = np.unique(sample[np.isfinite(sample).all(axis=1) & sample.any(axis=1)], axis=0)
    lengths = np.linalg.norm(usable.astype(np.float64), axis=1)
    good = usable[np.abs(lengths - 1.0) <= _UNIT]
    if not good.size:
        raise InputError(_no_unit(sample[0], float(np.linalg.norm(sample[0].astype(np.float64))), f"{where}row 0"))
    length = float(np.median(lengths)) if len(good) >= _ENOUGH_ROWS else 1.0
    each, whole = _carried(good, epsilon), _carried(good.reshape(1, -1), epsilon)
    # Few decimals make small values meet as well, and coarser rows than most do in their own way: both errors are known.
    usual = float(np.median(each.epsilon))
    told = np.where(np.abs(good) < _DECIMALS_SHOW * whole.step, 0.0, good)[each.epsilon <= usual]
    levels = distinct_levels(told, epsilon=usual)
    if levels is not None:
        raise InputError(
            f"{where}stored as {rows.dtype}, but its values meet as often as if there were only about {levels:,.0f} of them: they were "
            "quantized, or normalized again after half precision, which moved them by an amount that is not told, so norms cannot be "
            f"recovered; {_STORE}"
        )
    return _Evidence(whole, length, str(rows.dtype), epsilon, where)


def _carried(values: np.ndarray, epsilon: float | None) -> CarriedPrecision:
    """Their precision, without the name of decimals that are finer than the type's own smallest step: all its numbers have those."""
    found = carried_precision(values, epsilon=epsilon)
    finer = 10.0**-found.decimals < float(np.finfo(values.dtype).smallest_subnormal)
    return replace(found, decimals=np.where(finer, 0, found.decimals))


def _of_block(
    block: np.ndarray, form: ClosedForm, evidence: _Evidence, *, first: int, model: str
) -> tuple[np.ndarray, np.ndarray, CarriedPrecision]:
    values = block.astype(np.float64)
    lengths = np.linalg.norm(values, axis=1)
    off = np.flatnonzero(~(np.abs(lengths - 1.0) <= _UNIT))
    if off.size:
        raise InputError(_no_unit(block[off[0]], float(lengths[off[0]]), f"{evidence.where}row {first + int(off[0])}"))
    carried = _carried(block, evidence.epsilon)
    errors = np.maximum(carried.errors(values), evidence.whole.errors(values)) / lengths[:, None]
    directions = values / lengths[:, None]
    _refuse_lengths(lengths, (np.abs(directions) * errors).sum(axis=1), evidence, first=first, width=block.shape[1])
    norms = form.constraint.norms(directions)
    bounds = rounding_bound(directions, form.constraint, errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        likely = (norms > form.norm / _FARTHEST) & (norms < form.norm * _FARTHEST)
    wrong = np.flatnonzero((bounds <= LARGEST_BOUND) & ~likely)
    if wrong.size:
        raise InputError(
            f"{evidence.where}row {first + int(wrong[0])} cannot be a vector of {model}: by the equation that its own vectors meet (norms "
            f"about {form.norm:.3g}) its norm would be {_absurd(float(norms[wrong[0]]), form.norm)}; name the model that made it"
        )
    return norms, np.where(np.isnan(bounds), np.inf, bounds), carried


def _absurd(norm: float, usual: float) -> str:
    """What is wrong with a norm, without its number, which would say nothing.

    Example:
        >>> _absurd(-1.7e-29, 5.0), _absurd(1e-3, 5.0), _absurd(1e9, 5.0)
        ('negative', 'less than 1/100 of that', 'more than 100 times that')
    """
    if norm < 0.0:
        return "negative"
    return f"less than 1/{_FARTHEST:.0f} of that" if norm < usual else f"more than {_FARTHEST:.0f} times that"


def _no_unit(row: np.ndarray, length: float, where: str) -> str:
    if row.any() and np.isfinite(row).all() and (row == np.rint(row)).all():
        return f"{where} holds whole numbers, which quantization to int8 leaves: small coordinates are lost, and norms with them; {_AGAIN}"
    if not length > 0.0:
        came = "is a zero vector" if length == 0.0 else "holds a value that is not finite"
        return f"{where} {came}; expected a vector of length 1: drop that row"
    return (
        f"{where} has length {length:.6g}; expected 1: norms are recovered from normalized vectors only (those of other vectors are "
        "their lengths)"
    )


def _refuse_lengths(lengths: np.ndarray, rounding: np.ndarray, evidence: _Evidence, *, first: int, width: int) -> None:
    """Refuse rows whose length is not that of the others, and not by the rounding that their values show."""
    # Half-precision arithmetic rounds the length it divides by as well; float32 sums of D squares err by some sqrt(D) units.
    allowed = 4.0 * rounding + 2.0**-23 * (4.0 + width**0.5)
    beyond = np.flatnonzero(np.abs(lengths - evidence.length) > allowed)
    if beyond.size:
        row = int(beyond[0])
        raise InputError(
            f"{evidence.where}row {first + row} has length {lengths[row]:.7g}, and {evidence.length:.7g} was expected up to "
            f"{allowed[row]:.1g}, by the precision of its values: they were rounded more coarsely before they were stored as "
            f"{evidence.stored}, by how much is not told, so norms cannot be recovered; {_STORE}"
        )


def _too_coarse(bounds: np.ndarray, evidence: _Evidence, name: str) -> str:
    row, count = int(np.argmax(bounds)), int((bounds > LARGEST_BOUND).sum())
    stored = evidence.stored
    carried = (
        stored if name == stored else f"vectors stored as {stored} whose values carry {name}{' precision' if name.isalnum() else ' only'}"
    )
    lost = (
        "can have changed its norm by as much as the norm itself"
        if bounds[row] >= 0.5
        else f"can have changed its norm by {bounds[row]:.1%}"
    )
    return (
        f"{evidence.where}row {row}: norms cannot be recovered from {carried}: rounding {lost} (more than the accepted "
        f"{LARGEST_BOUND:.0%} in {count:,} of {bounds.size:,} rows); {_STORE}"
    )
