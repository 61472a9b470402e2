"""Draws for the simulated table: coordinates and directions on the sphere, von Mises-Fisher positives, Zipf visit rates."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float

SMALLEST_WIDTH = 4
_MOST_ROUNDS = 10_000


def zipf_rates(count: int, *, exponent: float, largest: float = 1.0) -> Float[np.ndarray, " N"]:
    """Return visit rates that fall with the rank as Zipf's law says.

    Equation: f_i = f_1 (i)^(-s) for rank i = 1..N.

    Args:
        count: N >= 1.
        exponent: s >= 0; 0 gives every rank the same rate.
        largest: f_1 in (0, 1], the share of steps that visit rank 1.

    Returns:
        (N,) rates in (0, 1], falling.

    Raises:
        InputError: an argument outside its range.

    Example:
        >>> zipf_rates(4, exponent=1.0).round(3).tolist()
        [1.0, 0.5, 0.333, 0.25]
    """
    if count < 1:
        raise InputError(f"count is {count}; expected at least one rank")
    if not np.isfinite(exponent) or exponent < 0:
        raise InputError(f"exponent is {exponent}; expected a finite number >= 0 (0 gives all ranks one rate)")
    if not 0 < largest <= 1:
        raise InputError(f"largest is {largest}; expected a share of the steps in (0, 1]")
    return largest * np.arange(1, count + 1, dtype=np.float64) ** -exponent


def uniform_directions(random: np.random.Generator, count: int, width: int) -> Float[np.ndarray, "N D"]:
    """Draw directions uniformly on the unit sphere: normalized Gaussian vectors.

    Args:
        random: source of the draws.
        count: N >= 0.
        width: D >= 1.

    Returns:
        (N, D) unit vectors, float64.

    Example:
        >>> uniform_directions(np.random.default_rng(0), 2, 3).shape
        (2, 3)
    """
    return _unit_in_place(random.standard_normal((count, width)))


def orthogonal_directions(random: np.random.Generator, axes: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Draw, for every unit vector, a direction uniform on the sphere orthogonal to it.

    Equation: w = P_a z / ||P_a z|| with P_a = I - a a^T and z standard Gaussian.

    Args:
        random: source of the draws.
        axes: (N, D) unit vectors a, D >= 2.

    Returns:
        (N, D) unit vectors, float64, each orthogonal to its axis.

    Example:
        >>> axis = np.array([[0.0, 0.0, 1.0]])
        >>> abs(float((orthogonal_directions(np.random.default_rng(0), axis) @ axis.T)[0, 0])) < 1e-15
        True
    """
    drawn = random.standard_normal(axes.shape)
    drawn -= np.einsum("nd,nd->n", drawn, axes)[:, None] * axes
    return _unit_in_place(drawn)


def sphere_coordinates(random: np.random.Generator, shape: tuple[int, ...], *, width: int) -> np.ndarray:
    """Draw the first coordinate of a uniform direction, without drawing the direction.

    Equation: t = sqrt(1 - U^(2/(D-2))) cos(2 pi V) with U, V uniform: the projection of the sphere to a plane has
    a radius R with 1 - R^2 ~ U^(2/(D-2)); density of t proportional to (1 - t^2)^((D-3)/2). For D = 2 the
    radius is 1.

    Args:
        random: source of the draws; the angles are drawn in float32 (resolution 2^-24 of a turn).
        shape: of the result.
        width: D >= 2.

    Returns:
        Values in [-1, 1], float64, of mean 0 and variance 1/D.

    Reference: our derivation; the same idea as Bailey's polar method for Student's t.

    Example:
        >>> draws = sphere_coordinates(np.random.default_rng(0), (20_000,), width=16)
        >>> round(float(draws.var()) * 16, 1)
        1.0
    """
    cosines = np.cos(random.random(shape, dtype=np.float32) * np.float32(2 * np.pi)).astype(np.float64)
    if width == 2:
        return cosines
    radii = random.standard_exponential(shape)
    radii *= -2.0 / (width - 2)
    np.negative(np.expm1(radii, out=radii), out=radii)
    cosines *= np.sqrt(radii, out=radii)
    return cosines


