"""Two evaluations in MMEB's protocol side by side, query by query; and the page of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import write_text
from normwise.core.mmeb_records import OVERALL, MmebBoth, MmebComparison, MmebEvaluation, MmebTask
from normwise.core.records import Interval
from normwise.theory.candidate_ranking import RANKINGS, task_mean_draws
from normwise.theory.claims import span
from normwise.workflows.evaluate import check_report
from normwise.workflows.mmeb_means import groups_of, judge, samples_for

Found = TypeVar("Found", MmebEvaluation, MmebComparison)


def compare_mmeb(
    base: MmebEvaluation,
    trained: MmebEvaluation,
    *,
    base_ranking: str = "cosine",
    trained_ranking: str = "cosine",
    seed: int = 0,
    report: Path | None = None,
) -> MmebComparison:
    """Compare two evaluations query by query: is the trained model better than the base, on what, and by how much.

    Args:
        base: the model before training, or any other.
        trained: the model in question, evaluated on the same tasks and queries.
        base_ranking: "cosine" or "dot": under which ranking the base is read.
        trained_ranking: the same for the trained model; choose it on other data than these.
        seed: of the bootstrap.
        report: where to write the HTML page, which must not exist yet; None writes nothing.

    Returns:
        Differences `trained - base` of P@1 with intervals: overall at 95%; by task and by mean corrected for their number
        (Holm). The verdict is on these two models: that a way of training is better needs several seeds of it.

    Raises:
        InputError: an unknown ranking, or evaluations of different tasks, queries or candidates.
    """
    for ranking in (base_ranking, trained_ranking):
        if ranking not in RANKINGS:
            raise InputError(f"ranking {ranking!r} is unknown: expected {' or '.join(RANKINGS)}")
    check_report(report)
    _check_same(base, trained)
    others = {task.name: task for task in trained.tasks}
    pairs = [(task, others[task.name]) for task in base.tasks]
    values = [np.array([after.first[trained_ranking]]) - np.array([before.first[base_ranking]]) for before, after in pairs]
    clusters = [np.asarray(task.clusters, dtype=np.int64) for task in base.tasks]
    draws = task_mean_draws(values, clusters, seed=seed, samples=samples_for(len(pairs)))[0]
    means = np.array([value.mean() for value in values])
    groups = groups_of([(task.name, task.meta, task.in_domain) for task in base.tasks])
    ranked = (base_ranking, trained_ranking)
    overall = judge({OVERALL: groups.pop(OVERALL)}, means, draws)[OVERALL]
    tasks = judge({task.name: (row,) for row, task in enumerate(base.tasks)}, means, draws)
    said = f"{trained.model} ({trained_ranking}) against {base.model} ({base_ranking})"
    counts = ", ".join(f"{sum(one.verdict == word for one in tasks.values())} {word}" for word in ("better", "worse"))
    found = MmebComparison(
        base=base.model,
        trained=trained.model,
        base_ranking=base_ranking,
        trained_ranking=trained_ranking,
        overall=overall,
        means=judge(groups, means, draws),
        tasks=tasks,
        words=f"{said}: {overall.verdict}, mean P@1 over {len(tasks)} tasks differs by {span(overall.difference)}; of the tasks "
        f"{counts}. This speaks of these two models: a claim about a way of training needs several seeds of it",
        data=trained.data,
        p_at_1={task.name: _both((task,), task.p_at_1, after.p_at_1, ranked) for task, after in pairs},
        mean_p_at_1=_both_means(base, trained, ranked),
        notes=tuple(dict.fromkeys((*base.notes, *trained.notes))),
        nearest=trained.nearest,
    )
    return reported(found, report)


def reported(found: Found, report: Path | None) -> Found:
    """Write the page of a result, where one was asked for, and give the result back.

    Args:
        found: what was measured.
        report: where the page goes, looked at by `check_report` before the work; None writes nothing.
    """
    if report is not None:
        from normwise.report.page import render_mmeb

        write_text(Path(report), render_mmeb(found))
    return found


def _both_means(base: MmebEvaluation, trained: MmebEvaluation, rankings: tuple[str, str]) -> dict[str, MmebBoth]:
    known = {task.name: task for task in base.tasks}
    return {
        name: _both([known[task] for task in mean.tasks], mean.p_at_1, trained.means[name].p_at_1, rankings, meta=False)
        for name, mean in base.means.items()
        if name in trained.means
    }


def _both(
    tasks: Sequence[MmebTask],
    base: Mapping[str, Interval],
    trained: Mapping[str, Interval],
    rankings: tuple[str, str],
    *,
    meta: bool = True,
) -> MmebBoth:
    return MmebBoth(
        base=base[rankings[0]],
        trained=trained[rankings[1]],
        tasks=len(tasks),
        meta=tasks[0].meta if meta else "",
        queries=sum(task.queries for task in tasks),
        candidates=sum(task.candidates for task in tasks),
        chance=float(np.mean([task.chance for task in tasks])),
    )


def _check_same(base: MmebEvaluation, trained: MmebEvaluation) -> None:
    ours, theirs = ({task.name: task for task in one.tasks} for one in (base, trained))
    apart = sorted(ours.keys() ^ theirs.keys())
    if apart:
        raise InputError(
            f"{base.model} and {trained.model} were evaluated on different tasks ({', '.join(apart)}): evaluate both on the same"
        )
    for name, task in ours.items():
        if task.fingerprint != theirs[name].fingerprint:
            came = f"{name}: {base.model} and {trained.model} saw other queries or candidates"
            raise InputError(f"{came}: evaluate both with the same data, limit and seed")
