"""The parts of a model of texts and pictures: which parameter belongs to which tower, what adapters go on, what rests."""

from __future__ import annotations

from typing import Any, Literal, TypeGuard

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router, Transformer
from torch import nn
from transformers.models.efficientnet.modeling_efficientnet import EfficientNetSqueezeExciteLayer
from transformers.pytorch_utils import Conv1D

from normwise.models.structure import of_pictures

Part = Literal["text", "vision", "projector", "head", "unused"]
Tower = Literal["text", "vision"]

# How families name the map from the features of pictures into the language model, or into the space that it shares with texts.
_PROJECTORS = ("merger", "deepstack_merger_list", "multi_modal_projector", "visual_projection")
# Temperature and bias of the loss of the model's own training, which no vector depends on.
_LOSS = ("logit_scale", "logit_bias")
_LINEAR = (nn.Linear, Conv1D)
_OPEN = 17.0


def parts_of_model(st: SentenceTransformer) -> dict[str, Part]:
    """The part of each parameter.

    `text` is the text tower or the language model, with its token embeddings and a projection of its own (CLIP's
    `text_projection`); `vision` the picture tower; `projector` what maps its features into the language model (Qwen-VL's mergers)
    or into the common space (CLIP's `visual_projection`); `head` every module behind a transformer, such as the heads of a
    dual encoder; `unused` what no vector depends on (`logit_scale`, `logit_bias`). Adapters belong to the part that they sit on.

    Args:
        st: the encoder, with or without adapters.

    Returns:
        By name as `st.named_parameters` gives it. A model of texts alone has `text` and `head` only.
    """
    return {name: _part(st, name) for name, _ in st.named_parameters()}


def _part(st: SentenceTransformer, name: str) -> Part:
    pieces = name.split(".")
    if pieces[0] != "0":
        return "head"
    first = st[0]
    if isinstance(first, Router):
        # 0.sub_modules.<route>.<place>.<rest>
        if pieces[3] != "0":
            return "head"
        return "vision" if _reads_pictures_only(_inputs(first)[pieces[2]]) else "text"
    if any(piece in _LOSS for piece in pieces):
        return "unused"
    if any(piece in _PROJECTORS for piece in pieces):
        return "projector"
    return "vision" if of_pictures(name) else "text"


def _inputs(router: Router) -> dict[str, Any]:
    """The first module of each route, which takes the input in."""
    return {name: next(route.children()) for name, route in router.sub_modules.items()}


def _reads_pictures_only(module: Any) -> bool:
    known = getattr(module, "modalities", ["text"])
    return "image" in known and "text" not in known


def tower_transformer(st: SentenceTransformer, tower: Tower) -> Transformer | None:
    """The module that wraps the transformers model of a tower: for a dual encoder that of its route, else the first module.

    Args:
        st: the encoder.
        tower: which one.

    Returns:
        None where the encoder has no such tower, or not as a transformers model (static embeddings).
    """
    first: Any = st[0]
    if isinstance(first, Router):
        inputs = _inputs(first).values()
        return next((module for module in inputs if _is_transformer(module) and _reads_pictures_only(module) == (tower == "vision")), None)
    if not _is_transformer(first) or (tower == "vision" and "vision" not in parts_of_model(st).values()):
        return None
    return first


def _is_transformer(module: Any) -> TypeGuard[Transformer]:
    return isinstance(module, Transformer)


def tower_linear_names(st: SentenceTransformer, tower: Tower) -> list[str]:
    """Names of the linear maps of a tower that adapters can go on, within its transformers model (`tower_transformer(st, tower).model`).

    Left out are poolers that no vector passes through, the projector (the paper keeps it frozen), and the output map inside
    torch's attention module (SigLIP's pooling), whose weights are read past any adapter on it.

    Args:
        st: the encoder, without adapters.
        tower: "text" is the text tower or the language model alone.

    Returns:
        In the model's order; empty where there is none (EfficientNet is made of convolutions).
    """
    module: Any = tower_transformer(st, tower)
    if module is None:
        return []
    prefix = next(f"{name}." for name, found in st.named_modules() if found is module.model)
    attention = [f"{name}." for name, found in module.model.named_modules() if isinstance(found, nn.MultiheadAttention)]
    return [
        name
        for name, found in module.model.named_modules()
        if isinstance(found, _LINEAR)
        and _part(st, prefix + name) == tower
        and "pooler" not in name.split(".")
        and not name.startswith(tuple(attention))
    ]


def frozen_gates(st: SentenceTransformer) -> tuple[str, ...]:
    """Parameters of gates that are open to the last bit and that no gradient moves: never to be trained.

    `packaged_efficientnet` has such gates. Their gradient is 0, not missing, so that weight decay alone would move them.

    Args:
        st: the encoder.

    Returns:
        Names as `st.named_parameters` gives them.
    """
    gates = [name for name, module in st.named_modules() if isinstance(module, EfficientNetSqueezeExciteLayer) and _is_open(module)]
    return tuple(name for name, _ in st.named_parameters() if any(name.startswith(f"{gate}.") for gate in gates))


def _is_open(gate: EfficientNetSqueezeExciteLayer) -> bool:
    expand: Any = gate.expand
    weights = not any(bool(tensor.any()) for tensor in (gate.reduce.weight, expand.weight))
    return weights and bool((expand.bias.detach() >= _OPEN).all())


def rest_frozen_towers(st: SentenceTransformer) -> tuple[str, ...]:
    """Put what is frozen into evaluation mode: no dropout, and running statistics (BatchNorm) that stay as they are.

    Statistics of batches (BatchNorm) stay those of pre-training also where their tower is trained.

    Frozen vision towers and projectors rest, also in part; a frozen text tower rests as a whole or not at all, so that adapters
    on it train with its dropout as ever. Nothing changes in a model of texts alone. `st.train()` wakes everything up, so call this
    after each such call.

    Args:
        st: the encoder in training mode.

    Returns:
        Names of the modules that rest, the outermost ones.
    """
    parts = parts_of_model(st)
    if "vision" not in parts.values():
        return ()
    for module in st.modules():
        # Trained or not: a batch may hold one picture, of which there are no statistics, and those of texts beside it differ.
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
    awake = {name for name, parameter in st.named_parameters() if parameter.requires_grad}
    resting = {"vision", "projector", "unused"}
    if not any(parts[name] == "text" for name in awake):
        resting.add("text")
    rested: list[str] = []

    def visit(module: nn.Module, prefix: str) -> None:
        names = [f"{prefix}{name}" for name, _ in module.named_parameters()]
        if names and all(parts[name] in resting and name not in awake for name in names):
            module.eval()
            rested.append(prefix[:-1])
            return
        for name, child in module.named_children():
            visit(child, f"{prefix}{name}.")

    visit(st, "")
    return tuple(rested)
