"""Where the files of a BEIR folder stand, which queries its judgements leave out, and what to say when a file is missing."""

from __future__ import annotations

from pathlib import Path

from normwise.core.errors import InputError
from normwise.data.beir_queries import NO_ANSWER, SPLITS, field_of
from normwise.data.lines import read_json_lines, read_tsv
from normwise.data.opening import folder_names, kind_of

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
_SHOWN = 8


def is_beir(folder: Path) -> bool:
    """Whether the folder holds corpus.jsonl, which marks the BEIR layout."""
    return beir_file(folder, CORPUS) is not None


def beir_file(folder: Path, name: str) -> Path | None:
    """Where corpus.jsonl or queries.jsonl of a BEIR folder stands: plain, else packed (.gz), else nowhere."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if kind_of(path) == "file"), None)


def beir_home(path: Path) -> Path | None:
    """The BEIR folder whose corpus, queries or judgements a file is, by its name and what lies beside it; None for other files.

    Example:
        >>> beir_home(Path("pairs.jsonl")) is None
        True
    """
    if path.name.removesuffix(".gz") in (CORPUS, QUERIES):
        folder = path.parent
    elif path.parent.name == QRELS:
        folder = path.parent.parent
    else:
        return None
    return folder if is_beir(folder) else None


def qrels_files(folder: Path) -> dict[str, Path]:
    """The judgements of each split that has some.

    Raises:
        InputError: no split has; the message lists what stands in their place.
    """
    files = {split: folder / QRELS / f"{split}.tsv" for split in SPLITS}
    found = {split: path for split, path in files.items() if kind_of(path) == "file"}
    if not found:
        place = folder / QRELS
        names = folder_names(place) if kind_of(place) == "folder" else folder_names(folder)
        held = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        where = (
            f"{place} holds {held or 'nothing'}" if kind_of(place) == "folder" else f"there is no folder {place}, and beside it lie {held}"
        )
        wanted = ", ".join(f"{QRELS}/{split}.tsv" for split in SPLITS)
        raise InputError(
            f"{folder}: none of {wanted} was found: a BEIR folder needs at least one; {where}: give the file of judgements one of "
            "these names (lines of query-id, corpus-id and score, separated by tabs)"
        )
    return found


def unjudged_queries(folder: Path) -> tuple[list[str], int]:
    """Which queries of a folder that was read no split judges, though they do not say that nothing answers them.

    Args:
        folder: a BEIR folder that `read_beir` accepts.

    Returns:
        Their ids in the order of queries.jsonl, and how many queries the file holds.
    """
    path = beir_file(folder, QUERIES)
    judged = {cells[0].strip() for file in qrels_files(folder).values() for _, cells in read_tsv(file)}
    says = {record["_id"]: field_of(record, NO_ANSWER) is True for _, record in read_json_lines(path)} if path is not None else {}
    return [name for name, answered_by_none in says.items() if not answered_by_none and name not in judged], len(says)
