from __future__ import annotations

import pytest
import torch

from normwise.core.config import LoraConfig, RadialHeadConfig, StageConfig
from normwise.core.errors import InputError
from normwise.models.loading import add_radial_head
from normwise.models.lora import attach_lora, merge_lora
from normwise.models.trainable import parameter_snapshot, set_trainable, unmoved


def stage(**settings):
    return StageConfig.read({"name": "s", "temperature": 0.05, **settings})


def learning(st):
    return {name for name, parameter in st.named_parameters() if parameter.requires_grad}


def loss_of(st, texts=("one small text", "another one, longer")):
    features = st.preprocess(list(texts))
    return st(features)["sentence_embedding"].square().sum()


def test_full_trains_everything_but_the_pooler(make_small):
    st = make_small()
    names = set_trainable(st, stage())
    everything = {name for name, _ in st.named_parameters()}
    pooler = {name for name in everything if "pooler" in name}
    assert len(pooler) == 2
    assert learning(st) == everything - pooler
    keys = {name for name in everything if name.endswith("key.bias")}
    assert len(keys) == 1
    assert set(names) == everything - pooler - keys


def test_the_parts_are_disjoint_and_cover_the_whole(make_small):
    st = make_small()
    add_radial_head(st, RadialHeadConfig(dimensions=8))
    parts = {}
    for part in ("embeddings", "encoder", "norms", "head"):
        set_trainable(st, stage(unfreeze=[part]))
        parts[part] = learning(st)
    assert parts["embeddings"] == {name for name, _ in st.named_parameters() if "embeddings.weight" in name}
    assert parts["norms"] == {name for name, _ in st.named_parameters() if "LayerNorm" in name}
    assert parts["head"] == {"2.linear.weight"}
    assert len(parts["encoder"]) == 12
    together = set().union(*parts.values())
    assert sum(map(len, parts.values())) == len(together)
    set_trainable(st, stage())
    assert learning(st) == together


def test_norms_of_an_rmsnorm_decoder(make_decoder):
    st = make_decoder()
    set_trainable(st, stage(unfreeze=["norms"]))
    assert len(learning(st)) == 2 * 3 + 1
    assert all("norm" in name for name in learning(st))


def test_head_only(make_small):
    st = make_small()
    with pytest.raises(InputError, match="trainable = head, but the model has no head: set model.head.dimensions"):
        set_trainable(st, stage(trainable="head"))
    add_radial_head(st, RadialHeadConfig(dimensions=8))
    assert set_trainable(st, stage(trainable="head")) == ("2.linear.weight",)
    assert learning(st) == {"2.linear.weight"}


def test_nothing_to_train_is_an_error(make_small):
    with pytest.raises(InputError, match="no parameter would be trained"):
        set_trainable(make_small(), stage(unfreeze=["head"]))


def test_lora_trains_adapters_and_head_and_other_stages_want_a_merge(make_small):
    st = make_small()
    with pytest.raises(InputError, match="none are attached: call attach_lora first"):
        set_trainable(st, stage(trainable="lora"))
    add_radial_head(st, RadialHeadConfig(dimensions=8))
    attach_lora(st, LoraConfig(rank=2))
    names = set_trainable(st, stage(trainable="lora"))
    assert set(names) == learning(st)
    assert {name for name in names if ".lora_" not in name} == {"2.linear.weight"}
    with pytest.raises(InputError, match="adapters are still attached: merge them first"):
        set_trainable(st, stage())
    # After the merge nothing learns until it is switched on.
    merge_lora(st)
    assert learning(st) == set()
    assert len(set_trainable(st, stage())) > 12


def test_choosing_leaves_gradients_mode_and_random_state_alone(make_small):
    st = make_small()
    st.train()
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    set_trainable(st, stage())
    assert torch.equal(torch.rand(2), expected)
    assert st.training
    assert all(parameter.grad is None for parameter in st.parameters())


def test_key_biases_get_a_gradient_of_rounding_size_only(make_small):
    st = make_small()
    set_trainable(st, stage())
    loss_of(st).backward()
    key = st.get_parameter("0.model.encoder.layer.0.attention.self.key.bias").grad
    query = st.get_parameter("0.model.encoder.layer.0.attention.self.query.bias").grad
    assert key is not None
    assert query is not None
    assert key.abs().max() < 1e-4 * query.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_snapshot_sees_one_changed_bit(make_small, dtype):
    st = make_small().to(dtype)
    names = set_trainable(st, stage())
    snapshot = parameter_snapshot(st, names)
    assert unmoved(st, snapshot) == names
    changed = "0.model.embeddings.word_embeddings.weight"
    with torch.no_grad():
        weight = st.get_parameter(changed)
        weight[7, 3] = torch.nextafter(weight[7, 3], torch.tensor(9.0, dtype=dtype))
    assert set(names) - set(unmoved(st, snapshot)) == {changed}


def test_adapters_have_all_moved_after_two_steps_but_not_after_one(make_small):
    st = make_small()
    attach_lora(st, LoraConfig(rank=2))
    names = set_trainable(st, stage(trainable="lora"))
    snapshot = parameter_snapshot(st, names)
    optimizer = torch.optim.AdamW([st.get_parameter(name) for name in names], lr=1e-3, weight_decay=0.0)
    left = []
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(st).backward()
        optimizer.step()
        left.append(unmoved(st, snapshot))
    assert set(left[0]) == {name for name in names if ".lora_A." in name}
    assert left[1] == ()


def test_a_full_stage_moves_every_named_tensor_in_two_steps(make_small):
    st = make_small()
    names = set_trainable(st, stage())
    snapshot = parameter_snapshot(st, names)
    optimizer = torch.optim.AdamW([p for p in st.parameters() if p.requires_grad], lr=2e-5)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(st).backward()
        optimizer.step()
    assert unmoved(st, snapshot) == ()


def test_a_detached_tensor_is_named(make_small):
    st = make_small()
    names = set_trainable(st, stage())
    snapshot = parameter_snapshot(st, names)
    forgotten = names[3]
    optimizer = torch.optim.AdamW([st.get_parameter(name) for name in names if name != forgotten], lr=1e-4)
    loss_of(st).backward()
    optimizer.step()
    assert unmoved(st, snapshot) == (forgotten,)
