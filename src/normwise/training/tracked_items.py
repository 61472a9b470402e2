"""What a norm tracker can follow: texts, through the encoder's forward pass, or rows of an embedding table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dropout
from torch import nn

from normwise.core.errors import InputError
from normwise.training.gradient_ledger import GradientLedger

_BATCH = 64


@runtime_checkable
class TrackedItems(Protocol):
    """N items whose vectors get gradients."""

    names: tuple[str, ...]
    lengths: np.ndarray | None

    def parameters(self) -> list[nn.Parameter]:
        """What makes the vectors."""
        ...

    def attach(self, ledger: GradientLedger) -> list[Any]:
        """Begin to feed the ledger; the handles end it when they are removed."""
        ...

    def gather(self, ledger: GradientLedger) -> None:
        """Feed what is ready just before the optimizer's step, after clipping."""
        ...

    def norms(self) -> np.ndarray:
        """(N,) the present norms, measured without a random draw."""
        ...


@final
class TrackedTexts:
    """Texts, recognized in every batch by their token ids.

    A text is known by the ids that the model's own `preprocess` gives it, padding left out: the same function that
    sentence-transformers' collator and normwise's call, so truncation, casing and prompts agree by construction, and no column name,
    order or sampler matters. It is found in every column of every batch. The vector is the output of the last module before any
    `Normalize`, whose gradient a tensor hook reads; losses that encode twice (the cached ones) are read on the pass that has gradients.

    Args:
        model: the sentence-transformers model that is trained.
        texts: N different texts.
        prompt: what the trainer puts before them (`prompts` of its arguments); None for nothing.

    Raises:
        InputError: no texts, two that are one to the model (same tokens after truncation), or features without token ids.
    """

    def __init__(self, model: SentenceTransformer, texts: Sequence[str], *, prompt: str | None = None) -> None:
        if not texts:
            raise InputError("texts is empty; expected at least one text to track")
        self._model, self._prompt = model, prompt
        self.names = tuple(texts)
        self._places: dict[bytes, int] = {}
        lengths = []
        for start in range(0, len(texts), _BATCH):
            for key in row_keys(self._features(start)):
                place = len(lengths)
                if key in self._places:
                    both = f"{self.names[place]!r:.60} and {self.names[self._places[key]]!r:.60}"
                    raise InputError(f"texts[{place}]: {both} have the same tokens after truncation: track one of them")
                self._places[key] = place
                lengths.append(len(key) // 8)
        self.lengths: np.ndarray | None = np.array(lengths, dtype=np.float64)
        self._rows: np.ndarray | None = None

    def parameters(self) -> list[nn.Parameter]:
        """All trainable parameters of the encoder."""
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def attach(self, ledger: GradientLedger) -> list[Any]:
        """Hook the model's forward pass."""

        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            features = args[0] if args else kwargs["input"]
            # Evaluation inside training has no gradients and costs nothing here.
            self._rows = self._find(features) if torch.is_grad_enabled() else None

        def watch(module: nn.Module, args: Any, output: Mapping[str, Any]) -> None:
            if self._rows is not None:
                ledger.watch(self._rows, output["sentence_embedding"])

        last = last_raw_module(self._model)
        return [self._model.register_forward_pre_hook(see, with_kwargs=True), last.register_forward_hook(watch)]

    def gather(self, ledger: GradientLedger) -> None:
        """Nothing waits: hooks feed the ledger."""

    def norms(self) -> np.ndarray:
        """(N,) norms of `vectors`."""
        return np.linalg.norm(self.vectors(), axis=1)

    def vectors(self) -> np.ndarray:
        """(N, D) raw vectors in evaluation mode, without a random draw; modules go back to the mode that each had."""
        modes = [(module, module.training) for module in self._model.modules()]
        found: list[np.ndarray] = []
        handle = last_raw_module(self._model).register_forward_hook(
            lambda module, args, output: found.append(output["sentence_embedding"].double().cpu().numpy())
        )
        try:
            self._model.eval()
            with torch.no_grad():
                for start in range(0, len(self.names), _BATCH):
                    features = self._features(start)
                    self._model({k: v.to(self._model.device) if isinstance(v, torch.Tensor) else v for k, v in features.items()})
        finally:
            handle.remove()
            for module, training in modes:
                module.training = training
        return np.concatenate(found)

    def _features(self, start: int) -> dict[str, Any]:
        return self._model.preprocess(list(self.names[start : start + _BATCH]), prompt=self._prompt)

    def _find(self, features: Mapping[str, Any]) -> np.ndarray:
        return np.array([self._places.get(key, -1) for key in row_keys(features)], dtype=np.int64)


@final
class TrackedRows:
    """Rows of an embedding table (the weight of an Embedding or EmbeddingBag), read from its gradient after clipping.

    A row whose gradient is exactly zero in a step was not visited by it.

    Args:
        table: (V, D) parameter.
        rows: N different row numbers.

    Raises:
        InputError: not a matrix, or rows that are outside it, double or none.
    """

    def __init__(self, table: nn.Parameter, rows: Sequence[int] | np.ndarray) -> None:
        if table.ndim != 2:
            raise InputError(f"table has shape {tuple(table.shape)}; expected (rows, width)")
        numbers = np.asarray(rows)
        if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu" or np.unique(numbers).size != numbers.size:
            raise InputError("rows: expected a list of different whole numbers")
        bad = np.flatnonzero((numbers < 0) | (numbers >= table.shape[0]))
        if bad.size:
            raise InputError(f"rows[{bad[0]}] is {numbers[bad[0]]}; expected 0 to {table.shape[0] - 1}, the rows of the table")
        self._table, self._numbers = table, numbers.astype(np.int64)
        self.names = tuple(str(number) for number in numbers)
        self.lengths: np.ndarray | None = None

    def parameters(self) -> list[nn.Parameter]:
        """The table."""
        return [self._table]

    def attach(self, ledger: GradientLedger) -> list[Any]:
        """Nothing: the gradient is read when it is whole."""
        return []

    def gather(self, ledger: GradientLedger) -> None:
        """Read the rows of the table's gradient."""
        gradient = self._table.grad
        if gradient is None:
            return
        index = torch.as_tensor(self._numbers, device=self._table.device)
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            touched, values = gradient.indices()[0], gradient.values()
            order = torch.searchsorted(touched, index).clamp(max=max(0, touched.numel() - 1))
            mine = torch.zeros(index.numel(), values.shape[1], dtype=values.dtype, device=values.device)
            known = touched[order] == index if touched.numel() else torch.zeros_like(index, dtype=torch.bool)
            mine[known] = values[order[known]]
        else:
            mine = gradient.index_select(0, index)
        seen = (mine != 0).any(dim=1)
        rows = np.flatnonzero(seen.cpu().numpy())
        ledger.take(rows, self._table.detach().index_select(0, index)[seen], mine[seen])

    def norms(self) -> np.ndarray:
        """(N,) norms of the rows."""
        index = torch.as_tensor(self._numbers, device=self._table.device)
        return torch.linalg.vector_norm(self._table.detach().index_select(0, index).double(), dim=1).cpu().numpy()


def last_raw_module(model: SentenceTransformer) -> nn.Module:
    """Return the module whose output is the vector before any `Normalize` at the end.

    Raises:
        InputError: there is nothing but Normalize.
    """
    raw = list(model.children())
    while raw and isinstance(raw[-1], Normalize | Dropout):
        raw.pop()
    if not raw:
        raise InputError("the model has no module before Normalize")
    return raw[-1]


def row_keys(features: Mapping[str, Any]) -> list[bytes]:
    """Return one key per text of a batch: the bytes of its token ids (int64), padding left out.

    Args:
        features: what `preprocess` or a collator gives: `input_ids` (B, L) with `attention_mask`, or flat `input_ids` with `offsets`.

    Raises:
        InputError: neither is there.

    Example:
        >>> row_keys({"input_ids": torch.tensor([[5, 0]]), "attention_mask": torch.tensor([[1, 0]])}) == [np.int64(5).tobytes()]
        True
    """
    ids = features.get("input_ids")
    if not isinstance(ids, torch.Tensor):
        raise InputError(f"features hold {', '.join(sorted(features))}, and no input_ids to know a text by: track rows of a table instead")
    numbers = ids.detach().cpu().numpy().astype(np.int64, copy=False)
    offsets, mask = features.get("offsets"), features.get("attention_mask")
    if isinstance(offsets, torch.Tensor) and numbers.ndim == 1:
        return [part.tobytes() for part in np.split(numbers, offsets.cpu().numpy()[1:])]
    if numbers.ndim != 2:
        raise InputError(f"input_ids have shape {numbers.shape}; expected (texts, tokens): turn unpadded batches off to track texts")
    if not isinstance(mask, torch.Tensor):
        return [row.tobytes() for row in numbers]
    return [row[kept].tobytes() for row, kept in zip(numbers, mask.detach().cpu().numpy() != 0, strict=True)]
