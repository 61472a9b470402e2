from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import PeftModel
from peft.tuners.lora import Linear as LoraLinear
from sentence_transformers import SentenceTransformer

from normwise.core.config import LoraConfig, StageConfig
from normwise.core.errors import InputError, WorkError
from normwise.models.lora import attach_lora, merge_lora
from normwise.models.probe import PROBE_TEXTS, probe_vectors
from normwise.models.structure import linear_names

STAGE = StageConfig.read({"name": "one", "trainable": "lora", "temperature": 0.05})


def adapted(make_small, *, rank=4, fill=True, **settings):
    st = make_small(**settings)
    attach_lora(st, LoraConfig(rank=rank, alpha=2.0 * rank))
    if fill:
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for name, parameter in st.named_parameters():
                if ".lora_B." in name:
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return st


def test_fresh_adapters_change_nothing_and_cover_every_linear_map(make_small):
    plain = make_small()
    expected = probe_vectors(plain)
    names = attach_lora(plain, LoraConfig(rank=4))
    assert list(names) == linear_names(make_small()[0].model)
    np.testing.assert_array_equal(probe_vectors(plain), expected)
    adapters = [name for name, parameter in plain.named_parameters() if parameter.requires_grad]
    assert len(adapters) == 2 * len(names)
    assert not any("pooler" in name for name in adapters)


def test_adapters_are_seeded_and_leave_the_global_random_state(make_small):
    torch.manual_seed(1)
    expected = torch.rand(3)
    states = []
    for seed in (0, 0, 1):
        st = make_small()
        torch.manual_seed(1)
        attach_lora(st, LoraConfig(rank=4), seed=seed)
        assert torch.equal(torch.rand(3), expected)
        states.append(st.state_dict()["0.model.base_model.model.encoder.layer.0.output.dense.lora_A.default.weight"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_targets_by_the_last_parts_of_a_name(make_small):
    assert attach_lora(make_small(), LoraConfig(targets=("attention.self.query", "value"))) == (
        "encoder.layer.0.attention.self.query",
        "encoder.layer.0.attention.self.value",
    )


def test_an_unknown_target_lists_the_linear_maps(make_small):
    with pytest.raises(InputError, match=r"'quary' names no linear map of the encoder: did you mean query"):
        attach_lora(make_small(), LoraConfig(targets=("quary",)))
    with pytest.raises(InputError, match=r"'pooler' names no linear map of the encoder: known names: dense, key, query, value"):
        attach_lora(make_small(), LoraConfig(targets=("pooler",)))


def test_attaching_twice_and_merging_nothing_are_errors(make_small):
    st = adapted(make_small)
    with pytest.raises(InputError, match="attached already"):
        attach_lora(st, LoraConfig())
    with pytest.raises(InputError, match="no adapters to merge"):
        merge_lora(make_small())


def test_a_merge_answers_as_before_and_leaves_a_plain_model(make_small, tmp_path):
    st = adapted(make_small, layers=2)
    before, untouched = probe_vectors(st), probe_vectors(make_small(layers=2))
    report = merge_lora(st, tolerance=1e-4)
    after = probe_vectors(st)
    assert report.passed
    assert report.name == "merge"
    assert report.figures["largest_difference"] == pytest.approx(float(np.abs(after - before).max()))
    norms = np.linalg.norm(after.astype(float), axis=1) - np.linalg.norm(before.astype(float), axis=1)
    assert report.figures["largest_norm_difference"] == pytest.approx(float(np.abs(norms).max()))
    assert 0 < report.figures["largest_difference"] < 1e-4
    assert report.figures["adapter_effect"] == pytest.approx(float(np.abs(before - untouched).max()))
    assert report.figures["adapter_effect"] > 0.1
    # Nothing of peft is left: the names are those of a model that never had adapters.
    assert st.state_dict().keys() == make_small(layers=2).state_dict().keys()
    assert not isinstance(st[0].model, PeftModel)
    assert not hasattr(st[0].model, "peft_config")
    assert not any(parameter.requires_grad for parameter in st.parameters())
    st.save(str(tmp_path), create_model_card=False)
    np.testing.assert_array_equal(probe_vectors(SentenceTransformer(str(tmp_path), device="cpu")), after)


def test_a_merge_of_a_model_in_training_mode_ignores_dropout(make_small):
    st = make_small()
    attach_lora(st, LoraConfig(rank=4, dropout=0.5))
    st.train()
    assert merge_lora(st).passed


def test_a_merge_that_loses_the_adapters_is_refused(make_small, monkeypatch):
    # What an untuned model after "merging" looks like: the adapters are unloaded, not added.
    st = adapted(make_small)
    monkeypatch.setattr(PeftModel, "merge_and_unload", lambda self, **_: self.unload(), raising=False)
    with pytest.raises(WorkError, match=r"does not answer as the model with adapters did: vectors differ by at most 0\.\d+"):
        merge_lora(st)


def test_a_merge_with_one_corrupt_adapter_is_refused(make_small, monkeypatch):
    st = adapted(make_small)
    merge = LoraLinear.merge
    seen = []

    def corrupt(self, *args, **kwargs):
        if not seen:
            seen.append(self)
            with torch.no_grad():
                self.lora_B["default"].weight[0, 0] += 0.5
        return merge(self, *args, **kwargs)

    monkeypatch.setattr(LoraLinear, "merge", corrupt)
    with pytest.raises(WorkError, match="does not answer as the model with adapters did"):
        merge_lora(st)
    assert seen


def test_a_tolerance_that_rounding_exceeds_refuses(make_small):
    with pytest.raises(WorkError, match=r"allowed \d.*e-1\d"):
        merge_lora(adapted(make_small), tolerance=1e-12)


def test_an_adapter_that_is_not_a_number_is_refused(make_small):
    st = adapted(make_small)
    with torch.no_grad():
        st.get_parameter("0.model.base_model.model.encoder.layer.0.output.dense.lora_B.default.weight").fill_(float("nan"))
    with pytest.raises(WorkError, match="could not be merged: .*diverged"):
        merge_lora(st)


def test_probe_texts_may_be_chosen(make_small):
    report = merge_lora(adapted(make_small), PROBE_TEXTS[4:7])
    assert report.figures["texts"] == 3
