"""`normwise simulate norms`, from settings to record and from arguments to exit code."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from normwise.cli_simulate import simulate_app
from normwise.core.errors import InputError
from normwise.workflows.simulate import NormSimulation, SimulationConfig, simulate_norms

NOISE = {"items": 300, "steps": 300, "width": 16, "second_moment": (0.2, 1.0, 5.0), "zipf": 0.7, "weight_decay": 0.02}


def call(*arguments):
    result = CliRunner().invoke(simulate_app, [str(argument) for argument in arguments])
    assert not isinstance(result.exception, Exception), result.exception
    return result


def test_noise_is_predicted_item_by_item():
    found = simulate_norms(NOISE)
    assert found.r2_log_norm > 0.95
    assert found.spearman > 0.95
    measured = np.array([item.norm for item in found.items])
    predicted = np.array([item.predicted_norm for item in found.items])
    log_measured = np.log(measured)
    by_hand = 1 - ((log_measured - np.log(predicted)) ** 2).sum() / ((log_measured - log_measured.mean()) ** 2).sum()
    assert found.r2_log_norm == pytest.approx(by_hand, rel=1e-12)
    assert found.error_log_norm == pytest.approx(np.sqrt(((log_measured - np.log(predicted)) ** 2).mean()), rel=1e-12)
    assert all(item.kappa is None and item.loss_drop is None for item in found.items)


def test_groups_share_their_visit_rates_and_average_their_items():
    found = simulate_norms({"items": 60, "steps": 40, "kappa": (5.0, 80.0), "zipf": 1.0, "width": 8})
    rates = {kappa: sorted(item.visit_rate for item in found.items if item.kappa == kappa) for kappa in (5.0, 80.0)}
    assert rates[5.0] == rates[80.0] == pytest.approx(sorted(1 / np.arange(1, 31)))
    assert sum(group.items for group in found.groups) == 60
    first = found.groups[0]
    rows = [item for item in found.items if item.kappa == 5.0 and item.visit_rate > 0.1 + 1e-9]
    assert (first.kappa, first.items) == (5.0, len(rows))
    assert first.norm == pytest.approx(np.mean([item.norm for item in rows]))
    assert first.visit_rates == "0.111 to 1"
    assert {group.visit_rates for group in found.groups} == {"0.111 to 1", "0.0333 to 0.1"}


def test_the_record_comes_back_from_json_and_from_its_seed():
    settings = {"items": 12, "steps": 20, "visit_rate": 0.03, "seed": 4}
    first, again, other = simulate_norms(settings), simulate_norms(settings), simulate_norms(settings | {"seed": 5})
    assert first == again
    assert first != other
    assert NormSimulation.from_json(first.to_json()) == first
    unvisited = [item for item in first.items if item.visits == 0]
    assert unvisited
    assert all(item.second_moment is None and item.norm == item.predicted_norm for item in unvisited)
    assert any("never visited" in note for note in first.notes)
    assert simulate_norms(first.settings | {"second_moment": None}) == first


def test_equal_norms_have_no_agreement_to_report():
    found = simulate_norms({"items": 1, "steps": 3})
    assert found.r2_log_norm is None
    assert found.spearman is None


@pytest.mark.parametrize(
    ("optimizer", "more"),
    [
        ("sgd", {"lazy": True}),
        ("momentum", {"coupled": True, "momentum": 0.5}),
        ("adam", {"weight_decay": 0.0}),
        ("adamw", {"beta2": 0.99}),
    ],
)
def test_every_optimizer_and_kind_of_negative_runs(optimizer, more):
    settings = {"items": 20, "steps": 30, "optimizer": optimizer, "learning_rate": 0.05, "weight_decay": 0.1, **more}
    for kind in ("uniform", "item_means"):
        found = simulate_norms(settings | {"negative_kind": kind, "start": "orthogonal", "positives_per_item": 2, "width": 8})
        assert all(np.isfinite([item.norm, item.predicted_norm]).all() for item in found.items)
        assert all(item.loss_drop is not None and item.hardness is not None for item in found.items)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"second_moment": (1.0,), "temperature": 0.1}, "second_moment asks for pure noise, which has no temperature"),
        ({"second_moment": (1.0,), "start": "aligned"}, "start aligned is told from mean directions"),
        ({"beta2": 0.9}, "beta1 and beta2 belong to adam and adamw, not to sgd"),
        ({"momentum": 0.9}, "momentum belongs to the optimizer momentum, not to sgd"),
        ({"optimizer": "adam", "weight_decay": 0.1}, "use adamw"),
        ({"items": 1, "negative_kind": "item_means"}, "there is one item: add items"),
        ({"width": 3}, "width: expected 4 or above"),
        ({"kappa": ()}, "kappa: "),
        ({"kapa": (1.0,)}, "did you mean kappa"),
        ({"learning_rate": 1.0, "weight_decay": 1.0}, "below 1 / learning_rate = 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        SimulationConfig.read(settings)


def test_the_command_prints_a_table_of_groups():
    result = call("norms", "--items", 40, "--steps", 30, "--kappa", "5,80", "--weight-decay", 0.02)
    assert result.exit_code == 0
    assert "predicted_norm" in result.stdout
    assert "R2 of log norm, predicted against measured over items: " in result.stdout
    assert "Spearman" in result.stdout
    assert result.stdout.index("the law is within ") < result.stdout.index("R2 of log norm")
    printed = " ".join(result.stdout.split())
    assert "note: too short for equilibrium, which takes about 5 times 125 steps: the run has 30; the law counts that in" in printed
    assert "gradients as measured in this run, and not its norm: it is no forecast from settings alone" in printed
    assert "given_second_moment" not in result.stdout
    assert "simulating 40 items" in result.stderr


def test_json_is_one_value_and_the_file_holds_the_same(tmp_path):
    out = tmp_path / "new" / "norms.json"
    result = call(
        "norms", "--items", 20, "--steps", 20, "--second-moment", "1,4", "--optimizer", "adamw", "--seed", 3, "--out", out, "--json"
    )
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value == json.loads(out.read_text())
    assert {"settings", "items", "r2_log_norm", "spearman"} <= set(value)
    needed = {"kappa", "visit_rate", "initial_norm", "norm", "predicted_norm", "second_moment", "signal", "noise", "visits"}
    assert needed <= set(value["items"][0])
    assert value["settings"]["second_moment"] == [1.0, 4.0]
    again = call("norms", "--items", 20, "--steps", 20, "--out", out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_options_go_before_set_and_set_before_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text("items = 10\nsteps = 7\nkappa = [1.0]\nseed = 1\n")
    result = call("norms", "--config", file, "--set", "seed=2", "--set", "steps=9", "--steps", 11, "--kappa", "3", "--json")
    settings = json.loads(result.stdout)["settings"]
    assert (settings["items"], settings["steps"], settings["seed"], settings["kappa"]) == (10, 11, 2, [3.0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kappa", "5,x"], "--kappa '5,x': expected numbers with commas"),
        (["--second-moment", "1;2"], "--second-moment '1;2': expected numbers"),
        (["--optimizer", "sdg"], "--optimizer is 'sdg'; expected 'sgd', 'momentum', 'adam' or 'adamw'"),
        (["--learning-rate", "-1"], "--learning-rate is -1.0; expected above 0"),
        (["--set", "learning_rate=-1"], "simulate norms: learning_rate is -1; expected above 0"),
        (["--learning-rate", "1", "--weight-decay", "1"], "--weight-decay is 1.0; expected >= 0 and below 1 / --learning-rate = 1"),
        (["--set", "stepz=4"], "unknown key 'stepz': did you mean steps?"),
        (["--config", "nowhere.toml"], "config file nowhere.toml does not exist"),
        (["--kappa", "nan"], "--kappa holds nan; expected a finite number"),
    ],
)
def test_bad_arguments_end_with_exit_code_2_and_no_result(arguments, words):
    result = call("norms", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr


@pytest.mark.parametrize(
    ("settings", "beyond", "words"),
    [
        (
            {"learning_rate": 1e9, "steps": 50, "items": 50},
            50,
            ["50 of 50 items are beyond the laws", "lower learning_rate", "R2 is below 0"],
        ),
        (
            {"items": 2, "steps": 1},
            2,
            ["2 items are too few to judge a law by R2 or rank correlation: take at least 20", "say little here"],
        ),
        ({"optimizer": "adam", "learning_rate": 1e9, "steps": 50, "items": 50}, 50, ["beyond the laws", "Adam's second moment remembers"]),
    ],
)
def test_far_outside_the_law_it_says_so(settings, beyond, words):
    found = simulate_norms(settings)
    assert found.r2_log_norm < -100
    assert found.beyond_law == beyond
    assert all(any(part in note for note in found.notes) for part in words)
    result = call("norms", *(part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", value)))
    printed = " ".join(result.stdout.split())
    assert f"{beyond} of {beyond} items are outside what the law is for" in printed
    assert all(part in printed for part in words)


def test_norms_that_hardly_differ_are_judged_by_the_error_and_not_by_r2():
    settings = {"items": 60, "steps": 1000, "width": 16, "second_moment": (1.0, 4.0), "optimizer": "adamw", "beta2": 0.99}
    found = simulate_norms(settings | {"learning_rate": 0.003, "weight_decay": 0.4, "zipf": 0.3})
    assert found.r2_log_norm < 0.5
    assert found.error_log_norm < 0.05
    assert found.error_words.startswith("the law is within ")
    assert any("R2 and rank correlation say little here" in note for note in found.notes)
    assert any("start and visits" in note and "nothing else" in note for note in found.notes)
    assert not any("R2 is below 0" in note for note in found.notes)


@pytest.mark.parametrize(("lazy", "who"), [(False, "the run has 600"), (True, "the rarest item has 600")])
def test_whether_a_run_reached_equilibrium_is_said_only_where_it_did_not(lazy, who):
    settings = {"items": 20, "width": 8, "second_moment": (1.0,), "weight_decay": 0.02, "lazy": lazy}
    short, enough = (simulate_norms(settings | {"steps": steps}) for steps in (600, 630))
    assert any("too short for equilibrium" in note and who in note for note in short.notes)
    assert not any("equilibrium" in note for note in enough.notes)
    assert not any("predictions are high" in note for note in short.notes)


@pytest.mark.parametrize(
    ("error", "words"),
    [(0.013, "the law is within 1.3% ("), (0.00042, "within 0.042% ("), (2.5, "the law misses log norms by 2.5 ("), (None, "not known")],
)
def test_the_error_is_put_into_words(error, words):
    found = NormSimulation(settings={}, items=(), groups=(), error_log_norm=error, r2_log_norm=None, spearman=None)
    assert words in found.error_words


def test_inside_the_law_nothing_of_this_is_said():
    found = simulate_norms(NOISE | {"zipf": 0.0})
    assert found.beyond_law == 0
    assert not any(part in note for note in found.notes for part in ("beyond", "too few", "R2 is below", "remembers"))
    printed = call("norms", "--items", 40, "--steps", 30).stdout
    assert "outside what the law is for" not in printed
