"""Counting tokens as the encoder would, before it truncates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer


def token_counter(st: SentenceTransformer) -> Callable[[Sequence[str]], np.ndarray]:
    """A function that counts the tokens of texts before truncation, special tokens included where the encoder adds any.

    Args:
        st: the encoder, whose tokenizer counts.

    Returns:
        A function from n texts to (n,) int64 counts.
    """
    tokenizer: Any = st.tokenizer
    # That of a static embedding is no callable, and its encoder reads no special tokens.
    read = _read_static if not callable(tokenizer) else _read

    def count(texts: Sequence[str]) -> np.ndarray:
        return np.array([len(ids) for ids in read(tokenizer, list(texts))], dtype=np.int64)

    return count


def _read(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, truncation=False, padding=False, verbose=False)["input_ids"]


def _read_static(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return [encoded.ids for encoded in tokenizer.encode_batch(texts, add_special_tokens=False)]
