"""Which rows ask which columns: query -> candidate and its reverse, in one process or over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from normwise.core.shapes import Bool, Float, Int
from normwise.objectives.bigbatch import gather_rows, global_maximum, rank, row_counts
from normwise.objectives.candidates import backward_duplicate_mask, duplicate_mask, foreign_mask, group_ids, stack_rows
from normwise.objectives.columns import Columns


@dataclass(frozen=True, eq=False)
class Direction:
    """One softmax problem: B rows of this process, each with a positive among N columns.

    Attributes:
        rows: (B, D) vectors that ask.
        columns: (N, D) vectors that answer.
        positive: (B,) column of each row's positive.
        excluded: (B, N) True where a column is no candidate of a row: duplicates, and other queries' columns under uniform negatives.
        n_duplicates: () entries left out as duplicates alone.
        log_g: (N,) log sampling probability of each column, or None.
        reverse: whether the rows are candidates and the columns queries; then the scores are the transposed ones.
    """

    rows: Float[Tensor, "B D"]
    columns: Float[Tensor, "N D"]
    positive: Int[Tensor, " B"]
    excluded: Bool[Tensor, "B N"]
    n_duplicates: Int[Tensor, ""]
    log_g: Float[Tensor, " N"] | None = None
    reverse: bool = False


def forward_direction(batch: Columns, *, gather: bool, own_only: bool) -> Direction:
    """Query -> candidate: every query of this process against the columns.

    Args:
        batch: the embedded batch of this process.
        gather: whether the columns of all processes are candidates.
        own_only: whether a query's candidates are only its own columns and the pool (uniform negatives).
    """
    size, width = batch.queries.shape[0], batch.candidates.shape[0]
    first_row, first = _offset(batch.queries, gather=gather), _offset(batch.candidates, gather=gather)
    row = torch.arange(first_row, first_row + size, device=batch.queries.device)
    positive = torch.arange(first, first + size, device=row.device)
    groups = group_ids(_gather_content(batch.candidate_rows, gather=gather))
    excluded = duplicate_mask(groups, positive)
    n_duplicates = excluded.sum()
    if own_only:
        owners = batch.owners.where(batch.owners < 0, batch.owners + first_row)
        excluded = excluded | foreign_mask(_gather(owners, gather=gather), row)
    return Direction(
        rows=batch.queries,
        columns=_gather(batch.candidates, gather=gather),
        positive=positive,
        excluded=excluded,
        n_duplicates=n_duplicates,
        log_g=None if batch.log_g is None else _gather(batch.log_g.reshape(width), gather=gather),
    )


def backward_direction(batch: Columns, *, gather: bool) -> Direction:
    """Candidate -> query: every positive of this process against the queries; explicit negatives ask nothing.

    Args:
        batch: the embedded batch of this process.
        gather: whether the queries of all processes are candidates.
    """
    size = batch.queries.shape[0]
    first_row = _offset(batch.queries, gather=gather)
    row = torch.arange(first_row, first_row + size, device=batch.queries.device)
    query_groups = group_ids(_gather_content(batch.query_rows, gather=gather))
    positive_groups = group_ids(_gather_content(batch.candidate_rows[:size], gather=gather))
    excluded = backward_duplicate_mask(query_groups, positive_groups, row)
    return Direction(
        rows=batch.candidates[:size],
        columns=_gather(batch.queries, gather=gather),
        positive=row,
        excluded=excluded,
        n_duplicates=excluded.sum(),
        reverse=True,
    )


def _gather(x: Tensor, *, gather: bool) -> Tensor:
    return gather_rows(x) if gather else x


def _gather_content(rows: Tensor, *, gather: bool) -> Tensor:
    if not gather:
        return rows
    width = int(global_maximum(torch.tensor(rows.shape[1], device=rows.device)))
    return gather_rows(stack_rows([rows], width=width))


def _offset(x: Tensor, *, gather: bool) -> int:
    return sum(row_counts(x)[: rank()]) if gather else 0
