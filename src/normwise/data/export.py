"""Writing a set as a BEIR folder that `load_data` reads back equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError
from normwise.core.files import whole_folder, write_json, write_text
from normwise.data.beir import SIDE_FILE, SPLITS, read_side_file
from normwise.data.lines import json_line, tsv_text
from normwise.data.opening import check_new_place, kind_of, reading
from normwise.data.sets import Judged, RetrievalData, TrainingPairs
from normwise.data.texts import lone_surrogate, printable

_WRITTEN = frozenset({"corpus.jsonl", "queries.jsonl", "qrels", "candidates", SIDE_FILE})
_HEADER = ("query-id", "corpus-id", "score")


def export_beir(data: RetrievalData, out: Path, *, overwrite: bool = False) -> Path:
    """Write corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv, whole or not at all.

    Every training pair becomes a query of its own, so that repeated queries, order and explicit negatives (grade 0)
    survive. Where a split searches only a part of the candidates, `candidates/{split}.tsv` lists them; plain BEIR tools
    do not read that file and search the whole corpus. `normwise-data.json` keeps name, kind and notes.

    Args:
        data: the set.
        out: the folder; must not exist unless `overwrite`.
        overwrite: replace it, if it is an export (see `check_target`).

    Returns:
        `out`.

    Raises:
        InputError: `out` exists, an id holds a tab or line break, or an id or text holds a lone surrogate.
        WorkError: the disk refused.
    """
    check_target(out, overwrite=overwrite)
    parts: dict[str, TrainingPairs | Judged] = {split: part for split in SPLITS if (part := getattr(data, split)) is not None}
    if not parts:
        raise InputError(f"{data.name} has no split to export")
    texts: dict[str, str] = {}
    for part in parts.values():
        for key, text in zip(part.corpus.ids, part.corpus.texts, strict=True):
            if texts.setdefault(key, text) != text:
                raise InputError(f"{data.name}: candidate id {key!r} stands for two texts in different splits: give ids that are distinct")
    keys = _query_ids(parts)
    _check_ids([*texts, *(key for mine in keys.values() for key in mine)])
    _check_texts(data.name, [*texts.values(), *(query for part in parts.values() for query in part.query_texts)])
    with whole_folder(out, overwrite=overwrite) as folder:
        write_text(folder / "corpus.jsonl", "".join(json_line({"_id": key, "title": "", "text": text}) for key, text in texts.items()))
        write_text(folder / "queries.jsonl", "".join(_query_lines(parts, keys)))
        for split, part in parts.items():
            rows = _pair_rows(part, keys[split]) if isinstance(part, TrainingPairs) else _grade_rows(part)
            write_text(folder / "qrels" / f"{split}.tsv", tsv_text(iter([_HEADER, *rows])))
            if part.corpus.ids != tuple(texts):
                write_text(folder / "candidates" / f"{split}.tsv", tsv_text(iter([("corpus-id",), *((key,) for key in part.corpus.ids)])))
        words = {"name": printable(data.name), "kind": printable(data.kind), "notes": [printable(note) for note in data.notes]}
        write_json(folder / SIDE_FILE, {**words, "skewed": data.skewed, "splits": list(parts)})
    return out


def check_target(out: Path, *, overwrite: bool) -> None:
    """Refuse a place that an export must not replace: anything but a folder that `export_beir` itself has written.

    Args:
        out: where the export is to stand.
        overwrite: whether an earlier export there may be replaced.

    Raises:
        InputError: something stands there and may not be replaced, or a file stands above.
    """
    kind = kind_of(out)
    if kind is None:
        check_new_place(out)
        return
    if not overwrite:
        raise InputError(f"{out} exists already: pass --overwrite to replace it, or choose another folder")
    if kind != "folder":
        raise InputError(f"{out} is no folder: an export never replaces a file; choose another --out")
    if "splits" not in read_side_file(out):
        raise InputError(f"{out} was not written by normwise data export (no {SIDE_FILE}): refusing to delete it; choose another --out")
    with reading(out):
        others = sorted(item.name for item in out.iterdir() if item.name not in _WRITTEN)
    if others:
        raise InputError(f"{out} also holds files that no export wrote ({', '.join(others[:5])}): move them, or choose another --out")


def _query_ids(parts: dict[str, TrainingPairs | Judged]) -> dict[str, tuple[str, ...]]:
    keys: dict[str, tuple[str, ...]] = {split: part.query_ids for split, part in parts.items() if isinstance(part, Judged)}
    taken = {key for mine in keys.values() for key in mine}
    if sum(map(len, keys.values())) != len(taken):
        raise InputError("dev and test share a query id: give every query its own id")
    if "train" in parts:
        prefix = "train-"
        while any(key.startswith(prefix) for key in taken):
            prefix = f"_{prefix}"
        keys = {"train": tuple(f"{prefix}{row}" for row in range(len(parts["train"]))), **keys}
    return keys


def _check_ids(ids: Iterable[str]) -> None:
    for key in ids:
        if not key or key != key.strip() or any(mark in key for mark in "\t\r\n") or lone_surrogate(key):
            raise InputError(
                f"id {key!r} is empty, or holds a tab, a line break, outer blanks or a lone surrogate, "
                "which a qrels file cannot hold: rename it"
            )


def _check_texts(name: str, texts: Iterable[str]) -> None:
    bad = next((text for text in texts if lone_surrogate(text)), None)
    if bad is not None:
        raise InputError(f"{name}: the text {bad!r:.60} holds a lone surrogate, which no UTF-8 file can hold: repair it")


def _query_lines(parts: dict[str, TrainingPairs | Judged], keys: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for split, part in parts.items():
        for row, (key, query) in enumerate(zip(keys[split], part.query_texts, strict=True)):
            metadata: dict[str, Any] = {"cluster": int(part.clusters[row])}
            if isinstance(part, Judged) and not part.relevance[row]:
                metadata |= {"no_answer": True, "split": split}
            yield json_line({"_id": key, "text": query, "metadata": metadata})


def _pair_rows(train: TrainingPairs, keys: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    for key, positive, negatives in zip(keys, train.positives, train.negatives, strict=True):
        yield key, train.corpus.ids[positive], 1
        for negative in negatives:
            yield key, train.corpus.ids[negative], 0


def _grade_rows(judged: Judged) -> Iterator[tuple[str, str, str]]:
    for key, grades in zip(judged.query_ids, judged.relevance, strict=True):
        for row, grade in grades.items():
            yield key, judged.corpus.ids[row], f"{grade:g}" if float(f"{grade:g}") == grade else repr(float(grade))
