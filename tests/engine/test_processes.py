"""Which process this is and how many threads it may use."""

import sys
from types import SimpleNamespace

import pytest

from normwise.core.errors import InputError
from normwise.engine import processes
from normwise.engine.processes import Processes, available_cores, current_processes, torch_threads


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Processes(0, 1, 0)),
        ({"LOCAL_RANK": "0"}, Processes(0, 1, 0)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, Processes(3, 4, 1)),
        ({"RANK": "0", "WORLD_SIZE": "2"}, Processes(0, 2, 0)),
    ],
)
def test_the_place_is_read_from_the_launch(environment, expected):
    assert current_processes(environment) == expected
    assert current_processes(environment).is_main == (expected.rank == 0)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "0"}, "has RANK but not its partner"),
        ({"WORLD_SIZE": "2"}, "has WORLD_SIZE but not its partner"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK 2 must be below WORLD_SIZE 2"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK must be a whole number of at least 0, got '-1'"),
        ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE must be a whole number"),
    ],
)
def test_a_broken_launch_is_named(environment, message):
    with pytest.raises(InputError, match=message):
        current_processes(environment)


def test_a_running_process_group_is_asked_first(monkeypatch):
    group = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 3)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=group))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert current_processes() == Processes(1, 3, 0)
    group.is_initialized = lambda: False
    assert current_processes() == Processes(0, 1, 0)


def test_threads_are_put_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    other, another = before + 1, before + 2
    with torch_threads(other) as count:
        assert count == torch.get_num_threads() == other
    assert torch.get_num_threads() == before
    with pytest.raises(KeyError, match="inside"), torch_threads(another):
        raise KeyError("inside")
    assert torch.get_num_threads() == before


def test_threads_are_shared_among_the_processes_of_a_machine(monkeypatch):
    monkeypatch.setattr(processes, "available_cores", lambda: 8)
    for local_processes, expected in (("1", 8), ("3", 2), ("99", 1)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", local_processes)
        with torch_threads() as count:
            assert count == expected


def test_at_least_one_thread_and_one_core(monkeypatch):
    assert available_cores() >= 1
    with pytest.raises(InputError, match="threads must be at least 1, got 0"), torch_threads(0):
        pytest.fail("the body must not run")
