"""The Brier score: its loop, the exact identity of its parts, what they mean in the limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.brier import brier_parts, brier_score, brier_values
from normwise.theory.resamples import Resamples
from normwise.theory.tied_answers import Answers, tied_answers

answers = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.25, 0.7, 1.0]) | st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=30)


def arrays(pairs):
    return np.array([p for p, _ in pairs]), np.array([y for _, y in pairs])


@given(answers, st.integers(1, 20))
def test_the_parts_add_up_to_the_score_for_any_probabilities(pairs, bins):
    parts = brier_parts(*arrays(pairs), bins=bins)
    assert parts.score == pytest.approx(sum((p - y) ** 2 for p, y in pairs) / len(pairs), abs=1e-12)
    assert parts.reliability - parts.resolution + parts.uncertainty == pytest.approx(parts.score, abs=1e-12)
    assert parts.reliability >= 0.0
    assert 0.0 <= parts.uncertainty <= 0.25
    assert brier_score(*arrays(pairs)) == parts.score


@given(answers, st.integers(1, 8))
def test_the_parts_are_the_loops_of_their_equations(pairs, bins):
    count, base = len(pairs), np.mean([y for _, y in pairs])
    reliability = between = variance = covariance = 0.0
    for place in range(bins):
        held = [(p, y) for p, y in pairs if place / bins <= p and (p < (place + 1) / bins or place == bins - 1)]
        if not held:
            continue
        mean, share = np.mean([p for p, _ in held]), np.mean([y for _, y in held])
        reliability += len(held) * (mean - share) ** 2 / count
        between += len(held) * (share - base) ** 2 / count
        variance += sum((p - mean) ** 2 for p, _ in held) / count
        covariance += 2.0 * sum((y - share) * (p - mean) for p, y in held) / count
    parts = brier_parts(*arrays(pairs), bins=bins)
    assert parts.reliability == pytest.approx(reliability, abs=1e-12)
    assert parts.resolution == pytest.approx(between - variance + covariance, abs=1e-12)
    assert parts.uncertainty == pytest.approx(base * (1.0 - base), abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.05, 0.3, 0.5, 0.95]), st.booleans()), min_size=1, max_size=30))
def test_with_one_probability_per_bin_they_are_murphys(pairs):
    """Nothing varies inside a bin, so the resolution is the variance of the bins' shares, never negative."""
    values, right = arrays(pairs)
    parts = brier_parts(values, right, bins=10)
    shares = np.array([right[values == p].mean() for p in values])
    assert parts.reliability == pytest.approx(np.mean((values - shares) ** 2), abs=1e-12)
    assert parts.resolution == pytest.approx(np.mean((shares - right.mean()) ** 2), abs=1e-12)


@given(answers, st.integers(1, 8), st.integers(0, 10**6))
def test_resamples_are_repeated_answers(pairs, bins, seed):
    confidence, right = arrays(pairs)
    times = np.random.default_rng(seed).integers(0, 4, size=(4, right.size))
    times[:, 0] += ~times.any(axis=1)
    found = brier_values(tied_answers(Answers(confidence, right), Resamples(times.astype(float), np.arange(right.size))), bins=bins)
    repeated = [brier_parts(np.repeat(confidence, row), np.repeat(right, row), bins=bins) for row in times]
    assert found["brier"] == pytest.approx([each.score for each in repeated], abs=1e-12)
    for name in ("reliability", "resolution", "uncertainty"):
        assert found[name] == pytest.approx([getattr(each, name) for each in repeated], abs=1e-12)


def test_limits():
    right = np.random.default_rng(0).random(400) < 0.3
    base = brier_parts(np.full(400, right.mean()), right)
    assert (base.reliability, base.resolution) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert base.score == pytest.approx(base.uncertainty)
    sure = brier_parts(right.astype(float), right)
    assert sure.score == 0.0
    assert sure.resolution == pytest.approx(sure.uncertainty)
    assert brier_score(1.0 - right.astype(float), right) == 1.0
    misled = brier_parts(np.array([0.61, 0.69]), np.array([True, False]), bins=2)
    assert misled.resolution < 0.0, "inside their only bin the surer answer is the wrong one"


@pytest.mark.parametrize("score", [brier_score, brier_parts])
def test_refusals(score):
    for confidence, right, message in (
        (np.array([]), np.array([], dtype=bool), "holds no answer"),
        (np.array([0.5, np.inf]), np.array([True, False]), "confidence of query 1 is inf"),
        (np.array([1.01]), np.array([True]), "confidence of query 0 is 1.01; expected a probability, 0 to 1: calibrate the score first"),
    ):
        with pytest.raises(InputError, match=message):
            score(confidence, right)
