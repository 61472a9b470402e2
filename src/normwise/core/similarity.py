"""The four similarities: one enum, no aliases, nothing normalizes in silence."""

from __future__ import annotations

from enum import StrEnum

from normwise.core.errors import InputError, near_names


class Similarity(StrEnum):
    """How a query q and a candidate c are scored; `hat x` is x divided by its norm.

    | member                 | score          |
    |------------------------|----------------|
    | `cosine`               | hat q . hat c  |
    | `dot`                  | q . c          |
    | `query_normalized`     | hat q . c      |
    | `candidate_normalized` | q . hat c      |

    For training these are four different losses. For ranking they are two: a query's own norm never changes
    the order of its candidates, so `dot` ranks as `query_normalized` and `cosine` as `candidate_normalized`.

    Example:
        >>> Similarity("dot").normalizes_query, Similarity("cosine").normalizes_candidate
        (False, True)
        >>> Similarity.QUERY_NORMALIZED.ranking
        <Similarity.DOT: 'dot'>
    """

    COSINE = "cosine"
    DOT = "dot"
    QUERY_NORMALIZED = "query_normalized"
    CANDIDATE_NORMALIZED = "candidate_normalized"

    @property
    def normalizes_query(self) -> bool:
        """Whether the query is divided by its norm."""
        return self in (Similarity.COSINE, Similarity.QUERY_NORMALIZED)

    @property
    def normalizes_candidate(self) -> bool:
        """Whether the candidate is divided by its norm."""
        return self in (Similarity.COSINE, Similarity.CANDIDATE_NORMALIZED)

    @property
    def ranking(self) -> Similarity:
        """The representative of the two ranking classes: `cosine` or `dot`.

        It is also the `similarity_fn_name` under which plain sentence-transformers ranks the same way.
        """
        return Similarity.COSINE if self.normalizes_candidate else Similarity.DOT


def parse_similarity(name: str | Similarity) -> Similarity:
    """Read a similarity by its one name.

    Args:
        name: one of the four names.

    Returns:
        The member of `Similarity`.

    Raises:
        InputError: the name is unknown; the message lists near names.

    Example:
        >>> parse_similarity("cosine")
        <Similarity.COSINE: 'cosine'>
    """
    try:
        return Similarity(name)
    except ValueError:
        raise InputError(f"similarity {name!r} is unknown: {near_names(str(name), [s.value for s in Similarity])}") from None
