"""Published recipes by name: in a config, an arm that is one word stands for its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from normwise.core.errors import near_names

_EPOCH = 7847
_PAPER: dict[str, Any] = {"batch_size": 32, "hard_negatives": 5, "warmup_ratio": 0.05, "steps": _EPOCH}
_ANGULAR: dict[str, Any] = {
    **_PAPER,
    "name": "angular",
    "similarity": "cosine",
    "temperature": 0.1,
    "trainable": "lora",
    "lora": {"rank": 32},
    "learning_rate": 2e-5,
}
_RADIAL: dict[str, Any] = {
    **_PAPER,
    "name": "radial",
    "similarity": "dot",
    "temperature": 100.0,
    "trainable": "full",
    "learning_rate": 2e-6,
    "start_step": 2000,
}
_FOCAL: dict[str, Any] = {"focal": {"gamma": 2.0}}

PRESETS: dict[str, tuple[dict[str, Any], ...]] = {
    "pace": ({**_ANGULAR, **_FOCAL}, {**_RADIAL, **_FOCAL}),
    "pace-without-focal": (_ANGULAR, _RADIAL),
    "vlm2vec": (_ANGULAR,),
    "vlm2vec-original": (
        {
            "name": "vlm2vec",
            "similarity": "cosine",
            "temperature": 0.02,
            "trainable": "lora",
            "lora": {"rank": 16},
            "learning_rate": 5e-5,
            "batch_size": 128,
            "warmup_ratio": 0.02,
            "steps": 5000,
        },
    ),
}
"""Stages by name.

`pace` and `vlm2vec` are the settings of PACE (arXiv 2609.15152, Tables 3 and 4) on 8 processes, where 7,847 steps of 32
pairs each are one epoch of 2.0 M pairs; the second stage starts from step 2,000 of the first, not from its end. The paper
gives no LoRA alpha and no temperature of the focal confidence: alpha is normwise's default, that temperature the first
stage's 0.1. `vlm2vec-original` is the recipe of VLM2Vec (Jiang et al., arXiv 2410.05160) as its code has it, in which a
batch of 1,024 comes from 8 processes of 128 (here without gradient caching).
"""


def preset_stages(value: Any) -> Any:
    """The stages of an arm that is named, anything else as it is.

    Raises:
        ValueError: a name that is unknown.

    Example:
        >>> [stage["similarity"] for stage in preset_stages("pace")]
        ['cosine', 'dot']
    """
    if not isinstance(value, str):
        return value
    if value not in PRESETS:
        raise ValueError(f"preset {value!r} is unknown: {near_names(value, PRESETS)}; or give a list of stages")
    return [dict(stage) for stage in PRESETS[value]]


def preset_arms(value: Any) -> Any:
    """Arms with every named one written out."""
    return {name: preset_stages(stages) for name, stages in value.items()} if isinstance(value, Mapping) else value
