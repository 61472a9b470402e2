"""Conformity: how close a vector is, on average, to the others of its modality, and what that goes with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from normwise.core.errors import InputError
from normwise.core.modality_records import ConformityReport
from normwise.core.shapes import Float
from normwise.theory.association import associations
from normwise.theory.directions import normalize

NAME = "conformity"


def conformity(x: Float[np.ndarray, "N D"], reference: Float[np.ndarray, "M D"]) -> Float[np.ndarray, " N"]:
    """Return the mean cosine of each vector to a reference set.

    Equation: c_i = mean_j cos(x_i, ref_j) = hat x_i . m = ||m|| cos(x_i, m), with m the mean of the unit vectors of the reference: a
    vector conforms as it points to their mean direction, and no more than ||m||.

    Args:
        x: (N, D) vectors; a zero vector has conformity 0.
        reference: (M, D) vectors, at least one.

    Returns:
        (N,) float64 in [-1, 1].

    Raises:
        InputError: the reference is empty or of another width, or a value is not finite.

    Reference: Levi and Gilboa, "The double-ellipsoid geometry of CLIP", arXiv 2411.14517.

    Example:
        >>> conformity(np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([[1.0, 0.0]])).tolist()
        [1.0, 0.0]
    """
    if len(reference) == 0 or x.shape[1:] != reference.shape[1:]:
        raise InputError(
            f"reference has shape {reference.shape} for vectors of shape {x.shape}: expected vectors of one width, at least one"
        )
    return normalize(x.astype(np.float64)) @ mean_direction(reference)


def mean_direction(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " D"]:
    """Return the mean of the unit vectors; its length is 1 where all point one way and near 0 where they point everywhere.

    Example:
        >>> mean_direction(np.array([[2.0, 0.0], [0.0, 5.0]])).tolist()
        [0.5, 0.5]
    """
    return normalize(x.astype(np.float64)).mean(axis=0)


def own_conformity(x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
    """Return the mean cosine of each vector to all others of the set, itself left out.

    Equation: c_i = (N hat x_i . m - 1) / (N - 1).

    Raises:
        InputError: fewer than two vectors.

    Example:
        >>> own_conformity(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])).tolist()
        [0.0, 0.5, 0.5]
    """
    rows = len(x)
    if rows < 2:
        raise InputError(f"{rows} vector(s) have no others to conform to: give at least two")
    unit = normalize(x.astype(np.float64))
    return (rows * (unit @ unit.mean(axis=0)) - np.einsum("nd,nd->n", unit, unit)) / (rows - 1)


def conformity_report(
    x: Float[np.ndarray, "N D"], log_norms: Float[np.ndarray, " N"], factors: Mapping[str, np.ndarray], *, seed: int
) -> ConformityReport:
    """Relate conformity to the norm and to factors, with the other factors held as in the report of norms.

    Args:
        x: (N, D) raw vectors of one modality, none zero.
        log_norms: (N,) their log norms.
        factors: name -> (N,) of the same rows.
        seed: of samples and of the bootstrap.

    Returns:
        The report. Exponents are left out: conformity has no law of training.

    Raises:
        InputError: as `associations`.
    """  # fmt: skip
    values = own_conformity(x)
    others = {name: value for name, value in factors.items() if name != NAME}
    against_norm = associations(log_norms, {NAME: values, **others}, seed=seed)[0]
    found = associations(values, others, seed=seed)
    return ConformityReport(
        rows=len(x),
        mean=float(values.mean()),
        std=float(values.std()),
        mean_length=float(np.linalg.norm(mean_direction(x))),
        norm=against_norm.model_copy(update={"exponent": None}),
        factors=tuple(record.model_copy(update={"exponent": None, "log_spread": None}) for record in found),
    )
