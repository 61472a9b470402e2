import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.track_records import OptimizerSettings
from normwise.theory.driving_moment import DrivingMoment
from normwise.theory.tracked_norms import predicted_norms_along


def _run(seed, *, decay, lazy=False, steps=60, constant=False):
    """Rates (T,), squares (T, N) with NaN where an item was not visited, and what the stream made of them."""
    rng = np.random.default_rng(seed)
    rates = np.full(steps, 0.1) if constant else rng.uniform(0.0, 0.3, size=steps)
    squares = np.where(
        rng.random((steps, 3)) < [0.9, 0.4, 0.1], rng.exponential(size=(steps, 3)) * np.linspace(50, 1, steps)[:, None], np.nan
    )
    squares[-1] = 1.0
    driving = DrivingMoment(3, weight_decay=decay, lazy=lazy)
    for rate, row in zip(rates, squares, strict=True):
        seen = np.flatnonzero(~np.isnan(row))
        driving.add(seen, row[seen], learning_rate=rate)
    return rates, squares, driving.values


@given(seed=st.integers(0, 1000), decay=st.floats(0.0, 2.0))
def test_it_is_the_weighted_mean_of_its_definition(seed, decay):
    rates, squares, found = _run(seed, decay=decay)
    for item in range(3):
        above = below = 0.0
        for t, rate in enumerate(rates):
            weight = rate**2 * np.prod([(1 - later * decay) ** 4 for later in rates[t + 1 :]])
            below += weight
            above += 0.0 if np.isnan(squares[t, item]) else weight * squares[t, item]
        f = np.mean(~np.isnan(squares[:, item]))
        assert found[item] == pytest.approx(above / (f * below), rel=1e-9)


@given(seed=st.integers(0, 1000), decay=st.floats(0.0, 2.0))
def test_under_lazy_decay_an_item_forgets_at_its_own_visits_only(seed, decay):
    rates, squares, found = _run(seed, decay=decay, lazy=True)
    for item in range(3):
        above = below = 0.0
        for rate, square in zip(rates, squares[:, item], strict=True):
            if not np.isnan(square):
                keep = (1 - rate * decay) ** 4
                above, below = keep * above + rate**2 * square, keep * below + rate**2
        assert found[item] == pytest.approx(above / below, rel=1e-9)


@given(seed=st.integers(0, 1000))
def test_the_law_with_it_is_the_recursion_of_the_fourth_power_with_every_gradient_in_its_place(seed):
    decay = 0.4
    rates, squares, found = _run(seed, decay=decay)
    settings = OptimizerSettings(name="sgd", learning_rate=0.1, weight_decay=decay)
    visits = np.mean(~np.isnan(squares), axis=0)
    law = predicted_norms_along(np.full(3, 2.0), visits, found, learning_rates=rates, settings=settings, width=8)
    fourth = np.full(3, 16.0)
    for rate, row in zip(rates, squares, strict=True):
        fourth = (1 - rate * decay) ** 4 * fourth + 2 * rate**2 * np.nan_to_num(row)
    # The law's own factor is 2 up to eta lambda, 12% at most here, and the fourth root takes a quarter of that.
    assert np.allclose(law, fourth**0.25, rtol=0.04)
    plain = predicted_norms_along(np.full(3, 2.0), visits, np.nanmean(squares, axis=0), learning_rates=rates, settings=settings, width=8)
    assert np.abs(np.log(law / fourth**0.25)).max() < np.abs(np.log(plain / fourth**0.25)).max()


@given(seed=st.integers(0, 1000), lazy=st.booleans())
def test_without_decay_and_at_one_rate_it_is_the_plain_mean(seed, lazy):
    _, squares, found = _run(seed, decay=0.0, lazy=lazy, constant=True)
    assert np.allclose(found, np.nanmean(squares, axis=0), rtol=1e-12)


def test_a_long_run_neither_overflows_nor_forgets_the_unvisited():
    driving = DrivingMoment(2, weight_decay=0.5)
    driving.add(np.array([0, 1]), np.array([4.0, 4.0]), learning_rate=1.0)
    for _ in range(2000):
        driving.add(np.array([0]), np.array([3.0]), learning_rate=1.0)
    assert driving.values[0] == pytest.approx(3.0)
    assert driving.values[1] == 0.0  # nothing is left of its one visit
    assert np.isnan(DrivingMoment(1).values[0])


def test_bad_values_are_refused():
    with pytest.raises(InputError, match="at least one item"):
        DrivingMoment(0)
    with pytest.raises(InputError, match="weight_decay is 2; expected at least 0 and below 1"):
        DrivingMoment(1, weight_decay=2.0).add(np.array([0]), np.array([1.0]), learning_rate=1.0)
