"""Probe vectors: what an encoder answers to fixed texts, so that any change to it can be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError
from normwise.data.contents import Content
from normwise.data.pictures import Picture
from normwise.models.encoding import encode_contents
from normwise.models.inputs import as_contents, reads

_LONG = " ".join(
    f"Paragraph {number} of a long report repeats that river {number % 7} rose by {number * 3} centimeters." for number in range(60)
)

PROBE_TEXTS: tuple[str, ...] = (
    "a",
    ".",
    " ",
    "animal",
    "The ginger cat fell asleep on the warm radiator.",
    "A spaniel puppy chewed through the garden hose this morning.",
    "Which train leaves for the coast before sunrise?",
    "Nothing in this sentence is true, except that it ends here.",
    "Interest rates rose by a quarter of a point, and bond prices fell.",
    "Boil the lentils for twenty minutes, then add salt and lemon.",
    "Return the largest value of the array along the given axis.",
    "def mean(values):\n    return sum(values) / len(values)\n",
    "for (int i = 0; i < n; ++i) { total += weights[i] * x[i]; }",
    "SELECT name, COUNT(*) FROM orders GROUP BY name HAVING COUNT(*) > 3;",
    '{"id": 17, "tags": ["red", "blue"], "price": 3.50}',
    "Der Zug nach Köln fährt heute zwanzig Minuten später ab.",
    "Où se trouve la bibliothèque la plus proche ?",
    "東京の天気は明日から雨になります。",
    "Погода завтра будет ясной и тёплой.",
    "E = m c², ∑ 1/k² = π²/6, α ≤ β",
    "😀 two thumbs up 👍👍 for the new café",
    "cat cat cat cat cat cat cat cat",
    "MIXED case And   odd\tspacing\n\nacross lines",
    _LONG,
)


@dataclass(frozen=True)
class ProbeComparison:
    """How far two sets of probe vectors lie apart.

    `largest_difference` is max |a_ij - b_ij|; `largest_norm_difference` is max | ||a_i|| - ||b_i|| |; `allowed` is the
    tolerance times the mean norm of the reference (or times 1 when that norm is below 1), the same bound for both.
    """

    largest_difference: float
    largest_norm_difference: float
    allowed: float

    @property
    def same(self) -> bool:
        """Whether both differences are within what is allowed (NaN never is)."""
        return self.largest_difference <= self.allowed and self.largest_norm_difference <= self.allowed


_DRAWINGS: tuple[tuple[int, int, Callable[..., tuple[np.ndarray, ...]]], ...] = (
    # (height, width, red, green and blue of x, y, height and width)
    (96, 96, lambda x, y, h, w: (x * 0 + 200, x * 0 + 40, x * 0 + 90)),
    (80, 120, lambda x, y, h, w: (x * 255 // (w - 1), y * 255 // (h - 1), (x + y) % 256)),
    (128, 64, lambda x, y, h, w: ((x // 16 + y // 16) % 2 * 255, (x // 16) % 2 * 255, x * 0)),
    (64, 64, lambda x, y, h, w: ((x * 7 + y * 13) % 32 * 8, (x * 3) % 64 * 4, (y * 5) % 128 * 2)),
    (100, 140, lambda x, y, h, w: (((x - w // 2) ** 2 + (y - h // 2) ** 2 < 1600) * 255, x * 0 + 128, y * 255 // (h - 1))),
    (112, 112, lambda x, y, h, w: ((x * 7919 + y * 104729) % 251, (x * 6007 + y * 3571) % 241, (x * 4327 + y * 8009) % 239)),
)


@cache
def probe_pictures() -> tuple[Picture, ...]:
    """Fixed pictures, drawn by formulas: flat, gradients, checkers, stripes, a disk, noise; no two of one shape."""
    from PIL import Image

    drawn = []
    for number, (height, width, planes) in enumerate(_DRAWINGS):
        y, x = np.mgrid[0:height, 0:width]
        image = Image.fromarray(np.stack(planes(x, y, height, width), axis=-1).astype(np.uint8))
        drawn.append(Picture.of_image(image, name=f"probe picture {number}"))
    return tuple(drawn)


def probe_contents(st: SentenceTransformer) -> tuple[Content, ...]:
    """What an encoder is probed with: `PROBE_TEXTS`, and `probe_pictures` where it reads pictures."""
    return PROBE_TEXTS if reads(st) == "texts" else (*PROBE_TEXTS, *probe_pictures())


def probe_vectors(st: SentenceTransformer, contents: Sequence[Any] | None = None) -> np.ndarray:
    """Encode fixed contents without any prompt.

    Args:
        st: the encoder; its training mode is as before afterwards.
        contents: texts or pictures (`as_contents`), by default `probe_contents`.

    Returns:
        Raw float32 vectors of shape (len(contents), width), in the order of the contents.
    """
    was_training = st.training
    known = list(probe_contents(st)) if contents is None else as_contents(list(contents), what="probe")
    try:
        with torch.no_grad():
            return encode_contents(st, known, batch_size=8, check=False)
    finally:
        st.train(was_training)


def compare(vectors: np.ndarray, reference: np.ndarray, *, tolerance: float) -> ProbeComparison:
    """Measure how far vectors lie from their reference.

    Args:
        vectors: (n, D).
        reference: (n, D), what is expected.
        tolerance: allowed difference per coordinate and per norm, in units of the reference's mean norm (at least 1).

    Raises:
        InputError: the shapes differ.

    Example:
        >>> compare(np.ones((2, 4)), np.ones((2, 4)), tolerance=1e-6).same
        True
    """
    if vectors.shape != reference.shape:
        raise InputError(f"probe vectors have shape {vectors.shape}, expected {reference.shape}: the model's width changed")
    ours, theirs = np.asarray(vectors, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    norms = np.linalg.norm(theirs, axis=1)
    return ProbeComparison(
        largest_difference=float(np.max(np.abs(ours - theirs))),
        largest_norm_difference=float(np.max(np.abs(np.linalg.norm(ours, axis=1) - norms))),
        allowed=tolerance * max(1.0, float(norms.mean())),
    )
