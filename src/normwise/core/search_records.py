"""What a search answers, hit by hit, and what building, changing or opening an index says of it."""

from __future__ import annotations

from pydantic import Field

from normwise.core.index_records import IndexManifest
from normwise.core.records import Record


class Hit(Record):
    """One candidate that was found for one query.

    `score` is under `similarity`, `norm` the length of the raw candidate vector. `probability` is that of being relevant, by
    the calibration; None where none applies, and `reason` then says why. `abstain` says that this hit is not to be trusted:
    its probability lies below the certified threshold, no threshold exists, or query or candidate is a zero vector. Without a
    calibration nothing else is known to be untrustworthy, so that `abstain` is False and `reason` starts with "not calibrated".
    `query` is the text, or the row of its vector; `rank` counts from 1.
    """

    id: str
    score: float
    similarity: str
    norm: float
    probability: float | None
    abstain: bool
    reason: str
    query: str | int
    rank: int = Field(ge=1)
    text: str | None = None


class IndexReport(Record):
    """An index as it stands after `normwise index build`, `add`, `delete` or `info`.

    `bytes_per_vector` is what one candidate takes where the vectors live, side data shared out; None where a server keeps
    them. `bytes_on_disk` is the whole folder. `changed` counts the candidates
    that `add` or `delete` moved.
    """

    index: str
    manifest: IndexManifest
    candidates: int
    bytes_on_disk: int | None = None
    bytes_per_vector: float | None = None
    changed: int = 0
    notes: tuple[str, ...] = ()
    seconds: float | None = None
