"""Where an encoder came from and what was done to it, remembered on the encoder itself."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer


def base_notes(st: SentenceTransformer) -> tuple[str, ...]:
    """What `load_base` did to the encoder, in words."""
    return getattr(st, "normwise_notes", ())


def base_source(st: SentenceTransformer) -> tuple[str, str | None]:
    """The name and the revision that `load_base` resolved; ("unknown", None) for a model it did not open."""
    return getattr(st, "normwise_source", ("unknown", None))


def base_background(st: SentenceTransformer) -> str | None:
    """What the contract of the model that `load_base` opened says shows where pictures are transparent; None where it says nothing."""
    return getattr(st, "normwise_background", None)


def remember(st: Any, notes: tuple[str, ...], *, source: str, revision: str | None, background: str | None = None) -> None:
    """Write down what `base_notes`, `base_source` and `base_background` tell."""
    st.normwise_background = background
    st.normwise_notes = notes
    st.normwise_source = (source, revision)
