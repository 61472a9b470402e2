"""What every kind of token file shares: a shard that can be sent elsewhere, and the words for ids that are none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import reading
from normwise.theory.stream_counts import CountPlan, StreamPart
from normwise.theory.token_stream import TokenStream


class TokenShard(Protocol):
    """Tokens of one file that are counted together; picklable, and opened where it is counted.

    Every token of the sources is in one shard. What stands around a shard in its document is read with it, so that counts do not
    depend on where shards begin.
    """

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the whole file when it was opened."""
        ...

    def parts(self, plan: CountPlan) -> Iterator[StreamPart]:
        """Read the tokens, with what the plan needs around them.

        Raises:
            InputError: the file changed, cannot be read, or holds an id outside the vocabulary; the message names file, place, value.
        """
        ...


def integer_type(path: Path, kind: np.dtype) -> np.dtype:
    """Refuse types that hold no ids."""
    if kind.kind not in "iu":
        raise InputError(f"{path} holds {kind}; expected integer token ids: write them as uint16 or int32")
    return kind


def refuse_ids(ids: np.ndarray, vocabulary: int, where: Callable[[int], str]) -> None:
    """Raise InputError where an id is outside the vocabulary; `where` says in words where the place-th stands."""
    if not ids.size or (int(ids.min()) >= 0 and int(ids.max()) < vocabulary):
        return
    place = int(np.argmax((ids < 0) | (ids >= vocabulary)))
    raise InputError(
        f"{where(place)}: id {ids[place]}; expected ids from 0 to {vocabulary - 1}: is this the right vocabulary, and the right type?"
    )


def refuse_changed(path: Path, size: int) -> None:
    """Raise InputError where the file has another size than when it was opened."""
    with reading(path):
        found = os.stat(path).st_size
    if found != size:
        raise InputError(f"{path} has {found:,} bytes, and had {size:,} when it was opened: it changed; count its sources again")


def whole_documents(ids: np.ndarray, lengths: np.ndarray, plan: CountPlan, end: int | None) -> Iterator[StreamPart]:
    """Yield documents as one part, or nothing where they hold no token. An end id inside a document ends one too.

    Args:
        ids: of all documents, one after the other.
        lengths: tokens of each, 0 allowed.
        plan: what is counted.
        end: the id that ends documents, or None.
    """
    if not ids.size:
        return
    starts = np.append(0, np.cumsum(lengths[:-1], dtype=np.int64))
    if end is not None:
        starts = np.union1d(starts, np.flatnonzero(ids[:-1] == end) + 1)
    yield StreamPart(TokenStream(ids, vocabulary=plan.vocabulary, starts=starts), 0, ids.size)
