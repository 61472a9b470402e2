"""Whole numbers counted in parts of a stream, which add up to those of the whole, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.count_plan import CountPlan
from normwise.theory.stream_kernels import (
    add_columns,
    add_near,
    add_presence,
    different_before,
    pair_signs_before,
    positions_beside,
    presence_reach,
    signs_before,
)
from normwise.theory.token_stream import TokenStream, short_of


@dataclass(frozen=True, eq=False)
class StreamPart:
    """Tokens that are counted, between the tokens that they need around them.

    Args:
        stream: the block. Its first document may have begun before it: then at least `CountPlan.before` tokens of it stand before
            the first that is counted and, for the presence in a prefix, each different token of what lies further back, in any order.
            Its last document may go on behind it: then at least `CountPlan.after` tokens of it stand behind the last that is counted.
        first: the first position that is counted.
        stop: the position behind the last.
    """

    stream: TokenStream
    first: int
    stop: int


@dataclass(frozen=True, eq=False)
class StreamCounts:
    """What was counted; `+` joins the counts of parts. All numbers are whole, and sums of parts are those of the whole.

    Args:
        plan: what was counted.
        moments: positions s whose document goes on.
        positions: positions with another one near, of all tokens.
        longest: tokens of the longest document, at most `plan.widest`: no longer one is told from it.
        tokens: (V,) how often each token stands anywhere, in last places too.
        seen: (A,) positions s with x_s = a and a next token.
        followed: (A, C) those with x_{s+1} = v; the rest of seen was left out.
        presence: (A, C, B) those with b in X_{<s}, once each.
        presences: (A,) pairs of such s and different tokens in X_{<s}, of all the vocabulary; what is above the sum of presence was
            left out.
        sketch: (A, C, R) sums over all tokens b of presence times probe, also of contexts without a place.
        pair_sketch: (A, C, R) sums over such s, and over all tokens b and c != b that are both in X_{<s}, of p_r(b) q_r(c). A cell stays
            within m - 1 times `presences`, m the most different tokens that there can be in X_{<s}.
        near: (2 window, A, B) pairs (I, J) with x_I = a, x_J = b, by the number of positions beside I, from 1.
        centers: (2 window, A) positions I with x_I = a, by the number of positions beside them, from 1.
    """

    plan: CountPlan
    moments: int
    positions: int
    longest: int
    tokens: np.ndarray
    seen: np.ndarray
    followed: np.ndarray
    presence: np.ndarray
    presences: np.ndarray
    sketch: np.ndarray
    pair_sketch: np.ndarray
    near: np.ndarray
    centers: np.ndarray

    def __add__(self, other: StreamCounts) -> StreamCounts:
        """The counts of both parts; both must follow one plan."""
        tally = StreamTally(self.plan)
        tally.merge(self)
        tally.merge(other)
        return tally.counts()

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Every number, as arrays by name, for a file; `from_arrays` takes them back."""
        numbers = np.array([self.moments, self.positions, self.longest], dtype=np.int64)
        return {"numbers": numbers, **{name: getattr(self, name) for name in self.plan.shapes}}

    @classmethod
    def from_arrays(cls, plan: CountPlan, arrays: Mapping[str, np.ndarray]) -> StreamCounts:
        """Take back what `arrays` gave.

        Raises:
            InputError: an array is missing, or has another shape or type than the plan asks for.
        """
        for name, shape in {"numbers": (3,), **plan.shapes}.items():
            if name not in arrays:
                raise InputError(f"counts have no array {name!r}; expected those of one plan")
            if arrays[name].shape != shape or arrays[name].dtype != np.int64:
                raise InputError(f"counts: {name} is {arrays[name].dtype} of shape {arrays[name].shape}; expected int64 of shape {shape}")
        moments, positions, longest = (int(number) for number in arrays["numbers"])
        return cls(plan, moments, positions, longest, **{name: arrays[name] for name in plan.shapes})


@dataclass(frozen=True, eq=False)
class PackedCounts:
    """Counts on their way: of arrays that are mostly 0, what is not.

    Args:
        fingerprint: of the plan.
        numbers: moments, positions, longest.
        cells: by name of the array, (places in it, None for all in order; the numbers there).
    """

    fingerprint: str
    numbers: tuple[int, int, int]
    cells: Mapping[str, tuple[np.ndarray | None, np.ndarray]]


def pack_counts(counts: StreamCounts) -> PackedCounts:
    """Pack counts; `StreamTally.merge` takes them, without making the whole arrays again.

    Args:
        counts: any.

    Returns:
        At most about as many bytes as the counts; for few tokens and many cells, far fewer.

    Example:
        >>> counts = count_parts([whole(TokenStream(np.array([1, 2, 1]), vocabulary=90))], CountPlan(vocabulary=90))
        >>> [numbers.tolist() for numbers in pack_counts(counts).cells["followed"]]
        [[92, 181], [1, 1]]
    """
    cells: dict[str, tuple[np.ndarray | None, np.ndarray]] = {}
    for name in counts.plan.shapes:
        flat = getattr(counts, name).reshape(-1)
        places = np.flatnonzero(flat)
        cells[name] = (places, flat[places]) if 2 * places.size < flat.size else (None, flat)
    return PackedCounts(counts.plan.fingerprint, (counts.moments, counts.positions, counts.longest), cells)


