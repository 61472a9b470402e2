"""Padding that a model's vectors depend on, whatever shares a batch with a text."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer

# Their text tower takes the last place of the row, padding or not, and was trained on rows of one length.
_FIXED_LENGTH = ("siglip", "siglip2")


def pad_as_trained(st: SentenceTransformer) -> str | None:
    """Have SigLIP's texts padded to one length, in place, as it was trained; sentence-transformers pads to the longest of a batch.

    Its text vector is read at the last place of the padded row, so that otherwise a text's vector changes with the texts
    beside it. The setting is saved with the model. Call it again after `max_seq_length` was changed.

    Args:
        st: the encoder.

    Returns:
        What was done, in words; None where nothing depends on padding.
    """
    module: Any = st[0]
    if not isinstance(module, Transformer) or module.config.model_type not in _FIXED_LENGTH or module.tokenizer is None:
        return None
    length = min(module.max_seq_length or 0, module.config.get_text_config().max_position_embeddings)
    # The processor of SigLIP 2 has a length of its own (64), which would win over the tokenizer's.
    wanted = {"padding": "max_length", "truncation": True, "max_length": length}
    module.processing_kwargs = {**module.processing_kwargs, "text": {**module.processing_kwargs.get("text", {}), **wanted}}
    return f"texts are padded to {length} tokens, as SigLIP was trained"
