"""Whether a saved folder is still what was saved: by hashes of its files, by what the model says, by what it answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import load_file_path

from normwise.core.errors import InputError, WorkError
from normwise.core.files import read_json
from normwise.data.opening import reading
from normwise.models.contract import Contract
from normwise.models.probe import PROBE_TEXTS, compare, probe_vectors
from normwise.models.structure import token_limit

CONTRACT_FILE, PROBE_FILE, CARD_FILE = "normwise.json", "probe.safetensors", "README.md"
# What libraries read beside weights when it lies there: added to a folder, such a file can change the vectors.
_READ_BY_NAME = ("*config*.json", "*token*.json", "*vocab*", "merges.txt", "*.index.json", "*.model", "*.jinja", "*.py")
_OWN_HASH = "contract_sha256"
_WAY_OUT = (
    "restore the saved folder; or check the change and save the model anew "
    "(normwise.Encoder(SentenceTransformer(folder), similarity=...).save(new_folder)); or remove normwise.json to use it as a plain model"
)


def check_unchanged(name: str, target: str, st: SentenceTransformer, *, revision: str | None, normalized: bool) -> Contract | None:
    """Compare an opened model with the contract that was saved beside it.

    Files must have the hashes that the contract holds; a card and files that no library reads may come and go. The
    model must say what the contract says, and answer the probe texts as it did then, up to the rounding of other
    hardware. A folder without hashes of all its files (format before them) is checked by its weights and its answers.

    Args:
        name: what the person asked for, for the message.
        target: the folder or hub id that was opened.
        st: the model as opened, without a final `Normalize`.
        revision: of a hub id.
        normalized: whether a final `Normalize` was taken away.

    Returns:
        The contract; None when there is none.

    Raises:
        InputError: a file, a setting or the contract itself was changed; the message says which, and the way out.
        WorkError: the files are those that were saved, but the model answers differently here.
    """
    found = load_file_path(target, CONTRACT_FILE, revision=revision)
    if found is None:
        return None
    contract = read_contract(Path(found))
    # Fetched before the files are compared: a hub's copy holds what was asked for.
    probe = load_file_path(target, PROBE_FILE, revision=revision)
    if probe is None:
        raise InputError(f"{name}: {PROBE_FILE} is missing, so the model cannot be checked: {_WAY_OUT}")
    folder = Path(found).parent
    with reading(folder):
        changes = _changed_files(folder, contract, whole=Path(target).is_dir())
    changes += _changed_settings(st, contract, normalized=normalized)
    if changes:
        raise InputError(f"{name}: this is not the model that was saved: {'; '.join(changes)}. {_WAY_OUT}")
    _check_answers(name, st, read_probe(Path(probe)), contract)
    return contract


def _changed_files(folder: Path, contract: Contract, *, whole: bool) -> list[str]:
    changes = []
    if contract.weights_sha256 and hash_weights(folder) != contract.weights_sha256:
        changes.append("its weight files (*.safetensors) are others")
    saved = contract.files_sha256
    if not saved:
        return changes
    for file, digest in saved.items():
        if (folder / file).is_file():
            if _hash_file(folder / file) != digest:
                changes.append(f"{file} was changed")
        elif whole:
            changes.append(f"{file} is missing")
    places = sorted({folder, *((folder / file).parent for file in saved)})
    for place in places:
        lying = {path.relative_to(folder).as_posix() for pattern in _READ_BY_NAME for path in place.glob(pattern) if path.is_file()}
        changes += [f"{file} was added" for file in sorted(lying - set(saved))]
    return changes


def _changed_settings(st: SentenceTransformer, contract: Contract, *, normalized: bool) -> list[str]:
    changes = []
    if normalized:
        changes.append("a Normalize module was put at its end")
    width = st.get_embedding_dimension()
    if width != contract.dimensions:
        changes.append(f"its vectors have {width} dimensions, {CONTRACT_FILE} says {contract.dimensions}")
    if contract.similarity.ranking is not contract.plain_similarity:
        changes.append(f"{CONTRACT_FILE} says {contract.similarity.value}, which does not rank like {contract.plain_similarity.value}")
    now = (st.similarity_fn_name, st.prompts.get("query") or "", st.prompts.get("document") or "", token_limit(st))
    then = (contract.plain_similarity.value, contract.query_prompt, contract.candidate_prompt, contract.max_tokens)
    if now != then:
        changes.append(f"its similarity, prompts or token limit are {now}, but it was saved with {then}")
    return changes


def _check_answers(name: str, st: SentenceTransformer, reference: np.ndarray, contract: Contract) -> None:
    result = compare(probe_vectors(st), reference, tolerance=contract.probe_tolerance)
    if not result.same:
        raise WorkError(
            f"{name}: this is not the model that was saved: it answers the probe texts with vectors that differ by up to "
            f"{result.largest_difference:.3g}, norms by up to {result.largest_norm_difference:.3g} (allowed {result.allowed:.3g}); "
            f"it was saved with {', '.join(f'{package} {number}' for package, number in contract.versions.items())}. {_WAY_OUT}"
        )


def hash_weights(folder: Path) -> str:
    """SHA-256 over all weight files of a model folder, names included, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.safetensors")):
        if path.name == PROBE_FILE:
            continue
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def hash_files(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a model folder by its relative path, but for weights, the contract and the card."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and (path.suffix != ".safetensors" or path.name == PROBE_FILE)]
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: _hash_file(path) for name, path in names.items() if name not in (CONTRACT_FILE, CARD_FILE)}


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_texts() -> str:
    """SHA-256 of the probe texts, which decides whether stored probe vectors can be compared."""
    return hashlib.sha256("\x00".join(PROBE_TEXTS).encode()).hexdigest()


def hash_contract(values: Mapping[str, Any]) -> str:
    """SHA-256 of a contract's plain values, its own hash left out, however the file is laid out.

    Example:
        >>> hash_contract({"a": 1, "b": 2}) == hash_contract({"b": 2, "a": 1, "contract_sha256": "x"})
        True
    """
    rest = {key: value for key, value in values.items() if key != _OWN_HASH}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def seal(contract: Contract, folder: Path) -> Contract:
    """Fill the hashes of a folder's files, and then of the contract itself, into the contract."""
    filled = contract.model_copy(update={"weights_sha256": hash_weights(folder), "files_sha256": hash_files(folder)})
    return filled.model_copy(update={_OWN_HASH: hash_contract(filled.model_dump(mode="json"))})


def read_contract(path: Path) -> Contract:
    """Read a `normwise.json`.

    Raises:
        InputError: it is not a contract of ours, or it was changed after it was saved.
    """
    values = read_json(path)
    if isinstance(values, dict) and values.get(_OWN_HASH) and hash_contract(values) != values[_OWN_HASH]:
        raise InputError(f"{path} was changed after it was saved: {_WAY_OUT}")
    try:
        return Contract.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path} is not a contract that this version of normwise reads: {key}: {first['msg']}; update normwise, or {_WAY_OUT}"
        ) from None


def read_probe(path: Path) -> np.ndarray:
    """Read stored probe vectors.

    Raises:
        InputError: the file is damaged.
    """
    try:
        return load_file(str(path))["vectors"]
    except Exception as error:
        raise InputError(f"{path} holds no probe vectors ({error}): copy the folder again") from error
