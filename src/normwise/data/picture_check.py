"""Every picture decoded once before the work, so that a bad one is told at the start and by name."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from normwise.core.errors import InputError
from normwise.data.picture_decoding import MAX_PIXELS, PictureError
from normwise.data.pictures import Picture

OnError = Literal["skip", "raise"]
# A task decodes this many pictures, one after the other.
_BLOCK = 32
_TOLD = 5


@final
@dataclass(frozen=True)
class PictureProblem:
    """A picture that cannot be shown to a model.

    Args:
        index: where it stands, counted from 0.
        name: what it is called.
        problem: what is wrong, as a clause after the name.
        way_out: what to do.

    Example:
        >>> str(PictureProblem(3, "cat.png", "is empty (0 bytes)", "leave it out, or give the whole file"))
        'cat.png is empty (0 bytes): leave it out, or give the whole file'
    """

    index: int
    name: str
    problem: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.name} {self.problem}: {self.way_out}"


def check_pictures(pictures: Sequence[Picture], *, max_pixels: int = MAX_PIXELS, workers: int | None = None) -> tuple[PictureProblem, ...]:
    """Decode every distinct picture once and say which cannot be.

    At any time at most `workers` pictures are decoded in memory; each is let go at once.

    Args:
        pictures: in any number; equal ones are decoded once and told wherever they stand.
        max_pixels: width x height up to which a picture is decoded.
        workers: threads; None is one a core, at most 8.

    Returns:
        The problems in the order of the pictures; empty when all are good.

    Raises:
        InputError: no worker.
        WorkError: a file was changed after its picture was made.
        MissingExtraError: Pillow is not installed.

    Example:
        >>> [problem.name for problem in check_pictures([Picture.of_bytes(b"a text", name="a.png")])]
        ['a.png']
    """
    threads = _default_workers() if workers is None else workers
    if threads < 1:
        raise InputError(f"workers must be 1 or more, got {workers}: leave it out for one a core")
    distinct = list(dict.fromkeys(pictures))
    blocks = [distinct[start : start + _BLOCK] for start in range(0, len(distinct), _BLOCK)]
    if threads > 1 and len(distinct) < threads * _BLOCK:
        blocks = [block for first in range(threads) if (block := distinct[first::threads])]
    found: dict[Picture, tuple[str, str]] = {}
    for problems in _run(blocks, max_pixels, threads):
        found.update(problems)
    return tuple(
        PictureProblem(index, picture.name, *found[picture]) for index, picture in enumerate(pictures) if found and picture in found
    )


def keep_good(
    pictures: Sequence[Picture], *, on_error: OnError, max_pixels: int = MAX_PIXELS, workers: int | None = None
) -> tuple[np.ndarray, tuple[PictureProblem, ...]]:
    """Check pictures and go on with the good ones, or with none.

    Args:
        pictures: to check.
        on_error: `skip` leaves bad pictures out, `raise` stops at them.
        max_pixels: as in `check_pictures`.
        workers: as in `check_pictures`.

    Returns:
        The indices of the good pictures, (n,) int64 in order, and the problems of the others.

    Raises:
        InputError: on `raise`, names the first five bad pictures and counts all.

    Example:
        >>> kept, problems = keep_good([Picture.of_bytes(b"a text", name="a.png")], on_error="skip")
        >>> kept.tolist(), len(problems)
        ([], 1)
    """
    if on_error not in ("skip", "raise"):
        raise InputError(f"on_error must be skip or raise, got {on_error!r}")
    problems = check_pictures(pictures, max_pixels=max_pixels, workers=workers)
    if problems and on_error == "raise":
        told = "; ".join(f"{problem.index} (from 0), {problem}" for problem in problems[:_TOLD])
        more = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
        raise InputError(
            f"{len(problems)} of {len(pictures)} pictures cannot be used: {told}{more}; mend them, or set on_error to skip to go on without"
        )
    bad = {problem.index for problem in problems}
    return np.array([index for index in range(len(pictures)) if index not in bad], dtype=np.int64), problems


def _default_workers() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores))


def _run(blocks: list[list[Picture]], max_pixels: int, threads: int) -> list[dict[Picture, tuple[str, str]]]:
    stop = threading.Event()

    def work(block: list[Picture]) -> dict[Picture, tuple[str, str]]:
        problems: dict[Picture, tuple[str, str]] = {}
        for picture in block:
            if stop.is_set():
                break
            problem = _problem_of(picture, max_pixels)
            if problem is not None:
                problems[picture] = problem
        return problems

    if threads == 1 or len(blocks) == 1:
        return [work(block) for block in blocks]
    executor = ThreadPoolExecutor(threads, thread_name_prefix="pictures")
    try:
        return list(executor.map(work, blocks))
    finally:
        # An interrupt, or the first error, does not wait for pictures that nobody will ask about.
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


def _problem_of(picture: Picture, max_pixels: int) -> tuple[str, str] | None:
    try:
        picture.open(max_pixels=max_pixels)
    except PictureError as error:
        return error.problem, error.way_out
    except InputError as error:
        return f"cannot be read ({error})", "put the file back, or leave the picture out"
    return None
