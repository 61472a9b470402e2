"""Counting tokens as the encoder would, before it truncates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sentence_transformers import SentenceTransformer


def token_counter(st: SentenceTransformer) -> Callable[[Sequence[str]], np.ndarray]:
    """A function that counts the tokens of texts before truncation, special tokens included.

    Args:
        st: the encoder, whose tokenizer counts.

    Returns:
        A function from n texts to (n,) int64 counts.
    """

    def count(texts: Sequence[str]) -> np.ndarray:
        encoded = st.tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        return np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)

    return count
