"""Learn-then-test: MAPIE's own controller and p-values as oracle, the promise on a known population, the missing extra."""

import sys
import warnings

import numpy as np
import pytest
from scipy.stats import binom

from normwise.core.errors import InputError, MissingExtraError
from normwise.theory.clustered_errors import error_tail
from normwise.theory.learn_then_test import GRID, answered_errors, learn_then_test_threshold

control = pytest.importorskip("mapie.risk_control", reason="the extra risk is not installed")
methods = pytest.importorskip("mapie.risk_control.methods", reason="the extra risk is not installed")

TARGET, LEVEL = 0.9, 0.9


def sample(seed, queries=600):
    """Right with the chance that the confidence says, never below .35, so that no threshold of the grid is far from both ends."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4.0, 1.5, queries)
    return confidence, rng.random(queries) < confidence


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_is_that_of_the_controller(seed):
    confidence, right = sample(seed)
    grid = np.linspace(0.3, float(np.sort(confidence)[-20]), 30)
    controller = control.BinaryClassificationController(
        lambda x: np.column_stack([1.0 - x, x]), "precision", TARGET, LEVEL, list_predict_params=grid, fwer_method="bonferroni_holm"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where no threshold passes
        controller.calibrate(confidence, right)
    found = learn_then_test_threshold(confidence, right, target=TARGET, confidence_level=LEVEL, grid=grid)
    theirs = controller.valid_predict_params.min() if controller.valid_predict_params.size else None
    assert theirs is None or (found is not None and found.probability <= theirs)
    # Their product of rate and number is rounded up, which may count one error more: never on the other side.
    counts, errors = answered_errors(confidence, right, grid)
    assert (error_tail(errors, counts, risk=1.0 - TARGET) <= controller.p_values[:, 0] * (1.0 + 1e-9)).all()


def test_the_tail_is_the_binary_p_value_without_its_rounding():
    sizes = np.array([20.0, 40.0, 100.0, 300.0])
    errors = np.array([0.0, 1.0, 5.0, 12.0])
    theirs = methods.compute_hoeffding_bentkus_p_value(errors / sizes, sizes, 0.1, binary=True)[:, 0]
    assert error_tail(errors, sizes, risk=0.1) == pytest.approx(theirs, rel=1e-9)


def test_the_promise_holds_on_flat_risk_just_above_the_target():
    false = 0
    for seed in range(200):
        rng = np.random.default_rng([5, seed])
        right = rng.random(400) >= 1.0 - TARGET + 0.005
        false += learn_then_test_threshold(rng.random(400), right, target=TARGET, confidence_level=LEVEL) is not None
    assert false <= binom.ppf(0.999, 200, 1.0 - LEVEL)


def test_a_dip_at_the_top_is_passed_over_and_empty_thresholds_do_no_harm():
    rng = np.random.default_rng(3)
    confidence = np.concatenate([np.full(10, 0.9), rng.uniform(0.5, 0.8, 800), rng.uniform(0.1, 0.4, 300)])
    right = np.concatenate([np.zeros(10, dtype=bool), np.ones(800, dtype=bool), np.zeros(300, dtype=bool)])
    found = learn_then_test_threshold(confidence, right, target=TARGET, confidence_level=LEVEL)
    assert found is not None
    assert 0.35 < found.probability <= 0.51
    assert found.answered == np.count_nonzero(confidence >= found.probability)
    assert (found.method, found.precision_low) == ("learn-then-test", TARGET)


def test_where_nothing_passes_there_is_none():
    confidence, _ = sample(0)
    wrong = np.arange(confidence.size) % 2 == 0
    assert learn_then_test_threshold(confidence, wrong, target=TARGET, confidence_level=LEVEL) is None
    assert learn_then_test_threshold(confidence, ~wrong | wrong, target=TARGET, confidence_level=LEVEL, grid=np.zeros(3)) is None


def test_without_mapie_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mapie.risk_control", None)
    confidence, right = sample(0)
    with pytest.raises(MissingExtraError, match=r'mapie is not installed; run: pip install "normwise\[risk\]"'):
        learn_then_test_threshold(confidence, right, target=TARGET, confidence_level=LEVEL)


def test_a_grid_of_scores_is_refused():
    confidence, right = sample(0)
    with pytest.raises(InputError, match="grid holds 400.0 at place 99"):
        learn_then_test_threshold(confidence, right, target=TARGET, confidence_level=LEVEL, grid=np.append(GRID, 400.0))
