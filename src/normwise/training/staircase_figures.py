"""What the copies of a run's embeddings say: alignment with signatures of order 0 and 1 next to their nulls, and the stairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.alignment import Rule, SignatureAlignment
from normwise.theory.fourier_probes import FourierAlignment, FourierProbe
from normwise.theory.signature_probes import FittedProbe
from normwise.theory.signatures import label_signature
from normwise.theory.stairs import Stair, StairRule, climbs_in_order, find_stair, task_onset
from normwise.training.staircase_tasks import StairTask
from normwise.training.staircase_training import StairSeries

# Set before the first run: an order has risen where it is .5 above its null at two checkpoints, a task is learned at 95%.
STAIR = StairRule(0.5, stays=2)
LEARNED = 0.95
# Sums of weights are known to a few units of the sixteenth digit.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StairFigures:
    """Figures of a series: S seeds at T checkpoints.

    Args:
        rule: what order 0 is; see `SignatureAlignment`.
        alignment: (2, S, T) figures of order 0 and 1.
        null: (2, S, T) the same of their nulls.
        by_frequency: (S, T, K + 1) correlation of each frequency alone; None where order 1 has no frequencies.
    """

    rule: Rule
    alignment: np.ndarray
    null: np.ndarray
    by_frequency: np.ndarray | None

    @property
    def above_null(self) -> np.ndarray:
        """(2, S, T) figures less their nulls."""
        return self.alignment - self.null


@dataclass(frozen=True)
class SeedStairs:
    """The stairs of one seed, and the step at which the task is learned, None where it is not."""

    seed: int
    order_0: Stair
    order_1: Stair
    task: int | None

    @property
    def in_order(self) -> bool:
        """Whether order 1 rose after order 0 and not after the task, `climbs_in_order`."""
        return climbs_in_order(self.order_0, self.order_1, self.task)


@final
class StairMeter:
    """Signatures of a task, made once; `figures` compares the embeddings of a series with them.

    Order 0 is `SignatureAlignment` over the tokens that occur, beside the init: the first checkpoint of the series. Order 1 is
    `FourierProbe` over the task's cycle; where it has none, `FittedProbe` with one start, hundreds of times as slow; or, not probed,
    `SignatureAlignment` with its null of exactly 0, which is undefined where a label and a context determine the token.

    Args:
        task: gives the law and the cycle.
        probed: whether order 1 is fitted.
        permutations: of the null of order 1.
        seed: of the permutations, and of the starts of a fitted probe.

    Raises:
        InputError: too few tokens occur to hold some out.
    """

    def __init__(self, task: StairTask, *, probed: bool = True, permutations: int = 10, seed: int = 0) -> None:
        self._seen, self._vocabulary = task.seen, task.law.vocabulary
        labels = np.unique(task.law.labels)
        self._order_0 = SignatureAlignment(label_signature(task.law, of=self._seen, targets=labels).values)
        contexts = self._seen if task.cycle is None else task.cycle
        first = label_signature(task.law, order=1, of=self._seen, contexts=contexts, targets=labels).values
        if not probed:
            self._order_1 = SignatureAlignment(first)
        elif task.cycle is None:
            self._order_1 = FittedProbe(first, permutations=permutations, starts=1, seed=seed)
        else:
            self._order_1 = FourierProbe(first, permutations=permutations, seed=seed)

    def figures(self, series: StairSeries) -> StairFigures:
        """Return the figures of every seed at every checkpoint.

        Raises:
            InputError: embeddings of another vocabulary, or a row of zeros.
        """
        if series.embedding.shape[2] != self._vocabulary:
            raise InputError(f"embeddings have {series.embedding.shape[2]} rows; expected {self._vocabulary}, the task's vocabulary")
        rows = series.embedding[:, :, self._seen].astype(np.float64)
        found = np.empty((2, 2, *rows.shape[:2]))
        frequencies = []
        for s, copies in enumerate(rows):
            zero = self._order_0.with_initial(copies[0])
            for t, embedding in enumerate(copies):
                one = self._order_1.at(embedding)
                for order, figure in enumerate((zero.at(embedding).figure, one.figure)):
                    found[:, order, s, t] = figure.value, figure.null
                frequencies += [one.by_frequency] if isinstance(one, FourierAlignment) else []
        by_frequency = np.reshape(frequencies, (*rows.shape[:2], -1)) if frequencies else None
        return StairFigures(self._order_0.rule, found[0], found[1], by_frequency)


def stairs_by_seed(
    series: StairSeries, figures: StairFigures, *, rule: StairRule = STAIR, learned: float = LEARNED
) -> tuple[SeedStairs, ...]:
    """Return the stairs of every seed.

    Args:
        series: steps and accuracy.
        figures: of the same series.
        rule: of both orders.
        learned: accuracy, at this or above which the task is learned.
    """
    found = []
    for s, seed in enumerate(series.seeds):
        zero, one = (find_stair(series.steps, figures.alignment[m, s], figures.null[m, s], order=m, rule=rule) for m in (0, 1))
        found.append(SeedStairs(seed, zero, one, task_onset(series.steps, series.accuracy[s], threshold=learned - _ROUNDING)))
    return tuple(found)
