"""Copies of positives against a loop over the definition, and what is read at the border."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normwise.training import infonce_vectors
from normwise.training.infonce_vectors import copies_of_positives, read_vectors


def slow_copies(candidates, rows, *, normalized):
    x = candidates.double().numpy()
    if normalized:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = np.zeros((len(rows), len(x)), dtype=bool)
    for r, i in enumerate(rows.tolist()):
        usual = np.sqrt(np.mean([np.sum((x[i] - b) ** 2) for b in x]))
        reach = max(1e-6 * np.linalg.norm(x[i]), min(4e-3 * np.linalg.norm(x[i]), usual / 10))
        for j, b in enumerate(x):
            found[r, j] = j != i and np.linalg.norm(x[i] - b) <= reach
    return found


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    normalized=st.booleans(),
    spread=st.sampled_from([1e-3, 0.02, 1.0]),
    shift=st.sampled_from([1e-4, 3.9e-3, 4.1e-3, 6e-3]),
    scale=st.sampled_from([1e-30, 1.0, 1e25]),
)
def test_copies_are_those_of_the_loop(seed, normalized, spread, shift, scale):
    rng = np.random.default_rng(seed)
    first = np.eye(6)[0] + spread * rng.standard_normal((9, 6))
    moved = rng.standard_normal((9, 6))
    moved *= shift * np.linalg.norm(first, axis=1, keepdims=True) / np.linalg.norm(moved, axis=1, keepdims=True)
    giant = 1e6 * rng.standard_normal((1, 6))
    candidates = torch.from_numpy(scale * np.concatenate([first, first + moved, first[:2], giant])).float()
    rows = torch.tensor([0, 1, 4, 8])
    found = copies_of_positives(candidates, rows, normalized=normalized)
    assert found.tolist() == slow_copies(candidates, rows, normalized=normalized).tolist()
    assert found[0, 18]
    assert found[1, 19]


def test_pairs_measured_block_by_block_are_the_same(monkeypatch):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((12, 5)))
    candidates, rows = torch.cat([x, 1.001 * x, x.half().double()]), torch.arange(12)
    whole = copies_of_positives(candidates, rows, normalized=False)
    assert whole.sum() == 24
    monkeypatch.setattr(infonce_vectors, "_BLOCK", 10)
    assert torch.equal(copies_of_positives(candidates, rows, normalized=False), whole)


def test_vectors_that_are_all_one_are_all_copies():
    x = torch.ones(4, 3)
    for normalized in (True, False):
        assert torch.equal(copies_of_positives(x, torch.arange(4), normalized=normalized), ~torch.eye(4, dtype=torch.bool))


def test_what_is_read_is_detached_and_keeps_its_values():
    leaf = torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True)
    found = read_vectors(leaf, name="x")
    assert (found.requires_grad, found.dtype) == (False, torch.bfloat16)
    assert read_vectors(np.array([[1, 2]], dtype=np.uint64), name="x").tolist() == [[1.0, 2.0]]
    assert read_vectors(np.array([[1, 2]], dtype=">f4"), name="x").dtype == torch.float32
