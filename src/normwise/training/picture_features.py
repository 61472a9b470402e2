"""What a frozen vision tower says of each picture, computed once: its output does not change while it rests."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import batch_to_device
from torch import nn

from normwise.data.contents import Content, iter_pictures
from normwise.data.pictures import Picture
from normwise.models.encoding import encode_contents
from normwise.models.inputs import group_contents, grouped_features, model_input, put_together, reads
from normwise.models.structure import of_pictures, path_of
from normwise.models.towers import tower_transformer

Grouped = Callable[[Sequence[Content], str | None], Sequence[tuple[np.ndarray, Mapping[str, Any]]]]
MOST_BYTES = 2**31
_BATCH = 32
_KEPT = 2


@dataclass
class _Table:
    rows: dict[Picture, int] = field(default_factory=dict)
    features: torch.Tensor | None = None


class PictureFeatures:
    """Outputs of vision towers, kept from stage to stage: arms and seeds that share a frozen tower share them.

    Tables are known by the weights of their tower; the two used last are kept.
    """

    def __init__(self) -> None:
        self._tables: OrderedDict[str, _Table] = OrderedDict()

    def encode(
        self, st: SentenceTransformer, contents: Sequence[Content], *, prompt: str | None, batch_size: int = 64, progress: bool = False
    ) -> np.ndarray:
        """Raw vectors of contents as `encode_contents` gives them, pictures that this tower has seen looked up.

        Returns:
            (n, D) float32.
        """
        plain: dict[str, Any] = {"prompt": prompt, "batch_size": batch_size, "progress": progress}
        st.eval()
        with self.used_by(st, list(iter_pictures(tuple(contents))), trains=False) as known:
            if known is None:
                return encode_contents(st, contents, **plain)
            groups, vectors = group_contents(st, contents), []
            for group in groups:
                if group.modality == "text":
                    vectors.append(encode_contents(st, group.inputs, **plain))
                    continue
                starts = range(0, len(group.inputs), batch_size)
                parts = []
                for start in starts:
                    [(_, features)] = known(group.inputs[start : start + batch_size], prompt)
                    with torch.no_grad():
                        parts.append(st(batch_to_device(dict(features), st.device)))
                vectors.append(torch.cat([part["sentence_embedding"].float().cpu() for part in parts]).numpy())
        return put_together(len(contents), vectors[0].shape[1], groups, vectors)

    @contextmanager
    def used_by(
        self, st: SentenceTransformer, pictures: Sequence[Picture], *, say: Callable[[str], None] | None = None, trains: bool = True
    ) -> Iterator[Grouped | None]:
        """Let a model look up what its vision tower says of pictures, as long as the context lasts.

        The tower's module answers from the table where a batch names rows of it, and computes as ever where it holds
        pictures; weights, names of parameters and gradients of everything behind the tower are as without it.

        Args:
            st: the model, its trainable parameters already chosen.
            pictures: those that the stage will see.
            say: receives a line of words when pictures are computed.
            trains: whether the model is about to be trained, so that only a frozen tower keeps its output.

        Yields:
            What makes the features of a batch of contents; None where the tower is trained, reads texts and pictures in
            one pass, or its outputs would take more than 2 GiB: then nothing is changed.
        """
        tower = _frozen_tower(st, trains=trains)
        if tower is None or not pictures:
            yield None
            return
        table = self._table(_digest(tower))
        missing = [picture for picture in dict.fromkeys(pictures) if picture not in table.rows]
        if missing:
            width = _width(st, tower, missing[0]) if table.features is None else table.features.shape[1]
            if (len(table.rows) + len(missing)) * width * 4 > MOST_BYTES:
                yield None
                return
            if say is not None:
                say(f"the vision tower is frozen: its features of {len(missing):,} pictures are computed once")
            _fill(table, st, tower, missing)
        with tower.answering(table):
            yield lambda contents, prompt: _grouped(st, contents, prompt, table)

    def _table(self, key: str) -> _Table:
        table = self._tables.setdefault(key, _Table())
        self._tables.move_to_end(key)
        while len(self._tables) > _KEPT:
            self._tables.popitem(last=False)
        return table


@dataclass(frozen=True)
class _Tower:
    """The modules of a frozen tower, and the key under which the last of them leaves its output."""

    modules: tuple[nn.Module, ...]
    pooling: nn.Module | None

    @contextmanager
    def answering(self, table: _Table) -> Iterator[None]:
        """Replace the forward pass of the modules on these objects alone: no class and no parameter is touched."""
        first, original = self.modules[0], self.modules[0].forward

        def look_up(features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            rows = features.get("pixel_values")
            if not isinstance(rows, torch.Tensor) or rows.dim() != 1 or table.features is None:
                return original(features, **kwargs)
            return {**features, "sentence_embedding": table.features.to(rows.device)[rows]}

        first.forward = look_up
        restore = [first]
        if self.pooling is not None:
            pool = self.pooling.forward

            def pass_on(features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
                return pool(features, **kwargs) if "token_embeddings" in features else features

            self.pooling.forward = pass_on
            restore.append(self.pooling)
        try:
            yield
        finally:
            for module in restore:
                del module.forward


def _frozen_tower(st: SentenceTransformer, *, trains: bool) -> _Tower | None:
    if reads(st) != "towers":
        return None
    vision: Any = tower_transformer(st, "vision")
    if vision is None:
        return None
    if isinstance(next(st.children()), Router):
        path = path_of(st, "image")
        pooling = path[1] if len(path) > 1 and isinstance(path[1], Pooling) else None
        modules = tuple(path[:2]) if pooling is not None else (path[0],)
        trained = trains and any(parameter.requires_grad for parameter in vision.parameters())
        return None if pooling is None or trained else _Tower(modules, pooling)
    own = [parameter for name, parameter in vision.named_parameters() if of_pictures(name)]
    return None if trains and any(parameter.requires_grad for parameter in own) else _Tower((vision,), None)


def _digest(tower: _Tower) -> str:
    """A hash of everything that decides the tower's output: its weights, and how pictures are prepared for it."""
    digest = hashlib.sha256(repr(getattr(tower.modules[0], "processor", None)).encode())
    for module in tower.modules:
        for name, value in module.state_dict().items():
            if tower.pooling is not None or of_pictures(name):
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _width(st: SentenceTransformer, tower: _Tower, picture: Picture) -> int:
    return _compute(st, tower, [picture]).shape[1]


