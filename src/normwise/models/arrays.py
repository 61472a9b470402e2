"""Writing an array of unknown length row by row, as a .npy file that appears whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Self, final

import numpy as np

from normwise.core.errors import WorkError
from normwise.core.files import refusal

_HEADER = 128


@final
class ArrayWriter:
    """A float32 .npy file (n, width) written in pieces, n known only at the end.

    Use as a context: leaving it moves the file into place, an error leaves nothing behind.
    """

    def __init__(self, path: Path, *, width: int) -> None:
        self.path, self.width, self.rows = path, width, 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.NamedTemporaryFile(prefix=f".{self.path.name}.", dir=self.path.parent, delete=False)
            self._file.write(self._header())
        except OSError as error:
            raise self._failed(error) from error
        return self

    def append(self, rows: np.ndarray) -> None:
        """Write rows (m, width) behind those already there.

        Raises:
            WorkError: the disk refused.
        """
        if self._file is None:
            raise WorkError(f"{self.path} is not open for writing")
        try:
            self._file.write(np.ascontiguousarray(rows, dtype="<f4").tobytes())
        except OSError as error:
            raise self._failed(error) from error
        self.rows += len(rows)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            if kind is None:
                file.seek(0)
                file.write(self._header())
                file.flush()
                os.fsync(file.fileno())
            file.close()
            if kind is None:
                os.chmod(file.name, 0o644)
                os.replace(file.name, self.path)
        except OSError as failure:
            raise self._failed(failure) from failure
        finally:
            Path(file.name).unlink(missing_ok=True)

    def _header(self) -> bytes:
        # The .npy format 1.0 pads its header with spaces, so that one of fixed size can be written again at the end.
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({self.rows}, {self.width}), }}"
        body = text.encode("latin1").ljust(_HEADER - 11) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body

    def _failed(self, error: OSError) -> WorkError:
        return WorkError(f"could not write {self.path}: {refusal(error)}")
