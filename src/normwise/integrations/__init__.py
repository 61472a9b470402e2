"""One-file adapters for other libraries; each imports its library only when used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from normwise.core.errors import InputError, NormwiseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from normwise.core.search_records import Hit

_TOLD = ("id", "score", "similarity", "norm", "probability", "abstain", "reason")
_INSIDE = frozenset({"normwise", "langchain_core", "llama_index", "llama_index_instrumentation", "pydantic"})


class MissingLibraryError(NormwiseError, ImportError):
    """The library that an adapter is for is not installed; the message holds the command that installs it.

    Example:
        >>> raise MissingLibraryError("langchain-core>=1.0")
        Traceback (most recent call last):
        ...
        normwise.integrations.MissingLibraryError: langchain-core is not installed; run: pip install "langchain-core>=1.0"
    """

    exit_code = 2

    def __init__(self, requirement: str) -> None:
        name = requirement.partition(">")[0]
        super().__init__(f'{name} is not installed; run: pip install "{requirement}"')


def metadata_of_hits(searcher: Any, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """What an adapter tells of hits beside their texts: their own metadata, and over them the keys that `search --json` has."""
    own = searcher.metadata([hit.id for hit in hits]) if hits and searcher.manifest.metadata_keys else [{}] * len(hits)
    return [{**of_hit, **{name: getattr(hit, name) for name in _TOLD}} for hit, of_hit in zip(hits, own, strict=True)]


def trusted_hits(retriever: Any, query: str) -> list[Hit]:
    """What an adapter's retriever hands on of one query; with `drop_abstained`, only what its guard lets through.

    Args:
        retriever: with `searcher`, `k`, `where`, `drop_abstained`, `require_calibration` and `_guard`.
        query: the text.

    Raises:
        InputError: as `Searcher.search` and `Guard.check`.
    """
    found = retriever.searcher.search([query], k=retriever.k, where=retriever.where)
    if retriever.drop_abstained:
        retriever._guard.check(found.why_not_calibrated, required=retriever.require_calibration)
    return [hit for hit in found.hits(0) if not (retriever.drop_abstained and hit.abstain)]


@final
class Guard:
    """What `drop_abstained` needs to leave out what is not to be trusted: a calibration that judges the search.

    Example:
        >>> Guard().check("no calibration.json lies in the index", required=True)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: drop_abstained needs a calibration ...: no calibration.json lies in the index
    """

    def __init__(self) -> None:
        self._told = False

    def check(self, why_not: str, *, required: bool) -> None:
        """Refuse a search that no calibration judges, or warn of the first one.

        Args:
            why_not: why none does; empty where one does.
            required: whether to refuse.

        Raises:
            InputError: says why none does and how to get one.
        """
        if not why_not or (self._told and not required):
            return
        if required:
            raise InputError(
                "drop_abstained needs a calibration that judges the search (require_calibration=False goes without one, and gives "
                f"documents for anything): {why_not}"
            )
        self._told = True
        warnings.warn(f"drop_abstained leaves out nothing but zero vectors: {why_not}", UserWarning, stacklevel=_caller())


def _caller() -> int:
    """How many frames above the warning the first one is that belongs neither to an adapter nor to what it is for."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    return level


def check_retriever(searcher: Any, *, k: Any, where: Any, **switches: Any) -> None:
    """Refuse what no retriever can be made of: it hands texts on, so the index has to hold them.

    Args:
        searcher: an open `Searcher`.
        k: how many hits per query.
        where: metadata that a hit must have, or None.
        switches: what is True or False, by name.

    Raises:
        InputError: names the argument, what came and what was expected.

    Example:
        >>> check_retriever("my-index", k=1, where=None)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: searcher is 'my-index'; expected an open Searcher: a retriever's open('my-index') makes one
    """
    if not all(hasattr(searcher, name) for name in ("search", "manifest", "metadata", "why_not_calibrated")):
        raise InputError(f"searcher is {searcher!r:.80}; expected an open Searcher: a retriever's open({searcher!r:.80}) makes one")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k is {k!r:.40}; expected a whole number of hits per query, at least 1")
    if where is not None and not isinstance(where, Mapping):
        raise InputError(f"where is {where!r:.80}; expected keys and values that a hit must have, such as {{'lang': 'de'}}")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} is {value!r:.40}; expected True or False")
    if not searcher.manifest.has_texts:
        raise InputError("the index holds vectors without texts, and a retriever hands texts on: build it with --data")