def vmf_cosines(
    random: np.random.Generator, concentrations: Float[np.ndarray, " N"], *, width: int, count: int
) -> Float[np.ndarray, "N B"]:
    """Draw the cosine between a von Mises-Fisher direction and its mean direction.

    Equation: density proportional to exp(kappa w) (1 - w^2)^((D-3)/2) on [-1, 1]; kappa = 0 is the uniform sphere.

    Args:
        random: source of the draws.
        concentrations: (N,) kappa >= 0.
        width: D >= 2.
        count: B draws for each concentration.

    Returns:
        (N, B) cosines, float64; E w = A_D(kappa) = I_{D/2}(kappa) / I_{D/2-1}(kappa).

    Reference: Wood (1994), rejection from a transformed Beta; the acceptance stays above 0.6 for every D and kappa.

    Example:
        >>> vmf_cosines(np.random.default_rng(0), np.array([0.0, 1e6]), width=32, count=1).round(3)[1].tolist()
        [1.0]
    """
    kappa = np.repeat(concentrations.astype(np.float64), count)
    half = (width - 1) / 2
    # Written so that neither end of the range of kappa cancels.
    ratio = 2 * half / (2 * kappa + np.sqrt(4 * kappa**2 + 4 * half**2))
    peak = (1 - ratio) / (1 + ratio)
    offset = kappa * peak + 2 * half * np.log1p(-(peak**2))
    result = np.empty_like(kappa)
    open_rows = np.arange(kappa.size)
    for _ in range(_MOST_ROUNDS):
        if not open_rows.size:
            return result.reshape(-1, count)
        first, second = random.standard_gamma(half, open_rows.size), random.standard_gamma(half, open_rows.size)
        beta = first / (first + second)
        a, x, k = ratio[open_rows], peak[open_rows], kappa[open_rows]
        drawn = (1 - (1 + a) * beta) / (1 - (1 - a) * beta)
        good = k * drawn + 2 * half * np.log1p(-x * drawn) - offset[open_rows] >= -random.standard_exponential(open_rows.size)
        result[open_rows[good]] = drawn[good]
        open_rows = open_rows[~good]
    raise InputError(f"no von Mises-Fisher draw was accepted in {_MOST_ROUNDS} rounds: concentrations must be finite numbers >= 0")


def vmf_directions(
    random: np.random.Generator, means: Float[np.ndarray, "N D"], concentrations: Float[np.ndarray, " N"], *, count: int
) -> Float[np.ndarray, "N B D"]:
    """Draw von Mises-Fisher directions around every mean direction.

    Equation: c = w mu + sqrt(1 - w^2) xi, w from `vmf_cosines`, xi uniform on the sphere orthogonal to mu.

    Args:
        random: source of the draws.
        means: (N, D) unit vectors mu, D >= 2.
        concentrations: (N,) kappa >= 0; a large one makes the draws alike.
        count: B draws around each mean.

    Returns:
        (N, B, D) unit vectors, float64.

    Reference: Wood (1994); Mardia and Jupp (2000), tangent-normal decomposition.

    Example:
        >>> drawn = vmf_directions(np.random.default_rng(0), np.eye(3), np.full(3, 1e8), count=2)
        >>> drawn[:, 0].round(2).tolist() == np.eye(3).tolist()
        True
    """
    cosines = vmf_cosines(random, concentrations, width=means.shape[1], count=count)
    drawn = random.standard_normal((means.shape[0], count, means.shape[1]))
    along = np.einsum("nbd,nd->nb", drawn, means)
    drawn -= along[..., None] * means[:, None, :]
    lengths = np.sqrt(np.einsum("nbd,nbd->nb", drawn, drawn))
    drawn *= (np.sqrt(np.maximum(0.0, 1.0 - cosines**2)) / lengths)[..., None]
    drawn += cosines[..., None] * means[:, None, :]
    return drawn


def _unit_in_place(vectors: np.ndarray) -> np.ndarray:
    vectors /= np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    return vectors
