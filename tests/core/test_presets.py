"""Published recipes: what stands in a config for a name, and that it is what was published."""

import pytest

from normwise.core.config import PaceConfig
from normwise.core.errors import InputError
from normwise.core.presets import PRESETS


def config(**arms):
    return PaceConfig.read({"data": {"name": "x"}, "arms": arms})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_valid_arm_and_comes_back_from_its_json(name):
    whole = config(arm=name)
    assert whole.arms["arm"]
    assert PaceConfig.model_validate_json(whole.model_dump_json()) == whole


def test_pace_is_as_published():
    # Tables 3 of arXiv 2609.15152.
    first, second = config(pace="pace").arms["pace"]
    assert (first.similarity.value, first.trainable.value, first.lora_settings.rank) == ("cosine", "lora", 32)
    assert (first.temperature.value, first.learning_rate) == (0.1, 2e-5)
    assert (second.similarity.value, second.trainable.value, second.temperature.value, second.learning_rate) == ("dot", "full", 100.0, 2e-6)
    assert second.start_step == 2000
    for stage in (first, second):
        assert (stage.batch_size, stage.hard_negatives, stage.warmup_ratio, stage.focal.gamma) == (32, 5, 0.05, 2.0)
        # The vision tower and the projector rest.
        assert not {"vision", "projector"} & set(stage.unfreeze)


def test_the_baseline_differs_from_the_first_stage_in_the_focal_weights_alone():
    whole = config(baseline="vlm2vec", pace="pace")
    assert whole.arms["baseline"][0] == whole.arms["pace"][0].model_copy(update={"focal": None})


def test_names_stand_beside_written_stages_and_a_wrong_one_lists_the_near():
    stage = {"name": "a", "temperature": 0.1}
    assert len(config(one="vlm2vec-original", two=[stage]).arms) == 2
    with pytest.raises(InputError, match=r"preset 'pase' is unknown: did you mean pace"):
        config(one="pase")
