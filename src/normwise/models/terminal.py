"""The last norm layer of an encoder, found by running it, and what the encoder itself does behind that layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from torch import nn

from normwise.data.contents import Content, modality_of
from normwise.models.inputs import as_contents, grouped_features
from normwise.models.structure import LINEAR_TYPES, backbone, reader

_FITS = 1e-2


@dataclass(frozen=True)
class Affine:
    """A linear map y = weight z + offset, weight of shape (D, D0)."""

    weight: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class TerminalNorm:
    """The norm layer whose output is what the encoder pools: z = gain * n + bias.

    `centered` says that n has mean 0 (LayerNorm); else n has mean square 1 only (RMSNorm). LayerNorm has both. `single`
    says that the transformer itself took one token of that output as its vector (the towers of CLIP), and `projection`
    the linear map that it put behind.
    """

    name: str
    centered: bool
    gain: np.ndarray
    bias: np.ndarray
    single: bool = False
    projection: Affine | None = None


Seen = dict[str, tuple[torch.Tensor, torch.Tensor]]


def terminal_norm(st: SentenceTransformer, texts: Sequence[Any]) -> TerminalNorm | None:
    """Find the norm layer whose output the encoder pools, by running the encoder, and read z = gain * n + bias off it.

    Args:
        st: the encoder; it is left as it was.
        texts: a few texts, or images for a model that reads them.

    Returns:
        None when what is pooled is not a norm layer's output.
    """
    contents = as_contents(list(texts), what="probe")
    modality = asked_modality(contents)
    model = backbone(st, modality)
    if model is None:
        return None
    features, norm_layers, maps = _run(st, reader(st, modality), model, contents)
    states, vectors = features.get("token_embeddings"), features.get("sentence_embedding")
    if states is not None:
        name = next(
            (name for name, (_, output) in norm_layers.items() if output.shape == states.shape and torch.equal(output, states)), None
        )
        return None if name is None else _read_norm(name, model.get_submodule(name), *norm_layers[name])
    if vectors is None:
        return None
    last = next((name for name, (_, output) in maps.items() if output.shape == vectors.shape and torch.equal(output, vectors)), None)
    picked = vectors if last is None else maps[last][0]
    name = next((name for name, (_, output) in norm_layers.items() if _takes_one_token(picked, output)), None)
    if name is None:
        return None
    projection = None if last is None else affine(model.get_submodule(last))
    found = _read_norm(name, model.get_submodule(name), *norm_layers[name])
    return None if found is None else TerminalNorm(name, found.centered, found.gain, found.bias, single=True, projection=projection)


def asked_modality(contents: Sequence[Content]) -> Literal["text", "image"]:
    """Which tower contents ask: that of pictures where all are pictures."""
    return "image" if contents and all(modality_of(content) == "image" for content in contents) else "text"


def affine(module: Any) -> Affine:
    """The map of a linear layer, in float64."""
    weight = module.weight.detach().double().cpu().numpy()
    # transformers' Conv1D stores its weight the other way round.
    weight = weight if isinstance(module, nn.Linear) else weight.T
    return Affine(weight, np.zeros(len(weight)) if module.bias is None else module.bias.detach().double().cpu().numpy())


def _run(st: SentenceTransformer, first: nn.Module, model: nn.Module, contents: Sequence[Content]) -> tuple[dict[str, Any], Seen, Seen]:
    norm_layers: Seen = {}
    maps: Seen = {}

    def keep(name: str, seen: Seen, axes: int | None) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if inputs and isinstance(output, torch.Tensor) and axes in (None, output.dim()):
                # A later call of a shared layer replaces an earlier one.
                seen.pop(name, None)
                seen[name] = (inputs[0].detach(), output.detach())

        return hook

    handles = []
    for name, module in model.named_modules():
        if _is_norm(module):
            handles.append(module.register_forward_hook(keep(name, norm_layers, None)))
        elif isinstance(module, LINEAR_TYPES):
            # Only maps of whole vectors: those of every token would fill the memory.
            handles.append(module.register_forward_hook(keep(name, maps, 2)))
    was_training = st.training
    st.eval()
    try:
        [(_, ready_features)] = grouped_features(st, contents, prompt=None)
        features: Any = batch_to_device(dict(ready_features), st.device)
        with torch.no_grad():
            return first(features), norm_layers, maps
    finally:
        st.train(was_training)
        for handle in handles:
            handle.remove()


def _takes_one_token(vectors: torch.Tensor, output: torch.Tensor) -> bool:
    """Whether each row of (B, D) is one of the tokens of (B, T, D), or the row itself of (B, D)."""
    if output.shape == vectors.shape:
        return torch.equal(output, vectors)
    if output.dim() != 3 or output.shape[::2] != vectors.shape:
        return False
    return bool((output == vectors[:, None]).all(dim=2).any(dim=1).all())


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not list(module.children())


def _read_norm(name: str, module: Any, given: torch.Tensor, output: torch.Tensor) -> TerminalNorm | None:
    x, z = given.double().cpu().reshape(-1, given.shape[-1]).numpy(), output.double().cpu().reshape(-1, output.shape[-1]).numpy()
    width = x.shape[1]
    eps = float(next((getattr(module, key) for key in ("eps", "variance_epsilon") if hasattr(module, key)), 0.0) or 0.0)
    weight, bias = _vector(module, "weight", width, 1.0), _vector(module, "bias", width, 0.0)
    shifted = x - x.mean(axis=1, keepdims=True)
    candidates = []
    for centered, base in ((True, shifted), (False, x)):
        normed = base / np.sqrt((base**2).mean(axis=1, keepdims=True) + eps)
        # Gemma and its kin store the gain as an offset from one.
        for gain in (weight, 1.0 + weight):
            error = float(np.max(np.abs(gain * normed + bias - z)) / max(float(np.max(np.abs(z))), 1e-30))
            candidates.append((error, centered, gain))
    error, centered, gain = min(candidates, key=lambda candidate: candidate[0])
    return TerminalNorm(name=name, centered=centered, gain=gain, bias=bias) if error < _FITS else None


def _vector(module: Any, name: str, width: int, default: float) -> np.ndarray:
    value = getattr(module, name, None)
    return np.full(width, default) if value is None else value.detach().double().cpu().numpy()
