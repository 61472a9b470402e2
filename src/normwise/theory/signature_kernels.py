"""Alignment of whole kernels: signatures less the uniform softmax, which drive the flow, against embeddings with their lengths."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.alignment import NAN, Figure
from normwise.theory.permutation_moments import MatrixSums, permutation_moments

# Rounding of a kernel that centering should have made zero.
_NOTHING = 1e-12


def centered_signature_gram(
    signature: Float[np.ndarray, "A ..."], *, vocabulary: int, frequency: Float[np.ndarray, " A"] | None = None
) -> Float[np.ndarray, "A A"]:
    """Return inner products of signatures less what a uniform softmax over the vocabulary predicts.

    Equation: C_ab = r_a r_b (<phi_a, phi_b> - <s_a, s_b> / V), s_a = sum_v phi_a(v, ..), the products of phi_a - s_a / V over all V
    labels, those without a column being never the label. At order 0 s_a = 1 and the row is phi_a - 1/V: with r_a the token's frequency
    this is A A^T of the early phase, up to a factor.

    Args:
        signature: (A, Y, ...) label signatures, Y <= V; of order 0 rows sum to 1.
        vocabulary: V, the number of logits.
        frequency: (A,) weights r_a; None = all 1.

    Returns:
        (A, A), positive semidefinite; exactly zero where labels are uniform over the whole vocabulary, up to rounding.

    Raises:
        InputError: more label columns than logits.

    Reference: the early phase of the flow, our derivation.

    Example:
        >>> centered_signature_gram(np.array([[1.0, 0.0], [0.5, 0.5]]), vocabulary=2).tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    if signature.shape[1] > vocabulary:
        raise InputError(
            f"vocabulary is {vocabulary}, and the signature has {signature.shape[1]} label columns; expected at most that many"
        )
    values = signature.astype(np.float64)
    flat, sums = values.reshape(values.shape[0], -1), values.sum(axis=1).reshape(values.shape[0], -1)
    raw = flat @ flat.T
    gram = raw - sums @ sums.T / vocabulary
    # Uniform labels over the whole vocabulary leave rounding, whose directions would be taken for a kernel's.
    if np.abs(gram).max() <= _NOTHING * np.abs(raw).max():
        gram = np.zeros_like(gram)
    return gram if frequency is None else gram * frequency[:, None] * frequency


def kernel_alignment(signature_gram: Float[np.ndarray, "A A"], embedding: Float[np.ndarray, "T D"]) -> Figure:
    """Return <K, E E^T>_F / (||K||_F ||E E^T||_F), K the Gram of centered signatures: 1 where the embedding's Gram is K times a number.

    Unlike `centered_kernel_alignment` it keeps the mean over tokens, which is where order 0 stands when all signatures are equal: K is
    then of rank one, and the figure tells how far all embeddings are one direction. Mean and spread of its null are exact over all
    permutations of the tokens; the null is far from 0 where kernels have large means.

    Args:
        signature_gram: (A, A), such as `centered_signature_gram`.
        embedding: (T, D) rows of the same tokens, T = A.

    Returns:
        The figure; NaN where a kernel is zero, as that of uniform labels over the whole vocabulary.

    Example:
        >>> kernel_alignment(np.ones((3, 3)), np.array([[1.0], [1.0], [1.0]])).value
        1.0
    """
    return _aligned(signature_gram, embedding.astype(np.float64))


def centered_kernel_alignment(signature_gram: Float[np.ndarray, "A A"], embedding: Float[np.ndarray, "T D"]) -> Figure:
    """Return the linear CKA: `kernel_alignment` with both kernels centered over tokens, H K H and H E E^T H, H = I - 1 1^T / A.

    With rows that sum alike (order 0 without frequencies) it does not see the constant 1/V, which H takes out. Its null is not 0:
    centered kernels have a trace.

    Args:
        signature_gram: (A, A).
        embedding: (T, D), T = A.

    Returns:
        The figure; NaN where nothing is left of a kernel, as where all signatures are equal.

    Reference: Kornblith, Norouzi, Lee and Hinton (2019).

    Example:
        >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.2]])
        >>> round(centered_kernel_alignment(rows @ rows.T, rows + 7.0).value, 6)
        1.0
    """
    largest = float(np.abs(signature_gram).max())
    kernel = signature_gram - signature_gram.mean(axis=0)
    kernel = kernel - kernel.mean(axis=1)[:, None]
    # Rounding of what should be nothing is no kernel.
    kernel = np.where(np.abs(kernel).max() > _NOTHING * largest, kernel, 0.0)
    values = embedding.astype(np.float64)
    return _aligned(kernel, values - values.mean(axis=0))


def _aligned(kernel: np.ndarray, rows: np.ndarray) -> Figure:
    if kernel.shape != (rows.shape[0], rows.shape[0]):
        raise InputError(f"signature_gram has shape {kernel.shape} and embedding {rows.shape[0]} rows; expected one row per token in both")
    if not np.isfinite(rows).all():
        raise InputError(f"embedding: row {np.argmin(np.isfinite(rows).all(axis=1))} holds a value that is not finite; expected numbers")
    # Fourth powers of small embeddings would underflow.
    rows = rows / (float(np.abs(rows).max()) or 1.0)
    other = rows @ rows.T
    scale = float(np.linalg.norm(kernel) * np.linalg.norm(other))
    if scale == 0.0:
        return Figure(NAN, NAN, NAN)
    mean, spread = permutation_moments(MatrixSums.of(kernel), MatrixSums.of(other))
    return Figure(float(np.vdot(kernel, other)) / scale, mean / scale, spread / scale)
