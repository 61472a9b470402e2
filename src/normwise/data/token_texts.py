"""Plain text through a fast tokenizer: each line, or each paragraph, is a document, and none is cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.opening import reading
from normwise.data.token_shards import refuse_changed, whole_documents
from normwise.theory.stream_counts import CountPlan, StreamPart

TextDocuments = Literal["lines", "paragraphs"]
_BOM = b"\xef\xbb\xbf"
_BYTES_OF_TOKEN = 4
_PART_TOKENS = 1 << 18


@dataclass(frozen=True)
class TextShard:
    """The documents of a text file that lie between two bytes.

    Each document is tokenized by itself, without special tokens and whole, whatever length the tokenizer's file cuts at. A document
    cannot be cut, since what a tokenizer makes of a text depends on all of it: memory grows with the longest one.

    Args:
        path: the file.
        size: its bytes.
        start: the first byte, where a document begins.
        stop: the byte behind the last.
        tokenizer: a tokenizer.json.
        documents: "lines", each with a character other than space, or "paragraphs", which blank lines part.
        vocabulary: V.
        end: the id that is put behind each document; None puts none.
    """

    path: Path
    size: int
    start: int
    stop: int
    tokenizer: Path
    documents: TextDocuments
    vocabulary: int
    end: int | None

    def parts(self, plan: CountPlan) -> Iterator[StreamPart]:
        """Parts of whole documents; see `TokenShard`."""
        refuse_changed(self.path, self.size)
        tokenizer, last = load_tokenizer(self.tokenizer), [] if self.end is None else [self.end]
        ids: list[int] = []
        lengths: list[int] = []
        for text in self._texts():
            # One text at a time keeps to this process's core: other shards have other processes. "fast" leaves out offsets alone.
            found = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
            ids += found + last
            lengths.append(len(found) + len(last))
            if len(ids) >= _PART_TOKENS:
                yield from whole_documents(np.array(ids), np.array(lengths), plan, self.end)
                ids, lengths = [], []
        yield from whole_documents(np.array(ids, dtype=np.int64), np.array(lengths, dtype=np.int64), plan, self.end)

    def _texts(self) -> Iterator[str]:
        """Each document that is not blank."""
        lines: list[bytes] = []
        begins = 0
        with reading(self.path), self.path.open("rb") as file:
            for place, line in _lines(file, self.start, self.stop):
                if not line.strip():
                    if lines:
                        yield self._decoded(b"\n".join(lines), begins)
                    lines = []
                    continue
                if self.documents == "lines":
                    yield self._decoded(line, place)
                    continue
                begins = begins if lines else place
                lines.append(line)
        if lines:
            yield self._decoded(b"\n".join(lines), begins)

    def _decoded(self, text: bytes, place: int) -> str:
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{error.object[error.start]:02x}"
            raise InputError(f"{self.path}, document at byte {place}: not UTF-8 ({byte}): save the file as UTF-8") from None


def open_text(
    path: Path, *, tokenizer: Path, documents: TextDocuments, shard_tokens: int, vocabulary: int, end: int | None
) -> list[TextShard]:
    """Cut a text file into shards of about `shard_tokens` times four bytes, between documents; only the lines at the cuts are read.

    Raises:
        InputError: the file is missing, empty or blank at all cuts.
    """
    with reading(path):
        size = os.stat(path).st_size
        if not size:
            raise InputError(f"{path} is empty; expected text")
        with path.open("rb") as file:
            cuts, place = [0], 0
            while (place := max(place, cuts[-1]) + shard_tokens * _BYTES_OF_TOKEN) < size:
                found = _next_document(file, place, documents)
                if cuts[-1] < found < size:
                    cuts.append(found)
    return [
        TextShard(path, size, start, stop, tokenizer, documents, vocabulary, end)
        for start, stop in zip(cuts, [*cuts[1:], size], strict=True)
    ]


def tokenizer_file(path: Path) -> Path:
    """The tokenizer.json that a path names: the file itself, or the one in a folder."""
    return path / "tokenizer.json" if path.is_dir() else path


def vocabulary_of(path: Path) -> int:
    """V of a tokenizer: its highest id and one.

    Raises:
        InputError: as `load_tokenizer`, or the tokenizer knows no token.
    """
    numbers = load_tokenizer(path).get_vocab(with_added_tokens=True).values()
    if not numbers:
        raise InputError(f"{path} is a tokenizer without tokens; expected one with a vocabulary")
    return max(numbers) + 1


def load_tokenizer(path: Path) -> Any:
    """Load a tokenizer.json for whole texts: nothing is cut or filled up, which many files ask for.

    Raises:
        InputError: the file is missing or no tokenizer.
        MissingExtraError: the library is not installed.
    """
    with reading(path):
        state = os.stat(path)
    return _loaded(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=4)
def _loaded(path: Path, size: int, changed: int) -> Any:
    """Size and time of change are there to tell one content of a file from the next."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError("tokenizers", extra="train") from None
    try:
        found = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"{path} is not a tokenizer.json: {str(error).splitlines()[0]}; save it with tokenizer.save(path)") from None
    found.no_truncation()
    found.no_padding()
    return found


def _lines(file: IO[bytes], start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """(Byte, line without its ending) of the lines that begin between two bytes; a BOM is left out."""
    file.seek(start)
    place = start
    while place < stop:
        raw = file.readline()
        if not raw:
            return
        line = raw.rstrip(b"\r\n")
        yield place, line.removeprefix(_BOM) if place == 0 else line
        place += len(raw)


def _next_document(file: IO[bytes], place: int, documents: TextDocuments) -> int:
    """The first byte from `place` on where a line begins, or, of paragraphs, a line behind a blank one."""
    file.seek(place - 1)
    place += len(file.readline()) - 1
    if documents == "lines":
        return place
    while raw := file.readline():
        place += len(raw)
        if not raw.strip():
            break
    return place
