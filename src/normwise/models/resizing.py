"""Resizing pictures where they are decoded, one per thread, in place of one after another in the image processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import (
    BitImageProcessorPil,
    CLIPImageProcessorPil,
    EfficientNetImageProcessorPil,
    SiglipImageProcessorPil,
    ViTImageProcessorPil,
)
from transformers.image_processing_backends import PilBackend

from normwise.models.inputs import reads
from normwise.models.towers import tower_transformer

# They resize before anything else, by Pillow and to a size that depends on the picture's alone.
_RESIZE_FIRST = (BitImageProcessorPil, CLIPImageProcessorPil, EfficientNetImageProcessorPil, SiglipImageProcessorPil, ViTImageProcessorPil)
_SIZES = ({"height", "width"}, {"shortest_edge"})


def resizer(st: SentenceTransformer) -> Callable[[Any], Any] | None:
    """What resizes an RGB picture as the image processor of a vision tower is about to.

    The processor then finds the size that it wants and changes no pixel: features are equal to the last bit. Pillow lets
    other threads work while it resizes; inside the processor it is one picture after another, each copied three times at full size.

    Args:
        st: the encoder.

    Returns:
        A function of an open RGB picture; None where the processor does something else first, or is not known to do nothing else.
    """
    vision: Any = tower_transformer(st, "vision") if reads(st) == "towers" else None
    whole = getattr(vision, "processor", None)
    processor: Any = getattr(whole, "image_processor", whole)
    if type(processor) not in _RESIZE_FIRST or not processor.do_resize or type(processor).resize is not PilBackend.resize:
        return None
    if any((getattr(vision, "processing_kwargs", None) or {}).get(part) for part in ("image", "common")):
        return None
    size = {name: value for name, value in dict(processor.size).items() if value}
    if size.keys() not in _SIZES:
        return None

    def resized(picture: Any) -> Any:
        width, height = picture.size
        wanted = _wanted(width, height, size)
        return picture if picture.size == wanted else picture.resize(wanted, resample=processor.resample)

    return resized


def _wanted(width: int, height: int, size: dict[str, int]) -> tuple[int, int]:
    """Width and height after resizing: those that are stated, or the stated shorter side and the longer one in proportion, cut off."""
    if "shortest_edge" not in size:
        return size["width"], size["height"]
    side = size["shortest_edge"]
    return (side, int(side * height / width)) if width <= height else (int(side * width / height), side)
