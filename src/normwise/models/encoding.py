"""Encoding contents of any modality in one call: pictures are decoded beside the model's work, a few batches at a time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device, truncate_embeddings
from tqdm.auto import trange

from normwise.core.errors import InputError, WorkError
from normwise.data.contents import Content, content_words, pictures_of
from normwise.data.picture_decoding import PictureError
from normwise.data.pictures import Picture
from normwise.models.inputs import Group, group_contents, model_input, put_together, ready
from normwise.models.resizing import resizer

OnError = Literal["raise", "skip"]
_SHOWN = 5


@dataclass
class _Skipped:
    """Pictures that could not be opened, and the contents that had them; what messages call these, and their first number."""

    what: str
    first: int
    owners: set[int] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)


def encode_contents(
    st: SentenceTransformer,
    contents: Sequence[Content],
    *,
    prompt: str | None = None,
    task: str | None = None,
    batch_size: int = 64,
    progress: bool = False,
    on_error: OnError = "raise",
    what: str = "inputs",
    first: int = 0,
    check: bool = True,
) -> np.ndarray:
    """Raw vectors of texts, pictures and both, mixed in any order.

    Contents are grouped by modality, so that each batch is of one kind and the cost is that of the kinds apart; the
    vectors come back in the order of the contents. See `group_contents` for text and picture together.

    Args:
        st: the encoder; in evaluation mode afterwards, as `SentenceTransformer.encode` leaves it.
        contents: n contents; n may be 0.
        prompt: put before texts (and as the system line of a chat); None means none, whatever the model's default.
        task: of a model that routes by it.
        batch_size: inputs per forward pass.
        progress: draw a bar per modality.
        on_error: what a picture that cannot be opened does: "raise" stops the work and names it; "skip" gives its
            content the zero vector (which scores 0 against everything) and warns with the count and the names.
        what: what messages call the contents.
        first: the number of the first content in messages.
        check: refuse vectors that are not finite.

    Returns:
        (n, D) float32, norms as the model gives them.

    Raises:
        InputError: a picture for a model that reads none; PictureError: one cannot be opened.
        WorkError: a vector is not finite, or their number or width is wrong.
    """
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error must be raise or skip, got {on_error!r}")
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    width = st.get_embedding_dimension()
    if width is None:
        raise InputError("the model does not tell its width: it cannot encode")
    groups = group_contents(st, contents, what=what, first=first)
    settings: dict[str, Any] = {} if task is None else {"task": task}
    skipped = _Skipped(what, first)
    vectors = []
    for group in groups:
        if group.modality == "text":
            rows = _texts(st, group, prompt=prompt, batch_size=batch_size, progress=progress, **settings)
        else:
            rows = _pictures(st, group, skipped, prompt=prompt, batch_size=batch_size, progress=progress, on_error=on_error, **settings)
        vectors.append(_checked(rows, group, width=width, what=what, first=first) if check else rows)
    result = put_together(len(contents), vectors[0].shape[1] if vectors else width, groups, vectors)
    if skipped.owners:
        result[sorted(skipped.owners)] = 0.0
        _tell(skipped)
    return result


def _texts(st: SentenceTransformer, group: Group, *, prompt: str | None, batch_size: int, progress: bool, **settings: Any) -> np.ndarray:
    inputs = [model_input(st, content) for content in group.inputs]
    vectors: Any = st.encode(
        inputs,
        prompt=prompt or "",
        batch_size=batch_size,
        show_progress_bar=progress,
        convert_to_tensor=True,
        normalize_embeddings=False,
        **settings,
    )
    return vectors.float().cpu().numpy()


def _pictures(
    st: SentenceTransformer,
    group: Group,
    skipped: _Skipped,
    *,
    prompt: str | None,
    batch_size: int,
    progress: bool,
    on_error: OnError,
    **settings: Any,
) -> np.ndarray:
    """Encode what has pictures in it, the next batch made ready while the model works on this one."""
    st.eval()
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for rows, features in _prepared(st, group, skipped, batch_size, prompt, settings, on_error=on_error, progress=progress):
        with torch.no_grad():
            vectors = st(batch_to_device(dict(features), st.device), **settings)["sentence_embedding"]
        if st.truncate_dim is not None:
            vectors = truncate_embeddings(vectors, st.truncate_dim)
        found.append((rows, vectors.float().cpu().numpy()))
    width = found[0][1].shape[1] if found else st.get_embedding_dimension() or 0
    result = np.zeros((len(group.inputs), width), dtype=np.float32)
    for rows, vectors in found:
        result[rows] = vectors
    return result


def _prepared(
    st: SentenceTransformer,
    group: Group,
    skipped: _Skipped,
    batch_size: int,
    prompt: str | None,
    settings: dict[str, Any],
    *,
    on_error: OnError,
    progress: bool,
) -> Iterator[tuple[np.ndarray, Any]]:
    """Features batch by batch, with the rows they belong to; a batch of which nothing could be opened is left out."""
    starts = range(0, len(group.inputs), batch_size)
    resized = resizer(st)
    with ThreadPoolExecutor(max_workers=_workers()) as decoders, ThreadPoolExecutor(max_workers=1) as ahead:

        def prepare(start: int) -> tuple[np.ndarray, Any, list[tuple[int, PictureError]]]:
            rows = np.arange(start, min(start + batch_size, len(group.inputs)))
            opened = list(decoders.map(lambda row: _open(group.inputs[row], resized), rows.tolist()))
            bad = [(int(row), found) for row, found in zip(rows, opened, strict=True) if isinstance(found, PictureError)]
            good = [(int(row), found) for row, found in zip(rows, opened, strict=True) if not isinstance(found, PictureError)]
            if bad and on_error == "raise":
                row, error = bad[0]
                raise PictureError(f"{error.name} ({skipped.what}[{skipped.first + int(group.owners[row])}])", error.problem, error.way_out)
            inputs = [model_input(st, group.inputs[row], images.__getitem__) for row, images in good]
            features = ready(st, inputs, prompt=prompt or None, **settings) if inputs else None
            return np.asarray([row for row, _ in good], dtype=np.int64), features, bad

        waiting: Future[Any] | None = None
        for number in trange(len(starts), desc="Batches", disable=not progress):
            waiting = waiting or ahead.submit(prepare, starts[number])
            rows, features, bad = waiting.result()
            waiting = ahead.submit(prepare, starts[number + 1]) if number + 1 < len(starts) else None
            for row, error in bad:
                skipped.owners.add(int(group.owners[row]))
                skipped.problems.setdefault(error.name, error.problem)
            if features is not None:
                yield rows, features


def _open(content: Content, resized: Callable[[Any], Any] | None) -> dict[Picture, Any] | PictureError:
    try:
        opened = {picture: picture.open() for picture in pictures_of(content)}
    except PictureError as error:
        return error
    except (InputError, WorkError) as error:  # a file that is gone, or is another one by now
        return PictureError(content_words(content), f"cannot be opened ({error})", "give the file that was meant")
    return opened if resized is None else {picture: resized(image) for picture, image in opened.items()}


def _workers() -> int:
    return max(1, min(8, os.cpu_count() or 1))


def _checked(rows: np.ndarray, group: Group, *, width: int, what: str, first: int) -> np.ndarray:
    if rows.shape != (len(group.inputs), width):
        raise WorkError(f"the model gave vectors of shape {rows.shape} for {len(group.inputs)} {what} of width {width}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        place = first + int(group.owners[bad[0]])
        raise WorkError(f"the vector of {what}[{place}] is not finite ({bad.size} in all): use float32, or another model")
    return rows


def _tell(skipped: _Skipped) -> None:
    named = [f"{name} {problem}" for name, problem in list(skipped.problems.items())[:_SHOWN]]
    more = f"; and {len(skipped.problems) - _SHOWN} more" if len(skipped.problems) > _SHOWN else ""
    warnings.warn(
        f"{len(skipped.owners)} {skipped.what} have a picture that cannot be opened and got the zero vector: {'; '.join(named)}{more}",
        UserWarning,
        stacklevel=3,
    )
