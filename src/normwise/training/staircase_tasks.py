"""Small tasks that show the staircase: tables of all sequences with their labels, and two that are drawn or weighed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from normwise.core.errors import InputError
from normwise.theory.sequence_law import SequenceLaw

LabelLaw = Literal["uniform", "normal", "poisson", "exponential"]
# More rows than this make a step of training slow rather than exact; the largest of the literature's tasks has a third of it.
MOST_ROWS = 400_000


@dataclass(frozen=True, eq=False)
class StairTask:
    """A task: its sequences with labels and weights, and which of its tokens are special.

    Args:
        name: in words.
        law: tokens (N, L), labels (N,), vocabulary V, label count Y and weights; signatures are those of this law.
        cycle: (p,) tokens in the order of their values, over which order 1 has frequencies; None where values have no order that counts.
        anchors: ids of the tokens that decide the label; None where all do.
    """

    name: str
    law: SequenceLaw
    cycle: np.ndarray | None = None
    anchors: np.ndarray | None = None

    @property
    def seen(self) -> np.ndarray:
        """Ids of the tokens that occur, in order."""
        return np.unique(self.law.tokens)


def modular_task(
    modulus: int = 20, *, vocabulary: int = 81, tokens: int | None = None, length: int = 2, shift: int = 1, outputs: int | None = None
) -> StairTask:
    """Return modular addition over all sequences: y = (x_1 + .. + x_L + shift) mod N.

    Args:
        modulus: N >= 2.
        vocabulary: V, ids that there are, at least the tokens that occur.
        tokens: values 0.. that x takes; None = N. Others tell how the modulus matters to the same inputs.
        length: L >= 2.
        shift: added to the sum.
        outputs: Y >= N, rows of the unembedding; None = V, since labels are tokens.

    Raises:
        InputError: a size that does not fit, or a table of more than `MOST_ROWS` rows.

    Example:
        >>> task = modular_task(5, vocabulary=9)
        >>> task.law.tokens.shape, task.law.labels[:6].tolist(), task.law.labels_known
        ((25, 2), [1, 2, 3, 4, 0, 2], 9)
    """
    if modulus < 2:
        raise InputError(f"modulus is {modulus}; expected at least 2")
    count = modulus if tokens is None else tokens
    table = _table(count, length)
    return _table_task(f"modular addition, modulus {modulus}", table, (table.sum(axis=1) + shift) % modulus, vocabulary, outputs)


def addition_task(count: int = 20, *, vocabulary: int = 81, length: int = 2, outputs: int | None = None) -> StairTask:
    """Return addition over all sequences of the values 0..N-1: y = x_1 + .. + x_L. See `modular_task`.

    Example:
        >>> addition_task(3, vocabulary=5).law.labels.tolist()
        [0, 1, 2, 1, 2, 3, 2, 3, 4]
    """
    table = _table(count, length)
    return _table_task("addition", table, table.sum(axis=1), vocabulary, outputs)


def difference_task(count: int = 20, *, vocabulary: int = 81, outputs: int | None = None) -> StairTask:
    """Return the absolute difference over all pairs of the values 0..N-1: y = |x_1 - x_2|. See `modular_task`.

    Example:
        >>> difference_task(3, vocabulary=3).law.labels.tolist()
        [0, 1, 2, 1, 0, 1, 2, 1, 0]
    """
    table = _table(count, 2)
    return _table_task("absolute difference", table, np.abs(table[:, 0] - table[:, 1]), vocabulary, outputs)


def product_task(count: int = 20, *, vocabulary: int = 81, length: int = 2, outputs: int | None = None) -> StairTask:
    """Return multiplication over all sequences of the values 0..N-1: y = x_1 x_2 .. x_L; outputs=None is (N - 1)^L + 1 or V, the larger.

    Values have no order that frequencies could see: `cycle` is None.

    Example:
        >>> task = product_task(3, vocabulary=3)
        >>> task.law.labels.tolist(), task.law.labels_known
        ([0, 0, 0, 0, 1, 2, 0, 2, 4], 5)
    """
    table = _table(count, length)
    largest = (count - 1) ** length + 1
    outputs = max(vocabulary, largest) if outputs is None else outputs
    return _table_task("multiplication", table, table.prod(axis=1), vocabulary, outputs, cyclic=False)


def extreme_task(
    which: Literal["min", "max"], count: int = 20, *, vocabulary: int = 81, length: int = 2, outputs: int | None = None
) -> StairTask:
    """Return the least or the largest value of all sequences of 0..N-1; scores of order 0, added up, solve it.

    Example:
        >>> extreme_task("max", 3, vocabulary=3).law.labels.tolist()
        [0, 1, 2, 1, 1, 2, 2, 2, 2]
    """
    table = _table(count, length)
    labels = table.max(axis=1) if which == "max" else table.min(axis=1)
    return _table_task("maximum" if which == "max" else "minimum", table, labels, vocabulary, outputs, cyclic=False)


def parity_task(
    *, samples: int = 10_000, seed: int, length: int = 8, anchors: int = 1, vocabulary: int = 61, outputs: int | None = None
) -> StairTask:
    """Draw sequences of noise with anchors at places of their own: y is the parity of the sum of the anchors.

    Anchors are 11..20, noise 21..60, each drawn uniformly, the places without replacement. One anchor in each sequence makes the label
    a matter of a single token; of two, neither says anything alone.

    Args:
        samples: N >= 1 sequences.
        seed: of the draw.
        length: L.
        anchors: in a sequence, 1..L.
        vocabulary: V >= 61.
        outputs: Y >= 2; None = V. With 2, noise has labels as the softmax says at init, and order 0 moves anchors only.

    Raises:
        InputError: a size that does not fit.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315, for token ranges, length and samples. How many anchors stand in a sequence and
        that the parity is of their sum is our reading.

    Example:
        >>> law = parity_task(samples=4, seed=0).law
        >>> law.tokens.shape, [int(row[row <= 20].sum()) % 2 for row in law.tokens] == law.labels.tolist()
        ((4, 8), True)
    """
    if samples < 1 or not 1 <= anchors <= length:
        raise InputError(f"samples is {samples}, anchors {anchors}, length {length}; expected at least 1 sample and 1..length anchors")
    _check_ids(61, vocabulary)
    random = np.random.default_rng(seed)
    tokens = random.integers(21, 61, size=(samples, length))
    places = random.permuted(np.tile(np.arange(length), (samples, 1)), axis=1)[:, :anchors]
    drawn = random.integers(11, 21, size=places.shape)
    np.put_along_axis(tokens, places, drawn, axis=1)
    law = SequenceLaw(tokens, drawn.sum(axis=1) % 2, vocabulary=vocabulary, label_count=outputs)
    return StairTask("parity of anchors", law, anchors=np.arange(11, 21))


def label_law_task(
    laws: Sequence[LabelLaw] = ("poisson",), *, contexts: int = 51, labels: int = 51, outputs: int | None = None
) -> StairTask:
    """Return pairs of an anchor and a context whose label is drawn from the anchor's own law, as weights of all labels.

    Equations over v = 0..M-1, each divided by its sum: uniform 1; normal N(25, 1) on v - 1/2..v + 1/2; Poisson of mean 10;
    exponential of mean 5 on v..v + 1. Contexts are tokens 0..C-1 and say nothing; anchors are 100, 101, .. in the order of the laws.

    Args:
        laws: one per anchor, at least one.
        contexts: C, 1..100.
        labels: M >= 2.
        outputs: Y >= M; None = V, ids up to the last anchor.

    Raises:
        InputError: a size that does not fit.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315; that 5 is the mean of the exponential law, not its rate, is our reading.

    Example:
        >>> task = label_law_task(("uniform", "poisson"))
        >>> task.law.tokens.shape, task.anchors.tolist(), round(float(task.law.chances.sum()), 6)
        ((5202, 2), [100, 101], 1.0)
    """
    if not laws or not 1 <= contexts <= 100 or labels < 2:
        raise InputError(f"{len(laws)} laws, {contexts} contexts, {labels} labels; expected at least 1 law, 1..100 contexts and 2 labels")
    anchors = 100 + np.arange(len(laws))
    grid = np.stack(np.meshgrid(anchors, np.arange(contexts), np.arange(labels), indexing="ij"), axis=-1).reshape(-1, 3)
    chances = np.stack([_label_law(law, labels) for law in laws])
    law = SequenceLaw(grid[:, :2], grid[:, 2], 100 + len(laws), label_count=outputs, weights=chances[grid[:, 0] - 100, grid[:, 2]])
    return StairTask("label laws of anchors", law, anchors=anchors)


def drawn_task(task: StairTask, samples: int, *, seed: int) -> StairTask:
    """Draw a sample of a task's sequences, each row by its weight, with replacement.

    Example:
        >>> drawn_task(modular_task(5, vocabulary=5), 7, seed=0).law.tokens.shape
        (7, 2)
    """
    if samples < 1:
        raise InputError(f"samples is {samples}; expected at least 1")
    rows = np.random.default_rng(seed).choice(len(task.law.labels), size=samples, p=task.law.chances)
    law = SequenceLaw(task.law.tokens[rows], task.law.labels[rows], task.law.vocabulary, task.law.label_count)
    return StairTask(task.name, law, task.cycle, task.anchors)


def without_order(law: SequenceLaw) -> SequenceLaw:
    """Return a law with the tokens of each sequence sorted and equal rows joined: all that a network of sums of tokens can see.

    Example:
        >>> found = without_order(addition_task(3, vocabulary=5).law)
        >>> found.tokens.tolist()[1], round(float(found.chances[1]), 3)
        ([0, 1], 0.222)
    """
    rows = np.concatenate([np.sort(law.tokens, axis=1), law.labels[:, None]], axis=1)
    distinct, places = np.unique(rows, axis=0, return_inverse=True)
    weights = np.bincount(places.ravel(), weights=law.chances)
    return SequenceLaw(distinct[:, :-1], distinct[:, -1], law.vocabulary, law.label_count, weights)


def _table(count: int, length: int) -> np.ndarray:
    """All sequences of the values 0..count-1."""
    if count < 2 or length < 2:
        raise InputError(f"there are {count} values and sequences are of length {length}; expected at least 2 of each")
    if length * math.log(count) > math.log(MOST_ROWS):
        raise InputError(f"{count}^{length} sequences are above {MOST_ROWS:,}, the most that are enumerated; take fewer values")
    return np.array(list(itertools.product(range(count), repeat=length)))


def _table_task(
    name: str, table: np.ndarray, labels: np.ndarray, vocabulary: int, outputs: int | None, *, cyclic: bool = True
) -> StairTask:
    count = int(table.max()) + 1
    _check_ids(count, vocabulary)
    largest, known = int(labels.max()) + 1, vocabulary if outputs is None else outputs
    if known < largest:
        raise InputError(f"labels go up to {largest - 1} and there are {known} outputs; expected at least {largest}: raise outputs")
    law = SequenceLaw(table, labels, vocabulary=vocabulary, label_count=known)
    return StairTask(name, law, cycle=np.arange(count) if cyclic and count > 2 else None)


def _check_ids(needed: int, vocabulary: int) -> None:
    if vocabulary < needed:
        raise InputError(f"vocabulary is {vocabulary}; expected at least {needed}, the ids that occur")


def _label_law(law: LabelLaw, labels: int) -> np.ndarray:
    v = np.arange(labels)
    of: dict[str, Callable[[], np.ndarray]] = {
        "uniform": lambda: np.ones(labels),
        "normal": lambda: np.diff(stats.norm(25.0, 1.0).cdf(np.arange(labels + 1) - 0.5)),
        "poisson": lambda: stats.poisson.pmf(v, 10.0),
        "exponential": lambda: np.diff(stats.expon(scale=5.0).cdf(np.arange(labels + 1))),
    }
    if law not in of:
        raise InputError(f"laws holds {law!r}; expected {', '.join(of)}")
    found = np.asarray(of[law]())
    return found / found.sum()
