"""What an index is asked, checked once at the border, the same for every engine: queries, filters, and ids that come or go."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from normwise.core.errors import InputError, near_names
from normwise.index.checks import Value, check_ids, check_matrix, check_range, check_value
from normwise.index.protocol import Where
from normwise.theory.directions import exact_norms, normalize


def check_queries(queries: np.ndarray, *, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Check raw queries (B, D).

    Returns:
        (B, D) float64 directions, 0 for a zero vector, and (B,) float64 norms.

    Raises:
        InputError: shape, type, a value that is not finite or a norm outside 0 or 1e-32..1e36.
    """
    queries = check_matrix(queries, name="queries", width=dimensions)
    lengths = exact_norms(queries, name="queries")
    check_range(lengths, name="queries")
    return normalize(queries.astype(np.float64)), lengths


def check_k(k: int) -> int:
    """Check how many hits are asked for.

    Raises:
        InputError: not a whole number of at least 1.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k is {k!r:.40}; expected a whole number of at least 1")
    return int(k)


def check_where(where: Where | None, kinds: Mapping[str, type]) -> dict[str, Value]:
    """Check a filter against the metadata keys and types that an index has; {} where there is none.

    Raises:
        InputError: an unknown key, or a value of another type than that key has.
    """
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise InputError(f"where is a {type(where).__name__}; expected a table of metadata keys and values")
    checked: dict[str, Value] = {}
    for key, value in where.items():
        if key not in kinds:
            hint = near_names(str(key), kinds) if kinds else "this index has no metadata"
            raise InputError(f"where: no candidate has a metadata key {key!r:.80}: {hint}")
        kind = kinds[key]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise InputError(f"where: {key} is {value!r:.80}, a {type(value).__name__}; that key holds {kind.__name__} values")
        check_value(value, where=f"where: {key}")
        checked[key] = float(value) if kind is float else value
    return checked


def check_known_ids(ids: Sequence[str], present: Mapping[str, object]) -> list[str]:
    """Check ids that are to be deleted: distinct, and all there.

    Raises:
        InputError: one is not; the message names it.
    """
    names = list(check_ids(ids, None))
    for row, name in enumerate(names):
        if name not in present:
            raise InputError(f"ids: row {row} is {name!r:.80}, which the index does not hold: nothing was deleted")
    return names


def check_new_ids(ids: Sequence[str], present: Mapping[str, object]) -> None:
    """Check that ids are not there yet.

    Raises:
        InputError: one is; the message names it.
    """
    for row, name in enumerate(ids):
        if name in present:
            raise InputError(f"ids: row {row} is {name!r:.80}, which the index holds already: delete it first; nothing was added")


def check_present(ids: Sequence[str], present: Container[str]) -> None:
    """Check ids whose texts or metadata are asked for.

    Raises:
        InputError: one is not there; the message names it.
    """
    for name in ids:
        if name not in present:
            raise InputError(f"ids: {name!r:.80} is not in the index")
