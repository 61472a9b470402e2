"""Saving an encoder so that plain sentence-transformers loads it, proven before the folder appears."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError, WorkError
from normwise.core.files import whole_folder, write_json, write_text
from normwise.core.similarity import Similarity
from normwise.data.opening import kind_of
from normwise.models.contract import Contract, norm_distribution
from normwise.models.loading import load_plain
from normwise.models.probe import compare, probe_vectors
from normwise.models.seal import CARD_FILE, CONTRACT_FILE, PROBE_FILE, hash_texts, seal
from normwise.models.structure import ends_in_normalize, foreign_modules
from normwise.models.weights import quiet_bars

RELOAD_TOLERANCE = 1e-5


def save_encoder(st: SentenceTransformer, out: Path | str, *, contract: Contract, card_text: str, overwrite: bool = False) -> Contract:
    """Write a folder that plain `SentenceTransformer(out)` loads with the same raw vectors and the right similarity.

    The folder is filled under another name, loaded afresh from there, compared on the probe texts, and only then moved
    into place. Beside the library's files it holds `normwise.json` (the contract) and `probe.safetensors` (the probe
    vectors). The card is `card_text`: the library's own, which shows training texts, is not written.

    Args:
        st: the encoder, without adapters and without a `Normalize` module at its end.
        out: the folder to write.
        contract: of `describe_encoder`.
        card_text: the README.md, Markdown.
        overwrite: replace a folder that is there.

    Returns:
        The contract as written, with norms and the hashes of the files filled in.

    Raises:
        InputError: `out` exists, or the encoder cannot be loaded by plain sentence-transformers.
        WorkError: the disk refused, or the reloaded model answers differently (nothing then appears at `out`).
    """
    _check_saveable(st)
    out = Path(out)
    if kind_of(out) is not None and not overwrite:
        raise InputError(f"{out} exists already: choose another folder, or pass overwrite=True to replace it")
    vectors = probe_vectors(st)
    if not np.all(np.isfinite(vectors)):
        raise WorkError("the encoder gives vectors that are not finite: it was not saved; go back to an earlier checkpoint")
    if contract.norms is None:
        norms = norm_distribution(np.linalg.norm(vectors.astype(np.float64), axis=1), of="the probe texts")
        contract = contract.model_copy(update={"norms": norms})
    with whole_folder(out, overwrite=overwrite) as work:
        with quiet_bars():
            save_plain(_plain_copy(st, contract), work)
        save_file({"vectors": vectors}, str(work / PROBE_FILE), metadata={"texts": hash_texts()})
        contract = seal(contract, work)
        write_json(work / CONTRACT_FILE, contract.model_dump(mode="json"))
        write_text(work / CARD_FILE, card_text)
        _check_reload(work, st, vectors, contract)
    return contract


def save_plain(st: SentenceTransformer, folder: Path) -> None:
    """Write the library's own files of an encoder into a folder that loads only when all of them are there.

    The list of modules stands there broken until the library writes it, after the weights: without it, a folder with
    half of the modules would load with a pooling of the library's choice.

    Raises:
        WorkError: the disk refused.
    """
    write_text(folder / "modules.json", "unfinished\n")
    try:
        st.save(str(folder), create_model_card=False)
    except SafetensorError as error:
        raise WorkError(f"could not write the weights to {folder}: {error}; free space, then go on with --resume") from error


def _check_saveable(st: SentenceTransformer) -> None:
    if foreign := foreign_modules(st):
        raise InputError(
            f"the encoder has modules that plain sentence-transformers does not know ({', '.join(foreign)}): it cannot be saved for others"
        )
    if any(".lora_" in name for name, _ in st.named_parameters()):
        raise InputError("the encoder still has adapters: merge them before saving")
    if ends_in_normalize(st):
        raise InputError(
            "the encoder ends in a Normalize module, so raw norms would be lost: open it with load_base or Encoder.load, which leave it out"
        )


def _plain_copy(st: SentenceTransformer, contract: Contract) -> SentenceTransformer:
    # A second wrapper around the same modules, so that the caller's model keeps its own settings.
    prompts = {key: value for key, value in st.prompts.items() if value is not None}
    return SentenceTransformer(
        modules=list(st.children()),
        device=str(st.device),
        prompts=prompts,
        default_prompt_name=st.default_prompt_name,
        similarity_fn_name="cosine" if contract.plain_similarity is Similarity.COSINE else "dot",
        truncate_dim=st.truncate_dim,
    )


def _check_reload(folder: Path, st: SentenceTransformer, vectors: np.ndarray, contract: Contract) -> None:
    # On the same device, so that nothing but the files can make a difference.
    fresh = load_plain(str(folder), device=str(st.device), trust_remote_code=bool(getattr(st, "trust_remote_code", False)))
    if fresh.model.similarity_fn_name != contract.plain_similarity.value:
        raise WorkError(
            f"the saved model scores by {fresh.model.similarity_fn_name}, not {contract.plain_similarity.value}: nothing was saved"
        )
    half = next(fresh.model.parameters()).element_size() < 4
    result = compare(probe_vectors(fresh.model), vectors, tolerance=contract.probe_tolerance if half else RELOAD_TOLERANCE)
    if not result.same:
        raise WorkError(
            f"the saved model, loaded afresh, answers differently: largest difference {result.largest_difference:.3g}, of norms "
            f"{result.largest_norm_difference:.3g}, allowed {result.allowed:.3g}. Nothing was saved"
        )
