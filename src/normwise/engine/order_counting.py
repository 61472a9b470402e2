"""From token files to signatures of several orders: which tokens get a place, what is counted exactly and what is sketched."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.token_files import TokenFiles
from normwise.engine.token_counting import Counting, count_tokens
from normwise.theory.count_plan import CountPlan
from normwise.theory.sequence_law import top_tokens
from normwise.theory.signature_sketch import random_probes
from normwise.theory.stream_counts import StreamCounts, check_filled, count_parts, whole
from normwise.theory.stream_orders import OrderRows, StreamOrders
from normwise.theory.stream_signatures import counted_next_token, counted_pair_sketch, counted_presence
from normwise.theory.token_stream import TokenStream

ORDERS = (0, 1, 2)
# Counts of an order, in numbers of 8 bytes; several copies are held while they are counted.
_MOST_COUNTS = 1 << 24
_SKETCHES = 32
_LEAST_TOKENS = 3


@dataclass(frozen=True, kw_only=True)
class OrderCounting:
    """Which signatures are counted.

    Args:
        orders: of 0, 1 and 2, each once.
        tokens: N, the most frequent tokens that are compared; None = 200, or all that are seen if fewer.
        window: tokens before a position that order 1 and 2 look at; None = all of the document.
        named: ids that get a row beside the N, for their neighbors; those never seen get none.
        seed: of the sketches of order 2.

    Raises:
        InputError: an order that there is not, or a number below its least.
    """

    orders: Sequence[int] = (0, 1)
    tokens: int | None = None
    window: int | None = None
    named: Collection[int] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        bad = [order for order in self.orders if order not in ORDERS or isinstance(order, bool | float)]
        if bad or not self.orders or len(set(self.orders)) < len(self.orders):
            raise InputError(f"orders are {', '.join(map(str, self.orders)) or 'none'}; expected one or more of 0, 1 and 2, each once")
        if self.tokens is not None and self.tokens < _LEAST_TOKENS:
            raise InputError(f"tokens is {self.tokens}; expected at least {_LEAST_TOKENS}, so that there are pairs to compare")
        if self.window is not None and self.window < 1:
            raise InputError(f"window is {self.window}; expected at least 1 token, or none for all of the document")


@dataclass(frozen=True)
class CountedOrders:
    """Signatures of a stream, and what was counted for them.

    Args:
        signatures: of the tokens.
        named: places among them of the tokens that were named, and seen.
        next_tokens: next tokens with a place.
        contexts: tokens before with a place at order 1; None where it was not counted.
        sketches: random probes of order 2; None where it was not counted.
        positions: tokens of the stream.
        never: tokens of the vocabulary that are nowhere in it.
        window: of orders 1 and 2.
        engine: that counted.
        notes: sentences on what was left out.
        names: by id, what tokens are called.
    """

    signatures: StreamOrders
    named: tuple[int, ...]
    next_tokens: int
    contexts: int | None
    sketches: int | None
    positions: int
    never: int
    window: int | None
    engine: str
    notes: tuple[str, ...]
    names: Mapping[int, str] = field(default_factory=dict)

    def named_by(self, names: Mapping[int, str]) -> CountedOrders:
        """Return the same with the names of its tokens."""
        return replace(self, names={int(token): names[int(token)] for token in self.signatures.tokens if int(token) in names})


def count_orders(
    files: TokenFiles, asked: OrderCounting, counting: Counting | None = None, *, told: Callable[[int, int], None] | None = None
) -> CountedOrders:
    """Count signatures of the most frequent tokens: one pass over the files for frequencies, one for order 0, one for the others.

    Order 0 has a place for every next token while that makes 16 million counts at most, else for the most frequent; order 1 for as many
    next tokens and contexts as fit the same, the most frequent; order 2 is 32 sketches over all pairs of contexts, with the same next
    tokens.

    Args:
        files: the sources.
        asked: which signatures.
        counting: where, and what is kept in between: each pass has its own folder in the one that is named.
        told: as `count_tokens`, for each pass.

    Returns:
        The signatures, the same for every engine and number of workers.

    Raises:
        InputError: fewer tokens are seen than asked for, or as `count_tokens`: no document has two tokens, or fills the window.
    """
    counting = counting or Counting()

    def count(plan: CountPlan, name: str) -> StreamCounts:
        own = counting if counting.folder is None else replace(counting, folder=Path(counting.folder) / name)
        return count_tokens(files, plan, own, told=told)

    found = _counted(count, asked, vocabulary=files.vocabulary, end=files.reading.end, engine=counting.engine)
    # In files of ids one after the other only an id can end a document.
    if max(asked.orders) == 0 or asked.window is not None or files.reading.end is not None or not files.kinds & {"npy", "raw"}:
        return found
    note = (
        "no id ends a document in these files, so that each file is one, and orders above 0 look at all that stands before in it: name the "
        "id (--end), or a window (--window)"
    )
    return replace(found, notes=(*found.notes, note))


def orders_of_stream(stream: TokenStream, asked: OrderCounting, *, names: Mapping[int, str] | None = None) -> CountedOrders:
    """Count signatures of a stream that is held in memory, as `count_orders` does of files.

    Args:
        stream: the documents.
        asked: which signatures.
        names: by id, what tokens are called.

    Raises:
        InputError: as `count_orders`.

    Example:
        >>> found = orders_of_stream(TokenStream(np.arange(400) ** 2 % 23, vocabulary=23), OrderCounting(orders=(0,), tokens=5))
        >>> found.signatures.tokens.tolist(), found.positions
        ([1, 2, 3, 4, 9], 400)
    """

    def count(plan: CountPlan, name: str) -> StreamCounts:
        found = count_parts([whole(stream)], plan)
        check_filled(found)
        return found

    found = _counted(count, asked, vocabulary=stream.vocabulary, end=stream.end, engine="local")
    return found if names is None else found.named_by(names)


def _counted(
    count: Callable[[CountPlan, str], StreamCounts], asked: OrderCounting, *, vocabulary: int, end: int | None, engine: str
) -> CountedOrders:
    seen = count(CountPlan(vocabulary=vocabulary, next_token=False), "tokens").tokens
    of, judged = _rows(seen, asked, end=end)
    by_frequency = top_tokens(seen.astype(np.float64), int(np.count_nonzero(seen)))
    nexts = _kept(by_frequency, vocabulary, _MOST_COUNTS // of.size)
    next_token = counted_next_token(count(CountPlan(vocabulary=vocabulary, of=of, targets=nexts), "order-0"))
    values, few = {0: next_token.values}, None
    if max(asked.orders) > 0:
        few = _kept(by_frequency, vocabulary, math.isqrt(_MOST_COUNTS // of.size))
        values |= _higher(count(_higher_plan(vocabulary, asked, of=of, few=few), "higher-orders"), asked.orders)
    rows = [OrderRows(order, values[order]) for order in asked.orders]
    signatures = StreamOrders(next_token, rows, counts=seen[of], judged=judged, vocabulary=vocabulary)
    never = int(np.count_nonzero(seen == 0))
    return CountedOrders(
        signatures,
        named=tuple(np.flatnonzero(np.isin(of, np.array(sorted(asked.named), dtype=np.int64))).tolist()),
        next_tokens=nexts.size,
        contexts=None if few is None or 1 not in asked.orders else few.size,
        sketches=_SKETCHES if 2 in asked.orders else None,
        positions=int(seen.sum()),
        never=never,
        window=asked.window,
        engine=engine,
        notes=_notes(signatures, never=never, vocabulary=vocabulary, highest=int(by_frequency.max())),
    )


def _rows(seen: np.ndarray, asked: OrderCounting, *, end: int | None) -> tuple[np.ndarray, int]:
    """The ids with a row, the N to compare first, and N."""
    # What ends a document has no next token, so that it has no signature.
    counts = seen.astype(np.float64)
    if end is not None:
        counts[end] = 0.0
    there = int(np.count_nonzero(counts))
    if there < _LEAST_TOKENS:
        raise InputError(f"{there} tokens stand in the corpus; expected at least {_LEAST_TOKENS}: is this the right file?")
    keep = min(200, there) if asked.tokens is None else asked.tokens
    if keep > there:
        raise InputError(f"tokens is {keep:,}, and {there:,} of {seen.size:,} stand in the corpus: ask for fewer, or give a longer corpus")
    top = top_tokens(counts, keep)
    named = np.array(sorted({int(each) for each in asked.named} - set(top.tolist())), dtype=np.int64)
    if named.size and (named[0] < 0 or named[-1] >= seen.size):
        raise InputError(f"named holds {named[-1] if named[-1] >= seen.size else named[0]}; expected ids from 0 to {seen.size - 1}")
    return np.concatenate([top, named[counts[named] > 0.0]]), keep


def _kept(by_frequency: np.ndarray, vocabulary: int, most: int) -> np.ndarray:
    """All ids of a vocabulary that is small enough, else the most frequent."""
    return np.arange(vocabulary) if vocabulary <= most else by_frequency[:most]


def _higher_plan(vocabulary: int, asked: OrderCounting, *, of: np.ndarray, few: np.ndarray) -> CountPlan:
    exact, sketched = 1 in asked.orders, 2 in asked.orders
    return CountPlan(
        vocabulary=vocabulary,
        of=of,
        targets=few,
        contexts=few if exact else np.empty(0, dtype=np.int64),
        presence="prefix" if asked.window is None else asked.window,
        pairs=random_probes(_SKETCHES, 2, vocabulary, seed=asked.seed).astype(np.int8) if sketched else None,
    )


def _higher(counts: StreamCounts, orders: Sequence[int]) -> dict[int, np.ndarray]:
    found = {1: counted_presence(counts).values} if 1 in orders else {}
    if 2 in orders:
        # (A, R, C), sketches side by side: their products are means over sketches of unbiased estimates.
        found[2] = np.moveaxis(counted_pair_sketch(counts).values, 0, 1)
    return found


def _notes(signatures: StreamOrders, *, never: int, vocabulary: int, highest: int) -> tuple[str, ...]:
    notes = []
    if never:
        notes.append(f"{never:,} of {vocabulary:,} tokens of the vocabulary are nowhere in the corpus; they are not compared")
    if highest < vocabulary // 2:
        notes.append(f"the highest id in the corpus is {highest:,} of {vocabulary:,}: was it made by this model's tokenizer?")
    if signatures.left_out > 0.0:
        notes.append(f"{signatures.left_out:.1%} of next tokens are too rare to have a place in order 0")
    return tuple(notes)
