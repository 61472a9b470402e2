"""How often each query is asked, where the data say so: a control that no search knows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from normwise.data.beir_layout import beir_file, is_beir
from normwise.data.beir_queries import field_of
from normwise.data.lines import read_json_lines
from normwise.data.opening import kind_of
from normwise.data.texts import printable

FREQUENCY = "frequency"
# What a float64 holds; an integer of JSON may be larger.
_LARGEST = math.nextafter(math.inf, 0.0)


def query_frequency(folder: Path, query_ids: tuple[str, ...]) -> tuple[np.ndarray | None, list[str]]:
    """Read the number `frequency` of each query, of the line itself or of its metadata, from queries.jsonl of a BEIR folder.

    Args:
        folder: the data; anything but a BEIR folder says nothing.
        query_ids: the B queries that are calibrated on.

    Returns:
        (B,) numbers >= 0, or None where the lines have none or not all of them do; a note where only some do.
    """
    if kind_of(folder) != "folder" or not is_beir(folder):
        return None, []
    path = beir_file(folder, "queries.jsonl")
    if path is None:
        return None, []
    known: dict[str, float] = {}
    lacking = ""
    for number, record in read_json_lines(path):
        value = field_of(record, FREQUENCY)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= _LARGEST:
            known[record["_id"]] = float(value)
        elif not lacking:
            lacking = f"row {number} has {'none' if value is None else printable(repr(value))[:60]}"
    if not lacking:
        return np.array([known[name] for name in query_ids], dtype=np.float64), []
    if not known:
        return None, []
    return None, [f"{FREQUENCY} of queries is not used as a control: {path}, {lacking}; expected a number >= 0 in every row"]
