"""Train small networks whose staircase is known, and say which orders of signatures their embeddings learned, and when."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.core.staircase_records import SeedStairsRecord, StaircaseReport, StaircaseSettings, StaircaseThresholds, series_of
from normwise.core.strict import shown
from normwise.training.staircase_figures import LEARNED, STAIR, StairMeter, stairs_by_seed
from normwise.training.staircase_language import LanguageRun
from normwise.training.staircase_maps import token_maps
from normwise.training.staircase_models import StairInit, attention_net, feed_forward_net
from normwise.training.staircase_tasks import StairTask, addition_task, modular_task, parity_task
from normwise.training.staircase_training import StairRun, train_stairs
from normwise.workflows.staircase_page import page_place, write_page
from normwise.workflows.staircase_parts import (
    beyond_order_0,
    integrity_of,
    predicted_stair,
    seed_records,
    spreads,
    stair_records,
    token_groups,
)
from normwise.workflows.staircase_text import VOCABULARY, text_staircase
from normwise.workflows.staircase_verdict import OWN, SHARE, verdict_of

TASKS = ("mod", "add", "parity", "text")
OPTIMIZERS = ("sgd", "adam")
# Five folds with three tokens in each.
_LEAST_VALUES, _MOST_VALUES = 15, 200
_WIDTH, _CHECKPOINTS, _BETWEEN = 128, 60, 5
_FIRST_SEED, _FEW_SEEDS = 100, 5
_WARMUP = LanguageRun().warmup
_PARITY_IDS, _PARITY_SAMPLES = 61, 2_000
# Copies of E and U, and the logits of one step, in values: about 2 GB each.
_MOST_COPIED, _MOST_LOGITS = 500_000_000, 100_000_000


@dataclass(frozen=True)
class _Asked:
    """Checked arguments, with the defaults of the task in place of None."""

    task: str
    modulus: int | None
    vocabulary: int
    gamma: float
    seeds: int
    optimizer: Literal["sgd", "adam"]
    learning_rate: float
    steps: int

    @property
    def checkpoints(self) -> list[int]:
        """Equal distances, so that none of them looks like a gap, and the last step."""
        return [*range(0, self.steps, math.ceil(self.steps / _CHECKPOINTS)), self.steps]


def staircase_demo(
    task: str = "mod",
    *,
    modulus: int | None = None,
    vocabulary: int | None = None,
    gamma: float = 0.8,
    seeds: int | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    optimizer: str | None = None,
    corpus: str | Path | Sequence[str | Path] | None = None,
    report: str | Path | None = None,
    overwrite: bool = False,
    told: Callable[[str], None] | None = None,
) -> StaircaseReport:
    """Train some seeds of a small network, and say when their embeddings learned signatures of order 0 and 1, and when the task.

    Args:
        task: "mod", y = (x_1 + x_2 + 1) mod N; "add", y = x_1 + x_2, both feed-forward; "parity" of one anchor in eight tokens, two
            labels, one layer of attention; or "text", the next word of real text, a decoder of two layers.
        modulus: N of mod, number of values of add, 15 to 200; None = 20. Parity has none.
        vocabulary: V, ids that there are, which are the outputs of mod and add; None = 81, 61 for parity, 4,096 words of text.
        gamma: entries of E and U are N(0, 128^(-2 gamma)), above 0 to 3.
        seeds: networks, 2 to 100: seeds 100, 101, ..; None = ten, five of text. A verdict over fewer than five is a hint.
        steps: updates, on the whole law, or of text on 16 windows of 64 words; 10 to 100,000; None = 600, 200 for parity with Adam.
        learning_rate: above 0; None = 1 with sgd, .001 with adam, .002 for text.
        optimizer: "sgd" or "adam"; None = adam for parity and sgd otherwise. Text has AdamW.
        corpus: of text: .txt or .md files; None = docstrings of what is installed.
        report: where to write the HTML page; None writes none.
        overwrite: replace an earlier page at `report`.
        told: gets lines on the progress.

    Returns:
        The report. Its series are means over the seeds; a stair is a figure .5 above its null at two checkpoints in a row (.1 of text,
        whose signatures are noisy), a task is learned at an accuracy of .95, and a verdict needs eight seeds of ten.

    Raises:
        InputError: an argument of another type or out of its range, or of another task.
        WorkError: a loss that is no longer finite.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315, for tasks and networks; figures, nulls and the zeroth stair's condition are ours.

    Example:
        >>> found = staircase_demo("mod", modulus=15, vocabulary=15, seeds=2, steps=20)
        >>> found.verdict.label, found.predicted.exists
        ('no-zeroth-stair', False)
    """
    start = time.monotonic()
    if task != "text" and corpus is not None:
        raise InputError(f"corpus is of task text, and the task is {shown(task)}: leave corpus out, or take task text")
    asked = _checked(task, modulus, vocabulary, gamma=gamma, seeds=seeds, steps=steps, learning_rate=learning_rate, optimizer=optimizer)
    page = page_place(report, overwrite=overwrite)
    found = _run_text(asked, corpus, told=told) if asked.task == "text" else _run(asked, _task_of(asked))
    return write_page(found.model_copy(update={"seconds": time.monotonic() - start}), page)


def _run(asked: _Asked, task: StairTask) -> StaircaseReport:
    names = tuple(range(_FIRST_SEED, _FIRST_SEED + asked.seeds))
    init = StairInit(names, width=_WIDTH, gamma=asked.gamma)
    parity = task.anchors is not None
    _refuse_unheld(asked, task)
    model = attention_net(task.law, init) if parity else feed_forward_net(task.law, init)
    run = StairRun(asked.steps, asked.checkpoints, optimizer=asked.optimizer, learning_rate=asked.learning_rate)
    series = train_stairs(model, task, run, seeds=names)
    figures = StairMeter(task, probed=not parity).figures(series)
    stairs = stairs_by_seed(series, figures)
    rows = seed_records(stairs)
    plain = asked.learning_rate if asked.optimizer == "sgd" else None
    predicted = predicted_stair(task, init_scale=init.scale(), learning_rate=plain)
    apart = figures.rule == "pearson"
    beyond = beyond_order_0(task, series, places=_places(series.steps, rows)) if apart else ()
    tokens = token_groups(task, series)
    before = tuple(row for row in beyond if row.step <= _middle(rows, "task", asked.steps))
    settings = StaircaseSettings(
        task=asked.task,
        modulus=asked.modulus,
        vocabulary=task.law.vocabulary,
        labels=task.law.labels_known,
        model="one layer of attention" if parity else "feed-forward, ReLU",
        width=_WIDTH,
        gamma=asked.gamma,
        optimizer=asked.optimizer,
        learning_rate=asked.learning_rate,
        steps=asked.steps,
        seeds=names,
    )
    return StaircaseReport(
        verdict=verdict_of(rows, predicted, beyond=before, tokens=tokens, last_step=asked.steps),
        steps=tuple(int(step) for step in series.steps),
        loss=series_of(series.loss.mean(axis=0)),
        accuracy=series_of(series.accuracy.mean(axis=0)),
        alignment={str(order): series_of(figures.alignment[order].mean(axis=0)) for order in (0, 1)},
        null={str(order): series_of(figures.null[order].mean(axis=0)) for order in (0, 1)},
        spread=spreads(series, figures),
        rule=figures.rule,
        stairs=stair_records(series, figures, stairs),
        stairs_by_seed=rows,
        integrity=integrity_of(series.steps, series.embedding),
        predicted=predicted,
        maps=token_maps(
            series.steps, series.embedding[0][:, task.seen], [str(token) for token in task.seen], _map_places(series.steps, rows)
        ),
        beyond_order_0=beyond,
        tokens=tokens,
        thresholds=StaircaseThresholds(rise=STAIR.threshold, stays=STAIR.stays, learned=LEARNED, share=SHARE, own=OWN),
        settings=settings,
        source=f"{task.name}, {task.law.vocabulary} ids, {task.law.labels_known} outputs; {settings.model}",
        notes=_notes(asked, figures.rule),
    )


def _run_text(asked: _Asked, corpus: str | Path | Sequence[str | Path] | None, *, told: Callable[[str], None] | None) -> StaircaseReport:
    run = LanguageRun(steps=asked.steps, learning_rate=asked.learning_rate, gamma=asked.gamma, warmup=min(_WARMUP, asked.steps))
    names = tuple(range(_FIRST_SEED, _FIRST_SEED + asked.seeds))
    return text_staircase(corpus, run, seeds=names, vocabulary=asked.vocabulary, told=told)


def _notes(asked: _Asked, rule: str) -> tuple[str, ...]:
    notes = []
    if asked.seeds < _FEW_SEEDS:
        notes.append(f"{asked.seeds} seeds: seeds differ, and a verdict over fewer than {_FEW_SEEDS} is a hint")
    if rule == "one minus mse":
        notes.append("all signatures of order 0 are equal: its figure is 1 - mean (1 - cosine)^2, and its null that of the init")
    if asked.task == "parity":
        notes.append(
            f"order 1 is not probed: the anchor alone decides the label, so that signatures of order 1 repeat those of order 0; "
            f"{_PARITY_SAMPLES:,} sequences are drawn, the same for all seeds"
        )
    return tuple(notes)


def _task_of(asked: _Asked) -> StairTask:
    if asked.modulus is None:
        return parity_task(samples=_PARITY_SAMPLES, seed=0, vocabulary=asked.vocabulary, outputs=2)
    make = modular_task if asked.task == "mod" else addition_task
    return make(asked.modulus, vocabulary=asked.vocabulary)


def _places(steps: np.ndarray, rows: Sequence[SeedStairsRecord]) -> list[int]:
    """Every fifth checkpoint, and those where order 1 rises and where the task is learned in the middle seed."""
    places = {*range(0, len(steps), _BETWEEN), len(steps) - 1}
    places |= {int(np.searchsorted(steps, _middle(rows, name, int(steps[-1])))) for name in ("order_1", "task")}
    return sorted(places)


def _map_places(steps: np.ndarray, rows: Sequence[SeedStairsRecord]) -> list[int]:
    """The init, the onsets of the first seed, whose maps are drawn, and the last checkpoint."""
    places = {0, len(steps) - 1}
    onsets = (rows[0].order_0, rows[0].order_1, rows[0].task)
    return sorted(places | {int(np.searchsorted(steps, onset)) for onset in onsets if onset is not None})


def _middle(rows: Sequence[SeedStairsRecord], name: str, last: int) -> int:
    """Onset of the middle seed, `last` for those that have none."""
    onsets = sorted(last if getattr(row, name) is None else getattr(row, name) for row in rows)
    return onsets[len(onsets) // 2]


def _checked(
    task: Any,
    modulus: Any,
    vocabulary: Any,
    *,
    gamma: Any,
    seeds: Any,
    steps: Any,
    learning_rate: Any,
    optimizer: Any,
) -> _Asked:
    if not isinstance(task, str) or task not in TASKS:
        raise InputError(f"task is {shown(task)}; expected {', '.join(TASKS)}")
    if task == "text":
        return _checked_text(modulus, vocabulary, gamma=gamma, seeds=seeds, steps=steps, learning_rate=learning_rate, optimizer=optimizer)
    parity = task == "parity"
    if optimizer is None:
        optimizer = "adam" if parity else "sgd"
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer is {shown(optimizer)}; expected sgd or adam")
    if parity and modulus is not None:
        raise InputError(f"modulus is {shown(modulus)} and the task parity, which has none: leave modulus out, or take task mod or add")
    size = None if parity else _whole("modulus", 20 if modulus is None else modulus, _LEAST_VALUES, _MOST_VALUES)
    least, why = _least_ids(task, size)
    ids = _whole("vocabulary", (_PARITY_IDS if parity else max(81, least)) if vocabulary is None else vocabulary, 1, 10_000)
    if ids < least:
        raise InputError(f"vocabulary is {ids}; expected at least {least}, {why}")
    adam = optimizer == "adam"
    return _Asked(
        task,
        size,
        ids,
        _number("gamma", gamma, most=3.0),
        _whole("seeds", 10 if seeds is None else seeds, 2, 100),
        "adam" if adam else "sgd",
        _number("learning_rate", (1e-3 if adam else 1.0) if learning_rate is None else learning_rate, most=1e6),
        _whole("steps", (200 if parity and adam else 600) if steps is None else steps, 10, 100_000),
    )


def _checked_text(modulus: Any, vocabulary: Any, *, gamma: Any, seeds: Any, steps: Any, learning_rate: Any, optimizer: Any) -> _Asked:
    if modulus is not None:
        raise InputError(f"modulus is {shown(modulus)} and the task text, which has none: leave modulus out, or take task mod or add")
    if optimizer is not None:
        raise InputError(f"optimizer is {shown(optimizer)} and the task text, which has AdamW: leave optimizer out")
    usual = LanguageRun()
    return _Asked(
        "text",
        None,
        _whole("vocabulary", VOCABULARY if vocabulary is None else vocabulary, 200, 100_000),
        _number("gamma", gamma, most=3.0),
        _whole("seeds", _FEW_SEEDS if seeds is None else seeds, 2, 100),
        "adam",
        _number("learning_rate", usual.learning_rate if learning_rate is None else learning_rate, most=1e6),
        _whole("steps", usual.steps if steps is None else steps, 10, 100_000),
    )


def _least_ids(task: str, size: int | None) -> tuple[int, str]:
    if size is None:
        return _PARITY_IDS, "the ids of anchors (11..20) and noise (21..60)"
    if task == "mod":
        return size, f"the values 0..{size - 1}"
    return 2 * size - 1, f"the sums 0..{2 * size - 2}, which are ids, too"


def _refuse_unheld(asked: _Asked, task: StairTask) -> None:
    ids, rows = task.law.vocabulary + task.law.labels_known, len(task.law.labels)
    copied, logits = asked.seeds * len(asked.checkpoints) * ids * _WIDTH, asked.seeds * rows * task.law.labels_known
    if copied > _MOST_COPIED or logits > _MOST_LOGITS:
        raise InputError(
            f"{asked.seeds} seeds of {rows:,} sequences and {task.law.vocabulary:,} ids would not fit in memory; take fewer seeds, "
            "a smaller modulus or a smaller vocabulary"
        )


def _whole(name: str, value: Any, least: int, most: int) -> int:
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if whole is None or not least <= whole <= most:
        raise InputError(f"{name} is {shown(value)}; expected a whole number of {least:,} to {most:,}")
    return whole


def _number(name: str, value: Any, *, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < value <= most:  # pyright: ignore[reportOperatorIssue]
        raise InputError(f"{name} is {shown(value)}; expected a number above 0, {most:g} at most")
    return float(value)
