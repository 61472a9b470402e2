import numpy as np
from bake_off_worlds import judged

from normwise.theory import bake_off as module
from normwise.theory import in_threads
from normwise.theory.bake_off import bake_off


def test_folds_side_by_side_give_what_folds_in_turn_give(monkeypatch):
    fit = judged(seed=3, count=200, by_norm=0.5)
    in_turn = bake_off(fit, temperature=0.1, seed=0, lengths_at_search=True)
    monkeypatch.setattr(module, "THREADS_FROM", 1)
    monkeypatch.setattr(in_threads, "allowed_threads", lambda: 2)
    beside = bake_off(fit, temperature=0.1, seed=0, lengths_at_search=True)
    assert beside.chosen.kind == in_turn.chosen.kind
    assert beside.left_out == in_turn.left_out
    for one, other in zip(beside.candidates, in_turn.candidates, strict=True):
        assert one.name == other.name
        np.testing.assert_allclose(one.held_out, other.held_out, rtol=1e-9)
        np.testing.assert_array_equal(one.held_order, other.held_order)
