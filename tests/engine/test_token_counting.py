"""The same counts on one core and in many processes, before and after a kill; progress that does not fit is refused."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from counting_world import END, VOCABULARY, opened, plan_of, same, write_ids

from normwise.core.errors import InputError, WorkError
from normwise.core.files import read_json
from normwise.data import token_arrays
from normwise.engine import shard_counts, token_counting
from normwise.engine.token_counting import Counting, count_tokens, most_frequent_tokens
from normwise.theory.sequence_law import top_tokens
from normwise.theory.stream_counts import StreamTally, count_parts, whole
from normwise.theory.token_stream import TokenStream

HERE = Counting(workers=1)
_MARK = "NORMWISE_TEST_COUNT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("counting")
    write_ids(made)
    return made


@pytest.fixture(scope="module")
def expected(folder):
    """In memory, all in one part."""
    stream = TokenStream(np.load(folder / "ids.npy"), vocabulary=VOCABULARY, end=END)
    return count_parts([whole(stream)], plan_of())


@pytest.fixture
def read(monkeypatch):
    """The shards that are counted in this process, by where they start."""
    seen, parts = [], token_arrays.ArrayShard.parts

    def noted(shard, plan):
        seen.append(shard.start)
        return parts(shard, plan)

    monkeypatch.setattr(token_arrays.ArrayShard, "parts", noted)
    return seen


@pytest.mark.parametrize("size", [3, 50, 10_000])
def test_one_process_makes_the_counts_of_the_whole(folder, expected, size):
    found = []
    assert same(count_tokens(opened(folder, shard_tokens=size), plan_of(), HERE, told=lambda *place: found.append(place)), expected)
    assert found[-1][0] == found[-1][1]
    assert [done for done, _ in found] == sorted({done for done, _ in found})


@pytest.mark.slow
def test_many_processes_make_the_same_counts_and_hand_over_errors(folder, expected, tmp_path):
    assert same(count_tokens(opened(folder), plan_of(), Counting(workers=3)), expected)
    ids = np.load(folder / "ids.npy")
    ids[1234] = 99
    np.save(tmp_path / "ids.npy", ids)
    with pytest.raises(InputError, match=r"ids\.npy, token 1234 \(from 0\): id 99; expected ids from 0 to 29"):
        count_tokens(opened(tmp_path), plan_of(), Counting(workers=2))


class _Deadly:
    """A shard that kills the process that counts it."""

    def parts(self, plan):
        os._exit(9)


@pytest.mark.slow
def test_a_process_that_dies_is_told():
    groups = shard_counts.in_processes([_Deadly()] * 2, StreamTally(plan_of()), [[0], [1]], 2)
    with pytest.raises(WorkError, match=r"a counting process died, most often for lack of memory: give fewer workers.* resume goes on"):
        list(groups)


def killed(folder, workers):
    script = Path(__file__).with_name("counting_world.py")
    # No pipes: one that children hold open would be waited for.
    with (folder / "words").open("wb") as words:
        done = subprocess.run(
            [sys.executable, str(script), str(folder), str(workers)],
            stdout=words,
            stderr=words,
            env=os.environ | {_MARK: str(folder)},
            check=False,
        )
    assert done.returncode == -signal.SIGKILL, (folder / "words").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_count_goes_on_where_it_was_saved(folder, expected, tmp_path, read, workers):
    (tmp_path / "ids.npy").symlink_to(folder / "ids.npy")
    killed(tmp_path, workers)
    progress = tmp_path / "progress"
    assert read_json(progress / "state.json")["complete"] is False
    total, counting = len(opened(tmp_path).shards), Counting(workers=1, folder=progress, resume=True)
    assert same(count_tokens(opened(tmp_path), plan_of(), counting), expected)
    # Twelve reports of two shards each, all of them saved.
    assert total - len(read) == 24
    assert len(set(read)) == len(read)
    assert read_json(progress / "state.json")["complete"] is True
    del read[:]
    assert same(count_tokens(opened(tmp_path), plan_of(), counting), expected)
    assert read == []


@pytest.mark.slow
def test_a_killed_parent_leaves_no_process_behind(folder, tmp_path):
    (tmp_path / "ids.npy").symlink_to(folder / "ids.npy")
    killed(tmp_path, 2)

    mark = f"{_MARK}={tmp_path}\0".encode()

    def left():
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                found += [entry] if mark in entry.read_bytes() else []
        return found

    deadline = time.monotonic() + 20.0
    while left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left()


def stopped(folder, progress, monkeypatch, *, shards=6, **settings):
    """Progress of a count that an error ended after some shards."""
    real = token_counting.in_this_process

    def ended(*given):
        for place, group in enumerate(real(*given)):
            yield group
            if place + 1 == shards:
                raise WorkError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(token_counting, "in_this_process", ended)
        with pytest.raises(WorkError, match="stopped"):
            count_tokens(opened(folder), plan_of(**settings), Counting(workers=1, folder=progress, save_every=1))


def test_progress_goes_on_with_other_numbers_of_shards_in_a_go(folder, expected, tmp_path, monkeypatch, read):
    progress = tmp_path / "p"
    stopped(folder, progress, monkeypatch)
    done = len(read)
    assert same(count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=progress, resume=True, save_every=7)), expected)
    assert len(read) == len(opened(folder).shards) == len(set(read))
    assert done == 6


def test_a_kill_between_the_last_counts_and_the_mark_costs_nothing(folder, expected, tmp_path, monkeypatch, read):
    counting = Counting(workers=1, folder=tmp_path / "p")
    with monkeypatch.context() as patched:
        patched.setattr(token_counting.CountingProgress, "close", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            count_tokens(opened(folder), plan_of(), counting)
    del read[:]
    assert same(count_tokens(opened(folder), plan_of(), replace(counting, resume=True)), expected)
    assert read == []
    assert read_json(tmp_path / "p/state.json")["complete"] is True


def test_a_folder_that_is_in_use_is_refused_or_replaced(folder, expected, tmp_path, monkeypatch):
    progress = tmp_path / "p"
    stopped(folder, progress, monkeypatch)
    with pytest.raises(InputError, match=r"p holds an unfinished run: pass --resume to go on with it, or --overwrite"):
        count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=progress))
    with pytest.raises(InputError, match=r"p was started with other settings"):
        count_tokens(opened(folder), plan_of(near=2), Counting(workers=1, folder=progress, resume=True))
    with pytest.raises(InputError, match=r"p was started with other settings"):
        count_tokens(opened(folder, shard_tokens=49), plan_of(), Counting(workers=1, folder=progress, resume=True))
    assert same(count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=progress, overwrite=True)), expected)


def test_other_sources_are_refused_by_name(tmp_path, monkeypatch):
    write_ids(tmp_path)
    progress = tmp_path / "p"
    stopped(tmp_path, progress, monkeypatch)
    counting = Counting(workers=1, folder=progress, resume=True)
    ids = np.load(tmp_path / "ids.npy")
    ids[7] = 5 if ids[7] != 5 else 6
    np.save(tmp_path / "ids.npy", ids)
    with pytest.raises(InputError, match=r"ids\.npy changed since the count in .*p began: bring the same files back, or pass --overwrite"):
        count_tokens(opened(tmp_path), plan_of(), counting)
    one, other = opened(tmp_path), tmp_path / "other.npy"
    (tmp_path / "ids.npy").rename(other)
    moved = replace(one.sources[0], path=str(other))
    with pytest.raises(InputError, match=r"other\.npy is new among the sources since"):
        count_tokens(replace(one, sources=(moved, *one.sources)), plan_of(), counting)
    with pytest.raises(InputError, match=r"ids\.npy is no more among them since"):
        count_tokens(replace(one, sources=()), plan_of(), counting)


@pytest.mark.parametrize(
    ("name", "spoil", "words"),
    [
        ("counts.bin", lambda data: data[:-100], r"counts\.bin is corrupt: its hash does not fit; pass --overwrite"),
        ("counts.bin", lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:], r"counts\.bin is corrupt"),
        ("counts.bin", lambda data: b"", r"counts\.bin is corrupt"),
        ("sources.json", lambda data: b'{"a": 1}', r"sources\.json is corrupt: no list of sources"),
        ("sources.json", lambda data: data[:30], r"sources\.json is not valid JSON"),
        ("state.json", lambda data: data[:30], r"p holds other files"),
    ],
)
def test_corrupt_progress_is_refused_by_name(folder, tmp_path, monkeypatch, name, spoil, words):
    progress = tmp_path / "p"
    stopped(folder, progress, monkeypatch)
    path = progress / name
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=words):
        count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=progress, resume=True))


def test_counts_of_another_folder_are_refused(folder, tmp_path, monkeypatch):
    stopped(folder, tmp_path / "p", monkeypatch)
    stopped(folder, tmp_path / "q", monkeypatch, near=None)
    (tmp_path / "q/counts.bin").rename(tmp_path / "p/counts.bin")
    with pytest.raises(InputError, match=r"p/counts\.bin is of another count than .*p/state\.json"):
        count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=tmp_path / "p", resume=True))
    (tmp_path / "p/counts.bin").unlink()
    assert count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=tmp_path / "p", resume=True)).moments
    (tmp_path / "p/counts.bin").unlink()
    with pytest.raises(InputError, match=r"p/counts\.bin is missing from a complete count"):
        count_tokens(opened(folder), plan_of(), Counting(workers=1, folder=tmp_path / "p", resume=True))


def test_sources_that_are_written_to_meanwhile_are_refused(tmp_path):
    write_ids(tmp_path)

    def told(done, total):
        if done == total:
            path = tmp_path / "ids.npy"
            path.write_bytes(path.read_bytes())

    with pytest.raises(InputError, match=r"ids\.npy changed while it was counted"):
        count_tokens(opened(tmp_path), plan_of(), Counting(workers=1, folder=tmp_path / "p"), told=told)
    assert read_json(tmp_path / "p/state.json")["complete"] is False


def test_the_most_frequent_tokens_are_found_in_a_pass_of_their_own(folder, tmp_path):
    ids = np.load(folder / "ids.npy")
    counts = np.bincount(ids, minlength=VOCABULARY)
    found = most_frequent_tokens(opened(folder), 5, Counting(workers=1, folder=tmp_path / "tokens"))
    assert found.tolist() == top_tokens(counts / counts.sum(), 5).tolist()
    with pytest.raises(InputError, match=r"count is 31; expected 1 to \d+, the tokens that are seen"):
        most_frequent_tokens(opened(folder), 31, HERE)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"engine": "dask"}, r"engine is 'dask'; expected 'local' or 'ray'"),
        ({"workers": 0}, r"workers is 0; expected at least 1"),
        ({"save_every": 0}, r"save_every is 0"),
        ({"resume": True}, r"resume and overwrite are about a progress folder"),
        ({"address": "auto"}, r"address 'auto' is of a Ray cluster, and the engine is 'local'"),
    ],
)
def test_settings_that_fit_nothing_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Counting(**settings)


def test_counts_that_cannot_be_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"the plan has a vocabulary of 31, the files 30; expected the same"):
        count_tokens(opened(folder), plan_of(vocabulary=31), HERE)
    with pytest.raises(InputError, match=r"window is 100; expected 1 to 80, the tokens of the longest document"):
        count_tokens(opened(folder), plan_of(presence=100), HERE)
    np.save(tmp_path / "ids.npy", np.zeros(5, dtype=np.uint16))
    with pytest.raises(InputError, match=r"none of the documents has two tokens"):
        count_tokens(opened(tmp_path), plan_of(), HERE)
