"""Per-query loss weights with unit mean over the micro-batch of all processes: focal, and the controls it has to beat."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from normwise.core.config import FocalConfig, Weighting
from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Float, Int
from normwise.objectives.bigbatch import global_maximum, global_sum, world_size
from normwise.objectives.infonce import hardest_negative, infonce
from normwise.objectives.scores import full_precision, without_autocast


@dataclass(frozen=True, eq=False)
class QueryWeights:
    """Weights of the queries of this process, and two facts about the whole micro-batch; all are constants for autograd.

    Attributes:
        weights: (B,) w_i >= 0.
        mean: () mean weight over all processes: 1, or less where the cap was met.
        effective_sample_size: () (sum w)^2 / sum w^2 over all processes, with the weights that are used (after the cap).
            Small = noisy batch.
        confidence_residual: (B,) rho of the cosine confidence, where the rule used it.
    """

    weights: Float[Tensor, " B"]
    mean: Float[Tensor, ""]
    effective_sample_size: Float[Tensor, ""]
    confidence_residual: Float[Tensor, " B"] | None = None


def unit_mean_weights(log_a: Float[Tensor, " B"], *, cap: float | int | None = None) -> QueryWeights:
    """Weights of unit mean: w_i = a_i / mean(a) = N softmax(log a)_i, the mean taken over all N queries of all processes.

    Args:
        log_a: (B,) log of the raw weights of this process's queries; -inf is weight 0.
        cap: a bound on a single weight, > 1, applied last; the mean is then below 1.

    Returns:
        Detached weights. Where every a is 0 (log a = -inf everywhere) nothing tells the queries apart: all weights are 1.

    Example:
        >>> unit_mean_weights(torch.tensor([1.0, 3.0]).log()).weights
        tensor([0.5000, 1.5000])
    """
    with without_autocast(log_a):
        log_a = full_precision(log_a.detach())
        lowest = log_a.new_full((1,), -torch.inf)
        peak = global_maximum(torch.cat([lowest, log_a]).amax())
        nothing = peak == -torch.inf
        a = torch.where(nothing, 1.0, torch.exp(log_a - peak.masked_fill(nothing, 0.0)))
        sums = global_sum(torch.stack([a.sum(), a.new_tensor(float(a.numel()))]))
        weights = a * (sums[1] / sums[0])
        weights = weights if cap is None else weights.clamp(max=cap)
        used = global_sum(torch.stack([weights.sum(), weights.square().sum()]))
        return QueryWeights(weights=weights, mean=used[0] / sums[1], effective_sample_size=used[0].square() / used[1])


def focal_weights(log_residual: Float[Tensor, " B"], *, gamma: float | int, cap: float | int | None = None) -> QueryWeights:
    """Focal weights: a_i = sg[(1 - p_i)^gamma] with unit mean, computed as w = N softmax(gamma log rho).

    Working with log rho needs no epsilon and stays exact where 1 - p underflows (p > 1 - 3e-8 in float32).

    Args:
        log_residual: (B,) log rho_i = log(1 - p_i) <= 0 of the cosine confidence, as `infonce` gives it.
        gamma: focusing exponent >= 0; at 0 every weight is exactly 1.
        cap: a bound on a single weight, applied after the unit-mean step.

    Returns:
        Detached weights. A query without negatives has log rho = -inf: weight 0, unless no query of the micro-batch has
        one, or gamma is 0.

    Reference:
        PACE (arXiv 2609.15152), focal embedding loss. Under gradient accumulation the unit mean holds per micro-batch.

    Example:
        >>> focal_weights(torch.tensor([0.1, 0.2]).log(), gamma=2.0).weights
        tensor([0.4000, 1.6000])
    """
    return unit_mean_weights(_power(log_residual, gamma), cap=cap)


def query_weights(
    cosines: Float[Tensor, "B N"],
    positive: Int[Tensor, " B"],
    *,
    focal: FocalConfig,
    temperature: float | int | Tensor | None,
    excluded: Bool[Tensor, "B N"] | None = None,
    generator: torch.Generator | None = None,
) -> QueryWeights:
    """Weights of a batch from its cosines, by the rule that `focal` names; all have unit mean, then the cap.

    With rho_i the residual of softmax(cos / tau_w), s_i+ the positive's cosine and s_i- the largest cosine among the
    negatives, the raw weights are

    | weighting        | a_i                                                                        |
    |------------------|----------------------------------------------------------------------------|
    | `none`           | 1                                                                          |
    | `focal`          | rho_i^gamma                                                                |
    | `random`         | rho_pi(i)^gamma, pi a random permutation of this process's queries         |
    | `query_positive` | ((1 - s_i+)/2)^gamma, the base clamped to [0, 1]                           |
    | `query_negative` | ((1 + s_i-)/2)^gamma, the base clamped to [0, 1]; 0 without a negative     |

    The two last forms are ours: the paper names the quantities and leaves the formula out. Cosines make every rule
    blind to the norms, in both stages.

    Args:
        cosines: (B, N) cosine of each query with each candidate of the loss.
        positive: (B,) column of each row's positive.
        focal: weighting, gamma and cap.
        temperature: tau_w > 0 of the confidence; needed by `focal` and `random`.
        excluded: (B, N) the mask of the loss.
        generator: source of the permutation; needed by `random`.

    Raises:
        InputError: a needed temperature or generator is missing.

    Reference:
        PACE (arXiv 2609.15152), focal embedding loss and its alternatives by positive and by hardest negative.
    """
    with torch.no_grad(), without_autocast(cosines):
        cosines = full_precision(cosines)
        if focal.weighting not in (Weighting.FOCAL, Weighting.RANDOM):
            return unit_mean_weights(_power(_log_base(cosines, positive, focal.weighting, excluded), focal.gamma), cap=focal.cap)
        if temperature is None:
            raise InputError(
                f"temperature of the cosine confidence is needed by weighting {focal.weighting.value}, got None: set focal.temperature"
            )
        confidence = infonce(cosines / temperature, positive, excluded=excluded)
        log_residual = confidence.log_residual
        if focal.weighting is Weighting.RANDOM:
            if generator is None:
                raise InputError("weighting random needs a generator, and None came: pass a seeded torch.Generator")
            log_residual = log_residual[torch.randperm(log_residual.numel(), generator=generator).to(log_residual.device)]
        return replace(focal_weights(log_residual, gamma=focal.gamma, cap=focal.cap), confidence_residual=confidence.residual)


def _log_base(cosines: Tensor, positive: Tensor, weighting: Weighting, excluded: Tensor | None) -> Tensor:
    if weighting is Weighting.QUERY_POSITIVE:
        chosen = cosines.gather(1, positive.long().unsqueeze(1)).squeeze(1)
        return torch.log(((1.0 - chosen) / 2.0).clamp(0.0, 1.0))
    if weighting is Weighting.QUERY_NEGATIVE:
        hardest = hardest_negative(cosines, positive, excluded=excluded)
        return torch.log(((1.0 + hardest) / 2.0).clamp(0.0, 1.0))
    return torch.zeros_like(cosines[:, 0])


def _power(log_base: Tensor, gamma: float | int) -> Tensor:
    # 0 * -inf is NaN, while anything to the power 0 is 1.
    return torch.zeros_like(log_base) if gamma == 0 else gamma * log_base


def weighted_mean(loss: Float[Tensor, " B"], weights: Float[Tensor, " B"]) -> Float[Tensor, ""]:
    """Share of this process in L = (1/N) sum_i w_i l_i over the N queries of all processes.

    Each process gives world_size * (its part of the sum) / N, since DDP averages gradients over processes; batches of
    unequal size therefore count by query, not by process.

    Args:
        loss: (B,) loss of each query of this process.
        weights: (B,) their weights.

    Returns:
        () scalar; the mean over processes is L.

    Example:
        >>> weighted_mean(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 1.5]))
        tensor(2.5000)
    """
    with without_autocast(loss):
        count = global_sum(loss.new_tensor(float(loss.numel())))
        return world_size() * (weights * loss).sum() / count
