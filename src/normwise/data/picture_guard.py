"""Pillow with known settings: what a user set for the whole process neither helps nor harms a picture here."""

from __future__ import annotations

import logging
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

# Of the filters of warnings, only this one entry is added and taken away, and the list is never put back as a whole:
# `warnings.catch_warnings` would undo what other threads did to it in the meantime.
_QUIET = ("ignore", None, Warning, re.compile(r"PIL\b"), 0)
_LOCK = threading.Lock()
_limits: list[int] = []
_before: list[Any] = []


@contextmanager
def known_settings(max_pixels: int) -> Iterator[None]:
    """Keep Pillow strict and quiet while pictures are decoded; safe in several threads at once.

    Cut-off pictures are refused (`LOAD_TRUNCATED_IMAGES` off); Pillow's own limit of pixels becomes the largest
    `max_pixels` in use, above twice of which it refuses sizes that are told only deep in a file; the first frame of a
    GIF comes as it is in the file; Pillow's warnings are not shown. What was set before stands again afterwards.

    Args:
        max_pixels: width x height up to which a picture is decoded.
    """
    with _LOCK:
        if not _limits:
            _enter()
        _limits.append(max_pixels)
        _set_limit(max(_limits))
    try:
        yield
    finally:
        with _LOCK:
            _limits.remove(max_pixels)
            if _limits:
                _set_limit(max(_limits))
            else:
                _leave()


def _enter() -> None:
    from PIL import GifImagePlugin, Image, ImageFile

    _before[:] = [Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, GifImagePlugin.LOADING_STRATEGY]
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    GifImagePlugin.LOADING_STRATEGY = GifImagePlugin.LoadingStrategy.RGB_AFTER_FIRST
    warnings.filterwarnings("ignore", module=_QUIET[3].pattern)
    log = logging.getLogger("PIL")
    if not any(isinstance(handler, logging.NullHandler) for handler in log.handlers):
        log.addHandler(logging.NullHandler())  # else its errors go to the terminal where nobody set up logging


def _set_limit(pixels: int) -> None:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = pixels


def _leave() -> None:
    from PIL import GifImagePlugin, Image, ImageFile

    Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, GifImagePlugin.LOADING_STRATEGY = _before
    filters = cast("list[Any]", warnings.filters)
    if _QUIET in filters:
        filters.remove(_QUIET)
