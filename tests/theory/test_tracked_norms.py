import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.core.track_records import NormFit, NormTrack, OptimizerSettings
from normwise.theory.adaptive import predicted_norm_adam
from normwise.theory.equilibria import predicted_norm_sgd
from normwise.theory.gradient_stream import GradientStream
from normwise.theory.tracked_norms import TrackedRun, baseline_fit, fit_of, predicted_norms_along, track_of

SGD = OptimizerSettings(name="sgd", learning_rate=0.1, weight_decay=0.03)
ADAMW = OptimizerSettings(name="adamw", learning_rate=0.1, weight_decay=0.03, beta2=0.99)
ITEMS = {"initial_norms": np.array([1.0, 2.0]), "visit_rates": np.array([1.0, 0.1]), "second_moments": np.array([2.0, 5.0])}


def test_a_constant_schedule_is_the_law_itself():
    rates = np.full(70, 0.1)
    sgd = predicted_norm_sgd(
        ITEMS["initial_norms"], steps=70, visit_rate=[1.0, 0.1], second_moment=[2.0, 5.0], learning_rate=0.1, weight_decay=0.03
    )
    adam = predicted_norm_adam(
        ITEMS["initial_norms"], steps=70, visit_rate=[1.0, 0.1], width=8, learning_rate=0.1, beta2=0.99, weight_decay=0.03
    )
    assert np.allclose(predicted_norms_along(*ITEMS.values(), learning_rates=rates, settings=SGD, width=8), sgd, rtol=1e-13)
    assert np.allclose(predicted_norms_along(*ITEMS.values(), learning_rates=rates, settings=ADAMW, width=8), adam, rtol=1e-13)


@given(seed=st.integers(0, 1000))
def test_a_schedule_follows_the_recursion_of_the_fourth_power_step_by_step(seed):
    rates = np.random.default_rng(seed).uniform(0.0, 0.3, size=40)
    found = predicted_norms_along(*ITEMS.values(), learning_rates=rates, settings=SGD, width=8)
    fourth = ITEMS["initial_norms"] ** 4
    for eta in rates:
        keep = 1 - eta * 0.03
        # Mean field of r'^2 = keep^2 r^2 + eta^2 g^2 / r^2, squared; the law's equilibrium fixes the factor of the middle term.
        fourth = keep**4 * fourth + eta**2 * ITEMS["visit_rates"] * ITEMS["second_moments"] * (1 - keep**4) / (1 - keep**2)
    assert np.allclose(found**4, fourth, rtol=1e-9)


def test_a_schedule_of_many_rates_is_merged_without_a_visible_loss():
    rates = np.linspace(0.2, 0.0, 4000)
    found = predicted_norms_along(*ITEMS.values(), learning_rates=rates, settings=SGD.model_copy(update={"weight_decay": 0.0}), width=8)
    exact = (ITEMS["initial_norms"] ** 4 + 2 * (rates**2).sum() * ITEMS["visit_rates"] * ITEMS["second_moments"]) ** 0.25
    assert np.allclose(found, exact, rtol=1e-9)


def test_without_a_law_there_is_no_prediction():
    for settings in (
        OptimizerSettings(name=None, learning_rate=0.1),
        OptimizerSettings(name="adam", learning_rate=0.1, weight_decay=0.1, coupled=True),
    ):
        assert np.isnan(predicted_norms_along(*ITEMS.values(), learning_rates=np.ones(3), settings=settings, width=8)).all()


def test_fits_say_nothing_fitted_and_fitted_apart():
    real = np.exp(np.random.default_rng(0).normal(size=50))
    fit = fit_of(real, 10 * np.sqrt(real))
    assert fit.spearman == pytest.approx(1.0)
    assert fit.r2_fitted == pytest.approx(1.0)
    assert fit.r2 is not None
    assert fit.r2 < 0
    assert fit_of(real, 1.1 * real).error_log_norm == pytest.approx(np.log(1.1))
    assert fit_of(real, np.where(np.arange(50) < 48, np.nan, 1.0)).r2 is None


