"""Token ids in `.npy` and raw files: cut near the ends of documents, each cut read with what stands around it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import reading
from normwise.data.token_shards import integer_type, refuse_changed, refuse_ids
from normwise.data.vectors import npy_header, refuse_other_size
from normwise.theory.stream_counts import CountPlan, StreamPart
from normwise.theory.token_stream import TokenStream

_LOOK_BACK = 1 << 16
_FIRST_LOOK = 1 << 12


@dataclass(frozen=True)
class TokenArray:
    """One row of ids in a file; a slice is read when it is asked for.

    Args:
        path: the file.
        size: its bytes.
        offset: bytes before the first id.
        stored: numpy's name of the type, such as "<u2".
        total: T, ids.
        vocabulary: V.
        end: the id that ends documents; None makes the file one document.
    """

    path: Path
    size: int
    offset: int
    stored: str
    total: int
    vocabulary: int
    end: int | None

    def read(self, start: int, stop: int) -> np.ndarray:
        """Ids from start to stop.

        Raises:
            InputError: the file cannot be read or ends early, or an id is outside the vocabulary.
        """
        kind = np.dtype(self.stored)
        with reading(self.path):
            found = np.fromfile(self.path, dtype=kind, count=stop - start, offset=self.offset + start * kind.itemsize)
        if found.size != stop - start:
            raise InputError(f"{self.path} ends early, at token {start + found.size:,} of {self.total:,}: it changed; copy it again")
        refuse_ids(found, self.vocabulary, lambda place: f"{self.path}, token {start + place} (from 0)")
        return found.astype(kind.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class ArrayShard:
    """Ids start to stop of an array.

    A shard that begins inside a document also reads the tokens before it that its counts need: those of a window, or, for the
    presence in a prefix, the document from its start, in blocks of which only the different tokens are kept. A document of n shards is
    then read n / 2 times over: give very long ones a window.
    """

    array: TokenArray
    start: int
    stop: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.array.path

    @property
    def size(self) -> int:
        """Bytes of the whole file when it was opened."""
        return self.array.size

    def parts(self, plan: CountPlan) -> Iterator[StreamPart]:
        """The shard as one part; see `TokenShard`."""
        array = self.array
        refuse_changed(array.path, array.size)
        low, high = max(0, self.start - plan.before), min(array.total, self.stop + plan.after)
        ids = array.read(low, high)
        far = self._far(ids[: self.start - low], low) if plan.needs_prefix else np.zeros(0, dtype=np.int64)
        if far.size:
            ids = np.concatenate([far.astype(ids.dtype), ids])
        starts = np.zeros(1, dtype=np.int64)
        if array.end is not None:
            # Of the different tokens from before none is the end of a document: one that ended would not go on here.
            starts = np.append(starts, np.flatnonzero(ids[:-1] == array.end) + 1)
        first = far.size + self.start - low
        yield StreamPart(TokenStream(ids, vocabulary=plan.vocabulary, starts=starts), first, first + self.stop - self.start)

    def _far(self, lead: np.ndarray, low: int) -> np.ndarray:
        """The different tokens before `low` of the document that the first counted token is in, sorted."""
        array, there = self.array, np.zeros(self.array.vocabulary, dtype=np.bool_)
        if array.end is not None and (lead == array.end).any():
            return np.flatnonzero(there)
        high = low
        while high > 0:
            # Blocks of the shard's own size: no more memory than the shard takes.
            start = max(0, high - max(_LOOK_BACK, self.stop - self.start))
            block = array.read(start, high)
            ends = np.zeros(0) if array.end is None else np.flatnonzero(block == array.end)
            there[block[int(ends[-1]) + 1 :] if ends.size else block] = True
            high = 0 if ends.size else start
        return np.flatnonzero(there)


def open_npy(path: Path, *, vocabulary: int, end: int | None) -> TokenArray:
    """Open ids that `numpy.save` wrote, without reading them.

    Raises:
        InputError: no `.npy` file, one of Python objects, cut short, of another shape than (T,), or of another type than integers.
    """
    with reading(path), path.open("rb") as file:
        shape, _, kind = npy_header(file, path)
        offset = file.tell()
    integer_type(path, kind)
    if len(shape) != 1:
        raise InputError(f"{path} has shape {shape}; expected one row of token ids: save ids.ravel(), with an end id after each document")
    if shape[0] < 1:
        raise InputError(f"{path} holds no tokens; expected at least one")
    refuse_other_size(path, offset + shape[0] * kind.itemsize, shape=shape, dtype=kind)
    return TokenArray(path, offset + shape[0] * kind.itemsize, offset, kind.str, shape[0], vocabulary, end)


def open_raw(path: Path, *, dtype: str | None, vocabulary: int, end: int | None) -> TokenArray:
    """Open bare ids without a header, as `numpy.ndarray.tofile` writes them, without reading them.

    Raises:
        InputError: the type was not told or is no integer, the file is empty, or its bytes make no whole number of ids.
    """
    if dtype is None:
        raise InputError(f"{path} holds bare numbers, which do not tell their type: name it as dtype (uint16 is usual below 65,536 tokens)")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise InputError(f"dtype is {dtype!r}; expected the name of an integer type, such as uint16 or int32") from None
    integer_type(path, kind)
    with reading(path):
        size = os.stat(path).st_size
    if not size:
        raise InputError(f"{path} is empty; expected at least one token")
    if size % kind.itemsize:
        raise InputError(f"{path} has {size:,} bytes, no multiple of the {kind.itemsize} of {kind}: is it cut short, or of another type?")
    return TokenArray(path, size, 0, kind.str, size // kind.itemsize, vocabulary, end)


def array_shards(array: TokenArray, shard_tokens: int) -> list[ArrayShard]:
    """Cut an array into shards of about `shard_tokens`, each after the end of a document where one is near, else anywhere."""
    cuts = {0, array.total}
    for nominal in range(shard_tokens, array.total, shard_tokens):
        cuts.add(_cut(array, nominal, min(_LOOK_BACK, shard_tokens // 2)))
    places = sorted(cuts)
    return [ArrayShard(array, start, stop) for start, stop in zip(places, places[1:], strict=False)]


def _cut(array: TokenArray, nominal: int, farthest: int) -> int:
    """The place after the last end of a document in the `farthest` tokens before the nominal cut, or that cut."""
    look = 0 if array.end is None else min(_FIRST_LOOK, farthest)
    while look:
        start = nominal - look
        ends = np.flatnonzero(array.read(start, nominal) == array.end)
        if ends.size:
            return start + int(ends[-1]) + 1
        look = 0 if look == farthest else min(16 * look, farthest)
    return nominal
