"""The verbs of `normwise data`: list, export, check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from normwise.core.config import DataConfig, ModelConfig
from normwise.core.records import Record
from normwise.data.builtin import list_sets
from normwise.data.export import check_target, export_beir
from normwise.data.hygiene import HygieneReport, check_data, set_sizes
from normwise.data.load import load_data
from normwise.data.settings import data_settings
from normwise.data.texts import printable


class SetEntry(Record):
    """One built-in set, as `normwise data list` prints it."""

    name: str
    kind: str
    available: bool
    how_to_get: str


class ExportResult(Record):
    """What `normwise data export` wrote."""

    name: str
    kind: str
    out: str
    rows: Mapping[str, int]
    skewed: bool
    notes: tuple[str, ...]


def list_sets_verb() -> list[SetEntry]:
    """List the built-in sets.

    Example:
        >>> list_sets_verb()[0].name
        'python-docs'
    """
    return [SetEntry.model_validate(entry) for entry in list_sets()]


def export_set(
    name: str,
    out: Path,
    *,
    overwrite: bool = False,
    roots: Sequence[str] | None = None,
    seed: int = 0,
    limits: Mapping[str, int] | None = None,
) -> ExportResult:
    """Load a set and write it as a BEIR folder.

    Args:
        name: as `DataConfig.name`.
        out: the folder to write.
        overwrite: replace it when it is an earlier export; nothing else is ever replaced.
        roots: as `DataConfig.roots`.
        seed: of splits and cuts.
        limits: any of limit_train, limit_queries, limit_candidates.

    Returns:
        What was written.

    Raises:
        InputError: bad name, content or limits; `out` exists.
        WorkError: the disk refused.
    """
    check_target(out, overwrite=overwrite)  # said before a build that may take minutes; export_beir checks again
    data = load_data(_config(name, roots, limits), seed=seed)
    export_beir(data, out, overwrite=overwrite)
    return ExportResult(name=data.name, kind=data.kind, out=printable(str(out)), rows=set_sizes(data), skewed=data.skewed, notes=data.notes)


def check(
    name: str,
    *,
    roots: Sequence[str] | None = None,
    seed: int = 0,
    model: str | None = None,
) -> HygieneReport:
    """Load a set by name, file or folder and report on its hygiene.

    Args:
        name: as `DataConfig.name`.
        roots: as `DataConfig.roots`.
        seed: of splits.
        model: a hub id or folder, whose tokens are counted and whose limit is held against them; None counts none.

    Returns:
        The report; its `refusals` are what training would refuse.

    Raises:
        InputError: the data cannot be loaded; row-level problems name file, row and column.
    """
    data = load_data(_config(name, roots, None), seed=seed)
    if model is None:
        return check_data(data)
    from normwise.models.loading import load_base
    from normwise.models.structure import token_limit
    from normwise.models.tokens import token_counter

    encoder = load_base(ModelConfig.read({"name": model}, source="model"))
    return check_data(data, token_counter=token_counter(encoder), max_tokens=token_limit(encoder))


def _config(name: str, roots: Sequence[str] | None, limits: Mapping[str, int] | None) -> DataConfig:
    return data_settings(name, source="data", roots=None if roots is None else tuple(roots), **(limits or {}))
