"""Shards counted in this process, or in several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for

from normwise.core.errors import InputError, WorkError
from normwise.data.token_shards import TokenShard
from normwise.theory.stream_counts import CountPlan, PackedCounts, StreamTally, pack_counts

# Numbers of the shards that are counted in one go.
Group = Sequence[int]
_plan: CountPlan | None = None


def count_shards(shards: Sequence[TokenShard], plan: CountPlan) -> PackedCounts | InputError:
    """Count shards; what is wrong with them comes back as a value, which every kind of process hands over unchanged."""
    tally = StreamTally(plan)
    try:
        for shard in shards:
            for part in shard.parts(plan):
                tally.add(part)
    except InputError as error:
        return InputError(str(error))
    return pack_counts(tally.counts())


def in_this_process(shards: Sequence[TokenShard], tally: StreamTally, groups: Sequence[Group]) -> Generator[Group, None, None]:
    """Count groups straight into the tally; yields each when it is in.

    Raises:
        InputError: as `TokenShard.parts`.
    """
    for group in groups:
        for number in group:
            for part in shards[number].parts(tally.plan):
                tally.add(part)
        yield group


def in_processes(shards: Sequence[TokenShard], tally: StreamTally, groups: Sequence[Group], workers: int) -> Generator[Group, None, None]:
    """Count groups in processes of their own and merge what comes back; yields each group when it is in.

    Processes are spawned, not forked: a fork copies locks that threads of this process may hold.

    Raises:
        InputError: as `TokenShard.parts`.
        WorkError: a process died.
    """
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(tally.plan,))
    waiting, running = list(reversed(groups)), dict[Future[PackedCounts | InputError], Group]()
    try:
        while waiting or running:
            # One more than there are processes: none waits for this one, and no more counts are held.
            while waiting and len(running) <= workers:
                group = waiting.pop()
                running[pool.submit(_count, [shards[number] for number in group])] = group
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                tally.merge(checked(future.result()))
                yield running.pop(future)
    except BrokenProcessPool:
        raise died("a counting process") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def checked(found: PackedCounts | InputError) -> PackedCounts:
    """Raise the error that came back in place of counts."""
    if isinstance(found, InputError):
        raise found
    return found


def died(what: str) -> WorkError:
    """The error of a process that ended on its own."""
    return WorkError(
        f"{what} died, most often for lack of memory: give fewer workers or keep fewer tokens; with a progress folder, resume goes on"
    )


def _begin(plan: CountPlan) -> None:
    global _plan
    _plan = plan
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when the one that started it is gone: a killed parent cannot tell its children."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _count(shards: Sequence[TokenShard]) -> PackedCounts | InputError:
    if _plan is None:
        raise WorkError("a counting process was started without a plan")
    return count_shards(shards, _plan)
