"""A LangChain retriever over a normwise index: documents with score, norm, probability, and whether to trust them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from normwise.core.errors import InputError
from normwise.integrations import MissingLibraryError, hit_metadata, texts_at_hand
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
    and `reason`. With `drop_abstained` the documents that are not to be trusted are left out, so that an empty list means
    "I don't know". The asynchronous methods run the same search in a thread.

    Args:
        searcher: an open searcher over an index that holds texts; see `open`.
        k: how many documents per query, >= 1.
        drop_abstained: leave out what the calibration says not to trust.
        where: metadata that a document must have; see `Searcher.search`.

    Example:
        `NormwiseRetriever.open("my-index", k=5, drop_abstained=True).invoke("how do I sort a list?")`
    """

    searcher: Any
    k: int = 10
    drop_abstained: bool = False
    where: dict[str, Any] | None = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self.k < 1:
            raise InputError(f"k is {self.k}; expected at least 1 document per query")
        texts_at_hand(self.searcher)

    @classmethod
    def open(
        cls,
        index: str | Path,
        *,
        model: str | Path | Encoder | None = None,
        calibration: str | Path | None = None,
        k: int = 10,
        drop_abstained: bool = False,
        where: Where | None = None,
    ) -> Self:
        """Open an index and make a retriever of it.

        Args:
            index: its folder.
            model: None takes the one that the index names.
            calibration: None looks for one; see `Searcher.open`.
            k: as above.
            drop_abstained: as above.
            where: as above.

        Raises:
            InputError: as `Searcher.open`; k < 1; an index without texts.
        """
        searcher = Searcher.open(index, model=model, calibration=calibration)
        return cls(searcher=searcher, k=k, drop_abstained=drop_abstained, where=None if where is None else dict(where))

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = self.searcher.search([query], k=self.k, where=self.where).hits(0)
        return [
            Document(id=hit.id, page_content=hit.text or "", metadata=hit_metadata(hit))
            for hit in hits
            if not (self.drop_abstained and hit.abstain)
        ]
