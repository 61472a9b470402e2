import signal
import threading
import time

import numpy as np
import pytest
from picture_material import all_cases, colors, encode, picture, refused_cases

from normwise.core.errors import InputError, WorkError
from normwise.data import picture_check
from normwise.data.picture_check import PictureProblem, check_pictures, keep_good
from normwise.data.picture_decoding import PictureError
from normwise.data.pictures import Picture


def good(seed):
    return Picture.of_bytes(encode(picture(colors(seed=seed)), "PNG"), name=f"good-{seed}.png")


def bad(seed):
    return Picture.of_bytes(f"text {seed}".encode(), name=f"bad-{seed}.png")


@pytest.mark.parametrize("workers", [1, 2, 7, None])
def test_the_same_answer_as_a_loop_whatever_the_threads(workers):
    pictures = [Picture.of_bytes(case.data, name=name) for name, case in all_cases().items() if case.data]
    wanted = []
    for index, one in enumerate(pictures):
        try:
            one.open()
        except PictureError as error:
            wanted.append(PictureProblem(index, error.name, error.problem, error.way_out))
    assert check_pictures(pictures, workers=workers) == tuple(wanted)
    assert len(wanted) == sum(bool(case.refused) for case in refused_cases().values()) - 1


def test_equal_pictures_are_decoded_once_and_told_wherever_they_stand(monkeypatch):
    opened = []
    decode = Picture.open
    monkeypatch.setattr(Picture, "open", lambda self, **settings: (opened.append(self.name), decode(self, **settings))[1])
    same = Picture.of_bytes(b"text 1", name="copy.png")
    found = check_pictures([good(1), bad(1), good(1), same, bad(1)])
    assert [(problem.index, problem.name) for problem in found] == [(1, "bad-1.png"), (3, "copy.png"), (4, "bad-1.png")]
    assert sorted(opened) == ["bad-1.png", "good-1.png"]


def test_the_limit_reaches_the_decoder():
    assert check_pictures([good(1)], max_pixels=35) == ()
    assert "declares 7 x 5 = 35 pixels" in check_pictures([good(1)], max_pixels=34)[0].problem


def test_nothing_is_good():
    assert check_pictures([]) == ()
    kept, problems = keep_good([], on_error="raise")
    assert (kept.tolist(), kept.dtype, problems) == ([], np.int64, ())


def test_skip_keeps_the_good_in_order():
    kept, problems = keep_good([bad(0), good(1), bad(2), good(3)], on_error="skip")
    assert kept.tolist() == [1, 3]
    assert kept.dtype == np.int64
    assert [problem.index for problem in problems] == [0, 2]
    assert str(problems[0]) == "bad-0.png is text ('text 0'): name the file that holds the picture, or leave the row out"


def test_raise_names_five_and_counts_all():
    pictures = [bad(seed) if seed % 2 else good(seed) for seed in range(16)]
    with pytest.raises(
        InputError, match=r"^8 of 16 pictures cannot be used: 1 \(from 0\), bad-1\.png is text .*; and 3 more; mend"
    ) as caught:
        keep_good(pictures, on_error="raise")
    assert [f"bad-{seed}.png" in str(caught.value) for seed in range(1, 16, 2)] == [True] * 5 + [False] * 3
    with pytest.raises(InputError, match=r"^1 of 2 pictures cannot be used: [^;]*; mend them"):
        keep_good([good(0), bad(1)], on_error="raise")
    assert keep_good([good(0), good(2)], on_error="raise")[0].tolist() == [0, 1]


def test_settings_are_checked():
    with pytest.raises(InputError, match="workers must be 1 or more, got 0"):
        check_pictures([good(1)], workers=0)
    with pytest.raises(InputError, match="on_error must be skip or raise, got 'ignore'"):
        keep_good([good(1)], on_error="ignore")


def test_a_file_that_went_is_a_problem_and_one_that_changed_an_error(tmp_path):
    files = [tmp_path / f"{seed}.png" for seed in range(3)]
    for seed, path in enumerate(files):
        path.write_bytes(encode(picture(colors(seed=seed)), "PNG"))
    pictures = [Picture.of_file(path) for path in files]
    files[1].unlink()
    (problem,) = check_pictures(pictures)
    assert problem.index == 1
    assert problem.problem.endswith("1.png does not exist: check the path)")
    files[2].write_bytes(files[0].read_bytes())
    with pytest.raises(WorkError, match="2.png: the file was changed while it was in use"):
        check_pictures(pictures)


def test_few_decoded_pictures_live_at_once(monkeypatch):
    alive, most, lock = [0], [0], threading.Lock()

    class Decoded:
        def __init__(self):
            with lock:
                alive[0] += 1
                most[0] = max(most[0], alive[0])

        def __del__(self):
            with lock:
                alive[0] -= 1

    monkeypatch.setattr(Picture, "open", lambda self, **_: Decoded())
    check_pictures([bad(seed) for seed in range(500)], workers=3)
    assert 1 <= most[0] <= 3
    assert alive[0] == 0


def test_the_first_error_stops_the_rest(monkeypatch):
    opened = []

    def fail(self, **_):
        opened.append(self)
        time.sleep(0.002)
        raise WorkError("changed")

    monkeypatch.setattr(Picture, "open", fail)
    with pytest.raises(WorkError, match="changed"):
        check_pictures([bad(seed) for seed in range(3_000)], workers=2)
    assert len(opened) < 300


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_does_not_wait_for_the_rest(monkeypatch, interruptible, workers):
    def slow(self, **_):
        time.sleep(0.01)

    monkeypatch.setattr(Picture, "open", slow)
    pictures = [bad(seed) for seed in range(2_000)]  # ten seconds of work
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    before = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            check_pictures(pictures, workers=workers)
    finally:
        timer.cancel()
        timer.join()
    assert time.monotonic() - before < 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pictures")]


def test_threads_are_as_many_as_cores_at_most_eight(monkeypatch):
    monkeypatch.setattr(picture_check.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert picture_check._default_workers() == 8
    monkeypatch.setattr(picture_check.os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert picture_check._default_workers() == 1
