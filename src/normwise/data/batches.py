"""Batch plans as index arrays: which training pairs stand together in which step, decided by seed and epoch alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.data.sets import TrainingPairs, is_skewed, repeated_share

_TRIED = 64  # batches with room that a row may move to: keeps the search linear where one negative stands in most rows

PlanKind = Literal["no_duplicates", "random"]


@dataclass(frozen=True)
class BatchPlan:
    """The batches of a fixed number of steps.

    Args:
        kind: `no_duplicates` or `random`.
        reason: why this kind, in words.
        batches: one array of training rows per step.
        epochs: how many epochs were begun.
        rows: training rows in all.
        left_out: rows that stood in no batch, for each epoch that was begun (rows cut off by the last step not counted).
    """

    kind: PlanKind
    reason: str
    batches: tuple[np.ndarray, ...]
    epochs: int
    rows: int
    left_out: tuple[int, ...]

    @property
    def words(self) -> str:
        """One sentence for logs and pages."""
        worst = max(self.left_out, default=0)
        return f"{self.kind} batches ({self.reason}); at most {worst} of {self.rows} rows left out in an epoch"


def random_batches(positives: np.ndarray, *, batch_size: int, seed: int, epoch: int, other_negatives: bool = False) -> list[np.ndarray]:
    """Cut a random order of all rows into batches; repeated positives are for the loss to mask.

    A tail of one row joins the batch before it, and a batch whose rows all share one positive exchanges a row with
    another batch, so that no query is without a negative. Every row stands in exactly one batch, unless one positive
    is so frequent that no row is left to exchange: such batches are left out.

    Args:
        positives: (n,), int; the positive of each row.
        batch_size: rows per batch, at least 1 (at least 2 without `other_negatives`).
        seed: of the run.
        epoch: 0, 1, ...; each has its own order.
        other_negatives: every query has negatives from elsewhere (explicit or uniform), so one positive per batch is fine.

    Returns:
        Arrays of rows; n minus the summed lengths is the number of rows left out.

    Raises:
        InputError: no batch without a query that has no negative exists.

    Example:
        >>> [len(rows) for rows in random_batches(np.arange(7), batch_size=3, seed=0, epoch=0)]
        [3, 4]
    """
    _check(positives, batch_size, other_negatives=other_negatives)
    order = np.random.default_rng([seed, epoch, 11]).permutation(len(positives))
    starts = list(range(0, len(order), batch_size))
    if len(order) % batch_size == 1 and len(starts) > 1 and batch_size > 1:
        starts.pop()
    batches = [rows.copy() for rows in np.split(order, starts[1:])]
    if not other_negatives:
        _mix_single_positives(batches, positives)
        batches = [rows for rows in batches if (positives[rows] != positives[rows[0]]).any()]
    return batches


def _mix_single_positives(batches: list[np.ndarray], positives: np.ndarray) -> None:
    for place, batch in enumerate(batches):
        mine = positives[batch]
        if (mine != mine[0]).any():
            continue
        for step in range(1, len(batches)):
            other = batches[(place + step) % len(batches)]
            give = _may_give(positives[other], mine[0])
            if give is not None:
                batch[-1], other[give] = other[give], batch[-1]
                break


def _may_give(theirs: np.ndarray, wanted_not: int) -> int | None:
    """A row whose positive is another and whose batch still has two positives (or gains one) after the exchange."""
    rows = np.flatnonzero(theirs != wanted_not)
    if len(rows) == 0:
        return None
    give = int(rows[-1])
    left = np.delete(theirs, give)
    return give if len(left) and (left != wanted_not).any() else None


def no_duplicate_batches(
    positives: np.ndarray, *, batch_size: int, seed: int, epoch: int, negatives: Sequence[Sequence[int]] | None = None
) -> list[np.ndarray]:
    """Deal rows into batches in which no candidate, positive or explicit negative, stands twice.

    Rows are dealt like cards: grouped by positive in a random order, row j goes to batch j mod T, so the c <= T rows
    of one positive fall into c batches. Where c > T the surplus is left out of this epoch, drawn afresh in each. Rows whose
    explicit negatives collide are moved to a batch with room, or to batches of their own; a row that fits nowhere, or
    would stand alone, is left out. n minus the summed lengths is the number of rows left out.

    Args:
        positives: (n,), int.
        batch_size: at most this many rows per batch, at least 2.
        seed: of the run.
        epoch: 0, 1, ...
        negatives: explicit negatives of each row, ragged, numbered like `positives`.

    Returns:
        Arrays of rows, each of 2..batch_size rows.

    Raises:
        InputError: all rows share one positive.

    Example:
        >>> batches = no_duplicate_batches(np.array([0, 0, 1, 1, 2, 3]), batch_size=3, seed=0, epoch=0)
        >>> [len({[0, 0, 1, 1, 2, 3][row] for row in rows}) for rows in batches]
        [3, 3]
    """
    _check(positives, batch_size, other_negatives=False)
    rng = np.random.default_rng([seed, epoch, 13])
    order, count = _dealt_order(positives, batch_size, rng)
    batches = [order[start::count] for start in range(count)]
    if negatives is not None and any(len(rows) for rows in negatives):
        batches = _without_collisions(batches, positives, negatives, batch_size)
    batches = [rng.permutation(rows) for rows in batches if len(rows) > 1]
    return [batches[place] for place in rng.permutation(len(batches))]


def _dealt_order(positives: np.ndarray, batch_size: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Rows grouped by positive (groups and members in random order), surplus left out, and the number of batches."""
    _, groups, sizes = np.unique(positives, return_inverse=True, return_counts=True)
    group_rank = rng.permutation(len(sizes))
    shuffled = rng.permutation(len(positives))
    order = shuffled[np.argsort(group_rank[groups[shuffled]], kind="stable")]
    ranks = group_rank[groups[order]]
    first = np.r_[0, np.flatnonzero(np.diff(ranks)) + 1]
    copy = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))
    count = -(-len(order) // batch_size)
    while True:
        needed = -(-int(np.minimum(sizes, count).sum()) // batch_size)
        if needed >= count:
            break
        count = needed
    return order[copy < count], count


def _without_collisions(
    batches: list[np.ndarray], positives: np.ndarray, negatives: Sequence[Sequence[int]], batch_size: int
) -> list[np.ndarray]:
    held: list[set[int]] = []
    kept: list[list[int]] = []
    pending: list[int] = []
    for batch in batches:
        keys: set[int] = set()
        rows: list[int] = []
        for row in batch.tolist():
            mine = {int(positives[row]), *negatives[row]}
            if keys.isdisjoint(mine):
                keys |= mine
                rows.append(row)
            else:
                pending.append(row)
        held.append(keys)
        kept.append(rows)
    room = [place for place, rows in enumerate(kept) if len(rows) < batch_size]
    for row in pending:
        mine = {int(positives[row]), *negatives[row]}
        place = next((place for place in room[-_TRIED:] if held[place].isdisjoint(mine)), None)
        if place is None:
            place = len(kept)
            kept.append([])
            held.append(set())
            room.append(place)
        kept[place].append(row)
        held[place] |= mine
        if len(kept[place]) == batch_size:
            room.remove(place)
    return [np.asarray(rows, dtype=np.int64) for rows in kept]


def _check(positives: np.ndarray, batch_size: int, *, other_negatives: bool) -> None:
    if positives.ndim != 1 or len(positives) == 0:
        raise InputError(f"positives must be a non-empty one-dimensional array, got shape {positives.shape}")
    smallest = 1 if other_negatives else 2
    if batch_size < smallest:
        raise InputError(f"batch_size must be at least {smallest}, got {batch_size}: a query needs another row as its negative")
    if not other_negatives and (positives == positives[0]).all():
        raise InputError(f"all {len(positives)} rows share one positive, so no query has a negative: add pairs with other positives")


def choose_plan(
    train: TrainingPairs, *, batch_size: int, steps: int, seed: int, other_negatives: bool = False, kind: PlanKind | None = None
) -> BatchPlan:
    """Plan a fixed number of steps over as many epochs as they need.

    The plan is a pure function of its arguments, so a resumed run skips the batches it has done. No-duplicate batches
    where positives hardly repeat; random ones where they do (there a no-duplicate plan would leave out the head of
    the popularity distribution) or where the most frequent positive cannot be spread over the batches of an epoch.

    Args:
        train: the pairs.
        batch_size: rows per batch.
        steps: how many batches.
        seed: of the run.
        other_negatives: every query has negatives from elsewhere: explicit ones for every row, or uniform draws.
        kind: forces a kind; None chooses.

    Returns:
        The plan with its reason.

    Raises:
        InputError: a query would have no negative; `steps` below 1.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    chosen, reason = (kind, "asked for") if kind is not None else _choose(train, batch_size)

    def deal(epoch: int) -> list[np.ndarray]:
        return _epoch(train, chosen, batch_size=batch_size, seed=seed, epoch=epoch, other_negatives=other_negatives)

    return _planned(deal, steps=steps, kind=chosen, reason=reason, rows=len(train))


def _planned(deal: Callable[[int], list[np.ndarray]], *, steps: int, kind: PlanKind, reason: str, rows: int) -> BatchPlan:
    """As many epochs of batches as the steps need."""
    batches: list[np.ndarray] = []
    left_out: list[int] = []
    while len(batches) < steps:
        more = deal(len(left_out))
        left_out.append(rows - sum(map(len, more)))
        batches += more
    return BatchPlan(kind=kind, reason=reason, batches=tuple(batches[:steps]), epochs=len(left_out), rows=rows, left_out=tuple(left_out))


def _epoch(train: TrainingPairs, kind: PlanKind, *, batch_size: int, seed: int, epoch: int, other_negatives: bool) -> list[np.ndarray]:
    if kind == "random" or batch_size == 1:
        return random_batches(train.positives, batch_size=batch_size, seed=seed, epoch=epoch, other_negatives=other_negatives)
    return no_duplicate_batches(train.positives, batch_size=batch_size, seed=seed, epoch=epoch, negatives=train.negatives)


def choose_plan_by_task(train: TrainingPairs, *, batch_size: int, steps: int, seed: int, other_negatives: bool = False) -> BatchPlan:
    """Plan batches of one task each, in an order drawn anew for each epoch; tasks come as often as their rows ask for.

    Args:
        train: pairs that have tasks, or not: then this is `choose_plan`.
        batch_size: rows per batch.
        steps: how many batches.
        seed: of the run.
        other_negatives: as in `choose_plan`.

    Returns:
        The plan; its kind is that of the largest task.

    Raises:
        InputError: a task of which no query would have a negative; `steps` below 1.
    """
    if not train.tasks:
        return choose_plan(train, batch_size=batch_size, steps=steps, seed=seed, other_negatives=other_negatives)
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    names = np.asarray(train.tasks)
    rows = {task: np.flatnonzero(names == task) for task in sorted(set(train.tasks))}
    parts = {task: train.subset(mine) for task, mine in rows.items()}
    kinds: dict[str, PlanKind] = {task: _choose(part, batch_size)[0] for task, part in parts.items()}

    def deal(epoch: int) -> list[np.ndarray]:
        more: list[np.ndarray] = []
        for task, part in parts.items():
            try:
                found = _epoch(part, kinds[task], batch_size=batch_size, seed=seed, epoch=epoch, other_negatives=other_negatives)
            except InputError as error:
                raise InputError(f"task {task!r}: {error}") from None
            more += [rows[task][batch] for batch in found]
        return [more[place] for place in np.random.default_rng([seed, epoch, 17]).permutation(len(more))]

    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(kinds.values()).items()))
    reason = f"of one task each, {len(rows)} tasks: {counts}; the loss masks what is double"
    largest = max(rows, key=lambda task: len(rows[task]))
    return _planned(deal, steps=steps, kind=kinds[largest], reason=reason, rows=len(train))


def _choose(train: TrainingPairs, batch_size: int) -> tuple[PlanKind, str]:
    share = repeated_share(train.positives)
    if batch_size == 1:
        return "random", "batches of one row hold no duplicates"
    if is_skewed(train.positives):
        return "random", f"{share:.0%} of rows repeat a positive; the loss masks duplicates"
    explicit = np.fromiter((row for rows in train.negatives for row in set(rows)), dtype=np.int64)
    most = int(np.bincount(np.r_[train.positives, explicit]).max())
    count = -(-len(train) // batch_size)
    if most > count:
        return "random", f"one candidate stands in {most} rows for {count} batches; the loss masks duplicates"
    return "no_duplicates", f"{share:.0%} of rows repeat a positive"