class StreamTally:
    """Counts that grow: parts are counted into it, counts of other parts are merged into it. Holds one set of counts.

    Args:
        plan: what is counted.
    """

    def __init__(self, plan: CountPlan) -> None:
        self.plan = plan
        self._moments = self._positions = self._longest = 0
        self._sums = {name: np.zeros(shape, dtype=np.int64) for name, shape in plan.shapes.items()}

    def add(self, part: StreamPart) -> None:
        """Count a part."""
        stream, plan, sums = part.stream, self.plan, self._sums
        # An index of another type would be converted at every use.
        ids = stream.ids.astype(np.int64)
        self._longest = max(self._longest, min(stream.longest, plan.widest))
        np.add.at(sums["tokens"], ids[part.first : part.stop], 1)
        counted = np.zeros(ids.size, dtype=np.bool_)
        counted[part.first : part.stop] = True
        going_on = counted & stream.going_on
        self._moments += int(going_on.sum())
        if plan.next_token:
            self._add_orders(ids, stream, going_on)
        if plan.near is not None:
            beside = positions_beside(stream, plan.near)
            counted &= beside > 0
            self._positions += int(counted.sum())
            slots = plan.rows[1][ids], plan.befores[1][ids]
            counted &= slots[0] >= 0
            np.add.at(sums["centers"], (beside[counted] - 1, slots[0][counted]), 1)
            add_near(sums["near"], stream, beside, counted, slots)

    def _add_orders(self, ids: np.ndarray, stream: TokenStream, going_on: np.ndarray) -> None:
        plan, sums = self.plan, self._sums
        slots = plan.rows[1][ids]
        asked = going_on & (slots >= 0)
        places = np.flatnonzero(asked)
        a, v = slots[places], plan.nexts[1][ids[places + 1]]
        np.add.at(sums["seen"], a, 1)
        kept = v >= 0
        rows = a[kept] * plan.nexts[0].size + v[kept]
        np.add.at(sums["followed"].reshape(-1), rows, 1)
        if plan.presence is None:
            return
        reach = presence_reach(ids, stream, None if plan.presence == "prefix" else plan.presence)
        np.add.at(sums["presences"], a, different_before(reach)[places])
        if plan.befores[0].size:
            asked[places[~kept]] = False
            add_presence(sums["presence"].reshape(-1, plan.befores[0].size), rows, asked, plan.befores[1][ids], reach)
        places = places[kept]
        if plan.probes is not None:
            columns = (signs_before(probe[ids], reach)[places] for probe in plan.probes)
            add_columns(sums["sketch"].reshape(-1, len(plan.probes)), rows, columns)
        if plan.pairs is not None:
            columns = (pair_signs_before(first[ids], second[ids], reach)[places] for first, second in plan.pairs)
            add_columns(sums["pair_sketch"].reshape(-1, len(plan.pairs)), rows, columns)

    def merge(self, counts: StreamCounts | PackedCounts) -> None:
        """Add the counts of other parts.

        Raises:
            InputError: they follow another plan.
        """
        packed = counts if isinstance(counts, PackedCounts) else pack_counts(counts)
        if packed.fingerprint != self.plan.fingerprint:
            raise InputError("counts of two plans do not add up; expected the same vocabulary, tokens, windows and probes")
        self._moments += packed.numbers[0]
        self._positions += packed.numbers[1]
        self._longest = max(self._longest, packed.numbers[2])
        for name, (places, numbers) in packed.cells.items():
            flat = self._sums[name].reshape(-1)
            # No place is there twice.
            flat[slice(None) if places is None else places] += numbers

    def counts(self) -> StreamCounts:
        """The counts so far; they share their arrays with the tally, which is done with."""
        return StreamCounts(self.plan, self._moments, self._positions, self._longest, **self._sums)


def count_parts(parts: Iterable[StreamPart], plan: CountPlan) -> StreamCounts:
    """Count parts of a stream, one after the other.

    Args:
        parts: each token in one of them; each with what its counts need around it.
        plan: what is counted.

    Example:
        >>> found = count_parts([whole(TokenStream(np.array([1, 2, 1, 0]), vocabulary=3, end=0))], CountPlan(vocabulary=3))
        >>> found.followed.tolist(), found.tokens.tolist(), found.moments
        ([[0, 0, 0], [1, 0, 1], [0, 1, 0]], [1, 2, 1], 3)
    """
    tally = StreamTally(plan)
    for part in parts:
        tally.add(part)
    return tally.counts()


def check_filled(counts: StreamCounts) -> None:
    """Raise InputError where no document has two tokens, or none is as long as a window of the plan; of tokens alone, never."""
    plan = counts.plan
    if not plan.next_token and plan.near is None:
        return
    if not counts.moments:
        raise InputError("none of the documents has two tokens; expected one with a next token: check where documents end")
    if counts.longest < plan.before:
        raise short_of(plan.before, counts.longest)


def whole(stream: TokenStream) -> StreamPart:
    """All of a stream as one part."""
    return StreamPart(stream, 0, stream.ids.size)
