"""What is counted in a stream, and the arrays that the counts take."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.sequence_law import kept_ids
from normwise.theory.signatures import check_size

_WAY_OUT = "name fewer tokens in of, targets or contexts, or take fewer probes or pairs"


@dataclass(frozen=True, eq=False, kw_only=True)
class CountPlan:
    """What is counted.

    Args:
        vocabulary: V.
        of: (A,) tokens a that get a row; None for all V. On a large vocabulary, the most frequent: `sequence_law.top_tokens`.
        targets: (C,) next tokens v that get a place; None for all V.
        contexts: (B,) tokens b that get a place; None for all V. None at all, `np.arange(0)`, makes no array of presences: they are
            sketched only.
        next_token: whether next tokens are counted, the order 0.
        presence: order 1, which tokens b are there before a: a number of tokens is a window, "prefix" all of the document; None
            counts none.
        near: co-occurrence, which tokens stand at most so many positions away, on either side; None counts none.
        probes: (R, V) numbers of -1, 0 or 1; the presences of ALL tokens of the vocabulary are added up with each as weights.
            None for no sketch.
        pairs: (R, 2, V) numbers of -1, 0 or 1, R pairs of probes; the presences of all ordered pairs of different tokens are added up,
            with the product of the first probe at one and the second at the other as weights. None for no such sketch, of order 2.

    Raises:
        InputError: an id is out of range or twice there, a window is below 1, probes or pairs have another shape or other numbers,
            presence, near, probes or pairs stand without what they need, or the numbers are more than `signatures.MOST_VALUES`.
    """

    vocabulary: int
    of: np.ndarray | None = None
    targets: np.ndarray | None = None
    contexts: np.ndarray | None = None
    next_token: bool = True
    presence: int | Literal["prefix"] | None = None
    near: int | None = None
    probes: np.ndarray | None = None
    pairs: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.presence is not None and self.presence != "prefix" and self.presence < 1:
            raise InputError(f"presence is {self.presence}; expected at least 1 token, 'prefix', or None to count none")
        if self.near is not None and self.near < 1:
            raise InputError(f"near is {self.near}; expected at least 1 position, or None to count none")
        if self.presence is not None and not self.next_token:
            raise InputError("presence is counted for pairs of a token and the next one; expected next_token with it")
        self._check_probes("probes", self.probes, ())
        self._check_probes("pairs", self.pairs, (2,))
        if not self.befores[0].size:
            self._check_without_contexts()
        for shape in self.shapes.values():
            check_size(shape, _WAY_OUT)

    def _check_probes(self, name: str, probes: np.ndarray | None, inner: tuple[int, ...]) -> None:
        if probes is None:
            return
        if self.presence is None:
            raise InputError(f"{name} sketch presences; expected presence with them: a window or 'prefix'")
        if probes.shape[1:] != (*inner, self.vocabulary) or not len(probes):
            expected = ", ".join(str(size) for size in (*inner, self.vocabulary))
            raise InputError(f"{name} have shape {probes.shape}; expected (R, {expected}), R at least 1")
        if not np.isin(probes, (-1, 0, 1)).all():
            raise InputError(f"{name} hold other numbers than -1, 0 and 1; expected these: sums stay whole numbers")

    def _check_without_contexts(self) -> None:
        if self.near is not None:
            raise InputError("contexts hold no token, and near counts those that have a place; expected one or more, or None for all")
        if self.presence is not None and self.probes is None and self.pairs is None:
            raise InputError("contexts hold no token, and nothing sketches presences; expected probes or pairs, or contexts to count")

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(A,) the tokens with a row, and (V,) the row of each token, -1 without one."""
        return kept_ids("of", self.of, self.vocabulary)

    @cached_property
    def nexts(self) -> tuple[np.ndarray, np.ndarray]:
        """(C,) the next tokens with a place, and (V,) the place of each token."""
        return kept_ids("targets", self.targets, self.vocabulary)

    @cached_property
    def befores(self) -> tuple[np.ndarray, np.ndarray]:
        """(B,) the contexts with a place, and (V,) the place of each token."""
        if self.contexts is not None and self.contexts.shape == (0,):
            return np.zeros(0, dtype=np.int64), np.full(self.vocabulary, -1)
        return kept_ids("contexts", self.contexts, self.vocabulary)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array of counts."""
        a, c, b = self.rows[0].size, self.nexts[0].size, self.befores[0].size
        sides = 2 * (self.near or 0)
        return {
            "tokens": (self.vocabulary,),
            "seen": (a,) if self.next_token else (0,),
            "followed": (a, c) if self.next_token else (0, 0),
            "presence": (0, 0, 0) if self.presence is None else (a, c, b),
            "presences": (0,) if self.presence is None else (a,),
            "sketch": (0, 0, 0) if self.probes is None else (a, c, len(self.probes)),
            "pair_sketch": (0, 0, 0) if self.pairs is None else (a, c, len(self.pairs)),
            "near": (sides, a, b) if sides else (0, 0, 0),
            "centers": (sides, a) if sides else (0, 0),
        }

    @property
    def needs_prefix(self) -> bool:
        """Whether the counts of a part need to know which tokens stand before it, however far back in its document."""
        return self.presence == "prefix"

    @property
    def before(self) -> int:
        """Tokens before a part that its counts need."""
        return max(0 if self.presence is None or self.presence == "prefix" else self.presence, self.near or 0)

    @property
    def after(self) -> int:
        """Tokens behind a part that its counts need."""
        return max(1, self.near or 0)

    @property
    def widest(self) -> int:
        """Tokens of a document that fill every window; at least 2."""
        return max(2, self.before)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides the counts."""
        digest = hashlib.sha256(repr((self.vocabulary, self.next_token, self.presence, self.near)).encode())
        for ids in (self.rows[0], self.nexts[0], self.befores[0]):
            digest.update(repr(ids.shape).encode() + ids.tobytes())
        for signs in (self.probes, self.pairs):
            digest.update(b"none" if signs is None else repr(signs.shape).encode() + signs.astype(np.int8).tobytes())
        return digest.hexdigest()
