"""How long texts are to an encoder: the one count that factors, controls and indexes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from normwise.data.factors import token_counts

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder


def text_lengths(encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """Count the tokens of texts as the encoder reads them, special tokens included, cut where the encoder cuts.

    Returns:
        (n,) float64.
    """
    from normwise.models.structure import token_limit
    from normwise.models.tokens import token_counter

    counts = token_counts(texts, token_counter(encoder.model))
    limit = token_limit(encoder.model)
    return counts if limit is None else np.minimum(counts, float(limit))
