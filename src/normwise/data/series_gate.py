"""Before any curve is drawn: whether the checkpoints of a series are what their steps say, by their embedding tables alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.data.checkpoint_series import Checkpoint
from normwise.data.table_digests import NARROW, Narrow, TableDigest, fits
from normwise.theory.series_integrity import SharedCoordinates, find_disorder, find_exchanges, find_gaps, shared_coordinates

Pairs = tuple[tuple[int, int], ...]

# Rows of all tables at once; the few of each table stay in a processor's cache while they are rounded and hashed.
_BLOCK_VALUES = 1 << 21
_TABLE_VALUES = 1 << 17
# Coordinates are those of every column in each row: some thousand rows say as much as all.
_COORDINATE_ROWS = 2_048
# Below that score two tables have nothing in common (1 of 740 of another seed has more), where the reach says that it would show.
_RELATED = 3.0
_REACH = 6.0
# Below that share of their norms, a squared distance from products is computed anew.
_UNCLEAR = 1e-9
# Back within that part of how far it was away.
_RETURN = 1e-3
_SHOWN = 8
# Several trainings at once: more are not told apart.
_TRAININGS = 8


@dataclass(frozen=True)
class SeriesCheck:
    """What a series of checkpoints is not refused for.

    Args:
        duplicates: pairs of steps with equal tables; none, since those are refused.
        gaps: neighboring steps between which others are missing.
        jumps: neighboring steps between which the table moved out of proportion.
        notes: what they mean, in sentences.
    """

    duplicates: Pairs = ()
    gaps: Pairs = ()
    jumps: Pairs = ()
    notes: tuple[str, ...] = ()


def check_series(series: Sequence[Checkpoint]) -> SeriesCheck:
    """Refuse a series with copies, with tables of another training, or out of order.

    Every table is read once, all of them side by side, and some rows of each once more. Copies are equal values, or values equal to
    another's after rounding to float32, float16 or bfloat16. Tables of one training have coordinates in common, and distances that grow
    with the steps between them. Two fine-tunings of one model share theirs: such a stranger shows by its distances alone.

    Args:
        series: by ascending step, tables of one shape.

    Returns:
        Gaps and jumps, which are no reason to refuse.

    Raises:
        InputError: fewer than 2 checkpoints; a value that is not finite; copies, or what is nearly one; checkpoints of another training,
            exchanged, or that do not lie between their neighbors. The message names them and the steps to leave out.
    """
    if len(series) < 2:
        raise InputError(f"a series of {len(series)} checkpoint has no order to check; expected at least 2")
    digests, distances = _read(series)
    _refuse_copies(series, digests)
    _refuse_returns(series, distances)
    notes = [*_refuse_strangers(series), *_stillness(series, distances)]
    exchanged = find_exchanges(distances)
    if exchanged:
        _refuse_exchanged(series, distances, exchanged)
    steps = np.array([each.step for each in series])
    found = find_disorder(steps, np.diagonal(distances, 1), np.diagonal(distances, 2))
    if found.outliers:
        _refuse_outliers(series, distances, found.outliers)
    gaps = find_gaps(steps)
    jumps = tuple((int(steps[a]), int(steps[b])) for a, b in found.breaks)
    doubtful = [(int(steps[a]), int(steps[b])) for a, b in sorted(found.swapped + found.doubtful)]
    speed = np.diagonal(distances, 1) / np.diff(steps)
    notes += [f"between steps {a} and {b} checkpoints seem to be missing: what happens there is told no better than that" for a, b in gaps]
    for (at, _), (a, b) in zip(found.breaks, jumps, strict=True):
        times = speed[at] / max(speed[at - 1], speed[at + 1])
        notes.append(
            f"from step {a} to {b} the table moves {times:.0f} times as far a step as before and after: a training that began anew, "
            "a spike of the loss or another learning rate looks like this"
        )
    for a, b in doubtful:
        notes.append(
            f"steps {a} and {b} may stand in each other's place: exchanged, they are closer to the rest; a learning rate that fell or rose "
            "there, or a swing of the loss, looks like this, too"
        )
    return SeriesCheck(gaps=gaps, jumps=jumps, notes=tuple(notes))


def _read(series: Sequence[Checkpoint]) -> tuple[list[TableDigest], np.ndarray]:
    """Hashes of the tables, and their distances (T, T), in one pass over all of them side by side."""
    (count, width), size = series[0].rows.shape, len(series)
    step = max(1, min(_TABLE_VALUES, _BLOCK_VALUES // size) // width)
    kinds = _kinds_to_round(series, step)
    digests = [TableDigest((count, width), kinds) for _ in series]
    gram, near, over = np.zeros((size, size)), np.zeros(size - 1), np.zeros(max(0, size - 2))
    for low in range(0, count, step):
        high = min(low + step, count)
        rows = np.empty((size, (high - low) * width))
        for at, each in enumerate(series):
            block = each.block(low, high)
            digests[at].update(block)
            rows[at] = block.ravel()
        near += ((rows[1:] - rows[:-1]) ** 2).sum(axis=1)
        over += ((rows[2:] - rows[:-2]) ** 2).sum(axis=1)
        # Less the mean, so that little is lost where tables hardly differ.
        rows -= rows.mean(axis=0)
        gram += rows @ rows.T
    norms = np.diagonal(gram)[:, None] + np.diagonal(gram)
    squares = np.maximum(norms - 2.0 * gram, 0.0)
    for apart, exact in ((1, near), (2, over)):
        at = np.arange(max(0, size - apart))
        squares[at, at + apart] = squares[at + apart, at] = exact[: at.size]
    # The rest is a difference of large numbers, of which nothing is left where two tables are nearly equal.
    unclear = np.argwhere(np.triu(squares < _UNCLEAR * norms, 3))
    if unclear.size:
        a, b = unclear.T
        squares[a, b] = squares[b, a] = _squares(series, unclear, step)
    np.fill_diagonal(squares, 0.0)
    return digests, np.sqrt(squares)


def _squares(series: Sequence[Checkpoint], pairs: np.ndarray, step: int) -> np.ndarray:
    """Squared distances of some pairs (P, 2) of tables, from one more pass over these."""
    used, count = np.unique(pairs).tolist(), series[0].rows.shape[0]
    found = np.zeros(len(pairs))
    for low in range(0, count, step):
        blocks = {at: series[at].block(low, min(low + step, count)).astype(np.float64) for at in used}
        found += [float(((blocks[a] - blocks[b]) ** 2).sum()) for a, b in pairs.tolist()]
    return found


def _kinds_to_round(series: Sequence[Checkpoint], step: int) -> tuple[Narrow, ...]:
    """Types that some table may have been rounded to: without any, rounding is saved."""
    first = [each.block(0, min(step, each.rows.shape[0])) for each in series]
    return tuple(kind for kind in NARROW if any(fits(block, kind) for block in first))


def _refuse_copies(series: Sequence[Checkpoint], digests: Sequence[TableDigest]) -> None:
    groups: list[set[int]] = []
    kinds: dict[int, set[Narrow]] = {}
    by_hash: dict[tuple[Narrow | None, str], list[int]] = {}
    for at, digest in enumerate(digests):
        by_hash.setdefault((None, digest.exact), []).append(at)
        for kind in digest.kinds:
            narrow = digest.narrow(kind)
            if narrow is not None and not digest.zero:
                by_hash.setdefault((kind, narrow), []).append(at)
    for (kind, _), members in by_hash.items():
        # Two tables that become one by rounding are near, and no copies, unless one of them is the rounded one.
        if len(members) < 2 or (kind is not None and not any(digests[at].fits(kind) for at in members)):
            continue
        merged = set(members).union(*(group for group in groups if group & set(members)))
        if merged in groups:
            continue
        groups = [group for group in groups if not group & merged] + [merged]
        if kind is not None:
            for at in merged:
                kinds.setdefault(at, set()).add(kind)
    if groups:
        raise InputError(_copies_message(series, [sorted(group) for group in sorted(groups, key=min)], kinds))


def _refuse_returns(series: Sequence[Checkpoint], distances: np.ndarray) -> None:
    """Refuse a table that comes back to an earlier one after it was elsewhere: a copy of which a row or some digits were changed.

    A training whose rate falls to 0 stays where it is, and does not come back; one with noise comes back to no point in many dimensions.
    """
    found = []
    for a in range(len(series) - 2):
        away = np.maximum.accumulate(distances[a, a + 1 :])
        found += [(a, a + 2 + int(gap)) for gap in np.flatnonzero(distances[a, a + 2 :] < _RETURN * away[:-1])]
    if not found:
        return
    told = [
        f"steps {series[a].step} ({series[a].name}) and {series[b].step} ({series[b].name}) are {distances[a, b]:.2g} apart, and "
        f"{distances[a, a + 1 : b].max():.2g} lies between them"
        for a, b in found[:_SHOWN]
    ]
    more = f"; and {len(found) - _SHOWN} more pairs" if len(found) > _SHOWN else ""
    left_out = sorted({a for a, _ in found})
    raise InputError(
        f"{series[0].path.parent}: {'; '.join(told)}{more}. No training comes back to a table that nearly: one is a copy of the other of "
        f"which little was changed. Fetch them again, or pass the earlier ones over with --leave-out {_listed(series, left_out)}"
    )


def _stillness(series: Sequence[Checkpoint], distances: np.ndarray) -> list[str]:
    """Notes on neighbors that are nearly equal though the tables beside them move on."""
    near = np.diagonal(distances, 1)
    usual = float(np.median(near))
    notes = []
    for at in range(near.size):
        beside = [near[other] for other in (at - 1, at + 1) if 0 <= other < near.size]
        if beside and near[at] < _RETURN * min(*beside, usual):
            notes.append(
                f"steps {series[at].step} and {series[at + 1].step} are nearly one table ({near[at]:.2g} apart, {usual:.2g} is usual): "
                "one may be a copy of the other of which little was changed"
            )
    return notes


def _copies_message(series: Sequence[Checkpoint], groups: Sequence[Sequence[int]], kinds: dict[int, set[Narrow]]) -> str:
    told = []
    for group in groups[:_SHOWN]:
        rounding = sorted(set().union(*(kinds.get(at, set()) for at in group)))
        told.append(f"{_steps(series, group)} hold one table" + (f" (up to rounding to {' or '.join(rounding)})" if rounding else ""))
    more = f"; and {len(groups) - _SHOWN} more such groups" if len(groups) > _SHOWN else ""
    where = f"{series[0].path.parent}: {'; '.join(told)}{more}."
    if len(groups) == 1 and len(groups[0]) == len(series):
        return (
            f"{where} All {len(series)} checkpoints are copies: the embedding was frozen, or one step was saved under every name. There is "
            "no training of it to follow; fetch them again, or give a training whose embedding moves"
        )
    left_out = ",".join(str(series[at].step) for group in groups for at in group[:-1])
    return (
        f"{where} A step then serves another step's weights, as in public releases whose steps mostly hold the last ones, or nothing "
        "moved between them: the embedding was frozen, the learning rate 0, or steps finer than the type. No curve goes through "
        f"copies: fetch them again, or keep one of each group, the last with --leave-out {left_out}; which one is true the tables do not "
        "say: if the one that was kept then stands out of order, keep another"
    )


def _refuse_strangers(series: Sequence[Checkpoint]) -> list[str]:
    """Sort the tables by the coordinates that they share with the last of those before, and refuse all but the largest sort.

    Of two tables alone a note is returned: heavy weight decay forgets an init, too, and no third table says that it did not.
    """
    count, width = series[0].rows.shape
    if width < 2:
        return []
    chosen = np.unique(np.linspace(0, count - 1, min(count, _COORDINATE_ROWS)).round().astype(np.int64))
    trainings: list[list[int]] = []
    last: list[np.ndarray] = []
    worst = np.inf
    for at, each in enumerate(series):
        table = each.rows[chosen].astype(np.float64)
        shared = [shared_coordinates(other, table) for other in last]
        home = _home(shared, [training[-1] for training in trainings])
        if home is None:
            worst = min([worst, *(each.score for each in shared)]) if shared else worst
            trainings.append([at])
            last.append(table)
            if len(trainings) > _TRAININGS:
                break
        else:
            trainings[home].append(at)
            last[home] = table
    if len(trainings) < 2:
        return []
    if len(series) == 2:
        return [
            f"the coordinates of steps {series[0].step} and {series[1].step} have nothing in common: they are of two trainings, or weight "
            "decay left nothing of the first; a checkpoint between them would tell"
        ]
    # The largest is the training; of two equal ones, that with the last checkpoint.
    own = max(trainings, key=lambda training: (len(training), training[-1]))
    others = sorted(at for training in trainings if training is not own for at in training)
    told = (
        f"{series[0].path.parent}: the coordinates of {_steps(series, others)} have nothing in common with those of {_steps(series, own)} "
        f"(a score of {worst:.1f}, where tables of two trainings have about 0 and those of one {_RELATED:.0f} or more): they are of "
        "another training, such as one with another seed, or the embedding began anew"
    )
    if len(own) < 2:
        raise InputError(f"{told}. Give checkpoints of one training")
    raise InputError(f"{told}. Put the right ones in their place, or pass them over with --leave-out {_listed(series, others)}")


def _home(shared: Sequence[SharedCoordinates], ends: Sequence[int]) -> int | None:
    """Which of the trainings a table goes on with: the most alike, else the latest of those of which nothing can be told."""
    related = [at for at, each in enumerate(shared) if each.score >= _RELATED]
    if related:
        return max(related, key=lambda at: shared[at].score)
    unclear = [at for at, each in enumerate(shared) if each.reach < _REACH]
    return max(unclear, key=lambda at: ends[at]) if unclear else None


def _refuse_exchanged(series: Sequence[Checkpoint], distances: np.ndarray, pairs: Pairs) -> None:
    told = []
    for a, b in pairs[:_SHOWN]:
        order = list(range(len(series)))
        before = _beside(distances, order, a, b)
        order[a], order[b] = b, a
        after = _beside(distances, order, a, b)
        told.append(
            f"steps {series[a].step} ({series[a].name}) and {series[b].step} ({series[b].name}) look exchanged: from their neighbors they "
            f"lie {before[0]:.3g} and {before[1]:.3g} away on average, and {after[1]:.3g} and {after[0]:.3g} in each other's place"
        )
    more = f"; and {len(pairs) - _SHOWN} more pairs" if len(pairs) > _SHOWN else ""
    raise InputError(
        f"{series[0].path.parent}: {'; '.join(told)}{more}. Give them each other's names, if they were mixed up; if it was a swing of the "
        "loss, pass them over with "
        f"--leave-out {_listed(series, sorted(at for pair in pairs for at in pair))}"
    )


def _beside(distances: np.ndarray, order: Sequence[int], *places: int) -> list[float]:
    """Mean distance of the tables at some places of an order to those beside them."""
    return [float(np.mean([distances[order[at], order[other]] for other in (at - 1, at + 1) if 0 <= other < len(order)])) for at in places]


def _refuse_outliers(series: Sequence[Checkpoint], distances: np.ndarray, outliers: Sequence[int]) -> None:
    told = [
        f"step {series[at].step} ({series[at].name}) does not lie between its neighbors: it is {distances[at - 1, at]:.3g} from step "
        f"{series[at - 1].step} and {distances[at, at + 1]:.3g} from step {series[at + 1].step}, which are "
        f"{distances[at - 1, at + 1]:.3g} from each other"
        for at in outliers[:_SHOWN]
    ]
    more = f"; and {len(outliers) - _SHOWN} more" if len(outliers) > _SHOWN else ""
    raise InputError(
        f"{series[0].path.parent}: {'; '.join(told)}{more}. It may be of another training or another step, or of a moment when the loss "
        f"had a spike: put the right one in its place, or pass it over with --leave-out {_listed(series, outliers)}"
    )


def _steps(series: Sequence[Checkpoint], places: Sequence[int]) -> str:
    """Steps and names, the first few of them."""
    shown = ", ".join(f"{series[at].step} ({series[at].name})" for at in places[:_SHOWN])
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return f"step{'s' if len(places) > 1 else ''} {shown}{more}"


def _listed(series: Sequence[Checkpoint], places: Sequence[int]) -> str:
    return ",".join(str(series[at].step) for at in places)
