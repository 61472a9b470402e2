"""One pass over the shards of token files: here, in many processes or on Ray, with the same counts bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.data.token_files import TokenFiles
from normwise.engine.counting_progress import CountingProgress
from normwise.engine.processes import available_cores
from normwise.engine.ray_counts import on_ray
from normwise.engine.shard_counts import Group, in_processes, in_this_process
from normwise.theory.sequence_law import top_tokens
from normwise.theory.stream_counts import CountPlan, StreamCounts, StreamTally, check_filled

# Shards that one task counts before its counts, which may be large, are sent and merged.
_MOST_OF_GROUP = 16


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Where shards are counted, and what is kept in between; no count depends on it.

    Args:
        engine: "local", this machine, or "ray", a cluster.
        workers: processes, or tasks of Ray, at once; None takes all cores that there are. One local worker is this process; more are
            spawned, for which a script needs its `if __name__ == "__main__"`.
        folder: where progress is kept; None keeps none.
        resume: go on with the count in the folder, started with the same sources and plan, by whichever engine.
        overwrite: throw away what the folder holds.
        save_every: shards between two times that progress is saved; what was counted since is lost with a kill.
        address: of the Ray cluster; None takes the one that this process is in, or RAY_ADDRESS, or starts one on this machine.

    Raises:
        InputError: a number is below 1, or a setting fits no other.
    """

    engine: Literal["local", "ray"] = "local"
    workers: int | None = None
    folder: Path | None = None
    resume: bool = False
    overwrite: bool = False
    save_every: int = 64
    address: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise InputError(f"engine is {self.engine!r}; expected 'local' or 'ray'")
        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers is {self.workers}; expected at least 1, or None for all cores")
        if self.save_every < 1:
            raise InputError(f"save_every is {self.save_every}; expected at least 1 shard")
        if self.folder is None and (self.resume or self.overwrite):
            raise InputError("resume and overwrite are about a progress folder, and none is given: name one as folder")
        if self.address is not None and self.engine != "ray":
            raise InputError(f"address {self.address!r} is of a Ray cluster, and the engine is 'local': take engine 'ray', or leave it out")


def count_tokens(
    files: TokenFiles, plan: CountPlan, counting: Counting | None = None, *, told: Callable[[int, int], None] | None = None
) -> StreamCounts:
    """Count token files.

    Memory: the counts (8 bytes for each number of the plan), twice for each worker and three times here, and about 100 bytes for each
    token of a shard.

    Args:
        files: the sources.
        plan: what is counted; of the same vocabulary.
        counting: where, and what is kept in between; None counts on all cores and keeps nothing.
        told: gets the number of shards that are counted, and of all, whenever some more are.

    Returns:
        The counts, the same bit for bit for every engine, number of workers, size of shards, and after a kill.

    Raises:
        InputError: vocabularies differ, a source is bad or changed, no document has two tokens or fills the window, or the progress
            folder does not fit.
        WorkError: a process died, or the disk refused.
        MissingExtraError: the engine is "ray", and Ray is not installed.

    Example:
        >>> import tempfile
        >>> from normwise.data.token_files import TokenReading, open_token_files
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/ids.npy", np.array([1, 2, 1, 0, 2, 1], dtype=np.uint16))
        ...     files = open_token_files(f"{folder}/*.npy", TokenReading(vocabulary=3, end=0))
        ...     count_tokens(files, CountPlan(vocabulary=3), Counting(workers=1)).followed.tolist()
        [[0, 0, 0], [1, 0, 1], [0, 2, 0]]
    """
    counting = counting or Counting()
    if files.vocabulary != plan.vocabulary:
        raise InputError(f"the plan has a vocabulary of {plan.vocabulary:,}, the files {files.vocabulary:,}; expected the same")
    progress = None
    if counting.folder is not None:
        progress = CountingProgress(counting.folder, files, plan, resume=counting.resume, overwrite=counting.overwrite)
    done = np.zeros(len(files.shards), dtype=np.bool_) if progress is None else progress.done
    tally = StreamTally(plan)
    if progress is not None and progress.counts is not None:
        tally.merge(progress.counts)
    if not done.all():
        _count_rest(files, tally, counting, done=done, progress=progress, told=told)
    elif progress is not None:
        # A kill may have come between the last counts and the mark.
        progress.close()
    counts = tally.counts()
    check_filled(counts)
    return counts


def most_frequent_tokens(
    files: TokenFiles, keep: int, counting: Counting | None = None, *, told: Callable[[int, int], None] | None = None
) -> np.ndarray:
    """Find the most frequent tokens, in a pass that counts nothing else: those that get a place on a large vocabulary.

    Args:
        files: the sources.
        keep: how many.
        counting: as `count_tokens`; with a progress folder of its own.
        told: as `count_tokens`.

    Returns:
        (keep,) ids, the most frequent first; of equals, the lower id.

    Raises:
        InputError: fewer tokens are ever seen, or as `count_tokens`.
    """
    counts = count_tokens(files, CountPlan(vocabulary=files.vocabulary, next_token=False), counting, told=told).tokens
    return top_tokens(counts / max(1, counts.sum()), keep)


def _count_rest(
    files: TokenFiles,
    tally: StreamTally,
    counting: Counting,
    *,
    done: np.ndarray,
    progress: CountingProgress | None,
    told: Callable[[int, int], None] | None,
) -> None:
    """Count the shards that are not done, marking them, and save in between and at the end."""
    if progress is not None:
        progress.start()
    unsaved = 0
    # Closed at once where saving or telling fails: processes do not wait for the garbage collector.
    with closing(_counted_groups(files, tally, counting, np.flatnonzero(~done))) as groups:
        for group in groups:
            done[list(group)] = True
            unsaved += len(group)
            if progress is not None and unsaved >= counting.save_every and not done.all():
                progress.save(tally.counts())
                unsaved = 0
            if told is not None:
                told(int(done.sum()), done.size)
    files.refuse_changed()
    if progress is not None:
        progress.save(tally.counts())
        progress.close()


def _counted_groups(files: TokenFiles, tally: StreamTally, counting: Counting, left: np.ndarray) -> Generator[Group, None, None]:
    on_cores = counting.workers or available_cores()
    size = min(_MOST_OF_GROUP, counting.save_every, max(1, left.size // (4 * on_cores)))
    groups = [left[start : start + size].tolist() for start in range(0, left.size, size)]
    if counting.engine == "ray":
        return on_ray(files.shards, tally, groups, workers=counting.workers, address=counting.address)
    workers = min(on_cores, len(groups))
    return in_this_process(files.shards, tally, groups) if workers == 1 else in_processes(files.shards, tally, groups, workers)
