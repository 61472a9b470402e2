"""Some queries of MMEB's tasks, with the best of their own candidates: what the page of an evaluation shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.records import NearestHits
from normwise.data.contents import modality_of
from normwise.data.mmeb import CandidateTask
from normwise.data.thumbnails import ThumbnailBudget
from normwise.theory.candidate_ranking import RANKINGS
from normwise.theory.search import TopK, exact_top_k
from normwise.workflows.nearest_hits import HITS, drawn_rows, near_hits


@dataclass(frozen=True)
class Ordered:
    """The own candidates of one query under each ranking, best first: rows of the task's corpus with their scores."""

    query: int
    rows: Mapping[str, np.ndarray]
    scores: Mapping[str, np.ndarray]


def drawn_by_task(tasks: Sequence[CandidateTask], *, seed: int) -> list[np.ndarray]:
    """For each task the rows of its queries that the page shows, 6 at most over all tasks; a longer task has more of them on average."""
    ends = np.cumsum([len(task) for task in tasks])
    drawn = drawn_rows(int(ends[-1]), seed=seed)
    starts = ends - [len(task) for task in tasks]
    return [drawn[(drawn >= start) & (drawn < end)] - start for start, end in zip(starts, ends, strict=True)]


def order_candidates(queries: np.ndarray, candidates: np.ndarray, task: CandidateTask, rows: np.ndarray) -> list[Ordered]:
    """Order the own candidates of some queries; of equal scores the right answer comes last, the others by row.

    Args:
        queries: (B, D) vectors of all queries of the task.
        candidates: (N, D) vectors of its corpus.
        task: whose sets are searched.
        rows: which queries.
    """
    found = []
    for query in rows.tolist():
        answer = task.answers[query]
        members = np.asarray([*(row for row in task.candidates[query] if row != answer), answer], dtype=np.int64)
        top: dict[str, TopK] = exact_top_k(queries[query : query + 1], candidates[members], k=members.size, rankings=RANKINGS)
        found.append(Ordered(query, {name: members[one.indices[0]] for name, one in top.items()}, _scores(top)))
    return found


def shown_hits(tasks: Sequence[CandidateTask], ordered: Sequence[Sequence[Ordered]], *, ranking: str, seed: int) -> NearestHits | None:
    """What the page shows of the drawn queries, with one budget of thumbnails for all; None where no task has a picture.

    Args:
        tasks: in the order of the evaluation.
        ordered: for each task its drawn queries.
        ranking: under which the candidates stand.
        seed: by which they were drawn, for the record.
    """
    if all(modality_of(content) == "text" for task in tasks for content in (*task.queries, *task.corpus.contents)):
        return None
    budget = ThumbnailBudget()
    shown = []
    for task, own in zip(tasks, ordered, strict=True):
        for one in own:
            rows, answer = one.rows[ranking].tolist(), task.answers[one.query]
            best = zip(rows[:HITS], one.scores[ranking][:HITS].tolist(), strict=True)
            shown.append(
                near_hits(
                    task.queries[one.query],
                    [(task.corpus.ids[row], task.corpus.contents[row], score, row == answer) for row, score in best],
                    answerable=True,
                    first_right=rows.index(answer) + 1,
                    task=task.name,
                    budget=budget,
                )
            )
    return NearestHits(
        ranking=ranking,
        seed=seed,
        queries=sum(len(task) for task in tasks),
        depth=max(len(members) for task in tasks for members in task.candidates),
        shown=tuple(shown),
        left_out=budget.left_out,
    )


def _scores(top: Mapping[str, TopK]) -> dict[str, np.ndarray]:
    return {name: one.scores[0] for name, one in top.items()}
