"""Parts of a report on the staircase: means over seeds, stairs, integrity, prediction, what order 1 adds, groups of tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import pdist, squareform

from normwise.core.staircase_records import (
    BeyondOrderZero,
    PredictedStair,
    SeedStairsRecord,
    Series,
    SeriesIntegrity,
    StairRecord,
    TokenGroup,
    series_of,
)
from normwise.theory.alignment import cosine_gram
from normwise.theory.early_phase import EarlyPhase
from normwise.theory.fourier_probes import fourier_grams
from normwise.theory.incremental_alignment import incremental_r2
from normwise.theory.sequence_law import token_frequency
from normwise.theory.series_integrity import find_disorder, find_exchanges, find_gaps
from normwise.theory.signatures import label_signature
from normwise.theory.stairs import find_stair
from normwise.theory.token_pairs import usual_folds
from normwise.theory.zeroth_stair import NoZerothStair, zeroth_stair
from normwise.training.stair_track import stair_record
from normwise.training.staircase_figures import STAIR, SeedStairs, StairFigures
from normwise.training.staircase_tasks import StairTask
from normwise.training.staircase_training import StairSeries

_ROUNDING = 1e-12


def spreads(series: StairSeries, figures: StairFigures) -> dict[str, Series]:
    """Standard deviations over seeds at every checkpoint."""
    rows = {"loss": series.loss, "accuracy": series.accuracy, "alignment_0": figures.alignment[0], "alignment_1": figures.alignment[1]}
    return {name: series_of(values.std(axis=0, ddof=1)) for name, values in rows.items()}


def stair_records(series: StairSeries, figures: StairFigures, seeds: Sequence[SeedStairs]) -> tuple[StairRecord, ...]:
    """The stair of each order in the mean series, with the seeds' own onsets."""
    found = []
    for order, own in enumerate(([each.order_0 for each in seeds], [each.order_1 for each in seeds])):
        stair = find_stair(series.steps, figures.alignment[order].mean(axis=0), figures.null[order].mean(axis=0), order=order, rule=STAIR)
        found.append(stair_record(stair, [each.onset for each in own]))
    return tuple(found)


def seed_records(seeds: Sequence[SeedStairs]) -> tuple[SeedStairsRecord, ...]:
    """Onsets of every seed."""
    return tuple(
        SeedStairsRecord(seed=each.seed, order_0=each.order_0.onset, order_1=each.order_1.onset, task=each.task, in_order=each.in_order)
        for each in seeds
    )


def integrity_of(steps: np.ndarray, embedding: np.ndarray) -> SeriesIntegrity:
    """What the copies (S, T, A, d) at steps (T,) say of themselves, joined over seeds."""
    told = [int(step) for step in steps]
    duplicates, jumps = set(), set()
    for copies in embedding:
        first: dict[bytes, int] = {}
        for step, copy in zip(told, copies, strict=True):
            earlier = first.setdefault(hashlib.sha256(copy.tobytes()).digest(), step)
            if earlier != step:
                duplicates.add((earlier, step))
        flat = copies.reshape(len(copies), -1).astype(np.float64)
        apart = squareform(pdist(flat))
        disorder = find_disorder(steps, np.diagonal(apart, 1), np.diagonal(apart, 2))
        outliers = tuple((at - 1, at) for at in disorder.outliers)
        jumps |= {(told[a], told[b]) for a, b in (*find_exchanges(apart), *outliers, *disorder.breaks)}
    return SeriesIntegrity(duplicates=tuple(sorted(duplicates)), gaps=find_gaps(steps), jumps=tuple(sorted(jumps)))


def predicted_stair(task: StairTask, *, init_scale: float, learning_rate: float | None) -> PredictedStair:
    """The order-0 stair before training; learning_rate is None where the optimizer is not plain descent.

    Only the feed-forward network has the closed form: a task with anchors is trained with attention, and gets no time.
    """
    signature, frequency = label_signature(task.law, order=0).values, token_frequency(task.law)
    rate = 1.0 if learning_rate is None else learning_rate
    half, whole = (
        zeroth_stair(EarlyPhase(signature, frequency, task.law.length, slope), init_scale=init_scale, learning_rate=rate)
        for slope in (0.5, 1.0)
    )
    if isinstance(half, NoZerothStair) or isinstance(whole, NoZerothStair):
        reason = half.reason if isinstance(half, NoZerothStair) else ""
        # What rounding leaves of 0 is 0.
        return PredictedStair(exists=False, reason=reason, growth_rate=half.growth_rate if half.growth_rate > _ROUNDING else 0.0)
    if task.anchors is not None:
        return PredictedStair(
            exists=True, reason="labels are not uniform given a token; the closed form of times is of the feed-forward network"
        )
    known = (
        "order 0 tells tokens apart" if half.tells_tokens_apart else "all tokens share one label law: they turn one way, and no two differ"
    )
    if learning_rate is None:
        return PredictedStair(exists=True, reason=f"{known}; steps are predicted for plain descent only", growth_rate=half.growth_rate)
    return PredictedStair(exists=True, reason=known, growth_rate=half.growth_rate, steps=half.steps, steps_at_slope_1=whole.steps)


def beyond_order_0(task: StairTask, series: StairSeries, *, places: Sequence[int]) -> tuple[BeyondOrderZero, ...]:
    """What frequencies of order 1 add to order 0 at some checkpoints; nothing to ask where order 1 has no frequencies."""
    if task.cycle is None:
        return ()
    seen, labels = task.seen, np.unique(task.law.labels)
    zero = cosine_gram(label_signature(task.law, of=seen, targets=labels).values)
    first = label_signature(task.law, order=1, of=seen, contexts=task.cycle, targets=labels).values
    one, folds = fourier_grams(first)[1:], usual_folds(seen.size)
    found = []
    for place in places:
        shares = [
            incremental_r2(cosine_gram(copies[place, seen].astype(np.float64)), [zero, one], folds=folds) for copies in series.embedding
        ]
        means = np.mean([(lower.r2, upper.gain.value, upper.gain.null) for lower, upper in shares], axis=0)
        r2, gain, null = series_of(means)
        found.append(BeyondOrderZero(step=int(series.steps[place]), r2_order_0=r2, gain=gain, null=null))
    return tuple(found)


def token_groups(task: StairTask, series: StairSeries) -> tuple[TokenGroup, ...]:
    """Anchors and the tokens that are none: lengths of their embeddings, and the attention that they get."""
    if task.anchors is None or series.attention is None:
        return ()
    norms = np.linalg.norm(series.embedding.astype(np.float64), axis=3)
    groups = (("anchors", task.anchors), ("noise", np.setdiff1d(task.seen, task.anchors)))
    return tuple(
        TokenGroup(
            name=name,
            norm=series_of(norms[:, :, ids].mean(axis=(0, 2))),
            attention=series_of(series.attention[:, :, ids].mean(axis=(0, 2))),
        )
        for name, ids in groups
    )
