"""One-file adapters for other libraries; each imports its library only when used."""

from __future__ import annotations

import sys
import warnings
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


def texts_at_hand(searcher: Any) -> None:
    """Refuse an index that cannot give the texts of its candidates: a retriever hands texts on.

    Raises:
        InputError: it holds none.
    """
    if not searcher.manifest.has_texts:
        raise InputError("the index holds vectors without texts, and a retriever hands texts on: build it with --data")
