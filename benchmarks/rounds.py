"""What the benchmarks of pictures share: JPEG files in memory, a claim from rounds of turns, words about the machine."""

from __future__ import annotations

import io
import os
import platform
import statistics
from typing import Any

import numpy as np
import torch
from PIL import Image

from normwise.data.pictures import Picture


def jpeg_picture(pixels: np.ndarray, *, name: str) -> Picture:
    """A JPEG file in memory of (height, width, 3) uint8."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=90)
    return Picture.of_bytes(buffer.getvalue(), name=name)


def claim(words: str, ratios: list[float], *, bound: float, at_most: bool, note: str, seconds: list[Any]) -> dict[str, Any]:
    """One row of the table: the median decides."""
    median = statistics.median(ratios)
    return {
        "claim": words,
        "median": median,
        "min": min(ratios),
        "max": max(ratios),
        "unit": "x",
        "rounds": len(ratios),
        "bound": bound,
        "holds": median <= bound if at_most else median >= bound,
        "note": note,
        "seconds": seconds,
    }


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {torch.get_num_threads()} threads, {platform.system()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}, load {os.getloadavg()[0]:.1f} at the end"
    )
