"""A LlamaIndex retriever over a normwise index: nodes with score, norm, probability, and whether to trust them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from normwise.core.errors import InputError
from normwise.integrations import MissingLibraryError, hit_metadata, texts_at_hand
from normwise.workflows.search import Searcher

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingLibraryError("llama-index-core>=0.14") from error

if TYPE_CHECKING:
    from normwise.index.protocol import Where
    from normwise.models.encoder import Encoder


class NormwiseRetriever(BaseRetriever):
    """Nodes of a normwise index, best first.

    A node's score is the probability of being relevant where a calibration gives one, else the score under the index's
    similarity; which of the two it is, its metadata tell: `id`, `score`, `similarity`, `norm`, `probability` (None without a
    calibration), `abstain` and `reason`. Language models are shown none of these metadata. With `drop_abstained` the nodes
    that are not to be trusted are left out, so that an empty list means "I don't know".

    Args:
        searcher: an open searcher over an index that holds texts; see `open`.
        k: how many nodes per query, >= 1.
        drop_abstained: leave out what the calibration says not to trust.
        where: metadata that a node must have; see `Searcher.search`.
        settings: what LlamaIndex's own retrievers take, such as `callback_manager`.

    Raises:
        InputError: k < 1, or an index without texts.

    Example:
        `NormwiseRetriever.open("my-index", k=5, drop_abstained=True).retrieve("how do I sort a list?")`
    """

    def __init__(
        self,
        searcher: Searcher,
        *,
        k: int = 10,
        drop_abstained: bool = False,
        where: Where | None = None,
        **settings: Any,
    ) -> None:
        if k < 1:
            raise InputError(f"k is {k}; expected at least 1 node per query")
        texts_at_hand(searcher)
        self.searcher, self.k, self.drop_abstained, self.where = searcher, k, drop_abstained, where
        super().__init__(**settings)

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
        return cls(Searcher.open(index, model=model, calibration=calibration), k=k, drop_abstained=drop_abstained, where=where)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self.searcher.search([query_bundle.query_str], k=self.k, where=self.where).hits(0)
        nodes = []
        for hit in hits:
            if self.drop_abstained and hit.abstain:
                continue
            metadata = hit_metadata(hit)
            hidden = list(metadata)
            node = TextNode(
                id_=hit.id,
                text=hit.text or "",
                metadata=metadata,
                excluded_llm_metadata_keys=hidden,
                excluded_embed_metadata_keys=hidden,
            )
            nodes.append(NodeWithScore(node=node, score=hit.score if hit.probability is None else hit.probability))
        return nodes
