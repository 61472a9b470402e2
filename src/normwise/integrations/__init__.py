"""One-file adapters for other libraries; each imports its library only when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normwise.core.errors import InputError, NormwiseError

if TYPE_CHECKING:
    from normwise.core.search_records import Hit

_TOLD = ("id", "score", "similarity", "norm", "probability", "abstain", "reason")


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


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """What an adapter tells of a hit beside its text: the keys that `search --json` has."""
    return {name: getattr(hit, name) for name in _TOLD}


def texts_at_hand(searcher: Any) -> None:
    """Refuse an index that cannot give the texts of its candidates: a retriever hands texts on.

    Raises:
        InputError: it holds none.
    """
    if not searcher.manifest.has_texts:
        raise InputError("the index holds vectors without texts, and a retriever hands texts on: build it with --data")
