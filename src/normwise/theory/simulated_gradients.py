"""Where the simulated table's gradients come from: InfoNCE on von Mises-Fisher positives, or pure tangential noise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.vmf_draws import SMALLEST_WIDTH, orthogonal_directions, sphere_coordinates, vmf_cosines, vmf_directions

_BLOCK_VALUES = 1 << 21
_UNIT_TOLERANCE = 1e-9
# Below it (across ~ 1e-6) the plane of two directions drowns in rounding.
_SAME_DIRECTION = 1e-6
_Pulls = tuple[np.ndarray, np.ndarray, np.ndarray]


class NegativeKind(StrEnum):
    """Which directions a negative has: `uniform` on the sphere, or the mean direction of another item of the table."""

    UNIFORM = "uniform"
    ITEM_MEANS = "item_means"


@dataclass(frozen=True)
class Gradients:
    """One draw for each asked row.

    Attributes:
        values: (B, D) tangential gradients g = P_u grad_{hat u} loss, averaged over the row's positives.
        hardness: (B,) mean over the positives of rho^2 = (1 - p_plus)^2; NaN where the source has no positive.
        losses: (B,) mean loss over the positives; NaN where the source has no loss.
    """

    values: np.ndarray
    hardness: np.ndarray
    losses: np.ndarray


@runtime_checkable
class GradientSource(Protocol):
    """A law of the tangential gradients of N items of width D, independent between items and between draws."""

    @property
    def items(self) -> int:
        """N."""
        ...

    @property
    def width(self) -> int:
        """D."""
        ...

    @property
    def has_loss(self) -> bool:
        """Whether the draws have a loss."""
        ...

    def draw(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, *, positives: int | None = None) -> Gradients:
        """Draw one gradient for each of the given rows at its present direction."""
        ...


@dataclass(frozen=True)
class PureNoise:
    """Gaussian gradients in the tangent space, without any signal.

    Equation: g = sqrt(G_i / (D - 1)) P_u z with z standard Gaussian, so E g = 0 and E ||g||^2 = G_i.

    Args:
        second_moments: (N,) G_i > 0.
        width: D >= 4.

    Raises:
        InputError: a value outside its range.
    """

    second_moments: np.ndarray
    width: int
    has_loss: bool = False

    def __post_init__(self) -> None:
        _check_width(self.width)
        _check_per_item("second_moments", self.second_moments, lowest=0.0, strictly=True)

    @property
    def items(self) -> int:
        """N."""
        return self.second_moments.size

    def draw(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, *, positives: int | None = None) -> Gradients:
        """Draw a gradient for each row; `positives` changes nothing, as there are none."""
        noise = random.standard_normal(directions.shape)
        noise -= np.einsum("nd,nd->n", noise, directions)[:, None] * directions
        noise *= np.sqrt(self.second_moments[rows] / (self.width - 1))[:, None]
        undefined = np.full(rows.size, np.nan)
        return Gradients(noise, undefined, undefined)


@dataclass(frozen=True)
class InfoNce:
    """InfoNCE of a free anchor with von Mises-Fisher positives: each positive meets its own K fresh negatives.

    Equations, with hat u the anchor's direction, c_plus ~ vMF(mu_i, kappa_i), logits s / tau and p their softmax:

        g = -(1/tau) P_u (rho c_plus - sum_j p_j c_j),   rho = 1 - p_plus,   averaged over B positives.

    Args:
        means: (N, D) unit vectors mu_i, D >= 4.
        concentrations: (N,) kappa_i >= 0; a large one is a specific item.
        temperature: tau > 0.
        negatives: K >= 1 for each positive.
        kind: `uniform` directions, or the mean directions of other items drawn uniformly with replacement.
        positives: B >= 1, the positives of an item that one step averages over.

    Raises:
        InputError: a value outside its range.

    Reference: the gradient of InfoNCE on the unit sphere, our derivation. For uniform negatives no vector is drawn but
        the one of the sum, since independent isotropic vectors add up to an isotropic one whose length follows from
        cosines alone; this is exact in distribution and many times cheaper.
    """

    means: np.ndarray
    concentrations: np.ndarray
    temperature: float
    negatives: int
    kind: NegativeKind = NegativeKind.UNIFORM
    positives: int = 1
    has_loss: bool = True

    def __post_init__(self) -> None:
        if self.means.ndim != 2:
            raise InputError(f"means have shape {self.means.shape}; expected (items, width)")
        _check_width(self.width)
        _check_per_item("concentrations", self.concentrations, lowest=0.0, strictly=False)
        if self.concentrations.size != self.items:
            raise InputError(f"concentrations are {self.concentrations.size} for {self.items} means: give one for each item")
        lengths = np.sqrt(np.einsum("nd,nd->n", self.means, self.means))
        bad = np.flatnonzero(~(np.abs(lengths - 1) < _UNIT_TOLERANCE))
        if bad.size:
            raise InputError(f"means: item {bad[0]} has length {lengths[bad[0]]}; expected unit vectors (normalize them first)")
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise InputError(f"temperature is {self.temperature}; expected a finite number > 0")
        if self.negatives < 1 or self.positives < 1:
            raise InputError(f"negatives are {self.negatives} and positives {self.positives}; expected at least 1 of each")
        if self.kind is NegativeKind.ITEM_MEANS and self.items < 2:
            raise InputError("negatives from other items' means need at least 2 items: add items, or use uniform negatives")

    @property
    def items(self) -> int:
        """N."""
        return self.means.shape[0]

    @property
    def width(self) -> int:
        """D."""
        return self.means.shape[1]

    def draw(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, *, positives: int | None = None) -> Gradients:
        """Draw a gradient for each row.

        Args:
            rows: (B,) items.
            directions: (B, D) their unit vectors hat u.
            random: source of the draws.
            positives: in place of the source's own number, as for a probe.

        Returns:
            Gradients averaged over the positives.
        """
        count = self.positives if positives is None else positives
        values_each = count * self.negatives * (1 if self.kind is NegativeKind.UNIFORM else self.width)
        size = max(1, _BLOCK_VALUES // values_each)
        parts = [
            self._draw_block(rows[start : start + size], directions[start : start + size], random, count)
            for start in range(0, max(1, rows.size), size)
        ]
        if len(parts) == 1:
            return parts[0]
        return Gradients(*(np.concatenate(part) for part in zip(*((p.values, p.hardness, p.losses) for p in parts), strict=True)))

    def _draw_block(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, count: int) -> Gradients:
        draw = self._with_uniform if self.kind is NegativeKind.UNIFORM else self._with_item_means
        pulls, residuals, losses = draw(rows, directions, random, count)
        pulls *= -1.0 / (self.temperature * count)
        return Gradients(pulls, (residuals**2).mean(axis=1), losses.mean(axis=1))

    def _with_uniform(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, count: int) -> _Pulls:
        """Draw cosines only: beyond the plane of hat u and mu all parts are isotropic, and their sum has one direction."""
        plane = _Plane.through(directions, self.means[rows], random)
        along, across = plane.along[:, None], plane.across[:, None]
        cosines = vmf_cosines(random, self.concentrations[rows], width=self.width, count=count)
        sines = np.sqrt(np.maximum(0.0, 1.0 - cosines**2))
        joints = sphere_coordinates(random, (rows.size, count + count * self.negatives), width=self.width - 1)
        # Around mu, the positive's tangent has the coordinate t in the plane (where -across hat u + along axis is orthogonal to mu).
        t, share = joints[:, :count], joints[:, count]
        positives = cosines * along - sines * t * across
        negatives = sphere_coordinates(random, (rows.size, count, self.negatives), width=self.width)
        residuals, weights, losses = _softmax(positives / self.temperature, negatives / self.temperature)
        lengths = weights * np.sqrt(np.maximum(0.0, 1.0 - negatives**2))
        push = _isotropic_length(lengths.reshape(rows.size, -1), joints[:, count + 1 :])
        in_plane = (residuals * (cosines * across + sines * t * along)).sum(axis=1) + push * share
        outside = np.column_stack([residuals * sines * np.sqrt(1.0 - t**2), push * np.sqrt(1.0 - share**2)])
        length = _isotropic_length(outside, sphere_coordinates(random, (rows.size, count), width=self.width - 2))
        return plane.vectors(in_plane, length, random), residuals, losses

    def _with_item_means(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, count: int) -> _Pulls:
        positive = vmf_directions(random, self.means[rows], self.concentrations[rows], count=count)
        others = self._other_items(rows, (count, self.negatives), random)
        positives = np.einsum("nbd,nd->nb", positive, directions)
        negatives = np.einsum("nbkd,nd->nbk", others, directions)
        residuals, weights, losses = _softmax(positives / self.temperature, negatives / self.temperature)
        pulls = np.einsum("nb,nbd->nd", residuals, positive) - np.einsum("nbk,nbkd->nd", weights, others)
        pulls -= np.einsum("nd,nd->n", pulls, directions)[:, None] * directions
        return pulls, residuals, losses

    def _other_items(self, rows: np.ndarray, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
        drawn = random.integers(0, self.items - 1, (rows.size, *shape))
        return self.means[drawn + (drawn >= rows[:, None, None])]


def specificity_source(
    concentrations: Float[np.ndarray, " N"], random: np.random.Generator, *, width: int, temperature: float = 0.2, negatives: int = 16
) -> InfoNce:
    """Return an InfoNCE source whose mean directions are drawn uniformly, with uniform negatives and one positive a step.

    Args:
        concentrations: (N,) kappa_i >= 0.
        random: source of the mean directions.
        width: D >= 4.
        temperature: tau > 0.
        negatives: K >= 1.

    Returns:
        The source; `dataclasses.replace` changes its other fields.

    Example:
        >>> specificity_source(np.array([5.0, 80.0]), np.random.default_rng(0), width=8).items
        2
    """
    _check_width(width)
    axes = random.standard_normal((concentrations.size, width))
    return InfoNce(axes / np.linalg.norm(axes, axis=1, keepdims=True), concentrations, temperature=temperature, negatives=negatives)


@dataclass(frozen=True)
class _Plane:
    """For each row the plane of hat u and mu: mu = along hat u + across axis, with a unit axis orthogonal to hat u."""

    directions: np.ndarray
    second: np.ndarray
    second_along: np.ndarray
    second_across: np.ndarray
    along: np.ndarray
    across: np.ndarray

    @classmethod
    def through(cls, directions: np.ndarray, means: np.ndarray, random: np.random.Generator) -> _Plane:
        along = np.einsum("nd,nd->n", directions, means)
        across = np.sqrt(np.maximum(0.0, 1.0 - along**2))
        second_along, second_across = along.copy(), across.copy()
        same = np.flatnonzero(across < _SAME_DIRECTION)
        if same.size:  # where mu is hat u itself, any axis does
            means[same] = orthogonal_directions(random, directions[same])
            second_along[same], second_across[same] = 0.0, 1.0
        return cls(directions, means, second_along, second_across, along, across)

    def vectors(self, in_plane: np.ndarray, outside: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Vectors orthogonal to hat u: `in_plane` along the axis, and of length `outside` in a uniform direction beyond the plane."""
        drawn = random.standard_normal(self.directions.shape)
        on_direction = np.einsum("nd,nd->n", drawn, self.directions)
        on_axis = (np.einsum("nd,nd->n", drawn, self.second) - self.second_along * on_direction) / self.second_across
        scale = outside / np.sqrt(np.einsum("nd,nd->n", drawn, drawn) - on_direction**2 - on_axis**2)
        # The axis is (second - second_along hat u) / second_across; written out, as every array of this size costs.
        of_second = (in_plane - scale * on_axis) / self.second_across
        drawn *= scale[:, None]
        part = np.multiply(self.directions, (scale * on_direction + of_second * self.second_along)[:, None])
        drawn -= part
        drawn += np.multiply(self.second, of_second[:, None], out=part)
        return drawn


