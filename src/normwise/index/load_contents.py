"""Contents ready to be loaded into a server, with a fingerprint by which a load that goes on is known to go on with the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from normwise.index.checks import Value
from normwise.index.contents import Contents, texts_hash
from normwise.index.row_hashes import row_hashes, sum_hashes
from normwise.theory.in_threads import in_threads

_TOGETHER = 4096
_PART_BYTES = 1 << 22


class LoadContents:
    """Candidates as a server stores them; rows are hashed when they are sent, while the server works on those before.

    Args:
        contents: the candidates.
        vectors: (N, D) float32 as ranked (`Contents.scored`): directions for cosine, else raw.
    """

    def __init__(self, contents: Contents, vectors: np.ndarray) -> None:
        self.contents, self.vectors = contents, vectors
        # It reads all there is, mostly outside the interpreter's lock: a load begins meanwhile.
        pool = ThreadPoolExecutor(max_workers=1)
        self._fingerprint = pool.submit(_fingerprint, contents, raw=vectors is contents.vectors)
        pool.shutdown(wait=False)
        self._hashes = np.zeros((len(contents), 32), dtype=np.uint8)
        self._done = np.zeros(len(contents), dtype=bool)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the rows and their order; waits until it is there."""
        return self._fingerprint.result()

    def hashes(self, rows: slice) -> np.ndarray:
        """(n, 32) uint8 hashes of rows, each computed once."""
        if not self._done[rows].all():
            self._hashes[rows] = row_hashes(self.contents.ids[rows], self.contents.vectors[rows])
            self._done[rows] = True
        return self._hashes[rows]

    @cached_property
    def corpus(self) -> str:
        """Order-free hash of the raw vectors."""
        for start in range(0, len(self.contents), _TOGETHER):
            self.hashes(slice(start, min(start + _TOGETHER, len(self.contents))))
        return sum_hashes(row.tobytes() for row in self._hashes)

    @cached_property
    def texts(self) -> str | None:
        """Order-free hash of the texts, None without."""
        return texts_hash(self.contents)


def _fingerprint(contents: Contents, *, raw: bool) -> str:
    """Hash everything that decides the rows and their order."""
    digest = hashlib.sha256(json.dumps([2, raw, contents.dimensions, len(contents), contents.texts is None]).encode())
    digest.update("\0".join(contents.ids).encode("utf-8"))
    for numbers in (contents.vectors, contents.norms, contents.lengths):
        if numbers is not None:
            digest.update(b"".join(_digests(numbers)))
    digest.update("\0".join(contents.texts or ()).encode("utf-8"))
    for row in contents.metadata or ():
        digest.update(json_object(row).encode("utf-8") + b"\n")
    return digest.hexdigest()


def _digests(numbers: np.ndarray) -> list[bytes]:
    """Hashes of an array's parts, which the library makes side by side."""
    step = max(1, _PART_BYTES // (numbers.nbytes // len(numbers)))

    def digest(start: int) -> bytes:
        part = np.ascontiguousarray(numbers[start : start + step], dtype=numbers.dtype.newbyteorder("<"))
        return hashlib.sha256(part.data).digest()

    return in_threads(digest, range(0, len(numbers), step), size=numbers.nbytes, least=4 * _PART_BYTES)


def json_object(row: Mapping[str, Value]) -> str:
    """A flat table as JSON.

    Example:
        >>> json_object({"year": 2020})
        '{"year": 2020}'
    """
    return json.dumps(dict(row), ensure_ascii=False)
