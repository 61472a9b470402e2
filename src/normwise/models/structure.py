"""Finding one's way in a sentence-transformers model: the backbone, its layers, its pooling, its linear maps."""

from __future__ import annotations

from typing import Any

from peft import PeftModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from torch import nn
from transformers.pytorch_utils import Conv1D

from normwise.core.errors import InputError

LINEAR_TYPES = (nn.Linear, Conv1D)


def backbone(st: SentenceTransformer) -> nn.Module | None:
    """The transformers model inside, adapters unwrapped; None for a model without one (static embeddings)."""
    first = st[0]
    if not isinstance(first, Transformer):
        return None
    model: Any = first.model
    return model.get_base_model() if isinstance(model, PeftModel) else model


def needed_backbone(st: SentenceTransformer, purpose: str) -> Any:
    """The transformers model inside.

    Args:
        st: the encoder.
        purpose: what needs it, for the message.

    Raises:
        InputError: the encoder has none.
    """
    model = backbone(st)
    if model is None:
        raise InputError(f"{purpose} needs a transformer, but the encoder starts with {type(st[0]).__name__}: choose another model")
    return model


def pooling_name(st: SentenceTransformer) -> str | None:
    """The name(s) of the pooling, joined by `+`; None without a pooling module."""
    for module in st.children():
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return mode if isinstance(mode, str) else "+".join(mode)
    return None


def strip_normalize(st: SentenceTransformer) -> bool:
    """Take every `Normalize` module at the end away, in place; whether there was one.

    Such a module divides by the norm whatever `normalize_embeddings` says. One that stands before another map is part
    of the function that the model computes and stays.
    """
    found = False
    while ends_in_normalize(st):
        found = True
        del st[max(index for index, module in enumerate(st.children()) if isinstance(module, Normalize))]
    return found


def ends_in_normalize(st: SentenceTransformer) -> bool:
    """Whether the last module that does anything at inference divides by the norm."""
    return isinstance([module for module in st.children() if not isinstance(module, Dropout)][-1], Normalize)


def has_normalize(st: SentenceTransformer) -> bool:
    """Whether any module divides by the norm."""
    return any(isinstance(module, Normalize) for module in st.children())


def linear_names(model: nn.Module) -> list[str]:
    """Dotted names of all linear maps of a backbone, the pooler (which gets no gradient) left out."""
    return [name for name, module in model.named_modules() if isinstance(module, LINEAR_TYPES) and "pooler" not in name.split(".")]


def layer_list(model: nn.Module) -> nn.ModuleList | None:
    """The list of a backbone's layers: the outermost module list as long as its configuration says."""
    count = getattr(_text_config(model), "num_hidden_layers", None)
    for _, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    return None


def count_layers(st: SentenceTransformer) -> int | None:
    """How many transformer layers the encoder has; None when it has none that can be counted."""
    model = backbone(st)
    layers = None if model is None else layer_list(model)
    return None if layers is None else len(layers)


def cut_layers(st: SentenceTransformer, layers: int) -> None:
    """Keep the first `layers` transformer layers, in the modules and in the configuration, so that a save reloads.

    Args:
        st: the encoder, changed in place.
        layers: how many to keep, 1 or more.

    Raises:
        InputError: there are fewer layers, or they cannot be found.
    """
    model = needed_backbone(st, f"layers = {layers}")
    found = layer_list(model)
    if found is None:
        raise InputError(f"layers = {layers}: cannot find a list of layers in {type(model).__name__} (shared layers?): leave layers out")
    if layers > len(found):
        raise InputError(f"layers = {layers}, but the model has {len(found)} layers: choose 1 to {len(found)}")
    if layers == len(found):
        return
    config, before = _text_config(model), len(found)
    del found[layers:]
    config.num_hidden_layers = layers
    # Some families list a kind of attention (or of MLP) per layer beside the count.
    for key, value in list(vars(config).items()):
        if "layer" in key and isinstance(value, list) and len(value) == before:
            setattr(config, key, value[:layers])


def _text_config(model: Any) -> Any:
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
