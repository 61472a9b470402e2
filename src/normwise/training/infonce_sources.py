"""Where a meter gets the logits of a loss from: a hook of ours, or the embeddings that sentence-transformers' losses are handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
from torch import Tensor, nn

from normwise.core.errors import InputError
from normwise.objectives.bigbatch import world_size
from normwise.objectives.candidates import duplicate_mask, embedding_rows, group_ids, stack_rows, token_rows
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.scores import full_precision, without_autocast

# What the two losses call once for each batch, with the embeddings of every column.
_METHODS = {MultipleNegativesRankingLoss: "compute_loss_from_embeddings", CachedMultipleNegativesRankingLoss: "calculate_loss"}


class LogitsReader(Protocol):
    """What takes the logits of a batch."""

    def rows(self, size: int) -> Tensor | None:
        """Which of a batch's queries are wanted, (R,); None for none of them."""
        ...

    def take(self, logits: Tensor, positive: Tensor, excluded: Tensor) -> None:
        """Take (R, N) detached logits, (R,) the columns of positives, and (R, N) which columns are no candidates."""
        ...


def attach(loss: nn.Module, reader: LogitsReader) -> Callable[[], None]:
    """Let a reader see the logits of every training batch of a loss; batches in evaluation are passed over.

    Args:
        loss: `FocalEmbeddingLoss`, or sentence-transformers' `MultipleNegativesRankingLoss` or
            `CachedMultipleNegativesRankingLoss`, of which the plain scores query -> document are read, whatever other
            directions and hardness penalties they add. They mask no duplicates of the positive; the reading does.
        reader: what takes them.

    Returns:
        A function that ends it.

    Raises:
        InputError: another loss, or one of sentence-transformers' that gathers from several processes.
    """
    if isinstance(loss, FocalEmbeddingLoss):
        return _attach_to_ours(loss, reader)
    method = next((name for kind, name in _METHODS.items() if isinstance(loss, kind)), None)
    if method is None:
        known = ", ".join(kind.__name__ for kind in (FocalEmbeddingLoss, *_METHODS))
        raise InputError(
            f"loss is a {type(loss).__name__}; expected one of {known}. For any other, call observe with the vectors of each batch"
        )
    if loss.gather_across_devices and world_size() > 1:
        raise InputError(
            f"{type(loss).__name__} gathers from {world_size()} processes, and only this process's vectors could be read: "
            "train with gather_across_devices=False, or with FocalEmbeddingLoss"
        )
    return _attach_to_theirs(loss, method, reader)


def read_embeddings(
    embeddings: Sequence[Tensor],
    contents: Tensor,
    score: Callable[[Tensor, Tensor], Tensor],
    reader: LogitsReader,
) -> None:
    """Score a batch's vectors at full precision, whatever autocast says, and hand the logits to a reader.

    Args:
        embeddings: [(B, D) queries, (B, D) positives, further candidates ...].
        contents: (N, L) content of each candidate; equal rows are equal texts.
        score: maps queries and candidates to logits, similarity / temperature.
        reader: what takes them.
    """
    queries = embeddings[0].detach()
    rows = reader.rows(queries.shape[0])
    if rows is None:
        return
    rows = rows.to(queries.device)
    with torch.no_grad(), without_autocast(queries):
        candidates = torch.cat([full_precision(each.detach()) for each in embeddings[1:]])
        logits = score(full_precision(queries[rows]), candidates)
        reader.take(logits, rows, duplicate_mask(group_ids(contents), rows.to(contents.device)).to(logits.device))


def _attach_to_ours(loss: FocalEmbeddingLoss, reader: LogitsReader) -> Callable[[], None]:
    def look(logits: Tensor, positive: Tensor, excluded: Tensor) -> None:
        rows = reader.rows(logits.shape[0]) if loss.model.training else None
        if rows is not None:
            rows = rows.to(logits.device)
            reader.take(logits[rows], positive[rows], excluded[rows])

    return loss.register_logits_hook(look).remove


def _attach_to_theirs(loss: Any, method: str, reader: LogitsReader) -> Callable[[], None]:
    features: list[Mapping[str, Any]] = []
    before = getattr(loss, method)
    watching = True

    def remember(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        given = arguments[0] if arguments else ()
        # A generator must be left to the loss.
        features[:] = [dict(each) for each in given] if isinstance(given, list | tuple) else []

    def look(columns: Sequence[Any], *arguments: Any, **settings: Any) -> Any:
        if watching and loss.model.training:
            embeddings = [_joined(each) for each in columns]
            read_embeddings(
                embeddings, _contents(features[1:], embeddings[1:]), lambda q, c: loss.similarity_fct(q, c) * loss.scale, reader
            )
        features.clear()
        return before(columns, *arguments, **settings)

    def end() -> None:
        nonlocal watching
        watching = False
        handle.remove()
        # Where somebody else has wrapped the method since, ours stays within and does nothing.
        if loss.__dict__.get(method) is look:
            delattr(loss, method)
            if before != getattr(loss, method):
                setattr(loss, method, before)

    handle = loss.register_forward_pre_hook(remember)
    setattr(loss, method, look)
    return end


def _joined(column: Tensor | Sequence[Tensor]) -> Tensor:
    """A column's vectors, of which the cached loss has those of each mini-batch."""
    if isinstance(column, Tensor):
        return column.detach()
    with without_autocast(column[0]):
        return torch.cat([each.detach() for each in column])


def _contents(features: Sequence[Mapping[str, Any]], embeddings: Sequence[Tensor]) -> Tensor:
    """Content of each candidate: its tokens where every column has them, else its vector, as `objectives.columns` compares them."""
    rows: list[Tensor] = []
    for feature, vectors in zip(features, embeddings, strict=False):
        ids, mask = feature.get("input_ids"), feature.get("attention_mask")
        if isinstance(ids, Tensor) and ids.ndim == 2 and len(ids) == len(vectors):
            rows.append(token_rows(ids, mask))
    return stack_rows(rows) if len(rows) == len(embeddings) else torch.cat([embedding_rows(vectors) for vectors in embeddings])
