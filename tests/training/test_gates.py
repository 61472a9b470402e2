"""Gates between stages and the count of loss spikes, against slow transcriptions."""

from __future__ import annotations

import numpy as np
import pytest

from normwise.core.similarity import Similarity
from normwise.training.gates import angular_gate, logit_gate
from normwise.training.observers import count_loss_spikes


def test_logits_of_scaled_vectors_match_at_the_switch_temperature():
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(32, 8))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    queries, candidates = 3.0 * directions, 5.0 * np.roll(directions, 1, axis=0)
    gate = logit_gate(queries, candidates, before=(Similarity.COSINE, 0.1), after=(Similarity.DOT, 0.1 * 15.0))
    assert gate.passed
    assert gate.figures["ratio"] == pytest.approx(1.0, abs=1e-6)
    assert gate.figures["largest_difference"] == pytest.approx(0.0, abs=1e-5)


def test_unmatched_logits_are_named():
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(16, 4))
    gate = logit_gate(vectors, vectors, before=(Similarity.COSINE, 0.05), after=(Similarity.DOT, 0.05))
    assert not gate.passed
    assert "not matched" in gate.words


def test_a_shift_of_all_logits_of_a_query_does_not_count():
    queries = np.array([[1.0, 0.0], [1.0, 0.0]])
    candidates = np.array([[2.0, 1.0], [2.0, -1.0]])
    gate = logit_gate(queries, candidates, before=(Similarity.DOT, 1.0), after=(Similarity.DOT, 2.0))
    assert gate.figures["largest_difference"] == 0.0


def test_angular_gate_leaves_unanswered_queries_out():
    gate = angular_gate(np.array([0.2, np.nan, 0.4]), np.array([0.5, np.nan, 0.65]))
    assert gate.passed
    assert gate.figures["difference"] == pytest.approx(0.275)


def test_angular_gate_does_not_sell_chance():
    gate = angular_gate(np.array([0.2, 0.4, 0.4]), np.array([0.5, 0.5, 0.35]))
    assert gate.figures["difference"] > 0
    assert not gate.passed
    assert "no improvement is shown" in gate.words


def test_angular_gate_says_when_angles_did_not_improve():
    gate = angular_gate(np.full(4, 0.5), np.full(4, 0.4))
    assert not gate.passed
    assert "did not improve" in gate.words


def test_spikes_against_a_slow_count():
    generator = np.random.default_rng(3)
    losses = 1.0 + 0.05 * generator.normal(size=200)
    losses[[120, 150, 40]] = 3.0
    expected = 0
    for step in range(100, 200):
        before = sorted(losses[max(0, step - 50) : step])
        middle = np.median(before)
        spread = np.median(np.abs(np.array(before) - middle))
        expected += losses[step] > middle + 6 * spread
    assert count_loss_spikes(losses) == expected == 2
