"""Which columns of a score matrix are negatives of which row: exact duplicates, ownership, padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from normwise.core.shapes import Bool, Int

_PADDING = -1


def token_rows(token_ids: Int[Tensor, "N L"], attention_mask: Int[Tensor, "N L"] | None = None) -> Int[Tensor, "N L"]:
    """The tokens of each text, moved to the left, with -1 behind them: equal rows are equal texts however they were padded.

    Args:
        token_ids: (N, L) token ids >= 0.
        attention_mask: (N, L) 1 at tokens, 0 at padding, on either side. None: every position is a token.

    Example:
        >>> token_rows(torch.tensor([[0, 0, 7, 8]]), torch.tensor([[0, 0, 1, 1]]))
        tensor([[ 7,  8, -1, -1]])
    """
    if attention_mask is None:
        return token_ids.long()
    absent = attention_mask == 0
    order = torch.argsort(absent.to(torch.uint8), dim=1, stable=True)
    return token_ids.long().masked_fill(absent, _PADDING).gather(1, order)


def embedding_rows(embeddings: Tensor) -> Int[Tensor, "N L"]:
    """Bit patterns of the vectors, for inputs without token ids: equal rows are bit-equal embeddings.

    Example:
        >>> bool(torch.equal(*embedding_rows(torch.ones(2, 3))))
        True
    """
    return embeddings.detach().float().contiguous().view(torch.int32).long()


def stack_rows(blocks: Sequence[Int[Tensor, "_ _"]], *, width: int | None = None) -> Int[Tensor, "N L"]:
    """One matrix of the rows of all blocks, each filled up with -1 to the widest (or to `width`).

    Example:
        >>> stack_rows([torch.tensor([[1]]), torch.tensor([[2, 3]])])
        tensor([[ 1, -1],
                [ 2,  3]])
    """
    width = max(block.shape[1] for block in blocks) if width is None else width
    return torch.cat([torch.nn.functional.pad(block, (0, width - block.shape[1]), value=_PADDING) for block in blocks])


def group_ids(rows: Int[Tensor, "N L"]) -> Int[Tensor, " N"]:
    """A number for each row, the same for two rows exactly when they are equal.

    Example:
        >>> group_ids(torch.tensor([[5, 6], [7, -1], [5, 6]]))
        tensor([0, 1, 0])
    """
    if rows.shape[0] == 0:
        return rows.new_zeros(0)
    return torch.unique(rows, dim=0, return_inverse=True)[1]


def duplicate_mask(groups: Int[Tensor, " N"], positive: Int[Tensor, " B"]) -> Bool[Tensor, "B N"]:
    """True where a column holds the same text as the row's positive without being that positive: a false negative.

    Args:
        groups: (N,) group of each column's text, from `group_ids`.
        positive: (B,) column of each row's positive.

    Returns:
        (B, N) mask for `infonce(excluded=...)`. Leaving these columns out changes the law g of the negatives: no
        negative of a query equals its positive.

    Example:
        >>> duplicate_mask(torch.tensor([0, 1, 0]), torch.tensor([0, 1]))
        tensor([[False, False,  True],
                [False, False, False]])
    """
    same = groups.unsqueeze(0) == groups[positive.long()].unsqueeze(1)
    return same.scatter(1, positive.long().unsqueeze(1), False)


def backward_duplicate_mask(
    query_groups: Int[Tensor, " N"], positive_groups: Int[Tensor, " N"], row: Int[Tensor, " B"]
) -> Bool[Tensor, "B N"]:
    """The duplicate mask of the direction candidate -> query, where row i asks positive i for its query.

    True at query j != i when j has the same text as the row's own query, or when the positive of j has the same text
    as positive i: then (j, i) is one of the batch's own pairs, and no negative.

    Args:
        query_groups: (N,) group of each query's text.
        positive_groups: (N,) group of the text of each query's positive.
        row: (B,) number of each row's pair among the N pairs.

    Example:
        >>> backward_duplicate_mask(torch.tensor([0, 1]), torch.tensor([3, 3]), torch.tensor([0, 1]))
        tensor([[False,  True],
                [ True, False]])
    """
    return duplicate_mask(query_groups, row) | duplicate_mask(positive_groups, row)


def foreign_mask(owners: Int[Tensor, " N"], row: Int[Tensor, " B"]) -> Bool[Tensor, "B N"]:
    """True where a column belongs to another query: neither the row's own nor part of the shared pool.

    Args:
        owners: (N,) number of the pair a column came with, -1 for the shared pool.
        row: (B,) number of each row's pair.

    Example:
        >>> foreign_mask(torch.tensor([0, 1, -1]), torch.tensor([0, 1]))
        tensor([[False,  True, False],
                [ True, False, False]])
    """
    return (owners.unsqueeze(0) != row.unsqueeze(1)) & (owners.unsqueeze(0) >= 0)


def padding_mask(counts: Int[Tensor, " B"], *, width: int) -> Bool[Tensor, "B N"]:
    """True at the padding of a ragged table: row i holds `counts[i]` entries, then padding up to `width`.

    Example:
        >>> padding_mask(torch.tensor([2, 0]), width=2)
        tensor([[False, False],
                [ True,  True]])
    """
    return torch.arange(width, device=counts.device).unsqueeze(0) >= counts.unsqueeze(1)
