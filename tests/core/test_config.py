"""The settings: strict, frozen, no field that is ignored, every mistake named with near names."""

import hashlib

import pytest
from pydantic import ValidationError

from normwise.core.config import UNTRAINED, DataConfig, FocalConfig, NegativeSource, PaceConfig, StageConfig, TemperatureConfig
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


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: StageConfig(name="a", temperature=0.1, stepz=3), r"^StageConfig: unknown key 'stepz': did you mean steps\?$"),
        (lambda: StageConfig(name="a"), "^StageConfig: key 'temperature' is missing$"),
        (lambda: StageConfig(name="a", temperature=-1, steps=0), r"temperature\.value: .* above 0 \(got -1\); steps: .* \(got 0\)$"),
        (lambda: TemperatureConfig(value=0.1, scale=10), "^TemperatureConfig: give temperature as value or as scale = 1/value, not both$"),
        (
            lambda: PaceConfig(data=DataConfig(name="x"), arms={"pace": [{**ANGULAR, "negatives": {"sauce": 1}}]}),
            r"^PaceConfig: unknown key 'arms\.pace\.0\.negatives\.sauce': did you mean source\?$",
        ),
    ],
)
def test_a_direct_construction_tells_its_mistakes_as_reading_does(build, words):
    with pytest.raises(InputError, match=words) as caught:
        build()
    assert "pydantic" not in str(caught.value)


def test_validation_keeps_its_own_errors_and_their_places():
    with pytest.raises(ValidationError, match="Extra inputs are not permitted") as caught:
        PaceConfig.model_validate(config(arms={"pace": [{**ANGULAR, "stepz": 3}]}))
    assert [problem["loc"] for problem in caught.value.errors()] == [("arms", "pace", 0, "stepz")]
    with pytest.raises(ValidationError):
        StageConfig.model_validate_json('{"name": "a"}')
    inner = StageConfig(**ANGULAR)
    assert PaceConfig(data=DataConfig(name="x"), arms={"pace": (inner,)}).arms["pace"][0] is inner


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
        (0, "above 0"),
        ({"scale": -20}, "above 0"),
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
        ({"similarity": "euclid"}, "similarity: expected 'cosine', 'dot'"),
        ({"hard_negatives": 2, "negatives": "corrected"}, "corrected negatives need hard_negatives 0"),
        ({"name": "a/b"}, "name: String should match pattern"),
        ({"steps": 0}, "steps: expected 1 or above"),
        ({"learning_rate": 0}, "learning_rate: expected above 0"),
        ({"warmup_ratio": 1}, "warmup_ratio: expected below 1"),
        ({"focal": {"gamma": -1}}, r"focal\.gamma: expected 0 or above"),
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": True}, r"steps: expected a whole number \(got True\)"),
        ({"steps": "2"}, r"steps: expected a whole number \(got '2'\)"),
        ({"steps": 2.0}, "steps: expected a whole number"),
        ({"learning_rate": "1e-5"}, "learning_rate: expected a number"),
        ({"learning_rate": True}, "learning_rate: expected a number"),
        ({"learning_rate": 10**400}, r"learning_rate: expected a number \(got a whole number far too large\)"),
        ({"symmetric": "yes"}, "symmetric: expected true or false"),
        ({"symmetric": 1}, "symmetric: expected true or false"),
        ({"temperature": True}, 'expected a number, "match" or a table'),
        ({"temperature": "learnable"}, r'temperature = \{ mode = "learnable", value = 0\.05 \} \(got .learnable.\)'),
        ({"temperature": {"scale": True}}, r"temperature\.scale: expected a number \(got True\)$"),
        ({"temperature": {"scale": "20"}}, r"temperature\.scale: expected a number \(got '20'\)$"),
        ({"temperature": {"scale": 10**400}}, r"scale lies outside 1e-300\.\.1e\+300$"),
        ({"temperature": {"scale": 1e-320}}, "scale lies outside"),
        ({"scale": 20}, r"unknown key 'scale': it belongs to temperature: write temperature = \{ scale = 20 \}$"),
        ({"rank": [1]}, r"unknown key 'rank': it belongs to lora: write lora = \{ rank = \.\.\. \}$"),
        ({"lora": 4, "trainable": "lora"}, r"lora: expected a table with any of the keys rank, alpha, dropout, targets, vision \(got 4\)"),
        ({"unfreeze": "norms"}, r"unfreeze: expected a list \(got 'norms'\)"),
    ],
)
def test_a_value_of_another_kind_is_refused_and_explained(changes, message):
    with pytest.raises(InputError, match=message):
        stage(**changes)


@pytest.mark.parametrize("key", ["name", "dev", "test"])
@pytest.mark.parametrize(
    ("text", "message"), [("", "is empty"), (" ", "is empty"), ("a\0b", "holds a NUL"), ("\udcff", "half a character")]
)
def test_names_and_paths_are_text(key, text, message):
    with pytest.raises(InputError, match=rf"{key}: .*{message}"):
        DataConfig.read({"name": "x", key: text})


