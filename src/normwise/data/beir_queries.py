"""The lines of queries.jsonl of a BEIR folder: contents, clusters, and which of them say that nothing answers them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from normwise.core.errors import InputError, near_names
from normwise.data.clusters import components
from normwise.data.contents import Content, pictures_of
from normwise.data.sets import Origin

SPLITS = ("train", "dev", "test")
NO_ANSWER, SPLIT = "no_answer", "split"
# Keys of other people's sets that say the same (bare, see `_bare`), and the value that does.
_WISHES = {"unanswerable": True, "isunanswerable": True, "impossible": True, "isimpossible": True, "answerable": False,
           "isanswerable": False, "hasanswer": False}  # fmt: skip


@dataclass(frozen=True)
class Queries:
    """The usable lines of queries.jsonl, in their order: ids, contents, 1-based line numbers and whole objects."""

    ids: list[str]
    contents: list[Content]
    lines: list[int]
    records: list[dict[str, Any]]
    file: str

    def rows(self) -> dict[str, int]:
        """Row by id."""
        return {key: row for row, key in enumerate(self.ids)}

    def origin(self, chosen: list[int]) -> Origin:
        """Where some rows stand."""
        return Origin(self.file, np.asarray([self.lines[row] for row in chosen], dtype=np.int64))

    def at(self, row: int) -> str:
        """Name one row, for a message."""
        return f"{self.file}, row {self.lines[row]}"

    def clusters(self, chosen: list[int], targets: list[list[int]], corpus: Sequence[Content]) -> np.ndarray:
        """The clusters that all chosen rows bring, else those of a shared query, target or picture.

        Args:
            chosen: rows.
            targets: of each, rows of `corpus`.
            corpus: the candidates.
        """
        given = [field_of(self.records[row], "cluster") for row in chosen]
        if given and all(isinstance(value, int) and not isinstance(value, bool) for value in given):
            numbers: dict[int, int] = {}  # as `renumber`, for numbers of any size
            return np.asarray([numbers.setdefault(value, len(numbers)) for value in given], dtype=np.int64)
        depends: list[list[tuple[str, Any]]] = []
        for row, keys in zip(chosen, targets, strict=True):
            contents = (self.contents[row], *(corpus[key] for key in keys))
            shown = (("picture", picture.digest) for content in contents for picture in pictures_of(content))
            depends.append([("query", self.contents[row]), *(("target", key) for key in keys), *shown])
        return components(depends)

    def unanswered(self) -> dict[int, str]:
        """The split of every row that says `"no_answer": true`, in the line or in its metadata; test where it names none.

        What is read past in silence makes a set look easier than it is, so whatever nearly says it is refused.

        Raises:
            InputError: a value that is neither true nor false, or two that differ; an unknown split of such a row; one of the
                two keys in another spelling.
        """
        return {row: self._split(row) for row in range(len(self.ids)) if self._has_no_answer(row)}

    def refuse_wishes(self, *, judged: Set[int]) -> None:
        """Refuse a query that nobody judges and that says in another word that nothing answers it: it would be left out in silence.

        Args:
            judged: rows that some split judges; there, such a key is the user's own.

        Raises:
            InputError: names file, row and key.
        """
        for row, record in enumerate(self.records):
            if row in judged or field_of(record, NO_ANSWER) is not None:
                continue
            for key, value in _fields(record):
                wish = _WISHES.get(_bare(key))
                if wish is not None and (value == wish or str(value).strip().casefold() == str(wish).casefold()):
                    raise InputError(
                        f"{self.at(row)}: {self.ids[row]!r} has no judgement, and the key {key!r} is {NO_ANSWER} in another word, which "
                        f'says nothing: write "{NO_ANSWER}": true where nothing answers the query, else judge it or take the key out'
                    )

    def _has_no_answer(self, row: int) -> bool:
        found = set()
        for key, value in _fields(self.records[row]):
            if _bare(key) != _bare(NO_ANSWER):
                continue
            self._check_key(row, key, NO_ANSWER, way="true where nothing answers the query, false elsewhere")
            if not isinstance(value, bool):
                raise InputError(
                    f"{self.at(row)}, column {NO_ANSWER}: expected true or false, without quotes, got {value!r:.60}: write true where "
                    "nothing answers the query, and leave the key out elsewhere"
                )
            found.add(value)
        if len(found) > 1:
            raise InputError(f"{self.at(row)}: {NO_ANSWER} is true in one place and false in the other, line and metadata: keep one")
        return True in found

    def _split(self, row: int) -> str:
        names = [key for key, _ in _fields(self.records[row]) if _bare(key) == _bare(SPLIT)]
        if names and SPLIT not in names:
            self._check_key(row, names[0], SPLIT, way="the split that this query without an answer belongs to")
        split = field_of(self.records[row], SPLIT, "test")
        if split not in SPLITS:
            near = near_names(str(split)[:60].strip().casefold(), SPLITS)
            raise InputError(f"{self.at(row)}, column {SPLIT}: {split!r:.60} is no split, and the line says {NO_ANSWER}: {near}")
        return split

    def _check_key(self, row: int, key: str, name: str, *, way: str) -> None:
        if key != name:
            raise InputError(f'{self.at(row)}: the key {key!r} is {name} in another spelling, which says nothing: write "{name}", {way}')


def field_of(record: dict[str, Any], name: str, default: Any = None) -> Any:
    """A field of a line, or of its metadata where the line has none of that name.

    Example:
        >>> field_of({"metadata": {"split": "dev"}}, "split"), field_of({"split": "test", "metadata": None}, "split")
        ('dev', 'test')
    """
    if name in record:
        return record[name]
    metadata = record.get("metadata")
    return metadata.get(name, default) if isinstance(metadata, dict) else default


def _fields(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """All fields of a line, then those of its metadata."""
    yield from record.items()
    if isinstance(metadata := record.get("metadata"), dict):
        yield from metadata.items()


@lru_cache(maxsize=1024)
def _bare(key: str) -> str:
    """A key without case, hyphens, underscores and blanks: `No-Answer` and `noAnswer` are `noanswer`."""
    return re.sub(r"[-_\s]", "", key).casefold()
