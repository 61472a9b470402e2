"""Sources of token ids, opened without loading: arrays, parquet, text through a tokenizer; cut into shards that are counted anywhere."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from normwise.core.errors import InputError
from normwise.data.opening import kind_of, reading, user_path
from normwise.data.token_arrays import array_shards, open_npy, open_raw
from normwise.data.token_parquet import open_parquet
from normwise.data.token_shards import TokenShard
from normwise.data.token_texts import TextDocuments, open_text, tokenizer_file, vocabulary_of

SHARD_TOKENS = 1 << 18
_RAW = (".bin", ".dat")
_TEXT = (".txt", ".text", ".md", ".rst")
_KINDS = {".npy": "npy", ".parquet": "parquet", **dict.fromkeys(_RAW, "raw"), **dict.fromkeys(_TEXT, "text")}
_FORMATS = ".npy, .bin or .dat (bare ids), .parquet, or text in .txt, .text, .md or .rst"
_SAMPLES, _SAMPLE_BYTES = 64, 1 << 12


@dataclass(frozen=True, kw_only=True)
class TokenReading:
    """How files become documents of tokens. A setting that fits none of the files is refused.

    Args:
        vocabulary: V; None takes the tokenizer's, which only texts have.
        end: the id that ends a document and belongs to it. In an array, documents end nowhere else (but with the file); in parquet it
            ends one beside the rows; behind each text it is put.
        dtype: of `.bin` and `.dat` files, such as "uint16".
        column: of parquet files; None takes the only list column of integers.
        tokenizer: tokenizer.json of the texts, or the folder that holds one.
        documents: of the texts: "lines", or "paragraphs" between blank lines.
        shard_tokens: tokens of a shard, about; nothing that is counted depends on it.
    """

    vocabulary: int | None = None
    end: int | None = None
    dtype: str | None = None
    column: str | None = None
    tokenizer: str | Path | None = None
    documents: TextDocuments | None = None
    shard_tokens: int = SHARD_TOKENS

    def __post_init__(self) -> None:
        if self.vocabulary is not None and self.vocabulary < 1:
            raise InputError(f"vocabulary is {self.vocabulary}; expected at least 1")
        if self.shard_tokens < 1:
            raise InputError(f"shard_tokens is {self.shard_tokens}; expected at least 1")
        if self.documents not in (None, "lines", "paragraphs"):
            raise InputError(f"documents is {self.documents!r}; expected 'lines' or 'paragraphs'")


@dataclass(frozen=True)
class SourceMark:
    """What tells a file from a later state of it.

    Args:
        path: the file.
        size: bytes.
        changed: when it was last written, in nanoseconds.
        sample: a hash of 64 blocks of 4 KiB from all over it.
    """

    path: str
    size: int
    changed: int
    sample: str


@dataclass(frozen=True)
class TokenFiles:
    """Sources that were opened and cut; every token is in one shard.

    Args:
        shards: in the order of the files.
        vocabulary: V.
        sources: a mark for each file, the tokenizer among them.
        reading: how they are read.
    """

    shards: tuple[TokenShard, ...]
    vocabulary: int
    sources: tuple[SourceMark, ...]
    reading: TokenReading

    @property
    def kinds(self) -> frozenset[str]:
        """Of the files: "npy", "raw" (ids one after the other), "parquet", "text"."""
        return frozenset(kind for source in self.sources if (kind := _KINDS.get(Path(source.path).suffix.lower())) is not None)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the sources and how they are read and cut."""
        known = {**asdict(self.reading), "vocabulary": self.vocabulary, "shards": len(self.shards)}
        text = json.dumps([known, [asdict(source) for source in self.sources]], default=str, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def refuse_changed(self) -> None:
        """Raise InputError where a file was written to since it was opened: what was counted may be of two states of it."""
        for source in self.sources:
            with reading(Path(source.path)):
                state = os.stat(source.path)
            if (state.st_size, state.st_mtime_ns) != (source.size, source.changed):
                raise InputError(f"{source.path} changed while it was counted: count again when nothing writes to it")


def open_token_files(patterns: str | Path | Sequence[str | Path], settings: TokenReading) -> TokenFiles:
    """Open token files and cut them into shards; headers and the surroundings of cuts are all that is read.

    A file always ends a document. Shards begin where a document does, where one does nearby: rows and texts are never cut, arrays within
    65,536 tokens of the nominal cut; a shard that begins inside a document reads what stands before it, so that counts are exact.

    Args:
        patterns: paths, or globs such as "data/*.npy" (`**` for folders below).
        settings: how they are read.

    Returns:
        The files, in the order of the patterns, those of one glob sorted by name.

    Raises:
        InputError: nothing matches, a file is named twice or is none of the formats, is empty or broken, or a setting is missing or
            fits no file; the message names the file.

    Example:
        >>> open_token_files("gone/*.npy", TokenReading(vocabulary=10))
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: corpus 'gone/*.npy' matches no file: check the path
    """
    paths = _matches([patterns] if isinstance(patterns, str | Path) else patterns)
    kinds = [_kind(path) for path in paths]
    _check_settings(settings, kinds)
    tokenizer = None if settings.tokenizer is None else _tokenizer(settings.tokenizer)
    vocabulary = _vocabulary(settings, tokenizer)
    if settings.end is not None and not 0 <= settings.end < vocabulary:
        raise InputError(f"end is {settings.end}; expected an id from 0 to {vocabulary - 1}, the vocabulary's")
    shards: list[TokenShard] = []
    for path, kind in zip(paths, kinds, strict=True):
        shards += _shards(path, kind, settings, vocabulary, tokenizer)
    marked = paths if tokenizer is None else [*paths, tokenizer]
    return TokenFiles(tuple(shards), vocabulary, tuple(_mark(path) for path in marked), settings)


def texts_among(patterns: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files of text among those that patterns match: they alone need a tokenizer.

    Raises:
        InputError: as `open_token_files`, where nothing matches or a file is none of the formats.
    """
    paths = _matches([patterns] if isinstance(patterns, str | Path) else patterns)
    return [path for path in paths if _kind(path) == "text"]


def _shards(path: Path, kind: str, settings: TokenReading, vocabulary: int, tokenizer: Path | None) -> Sequence[TokenShard]:
    ids = {"vocabulary": vocabulary, "end": settings.end}
    if kind == "npy":
        return array_shards(open_npy(path, **ids), settings.shard_tokens)
    if kind == "raw":
        return array_shards(open_raw(path, dtype=settings.dtype, **ids), settings.shard_tokens)
    if kind == "parquet":
        return open_parquet(path, column=settings.column, shard_tokens=settings.shard_tokens, **ids)
    if tokenizer is None:
        raise InputError(f"{path} is text, whose tokens a tokenizer makes: name its tokenizer.json as tokenizer")
    return open_text(path, tokenizer=tokenizer, documents=settings.documents or "lines", shard_tokens=settings.shard_tokens, **ids)


def _matches(patterns: Sequence[str | Path]) -> list[Path]:
    if not patterns:
        raise InputError("corpus names no file; expected one or more paths")
    found: list[Path] = []
    for pattern in patterns:
        path = user_path(pattern, what="corpus")
        # A file whose name holds such marks is meant as it stands.
        if kind_of(path) is None and glob.has_magic(str(path)):
            names = sorted(name for name in glob.glob(str(path), recursive=True) if os.path.isfile(name))
            if not names:
                raise InputError(f"corpus {str(pattern)!r} matches no file: check the path")
            found += [Path(name).absolute() for name in names]
            continue
        kind = kind_of(path)
        if kind != "file":
            came = {"folder": "is a folder: name its files, as FOLDER/*.npy", "other": "is a device or a pipe", None: "does not exist"}
            raise InputError(f"{path} {came[kind]}; expected a file of tokens: {_FORMATS}")
        found.append(path.absolute())
    targets = [path.resolve() for path in found]
    twice = next((path for place, path in enumerate(found) if targets[place] in targets[:place]), None)
    if twice is not None:
        raise InputError(f"corpus: {twice} is named twice, and would be counted twice; name each file once")
    return found


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _KINDS:
        raise InputError(f"{path}: files named {suffix or 'without an ending'} are not read as tokens; expected {_FORMATS}: write it so")
    return _KINDS[suffix]


def _check_settings(settings: TokenReading, kinds: Sequence[str]) -> None:
    asked = (
        ("dtype", "raw", ".bin or .dat"),
        ("column", "parquet", ".parquet"),
        ("tokenizer", "text", "text"),
        ("documents", "text", "text"),
    )
    for name, kind, words in asked:
        if getattr(settings, name) is not None and kind not in kinds:
            raise InputError(f"{name} belongs to {words} files, and none is named; leave it out")


def _tokenizer(name: str | Path) -> Path:
    path = user_path(name, what="tokenizer")
    return tokenizer_file(path).absolute()


def _vocabulary(settings: TokenReading, tokenizer: Path | None) -> int:
    known = None if tokenizer is None else vocabulary_of(tokenizer)
    asked = settings.vocabulary
    if asked is None and known is None:
        raise InputError("vocabulary is not told; expected the number of token ids, as many as the embedding table has rows")
    if asked is not None and known is not None and known > asked:
        raise InputError(f"{tokenizer} has ids up to {known - 1:,}, and the vocabulary {asked:,}: it is not this vocabulary's tokenizer")
    return asked if asked is not None else int(known or 0)


def _mark(path: Path) -> SourceMark:
    with reading(path), path.open("rb") as file:
        state = os.fstat(file.fileno())
        digest = hashlib.sha256()
        last = max(0, state.st_size - _SAMPLE_BYTES)
        for place in sorted({last * sample // (_SAMPLES - 1) for sample in range(_SAMPLES)}):
            file.seek(place)
            digest.update(file.read(_SAMPLE_BYTES))
    return SourceMark(str(path), state.st_size, state.st_mtime_ns, digest.hexdigest())
