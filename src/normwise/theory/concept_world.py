"""A synthetic concept hierarchy and the gradients it gives: general concepts have many unlike positives, specific ones few and alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.theory.simulated_gradients import Gradients
from normwise.theory.vmf_draws import SMALLEST_WIDTH, uniform_directions, vmf_directions

BRANCHING = 3
LEVELS = 5
FIRST_CONCENTRATION = 16.0
RAREST_VISIT = 0.03
_SETTLING_STEPS = 150
_SETTLING_POSITIVES = 32
_MOMENT_DRAWS = 64
_MOST_ROUNDS = 1000
_SHARE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ConceptWorld:
    """Concepts (N items) and instances (M candidates).

    Attributes:
        candidates: (M, D) unit directions of the instances, the tree's leaves.
        shares: (N, M) for each concept the distribution of its positives; rows sum to 1.
        levels: (N,) depth of the concept in the tree: 1 is general; 0 where there is no tree.
        centers: (N, D) unit direction of the concept's own node.
        visit_rates: (N,) share of steps that visit it, dealt out independently of the level.
    """

    candidates: np.ndarray
    shares: np.ndarray
    levels: np.ndarray
    centers: np.ndarray
    visit_rates: np.ndarray

    @property
    def dispersions(self) -> Float[np.ndarray, " N"]:
        """D_i = 1 - ||mean of the unit positives||^2: 0 where all positives are one."""
        means = self.shares @ self.candidates
        return 1.0 - np.einsum("nd,nd->n", means, means)


def concept_tree(*, per_level: int, width: int, seed: int) -> ConceptWorld:
    """Grow a tree whose nodes are concepts and whose leaves are instances.

    A node's direction is drawn from a von Mises-Fisher law around its parent's, with concentration 16 4^(level - 1) times a log-normal
    factor; the first level is uniform. Each node at levels 1 to 4 of 5 has three children; its positives are the leaves below it,
    uniformly. Every level gets `per_level` concepts (several of them may be names of one node), and visit rates run log-uniformly from
    0.03 to 1, dealt out by a permutation of their own inside each level: frequency and specificity are independent by design.

    Args:
        per_level: concepts of each of the four levels, >= 1.
        width: D >= 4.
        seed: of all draws.

    Returns:
        A world of N = 4 per_level concepts and M = 243 instances.

    Raises:
        InputError: a size out of range.

    Reference: our construction, after the description "concept specificity" in the abstract of Su et al. (2606.30625).

    Example:
        >>> world = concept_tree(per_level=10, width=32, seed=0)
        >>> means = [float(world.dispersions[world.levels == level].mean()) for level in (1, 2, 3, 4)]
        >>> means == sorted(means, reverse=True)
        True
    """
    if per_level < 1 or width < SMALLEST_WIDTH:
        raise InputError(f"per_level is {per_level} and width {width}; expected at least 1 and {SMALLEST_WIDTH}")
    random = np.random.default_rng(seed)
    nodes = [uniform_directions(random, BRANCHING, width)]
    for level in range(1, LEVELS):
        concentrations = FIRST_CONCENTRATION * 4.0 ** (level - 1) * np.exp(0.5 * random.standard_normal(nodes[-1].shape[0]))
        nodes.append(vmf_directions(random, nodes[-1], concentrations, count=BRANCHING).reshape(-1, width))
    leaves = nodes[-1].shape[0]
    shares, levels, centers, rates = [], [], [], []
    for level in range(1, LEVELS):
        count = nodes[level - 1].shape[0]
        below = leaves // count
        for node in np.resize(random.permutation(count), per_level):
            share = np.zeros(leaves)
            share[node * below : (node + 1) * below] = 1.0 / below
            shares.append(share)
            centers.append(nodes[level - 1][node])
        levels += [level] * per_level
        rates.append(spread_rates(per_level, random))
    return ConceptWorld(nodes[-1], np.array(shares), np.array(levels), np.array(centers), np.concatenate(rates))


def labelled_world(label_shares: Float[np.ndarray, "N M"], *, width: int, seed: int) -> ConceptWorld:
    """Return a world whose instances are M labels on orthogonal directions: items that people label more or less alike.

    Args:
        label_shares: (N, M) how people label each item; rows sum to 1. M <= D.
        width: D.
        seed: of the directions and the visit rates, which are dealt out at random.

    Returns:
        The world, without levels; an item's center is its mean label.

    Raises:
        InputError: more labels than dimensions.

    Example:
        >>> (labelled_world(np.array([[1.0, 0.0], [0.5, 0.5]]), width=4, seed=0).dispersions + 1).round(6).tolist()
        [1.0, 1.5]
    """
    count, labels = label_shares.shape
    if labels > width:
        raise InputError(f"label_shares name {labels} labels; expected at most {width}, the dimensions")
    random = np.random.default_rng(seed)
    candidates = np.linalg.qr(random.standard_normal((width, labels)))[0].T
    means = label_shares @ candidates
    centers = means / np.linalg.norm(means, axis=1, keepdims=True)
    return ConceptWorld(candidates, label_shares, np.zeros(count, dtype=np.int64), centers, spread_rates(count, random))


def spread_rates(count: int, random: np.random.Generator) -> Float[np.ndarray, " N"]:
    """Return log-uniform visit rates from 0.03 to 1 in random order.

    Example:
        >>> sorted(spread_rates(3, np.random.default_rng(0)).round(3).tolist())
        [0.03, 0.173, 1.0]
    """
    return random.permutation(np.geomspace(RAREST_VISIT, 1.0, count)) if count > 1 else np.ones(1)


@dataclass(frozen=True)
class ConceptGradients:
    """InfoNCE of free concept vectors against the world's fixed instances: a `GradientSource`.

    Equations: c_plus ~ shares_i; K negatives uniform over the `allowed` candidates other than c_plus, with replacement;
    g = -(1/tau) P_u (rho c_plus - sum_j p_j c_j), averaged over B positives.

    Args:
        candidates: (M, D) unit vectors.
        shares: (N, M) rows >= 0 that sum to 1.
        allowed: (N, M) which candidates may be negatives of an item; at least two each.
        temperature: tau > 0.
        negatives: K >= 1.
        positives: B >= 1.

    Raises:
        InputError: a value out of range.

    Reference: as `simulated_gradients.InfoNce`, with a finite set of positives in place of a von Mises-Fisher law.
    """

    candidates: np.ndarray
    shares: np.ndarray
    allowed: np.ndarray
    temperature: float
    negatives: int
    positives: int = 1
    has_loss: bool = True

    def __post_init__(self) -> None:
        if self.shares.shape != self.allowed.shape or self.shares.shape[1] != self.candidates.shape[0]:
            shapes = f"shares {self.shares.shape}, allowed {self.allowed.shape}"
            raise InputError(f"{shapes}: expected both (items, candidates), for {self.candidates.shape[0]} candidates")
        if np.any(self.shares < 0) or np.any(np.abs(self.shares.sum(axis=1) - 1.0) > _SHARE_TOLERANCE):
            raise InputError("shares: expected rows of numbers >= 0 that sum to 1")
        if np.any(self.allowed.sum(axis=1) < 2):
            raise InputError(f"allowed: item {int(np.argmin(self.allowed.sum(axis=1)))} has fewer than two negatives to draw from")
        if not self.temperature > 0 or self.negatives < 1 or self.positives < 1:
            raise InputError(f"temperature is {self.temperature}, negatives {self.negatives}, positives {self.positives}; expected > 0")

    @property
    def items(self) -> int:
        """N."""
        return self.shares.shape[0]

    @property
    def width(self) -> int:
        """D."""
        return self.candidates.shape[1]

    def draw(self, rows: np.ndarray, directions: np.ndarray, random: np.random.Generator, *, positives: int | None = None) -> Gradients:
        """Draw one gradient for each row at its direction; `positives` replaces B."""
        count = self.positives if positives is None else positives
        chosen = draw_labels(self.shares[rows], random, count=count)
        others = self._others(rows, chosen, random)
        scores = directions @ self.candidates.T
        place = np.arange(rows.size)[:, None]
        positive = scores[place, chosen] / self.temperature
        negative = scores[place[..., None], others] / self.temperature
        largest = np.maximum(positive, negative.max(axis=-1))
        weights = np.exp(negative - largest[..., None])
        of_negatives = weights.sum(axis=-1)
        total = of_negatives + np.exp(positive - largest)
        residual = of_negatives / total
        # The pull on each candidate, summed: one product with the candidates in place of a gather of vectors.
        size = self.candidates.shape[0]
        picked = np.concatenate([chosen[..., None], others], axis=-1) + (size * place)[..., None]
        pulls = np.concatenate([residual[..., None], -weights / total[..., None]], axis=-1)
        pull = np.bincount(picked.ravel(), weights=pulls.ravel(), minlength=rows.size * size).reshape(rows.size, size)
        g = pull @ self.candidates
        g -= np.einsum("nd,nd->n", g, directions)[:, None] * directions
        g *= -1.0 / (self.temperature * count)
        losses = np.log(total) + largest - positive
        return Gradients(g, (residual**2).mean(axis=1), losses.mean(axis=1))

    def _others(self, rows: np.ndarray, chosen: np.ndarray, random: np.random.Generator) -> np.ndarray:
        allowed = self.allowed[rows]
        shape = (*chosen.shape, self.negatives)
        found = random.integers(0, self.candidates.shape[0], shape)
        place = np.arange(rows.size)[:, None, None]
        for _ in range(_MOST_ROUNDS):
            bad = ~allowed[place, found] | (found == chosen[..., None])
            if not bad.any():
                return found
            found[bad] = random.integers(0, self.candidates.shape[0], int(bad.sum()))
        raise InputError("allowed leaves too few candidates to draw negatives from")


def concept_gradients(world: ConceptWorld, *, temperature: float, negatives: int, own_as_negatives: bool = False) -> ConceptGradients:
    """Return the world's gradients; an item's own positives are no negatives of it unless asked for.

    Example:
        >>> concept_gradients(concept_tree(per_level=2, width=8, seed=0), temperature=0.2, negatives=16).items
        8
    """
    allowed: Bool[np.ndarray, "N M"] = np.ones(world.shares.shape, dtype=bool) if own_as_negatives else world.shares == 0.0
    return ConceptGradients(world.candidates, world.shares, allowed, temperature, negatives)


def stationary_second_moments(source: ConceptGradients, *, start: Float[np.ndarray, "N D"], seed: int) -> Float[np.ndarray, " N"]:
    """Return G_i at the direction where the mean gradient vanishes: from the world alone, no training looked at.

    From `start`, 150 steps of averaged gradients (32 positives each, steps tau^2 / sqrt(t)) settle each direction; there, G is the mean
    ||g||^2 of 64 single draws.

    Args:
        source: the gradients.
        start: (N, D) directions to settle from, such as the mean positives.
        seed: of the draws.

    Returns:
        (N,) G_i > 0.

    Reference: the second moment of InfoNCE at its stationary direction, our derivation. In training the direction moves around that
        one, which adds to G where steps are large.

    Example:
        >>> world = concept_tree(per_level=3, width=16, seed=0)
        >>> moments = stationary_second_moments(concept_gradients(world, temperature=0.2, negatives=16), start=world.centers, seed=0)
        >>> bool(moments[:3].mean() > moments[-3:].mean())
        True
    """
    random = np.random.default_rng(seed)
    rows: Int[np.ndarray, " N"] = np.arange(source.items)
    u = start / np.linalg.norm(start, axis=1, keepdims=True)
    for step in range(_SETTLING_STEPS):
        g = source.draw(rows, u, random, positives=_SETTLING_POSITIVES).values
        u = u - source.temperature**2 / np.sqrt(step + 1.0) * g
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    squares = np.zeros(source.items)
    for _ in range(_MOMENT_DRAWS):
        g = source.draw(rows, u, random).values
        squares += np.einsum("nd,nd->n", g, g)
    return squares / _MOMENT_DRAWS


def draw_labels(shares: Float[np.ndarray, "B M"], random: np.random.Generator, *, count: int) -> Int[np.ndarray, "B K"]:
    """Draw labels from each row's distribution.

    Args:
        shares: (B, M) rows that sum to 1.
        random: source of the draws.
        count: draws for each row.

    Returns:
        (B, count) labels.

    Example:
        >>> draw_labels(np.array([[0.0, 1.0, 0.0]]), np.random.default_rng(0), count=2).tolist()
        [[1, 1]]
    """
    edges = np.cumsum(shares, axis=1)
    drawn = random.random((shares.shape[0], count)) * edges[:, -1:]
    return (edges[:, None, :] <= drawn[:, :, None]).sum(axis=-1)
