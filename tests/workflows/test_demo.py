"""The demo's settings: equal budgets, a shared first stage, claims about arms that are there."""

from __future__ import annotations

import pytest

from normwise.core.config import NegativesConfig, PaceConfig
from normwise.core.errors import InputError
from normwise.workflows.demo import arms, demo, demo_config
from normwise.workflows.job import check_claims


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("data", ["python-docs", "python-calls"])
def test_every_arm_has_the_same_number_of_steps(quick, data):
    config = demo_config(quick=quick, data=data)
    assert {sum(stage.steps for stage in stages) for stages in config.arms.values()} == {6 if quick else 76}
    assert config.arms["pace"][0] == config.arms["pace-focal"][0]
    assert config.data.limit_candidates <= 3_000
    assert PaceConfig.read(config.model_dump(mode="json")) == config
    check_claims(config)


def test_the_arms_are_what_they_are_called():
    found = arms(steps=10, batch_size=4, learning_rate=1e-4, negatives=NegativesConfig(source="corrected"))
    assert [(s.similarity, s.trainable) for s in found["cosine"]] == [("cosine", "full")]
    assert [(s.similarity, s.trainable) for s in found["dot"]] == [("dot", "full")]
    for name in ("pace", "pace-focal"):
        assert [(s.similarity, s.trainable) for s in found[name]] == [("cosine", "lora"), ("dot", "full")]
        assert found[name][1].temperature.mode == "match"
    assert found["pace"][1].focal is None
    assert found["pace-focal"][1].focal is not None
    assert {stage.negatives.source for stages in found.values() for stage in stages} == {"corrected"}


def test_the_demo_does_not_touch_a_foreign_folder(tmp_path):
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(InputError, match="holds other files"):
        demo(tmp_path, quick=True)
    assert (tmp_path / "thesis.tex").read_text() == "years"
