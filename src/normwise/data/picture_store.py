"""Drawings kept as pictures: drawn once at a fixed size into the cache, and told apart by what they look like."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import numpy as np

from normwise.core.errors import MissingExtraError
from normwise.data.cache import BuiltTables, cached_tables
from normwise.data.clusters import components
from normwise.data.emoji_files import Concept, Style, drawings, package_version
from normwise.data.emoji_svg import SIDE, draw_all

# Changed when the same drawings would give other pictures or other groups.
_WAY = 1
_BLOCK = 256


@dataclass(frozen=True)
class StoredPictures:
    """The pictures of one style.

    Attributes:
        png: id of a concept -> the bytes of its picture, in the order of the concepts.
        look: id -> number of the group of pictures that look the same.
        ink: id -> share of the square that is drawn on, 0..1.
        left_out: id -> why it has no picture.
        remark: what befell the cache; empty when nothing did.
    """

    png: Mapping[str, bytes]
    look: Mapping[str, int]
    ink: Mapping[str, float]
    left_out: Mapping[str, str]
    remark: str = ""


def stored_pictures(style: Style, folder: Path, concepts: Sequence[Concept], *, cache_dir: Path | None = None) -> StoredPictures:
    """Draw every concept that a style has, or read the pictures from the cache.

    Args:
        style: whose drawings.
        folder: of its package.
        concepts: which of them.
        cache_dir: None means the default cache.

    Raises:
        InputError: a file of the package is missing or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    key = repr((_WAY, style, package_version(folder), SIDE, _version("resvg_py"), [concept.id for concept in concepts]))
    tables, facts = cached_tables(f"pictures-{style}", key=key, cache_dir=cache_dir, build=_builder(style, folder, concepts))
    rows = tables["pictures"]
    return StoredPictures(
        dict(zip(rows["id"], rows["png"], strict=True)),
        dict(zip(rows["id"], rows["look"], strict=True)),
        dict(zip(rows["id"], rows["ink"], strict=True)),
        facts["left_out"],
        facts.get("cache", ""),
    )


def look_alikes(pictures: Sequence[np.ndarray], *, distance: float = 0.01) -> np.ndarray:
    """Number the groups of pictures that look the same.

    Two look the same when the root mean square of the differences of their values is below `distance`; what looks the
    same as a third is in its group.

    Args:
        pictures: n arrays of one size, values 0..1.
        distance: 0.01 is about 2.5 of 255 levels.

    Returns:
        (n,) int64, numbered 0, 1, ... in order of first appearance.

    Example:
        >>> look_alikes([np.zeros(4), np.ones(4), np.full(4, 0.001)]).tolist()
        [0, 1, 0]
    """
    if not pictures:
        return np.empty(0, dtype=np.int64)
    values = np.stack([picture.reshape(-1) for picture in pictures]).astype(np.float64)
    values -= values.mean(axis=0)
    squares = np.einsum("nd,nd->n", values, values)
    keys: list[list[tuple[int, int]]] = [[] for _ in pictures]
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        apart = squares[block, None] + squares[None, :] - 2.0 * values[block] @ values.T
        for one, other in zip(*np.nonzero(apart < distance**2 * values.shape[1]), strict=True):
            if start + one < other:
                pair = (start + int(one), int(other))
                keys[pair[0]].append(pair)
                keys[pair[1]].append(pair)
    return components(keys)


def _builder(style: Style, folder: Path, concepts: Sequence[Concept]) -> Callable[[], BuiltTables]:
    def build() -> BuiltTables:
        drawn = list(drawings(style, folder, concepts))
        answers = draw_all([text for _, text in drawn])
        names = [name for name, _ in drawn]
        pictures = [(name, answer) for name, answer in zip(names, answers, strict=True) if isinstance(answer, bytes)]
        left_out = {name: answer for name, answer in zip(names, answers, strict=True) if isinstance(answer, str)}
        seen = [_on_white(png) for _, png in pictures]
        table = {
            "id": [name for name, _ in pictures],
            "png": [png for _, png in pictures],
            "look": look_alikes([values for values, _ in seen]).tolist(),
            "ink": [ink for _, ink in seen],
        }
        return {"pictures": table}, {"left_out": left_out}

    return build


def _on_white(png: bytes) -> tuple[np.ndarray, float]:
    """A small version on white, (32, 32, 3) in 0..1, and the share of the square that is drawn on."""
    image = _pillow().open(io.BytesIO(png)).convert("RGBA")
    ink = float(np.mean(np.asarray(image)[:, :, 3]) / 255.0)
    white = _pillow().new("RGBA", image.size, (255, 255, 255, 255))
    white.alpha_composite(image)
    small = white.convert("RGB").resize((32, 32), _pillow().Resampling.BOX)
    return np.asarray(small, dtype=np.float32) / 255.0, ink


@lru_cache(maxsize=1)
def _pillow():  # noqa: ANN202 - a module of an optional package
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("PIL", extra="images") from None
    return Image


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise MissingExtraError(name, extra="images") from None
