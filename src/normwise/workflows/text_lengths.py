"""How long contents are to an encoder: the one count that factors, controls and indexes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from normwise.data.contents import Content
from normwise.data.factors import token_counts

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder


def text_lengths(encoder: Encoder, contents: Sequence[Content]) -> np.ndarray:
    """Count the tokens of texts as the encoder reads them, special tokens included, cut where the encoder cuts.

    A picture has no length: what an encoder makes of it (patches, a fixed grid) follows the encoder and not the picture. So
    has a text beside a picture, whose share of what is read is not known.

    Returns:
        (n,) float64; NaN for a content that is no text.
    """
    from normwise.models.structure import token_limit
    from normwise.models.tokens import token_counter

    texts = [content for content in contents if isinstance(content, str)]
    lengths = np.full(len(contents), np.nan)
    if not texts:
        return lengths
    counts = token_counts(texts, token_counter(encoder.model))
    limit = token_limit(encoder.model)
    lengths[[isinstance(content, str) for content in contents]] = counts if limit is None else np.minimum(counts, float(limit))
    return lengths


def known_lengths(lengths: np.ndarray | None) -> np.ndarray | None:
    """Lengths where every content has one, else None: the feature is left out where it does not exist.

    Example:
        >>> known_lengths(np.array([2.0, np.nan])) is None, known_lengths(np.array([2.0]))
        (True, array([2.]))
    """
    return None if lengths is None or np.isnan(lengths).any() else lengths
