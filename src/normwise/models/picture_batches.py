"""Batches of pictures made ready beside the model's work: decoded and resized by several threads, a little ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError, WorkError
from normwise.data.contents import Content, content_words, pictures_of
from normwise.data.picture_decoding import PictureError
from normwise.data.pictures import Picture
from normwise.models.inputs import Group, model_input, ready
from normwise.models.resizing import resizer
from normwise.models.skipping import Skipped

_Opened = dict[Picture, Any]


def picture_batches(
    st: SentenceTransformer,
    group: Group,
    *,
    batch_size: int,
    prompt: str | None = None,
    skipped: Skipped | None = None,
    what: str = "inputs",
    first: int = 0,
    **settings: Any,
) -> Iterator[tuple[np.ndarray, Mapping[str, Any]]]:
    """Model-ready features of what has pictures in it, batch by batch and in order.

    Pictures of the batches to come are decoded while the model works on this one. They are kept at full size by models
    that choose the size themselves: then one batch ahead, else two.

    Args:
        st: the encoder.
        group: pictures, or pictures with text.
        batch_size: inputs per batch.
        prompt: as in `ready`; None is none.
        skipped: receives inputs whose picture cannot be opened, which no batch then holds; None raises at the first.
        what: what messages call the contents.
        first: the number of the first content in messages.
        settings: of `SentenceTransformer.preprocess`, such as the task.

    Yields:
        (rows of the group, features); a batch of which nothing can be opened is left out.

    Raises:
        PictureError: a picture cannot be opened, and `skipped` is None; the message names the content.
    """
    resized = resizer(st)
    starts = range(0, len(group.inputs), batch_size)
    ahead = 1 if resized is None else 2
    with ThreadPoolExecutor(max_workers=_workers()) as decoders, ThreadPoolExecutor(max_workers=1) as processor:

        def submit(start: int) -> Future[tuple[np.ndarray, Mapping[str, Any] | None]]:
            chunk = group.inputs[start : start + batch_size]
            return processor.submit(finish, start, [decoders.submit(_open, content, resized) for content in chunk])

        def finish(start: int, opening: list[Future[_Opened | PictureError]]) -> tuple[np.ndarray, Mapping[str, Any] | None]:
            rows, inputs = [], []
            for row, found in enumerate(opening, start=start):
                opened = found.result()
                if isinstance(opened, PictureError):
                    _leave_out(opened, first + int(group.owners[row]), what, skipped)
                    continue
                rows.append(row)
                inputs.append(model_input(st, group.inputs[row], opened.__getitem__))
            features = ready(st, inputs, prompt=prompt or None, **settings) if inputs else None
            return np.asarray(rows, dtype=np.int64), features

        waiting = deque(submit(start) for start in starts[:ahead])
        try:
            for number in range(len(starts)):
                rows, features = waiting.popleft().result()
                if number + ahead < len(starts):
                    waiting.append(submit(starts[number + ahead]))
                if features is not None:
                    yield rows, features
        finally:
            decoders.shutdown(wait=False, cancel_futures=True)
            processor.shutdown(wait=False, cancel_futures=True)


def _leave_out(error: PictureError, number: int, what: str, skipped: Skipped | None) -> None:
    if skipped is None:
        raise PictureError(f"{error.name} ({what}[{number}])", error.problem, error.way_out)
    skipped.add(number, f"{error.name} {error.problem}")


def _open(content: Content, resized: Callable[[Any], Any] | None) -> _Opened | PictureError:
    try:
        opened = {picture: picture.open() for picture in pictures_of(content)}
    except PictureError as error:
        return error
    except (InputError, WorkError) as error:  # a file that is gone, or is another one by now
        return PictureError(content_words(content), f"cannot be opened ({error})", "give the file that was meant")
    return opened if resized is None else {picture: resized(image) for picture, image in opened.items()}


def _workers() -> int:
    return max(1, min(8, os.cpu_count() or 1))
