"""Encoders with their contract: loading, cutting, adapters and their merge, probe vectors, saving, norm freedom."""

from __future__ import annotations

from importlib.util import find_spec

from normwise.core.errors import MissingExtraError

for _module in ("torch", "transformers", "sentence_transformers", "peft", "safetensors"):
    if find_spec(_module) is None:
        raise MissingExtraError(_module, extra="train")
