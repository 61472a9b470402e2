"""One hash for everything that decides an encoder's vectors, wherever the encoder lies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense

from normwise.models.encoder import Encoder
from normwise.models.inputs import reads
from normwise.models.probe import PROBE_TEXTS
from normwise.models.structure import backbone, path_of, pooling_name, reader, text_config, token_limit
from normwise.models.tasks import Role, task_of
from normwise.models.towers import tower_transformer

# What an image processor does to a picture; what else it says changes with versions of libraries.
_PREPARING = (
    "do_resize",
    "size",
    "resample",
    "do_center_crop",
    "crop_size",
    "do_rescale",
    "rescale_factor",
    "rescale_offset",
    "do_normalize",
    "include_top",
    "image_mean",
    "image_std",
    "do_convert_rgb",
    "min_pixels",
    "max_pixels",
    "patch_size",
    "merge_size",
    "temporal_patch_size",
)
_ROLES: tuple[Role, ...] = ("query", "document")
# Settings of a transformer that change its answers and leave no trace in its weights.
_DECISIVE = (
    "model_type",
    "num_attention_heads",
    "num_key_value_heads",
    "hidden_act",
    "hidden_activation",
    "layer_norm_eps",
    "rms_norm_eps",
)


def model_fingerprint(encoder: Encoder) -> str:
    """Return a hash of an encoder's weights, tokenizer, prompts, pooling and limits, independent of where it was loaded from.

    Equation: SHA-256 over all floating weights (dtype, shape, bytes) in the order of the modules, and over the settings beside
    them. Names of weights, of files and of folders are left out, as are integer buffers, since versions of libraries change
    those and not the vectors. So the same encoder has one hash in memory, saved, from its package and from the hub. A final
    `Normalize` does not count: an `Encoder` takes it away. How it is scored is no part of it; a `Fingerprint` names that.

    Args:
        encoder: an open encoder.

    Returns:
        64 hexadecimal digits.

    Example:
        `model_fingerprint(Encoder.load("runs/demo/model")) == index.manifest.model`
    """
    st = encoder.model
    settings = _settings(st)
    if encoder.contract.background not in (None, "white"):  # white is what models from before there was a choice mean
        settings["background"] = encoder.contract.background
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for part in _weights(st):
        digest.update(part)
    return digest.hexdigest()


def _settings(st: SentenceTransformer) -> dict[str, Any]:
    model = backbone(st)
    config = None if model is None else text_config(model)
    return {
        "modules": [type(module).__name__ for module in path_of(st)],
        "activations": [type(module.activation_function).__name__ for module in path_of(st) if isinstance(module, Dense)],
        "backbone": {name: value for name in _DECISIVE if isinstance(value := getattr(config, name, None), str | int | float)},
        "pooling": pooling_name(st),
        "tokens": token_limit(st),
        "dimensions": st.get_embedding_dimension(),
        "prompts": {role: _prompt(st, role) for role in _ROLES},
        "tasks": {role: task_of(st, role) for role in _ROLES},
        "tokenizer": _tokenizer(st),
        **_pictures(st),
    }


def _pictures(st: SentenceTransformer) -> dict[str, Any]:
    """How pictures are read: what they are prepared with and through which modules they pass; nothing for a model of texts."""
    if reads(st) == "texts":
        return {}
    vision: Any = tower_transformer(st, "vision")
    if vision is None:
        vision = reader(st)
    processor = getattr(vision.processor, "image_processor", vision.processor)
    configuration = vision.model.config.to_dict()
    return {
        "image processor": _some(processor.to_dict(), _PREPARING),
        "vision": _some(configuration.get("vision_config") or configuration, (*_DECISIVE, "num_heads", "patch_size")),
        "picture modules": [type(module).__name__ for module in path_of(st, "image")],
        "chat template": getattr(vision.processor, "chat_template", None),
    }


def _some(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    return {name: repr(values[name]) for name in names if values.get(name) is not None}


def _prompt(st: SentenceTransformer, role: Role) -> str:
    """What is put before a text of this role: the model's default where the role has no prompt of its own."""
    if role in st.prompts:
        return st.prompts[role] or ""
    return st.prompts.get(st.default_prompt_name or "") or ""


def _tokenizer(st: SentenceTransformer) -> str:
    """A hash of how texts are cut: vocabulary and the tokens of fixed texts, since files of tokenizers change with libraries."""
    tokenizer: Any = st.tokenizer
    vocabulary = sorted(tokenizer.get_vocab().items()) if hasattr(tokenizer, "get_vocab") else None
    texts = list(PROBE_TEXTS)
    if callable(tokenizer):
        encoded: Any = tokenizer(texts, truncation=False, padding=False, verbose=False)
        probe = encoded["input_ids"]
    else:  # that of a static embedding
        probe = [encoded.ids for encoded in tokenizer.encode_batch(texts, add_special_tokens=False)]
    return hashlib.sha256(json.dumps([vocabulary, probe]).encode()).hexdigest()


def _weights(st: SentenceTransformer) -> Iterator[bytes]:
    for value in st.state_dict().values():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        yield f"{value.dtype} {tuple(value.shape)};".encode()
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
