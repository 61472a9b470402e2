"""Low-rank adapters: attached, and merged with proof."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model
from sentence_transformers import SentenceTransformer

from normwise.core.config import LoraConfig
from normwise.core.errors import InputError, WorkError, near_names
from normwise.core.records import GateReport
from normwise.models.inputs import reads
from normwise.models.probe import compare, probe_contents, probe_vectors
from normwise.models.structure import linear_names, needed_backbone, reader
from normwise.models.towers import Tower, tower_linear_names, tower_transformer


def attach_lora(st: SentenceTransformer, config: LoraConfig, *, seed: int = 0) -> tuple[str, ...]:
    """Put adapters W + (alpha / rank) B A on the encoder's linear maps, in place; B starts at zero.

    The base model's path is taken out of the adapter's settings on purpose: a checkpoint of a cut base would point
    at the uncut original and reload wrong without an error. Stages of normwise keep checkpoints of the whole weights.

    Args:
        st: the encoder; everything but the adapters is frozen (`set_trainable` adds the head).
        config: rank, alpha, dropout, and targets (names of linear maps, or the last parts of names; None is all).
        seed: of A's initial values; the global random state is left as it was.

    Returns:
        Dotted names of the adapted maps.

    Raises:
        InputError: a target names no linear map, or adapters are attached already.

    Reference: Hu et al., LoRA (arXiv 2106.09685).
    """
    needed_backbone(st, "trainable = lora")
    if any(isinstance(module.model, PeftModel) for module in _transformers(st)):
        raise InputError("adapters are attached already: merge them first")
    attached: list[str] = []
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        torch.manual_seed(seed)
        # peft 0.21 asks transformers 5.23 by an old name; delete with peft 0.22.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        for module, targets in _targets_by_module(st, config):
            model = module.model
            model.name_or_path = ""
            model.config._name_or_path = ""
            settings: Any = {"r": config.rank, "lora_alpha": config.alpha, "lora_dropout": config.dropout, "target_modules": targets}
            module.model = get_peft_model(model, PeftLoraConfig(**settings, bias="none"))
            attached += targets
    return tuple(attached)


def lora_targets(st: SentenceTransformer, config: LoraConfig) -> list[str]:
    """Dotted names of the linear maps that adapters with these settings would be put on.

    Raises:
        InputError: a target names no linear map; the message lists those there are.
    """
    return [target for _, targets in _targets_by_module(st, config) for target in targets]


def _targets_by_module(st: SentenceTransformer, config: LoraConfig) -> list[tuple[Any, list[str]]]:
    """The modules that wrap a transformer to adapt, each with the names in it; `config.vision` adds the vision tower."""
    if reads(st) == "texts":
        if config.vision:
            raise InputError("lora.vision: the model reads texts only, so it has no vision tower: leave it out")
        return [(reader(st), _targets(linear_names(needed_backbone(st, "trainable = lora")), config.targets))]
    towers: tuple[Tower, ...] = ("text", "vision") if config.vision else ("text",)
    names = {tower: tower_linear_names(st, tower) for tower in towers}
    if config.vision and not names["vision"]:
        raise InputError("lora.vision: the vision tower has no linear maps (EfficientNet is made of convolutions): leave it out")
    wanted = _targets([name for tower in towers for name in names[tower]], config.targets)
    found: list[tuple[Any, list[str]]] = []
    for tower in towers:
        module = tower_transformer(st, tower)
        mine = [name for name in names[tower] if name in wanted]
        same = next((targets for known, targets in found if known is module), None)
        if same is None:
            found.append((module, mine))
        else:
            same += mine
    return [(module, targets) for module, targets in found if targets]


def _transformers(st: SentenceTransformer) -> list[Any]:
    """Every module that wraps a transformers model, that of texts first."""
    found = [reader(st)]
    if reads(st) != "texts":
        vision = tower_transformer(st, "vision")
        found += [vision] if vision is not None and vision is not found[0] else []
    return [module for module in found if hasattr(module, "model")]


def _targets(names: list[str], wanted: tuple[str, ...] | None) -> list[str]:
    if wanted is None:
        return names
    for target in wanted:
        if not any(_matches(name, target) for name in names):
            endings = {name.rpartition(".")[2] for name in names}
            raise InputError(f"lora.targets: {target!r} names no linear map of the encoder: {near_names(target, endings)}")
    return [name for name in names if any(_matches(name, target) for target in wanted)]


def _matches(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def merge_lora(st: SentenceTransformer, probe: Sequence[Any] | None = None, *, tolerance: float = 1e-4) -> GateReport:
    """Add the adapters into the weights, take them away, and prove that the encoder answers as before.

    Args:
        st: the encoder with adapters, changed in place: afterwards a plain model, every parameter frozen.
        probe: texts and pictures to compare vectors on; None takes those of `probe_contents`.
        tolerance: allowed difference per coordinate and per norm, in units of the mean norm (at least 1).

    Returns:
        The passed gate `merge`, with the largest differences and how far the adapters had moved the vectors.

    Raises:
        InputError: no adapters are attached.
        WorkError: the merged model answers differently; the model in memory must then not be used.
    """
    adapted = [module for module in _transformers(st) if isinstance(module.model, PeftModel)]
    if not adapted:
        raise InputError("there are no adapters to merge: call attach_lora first")
    contents = probe_contents(st) if probe is None else tuple(probe)
    before = probe_vectors(st, contents)
    with ExitStack() as off:
        for module in adapted:
            off.enter_context(module.model.disable_adapter())
        without = probe_vectors(st, contents)
    try:
        for module in adapted:
            module.model = module.model.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise WorkError(f"the adapters could not be merged: {error}; training diverged: go back to an earlier checkpoint") from error
    st.requires_grad_(False)
    left = [name for name in st.state_dict() if "lora_" in name or ".base_layer." in name]
    result = compare(probe_vectors(st, contents), before, tolerance=tolerance)
    figures = {
        "largest_difference": result.largest_difference,
        "largest_norm_difference": result.largest_norm_difference,
        "allowed": result.allowed,
        "adapter_effect": compare(before, without, tolerance=tolerance).largest_difference,
        "texts": float(len(contents)),
    }
    differs = f"vectors differ by at most {result.largest_difference:.3g}, norms by at most {result.largest_norm_difference:.3g}"
    if left or not result.same:
        raise WorkError(
            f"the merged model does not answer as the model with adapters did: {differs}, allowed {result.allowed:.3g}"
            f"{f'; left over: {left[0]}' if left else ''}. Nothing was saved; go on from the last checkpoint, in float32, "
            "or raise merge_tolerance if you accept this"
        )
    kinds = "texts" if all(isinstance(content, str) for content in contents) else "texts and pictures"
    words = (
        f"adapters merged: on {len(contents)} {kinds} {differs} (allowed {result.allowed:.3g}); "
        f"the adapters had moved vectors by up to {figures['adapter_effect']:.3g}"
    )
    return GateReport(name="merge", passed=True, words=words, figures=figures)
