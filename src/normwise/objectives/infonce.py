"""InfoNCE and its decoupled form over a matrix of logits: one positive per row, everything else a negative."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from normwise.core.shapes import Bool, Float, Int
from normwise.objectives.scores import full_precision, without_autocast

_NOTHING = -torch.inf


@dataclass(frozen=True, eq=False)
class InfoNCE:
    """What a contrastive softmax says about each query; every field carries its gradient.

    Attributes:
        loss: (B,) loss of each query, in nats.
        positive_probability: (B,) p, the softmax probability of the positive, in [0, 1].
        residual: (B,) rho = 1 - p, computed without the subtraction.
        log_residual: (B,) log rho <= 0; -inf for a row without negatives.
    """

    loss: Float[Tensor, " B"]
    positive_probability: Float[Tensor, " B"]
    residual: Float[Tensor, " B"]
    log_residual: Float[Tensor, " B"]


def infonce(logits: Float[Tensor, "B N"], positive: Int[Tensor, " B"], *, excluded: Bool[Tensor, "B N"] | None = None) -> InfoNCE:
    """InfoNCE: l_i = -log p_i with p_i = exp(z_i+) / sum_j exp(z_ij), over the columns that are not excluded.

    With the margin m_i = logsumexp of the negatives - z_i+ this is l = log(1 + e^m), p = 1/(1 + e^m) and
    log rho = -log(1 + e^-m): exact for any margin, no clip and no epsilon. The gradient is dl_i/dz_i = p_i - e_+.
    The other direction (candidate -> query) is the same function on the transposed matrix.

    Args:
        logits: (B, N) scores already divided by the temperature (scale first, mask after).
        positive: (B,) column of each row's positive, 0 <= positive < N; never excluded.
        excluded: (B, N) True where a column is no candidate of that row (a duplicate of its positive, padding). Such
            columns get probability 0 and gradient 0, also with a learned temperature. A logit of -inf does the same.

    Returns:
        Loss, probability, residual and log residual of each row. A row without any negative has loss 0, p = 1,
        log rho = -inf and gradient 0.

    Reference:
        van den Oord et al., arXiv 1807.03748, eq. 4.

    Example:
        >>> infonce(torch.zeros(1, 4), torch.tensor([2])).positive_probability
        tensor([0.2500])
    """
    with without_autocast(logits):
        margin, alone = _margin(logits, positive, excluded)
        return _softmax_result(-logsigmoid(-margin), margin, alone)


def dcl(logits: Float[Tensor, "B N"], positive: Int[Tensor, " B"], *, excluded: Bool[Tensor, "B N"] | None = None) -> InfoNCE:
    """Decoupled contrastive loss: l_i = -z_i+ + log sum over the negatives of exp(z_ij), the positive left out of the sum.

    Args:
        logits: (B, N) scores already divided by the temperature.
        positive: (B,) column of each row's positive.
        excluded: (B, N) True where a column is no candidate of that row.

    Returns:
        The decoupled loss, which may be negative; p, rho and log rho are those of the full softmax, as in `infonce`.
        A row without any negative has loss 0 and gradient 0.

    Reference:
        Yeh et al., Decoupled Contrastive Learning, arXiv 2110.06848, eq. 6 (uniform weights).

    Example:
        >>> dcl(torch.zeros(1, 2), torch.tensor([0])).loss
        tensor([0.])
    """
    with without_autocast(logits):
        margin, alone = _margin(logits, positive, excluded)
        return _softmax_result(margin, margin, alone)


def hardest_negative(
    scores: Float[Tensor, "B N"], positive: Int[Tensor, " B"], *, excluded: Bool[Tensor, "B N"] | None = None
) -> Float[Tensor, " B"]:
    """The largest score among each row's negatives, and -inf for a row without any.

    Args:
        scores: (B, N) scores.
        positive: (B,) column of each row's positive.
        excluded: (B, N) True where a column is no candidate of that row.

    Example:
        >>> hardest_negative(torch.tensor([[0.9, 0.2, 0.5]]), torch.tensor([0]))
        tensor([0.5000])
    """
    return _only_negatives(full_precision(scores), positive, excluded).amax(dim=1)


def correct_sampling(logits: Float[Tensor, "B N"], log_probability: Float[Tensor, " N"]) -> Float[Tensor, "B N"]:
    """Sampling correction, for training only: z_ij - log g_j, so that the optimum is log p(d|q) and not log p(d|q)/g(d).

    Args:
        logits: (B, N) scores already divided by the temperature.
        log_probability: (N,) log g of each column's candidate, positives included: the log of the probability with
            which the sampler draws that candidate as a negative; finite; a common constant changes nothing.

    Returns:
        (B, N) corrected logits. Ranking at inference uses the raw scores.

    Reference:
        Bengio and Senecal 2008; Yi et al., RecSys 2019. Exact when accidental hits of the positive are kept; masking
        them is off by terms of order (negatives x g), which matter for a head candidate only.

    Example:
        >>> correct_sampling(torch.zeros(1, 2), torch.tensor([0.5, 0.25]).log())
        tensor([[0.6931, 1.3863]])
    """
    with without_autocast(logits):
        logits = full_precision(logits)
        return logits - log_probability.to(logits.dtype).unsqueeze(0)


def _only_negatives(logits: Tensor, positive: Tensor, excluded: Tensor | None) -> Tensor:
    itself = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, positive.long().unsqueeze(1), True)
    return logits.masked_fill(itself if excluded is None else itself | excluded, _NOTHING)


def _margin(logits: Tensor, positive: Tensor, excluded: Tensor | None) -> tuple[Tensor, Tensor]:
    logits = full_precision(logits)
    chosen = logits.gather(1, positive.long().unsqueeze(1)).squeeze(1)
    negatives = _only_negatives(logits, positive, excluded)
    alone = (negatives == _NOTHING).all(dim=1)
    # logsumexp over nothing but -inf has a NaN gradient: such rows get an ordinary row here, and their answer below.
    log_sum = torch.logsumexp(negatives.masked_fill(alone.unsqueeze(1), 0.0), dim=1)
    return (log_sum - chosen).masked_fill(alone, 0.0), alone


def _softmax_result(loss: Tensor, margin: Tensor, alone: Tensor) -> InfoNCE:
    return InfoNCE(
        loss=loss.masked_fill(alone, 0.0),
        positive_probability=torch.sigmoid(-margin).masked_fill(alone, 1.0),
        residual=torch.sigmoid(margin).masked_fill(alone, 0.0),
        log_residual=logsigmoid(margin).masked_fill(alone, _NOTHING),
    )