@pytest.mark.parametrize(
    "changes", [{"model": {"name": ""}}, {"report_to": [""]}, {"arms": {"": [ANGULAR]}}, {"data": {"name": "x", "roots": [""]}}]
)
def test_no_name_of_a_run_is_empty(changes):
    with pytest.raises(InputError, match="is empty"):
        PaceConfig.read(config(**changes))


@pytest.mark.parametrize("key", ["query_prompt", "candidate_prompt"])
def test_a_prompt_may_be_empty_and_must_be_text(key):
    assert getattr(PaceConfig.read(config(model={key: ""})).model, key) == ""
    with pytest.raises(InputError, match=rf"model\.{key}: holds half a character"):
        PaceConfig.read(config(model={key: "\ud800"}))


def claim(name="c", higher=("pace", "dot"), lower=("pace", "cosine"), **settings):
    return {"name": name, "higher": list(higher), "lower": list(lower), **settings}


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ([claim(), claim(lower=("pace", "candidate_normalized"))], "claim 'c': two claims share this name"),
        ([claim(lower=("pace", "dot"))], r"claim 'c': higher and lower have the same ndcg@10 by definition"),
        ([claim(lower=("pace", "query_normalized"))], "by definition"),
        ([claim(figure="e3_knn")], "the same e3_knn by definition"),
    ],
)
def test_a_claim_compares_two_things_under_a_name_of_its_own(claims, message):
    with pytest.raises(InputError, match=message):
        PaceConfig.read(config(claims=claims))


def test_claims_of_one_arm_over_two_rankings_stand():
    assert len(PaceConfig.read(config(claims=[claim(), claim("d", lower=("pace", "candidate_normalized"))])).claims) == 2


def test_the_name_of_the_baseline_is_taken():
    with pytest.raises(InputError, match="arm 'untrained': this is the name of the encoder before training"):
        PaceConfig.read(config(arms={UNTRAINED: [ANGULAR]}))


@pytest.mark.parametrize("seed", [-1, 2**32, True, 1.0])
def test_a_seed_is_one_that_every_generator_takes(seed):
    with pytest.raises(InputError, match=r"^config: seeds\.0: expected [^;]*$"):
        PaceConfig.read(config(seeds=[seed]))


def test_the_smallest_and_the_largest_seed_stand():
    assert PaceConfig.read(config(seeds=[0, 2**32 - 1])).seeds == (0, 4294967295)


@pytest.mark.parametrize(
    "values", [config(seeds=[1, 1]), config(arms={"x": [NORM]}), config(arms={"x": [{**ANGULAR, "lora": {}, "trainable": "full"}]})]
)
def test_no_message_dumps_a_table(values):
    with pytest.raises(InputError, match="^config: ") as caught:
        PaceConfig.read({**values, "model": {"query_prompt": "x" * 500}})
    assert "{" not in str(caught.value)
    assert "top level" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_long_value_is_shown_short():
    with pytest.raises(InputError, match=r"x{60,}\.\.\.") as caught:
        stage(loss="x" * 5000)
    assert len(str(caught.value)) < 300


def test_an_arm_named_like_a_setting_does_not_confuse_the_advice():
    with pytest.raises(InputError, match=r"unknown key 'arms\.focal\.0\.stpes': did you mean steps\?"):
        PaceConfig.read(config(arms={"focal": [{**ANGULAR, "stpes": 3}]}))


FULL = {
    "data": {"name": "x", "roots": ["a"], "limit_train": 5},
    "arms": {
        "a": [{"name": "s", "temperature": {"scale": 20}, "trainable": "lora", "lora": {"rank": 2, "alpha": 3}}, NORM],
        "b": [{"name": "s", "temperature": 1, "negatives": {"source": "uniform", "count": 4}, "learning_rate": 1}],
    },
    "claims": [claim(higher=("a", "dot"), lower=("b", "cosine"))],
    "seeds": [0, 1],
    "merge_tolerance": 1,
}


def test_the_json_of_a_run_stays_as_it_is_for_runs_that_go_on():
    # The hash of this text names a run's folder and its stages; it was taken before numbers became strict.
    text = PaceConfig.read(FULL).model_dump_json()
    assert hashlib.sha256(text.encode()).hexdigest() == "ddc9041c412abc8a2d2e558a168aee68a7aece86ecd8e99f948a3869f70dd558"


def test_all_mistakes_are_told_at_once_with_their_source():
    with pytest.raises(
        InputError, match=r"run\.toml: key 'data\.name' is missing; .*'data\.nam': did you mean name\?; .*'seed': did you mean seeds\?"
    ):
        PaceConfig.read({"data": {"nam": "x"}, "arms": {"a": [ANGULAR]}, "seed": 3}, source="run.toml")
