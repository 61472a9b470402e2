"""What goes into an index and what is asked of it, checked once at the border, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from normwise.core.contents_hash import contents_hash
from normwise.core.errors import InputError, near_names
from normwise.core.similarity import Similarity
from normwise.index.protocol import Where
from normwise.theory.directions import exact_norms, normalize

Value = str | int | float | bool
_KINDS: tuple[type, ...] = (str, int, float, bool)
# As exact search takes them: within, no product of a direction and a vector overflows float32.
_SMALLEST_NORM, _LARGEST_NORM = 1e-32, 1e36
_LONGEST_ID = 1000


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
    vectors = _check_matrix(vectors, name="vectors", rows=None, width=None if known is None else known.dimensions)
    count = vectors.shape[0]
    if count == 0 or vectors.shape[1] == 0:
        raise InputError(f"vectors have shape {vectors.shape}; expected at least one row and one column")
    norms = exact_norms(vectors, name="vectors")
    _check_range(norms, name="vectors")
    ids = _check_ids(ids, count)
    _check_presence(known, texts=texts, lengths=lengths)
    rows = None if metadata is None else _check_length(metadata, count, name="metadata")
    kinds = {} if rows is None else _check_metadata(rows, dict(known.kinds) if known else {})
    return Contents(
        ids=ids,
        vectors=np.ascontiguousarray(vectors, dtype=np.float32),
        norms=norms,
        texts=None if texts is None else tuple(_check_strings(texts, count, name="texts")),
        lengths=None if lengths is None else _check_lengths(lengths, count),
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
    count = len(_check_ids(ids, None))
    if texts is not None:
        _check_strings(texts, count, name="texts")
    if metadata is not None:
        _check_metadata(_check_length(metadata, count, name="metadata"), dict(kinds or {}))


def check_queries(queries: np.ndarray, *, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Check raw queries (B, D).

    Returns:
        (B, D) float64 directions, 0 for a zero vector, and (B,) float64 norms.

    Raises:
        InputError: shape, type, a value that is not finite or a norm outside 0 or 1e-32..1e36.
    """
    queries = _check_matrix(queries, name="queries", rows=None, width=dimensions)
    lengths = exact_norms(queries, name="queries")
    _check_range(lengths, name="queries")
    return normalize(queries.astype(np.float64)), lengths


