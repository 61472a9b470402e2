"""Raw norms from vectors that were stored normalized, where the encoder's ending ties the norm to the direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError
from normwise.models.freedom import Constraint, ending, norm_freedom, terminal_norm
from normwise.models.probe import PROBE_TEXTS
from normwise.models.structure import strip_normalize
from normwise.theory.norm_summary import Rows, row_blocks

# A norm that is known to less than this says little, since norms of one encoder differ by some percent.
LARGEST_BOUND = 1e-2
_UNIT = 1e-2
_AGAIN = "encode the texts again and keep the raw vectors"


@dataclass(frozen=True)
class RecoveredNorms:
    """Norms with what they may be wrong by.

    `norms` (N,) float64. `bound` is the largest relative error that rounding to the stored type can have caused, over all
    rows, and `bound_median` its median; `model_error` the largest relative error of the closed form on the encoder's own
    float32 vectors of the probe texts. `words` name the closed form.
    """

    norms: np.ndarray
    bound: float
    bound_median: float
    model_error: float
    words: str


def closed_form(st: SentenceTransformer) -> tuple[Constraint, float, str]:
    """Find the equation that ties this encoder's norm to its direction, and how exactly its own vectors meet it.

    Args:
        st: the encoder; a `Normalize` module at its end is taken away, in place.

    Returns:
        The constraint, its largest relative error on the probe texts, and the words of the gate `norm_freedom`.

    Raises:
        InputError: no closed form binds the norm, so that unit vectors do not contain it.
    """
    strip_normalize(st)
    report = norm_freedom(st)
    error = report.figures["closed_form_error"]
    _, constraint, _ = ending(st, terminal_norm(st, PROBE_TEXTS[:4]))
    if report.passed or constraint is None or error is None:
        raise InputError(f"norms cannot be recovered from this model's unit vectors: {report.words}; {_AGAIN}")
    return constraint, error, report.words


def recover_norms(rows: Rows, st: SentenceTransformer, *, epsilon: float | None = None) -> RecoveredNorms:
    """Give the norms back that vectors had before they were divided by them.

    Equations: with n . z = c for every raw vector z (LayerNorm with bias, an average over tokens), r = c / (n . hat z);
    with ||M z|| = c (one token of an RMSNorm), r = c / ||M hat z||. What is stored is divided by its own length first, so
    that an error of the stored length does not enter. Rounding moves coordinate i by at most
    e_i = max(|hat z_i| eps / 2, tiny / 2), tiny the smallest positive number of the type, hence

        |r'/r - 1| <= sum_i |n_i| e_i / |n . hat z|        or        || |M| e || / ||M hat z||.

    Args:
        rows: (N, D) unit vectors of this encoder: float16, float32 or float64.
        st: the encoder; a `Normalize` module at its end is taken away, in place.
        epsilon: of the type the vectors were stored in, when that is coarser than the one they are given in (bfloat16).

    Returns:
        The norms, with the bound. float32 vectors of all-MiniLM: about 2e-7.

    Raises:
        InputError: the norm is free in this encoder; another width; whole numbers (int8); a vector that is not of unit
            length or not of this encoder; or a bound above 1%, as float16 can have, whose small coordinates are lost.

    Reference: our derivation (`norm_freedom`); the double ellipsoid of Levi and Gilboa (2411.14517).
    """
    if rows.dtype.kind != "f":
        raise InputError(
            f"vectors hold {rows.dtype}: norms cannot be recovered from whole numbers, whose small coordinates are lost; {_AGAIN}"
        )
    constraint, model_error, words = closed_form(st)
    width = constraint.form.shape[-1]
    if len(rows.shape) != 2 or rows.shape[1] != width:
        raise InputError(f"vectors have shape {tuple(rows.shape)}; this model's have {width} dimensions: name the model that made them")
    norms, bounds = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    for part in row_blocks(rows.shape[0], rows.shape[1]):
        block = np.asarray(rows[part])
        norms[part], bounds[part] = _of_block(block, constraint, first=part.start, epsilon=epsilon)
    worst = int(np.argmax(bounds))
    if not bounds[worst] <= LARGEST_BOUND:
        raise InputError(
            f"row {worst}: rounding to {rows.dtype} leaves its norm uncertain by up to {bounds[worst]:.2g} of its size (half of the rows: "
            f"{float(np.median(bounds)):.2g}); at most {LARGEST_BOUND:g} is accepted: store unit vectors in float32, or {_AGAIN}"
        )
    return RecoveredNorms(norms, float(bounds[worst]), float(np.median(bounds)), model_error, words)


def rounding_bound(directions: np.ndarray, constraint: Constraint, *, epsilon: float, tiny: float) -> np.ndarray:
    """Return the largest relative error that rounding of unit vectors gives to norms from a closed form.

    Args:
        directions: (n, D) float64.
        constraint: the closed form.
        epsilon: of the stored type.
        tiny: its smallest positive number.

    Returns:
        (n,); see `recover_norms`.
    """
    errors = np.maximum(np.abs(directions) * (epsilon / 2.0), tiny / 2.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if constraint.kind == "plane-bound":
            return (errors @ np.abs(constraint.form)) / np.abs(directions @ constraint.form)
        return np.linalg.norm(errors @ np.abs(constraint.form).T, axis=1) / np.linalg.norm(directions @ constraint.form.T, axis=1)


def _of_block(block: np.ndarray, constraint: Constraint, *, first: int, epsilon: float | None) -> tuple[np.ndarray, np.ndarray]:
    kind = np.finfo(block.dtype)
    values = block.astype(np.float64)
    lengths = np.linalg.norm(values, axis=1)
    off = np.flatnonzero(~(np.abs(lengths - 1.0) <= _UNIT))
    if off.size:
        raise InputError(
            f"row {first + int(off[0])} has length {lengths[off[0]]:.6g}; expected 1: norms are recovered from normalized vectors only "
            "(those of other vectors are their lengths)"
        )
    directions = values / lengths[:, None]
    norms = constraint.norms(directions)
    bounds = rounding_bound(directions, constraint, epsilon=epsilon or float(kind.eps), tiny=float(kind.smallest_subnormal))
    known = bounds <= LARGEST_BOUND
    wrong = np.flatnonzero(known & ~(np.isfinite(norms) & (norms > 0.0)))
    if wrong.size:
        raise InputError(
            f"row {first + int(wrong[0])} is no vector of this model: its norm would be {norms[wrong[0]]:.3g}; name the model that made it"
        )
    return norms, np.where(np.isnan(bounds), np.inf, bounds)
