"""What a checkpoint really delivered: a missing or left-over weight is an error, never a silent random tensor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import transformers.integrations.peft
import transformers.modeling_utils
from transformers.utils import logging as transformers_logging

from normwise.core.errors import InputError

# Buffers that older checkpoints carry and newer code rebuilds, and heads that pooling never reads.
_HARMLESS_ENDINGS = ("position_ids", "rotary_emb.inv_freq", "masked_bias", "attn.bias")
_SHOWN = 5


@contextmanager
def checked_weights(name: str) -> Iterator[None]:
    """Refuse a checkpoint that leaves weights of the encoder at random, or whose own weights find no place.

    Args:
        name: what is being loaded, for the message.

    Raises:
        InputError: names the missing, mismatched or left-over weights. Allowed: a missing or left-over pooler (pooling
            over tokens never reads it), task heads outside the encoder, and buffers that are rebuilt.
    """
    reports: list[tuple[Any, Any]] = []

    def record(model: Any, *args: Any, loading_info: Any, **kwargs: Any) -> None:
        reports.append((model, loading_info))

    # transformers 5 only logs its report (a table of text); its public flag for it changes what from_pretrained returns,
    # which sentence-transformers does not expect. To be deleted when a callback or an error mode exists there.
    places: list[Any] = [transformers.modeling_utils, transformers.integrations.peft]
    kept = [place.log_state_dict_report for place in places]
    for place in places:
        place.log_state_dict_report = record
    try:
        with quiet_bars():
            yield
    finally:
        for place, report in zip(places, kept, strict=True):
            place.log_state_dict_report = report
    problems = [problem for model, info in reports for problem in _problems(model, info)]
    if problems:
        raise InputError(
            f"model {name!r}: its weights do not fit its configuration: {'; '.join(problems)}. "
            "Loading it would leave random weights; check that the folder is complete and was saved by one model"
        )


def _problems(model: Any, info: Any) -> list[str]:
    missing = sorted(key for key in info.missing_keys if not _is_harmless(key))
    # Without its module's prefix, a left-over key that starts like a part of the encoder was meant for the encoder.
    parts = {part for part, _ in model.named_children()}
    prefix = f"{model.base_model_prefix}."
    left_over = sorted(
        key for key in info.unexpected_keys if not _is_harmless(key) and (key.removeprefix(prefix).split(".")[0] in parts or "lora_" in key)
    )
    mismatched = [f"{key} ({tuple(found)} in the file, {tuple(wanted)} wanted)" for key, found, wanted in sorted(info.mismatched_keys)]
    problems = []
    for word, keys in (("missing", missing), ("without a place in the model", left_over), ("of another shape", mismatched)):
        if keys:
            more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            problems.append(f"{len(keys)} {word}: {', '.join(keys[:_SHOWN])}{more}")
    problems += [str(message) for message in [*info.error_msgs, *info.conversion_errors.values()]]
    return problems


def _is_harmless(key: str) -> bool:
    return key.endswith(_HARMLESS_ENDINGS) or "pooler" in key.split(".")


@contextmanager
def quiet_bars() -> Iterator[None]:
    """Switch the progress bars of transformers off unless a person watches a terminal."""
    if sys.stderr.isatty() or not transformers_logging.is_progress_bar_enabled():
        yield
        return
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.enable_progress_bar()