def check_k(k: int) -> int:
    """Check how many hits are asked for.

    Raises:
        InputError: not a whole number of at least 1.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k is {k!r:.40}; expected a whole number of at least 1")
    return int(k)


def check_where(where: Where | None, kinds: Mapping[str, type]) -> dict[str, Value]:
    """Check a filter against the metadata keys and types that an index has; {} where there is none.

    Raises:
        InputError: an unknown key, or a value of another type than that key has.
    """
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise InputError(f"where is a {type(where).__name__}; expected a table of metadata keys and values")
    checked: dict[str, Value] = {}
    for key, value in where.items():
        if key not in kinds:
            hint = near_names(str(key), kinds) if kinds else "this index has no metadata"
            raise InputError(f"where: no candidate has a metadata key {key!r:.80}: {hint}")
        kind = kinds[key]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise InputError(f"where: {key} is {value!r:.80}, a {type(value).__name__}; that key holds {kind.__name__} values")
        _check_value(value, where=f"where: {key}")
        checked[key] = float(value) if kind is float else value
    return checked


def check_known_ids(ids: Sequence[str], present: Mapping[str, object]) -> list[str]:
    """Check ids that are to be deleted: distinct, and all there.

    Raises:
        InputError: one is not; the message names it.
    """
    names = list(_check_ids(ids, None))
    for row, name in enumerate(names):
        if name not in present:
            raise InputError(f"ids: row {row} is {name!r:.80}, which the index does not hold: nothing was deleted")
    return names


def check_new_ids(ids: Sequence[str], present: Mapping[str, object]) -> None:
    """Check that ids are not there yet.

    Raises:
        InputError: one is; the message names it.
    """
    for row, name in enumerate(ids):
        if name in present:
            raise InputError(f"ids: row {row} is {name!r:.80}, which the index holds already: delete it first; nothing was added")


def texts_hash(contents: Contents, *, start: str | None = None, take_away: bool = False) -> str | None:
    """The order-free hash of (id, text) pairs, None without texts; `start` and `take_away` as in `contents_hash`."""
    if contents.texts is None:
        return None
    pairs = ((name, text.encode("utf-8")) for name, text in zip(contents.ids, contents.texts, strict=True))
    return contents_hash(pairs, start=start, take_away=take_away)


def vectors_hash(contents: Contents, *, start: str | None = None, take_away: bool = False) -> str:
    """The order-free hash of (id, float32 vector, little-endian) pairs; `start` and `take_away` as in `contents_hash`."""
    return contents_hash(_vector_pairs(contents), start=start, take_away=take_away)


def _vector_pairs(contents: Contents) -> Iterator[tuple[str, bytes]]:
    for name, vector in zip(contents.ids, contents.vectors, strict=True):
        # Adding 0 makes -0 and 0, which no score tells apart, one value.
        yield name, (vector + np.float32(0.0)).astype("<f4").tobytes()


def _check_matrix(x: np.ndarray, *, name: str, rows: int | None, width: int | None) -> np.ndarray:
    if not isinstance(x, np.ndarray):
        raise InputError(f"{name} are a {type(x).__name__}; expected a numpy array (rows, dimensions)")
    if isinstance(x, np.ma.MaskedArray):
        raise InputError(f"{name} are a masked array, and an index knows no holes: give plain ones, as by .filled() or with rows dropped")
    if x.ndim != 2:
        raise InputError(f"{name} have shape {x.shape}; expected two dimensions: rows of vectors")
    if x.dtype.kind != "f" or x.dtype.itemsize > 8:
        raise InputError(f"{name} hold {x.dtype}; expected float16, float32 or float64")
    if width is not None and x.shape[1] != width:
        raise InputError(f"{name} have {x.shape[1]} dimensions, and the index has {width}: all must come from one encoder")
    return x


def _check_range(norms: np.ndarray, *, name: str) -> None:
    bad = np.flatnonzero((norms > _LARGEST_NORM) | ((norms < _SMALLEST_NORM) & (norms > 0.0)))
    if bad.size:
        raise InputError(
            f"{name}: row {bad[0]} has norm {norms[bad[0]]:.3g}; expected 0 or {_SMALLEST_NORM}..{_LARGEST_NORM}: rescale the vectors"
        )


def _check_length(values: Sequence, count: int, *, name: str) -> Sequence:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise InputError(f"{name} are a {type(values).__name__}; expected a sequence, one for each vector")
    if len(values) != count:
        raise InputError(f"{name} are {len(values)}, and the vectors {count}: expected one for each vector")
    return values


def _check_strings(values: Sequence[str], count: int, *, name: str) -> Sequence[str]:
    for row, value in enumerate(_check_length(values, count, name=name)):
        if not isinstance(value, str):
            raise InputError(f"{name}: row {row} is {value!r:.80}, a {type(value).__name__}; expected a string")
        _check_letters(value, where=f"{name}: row {row}")
    return values


def _check_letters(value: str, *, where: str) -> None:
    if "\0" in value:
        raise InputError(f"{where} holds a NUL character, which no server stores: take it out")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{where} holds half a character, which no UTF-8 file can hold: write it again") from None


def _check_ids(ids: Sequence[str], count: int | None) -> tuple[str, ...]:
    if isinstance(ids, str) or not hasattr(ids, "__len__"):
        raise InputError(f"ids are a {type(ids).__name__}; expected a sequence of strings")
    names = tuple(_check_strings(ids, len(ids) if count is None else count, name="ids"))
    rows: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name or len(name) > _LONGEST_ID:
            came = "is empty" if not name else f"has {len(name):,} characters"
            raise InputError(f"ids: row {row} {came}; expected 1 to {_LONGEST_ID:,} characters")
        if rows.setdefault(name, row) != row:
            raise InputError(f"ids: row {row} is {name!r:.80}, as row {rows[name]}: every candidate needs an id of its own")
    return names


def _check_presence(known: Known | None, **given: object) -> None:
    if known is None:
        return
    for name, kept in (("texts", known.has_texts), ("lengths", known.has_lengths)):
        if kept and given[name] is None:
            raise InputError(f"{name} are missing; the index keeps them for every candidate: give one for each vector")
        if not kept and given[name] is not None:
            raise InputError(f"{name} came, and the index was built without: leave {name} out, or build it again with them")


def _check_lengths(lengths: np.ndarray, count: int) -> np.ndarray:
    values = np.asarray(lengths)
    if values.dtype.kind not in "iuf" or values.shape != (count,):
        raise InputError(f"lengths have shape {values.shape} and type {values.dtype}; expected one token count for each of {count} vectors")
    values = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0.0))
    if bad.size:
        raise InputError(f"lengths: row {bad[0]} is {values[bad[0]]}; expected a finite number >= 0")
    return values


def _check_metadata(rows: Sequence[Mapping[str, Value]], kinds: dict[str, type]) -> dict[str, type]:
    first: dict[str, int] = {}
    for row, table in enumerate(rows):
        if not isinstance(table, Mapping):
            raise InputError(f"metadata: row {row} is a {type(table).__name__}; expected a flat table of keys and values")
        for key, value in table.items():
            where = f"metadata: row {row}, key {key!r:.80}"
            if not isinstance(key, str) or not key:
                raise InputError(f"{where}; expected a name of at least one character")
            _check_letters(key, where=f"{where},")
            _check_value(value, where=where)
            kind = kinds.setdefault(key, type(value))
            if type(value) is not kind:
                seen = f"row {first[key]} has" if key in first else "the index has"
                raise InputError(f"{where} is {value!r:.80}, a {type(value).__name__}, and {seen} {kind.__name__}: one type for each key")
            first.setdefault(key, row)
    return kinds


def _check_value(value: Value, *, where: str) -> None:
    if type(value) not in _KINDS:
        raise InputError(f"{where} is a {type(value).__name__}; expected str, int, float or bool")
    if isinstance(value, str):
        _check_letters(value, where=where)
    elif isinstance(value, float) and not np.isfinite(value):
        raise InputError(f"{where} is {value}; expected a finite number")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"{where} is a whole number beyond 64 bits: write it as a string")
