"""The registry of built-in sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from normwise.data import emoji, emoji_composed, emoji_files, python_calls, python_docs, small_pictures, wordnet
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


def _draws(*styles: emoji_files.Style) -> bool:
    return all(find_spec(name) is not None for name in ("pyarrow", "resvg_py", "PIL")) and all(
        emoji_files.find_package(style) is not None for style in styles
    )


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
        BuiltinSet(emoji.CAPTIONS, emoji.KINDS[emoji.CAPTIONS], emoji.build_captions, partial(_draws, "openmoji"), emoji_files.HOW_TO_GET),
        BuiltinSet(emoji.PICTURES, emoji.KINDS[emoji.PICTURES], emoji.build_pictures, partial(_draws, "openmoji"), emoji_files.HOW_TO_GET),
        BuiltinSet(
            emoji.STYLED,
            emoji.KINDS[emoji.STYLED],
            emoji.build_styles,
            partial(_draws, "openmoji", "twemoji", "fluent"),
            emoji_files.HOW_TO_GET,
        ),
        BuiltinSet(
            emoji_composed.COMPOSED,
            emoji_composed.KIND,
            emoji_composed.build_composed,
            partial(_draws, "openmoji", "twemoji"),
            emoji_files.HOW_TO_GET,
        ),
        BuiltinSet(
            small_pictures.FASHION,
            small_pictures.KINDS[small_pictures.FASHION],
            small_pictures.build_fashion,
            lambda: small_pictures.find_fashion() is not None,
            small_pictures.HOW_TO_GET_FASHION,
        ),
        BuiltinSet(
            small_pictures.DIGITS,
            small_pictures.KINDS[small_pictures.DIGITS],
            small_pictures.build_digits,
            lambda: find_spec("PIL") is not None,
            small_pictures.HOW_TO_GET_DIGITS,
        ),
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
