"""Norms, directions and score matrices of tensors, in float32 whatever autocast says."""

from __future__ import annotations

import torch
from torch import Tensor

from normwise.core.shapes import Float
from normwise.core.similarity import Similarity


def full_precision(x: Tensor) -> Tensor:
    """Give `x` at the precision that the objectives compute in: float64 stays, every other float type becomes float32.

    Args:
        x: a floating point tensor of any shape.

    Returns:
        The same values; the same tensor where nothing had to change. Gradients flow back in the type of `x`.

    Example:
        >>> full_precision(torch.ones(2, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return x if x.dtype == torch.float64 else x.float()


def without_autocast(x: Tensor) -> torch.autocast:
    """A context in which autocast leaves operations on the device of `x` alone.

    bfloat16 numbers between 256 and 512 are 2 apart and float16 ends at 65504, so dot logits cannot live there.
    """
    return torch.autocast(device_type=x.device.type, enabled=False)


def _unit_peak(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # Dividing by the largest entry first keeps the squares of 1e-30 and of 1e30 within range; the direction does not
    # depend on that divisor, so no gradient has to flow through it.
    peak = x.detach().abs().amax(dim=-1, keepdim=True) if x.shape[-1] else x.new_zeros(*x.shape[:-1], 1)
    zero = peak < torch.finfo(x.dtype).tiny
    scaled = x / peak.masked_fill(zero, 1.0)
    square = scaled.square().sum(dim=-1, keepdim=True).masked_fill(zero, 1.0)
    return scaled, square.sqrt(), zero


def norms(x: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
    """Euclidean length of each row, ||x_i||, safe for very small and very large entries.

    Args:
        x: (N, D) raw vectors, of any float type.

    Returns:
        (N,) norms >= 0, float32 (float64 for float64 input). A row whose entries are all below the smallest normal
        number of that type counts as the zero vector: norm 0.

    Example:
        >>> norms(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    with without_autocast(x):
        x = full_precision(x)
        peak = x.detach().abs().amax(dim=-1, keepdim=True) if x.shape[-1] else x.new_zeros(*x.shape[:-1], 1)
        _, length, zero = _unit_peak(x)
        return (peak * length).masked_fill(zero, 0.0).squeeze(-1)


def normalize(x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    """Direction of each row, hat x_i = x_i / ||x_i||, and 0 where x_i = 0.

    The gradient is P_x / ||x|| with P_x = I - hat x hat x^T: orthogonal to x. A zero vector gets direction 0 and
    gradient 0, never NaN. No epsilon is added, so that half precision input keeps its meaning.

    Args:
        x: (N, D) raw vectors, of any float type.

    Returns:
        (N, D) unit rows (or zero rows), float32 (float64 for float64 input), also under autocast.

    Reference:
        Replaces an epsilon of 1e-12, which is 0 in float16 (lightly-ai/lightly#1259).

    Example:
        >>> normalize(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    with without_autocast(x):
        scaled, length, zero = _unit_peak(full_precision(x))
        return torch.where(zero, 0.0, scaled / length)


def score_matrix(queries: Float[Tensor, "B D"], candidates: Float[Tensor, "N D"], similarity: Similarity) -> Float[Tensor, "B N"]:
    """Score of every query with every candidate: s_ij = a_i . b_j, each side raw or divided by its norm.

    Args:
        queries: (B, D) raw query vectors.
        candidates: (N, D) raw candidate vectors.
        similarity: which sides are normalized; see `Similarity`.

    Returns:
        (B, N) scores in float32 (float64 where an input is float64), also under autocast. A zero vector scores 0.

    Example:
        >>> q, c = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
        >>> [round(float(score_matrix(q, c, s)), 4) for s in Similarity]
        [0.8, 8.0, 1.6, 4.0]
    """
    with without_autocast(queries):
        left = normalize(queries) if similarity.normalizes_query else full_precision(queries)
        right = normalize(candidates) if similarity.normalizes_candidate else full_precision(candidates)
        dtype = torch.promote_types(left.dtype, right.dtype)
        return left.to(dtype) @ right.to(dtype).T


def transposed(similarity: Similarity) -> Similarity:
    """The similarity whose scores of (c, q) are those of `similarity` for (q, c): the normalized side changes places.

    Example:
        >>> transposed(Similarity.QUERY_NORMALIZED), transposed(Similarity.DOT)
        (<Similarity.CANDIDATE_NORMALIZED: 'candidate_normalized'>, <Similarity.DOT: 'dot'>)
    """
    if similarity.normalizes_query == similarity.normalizes_candidate:
        return similarity
    return Similarity.CANDIDATE_NORMALIZED if similarity.normalizes_query else Similarity.QUERY_NORMALIZED
