"""The whole path on a small set: arms, decision, saved model, page; and what happens when a part of it fails."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from normwise.core.config import DataConfig, PaceConfig, StageConfig
from normwise.core.errors import InputError, WorkError
from normwise.core.records import TrainResult
from normwise.data.load import load_data
from normwise.data.sets import Corpus, TrainingPairs
from normwise.models.encoder import Encoder
from normwise.workflows import train as train_module
from normwise.workflows.comparison import embed
from normwise.workflows.demo import arms, claims
from normwise.workflows.dry_run import negatives_per_query, plan
from normwise.workflows.job import data_fingerprint, fingerprint
from normwise.workflows.train import read_config, train

pytestmark = pytest.mark.slow


def config_of(beir, small_model, **settings):
    few = {
        name: [stage.model_dump(mode="json", exclude_unset=True) for stage in stages]
        for name, stages in arms(steps=4, batch_size=8, learning_rate=1e-3).items()
    }
    values = {
        "data": {"name": str(beir)},
        "model": {"name": str(small_model)},
        "arms": few,
        "claims": [claim.model_dump(mode="json") for claim in claims()],
        "bootstrap": 200,
    }
    return PaceConfig.read({**values, **settings})


@pytest.fixture(scope="session")
def finished(beir, small_model, tmp_path_factory):
    """One whole run, and the lines it said."""
    out, lines = tmp_path_factory.mktemp("run") / "out", []
    result = train(config_of(beir, small_model), out, command="normwise train --config toy.toml", log=lines.append)
    return out, result, lines


def test_the_run_is_whole(finished):
    out, result, lines = finished
    assert sorted(path.name for path in out.iterdir()) == ["model", "report.html", "result.json", "state.json"]
    assert json.loads((out / "state.json").read_text())["complete"]
    assert {(run.name, run.similarity) for run in result.runs} == {
        (arm, ranking) for arm in ("untrained", "cosine", "dot", "pace", "pace-focal") for ranking in ("cosine", "dot")
    }
    for run in result.runs:
        for table in (run.metrics, run.dev):
            assert set(table) == {"p@1", "mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100"}
            for interval in table.values():
                assert 0 <= interval.ci_low <= interval.mean <= interval.ci_high <= 1
    assert set(result.claims.values()) == {"undecided at this size"}
    assert len(result.claims) == len(claims())
    assert sum("done already" in line for line in lines) == 1
    assert TrainResult.model_validate_json((out / "result.json").read_text()) == result


def test_the_saved_model_is_the_decision(finished):
    out, result, _ = finished
    model = SentenceTransformer(str(out / "model"), local_files_only=True)
    assert model.similarity_fn_name == result.decision.similarity
    assert result.decision.run in ("cosine", "dot", "pace", "pace-focal")
    assert result.decision.split == "dev"
    encoder = Encoder.load(out / "model")
    texts = ["how to split the parser", "merge"]
    np.testing.assert_allclose(encoder.encode_queries(texts), model.encode(texts), atol=1e-6)
    card = (out / "model" / "README.md").read_text()
    assert "how to open the queue" not in card


def test_the_page_stands_alone(finished):
    out, result, _ = finished
    page = (out / "report.html").read_text()
    assert result.decision.run in page
    assert "normwise train --config toy.toml" in page
    for remote in ("<script", '<link rel="stylesheet', 'src="http', "@import"):
        assert remote not in page


def test_a_complete_run_is_not_touched(finished, beir, small_model):
    out, result, _ = finished
    with pytest.raises(InputError, match="holds a complete run"):
        train(config_of(beir, small_model), out)
    lines = []
    assert train(config_of(beir, small_model), out, resume=True, log=lines.append) == result
    assert lines == [f"{out} is complete: nothing to do (data that have changed since are not looked at; overwrite trains anew)"]
    with pytest.raises(InputError, match="other settings"):
        train(config_of(beir, small_model, seeds=[1]), out, resume=True)


def one_arm(beir, small_model):
    return config_of(beir, small_model, arms={"cosine": [{"name": "cosine", "temperature": 0.05, "steps": 2, "batch_size": 8}]}, claims=[])


def test_a_page_that_cannot_be_drawn_loses_nothing(beir, small_model, tmp_path, monkeypatch):
    def broken(result):
        raise ValueError("no ink")

    monkeypatch.setattr(train_module, "publish_page", broken)
    lines = []
    result = train(one_arm(beir, small_model), tmp_path / "out", log=lines.append)
    assert result.report is None
    assert any("no ink" in line for line in lines)
    assert SentenceTransformer(str(tmp_path / "out" / "model")).encode("x").shape == (64,)
    assert TrainResult.model_validate_json((tmp_path / "out" / "result.json").read_text()) == result


def test_a_failed_save_is_resumed_without_training_again(beir, small_model, tmp_path, monkeypatch):
    config = one_arm(beir, small_model)

    def full(*args, **kwargs):
        raise WorkError("could not write model: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(train_module, "publish_model", full)
        with pytest.raises(WorkError, match="No space left"):
            train(config, tmp_path / "out")
    assert not (tmp_path / "out" / "model").exists()
    with pytest.raises(InputError, match="pass --resume"):
        train(config, tmp_path / "out")

    def never(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr("normwise.training.recipe.train_stage", never)
    result = train(config, tmp_path / "out", resume=True)
    assert (tmp_path / "out" / "model" / "modules.json").is_file()
    assert result.decision.run == "cosine"


def test_data_without_training_pairs_are_refused_before_any_work(beir, small_model, tmp_path):
    folder = tmp_path / "toy"
    shutil.copytree(beir, folder)
    (folder / "qrels" / "train.tsv").unlink()
    config = config_of(beir, small_model, data={"name": str(folder)})
    with pytest.raises(InputError, match="fewer than two training pairs"):
        train(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"arms": {"a": [{"name": "s", "temperature": 0.1, "batch_size": 1, "hard_negatives": 1}]}}, "batch_size must be at least 2"),
        (
            {"arms": {"a": [{"name": "s", "temperature": 0.1, "trainable": "lora", "lora": {"targets": ["nope"]}}]}},
            "'nope' names no linear map",
        ),
        (
            {"model": {"name": "all-MiniLM-L6-v2", "layers": 1}, "arms": {"a": [{"name": "s", "temperature": 0.1, "trainable": "head"}]}},
            "has no head",
        ),
        ({"report_to": ["nope"]}, "tracker 'nope' is unknown"),
        (
            {"claims": [{"name": "c", "higher": ["cosine", "dot"], "lower": ["dot", "dot"], "figure": "ndgc@10"}]},
            "figure 'ndgc@10' is unknown",
        ),
    ],
)
def test_what_is_known_beforehand_is_refused_beforehand(beir, small_model, tmp_path, change, told):
    config = config_of(beir, small_model, **{"claims": [], **change})
    with pytest.raises(InputError, match=told):
        train(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=told):
        plan(config)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_split_without_a_relevant_candidate_is_refused_beforehand(beir, small_model, tmp_path, split):
    folder = tmp_path / "toy"
    shutil.copytree(beir, folder)
    lines = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join([lines[0], *(line[:-1] + "0" for line in lines[1:])]) + "\n")
    config = config_of(beir, small_model, data={"name": str(folder)})
    with pytest.raises(InputError, match=split):
        train(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_dry_run_counts_what_a_query_is_told_apart_from(beir, small_model, tmp_path):
    arms = {
        "plain": [{"name": "s", "temperature": 0.1, "batch_size": 8, "steps": 3}],
        "uniform": [{"name": "s", "temperature": 0.1, "batch_size": 8, "steps": 3, "negatives": {"source": "uniform", "count": 50}}],
        "large": [{"name": "s", "temperature": 0.1, "batch_size": 1000, "steps": 3}],
    }
    report = plan(config_of(beir, small_model, arms=arms, claims=[]), out=tmp_path / "out")
    assert {stage.arm: stage.negatives_per_query for stage in report.stages} == {"plain": 7, "uniform": 50, "large": 71}
    assert {stage.arm: stage.pairs_seen for stage in report.stages}["large"] == 3 * 72
    assert report.training_pairs == 72
    assert not (tmp_path / "out").exists()


def test_the_dry_run_leaves_duplicates_out_and_counts_explicit_negatives():
    corpus = Corpus(ids=("a", "b", "c"), contents=("x", "y", "z"))
    pairs = TrainingPairs(("p", "q", "r"), np.array([0, 0, 1]), ((2,), (), (0, 2)), corpus, np.arange(3))
    stage = StageConfig(name="s", temperature=0.1, batch_size=3, hard_negatives=2)
    # The candidates are a a b and c a c: rows 0 and 1 (positive a) see b c c, row 2 (positive b) sees a a c a c.
    assert negatives_per_query(stage, pairs, [np.arange(3)]) == pytest.approx((3 + 3 + 5) / 3)


def test_settings_are_taken_in_every_form(beir, small_model, tmp_path):
    config = one_arm(beir, small_model)
    path = tmp_path / "run.json"
    path.write_text(config.model_dump_json())
    assert read_config(config) == read_config(config.model_dump(mode="json")) == read_config(path) == read_config(str(path))
    with pytest.raises(InputError, match=r"gone\.toml"):
        train(tmp_path / "gone.toml", str(tmp_path / "out"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="fp16 is refused without a GPU only")
def test_fp16_without_a_gpu_is_refused(beir, small_model, tmp_path):
    with pytest.raises(InputError, match="fp16 needs a GPU"):
        train(config_of(beir, small_model, precision="fp16"), tmp_path / "out")


def test_focal_weights_without_a_confidence_temperature_are_refused_beforehand(beir, small_model, tmp_path):
    dot = {"name": "s", "similarity": "dot", "temperature": 2.0, "focal": {}}
    cosine = {"name": "c", "temperature": 0.1}
    config = config_of(beir, small_model, arms={"a": [cosine], "b": [dot]}, claims=[])
    with pytest.raises(InputError, match="arm 'b', stage 's': focal.temperature"):
        train(config, tmp_path / "out")


def test_new_judgments_are_new_data(beir):
    data = load_data(DataConfig(name=str(beir)), seed=0)
    turned = replace(data, dev=replace(data.dev, relevance=tuple(reversed(data.dev.relevance))))
    assert data_fingerprint(data) != data_fingerprint(turned)
    assert data_fingerprint(data) == data_fingerprint(load_data(DataConfig(name=str(beir)), seed=0))


def test_trackers_and_tolerances_may_change_when_a_run_goes_on(beir, small_model):
    config = config_of(beir, small_model)
    assert fingerprint(config) == fingerprint(config.model_copy(update={"merge_tolerance": 0.5, "report_to": ("tensorboard",)}))
    assert fingerprint(config) != fingerprint(config.model_copy(update={"seeds": (5,)}))


def test_no_prompt_means_none_whatever_the_default(small_model):
    model = SentenceTransformer(str(small_model), local_files_only=True, prompts={"query": "find: "}, default_prompt_name="query")
    np.testing.assert_array_equal(embed(model, ["a text"], None), embed(SentenceTransformer(str(small_model)), ["a text"], None))
    assert np.abs(embed(model, ["a text"], "find: ") - embed(model, ["a text"], None)).max() > 1e-3


def test_a_complete_run_is_tidied_when_it_is_shown_again(finished, beir, small_model):
    out, result, _ = finished
    (out / "work" / "node").mkdir(parents=True)
    assert train(config_of(beir, small_model), out, resume=True) == result
    assert not (out / "work").exists()


def test_explicit_negatives_that_are_not_there_are_refused(beir, small_model, tmp_path):
    config = config_of(beir, small_model, arms={"a": [{"name": "s", "temperature": 0.1, "hard_negatives": 1}]}, claims=[])
    with pytest.raises(InputError, match="stage 's': hard_negatives = 1, but the data have no column negative"):
        train(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_explicit_negatives_that_nobody_uses_are_said(small_model, tmp_path):
    rows = [{"query": f"find the {noun}", "positive": f"def {noun}()", "negatives": [f"class {noun}"]} for noun in map(str, range(40))]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = config_of(tmp_path / "pairs.jsonl", small_model, arms={"a": [{"name": "s", "temperature": 0.1}]}, claims=[])
    assert any("no stage uses them: set hard_negatives" in note for note in plan(config).notes)


def test_a_bound_norm_is_said_beforehand(beir):
    arms = {"a": [{"name": "s", "similarity": "dot", "temperature": 1.0}]}
    config = PaceConfig.read({"data": {"name": str(beir)}, "model": {"name": "all-MiniLM-L6-v2", "layers": 1}, "arms": arms})
    assert any("norm cannot move on its own" in note for note in plan(config).notes)
