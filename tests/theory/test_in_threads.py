import threading

import pytest
from threadpoolctl import threadpool_limits

from normwise.theory import in_threads as module
from normwise.theory.in_threads import allowed_threads, in_threads


@pytest.fixture
def four_threads(monkeypatch):
    monkeypatch.setattr(module, "allowed_threads", lambda: 4)


def test_results_come_in_the_order_of_the_items(four_threads):
    late = threading.Event()

    def work(item):
        if item == 0:
            assert late.wait(10)
        if item == 3:
            late.set()
        return item * item

    assert in_threads(work, range(4), size=10, least=10) == [0, 1, 4, 9]


def test_small_work_stays_in_one_thread(four_threads):
    assert set(in_threads(lambda _: threading.get_ident(), range(8), size=9, least=10)) == {threading.get_ident()}
    assert len(set(in_threads(lambda _: threading.get_ident(), range(8), size=9, least=10, most=1))) == 1


def test_no_more_threads_than_asked_for(four_threads):
    running, peak, lock = [0], [0], threading.Lock()
    meet = threading.Barrier(2)

    def work(_):
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        meet.wait(10)
        with lock:
            running[0] -= 1

    in_threads(work, range(6), size=1, least=1, most=2)
    assert peak[0] == 2


def test_an_exception_is_raised(four_threads):
    with pytest.raises(ZeroDivisionError, match="division"):
        in_threads(lambda item: 1 // item, [1, 0, 2], size=1, least=1)


def test_the_limit_of_the_matrix_library_is_kept():
    with threadpool_limits(1, user_api="blas"):
        assert allowed_threads() == 1
        assert in_threads(lambda _: threading.get_ident(), range(3), size=1, least=1) == [threading.get_ident()] * 3
