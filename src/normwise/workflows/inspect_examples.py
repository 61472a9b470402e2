"""Single contents for the page of a norm report: the shortest, those in the middle and the longest of a modality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normwise.core.modality_records import NormExample, NormExamples
from normwise.data.contents import Content, pictures_of
from normwise.data.sets import Judged
from normwise.data.thumbnails import ThumbnailBudget
from normwise.workflows.shown_contents import shown_words

COUNT = 4


def norm_bands(norms: np.ndarray, *, count: int = COUNT) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the lowest norms (shortest first), of those around the median (upwards) and of the highest (longest first).

    Args:
        norms: (N,) finite.
        count: of each at most; with fewer than 3 `count` rows, a third of them, so that no row is in two.

    Example:
        >>> [rows.tolist() for rows in norm_bands(np.array([5.0, 1.0, 3.0, 2.0, 4.0, 6.0]), count=1)]
        [[1], [2], [5]]
    """
    order = np.argsort(norms, kind="stable")
    size = min(count, order.size // 3)
    middle = (order.size - size) // 2
    return order[:size], order[middle : middle + size], order[::-1][:size]


def belongings(test: Judged) -> dict[int, Content]:
    """For a row of all contents (candidates first, then queries), what judgements put beside it.

    A query has its best-judged candidate, of equal ones the first; a candidate the first query that it is right for.
    """
    found: dict[int, Content] = {}
    for query, relevant in enumerate(test.relevance):
        if relevant:
            best = min(relevant, key=lambda row: (-relevant[row], row))
            found[len(test.corpus) + query] = test.corpus.contents[best]
        for row in relevant:
            found.setdefault(row, test.queries[query])
    return found


def norm_examples(
    contents: Sequence[Content], norms: np.ndarray, *, beside: Sequence[Content | None], budget: ThumbnailBudget
) -> NormExamples | None:
    """Keep a few contents of each end and of the middle.

    Args:
        contents: N, of one modality.
        norms: (N,) of them, finite and above 0.
        beside: N, what belongs to each; None where nothing is known to.
        budget: thumbnails that the page still has room for.

    Returns:
        At most 4 of each; None where there are fewer than three contents.
    """
    before, bands = budget.left_out, norm_bands(norms)
    if not bands[0].size:
        return None
    lowest, middle, highest = (
        tuple(_example(contents[row], float(norms[row]), beside[row], budget) for row in band.tolist()) for band in bands
    )
    return NormExamples(lowest=lowest, middle=middle, highest=highest, left_out=budget.left_out - before)


def _example(content: Content, norm: float, beside: Content | None, budget: ThumbnailBudget) -> NormExample:
    return NormExample(
        norm=norm,
        words=shown_words(content),
        picture=budget.show(content),
        beside="" if beside is None else shown_words(beside),
        beside_picture=None if pictures_of(content) else budget.show(beside),
    )