def _fill(table: _Table, st: SentenceTransformer, tower: _Tower, missing: Sequence[Picture]) -> None:
    found = [_compute(st, tower, missing[start : start + _BATCH]) for start in range(0, len(missing), _BATCH)]
    known = [] if table.features is None else [table.features]
    table.features = torch.cat([*known, *found])
    for picture in missing:
        table.rows[picture] = len(table.rows)


def _compute(st: SentenceTransformer, tower: _Tower, pictures: Sequence[Picture]) -> torch.Tensor:
    features: Any = batch_to_device(st.preprocess([model_input(st, picture) for picture in pictures]), st.device)
    was_training = [(module, module.training) for module in tower.modules]
    try:
        with torch.no_grad():
            for module in tower.modules:
                module.eval()
                features = module(features)
    finally:
        for module, mode in was_training:
            module.train(mode)
    return features["sentence_embedding"].float().cpu()


def _grouped(
    st: SentenceTransformer, contents: Sequence[Content], prompt: str | None, table: _Table
) -> Sequence[tuple[np.ndarray, Mapping[str, Any]]]:
    found: list[tuple[np.ndarray, Mapping[str, Any]]] = []
    for group in group_contents(st, contents):
        rows = [table.rows.get(content) for content in group.inputs if isinstance(content, Picture)]
        if group.modality == "image" and None not in rows:
            known: dict[str, Any] = {"pixel_values": torch.tensor(rows, dtype=torch.int64), "modality": "image"}
            found.append((group.owners, known))
        else:
            for _, features in grouped_features(st, group.inputs, prompt=prompt):
                found.append((group.owners, features))
    return found
