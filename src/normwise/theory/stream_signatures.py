"""Signatures of language-model streams: the next token, what came before it, what stands near; documents are never joined."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from normwise.core.errors import InputError
from normwise.core.shapes import Int
from normwise.theory.sequence_law import check_ids, kept_ids
from normwise.theory.signatures import Signature, check_size, per_token

_CHUNK_PAIRS = 1 << 20
_WAY_OUT = "name fewer tokens in of, targets or contexts"


@dataclass(frozen=True, eq=False)
class TokenStream:
    """Documents one after the other.

    Args:
        ids: (T,) token ids in [0, vocabulary), of any integer type; may be a memory map.
        vocabulary: V.
        starts: (D,) where each document starts, ascending from 0; equal starts are empty documents.
        end: the end-of-text id, in place of starts. It belongs to the document that it ends: other tokens may have it next, and it has
            nothing next. With neither, all is one document.

    Raises:
        InputError: no token, an id out of range, starts that do not ascend from 0 or pass the end, or both starts and end.

    Example:
        >>> TokenStream(np.array([1, 2, 0, 2, 1, 0]), vocabulary=3, end=0).bounds.tolist()
        [0, 3, 6]
    """

    ids: np.ndarray
    vocabulary: int
    starts: np.ndarray | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or not self.ids.size:
            raise InputError(f"ids have shape {self.ids.shape}; expected one row of at least 1 token")
        check_ids("ids", self.ids, self.vocabulary)
        if self.end is not None and not 0 <= self.end < self.vocabulary:
            raise InputError(f"end is {self.end}; expected an id from 0 to {self.vocabulary - 1}")
        if self.starts is None:
            return
        if self.end is not None:
            raise InputError("starts and end are both given; expected one of them: each tells where documents end")
        if self.starts.ndim != 1 or not self.starts.size:
            raise InputError(f"starts have shape {self.starts.shape}; expected one row with the start of at least 1 document")
        check_ids("starts", self.starts, self.ids.size + 1)
        if self.starts[0] != 0 or (self.starts[1:] < self.starts[:-1]).any():
            raise InputError("starts do not ascend from 0; expected the place of each document's first token, in order")

    @cached_property
    def bounds(self) -> Int[np.ndarray, " _"]:
        """Starts of the documents that hold a token, ascending, and T."""
        total = self.ids.size
        if self.starts is not None:
            inner = self.starts.astype(np.int64)
        else:
            inner = np.zeros(1, dtype=np.int64) if self.end is None else np.append(0, np.flatnonzero(self.ids == self.end) + 1)
        return np.unique(np.append(inner, total))

    @property
    def longest(self) -> int:
        """Tokens in the longest document."""
        return int(np.diff(self.bounds).max())

    @property
    def spans(self) -> tuple[Int[np.ndarray, " T"], Int[np.ndarray, " T"]]:
        """(T,) where the document of each token starts, and where the next one does."""
        lengths = np.diff(self.bounds)
        return np.repeat(self.bounds[:-1], lengths), np.repeat(self.bounds[1:], lengths)


def next_token_signature(stream: TokenStream, *, of: np.ndarray | None = None, targets: np.ndarray | None = None) -> Signature:
    """Return what follows each token.

    Equation: phi_a^nt(v) = P(x_{s+1} = v | x_s = a), s uniform over the positions whose document goes on.

    Args:
        stream: the documents.
        of: (A,) tokens a that get a row; None for all V.
        targets: (C,) next tokens v that get a place; None for all V.

    Returns:
        Values (A, C), of order 0; `frequency` is P(x_s = a), `left_out` P(x_{s+1} is not among targets | a). Memory: about 32 bytes a
        token of the stream beside the values, which are held twice.

    Raises:
        InputError: no document has two tokens, an id is out of range or twice there, or the values are above
            `signatures.MOST_VALUES`.

    Reference: Yao, Hang and Xu (2026), the next-token signature.

    Example:
        >>> next_token_signature(TokenStream(np.array([1, 2, 1, 0]), vocabulary=3, end=0)).values.tolist()
        [[0.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """
    (tokens, slots), (nexts, next_slots) = kept_ids("of", of, stream.vocabulary), kept_ids("targets", targets, stream.vocabulary)
    check_size((tokens.size, nexts.size), _WAY_OUT)
    going_on = _going_on(stream)
    places = np.flatnonzero(going_on & (slots[stream.ids] >= 0))
    a, v = slots[stream.ids[places]], next_slots[stream.ids[places + 1]]
    kept = v >= 0
    counts = np.bincount(a[kept] * nexts.size + v[kept], minlength=tokens.size * nexts.size)
    seen = np.bincount(a, minlength=tokens.size)
    return Signature(
        of=tokens,
        values=per_token(counts.reshape(tokens.size, nexts.size), seen),
        frequency=seen / going_on.sum(),
        left_out=per_token(np.bincount(a[~kept], minlength=tokens.size), seen),
        targets=nexts,
    )


def presence_signature(
    stream: TokenStream,
    *,
    window: int | None = None,
    of: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    contexts: np.ndarray | None = None,
) -> Signature:
    """Return what follows each token together with what was there before it.

    Equation: phi_a^{y;1}(v, b) = P(x_{s+1} = v, b in X_{<s} | x_s = a), X_{<s} the document before s, or its last `window` tokens.
    A token counts once however often it is there, so that the sum over b is no chance: it is that of x_{s+1} = v times the mean number
    of different tokens in X_{<s}.

    How: each token of the stream is the latest of its kind for one run of positions s; runs of the same token do not overlap, so that
    the work is the number of different contexts over all s, not the number of tokens before them.

    Args:
        stream: the documents.
        window: tokens before s, at least 1; None for all of the document.
        of: (A,) tokens a that get a row; None for all V.
        targets: (C,) next tokens v that get a place; None for all V.
        contexts: (B,) tokens b that get a place; None for all V.

    Returns:
        Values (A, C, B), of order 1; `left_out` is the part of all presences (s, b) of a that fell on other targets or contexts.
        Memory: about 100 bytes a token of the stream beside the values, which are held twice.

    Raises:
        InputError: as `next_token_signature`, or the window is below 1 or longer than every document.

    Reference: Yao, Hang and Xu (2026), the first-order signature of language models; the window is ours.

    Example:
        >>> found = presence_signature(TokenStream(np.array([2, 1, 2, 0]), vocabulary=3, end=0))
        >>> found.values[2].tolist()
        [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_window(stream, window)
    (tokens, slots), (nexts, next_slots) = kept_ids("of", of, stream.vocabulary), kept_ids("targets", targets, stream.vocabulary)
    near, near_slots = kept_ids("contexts", contexts, stream.vocabulary)
    shape = (tokens.size, nexts.size, near.size)
    check_size(shape, _WAY_OUT)
    going_on, reach = _going_on(stream), _reach(stream, window)
    asked = going_on & (slots[stream.ids] >= 0)
    places = np.flatnonzero(asked)
    a = slots[stream.ids[places]]
    v = next_slots[stream.ids[places + 1]]
    kept = v >= 0
    asked[places[~kept]] = False
    counts = np.zeros(shape, dtype=np.int64)
    _add_runs(counts.reshape(-1, near.size), a[kept] * nexts.size + v[kept], asked, near_slots[stream.ids], reach)
    seen = np.bincount(a, minlength=tokens.size)
    # Sums of counts stay whole numbers in float64 up to 2^53.
    presences = np.bincount(a, weights=_different(reach)[places], minlength=tokens.size)
    return Signature(
        of=tokens,
        values=per_token(counts, seen),
        frequency=seen / going_on.sum(),
        left_out=per_token(presences - counts.sum(axis=(1, 2)), presences),
        contexts=near,
        targets=nexts,
    )


def window_cooccurrence(stream: TokenStream, *, window: int, of: np.ndarray | None = None, contexts: np.ndarray | None = None) -> Signature:
    """Return what stands near each token, on either side.

    Equation: phi_a^1(b) = P(x_J = b | x_I = a), I uniform over positions with another one near, J uniform over the other positions of
    its document at most `window` away. Each I counts the same, however few stand near it. Documents of one length L and a window of
    L - 1 make it the co-occurrence signature of order 1.

    Args:
        stream: the documents.
        window: positions on each side, at least 1.
        of: (A,) tokens a that get a row; None for all V.
        contexts: (B,) tokens b that get a place; None for all V.

    Returns:
        Values (A, B), of order 1; `left_out` is P(x_J is not among contexts | a). Memory: about 90 bytes a token of the stream beside the
        values, which are held twice; time grows with T times the window.

    Raises:
        InputError: as `presence_signature`.

    Example:
        >>> window_cooccurrence(TokenStream(np.array([0, 1, 1]), vocabulary=2), window=1).values.tolist()
        [[0.0, 1.0], [0.25, 0.75]]
    """
    check_window(stream, window)
    (tokens, slots), (near, near_slots) = kept_ids("of", of, stream.vocabulary), kept_ids("contexts", contexts, stream.vocabulary)
    check_size((tokens.size, near.size), _WAY_OUT)
    a, b = slots[stream.ids], near_slots[stream.ids]
    first, end = stream.spans
    places = np.arange(stream.ids.size)
    beside = np.minimum(window, places - first) + np.minimum(window, end - 1 - places)
    asked = (a >= 0) & (beside > 0)
    sums, left_out = np.zeros(tokens.size * near.size), np.zeros(tokens.size)
    for step in range(1, min(window, stream.longest - 1) + 1):
        left = np.flatnonzero(first[step:] == first[:-step])
        for center, other in ((left, left + step), (left + step, left)):
            center, other = center[asked[center]], other[asked[center]]
            kept, share = b[other] >= 0, 1.0 / beside[center]
            np.add.at(sums, a[center[kept]] * near.size + b[other[kept]], share[kept])
            left_out += np.bincount(a[center[~kept]], weights=share[~kept], minlength=tokens.size)
    seen = np.bincount(a[asked], minlength=tokens.size)
    return Signature(
        of=tokens,
        values=per_token(sums.reshape(tokens.size, near.size), seen),
        frequency=seen / (beside > 0).sum(),
        left_out=per_token(left_out, seen),
        contexts=near,
    )


def check_window(stream: TokenStream, window: int | None) -> None:
    """Raise InputError unless some document is as long as the window, and has two tokens."""
    _going_on(stream)
    if window is not None and not 1 <= window <= stream.longest:
        raise InputError(
            f"window is {window}; expected 1 to {stream.longest}, the tokens of the longest document: "
            "take a shorter window, or None for all of a document where that is allowed"
        )


def _going_on(stream: TokenStream) -> np.ndarray:
    """(T,) whether the document has a next token."""
    if stream.longest < 2:
        raise InputError(f"none of {stream.bounds.size - 1} documents has two tokens; expected one with a next token: check starts or end")
    going_on = np.ones(stream.ids.size, dtype=np.bool_)
    going_on[stream.bounds[1:] - 1] = False
    return going_on


def _reach(stream: TokenStream, window: int | None) -> np.ndarray:
    """(T,) the last position s for which the token at j is the latest of its kind in X_{<s}; j where there is none.

    That is the next place of the same token, the last of the document with a next token, or the end of the window, if sooner.
    """
    total = stream.ids.size
    by_token = np.argsort(stream.ids, kind="stable")
    same = stream.ids[by_token[1:]] == stream.ids[by_token[:-1]]
    reach = stream.spans[1] - 2
    reach[by_token[:-1][same]] = np.minimum(reach[by_token[:-1][same]], by_token[1:][same])
    places = np.arange(total)
    if window is not None:
        np.minimum(reach, places + window, out=reach)
    return np.maximum(reach, places)


def _different(reach: np.ndarray) -> np.ndarray:
    """(T,) the number of different tokens in X_{<s}: the runs (j, reach_j] that hold s."""
    change = np.ones(reach.size + 1, dtype=np.int64)
    change[0] = 0
    change -= np.bincount(reach + 1, minlength=reach.size + 1)
    return np.cumsum(change)[:-1]


def _add_runs(counts: np.ndarray, rows: np.ndarray, asked: np.ndarray, contexts: np.ndarray, reach: np.ndarray) -> None:
    """Add 1 to counts at (row of s, context at j) for every j with a context and every asked s in (j, reach_j], in parts."""
    before = np.cumsum(asked)
    j = np.flatnonzero((contexts >= 0) & (before[reach] > before))
    first, runs = before[j], before[reach[j]] - before[j]
    ends = np.cumsum(runs)
    start = 0
    while start < j.size:
        done = ends[start] - runs[start]
        stop = max(start + 1, int(np.searchsorted(ends, done + _CHUNK_PAIRS, side="right")))
        part = slice(start, stop)
        # The asked positions of a run are next to each other in the list of them.
        within = np.arange(ends[stop - 1] - done) - np.repeat(ends[part] - runs[part] - done, runs[part])
        cells = rows[np.repeat(first[part], runs[part]) + within] * counts.shape[1] + np.repeat(contexts[j[part]], runs[part])
        np.add.at(counts.reshape(-1), cells, 1)
        start = stop
