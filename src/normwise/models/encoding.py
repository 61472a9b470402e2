"""Encoding contents of any modality in one call: pictures are decoded beside the model's work, a few batches at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device, truncate_embeddings
from tqdm.auto import tqdm

from normwise.core.errors import InputError, WorkError
from normwise.data.contents import Content
from normwise.models.inputs import Group, group_contents, model_input, put_together
from normwise.models.picture_batches import picture_batches
from normwise.models.skipping import Skipped


def encode_contents(
    st: SentenceTransformer,
    contents: Sequence[Content],
    *,
    prompt: str | None = None,
    task: str | None = None,
    batch_size: int = 64,
    progress: bool = False,
    skipped: Skipped | None = None,
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
        skipped: contents that it names get the zero vector (which scores 0 against everything) and are not looked at; it
            receives those with a picture that cannot be opened. None raises at the first of them.
        what: what messages call the contents.
        first: the number of the first content in messages and in `skipped`.
        check: refuse vectors that are not finite.

    Returns:
        (n, D) float32, norms as the model gives them.

    Raises:
        InputError: a picture for a model that reads none; PictureError: one cannot be opened.
        WorkError: a vector is not finite, or their number or width is wrong.
    """
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    width = st.get_embedding_dimension()
    if width is None:
        raise InputError("the model does not tell its width: it cannot encode")
    left_out = [] if skipped is None else skipped.rows(first, len(contents))
    groups = group_contents(st, contents, what=what, first=first, without=frozenset(map(int, left_out)))
    settings: dict[str, Any] = {} if task is None else {"task": task}
    plain: dict[str, Any] = {"prompt": prompt, "batch_size": batch_size, "progress": progress, **settings}
    vectors = []
    for group in groups:
        if group.modality == "text":
            rows = _texts(st, group, **plain)
        else:
            rows = _pictures(st, group, skipped=skipped, what=what, first=first, **plain)
        vectors.append(_checked(rows, group, width=width, what=what, first=first) if check else rows)
    result = put_together(len(contents), vectors[0].shape[1] if vectors else width, groups, vectors)
    if skipped is not None:
        result[skipped.rows(first, len(contents))] = 0.0
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
    st: SentenceTransformer, group: Group, *, prompt: str | None, batch_size: int, progress: bool, skipped: Skipped | None, **settings: Any
) -> np.ndarray:
    """Encode what has pictures in it, the next batches made ready while the model works on this one."""
    st.eval()
    found: list[tuple[np.ndarray, np.ndarray]] = []
    task = {name: value for name, value in settings.items() if name == "task"}
    batches = picture_batches(st, group, batch_size=batch_size, prompt=prompt, skipped=skipped, **settings)
    count = -(-len(group.inputs) // batch_size)
    for rows, features in tqdm(batches, desc="Batches", total=count, disable=not progress):
        with torch.no_grad():
            vectors = st(batch_to_device(dict(features), st.device), **task)["sentence_embedding"]
        if st.truncate_dim is not None:
            vectors = truncate_embeddings(vectors, st.truncate_dim)
        found.append((rows, vectors.float().cpu().numpy()))
    width = found[0][1].shape[1] if found else st.get_embedding_dimension() or 0
    result = np.zeros((len(group.inputs), width), dtype=np.float32)
    for rows, vectors in found:
        result[rows] = vectors
    return result


def _checked(rows: np.ndarray, group: Group, *, width: int, what: str, first: int) -> np.ndarray:
    if rows.shape != (len(group.inputs), width):
        raise WorkError(f"the model gave vectors of shape {rows.shape} for {len(group.inputs)} {what} of width {width}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        place = first + int(group.owners[bad[0]])
        raise WorkError(f"the vector of {what}[{place}] is not finite ({bad.size} in all): use float32, or another model")
    return rows
