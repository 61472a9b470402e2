"""Finding one's way in a sentence-transformers model: the backbone, its layers, its pooling, its linear maps."""

from __future__ import annotations

import math
from typing import Any, Literal

from peft import PeftModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from torch import nn
from transformers.pytorch_utils import Conv1D

from normwise.core.errors import InputError

LINEAR_TYPES = (nn.Linear, Conv1D)
# How parts are named that a model of texts and images (CLIP and its kin) reads images with: no text passes through them.
_PICTURE_PARTS = ("vision", "visual")
_LIBRARY = "sentence_transformers."


def path_of(st: SentenceTransformer, modality: Literal["text", "image"] = "text") -> list[nn.Module]:
    """The modules that inputs of a modality pass through, in order: those of their route where a `Router` sends them apart.

    A router without a route for the modality (one of queries and documents) stays as it is.
    """
    path: list[nn.Module] = []
    for module in st.children():
        route = _route(module, modality) if isinstance(module, Router) else None
        path += [module] if route is None else list(route)
    return path


def _route(router: Router, modality: str) -> nn.Sequential | None:
    name = router.route_mappings.get((None, modality), modality)
    route: Any = router.sub_modules[name] if name in router.sub_modules else None
    return route


def reader(st: SentenceTransformer, modality: Literal["text", "image"] = "text") -> Any:
    """The first module that inputs of a modality pass through, which wraps the transformers model."""
    return path_of(st, modality)[0]


def backbone(st: SentenceTransformer, modality: Literal["text", "image"] = "text") -> nn.Module | None:
    """The transformers model that reads a modality, adapters unwrapped; None for a model without one (static embeddings)."""
    first = reader(st, modality)
    # A first module of somebody's own (jina-embeddings-v3) keeps its model under the library's older name.
    model = first.model if isinstance(first, Transformer) else getattr(first, "auto_model", None)
    if not isinstance(model, nn.Module):
        return None
    return model.get_base_model() if isinstance(model, PeftModel) else model


def foreign_modules(st: SentenceTransformer) -> list[str]:
    """Names of the modules that plain sentence-transformers does not bring."""
    modules = {module for modality in ("text", "image") for module in path_of(st, modality)}
    return sorted({type(module).__name__ for module in modules if not type(module).__module__.startswith(_LIBRARY)})


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
        raise InputError(f"{purpose} needs a transformer, but the encoder starts with {type(reader(st)).__name__}: choose another model")
    return model


def pooling_name(st: SentenceTransformer) -> str | None:
    """The name(s) of the pooling, joined by `+`; None without a pooling module."""
    for module in path_of(st):
        if isinstance(module, Pooling):
            mode = module.pooling_mode
            return mode if isinstance(mode, str) else "+".join(mode)
    return None


def strip_normalize(st: SentenceTransformer) -> bool:
    """Take every `Normalize` module at the end away, in place; whether there was one.

    Such a module divides by the norm whatever `normalize_embeddings` says. One that stands before another map is part
    of the function that the model computes and stays.
    """
    found = _strip_end(st)
    # All routes, so that no tower keeps unit vectors.
    return any([found, *map(_strip_end, _last_routes(st))])


def _strip_end(modules: Any) -> bool:
    found = False
    while len(modules) > 1 and _last_is_normalize(modules):
        found = True
        del modules[max(index for index, module in enumerate(modules.children()) if isinstance(module, Normalize))]
    return found


def _last_routes(st: SentenceTransformer) -> list[nn.Module]:
    last = list(st.children())[-1]
    return list(last.sub_modules.values()) if isinstance(last, Router) else []


def ends_in_normalize(st: SentenceTransformer) -> bool:
    """Whether the last module that does anything at inference divides by the norm, in any tower."""
    return any(map(_last_is_normalize, [st, *_last_routes(st)]))


def _last_is_normalize(modules: nn.Module) -> bool:
    return isinstance([module for module in modules.children() if not isinstance(module, Dropout)][-1], Normalize)


def has_normalize(st: SentenceTransformer) -> bool:
    """Whether any module divides by the norm."""
    return any(isinstance(module, Normalize) for module in st.modules())


def linear_names(model: nn.Module) -> list[str]:
    """Dotted names of a backbone's linear maps that texts pass through: no pooler, no image tower, which get no gradient."""
    return [name for name, module in model.named_modules() if isinstance(module, LINEAR_TYPES) and _reads_text(name)]


def _reads_text(name: str) -> bool:
    return "pooler" not in name.split(".") and not of_pictures(name)


def of_pictures(name: str) -> bool:
    """Whether a dotted name leads into what a model of texts and pictures reads pictures with (CLIP and its kin, Qwen-VL).

    Example:
        >>> of_pictures("vision_model.encoder.layers"), of_pictures("text_model.encoder.layers")
        (True, False)
    """
    return any(part.startswith(_PICTURE_PARTS) for part in name.split("."))


def layer_list(model: nn.Module) -> nn.ModuleList | None:
    """The list of a backbone's layers (of its text tower): the outermost module list as long as its configuration says."""
    count = getattr(text_config(model), "num_hidden_layers", None)
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count and _reads_text(name):
            return module
    return None


def token_limit(st: SentenceTransformer) -> int | None:
    """How many tokens of a text the encoder reads; None where it reads all, which static embeddings call infinite."""
    limit = st.max_seq_length
    return None if limit is None or not math.isfinite(limit) else int(limit)


def position_limit(st: SentenceTransformer) -> int | None:
    """How many tokens the encoder has positions for; None when nothing says so."""
    model = backbone(st)
    if model is None:
        return None
    for name, module in model.named_modules():
        if name.endswith(("position_embeddings", "position_embedding")) and isinstance(module, nn.Embedding) and _reads_text(name):
            # Where padding has a position of its own (RoBERTa), real ones start behind it.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return getattr(text_config(model), "max_position_embeddings", None)


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
    config, before = text_config(model), len(found)
    del found[layers:]
    config.num_hidden_layers = layers
    # Some families list a kind of attention (or of MLP) per layer beside the count.
    for key, value in list(vars(config).items()):
        if "layer" in key and isinstance(value, list) and len(value) == before:
            setattr(config, key, value[:layers])


def text_config(model: Any) -> Any:
    """The configuration of what reads texts."""
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
