"""The same counts on a Ray cluster of two nodes, and what is told where there is none."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from counting_world import END, VOCABULARY, opened, plan_of, same, write_ids

from normwise.core.errors import InputError, MissingExtraError, WorkError
from normwise.engine import ray_counts, token_counting
from normwise.engine.token_counting import Counting, count_tokens
from normwise.theory.stream_counts import count_parts, whole
from normwise.theory.token_stream import TokenStream

MIB = 1 << 20


def test_a_missing_ray_is_named_with_its_extra(tmp_path, monkeypatch):
    write_ids(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'ray is not installed; run: pip install "normwise\[ray\]"'):
        count_tokens(opened(tmp_path), plan_of(), Counting(engine="ray"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes of one core each on this machine; nothing of it is told to anybody."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 1, "object_store_memory": 80 * MIB, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=node)
        made.add_node(num_cpus=1, object_store_memory=80 * MIB)
        made.wait_for_nodes()
        yield made
        made.shutdown()


@pytest.fixture
def folder(tmp_path):
    write_ids(tmp_path)
    return tmp_path


@pytest.fixture
def expected(folder):
    stream = TokenStream(np.load(folder / "ids.npy"), vocabulary=VOCABULARY, end=END)
    return count_parts([whole(stream)], plan_of())


def tasks(monkeypatch, make):
    """Put a task of the test in place of the real one; a nested function travels by value, so that nodes need not have this file."""
    monkeypatch.setattr(ray_counts, "count_shards", make(ray_counts.count_shards))


@pytest.mark.slow
def test_two_nodes_make_the_same_counts(cluster, folder, expected, monkeypatch):
    def on_nodes(real):
        def task(shards, plan):
            import ray

            (folder / f"node-{ray.get_runtime_context().get_node_id()}").touch()
            # Each node has one core: while the first task waits here, the next one must go to the other node.
            deadline = time.monotonic() + 60.0
            while len(list(folder.glob("node-*"))) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            return real(shards, plan)

        return task

    tasks(monkeypatch, on_nodes)
    import ray

    assert same(count_tokens(opened(folder, shard_tokens=5), plan_of(), Counting(engine="ray", address=cluster.address)), expected)
    assert not ray.is_initialized()
    assert len(list(folder.glob("node-*"))) == 2


@pytest.mark.slow
def test_a_cluster_that_is_joined_already_is_used_and_left_joined(cluster, folder, expected):
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    try:
        assert same(count_tokens(opened(folder), plan_of(), Counting(engine="ray", workers=1)), expected)
        assert ray.is_initialized()
        ids = np.load(folder / "ids.npy")
        ids[1234] = 99
        np.save(folder / "ids.npy", ids)
        with pytest.raises(InputError, match=r"ids\.npy, token 1234 \(from 0\): id 99; expected ids from 0 to 29"):
            count_tokens(opened(folder), plan_of(), Counting(engine="ray"))
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_a_count_begun_here_goes_on_there(cluster, folder, expected, monkeypatch):
    progress, real = folder / "p", token_counting.in_this_process

    def ended(*given):
        yield from itertools.islice(real(*given), 5)
        raise WorkError("stopped")

    monkeypatch.setattr(token_counting, "in_this_process", ended)
    with pytest.raises(WorkError, match="stopped"):
        count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=progress, save_every=1))
    told = []
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    counting = Counting(engine="ray", folder=progress, resume=True)
    assert same(count_tokens(opened(folder), plan_of(), counting, told=lambda done, total: told.append(done)), expected)
    assert told[0] > 5


@pytest.mark.slow
def test_a_task_that_dies_is_done_again_and_one_that_always_fails_is_told(cluster, folder, expected, monkeypatch):
    def dies_once(real):
        def task(shards, plan):
            mark = folder / "died"
            if not mark.exists():
                mark.touch()
                os._exit(9)
            return real(shards, plan)

        return task

    def fails(real):
        def task(shards, plan):
            raise RuntimeError("no such library")

        return task

    counting = Counting(engine="ray", address=cluster.address)
    with monkeypatch.context() as patched:
        tasks(patched, dies_once)
        assert same(count_tokens(opened(folder), plan_of(), counting), expected)
        assert (folder / "died").exists()
    tasks(monkeypatch, fails)
    with pytest.raises(WorkError, match=r"a task of Ray failed: RuntimeError\('no such library'\); every node needs the same normwise"):
        count_tokens(opened(folder), plan_of(), counting)


@pytest.mark.slow
def test_an_address_where_nothing_answers_is_refused(folder):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=r"Ray: no cluster at 127\.0\.0\.1:1"):
        count_tokens(opened(folder), plan_of(), Counting(engine="ray", address="127.0.0.1:1"))


@pytest.mark.slow
def test_a_cluster_of_this_machine_is_started_and_ended(folder):
    """In a process of its own: Ray loses its way in one that has been in two clusters."""
    pytest.importorskip("ray")
    script = Path(__file__).with_name("counting_world.py")
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, str(script), str(folder), "2", "ray"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
