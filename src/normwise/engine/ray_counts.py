"""Shards counted on a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from normwise.core.errors import InputError, MissingExtraError, WorkError
from normwise.data.token_shards import TokenShard
from normwise.engine.shard_counts import Group, checked, count_shards, died
from normwise.theory.stream_counts import StreamTally

# Seconds that a cluster's first node has to answer.
_PATIENCE = 10.0


def on_ray(
    shards: Sequence[TokenShard], tally: StreamTally, groups: Sequence[Group], *, workers: int | None, address: str | None
) -> Generator[Group, None, None]:
    """Count groups as tasks of one core each and merge what comes back; yields each group when it is in.

    A task that is lost with its node is done again elsewhere, up to three times. Files must stand at the same paths on every node.

    Args:
        shards: all of them.
        tally: takes the counts.
        groups: numbers of the shards of each task.
        workers: tasks at once; None takes the cores of the cluster.
        address: of the cluster; None takes the one this process is in, or that RAY_ADDRESS names, or starts one on this machine.

    Raises:
        InputError: as `TokenShard.parts`, or no cluster answers.
        WorkError: a task died over and over.
        MissingExtraError: Ray is not installed.
    """
    ray = _ray()
    with _cluster(ray, address):
        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            raise InputError("the Ray cluster has no core to count on: start a node with one")
        most, task = workers or cores, ray.remote(num_cpus=1, max_retries=3)(count_shards)
        plan = ray.put(tally.plan)
        waiting, running = list(reversed(groups)), dict[Any, Group]()
        try:
            while waiting or running:
                while waiting and len(running) <= most:
                    group = waiting.pop()
                    running[task.remote([shards[number] for number in group], plan)] = group
                done, _ = ray.wait(list(running), num_returns=1)
                tally.merge(checked(ray.get(done[0])))
                yield running.pop(done[0])
        except ray.exceptions.RayTaskError as error:
            raise WorkError(f"a task of Ray failed: {error.cause!r}; every node needs the same normwise and its libraries") from error
        except ray.exceptions.RayError as error:
            raise died(f"a task of Ray ({type(error).__name__})") from error
        finally:
            for left in running:
                ray.cancel(left)


@contextmanager
def _cluster(ray: Any, address: str | None) -> Iterator[None]:
    """The cluster that this process is in already, else one that is joined, or started, and left at the end."""
    if ray.is_initialized():
        yield
        return
    named = address or os.environ.get("RAY_ADDRESS")
    _refuse_silent(named)
    # Ray would tell its makers of every cluster that it starts.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    settings: dict[str, Any] = {"address": named} if named else {"address": "local", "include_dashboard": False}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"Ray: no cluster at {named or 'this machine'}: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_silent(address: str | None) -> None:
    """Raise InputError where nothing listens at HOST:PORT, for which Ray itself waits for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"Ray: no cluster at {address}: {error}; expected the HOST:PORT that `ray start` told") from None


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", extra="ray") from None
    return ray
