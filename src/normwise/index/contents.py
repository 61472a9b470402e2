"""What goes into an index, checked once at the border, the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from normwise.core.contents_hash import contents_hash
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.index.checks import Value, check_ids, check_length, check_lengths, check_matrix, check_metadata, check_range, check_strings
from normwise.theory.directions import exact_norms, normalize


@dataclass(frozen=True)
class Contents:
    """Candidates, checked.

    Args:
        ids: N distinct names.
        vectors: (N, D) float32, raw, C-contiguous.
        norms: (N,) float64 norms of the vectors as they came.
        texts: N texts, or None.
        lengths: (N,) float64 token counts, or None.
        metadata: N flat tables, or None.
        kinds: the one type of each metadata key.
    """

    ids: tuple[str, ...]
    vectors: np.ndarray
    norms: np.ndarray
    texts: tuple[str, ...] | None = None
    lengths: np.ndarray | None = None
    metadata: tuple[Mapping[str, Value], ...] | None = None
    kinds: Mapping[str, type] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        """D, the width of the vectors."""
        return self.vectors.shape[1]

    @property
    def directions(self) -> np.ndarray:
        """(N, D) float32 vectors divided by their norms; 0 for a zero vector."""
        return normalize(self.vectors)

    def scored(self, similarity: Similarity) -> np.ndarray:
        """(N, D) float32 vectors whose inner product with a query's direction ranks as the similarity does.

        Directions where it divides by the candidate's norm, else the raw vectors (not copied).
        """
        return self.directions if similarity.normalizes_candidate else self.vectors


@dataclass(frozen=True)
class Known:
    """What an index holds already, which additions have to fit: width, metadata types, whether texts and lengths are kept."""

    dimensions: int
    kinds: Mapping[str, type]
    has_texts: bool
    has_lengths: bool


def check_contents(
    ids: Sequence[str],
    vectors: np.ndarray,
    *,
    texts: Sequence[str] | None = None,
    lengths: np.ndarray | None = None,
    metadata: Sequence[Mapping[str, Value]] | None = None,
    known: Known | None = None,
) -> Contents:
    """Check candidates and put them into one form.

    Args:
        ids: N distinct names, not empty, at most 1,000 characters.
        vectors: (N, D) float16, float32 or float64, finite, norms 0 or 1e-32..1e36; N and D at least 1.
        texts: N texts.
        lengths: (N,) token counts, finite and >= 0.
        metadata: N flat tables of str, int, float or bool; a key has one type in all of them, and may be missing in some.
        known: the index that they join.

    Returns:
        The contents; vectors float32.

    Raises:
        InputError: anything else; the message names argument, row and value.

    Example:
        >>> check_contents(["a", "a"], np.ones((2, 2)))
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: ids: row 1 is 'a', as row 0: every candidate needs an id of its own
    """
    vectors = check_matrix(vectors, name="vectors", width=None if known is None else known.dimensions)
    count = vectors.shape[0]
    if count == 0 or vectors.shape[1] == 0:
        raise InputError(f"vectors have shape {vectors.shape}; expected at least one row and one column")
    norms = exact_norms(vectors, name="vectors")
    check_range(norms, name="vectors")
    ids = check_ids(ids, count)
    _check_presence(known, texts=texts, lengths=lengths)
    rows = None if metadata is None else check_length(metadata, count, name="metadata")
    kinds = {} if rows is None else check_metadata(rows, dict(known.kinds) if known else {})
    return Contents(
        ids=ids,
        vectors=np.ascontiguousarray(vectors, dtype=np.float32),
        norms=norms,
        texts=None if texts is None else tuple(check_strings(texts, count, name="texts")),
        lengths=None if lengths is None else check_lengths(lengths, count),
        metadata=None if rows is None else tuple(dict(row) for row in rows),
        kinds=kinds,
    )


def check_beside(
    ids: Sequence[str],
    *,
    texts: Sequence[str] | None = None,
    metadata: Sequence[Mapping[str, Value]] | None = None,
    kinds: Mapping[str, type] | None = None,
) -> None:
    """Check what can be checked before there are vectors, so that nothing is refused only after long encoding.

    Args:
        ids: as in `check_contents`.
        texts: as in `check_contents`.
        metadata: as in `check_contents`.
        kinds: the type of each metadata key of the index that they join.

    Raises:
        InputError: as `check_contents`.

    Example:
        >>> check_beside(["a"], metadata=[{"year": 2**70}])
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: metadata: row 0, key 'year' is a whole number beyond 64 bits: write it as a string
    """
    count = len(check_ids(ids, None))
    if texts is not None:
        check_strings(texts, count, name="texts")
    if metadata is not None:
        check_metadata(check_length(metadata, count, name="metadata"), dict(kinds or {}))


def texts_hash(contents: Contents, *, start: str | None = None, take_away: bool = False) -> str | None:
    """The order-free hash of (id, text) pairs, None without texts; `start` and `take_away` as in `contents_hash`."""
    if contents.texts is None:
        return None
    pairs = ((name, text.encode("utf-8")) for name, text in zip(contents.ids, contents.texts, strict=True))
    return contents_hash(pairs, start=start, take_away=take_away)


def _check_presence(known: Known | None, **given: object) -> None:
    if known is None:
        return
    for name, kept in (("texts", known.has_texts), ("lengths", known.has_lengths)):
        if kept and given[name] is None:
            raise InputError(f"{name} are missing; the index keeps them for every candidate: give one for each vector")
        if not kept and given[name] is not None:
            raise InputError(f"{name} came, and the index was built without: leave {name} out, or build it again with them")
