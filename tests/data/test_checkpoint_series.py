"""Checkpoints are found, put in order and read as they are; what is not a series of one table is refused by name."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from normwise.core.errors import InputError
from normwise.data.checkpoint_series import open_series

TABLE = "model.embed_tokens.weight"


def save(path, *, seed, name=TABLE, shape=(5, 3), dtype=np.float32, more=None):
    path.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    save_file({name: values, **(more or {})}, path / "model.safetensors")
    return values


def test_a_series_is_read_in_the_order_of_its_steps(tmp_path):
    values = {step: save(tmp_path / f"checkpoint-{step}", seed=step) for step in (1000, 200, 30)}
    (tmp_path / "runs").mkdir()
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    (tmp_path / ".cache").mkdir()
    series = open_series(tmp_path)
    assert [each.step for each in series] == [30, 200, 1000]
    assert {each.table for each in series} == {TABLE}
    for each in series:
        np.testing.assert_array_equal(each.rows[0:5], values[each.step])
    assert [each.step for each in open_series(tmp_path, leave_out=[200])] == [30, 1000]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step500", 500),
        ("checkpoint-500", 500),
        ("iter_0000500", 500),
        ("stage1-step500-tokens2B", 500),
        ("500", 500),
        ("epoch=3-step=500", 500),
    ],
)
def test_steps_are_read_from_names(tmp_path, name, step):
    save(tmp_path / name, seed=0)
    save(tmp_path / "step9000", seed=1)
    assert open_series(tmp_path)[0].step == step


def test_files_and_the_state_of_a_trainer_tell_steps(tmp_path):
    save_file({TABLE: np.ones((4, 2), np.float32)}, tmp_path / "step-7.safetensors")
    save(tmp_path / "best", seed=1, shape=(4, 2))
    (tmp_path / "best" / "trainer_state.json").write_text(json.dumps({"global_step": 40}))
    assert [each.step for each in open_series(tmp_path)] == [7, 40]


def test_equal_values_have_one_digest_whatever_their_type(tmp_path):
    values = np.array([[1.0, -0.0], [0.5, 2.0]], dtype=np.float32)
    for step, table in enumerate((values, (values + 0.0).astype(np.float16), -values), start=1):
        path = tmp_path / f"step{step}"
        path.mkdir()
        save_file({TABLE: table}, path / "model.safetensors")
    first, half, other = (each.digest() for each in open_series(tmp_path))
    assert first == half != other


def test_values_that_are_not_finite_are_named(tmp_path):
    save(tmp_path / "step1", seed=0)
    values = save(tmp_path / "step2", seed=1)
    values[3, 1] = np.nan
    save_file({TABLE: values}, tmp_path / "step2" / "model.safetensors")
    series = open_series(tmp_path)
    series[0].digest()
    with pytest.raises(InputError, match=rf"step2: row 3 \(from 0\) of {TABLE} holds a value that is not finite, nan: .*--leave-out 2"):
        series[1].digest()


def refuse(folder, match, **options):
    with pytest.raises(InputError, match=match):
        open_series(folder, **options)


def test_what_is_no_series_is_refused(tmp_path):
    refuse(tmp_path / "none", "is no folder; expected one with checkpoints")
    refuse(tmp_path, "holds 0 checkpoint with weights; expected at least 2")
    save(tmp_path / "step1", seed=0)
    refuse(tmp_path, "holds 1 checkpoint with weights")
    refuse(tmp_path, "step 9 is to be left out, and .* has none of that step; it has 1", leave_out=[9])
    save(tmp_path / "checkpoint-1", seed=1)
    refuse(tmp_path, "checkpoint-1 and step1 in .* are both of step 1")


def test_steps_that_cannot_be_told_are_refused(tmp_path):
    save(tmp_path / "step1", seed=0)
    save(tmp_path / "final", seed=1)
    refuse(tmp_path, r"which step is .*final\? it has no number: rename it to step-NUMBER")
    (tmp_path / "final").rename(tmp_path / "run-3-of-8")
    refuse(tmp_path, r"which step is .*run-3-of-8\? it has the numbers 3, 8")
    (tmp_path / "run-3-of-8").rename(tmp_path / "checkpoint-8")
    (tmp_path / "checkpoint-8" / "trainer_state.json").write_text('{"global_step": 6}')
    refuse(tmp_path, "checkpoint-8 is named for step 8, and its trainer_state.json says 6")


def test_one_checkpoint_is_no_series(tmp_path):
    save(tmp_path, seed=0)
    (tmp_path / "config.json").write_text("{}")
    refuse(tmp_path, "is one checkpoint; give the folder that holds several")


def test_tables_that_do_not_fit_each_other_are_refused(tmp_path):
    save(tmp_path / "step1", seed=0)
    save(tmp_path / "step2", seed=0, shape=(6, 3))
    refuse(tmp_path, r"step1 has a table of shape \(5, 3\), and step2 one of \(6, 3\)")
    save(tmp_path / "step2", seed=0, name="wte.weight")
    refuse(tmp_path, "step1 has its embedding in model.embed_tokens.weight, and step2 in wte.weight")


def test_an_optimizer_is_not_taken_for_weights(tmp_path):
    save(tmp_path / "step1", seed=0)
    (tmp_path / "step2").mkdir()
    (tmp_path / "step2" / "optimizer.pt").write_bytes(b"state")
    refuse(tmp_path, "step2 holds optimizer.pt, an optimizer's state, and no weights")
    save(tmp_path / "step2", seed=0, name=f"state.{TABLE}.exp_avg")
    refuse(tmp_path, r"step2 holds an optimizer's state, such as state.model.embed_tokens.weight.exp_avg")
    save(tmp_path / "step2", seed=0, more={"exp_avg_sq.embed_tokens.weight": np.ones((5, 3), np.float32)})
    refuse(tmp_path, "step2 holds an optimizer's state")
    assert len(open_series(tmp_path, table=TABLE)) == 2


def test_a_checkpoint_that_is_not_whole_is_refused(tmp_path):
    save(tmp_path / "step1", seed=0)
    save(tmp_path / "step2", seed=1)
    whole = (tmp_path / "step2" / "model.safetensors").read_bytes()
    (tmp_path / "step2" / "model.safetensors").write_bytes(whole[:-4])
    refuse(tmp_path, "step2.*is not a whole safetensors file")
    (tmp_path / "step2" / "model.safetensors").unlink()
    (tmp_path / "step2" / "pytorch_model.bin").write_bytes(b"x")
    refuse(tmp_path, "keeps its weights in pytorch_model.bin, a pickle, which is never opened here")
    (tmp_path / "step2" / "pytorch_model.bin").unlink()
    index = {"weight_map": {TABLE: "model-00002-of-00002.safetensors"}}
    (tmp_path / "step2" / "model.safetensors.index.json").write_text(json.dumps(index))
    refuse(tmp_path, "model-00002-of-00002.safetensors")


def test_a_checkpoint_that_is_still_being_written_is_no_folder_of_logs(tmp_path):
    for step in (1, 2):
        save(tmp_path / f"checkpoint-{step}", seed=step)
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "config.json").write_text("{}")
    refuse(tmp_path, "checkpoint-3 is named as a checkpoint and holds no weights: it is still being written.*--leave-out 3")
    (tmp_path / "checkpoint-3" / "model.safetensors").write_bytes(b"")
    refuse(tmp_path, "checkpoint-3.*is not a whole safetensors file: its header cannot be 0 bytes of 0")
    assert [each.step for each in open_series(tmp_path, leave_out=[3])] == [1, 2]


def test_what_is_broken_can_be_left_out(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path / f"checkpoint-{step}", seed=step)
    (tmp_path / "checkpoint-2" / "model.safetensors").unlink()
    (tmp_path / "checkpoint-2" / "optimizer.pt").write_bytes(b"state")
    assert [each.step for each in open_series(tmp_path, leave_out=[2])] == [1, 3]
    refuse(tmp_path, r"holds 1 checkpoint with weights; .*\(besides 1, 2, left out\)", leave_out=[1, 2])
    (tmp_path / "loss-9.txt").write_text("no checkpoint")
    refuse(tmp_path, "step 9 is to be left out, and .* has none of that step; it has 1, 2, 3", leave_out=[2, 9])


def test_the_finished_model_beside_its_checkpoints_is_passed_over(tmp_path):
    save(tmp_path, seed=0)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "1_Pooling").mkdir()
    for step in (10, 20):
        save(tmp_path / f"checkpoint-{step}", seed=step)
    assert [each.step for each in open_series(tmp_path)] == [10, 20]


@pytest.mark.parametrize(
    "name",
    [
        "model.embed_tokens.weight",
        "transformer.wte.weight",
        "embeddings.word_embeddings.weight",
        "0.auto_model.embeddings.word_embeddings.weight",
        "gpt_neox.embed_in.weight",
    ],
)
def test_tables_of_tokens_are_found_among_others(tmp_path, name):
    more = {each: np.ones((5, 3), np.float32) for each in ("lm_head.weight", "embeddings.position_embeddings.weight")}
    for step in (1, 2):
        save(tmp_path / f"step{step}", seed=step, name=name, more=more)
    assert {each.table for each in open_series(tmp_path)} == {name}
    refuse(tmp_path, "has no tensor 'wpe': known names: .*lm_head.weight", table="wpe")


@pytest.mark.parametrize("kind", ["F8_E4M3", "I8"])
def test_quantized_tables_are_refused(tmp_path, kind):
    save(tmp_path / "step1", seed=1)
    header = json.dumps({TABLE: {"dtype": kind, "shape": [5, 3], "data_offsets": [0, 15]}}).encode()
    (tmp_path / "step2").mkdir()
    (tmp_path / "step2" / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(15))
    refuse(tmp_path, rf"step2: no table of floats .* got {TABLE} \(5, 3\) of {kind} \(quantized: convert it first\)")