def _softmax(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals rho (n, b), the negatives' probabilities (n, b, k) and losses -log p_plus (n, b), without overflow."""
    largest = np.maximum(positive, negative.max(axis=-1))
    weights = np.exp(negative - largest[..., None])
    of_negatives = weights.sum(axis=-1)
    total = of_negatives + np.exp(positive - largest)
    weights /= total[..., None]
    return of_negatives / total, weights, np.log(total) + largest - positive


def _isotropic_length(lengths: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """Length of the sum of n independent isotropic vectors of given lengths (rows, n), added in pairs.

    |a + b|^2 = |a|^2 + |b|^2 + 2 |a| |b| t, with t the cosine of two independent directions; a sum of isotropic vectors
    is isotropic again, so that it can be added in turn. `cosines` (rows, n - 1) are such t.
    """
    used = 0
    while lengths.shape[1] > 1:
        half = lengths.shape[1] // 2
        first, second, rest = lengths[:, :half], lengths[:, half : 2 * half], lengths[:, 2 * half :]
        squares = first**2 + second**2 + 2 * first * second * cosines[:, used : used + half]
        merged = np.sqrt(np.maximum(0.0, squares))
        lengths = np.concatenate([merged, rest], axis=1) if rest.shape[1] else merged
        used += half
    return lengths[:, 0]


def _check_width(width: int) -> None:
    if width < SMALLEST_WIDTH:
        raise InputError(f"width is {width}; expected at least {SMALLEST_WIDTH} dimensions, two of them beside any plane")


def _check_per_item(name: str, values: np.ndarray, *, lowest: float, strictly: bool) -> None:
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"{name} have shape {values.shape}; expected one number for each item")
    good = np.isfinite(values) & ((values > lowest) if strictly else (values >= lowest))
    if not good.all():
        item = int(np.flatnonzero(~good)[0])
        bound = ">" if strictly else ">="
        raise InputError(f"{name}: item {item} has {values[item]}; expected a finite number {bound} {lowest:g}")
