"""The settings: strict, frozen, no field that is ignored, every mistake named with near names."""

import pytest
from pydantic import ValidationError

from normwise.core.config import FocalConfig, NegativeSource, PaceConfig, StageConfig, TemperatureConfig
from normwise.core.errors import InputError

ANGULAR = {"name": "angular", "similarity": "cosine", "temperature": 0.1, "trainable": "lora", "steps": 10}
NORM = {"name": "norm", "similarity": "dot", "temperature": "match", "steps": 10}


def config(**changes):
    return {"data": {"name": "python-docs"}, "arms": {"pace": [ANGULAR, NORM]}, **changes}


def stage(**changes):
    return StageConfig.read({"name": "a", "temperature": 0.1, **changes})


def test_a_run_round_trips():
    read = PaceConfig.read(config())
    assert PaceConfig.read(read.model_dump(exclude_unset=True)) == read
    assert PaceConfig.model_validate_json(read.model_dump_json(exclude_unset=True)) == read


def test_a_stage_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        stage().steps = 3


def test_scale_is_one_over_temperature():
    assert stage(temperature={"scale": 20}).temperature.value == stage(temperature=0.05).temperature.value == 0.05
    assert "scale" not in stage(temperature={"scale": 20}).model_dump()["temperature"]


@pytest.mark.parametrize(
    ("temperature", "message"),
    [
        ({"value": 0.05, "scale": 20}, "temperature as value or as scale = 1/value, not both"),
        ({}, "mode fixed needs value"),
        ({"mode": "learnable", "value": 0.1, "minimum": 0.2}, r"value 0\.1 lies outside minimum\.\.maximum 0\.2"),
        ({"value": 0.1, "minimum": 2, "maximum": 1}, r"minimum 2\.0 must be below maximum 1\.0"),
        (0, "greater than 0"),
        ({"scale": -20}, "greater than 0"),
        (float("nan"), "finite number"),
        ("hot", "temperature"),
    ],
)
def test_a_temperature_has_one_meaning(temperature, message):
    with pytest.raises(InputError, match=message):
        stage(temperature=temperature)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora": {"rank": 4}}, "lora settings given, but trainable is full"),
        ({"trainable": "lora", "unfreeze": ["norms"]}, "unfreeze belongs to trainable = full"),
        ({"symmetric": True, "negatives": "corrected"}, "the symmetric loss needs in_batch negatives"),
        ({"loss": "dcl", "focal": {}}, "focal weights are defined for the infonce loss"),
        ({"batch_size": 1}, "batch_size 1 with hard_negatives 0 leaves every query without a negative"),
        ({"negatives": "uniform"}, "count is needed with source uniform"),
        ({"negatives": {"source": "in_batch", "count": 4}}, "count is needed with source uniform, and only there"),
        ({"negatives": {"source": "in_batch", "smoothing": 1}}, "smoothing belongs to source corrected"),
        ({"similarity": "euclid"}, "similarity: Input should be 'cosine', 'dot'"),
        ({"hard_negatives": 2, "negatives": "corrected"}, "corrected negatives need hard_negatives 0"),
        ({"name": "a/b"}, "name: String should match pattern"),
        ({"steps": 0}, "steps: Input should be greater than or equal to 1"),
        ({"learning_rate": 0}, "learning_rate: Input should be greater than 0"),
        ({"warmup_ratio": 1}, "warmup_ratio: Input should be less than 1"),
        ({"focal": {"gamma": -1}}, r"focal\.gamma: Input should be greater than or equal to 0"),
        ({"unfreeze": []}, "unfreeze: .*at least 1 item"),
        ({"unfreeze": ["pooler"]}, "unfreeze"),
    ],
)
def test_what_does_not_apply_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        stage(**changes)


def test_one_row_batches_with_other_negatives_are_fine():
    assert stage(batch_size=1, hard_negatives=2).batch_size == 1
    assert stage(batch_size=1, negatives={"source": "uniform", "count": 8}).negatives.source is NegativeSource.UNIFORM


def test_defaults_of_adapters_and_focal_weights():
    assert stage(trainable="lora").lora_settings.rank == 32
    assert FocalConfig().gamma == 2.0
    assert TemperatureConfig(mode="match").value is None


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ({}, "arms: .*at least 1 item"),
        ({"x": []}, "arm 'x' has no stage"),
        ({"x": [NORM]}, "arm 'x': its first stage has no stage before it to match"),
        ({"x": [{**ANGULAR, "start_step": 5}]}, "arm 'x': start_step picks a checkpoint of the stage before"),
        ({"x": [ANGULAR, {**NORM, "start_step": 11}]}, "start_step 11 lies past the 10 steps of 'angular'"),
        ({"x": [ANGULAR, {**NORM, "name": "angular"}]}, "arm 'x': two stages share a name"),
    ],
)
def test_an_arm_hangs_together(arms, message):
    with pytest.raises(InputError, match=message):
        PaceConfig.read(config(arms=arms))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (config(seeds=[]), "seeds: .*at least 1 item"),
        (config(seeds=[1, 1]), "a seed is repeated"),
        (config(data={}), r"key 'data\.name' is missing"),
        (config(data={"name": "x", "limit_querys": 5}), r"unknown key 'data\.limit_querys': did you mean limit_queries"),
        (config(model={"head": {"dimension": 5}}), r"unknown key 'model\.head\.dimension': did you mean dimensions\?"),
        (config(arms={"x": [{**ANGULAR, "focal": {"gama": 2}}]}), r"unknown key 'arms\.x\.0\.focal\.gama': did you mean gamma\?"),
        (config(precison="bf16"), "unknown key 'precison': did you mean precision"),
        (config(zzz=1), "unknown key 'zzz': known names: arms, bootstrap, .*data"),
        (
            config(claims=[{"name": "c", "higher": ["pace", "dot"], "lower": ["cosin", "cosine"]}]),
            "claim 'c': arm 'cosin' is unknown: known names: pace",
        ),
    ],
)
def test_a_mistake_in_a_run_is_named(values, message):
    with pytest.raises(InputError, match=message):
        PaceConfig.read(values)


def test_all_mistakes_are_told_at_once_with_their_source():
    with pytest.raises(
        InputError, match=r"run\.toml: key 'data\.name' is missing; .*'data\.nam': did you mean name\?; .*'seed': did you mean seeds\?"
    ):
        PaceConfig.read({"data": {"nam": "x"}, "arms": {"a": [ANGULAR]}, "seed": 3}, source="run.toml")
