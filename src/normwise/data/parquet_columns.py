"""What every reader of parquet needs first: the library, and the one column of lists that is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError, MissingExtraError


def open_pyarrow() -> Any:
    """Import pyarrow and pyarrow.parquet.

    Raises:
        MissingExtraError: it is not installed.

    Example:
        >>> [module.__name__ for module in open_pyarrow()]
        ['pyarrow', 'pyarrow.parquet']
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", extra="train") from None
    return pa, pq


def choose_lists(
    path: Path, schema: Any, column: str | None, *, holds: Callable[[Any], bool], what: str, lists_of: str, detail: str = ""
) -> str:
    """Choose the column whose cells are lists of one kind of number.

    Args:
        path: for messages.
        schema: of the file.
        column: its name; None takes the only one.
        holds: whether a type of list elements is of that kind.
        what: such lists hold, for messages.
        lists_of: what they are lists of.
        detail: more of that, where a column that was named holds something else.

    Raises:
        InputError: no such column, or one of another type; with None, none or several that fit.
    """
    types = open_pyarrow()[0].types

    def fits(kind: Any) -> bool:
        return (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)) and holds(kind.value_type)

    names = [field.name for field in schema]
    found = [field.name for field in schema if fits(field.type)]
    if column is not None and column not in names:
        raise InputError(f"{path} has no column {column!r}; it has {', '.join(names)}")
    if column is not None and column not in found:
        raise InputError(f"{path}: column {column!r} holds {schema.field(column).type}; expected lists of {detail or lists_of}")
    if column is not None:
        return column
    if len(found) == 1:
        return found[0]
    came = f"{len(found)} columns hold {what}: {', '.join(found)}; name one as column" if found else f"it has {', '.join(names)}"
    raise InputError(f"{path}: expected one column of lists of {lists_of}, {came}")
