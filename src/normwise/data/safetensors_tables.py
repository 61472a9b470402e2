"""The embedding table of a safetensors checkpoint, found by its name and read from the file as it is, without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError, near_names
from normwise.data.opening import kind_of, read_json_object, reading
from normwise.data.row_files import FileRows

# The format is public: 8 bytes of header length (little-endian), a JSON header, then the data.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bfloat16"}
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_LARGEST_HEADER = 100_000_000
_INDEX = ".safetensors.index.json"
_TABLE = re.compile(
    r"(?:^|\.)(?:word_embeddings?|embed_tokens|wte|shared|tok_embeddings|token_embedding|embed_in|embeddings?|emb|static_embedding)"
    r"(?:\.weight)?$"
)
_OTHER = re.compile(r"position|token_type|type_embed|segment|patch|class_emb|visual|vision|relative|rotary|time_emb")
_SHOWN = 8


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies: its file, its type by the format's name, its shape, its first byte in the file."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    offset: int


def is_checkpoint(path: Path) -> bool:
    """Whether a file's name is that of a safetensors file or of the index of a sharded one.

    Example:
        >>> is_checkpoint(Path("model.safetensors.index.json")), is_checkpoint(Path("config.json"))
        (True, False)
    """
    return path.name.endswith((".safetensors", _INDEX))


def open_table(path: Path, *, name: str | None = None) -> tuple[FileRows, str]:
    """Open an embedding table of a checkpoint.

    Args:
        path: a .safetensors file, a .safetensors.index.json of shards, or a folder that holds either.
        name: the tensor; None takes the one whose name says that it is a table of token embeddings, or the only one with
            two dimensions.

    Returns:
        The rows, and the tensor's name.

    Raises:
        InputError: unreadable, no such tensor, none or several that fit (the message lists them), or a type that is
            not a float of 16 to 64 bits.
    """
    tensors = read_header(path)
    chosen = _choose(path, tensors) if name is None else name
    if chosen not in tensors:
        raise InputError(f"{path} has no tensor {chosen!r}: {near_names(chosen, tensors)}")
    place = tensors[chosen]
    if len(place.shape) != 2 or min(place.shape) < 1:
        raise InputError(f"{path}: tensor {chosen!r} has shape {place.shape}; expected two dimensions: one row per token")
    if place.kind not in _TYPES:
        raise InputError(
            f"{path}: tensor {chosen!r} holds {place.kind}; expected one of {', '.join(_TYPES)} (a quantized table: convert it first)"
        )
    shape = (place.shape[0], place.shape[1])
    return FileRows(place.file, offset=place.offset, shape=shape, stored=_TYPES[place.kind]), chosen


def read_header(path: Path) -> dict[str, TensorPlace]:
    """List the tensors of a file, of an index of shards, or of the folder that holds either, by name.

    Raises:
        InputError: missing, broken, or no such file in the folder.
    """
    kind = kind_of(path)
    if kind == "folder":
        path = _in_folder(path)
    if path.name.endswith(_INDEX):
        shards = read_json_object(path).get("weight_map")
        wanted = "expected weight_map, a table of tensor names and the files beside it that hold them"
        if not isinstance(shards, dict):
            raise InputError(f"{path}: {wanted}, got {type(shards).__name__ if shards is not None else 'none'}")
        for name, file in shards.items():
            if not isinstance(file, str) or Path(file).name != file:
                raise InputError(
                    f"{path}: {wanted}, and {name!r} is in {file!r:.120}: put that file beside the index, and write its bare name"
                )
        read = {file: _file_header(path.with_name(file)) for file in sorted(set(shards.values()))}
        lost = [name for name, file in shards.items() if name not in read[file]]
        if lost:
            raise InputError(f"{path}: {shards[lost[0]]} lacks tensor {lost[0]!r}: copy the whole folder again")
        return {name: read[file][name] for name, file in shards.items()}
    return _file_header(path)


def _in_folder(folder: Path) -> Path:
    with reading(folder):
        indexes, files = sorted(folder.glob(f"*{_INDEX}")), sorted(folder.glob("*.safetensors"))
        # A sentence-transformers folder of the older layout keeps the transformer in a folder of its own.
        if not indexes and not files:
            files = sorted(folder.glob("0_*/*.safetensors"))
        pickles = sorted([*folder.glob("pytorch_model*.bin"), *folder.glob("0_*/pytorch_model*.bin")])
    found = indexes or files
    if len(found) > 1:
        names = ", ".join(file.name for file in found[:_SHOWN])
        raise InputError(f"{folder}: expected one .safetensors file, or the index of its shards, got {names}: name the file itself")
    if not found and pickles:
        raise InputError(
            f"{folder} keeps its weights in {pickles[0].name}, a pickle, which is never opened here, since it could run code. If you "
            "trust it, convert it once with transformers: AutoModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER), which writes "
            "safetensors"
        )
    if not found:
        raise InputError(
            f"{folder} is no model's folder: modules.json, config.json and .safetensors files are missing; expected a folder that "
            "sentence-transformers or transformers saved, the id of a model, or a file of vectors"
        )
    return found[0]


def _file_header(path: Path) -> dict[str, TensorPlace]:
    broken = f"{path} is not a whole safetensors file"
    with reading(path), path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
            raise InputError(f"{broken}: its header cannot be {length:,} bytes of {size:,}; copy it again")
        raw = file.read(length)
    try:
        header = json.loads(raw.decode("utf-8"))
        entries = {name: value for name, value in header.items() if name != "__metadata__"}
        return {name: _place(path, value, first=8 + length, size=size) for name, value in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{broken}: its header does not describe it; copy it again") from None


def _place(path: Path, entry: Mapping[str, Any], *, first: int, size: int) -> TensorPlace:
    shape = tuple(int(side) for side in entry["shape"])
    start, end = (int(place) for place in entry["data_offsets"])
    values = 1
    for side in shape:
        values *= side
    if not 0 <= start <= end <= size - first or (entry["dtype"] in _BYTES and end - start != values * _BYTES[entry["dtype"]]):
        raise ValueError("offsets")
    return TensorPlace(path, str(entry["dtype"]), shape, first + start)


def _choose(path: Path, tensors: Mapping[str, TensorPlace]) -> str:
    flat = {name: place for name, place in tensors.items() if len(place.shape) == 2 and place.kind in _TYPES}
    likely = [name for name in flat if _TABLE.search(name) and not _OTHER.search(name)]
    if len(likely) == 1:
        return likely[0]
    other = {name: place for name, place in tensors.items() if len(place.shape) == 2 and place.kind not in _TYPES}
    # A quantized embedding beside a float head: the head is not what was asked for.
    quantized = {name: place for name, place in other.items() if _TABLE.search(name) and not _OTHER.search(name)}
    if flat and not likely and quantized:
        name, place = next(iter(quantized.items()))
        raise InputError(
            f"{path}: {name} {place.shape} is of {place.kind}; expected one of {', '.join(_TYPES)} (quantized: convert it first)"
        )
    if not flat and other:
        shown = ", ".join(f"{name} {place.shape} of {place.kind}" for name, place in list(other.items())[:_SHOWN])
        raise InputError(
            f"{path}: no table of floats to inspect: expected one of {', '.join(_TYPES)}, got {shown} (quantized: convert it first)"
        )
    if not likely and len(flat) == 1:
        return next(iter(flat))
    listed = sorted(likely or flat, key=lambda name: -flat[name].shape[0])
    shown = ", ".join(f"{name} {flat[name].shape}" for name in listed[:_SHOWN]) or "none with two dimensions"
    came = f"{len(likely)} look like one" if likely else "no name says so"
    raise InputError(f"{path}: which tensor is the embedding table? {came}: {shown}; name it with --table (table= in Python)")
