"""The registry of built-in sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from normwise.data import python_calls, python_docs, wordnet
from normwise.data.cache import default_cache
from normwise.data.sets import RetrievalData
from normwise.data.wordnet_files import HOW_TO_GET, find_wordnet

__all__ = ["BUILTIN", "BuiltinSet", "default_cache", "list_sets"]


class Builder(Protocol):
    """Builds a set from what is on this machine."""

    def __call__(self, *, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
        """Build it, or read it from the cache."""
        ...


@dataclass(frozen=True)
class BuiltinSet:
    """A set that needs no file of the user's: its kind, how it is built, whether it can be, and how to make that so."""

    name: str
    kind: str
    build: Builder
    available: Callable[[], bool]
    how_to_get: str


def _has_pyarrow() -> bool:
    return find_spec("pyarrow") is not None


def _has_wordnet() -> bool:
    return find_wordnet() is not None


def _has_counts() -> bool:
    folder = find_wordnet()
    return folder is not None and (folder / "cntlist.rev").is_file()


_PYTHON = (
    "built on first use from Python code on this machine, a minute or two, then cached "
    '(needs pip install "normwise[train]"); data.roots reads folders of your own instead'
)
BUILTIN: dict[str, BuiltinSet] = {
    each.name: each
    for each in (
        BuiltinSet(python_docs.NAME, python_docs.KIND, python_docs.build_python_docs, _has_pyarrow, _PYTHON),
        BuiltinSet(python_calls.NAME, python_calls.KIND, python_calls.build_python_calls, _has_pyarrow, _PYTHON),
        BuiltinSet(wordnet.SENSES, wordnet.KINDS[wordnet.SENSES], wordnet.build_senses, _has_counts, HOW_TO_GET),
        BuiltinSet(wordnet.GLOSSES, wordnet.KINDS[wordnet.GLOSSES], wordnet.build_glosses, _has_wordnet, HOW_TO_GET),
        BuiltinSet(wordnet.EXAMPLES, wordnet.KINDS[wordnet.EXAMPLES], wordnet.build_examples, _has_wordnet, HOW_TO_GET),
    )
}


def list_sets() -> list[dict[str, str | bool]]:
    """Say of each built-in set what it is, whether it can be built here, and how to get it.

    Returns:
        One dict per set with the keys name, kind, available, how_to_get.

    Example:
        >>> [entry["name"] for entry in list_sets()][:2]
        ['python-docs', 'python-calls']
    """
    return [
        {"name": each.name, "kind": each.kind, "available": each.available(), "how_to_get": each.how_to_get} for each in BUILTIN.values()
    ]
