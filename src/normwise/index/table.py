"""What stands beside the vectors of an embedded index, row by row: ids, norms, texts, lengths and metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import read_json, write_text
from normwise.core.index_records import NormStorage
from normwise.index.checks import Value
from normwise.index.contents import Contents, Known
from normwise.index.questions import check_present
from normwise.index.row_hashes import row_hashes

_HALF_SMALLEST, _HALF_LARGEST = 2.0**-14, 65504.0


class Table:
    """Rows in the order in which candidates were added; rows that leave are closed up."""

    def __init__(self, contents: Contents, *, norm_storage: NormStorage) -> None:
        self.ids = np.array(contents.ids, dtype=object)
        self.norms = stored_norms(contents.norms, norm_storage)
        self.hashes = row_hashes(contents.ids, contents.vectors)
        self.texts = None if contents.texts is None else list(contents.texts)
        self.lengths = contents.lengths
        self.metadata: list[Mapping[str, Value]] = [{}] * len(contents) if contents.metadata is None else list(contents.metadata)
        self.kinds = dict(contents.kinds)
        self.row_of = {name: row for row, name in enumerate(contents.ids)}
        self._rows_by_value: dict[str, dict[Value, np.ndarray]] = {}

    def __len__(self) -> int:
        return self.ids.size

    def known(self, dimensions: int) -> Known:
        """What additions have to fit."""
        return Known(dimensions, self.kinds, self.texts is not None, self.lengths is not None)

    def append(self, contents: Contents, *, norms: np.ndarray) -> None:
        """Add rows at the end; `norms` are theirs as `stored_norms` gave them."""
        first = len(self)
        self.ids = np.concatenate([self.ids, np.array(contents.ids, dtype=object)])
        self.norms = np.concatenate([self.norms, norms])
        self.hashes = np.concatenate([self.hashes, row_hashes(contents.ids, contents.vectors)])
        if self.texts is not None and contents.texts is not None:
            self.texts = [*self.texts, *contents.texts]
        if self.lengths is not None and contents.lengths is not None:
            self.lengths = np.concatenate([self.lengths, contents.lengths])
        self.metadata = [*self.metadata, *([{}] * len(contents) if contents.metadata is None else contents.metadata)]
        self.kinds |= contents.kinds
        self.row_of |= {name: first + row for row, name in enumerate(contents.ids)}
        self._rows_by_value = {}

    def remove(self, rows: np.ndarray) -> None:
        """Take rows out and close up."""
        keep = np.ones(len(self), dtype=bool)
        keep[rows] = False
        kept = np.flatnonzero(keep)
        self.ids, self.norms, self.hashes = self.ids[kept], self.norms[kept], self.hashes[kept]
        if self.texts is not None:
            self.texts = [self.texts[row] for row in kept]
        if self.lengths is not None:
            self.lengths = self.lengths[kept]
        self.metadata = [self.metadata[row] for row in kept]
        self.row_of = {name: row for row, name in enumerate(self.ids)}
        self._rows_by_value = {}

    def texts_of(self, ids: Sequence[str]) -> list[str | None]:
        """The texts of ids, None where there are none.

        Raises:
            InputError: an id is not there.
        """
        check_present(ids, self.row_of)
        return [None if self.texts is None else self.texts[self.row_of[name]] for name in ids]

    def metadata_of(self, ids: Sequence[str]) -> list[Mapping[str, Value]]:
        """The metadata of ids, copied.

        Raises:
            InputError: an id is not there.
        """
        check_present(ids, self.row_of)
        return [dict(self.metadata[self.row_of[name]]) for name in ids]

    def rows_where(self, where: Mapping[str, Value]) -> np.ndarray:
        """Ascending rows that have every one of these values."""
        rows: np.ndarray | None = None
        for key, value in where.items():
            if key not in self._rows_by_value:
                self._rows_by_value[key] = self._by_value(key)
            these = self._rows_by_value[key].get(value, np.empty(0, dtype=np.int64))
            rows = these if rows is None else np.intersect1d(rows, these, assume_unique=True)
        return np.arange(len(self)) if rows is None else rows

    def _by_value(self, key: str) -> dict[Value, np.ndarray]:
        rows: dict[Value, list[int]] = {}
        for row, table in enumerate(self.metadata):
            if key in table:
                rows.setdefault(table[key], []).append(row)
        return {value: np.array(those, dtype=np.int64) for value, those in rows.items()}

    def save(self, folder: Path) -> None:
        """Write the rows as JSON and `.npy` files."""
        _write(folder / "ids.json", self.ids.tolist())
        np.save(folder / "norms.npy", self.norms, allow_pickle=False)
        np.save(folder / "hashes.npy", self.hashes, allow_pickle=False)
        if self.texts is not None:
            _write(folder / "texts.json", self.texts)
        if self.lengths is not None:
            np.save(folder / "lengths.npy", self.lengths, allow_pickle=False)
        if self.kinds:
            _write(folder / "metadata.json", {"types": {key: kind.__name__ for key, kind in self.kinds.items()}, "rows": self.metadata})

    @classmethod
    def load(cls, folder: Path) -> Table:
        """Read what `save` wrote; the files were checked by their hashes before."""
        table = cls.__new__(cls)
        table.ids = np.array(read_json(folder / "ids.json"), dtype=object)
        table.norms = np.load(folder / "norms.npy", allow_pickle=False)
        table.hashes = np.load(folder / "hashes.npy", mmap_mode="r", allow_pickle=False)
        table.texts = read_json(folder / "texts.json") if (folder / "texts.json").exists() else None
        lengths = folder / "lengths.npy"
        table.lengths = np.load(lengths, allow_pickle=False) if lengths.exists() else None
        metadata = read_json(folder / "metadata.json") if (folder / "metadata.json").exists() else {"types": {}, "rows": [{}] * len(table)}
        kinds = {kind.__name__: kind for kind in (str, int, float, bool)}
        table.kinds = {key: kinds[name] for key, name in metadata["types"].items()}
        table.metadata = metadata["rows"]
        table.row_of = {name: row for row, name in enumerate(table.ids)}
        table._rows_by_value = {}
        return table


def _write(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, allow_nan=False))


def stored_norms(norms: np.ndarray, storage: NormStorage) -> np.ndarray:
    """Return norms in the type that keeps them: float32, or float16 with three good digits.

    Raises:
        InputError: a norm other than 0 lies outside what float16 holds with full precision, 2^-14..65504; the message names
            its row.

    Example:
        >>> stored_norms(np.array([0.0, 70000.0]), "float16")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: vectors: row 1 has norm 70000; norm_storage float16 holds 0 and 6.1e-05..65504: use float32
    """
    if storage == "float32":
        return norms.astype(np.float32)
    bad = np.flatnonzero((norms > _HALF_LARGEST) | ((norms < _HALF_SMALLEST) & (norms > 0.0)))
    if bad.size:
        raise InputError(
            f"vectors: row {bad[0]} has norm {norms[bad[0]]:.6g}; norm_storage float16 holds 0 and "
            f"{_HALF_SMALLEST:.2g}..{_HALF_LARGEST:.0f}: use float32"
        )
    return norms.astype(np.float16)
