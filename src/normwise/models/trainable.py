"""What a stage trains: choosing parameters, and catching one that does not move."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from torch import nn

from normwise.core.config import StageConfig, Trainable
from normwise.core.errors import InputError
from normwise.models.inputs import grouped_features, reads
from normwise.models.lora import lora_targets
from normwise.models.probe import PROBE_TEXTS, probe_pictures
from normwise.models.towers import frozen_gates, parts_of_model

# A bias on the keys adds one constant to every attention score of a query, which softmax takes away again.
_KEY_BIASES = ("key.bias", "k_proj.bias", "k_lin.bias", "attn.k.bias")
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def set_trainable(st: SentenceTransformer, stage: StageConfig, *, modalities: frozenset[str] | None = None) -> tuple[str, ...]:
    """Switch gradients on for what a stage trains, and off for everything else.

    `full` trains the parts in `stage.unfreeze`: embeddings, encoder (the layers' linear maps), norms (every norm
    layer), head (modules after a transformer). Of a model that reads pictures, these are those of its text tower or
    language model; vision (the vision tower) and projector come only when they are named. `head` trains the head only.
    `lora` trains the adapters that `attach_lora` put in, and the head if there is one, since nothing else would train
    it. Parameters that cannot get a gradient (BERT's pooler) are frozen. Needed after a merge, which leaves every
    parameter frozen.

    Args:
        st: the encoder, changed in place.
        stage: what to train.
        modalities: those of the training data ("text", "image"); what only others pass through is frozen. None is all.

    Returns:
        Names of the trained parameters that must move; attention-key biases, whose gradient is zero up to rounding, are
        trained but not among them.

    Raises:
        InputError: nothing would be trained, or the stage wants a head or adapters that are not there.
    """
    wanted = _wanted(st, stage)
    for name, parameter in st.named_parameters():
        parameter.requires_grad_(name in wanted)
    if stage.trainable is not Trainable.LORA or reads(st) != "texts":
        for name in _without_gradient(st, wanted, modalities):
            wanted.discard(name)
            st.get_parameter(name).requires_grad_(False)
    if not wanted:
        raise InputError(f"stage {stage.name!r}: no parameter would be trained; change trainable or unfreeze")
    return tuple(name for name, _ in st.named_parameters() if name in wanted and not name.endswith(_KEY_BIASES))


def check_stage(st: SentenceTransformer, stage: StageConfig) -> None:
    """Refuse a stage that could train nothing on this encoder; the encoder is left as it is.

    Args:
        st: the encoder before any training.
        stage: what to train.

    Raises:
        InputError: adapters' targets name no map, a head is wanted and none is there, or nothing would be trained.
    """
    if stage.trainable is Trainable.LORA:
        lora_targets(st, stage.lora_settings)
    elif not _wanted(st, stage):
        raise InputError(f"stage {stage.name!r}: unfreeze = {list(stage.unfreeze)} names nothing that this model has; change unfreeze")


def _wanted(st: SentenceTransformer, stage: StageConfig) -> set[str]:
    towers, gates = parts_of_model(st), frozen_gates(st)
    part = {name: _part_of(st, name, towers[name]) for name, _ in st.named_parameters() if name not in gates}
    adapters = {name for name in part if ".lora_" in name}
    head = {name for name, value in part.items() if value == "head"}
    if stage.trainable is Trainable.LORA:
        if not adapters:
            raise InputError(f"stage {stage.name!r} trains adapters, but none are attached: call attach_lora first")
        return adapters | head
    if adapters:
        raise InputError(f"stage {stage.name!r} is {stage.trainable.value}, but adapters are still attached: merge them first")
    if stage.trainable is Trainable.HEAD:
        if not head:
            raise InputError(f"stage {stage.name!r}: trainable = head, but the model has no head: set model.head.dimensions")
        return head
    return {name for name, value in part.items() if value in stage.unfreeze}


def _part_of(st: SentenceTransformer, name: str, tower: str) -> str:
    if tower != "text":
        return tower
    owner = st.get_submodule(name.rpartition(".")[0])
    if "norm" in type(owner).__name__.lower():
        return "norms"
    return "embeddings" if isinstance(owner, nn.Embedding | nn.EmbeddingBag) else "encoder"


def _without_gradient(st: SentenceTransformer, names: set[str], modalities: frozenset[str] | None) -> list[str]:
    """Parameters that no vector depends on, found by one backward pass in evaluation mode (so no random draw)."""
    probes = {"text": PROBE_TEXTS[4:6], "image": () if reads(st) == "texts" else probe_pictures()[:2]}
    contents = [content for modality, some in probes.items() if modalities is None or modality in modalities for content in some]
    was_training = st.training
    st.eval()
    try:
        for _, features in grouped_features(st, contents, prompt=None):
            moved = batch_to_device(dict(features), st.device)
            with torch.enable_grad():
                total = st(moved)["sentence_embedding"].float().square().sum()
            if total.requires_grad:
                total.backward()
        return [name for name in names if st.get_parameter(name).grad is None]
    finally:
        st.zero_grad(set_to_none=True)
        st.train(was_training)


def parameter_snapshot(st: SentenceTransformer, names: tuple[str, ...]) -> dict[str, int]:
    """Remember the exact state of parameters at the cost of one number each.

    Args:
        st: the encoder.
        names: as `set_trainable` returned them.

    Returns:
        The sum of each tensor's bits read as integers, by name.
    """
    return {name: _bits(st.get_parameter(name)) for name in names}


def unmoved(st: SentenceTransformer, snapshot: dict[str, int]) -> tuple[str, ...]:
    """Name the parameters whose every bit is as it was.

    Meant for after the second optimizer step with a learning rate above 0: at the first such step the gradient of
    lora_A is exactly zero, since lora_B starts at zero, and a warm-up may make the very first step empty.

    Args:
        st: the encoder.
        snapshot: of `parameter_snapshot`, before the first step.
    """
    return tuple(name for name, bits in snapshot.items() if _bits(st.get_parameter(name)) == bits)


def _bits(parameter: nn.Parameter) -> int:
    values = parameter.detach().contiguous()
    return int(values.view(_INTEGERS[values.element_size()]).sum(dtype=torch.int64))
