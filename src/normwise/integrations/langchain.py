"""A LangChain retriever over a normwise index: documents with score, norm, probability, and whether to trust them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from normwise.integrations import Guard, MissingLibraryError, check_retriever, metadata_of_hits, trusted_hits
from normwise.workflows.search import Searcher

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingLibraryError("langchain-core>=1.0") from error

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun

    from normwise.index.protocol import Where
    from normwise.models.encoder import Encoder


class NormwiseRetriever(BaseRetriever):
    """Documents of a normwise index, best first.

    Each document's metadata has `id`, `score`, `similarity`, `norm`, `probability` (None without a calibration), `abstain`
    and `reason`, and what the document itself came with, unless it has one of these names.

    With `drop_abstained` the documents that are not to be trusted are left out, so that an empty list means "I don't know". That
    takes a calibration: without one that holds for the index as it is, or under a `where`, there is nothing to go by, and it is
    an error. With `require_calibration=False` it is a warning, once, and a list that is not empty says nothing.

    The asynchronous methods run the same search in a thread.

    Args:
        searcher: an open searcher over an index that holds texts; see `open`.
        k: how many documents per query, >= 1.
        drop_abstained: leave out what the calibration says not to trust.
        require_calibration: whether `drop_abstained` without a calibration that judges the search is an error; if not, a warning.
        where: metadata that a document must have; see `Searcher.search`.

    Example:
        `NormwiseRetriever.open("my-index", k=5, drop_abstained=True).invoke("how do I sort a list?")`
    """

    searcher: Any
    k: int = 10
    drop_abstained: bool = False
    require_calibration: bool = True
    where: dict[str, Any] | None = None
    _guard: Guard = PrivateAttr(default_factory=Guard)

    def __init__(self, **settings: Any) -> None:
        fields = type(self).model_fields
        own = {name: settings.get(name, fields[name].default) for name in ("k", "where", "drop_abstained", "require_calibration")}
        check_retriever(settings.get("searcher"), **own)
        super().__init__(**settings)
        if self.drop_abstained:
            self._guard.check(self.searcher.why_not_calibrated, required=self.require_calibration)

    @classmethod
    def open(
        cls,
        index: str | Path,
        *,
        model: str | Path | Encoder | None = None,
        calibration: str | Path | None = None,
        k: int = 10,
        drop_abstained: bool = False,
        require_calibration: bool = True,
        where: Where | None = None,
        url: str | None = None,
    ) -> Self:
        """Open an index and make a retriever of it.

        Args:
            index: its folder.
            model: None takes the one that the index names.
            calibration: None looks for one; see `Searcher.open`.
            k: as above.
            drop_abstained: as above.
            require_calibration: as above.
            where: as above.
            url: address of the server, where the index lies on one with a password.

        Raises:
            InputError: as `Searcher.open`; k < 1; an index without texts; `drop_abstained` without a calibration.
        """
        searcher = Searcher.open(index, model=model, calibration=calibration, url=url)
        settings = {"where": where, "drop_abstained": drop_abstained, "require_calibration": require_calibration}
        try:
            return cls(searcher=searcher, k=k, **settings)
        except BaseException:
            searcher.close()
            raise

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = trusted_hits(self, query)
        told = metadata_of_hits(self.searcher, hits)
        return [Document(id=hit.id, page_content=hit.text or "", metadata=metadata) for hit, metadata in zip(hits, told, strict=True)]
