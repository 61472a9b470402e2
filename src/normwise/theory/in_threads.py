"""Independent pieces of array work side by side: the results are those of one after the other, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

A = TypeVar("A")
B = TypeVar("B")


def in_threads(work: Callable[[A], B], items: Iterable[A], *, size: int, least: int, most: int = 8) -> list[B]:
    """Apply `work` to every item, in threads where the arrays are large enough to gain from it.

    Args:
        work: a function without side effects.
        items: what it is applied to.
        size: rows that each piece goes through.
        least: below this size a thread costs more than it gains.
        most: threads at once, which bounds the memory that the pieces take together.

    Returns:
        The results in the order of the items. The first exception, in that order, is raised.

    Example:
        >>> in_threads(abs, [-1, 2], size=10, least=5), in_threads(abs, [-1], size=1, least=5)
        ([1, 2], [1])
    """
    listed = list(items)
    workers = min(allowed_threads(), most, len(listed))
    if size < least or workers < 2:
        return [work(item) for item in listed]
    # The threads of the matrix library would fight with these over the same processors.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(work, listed))


def allowed_threads() -> int:
    """How many threads the matrix library takes, which is what OMP_NUM_THREADS and its like set; at least 1."""
    return max((int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"), default=1)
