"""Where a meter gets the logits of a loss from: a hook of ours, or the embeddings that sentence-transformers' losses are handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

import torch
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim
from torch import Tensor, nn

from normwise.core.errors import InputError
from normwise.core.shapes import Bool, Int
from normwise.objectives.bigbatch import world_size
from normwise.objectives.candidates import duplicate_mask, group_ids, stack_rows, token_rows
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.objectives.scores import full_precision, without_autocast
from normwise.training.infonce_vectors import copies_of_positives

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

    def skip(self, reason: str) -> None:
        """Pass over a batch that cannot be read."""
        ...


def attach(loss: nn.Module, reader: LogitsReader) -> Callable[[], None]:
    """Let a reader see the logits of every training batch of a loss; batches in evaluation are passed over.

    The loss is itself again when its last reader has ended, in whatever order. Until then it can be pickled and copied; the copy is
    one that nobody watches. A batch that cannot be read is skipped, and the loss goes on.

    Which candidates are copies of a query's positive, and no negatives: for `FocalEmbeddingLoss`, those that the loss itself leaves out
    (equal tokens; without token ids, bit-equal vectors). Sentence-transformers' losses leave out none; the reading does, by equal
    tokens, and without token ids by `copies_of_positives`. In a loss a vector of zeros scores 0, and is read so.

    Args:
        loss: `FocalEmbeddingLoss`, or sentence-transformers' `MultipleNegativesRankingLoss` or
            `CachedMultipleNegativesRankingLoss`, of which the plain scores query -> document are read, whatever other
            directions and hardness penalties they add.
        reader: what takes them.

    Returns:
        A function that ends it.

    Raises:
        InputError: another loss, or one of sentence-transformers' that gathers from several processes.
    """
    if isinstance(loss, FocalEmbeddingLoss):
        return loss.register_logits_hook(_OurWatch(loss, reader)).remove
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
    there = vars(loss).get(method)
    watch = there if isinstance(there, _TheirWatch) else _TheirWatch(loss, method)
    return watch.show_to(reader)


def read_embeddings(
    embeddings: Sequence[Tensor],
    copies: Callable[[Tensor, Tensor], Bool[Tensor, "R N"]],
    score: Callable[[Tensor, Tensor], Tensor],
    reader: LogitsReader,
) -> None:
    """Score a batch's vectors at full precision, whatever autocast says, and hand the logits to a reader.

    Args:
        embeddings: [(B, D) queries, (B, D) positives, further candidates ...].
        copies: maps (N, D) candidates and (R,) chosen queries to (R, N) which columns hold the query's positive again.
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
        reader.take(logits, rows, copies(candidates, rows))


def _same(thing: Any) -> Any:
    return thing


def _look_away(*_: Any) -> None:
    """What a copy of a watched loss has in place of a hook."""


@final
class _OurWatch:
    """Hook of `FocalEmbeddingLoss`."""

    def __init__(self, loss: FocalEmbeddingLoss, reader: LogitsReader) -> None:
        self._loss, self._reader = loss, reader

    def __call__(self, logits: Tensor, positive: Tensor, excluded: Tensor) -> None:
        if not self._loss.model.training:
            return
        try:
            rows = self._reader.rows(logits.shape[0])
            if rows is not None:
                rows = rows.to(logits.device)
                self._reader.take(logits[rows], positive[rows], excluded[rows])
        except Exception as error:  # an observer must not stop a training
            self._reader.skip(_named(error))

    def __reduce__(self) -> tuple[Any, ...]:
        return _same, (_look_away,)


@final
class _Memory:
    """Hook before the forward pass: the features of the batch, of which the loss hands on the embeddings only."""

    def __init__(self) -> None:
        self.features: list[Mapping[str, Any]] = []

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        given = arguments[0] if arguments else ()
        # A generator must be left to the loss.
        self.features = [dict(each) for each in given] if isinstance(given, list | tuple) else []

    def __reduce__(self) -> tuple[Any, ...]:
        return _same, (_look_away,)


@final
class _TheirWatch:
    """Stands in a loss for one of its methods: shows the embeddings to all readers, then does what was there before."""

    def __init__(self, loss: Any, method: str) -> None:
        self._loss, self._method = loss, method
        self._replaced, self._before = vars(loss).get(method), getattr(loss, method)
        self._readers: list[LogitsReader] = []
        self._memory = _Memory()
        self._handle = loss.register_forward_pre_hook(self._memory)
        setattr(loss, method, self)

    def show_to(self, reader: LogitsReader) -> Callable[[], None]:
        """Begin to show batches to a reader; what is returned ends it, and the watch with its last reader."""
        self._readers.append(reader)

        def end() -> None:
            self._readers.remove(reader)
            if not self._readers:
                self._leave()

        return end

    def __call__(self, columns: Sequence[Any], *arguments: Any, **settings: Any) -> Any:
        features, self._memory.features = self._memory.features, []
        if self._loss.model.training:
            for reader in self._readers:
                try:
                    self._read(columns, features, reader)
                except Exception as error:  # an observer must not stop a training
                    reader.skip(_named(error))
        return self._before(columns, *arguments, **settings)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the loss has what was there before, bound to the copy.
        return _same, (self._before,)

    def _read(self, columns: Sequence[Any], features: Sequence[Mapping[str, Any]], reader: LogitsReader) -> None:
        loss = self._loss
        embeddings = [_joined(each) for each in columns]
        contents = _contents(features[1:], embeddings[1:])

        def copies(candidates: Tensor, rows: Tensor) -> Tensor:
            if contents is None:
                return copies_of_positives(candidates, rows, normalized=loss.similarity_fct is cos_sim)
            return duplicate_mask(group_ids(contents), rows.to(contents.device)).to(candidates.device)

        read_embeddings(embeddings, copies, lambda q, c: loss.similarity_fct(q, c) * loss.scale, reader)

    def _leave(self) -> None:
        self._handle.remove()
        # Where somebody else has wrapped the method since, ours stays within and hands on.
        if vars(self._loss).get(self._method) is self:
            delattr(self._loss, self._method)
            if self._replaced is not None:
                setattr(self._loss, self._method, self._replaced)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _joined(column: Tensor | Sequence[Tensor]) -> Tensor:
    """A column's vectors, of which the cached loss has those of each mini-batch."""
    if isinstance(column, Tensor):
        return column.detach()
    with without_autocast(column[0]):
        return torch.cat([each.detach() for each in column])


def _contents(features: Sequence[Mapping[str, Any]], embeddings: Sequence[Tensor]) -> Int[Tensor, "N L"] | None:
    """Tokens of each candidate, where every column has them: equal rows are equal texts."""
    rows: list[Tensor] = []
    for feature, vectors in zip(features, embeddings, strict=False):
        ids, mask = feature.get("input_ids"), feature.get("attention_mask")
        if isinstance(ids, Tensor) and ids.ndim == 2 and len(ids) == len(vectors):
            rows.append(token_rows(ids, mask))
    return stack_rows(rows) if rows and len(rows) == len(embeddings) else None