def test_a_baseline_is_judged_out_of_fold():
    rng = np.random.default_rng(0)
    noise = np.exp(rng.normal(size=100))
    r2 = baseline_fit(noise, rng.integers(0, 50, size=100).astype(float)).r2
    assert r2 is not None
    assert r2 < 0.05  # in sample a cubic of noise would be above 0
    assert baseline_fit(noise, np.ones(100)).r2 is None
    rare = np.concatenate([rng.integers(1, 4, size=39), [500]]).astype(float)
    runaway = baseline_fit(noise[:40], rare).r2
    assert runaway is not None
    assert runaway > -3
    with pytest.raises(InputError, match="negative value"):
        baseline_fit(noise, -noise)


def _run(steps=4, **changes):
    stream = GradientStream(3, 2)
    for step in range(steps):
        stream.add(np.array([0, 1]), np.array([[1.0, 0.0], [0.0, 2.0 * (-1) ** step]]))
    values = {
        "names": ("a", "b", "c"),
        "stream": stream,
        "initial_norms": np.ones(3),
        "norms": np.array([1.1, 1.2, 1.0]),
        "lengths": np.array([1.0, 2.0, 3.0]),
        "learning_rates": np.full(steps, 0.1),
        "settings": SGD,
        "width": 2,
    }
    return TrackedRun(**(values | changes))


def test_a_track_splits_signal_from_noise_round_trips_and_feeds_inspect():
    track = track_of(_run())
    first, second, third = track.items
    assert (first.signal, first.noise) == (1.0, 0.0)
    assert second.signal is not None
    assert second.signal < 0 < second.noise
    assert third.visits == 0
    assert third.second_moment is None
    assert "1 of 3 items were never visited" in track.notes[0]
    assert NormTrack.from_json(track.to_json()) == track
    evidence = track.training_evidence()
    assert (evidence.optimizer, evidence.weight_decay, evidence.steps) == ("sgd", 0.03, 4)
    assert evidence.signal_share == pytest.approx(0.5)


def test_a_track_says_what_does_not_hold():
    assert any("none of sgd" in note for note in track_of(_run(settings=OptimizerSettings(name=None, learning_rate=0.1))).notes)
    assert any("the loss sees norms" in note for note in track_of(_run(radial_share=0.4)).notes)
    with pytest.raises(InputError, match="no optimizer step was seen"):
        track_of(_run(learning_rates=np.array([])))


def test_shared_weights_make_the_law_a_yardstick():
    assert not any("yardstick" in note for note in track_of(_run()).notes)
    assert any("yardstick here and not a truth" in note for note in track_of(_run(shared=True)).notes)
    without_law = OptimizerSettings(name=None, learning_rate=0.1)
    assert not any("yardstick" in note for note in track_of(_run(shared=True, settings=without_law)).notes)


def test_a_run_within_adams_memory_says_so():
    for shared, rest in ((False, "larger gradients of the start"), (True, "the law is not for so short a run")):
        (early,) = [note for note in track_of(_run(settings=ADAMW, shared=shared)).notes if "remembers" in note]
        assert "about 1/(1 - beta2) = 100 steps, and 4 are fewer than 5 times that" in early
        assert rest in early
    long = track_of(_run(steps=500, settings=ADAMW))
    assert not any("remembers" in note for note in long.notes)
    assert not any("remembers" in note for note in track_of(_run()).notes)


def test_a_track_is_summed_up_in_words():
    track = track_of(_run(shared=True))
    law, frequency, length, *notes = track.words.splitlines()
    assert law.startswith("law (2 items): ")
    assert frequency == "frequency alone (3 items): R2 undefined out of fold, rank correlation undefined"
    assert length.startswith("length alone (3 items): ")
    assert notes == [f"note: {note}" for note in track.notes]
    judged = track.model_copy(update={"law": NormFit(items=30, r2=-28.0, spearman=0.125, error_log_norm=0.4567)})
    assert judged.words.startswith("law (30 items): error of log norm 0.457, R2 -28, rank correlation 0.125\n")
