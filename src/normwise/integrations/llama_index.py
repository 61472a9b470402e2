"""A LlamaIndex retriever over a normwise index: nodes with score, norm, probability, and whether to trust them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from normwise.integrations import Guard, MissingLibraryError, check_retriever, metadata_of_hits, trusted_hits
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

    All nodes of a list are scored on one scale: the probability of being relevant where every one of them has one, else the
    score under the index's similarity for all. Metadata hold both: `id`, `score`, `similarity`, `norm`, `probability` (None
    where nobody knows), `abstain` and `reason`, and what the document itself came with, unless it has one of these
    names. Language models are shown none of these metadata.

    With `drop_abstained` the nodes that are not to be trusted are left out, so that an empty list means "I don't know". That
    takes a calibration: without one that holds for the index as it is, or under a `where`, there is nothing to go by, and it is
    an error. With `require_calibration=False` it is a warning, once, and a list that is not empty says nothing.

    Args:
        searcher: an open searcher over an index that holds texts; see `open`.
        k: how many nodes per query, >= 1.
        drop_abstained: leave out what the calibration says not to trust.
        require_calibration: whether `drop_abstained` without a calibration that judges the search is an error; if not, a warning.
        where: metadata that a node must have; see `Searcher.search`.
        settings: what LlamaIndex's own retrievers take, such as `callback_manager`.

    Raises:
        InputError: k < 1; an index without texts; `drop_abstained` without a calibration.

    Example:
        `NormwiseRetriever.open("my-index", k=5, drop_abstained=True).retrieve("how do I sort a list?")`
    """

    def __init__(
        self,
        searcher: Searcher,
        *,
        k: int = 10,
        drop_abstained: bool = False,
        require_calibration: bool = True,
        where: Where | None = None,
        **settings: Any,
    ) -> None:
        check_retriever(searcher, k=k, where=where, drop_abstained=drop_abstained, require_calibration=require_calibration)
        self.searcher, self.k, self.where = searcher, k, where
        self.drop_abstained, self.require_calibration, self._guard = drop_abstained, require_calibration, Guard()
        if drop_abstained:
            self._guard.check(searcher.why_not_calibrated, required=require_calibration)
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
        try:
            return cls(searcher, k=k, drop_abstained=drop_abstained, require_calibration=require_calibration, where=where)
        except BaseException:
            searcher.close()
            raise

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = trusted_hits(self, query_bundle.query_str)
        probable = [hit.probability for hit in hits if hit.probability is not None]
        scores = probable if len(probable) == len(hits) else [hit.score for hit in hits]
        nodes = []
        told = metadata_of_hits(self.searcher, hits)
        for hit, score, metadata in zip(hits, scores, told, strict=True):
            hidden = list(metadata)
            node = TextNode(
                id_=hit.id,
                text=hit.text or "",
                metadata=metadata,
                excluded_llm_metadata_keys=hidden,
                excluded_embed_metadata_keys=hidden,
            )
            nodes.append(NodeWithScore(node=node, score=score))
        return nodes
