"""The encoder behind an index: the one whose hash its manifest holds, and no other."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.index_records import IndexManifest

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

UNKNOWN = "vectors"
_SHOWN = 12


def open_encoder(model: str | Path | Encoder) -> Encoder:
    """Open an encoder, or take an open one.

    Raises:
        InputError: as `Encoder.load`; MissingExtraError: the libraries of models are not installed.
    """
    if not isinstance(model, str | Path):
        return model
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", extra="train")
    from normwise.models.encoder import Encoder

    return Encoder.load(model)


def encoder_of(manifest: IndexManifest, model: str | Path | Encoder | None, *, index: str) -> tuple[Encoder, tuple[str, ...]]:
    """Open the encoder whose vectors an index holds.

    Args:
        manifest: of the index.
        model: None takes the one that the manifest names.
        index: what to call the index.

    Returns:
        The encoder, and notes: that nothing could be checked where the index was made of bare vectors.

    Raises:
        InputError: no model is known, or it is another one; the message says which belongs to the index.
    """
    if model is None:
        if manifest.model == UNKNOWN or not manifest.model_name:
            raise InputError(
                f"{index} holds bare vectors, and no model is known that reads texts for it: search with vectors, or name a model"
            )
        model = manifest.model_name
    encoder = open_encoder(model)
    if manifest.model == UNKNOWN:
        if encoder.dimensions != manifest.dimensions:
            raise InputError(
                f"{encoder.name} makes vectors of {encoder.dimensions} dimensions, and {index} holds {manifest.dimensions}: they are of "
                "another model; name that one"
            )
        note = f"{index} was made of bare vectors: whether they are of {encoder.name} cannot be checked"
        return encoder, (note,)
    found = model_hash(encoder)
    if found != manifest.model:
        own = manifest.model_name or "another model"
        raise InputError(
            f"{index} was built with {own} (hash {manifest.model[:_SHOWN]}), and {encoder.name} is another model (hash {found[:_SHOWN]}), "
            "whose vectors mean something else: search with the first, or build the index anew with the second"
        )
    return encoder, ()


def model_hash(encoder: Encoder) -> str:
    """The hash by which an index and a calibration know a model."""
    from normwise.models.fingerprint import model_fingerprint

    return model_fingerprint(encoder)
