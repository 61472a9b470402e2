"""The BEIR layout: corpus.jsonl, queries.jsonl, qrels/{train,dev,test}.tsv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.data.beir_contents import row_content
from normwise.data.beir_layout import CORPUS, QUERIES, beir_file, qrels_files
from normwise.data.beir_queries import NO_ANSWER, SPLITS, Queries
from normwise.data.columns import BadRowsError
from normwise.data.contents import Content
from normwise.data.lines import is_gain_header, read_gain, read_json_lines, read_lines, read_tsv
from normwise.data.opening import kind_of, read_json_object
from normwise.data.picture_columns import PictureSource
from normwise.data.sets import Corpus, Judged, Origin, RetrievalData, TrainingPairs, is_skewed
from normwise.data.texts import text_problem

_BESIDE = PictureSource()
SIDE_FILE = "normwise-data.json"
_ID_NAMES = frozenset({"corpus-id", "corpus_id", "corpusid", "doc-id", "doc_id", "docid", "candidate", "candidate-id", "_id", "id"})


@dataclass
class _Reader:
    """State of one read: what was dropped and why."""

    folder: Path
    on_bad_rows: Literal["refuse", "drop"]
    pictures: PictureSource
    dropped: Counter[str] = field(default_factory=Counter)
    lost: set[str] = field(default_factory=set)

    def rows(self, name: str) -> tuple[list[str], list[Content], list[int], list[dict[str, Any]]]:
        """Ids, contents, line numbers and whole objects of corpus.jsonl or queries.jsonl."""
        path = _existing(self.folder, name)
        ids: list[str] = []
        contents: list[Content] = []
        lines: list[int] = []
        records: list[dict[str, Any]] = []
        problems: list[str] = []
        seen: set[str] = set()
        for number, record in read_json_lines(path):
            key: Any = record.get("_id")
            if text_problem(key) is not None:
                raise InputError(f"{path}, row {number}, column _id: expected a text, got {key!r:.60}: it {text_problem(key)}")
            if key in seen:
                raise InputError(f"{path}, row {number}, column _id: {key!r} stands there twice: ids must be distinct")
            seen.add(key)
            at = f"row {number}"
            content, bad = row_content(record, where=f"{path}, {at}", name=f"{path.name}, {at}", home=self.folder, source=self.pictures)
            if bad is not None:
                column, problem = bad
                problems.append(f"{at}, column {column}: {problem}")
                self.dropped[f"{name} {column} {problem}"] += 1
                self.lost.add(f"{name}:{key}")
                continue
            ids.append(key)
            contents.append(content)
            lines.append(number)
            records.append(record)
        if problems and self.on_bad_rows == "refuse":
            raise BadRowsError(str(path), problems)
        if not ids:
            raise InputError(f"{path} holds no usable row: expected one JSON object per line with _id and text")
        return ids, contents, lines, records


def read_beir(
    folder: Path, *, on_bad_rows: Literal["refuse", "drop"], pictures: PictureSource = _BESIDE
) -> tuple[RetrievalData, frozenset[str]]:
    """Read a BEIR folder.

    Titles are joined to texts by a space. In qrels a grade of 0 means judged and not relevant: in train it becomes an
    explicit negative of that query's pairs, in dev and test it is left out; a dev or test query with only such lines,
    or with `"no_answer": true` in queries.jsonl (and `"split"` there or in its metadata, test by default), has an
    empty relevance. An optional `candidates/{split}.tsv` restricts what a split searches, `metadata.cluster` of a
    query sets its cluster; our own export writes both where needed.

    A column `image` of corpus.jsonl or queries.jsonl holds the path of a picture inside the folder; beside a text both are one.

    Args:
        folder: where it stands.
        on_bad_rows: "refuse" raises where a text or picture is unusable; "drop" leaves such rows out, with their judgements.
        pictures: where pictures stand, by default in the folder, and whether each is decoded once.

    Returns:
        The data, and the splits of which the folder itself says that they are missing on purpose.

    Raises:
        InputError: a file is missing or malformed, or differs from its packed twin; an id of qrels is unknown; a text is
            unusable and not to be dropped; a query says `no_answer` and has one, or says it in a way that is not understood.
            Unusable texts raise a BadRowsError.
    """
    reader = _Reader(folder, on_bad_rows, pictures)
    ids, contents, lines, _ = reader.rows(CORPUS)
    corpus = Corpus(tuple(ids), tuple(contents), Origin(str(folder / CORPUS), np.asarray(lines, dtype=np.int64)))
    queries = Queries(*reader.rows(QUERIES), file=str(folder / QUERIES))
    rows = {key: row for row, key in enumerate(ids)}
    side = read_side_file(folder)
    unanswered = queries.unanswered()
    files = qrels_files(folder)
    qrels = {split: _read_qrels(path, reader, queries, rows) for split, path in files.items()}
    queries.refuse_wishes(judged=frozenset().union(*qrels.values()))
    parts: dict[str, Any] = dict.fromkeys(SPLITS)
    for split in SPLITS:
        marked = [row for row, own in unanswered.items() if own == split]
        if split not in qrels and not marked:
            continue
        grades = qrels.get(split, {})
        pool = _read_pool(folder / "candidates" / f"{split}.tsv", corpus, rows, grades)
        _refuse_answered(marked, queries, qrels, corpus, pool)
        if split != "train":
            judged = {row: {} for row in marked} | grades
            parts[split] = _judged(judged, queries, pool, file=str(files[split]) if split in qrels else queries.file)
        elif split in qrels:
            parts[split] = _training(grades, queries, pool)
    train = parts["train"]
    data = RetrievalData(
        name=side.get("name", folder.name),
        kind=side.get("kind", "judged"),
        **parts,
        skewed=train is not None and is_skewed(train.positives),
        notes=tuple(side.get("notes", ())),
        dropped=dict(reader.dropped),
    )
    absent = frozenset(split for split in SPLITS if parts[split] is None) if side else frozenset()
    return data, absent


def read_side_file(folder: Path) -> dict[str, Any]:
    """Read the `normwise-data.json` that `export_beir` writes; {} where there is none.

    Raises:
        InputError: it is not JSON, or `name`, `kind` or `notes` are not texts.
    """
    path = folder / SIDE_FILE
    if kind_of(path) != "file":
        return {}
    side = read_json_object(path)
    texts = {f"key {name!r}": side[name] for name in ("name", "kind") if name in side}
    notes = side.get("notes", [])
    if not isinstance(notes, list):
        raise InputError(f"{path}, key 'notes': expected a list of texts, got {notes!r:.60}")
    texts |= {f"key 'notes', item {place}": note for place, note in enumerate(notes, start=1)}
    for key, text in texts.items():
        if (problem := text_problem(text)) is not None:
            raise InputError(f"{path}, {key}: expected a text, but it {problem}")
    return side


def _existing(folder: Path, name: str) -> Path:
    path = beir_file(folder, name)
    if path is None:
        raise InputError(f"{folder / name} does not exist: a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/*.tsv")
    packed = folder / f"{name}.gz"
    if path != packed and kind_of(packed) == "file":
        both = zip_longest(read_lines(path), read_lines(packed))
        if any(ours != theirs for ours, theirs in both):
            raise InputError(f"{path} and {packed} differ, and nothing says which is meant: move one of them out of the folder")
    return path


def _read_qrels(path: Path, reader: _Reader, queries: Queries, rows: dict[str, int]) -> dict[int, dict[int, float]]:
    query_rows = queries.rows()
    grades: dict[int, dict[int, float]] = {}
    for place, (number, cells) in enumerate(read_tsv(path)):
        where = f"{path}, row {number}"
        if len(cells) == 4:  # TREC files carry an unused second column
            cells = [cells[0], cells[2], cells[3]]
        if len(cells) != 3:
            raise InputError(f"{where}: expected query-id, corpus-id and score separated by tabs, got {len(cells)} cells")
        query, candidate, score = (cell.strip() for cell in cells)
        if place == 0 and is_gain_header(cells) and not (query in query_rows and candidate in rows):
            continue
        grade = read_gain(score, where=f"{where}, column score")
        if f"queries.jsonl:{query}" in reader.lost or f"corpus.jsonl:{candidate}" in reader.lost:
            reader.dropped["qrels line of a dropped text"] += 1
            continue
        if query not in query_rows:
            raise InputError(f"{where}, column query-id: {query!r} is not in queries.jsonl")
        if candidate not in rows:
            raise InputError(f"{where}, column corpus-id: {candidate!r} is not in corpus.jsonl")
        mine = grades.setdefault(query_rows[query], {})
        if mine.get(rows[candidate], grade) != grade:
            raise InputError(f"{where}: {query!r} and {candidate!r} are judged twice with different scores")
        mine[rows[candidate]] = grade
    return grades


@dataclass(frozen=True)
class _Pool:
    """The candidates that a split searches, and where rows of the whole corpus stand in them."""

    corpus: Corpus
    moved: dict[int, int] | None = None

    def holds(self, target: int) -> bool:
        """Whether a row of the whole corpus is among them."""
        return self.moved is None or target in self.moved

    def rows_of(self, judged: dict[int, float]) -> dict[int, float]:
        return judged if self.moved is None else {self.moved[target]: grade for target, grade in judged.items()}


def _read_pool(path: Path, corpus: Corpus, rows: dict[str, int], grades: dict[int, dict[int, float]]) -> _Pool:
    """The candidates listed in `candidates/{split}.tsv`, or the whole corpus where there is no such file."""
    if kind_of(path) != "file":
        return _Pool(corpus)
    chosen: set[int] = set()
    for place, (number, cells) in enumerate(read_tsv(path)):
        key = cells[0].strip()
        if key in rows:
            chosen.add(rows[key])
        elif place > 0 or key.casefold() not in _ID_NAMES:
            raise InputError(f"{path}, row {number}: {key!r} is not in corpus.jsonl")
    if not chosen:
        raise InputError(f"{path} lists no candidate: list at least the judged ones, or delete it to search the whole corpus")
    outside = next((target for judged in grades.values() for target in judged if target not in chosen), None)
    if outside is not None:
        raise InputError(f"{path} leaves out a judged candidate, {corpus.ids[outside]!r}: add it")
    pool = np.asarray(sorted(chosen), dtype=np.int64)
    return _Pool(cut_corpus(corpus, pool), {int(old): new for new, old in enumerate(pool)})


def _refuse_answered(
    marked: list[int], queries: Queries, qrels: Mapping[str, dict[int, dict[int, float]]], corpus: Corpus, pool: _Pool
) -> None:
    """Refuse a query that says `no_answer` and has a relevant candidate in what it searches, whatever split judges it."""
    for row in marked:
        for split, grades in qrels.items():
            answer = next((target for target, grade in grades.get(row, {}).items() if grade > 0 and pool.holds(target)), None)
            if answer is not None:
                raise InputError(
                    f"{queries.at(row)}: {queries.ids[row]!r} says {NO_ANSWER}, and qrels/{split}.tsv judges {corpus.ids[answer]!r} "
                    "relevant to it: take one of the two out"
                )


def cut_corpus(corpus: Corpus, rows: np.ndarray) -> Corpus:
    """The candidates at `rows`, in that order."""
    origin = None if corpus.origin is None else Origin(corpus.origin.file, corpus.origin.rows[rows])
    place = {int(row): new for new, row in enumerate(rows)}
    pools = {task: tuple(place[row] for row in known if row in place) for task, known in corpus.pools.items()}
    return Corpus(tuple(corpus.ids[row] for row in rows), tuple(corpus.contents[row] for row in rows), origin, pools)


def _training(grades: dict[int, dict[int, float]], queries: Queries, pool: _Pool) -> TrainingPairs:
    chosen: list[int] = []
    positives: list[int] = []
    negatives: list[tuple[int, ...]] = []
    for row, judged in grades.items():
        judged = pool.rows_of(judged)
        bad = tuple(target for target, grade in judged.items() if grade <= 0)
        for target, grade in judged.items():
            if grade > 0:
                chosen.append(row)
                positives.append(target)
                negatives.append(bad)
    return TrainingPairs(
        queries=tuple(queries.contents[row] for row in chosen),
        positives=np.asarray(positives, dtype=np.int64),
        negatives=tuple(negatives),
        corpus=pool.corpus,
        clusters=queries.clusters(chosen, [[target] for target in positives], pool.corpus.contents),
        origin=queries.origin(chosen),
    )


def _judged(grades: dict[int, dict[int, float]], queries: Queries, pool: _Pool, *, file: str) -> Judged:
    chosen = sorted(grades)
    relevance = tuple({target: grade for target, grade in pool.rows_of(grades[row]).items() if grade > 0} for row in chosen)
    return Judged(
        query_ids=tuple(queries.ids[row] for row in chosen),
        queries=tuple(queries.contents[row] for row in chosen),
        relevance=relevance,
        corpus=pool.corpus,
        clusters=queries.clusters(chosen, [list(mine) for mine in relevance], pool.corpus.contents),
        origin=queries.origin(chosen),
        file=file,
    )
