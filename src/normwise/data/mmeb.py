"""MMEB from disk: queries with the candidate sets they are ranked in, and training pairs; pictures stay in their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.errors import InputError
from normwise.data.clusters import components
from normwise.data.contents import Content, pictures_of
from normwise.data.mmeb_layout import Meta, Subset, find_subsets, subset_kind
from normwise.data.mmeb_rows import BadRows, MmebRows, RowProblem, negatives_of, query_of, targets_of
from normwise.data.picture_decoding import Color
from normwise.data.sets import Corpus, Origin, RetrievalData, TrainingPairs, is_skewed


@dataclass(frozen=True)
class CandidateTask:
    """Queries, each with the set of candidates that it is ranked in and the one that is right.

    Args:
        name: of the subset.
        meta: classification, vqa, retrieval, grounding, or other for a subset that is not MMEB's.
        in_domain: whether the benchmark has training data for it; None for a subset that is not MMEB's.
        queries: n contents.
        corpus: every distinct candidate of the task once; a text and a picture together are another one than either alone.
        candidates: for each query its set: distinct rows of `corpus` in ascending order, one tuple for queries that share it.
        answers: for each query the row of the right candidate, which is in its set.
        origin: where the queries came from; None where they came from several files.
        notes: what belongs beside every result.
        dropped: rows left out on request, by reason.

    Raises:
        InputError: lengths differ, there is no query, or an answer is not in its set.
    """

    name: str
    meta: Meta
    in_domain: bool | None
    queries: tuple[Content, ...]
    corpus: Corpus
    candidates: tuple[tuple[int, ...], ...]
    answers: tuple[int, ...]
    origin: Origin | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        lengths = (len(self.queries), len(self.candidates), len(self.answers))
        if len(set(lengths)) > 1 or not lengths[0]:
            raise InputError(f"CandidateTask {self.name}: expected queries with one set and one answer each, got {lengths}")
        for row, (members, answer) in enumerate(zip(self.candidates, self.answers, strict=True)):
            if answer not in members or not 0 <= answer < len(self.corpus):
                raise InputError(f"CandidateTask {self.name}: the answer of query {row}, candidate {answer}, is not in its set")

    def __len__(self) -> int:
        return len(self.queries)

    def picture_keys(self) -> list[list[str]]:
        """For each query, the pictures that it depends on: its own and those of its right answer."""
        answers = (self.corpus.contents[row] for row in self.answers)
        pairs = zip(self.queries, answers, strict=True)
        return [[picture.digest for content in pair for picture in pictures_of(content)] for pair in pairs]

    def subset(self, rows: np.ndarray) -> CandidateTask:
        """The queries at `rows`, in that order, over those candidates that their sets hold."""
        kept = sorted({row for query in rows for row in self.candidates[query]})
        moved = {old: new for new, old in enumerate(kept)}
        sets: dict[tuple[int, ...], tuple[int, ...]] = {}
        for query in rows:
            members = self.candidates[query]
            if members not in sets:
                sets[members] = tuple(moved[row] for row in members)
        return CandidateTask(
            name=self.name,
            meta=self.meta,
            in_domain=self.in_domain,
            queries=tuple(self.queries[query] for query in rows),
            corpus=Corpus(tuple(self.corpus.ids[row] for row in kept), tuple(self.corpus.contents[row] for row in kept)),
            candidates=tuple(sets[self.candidates[query]] for query in rows),
            answers=tuple(moved[self.answers[query]] for query in rows),
            origin=None if self.origin is None else Origin(self.origin.file, self.origin.rows[rows]),
            notes=self.notes,
            dropped=self.dropped,
        )


def read_mmeb_eval(
    folder: Path,
    *,
    image_root: Path | None = None,
    subsets: Sequence[str] | None = None,
    split: str | None = None,
    on_bad_rows: BadRows = "refuse",
    check_pictures: bool = True,
) -> tuple[CandidateTask, ...]:
    """Read evaluation tasks of MMEB, with or without columns of instructions.

    Of `tgt_text` and `tgt_img_path` the first place is the right answer and all places together are the candidates. The
    place of a picture in a text (`<|image_1|>` and what other families write) is kept; a picture without one stands first.
    Instructions stand before their text, separated by a blank; their own place is dropped, so that the picture stands first,
    and that of targets goes to targets with a picture only. Blanks and line breaks at the ends of texts are dropped.

    Args:
        folder: see `find_subsets`; it may be one subset.
        image_root: what paths of pictures begin at. None: `folder`/images where there is such a folder and the path does not
            itself begin with it, else `folder`.
        subsets: names; None reads all.
        split: None is test, or the only one.
        on_bad_rows: "refuse" raises at the first file with unusable rows and lists them; "drop" leaves them out and counts them.
        check_pictures: decode every picture once, so that one that no model can read makes its rows unusable.

    Returns:
        One task per subset. Candidates with the same text and the same bytes of picture are one, so that a copy of the
        right answer under another name is right too; notes count such queries.

    Raises:
        InputError: a file, subset or column is missing or wrong; a BadRowsError names rows and columns.
    """
    reader = MmebRows(folder, image_root, on_bad_rows, check=check_pictures)
    return tuple(_read_task(reader, subset, split) for subset in find_subsets(folder, subsets))


def _read_task(reader: MmebRows, subset: Subset, split: str | None) -> CandidateTask:
    reader.dropped = Counter()
    known: dict[tuple[Any, Any, Any], Content] = {}

    def read(record: dict[str, Any], where: str) -> tuple[Content, list[Content]]:
        return query_of(reader, record, where), targets_of(reader, record, where, known)

    numbers: dict[Content, int] = {}
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    queries: list[Content] = []
    sets: list[tuple[int, ...]] = []
    answers: list[int] = []
    places: list[tuple[Path, int]] = []
    counts: Counter[str] = Counter()
    for path, number, (query, targets) in reader.rows(subset, "evaluation", split, read):
        rows = [numbers.setdefault(target, len(numbers)) for target in targets]
        members = tuple(sorted(set(rows)))
        counts["list the right answer more than once: every copy of it counts as right"] += rows.count(rows[0]) > 1
        counts["have no other candidate than the right one: they cannot be wrong"] += len(members) == 1
        queries.append(query)
        sets.append(shared.setdefault(members, members))
        answers.append(rows[0])
        places.append((path, number))
    if not queries:
        raise InputError(f"{subset.name} of {reader.folder}: no usable row: {sum(reader.dropped.values())} dropped")
    files = {path for path, _ in places}
    meta, in_domain = subset_kind(subset.name)
    notes = [f"{count:,} of {len(queries):,} queries {what}" for what, count in counts.items() if count]
    if reader.dropped:
        notes.append(f"{sum(reader.dropped.values()):,} rows were left out: {_told(reader.dropped)}")
    return CandidateTask(
        name=subset.name,
        meta=meta,
        in_domain=in_domain,
        queries=tuple(queries),
        corpus=Corpus(tuple(map(str, range(len(numbers)))), tuple(numbers)),
        candidates=tuple(sets),
        answers=tuple(answers),
        origin=_origin(places) if len(files) == 1 else None,
        notes=tuple(notes),
        dropped=dict(reader.dropped),
    )


def read_mmeb_train(
    folder: Path,
    *,
    image_root: Path | None = None,
    subsets: Sequence[str] | None = None,
    split: str | None = None,
    limit_per_subset: int | None = None,
    on_bad_rows: BadRows = "refuse",
    background: Color | None = None,
    check_pictures: bool = True,
) -> RetrievalData:
    """Read training pairs of MMEB; `neg_text` and `neg_image_path`, where given, become explicit negatives.

    Args:
        folder: see `find_subsets`.
        image_root: as in `read_mmeb_eval`.
        subsets: names; None reads all.
        split: None is original, else train, or the only one; the other published one is diverse_instruction.
        limit_per_subset: at most so many usable rows of each subset, from its beginning.
        on_bad_rows: as in `read_mmeb_eval`.
        background: red, green and blue 0..255, shown where a picture is transparent; None leaves it to the model.
        check_pictures: as in `read_mmeb_eval`.

    Returns:
        Data with `train` only. Its `tasks` name the subset of each row, so that batches can be drawn from one task each; its
        clusters join rows that share a picture, and rows without any that share a positive.

    Raises:
        InputError: as `read_mmeb_eval`; limit_per_subset is below 1.
    """
    if limit_per_subset is not None and limit_per_subset < 1:
        raise InputError(f"limit_per_subset is {limit_per_subset}; expected at least 1, or None for all rows")
    reader = MmebRows(folder, image_root, on_bad_rows, background, check=check_pictures)
    numbers: dict[Content, int] = {}
    queries: list[Content] = []
    positives: list[int] = []
    negatives: list[tuple[int, ...]] = []
    tasks: list[str] = []
    places: list[tuple[Path, int]] = []

    def read(record: dict[str, Any], where: str) -> tuple[Content, Content, list[Content]]:
        query = reader.needed(record["qry"], record["qry_image_path"], ("qry", "qry_image_path"), where)
        positive = reader.needed(record["pos_text"], record["pos_image_path"], ("pos_text", "pos_image_path"), where)
        others = negatives_of(reader, record, where)
        if positive in others:
            raise RowProblem("neg_text", "is the positive too")
        return query, positive, others

    for subset in find_subsets(folder, subsets):
        first = len(queries)
        for path, number, (query, positive, others) in reader.rows(subset, "training", split, read):
            if limit_per_subset is not None and len(queries) - first == limit_per_subset:
                break
            queries.append(query)
            positives.append(numbers.setdefault(positive, len(numbers)))
            negatives.append(tuple(dict.fromkeys(numbers.setdefault(other, len(numbers)) for other in others)))
            tasks.append(subset.name)
            places.append((path, number))
    if not queries:
        raise InputError(f"{folder}: no usable row: {sum(reader.dropped.values())} dropped")
    contents = tuple(numbers)
    rows = np.asarray(positives, dtype=np.int64)
    keys = [
        [picture.digest for content in (query, contents[row]) for picture in pictures_of(content)] or [row]
        for query, row in zip(queries, positives, strict=True)
    ]
    pairs = TrainingPairs(
        queries=tuple(queries),
        positives=rows,
        negatives=tuple(negatives),
        corpus=Corpus(tuple(map(str, range(len(contents)))), contents),
        clusters=components(keys),
        origin=_origin(places) if len({path for path, _ in places}) == 1 else None,
        tasks=tuple(tasks),
    )
    notes = (f"{sum(reader.dropped.values()):,} rows were left out: {_told(reader.dropped)}",) if reader.dropped else ()
    return RetrievalData(
        folder.resolve().name, "mmeb", pairs, None, None, skewed=is_skewed(rows), notes=notes, dropped=dict(reader.dropped)
    )


def _origin(places: Sequence[tuple[Path, int]]) -> Origin:
    return Origin(str(places[0][0]), np.asarray([number for _, number in places], dtype=np.int64))


def _told(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} ({count:,})" for reason, count in dropped.items())
