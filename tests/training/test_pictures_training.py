"""Training on pictures and texts: mixed columns, frozen towers that rest, features computed once, tasks apart."""

import copy
import io
import json
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from normwise.core.config import DataConfig, ModelConfig, PaceConfig, StageConfig
from normwise.core.errors import InputError
from normwise.data.batches import choose_plan, choose_plan_by_task
from normwise.data.load import load_data
from normwise.models.inputs import grouped_features
from normwise.models.loading import load_base
from normwise.models.trainable import set_trainable
from normwise.objectives.columns import embed_columns
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.training.collate import PairCollator
from normwise.training.picture_features import PictureFeatures
from normwise.training.stage import StageRun, train_stage
from normwise.workflows.comparison import embed
from normwise.workflows.train import train

pytestmark = pytest.mark.slow
COLORS = ("red", "green", "blue", "yellow", "black", "white", "orange", "purple", "gray", "pink")
SHAPES = ("circle", "square", "bar")


def drawing(color, shape):
    image = Image.new("RGB", (32, 32), "beige")
    pen = ImageDraw.Draw(image)
    if shape == "circle":
        pen.ellipse((4, 4, 28, 28), fill=color)
    else:
        pen.rectangle((6, 6, 26, 26) if shape == "square" else (2, 12, 30, 20), fill=color)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawings")
    rows = []
    for color in COLORS:
        for shape in SHAPES:
            name = f"{color}-{shape}.png"
            (folder / name).write_bytes(drawing(color, shape))
            rows.append({"query": f"a {color} {shape}", "query_image": None, "positive": None, "positive_image": name, "task": "t2i"})
            rows.append({"query": None, "query_image": name, "positive": f"{color} {shape}", "positive_image": None, "task": "i2t"})
            other = COLORS[(COLORS.index(color) + 1) % len(COLORS)]
            made = f"{other}-{shape}.png"
            rows.append({"query": f"in {other}", "query_image": name, "positive": None, "positive_image": made, "task": "composed"})
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def data(manifest):
    return load_data(DataConfig(name=str(manifest)), seed=0)


@cache
def opened():
    return load_base(ModelConfig(layers=1, max_tokens=8, vision={"dimensions": 16, "image_size": 32}))


def dual():
    """A dual encoder of real weights, untrained as yet; a copy takes a fraction of the time of opening it."""
    return copy.deepcopy(opened())


def stage(**settings):
    return StageConfig.model_validate({"name": "a", "temperature": 0.05, "steps": 3, "batch_size": 6, "learning_rate": 1e-3, **settings})


def run_of(data, **settings):
    return StageRun(
        pairs=data.train, plan=lambda stage, batches, seed: choose_plan(data.train, batch_size=6, steps=batches, seed=seed).batches, seed=0,
        **settings,
    )  # fmt: skip


def collator(st, data, config):
    return PairCollator(data.train, config, st.preprocess, group=lambda contents, prompt: grouped_features(st, contents, prompt=prompt))


def test_mixed_columns_embed_as_their_contents_do(data):
    st, config = dual().eval(), stage()
    rows = np.flatnonzero(np.asarray(data.train.tasks) == "composed")[:2].tolist() + list(range(4))
    batch = collator(st, data, config)([{"row": row} for row in rows])
    assert len(batch["label"]["groups"]) == 2
    prefixes = sorted({key.split("_")[0] for key in batch if key != "label"})
    features = [{key[len(name) + 1 :]: value for key, value in batch.items() if key.startswith(f"{name}_")} for name in prefixes]
    with torch.no_grad():
        columns = embed_columns(st, features, batch["label"])
    expected = embed(st, [data.train.queries[row] for row in rows], None)
    np.testing.assert_allclose(columns.queries.numpy(), expected, atol=1e-4)
    positives = embed(st, [data.train.corpus.contents[data.train.positives[row]] for row in rows], None)
    np.testing.assert_allclose(columns.candidates.numpy(), positives, atol=1e-4)
    numbers = [data.train.corpus.contents[data.train.positives[row]] for row in rows]
    same = columns.candidate_rows[:, 0].unsqueeze(0) == columns.candidate_rows[:, 0].unsqueeze(1)
    assert same.tolist() == [[a == b for b in numbers] for a in numbers]


def test_labels_of_mixed_columns_that_do_not_fit_are_refused(data):
    st, config = dual().eval(), stage()
    batch = collator(st, data, config)([{"row": row} for row in range(4)])
    loss = FocalEmbeddingLoss(st, temperature=0.05)
    features = [{"pixel_values": torch.zeros(1, 3, 32, 32), "modality": "image"}] * 3
    with pytest.raises(InputError, match="groups: 3 groups of features were expected"):
        embed_columns(st, features, {**batch["label"], "groups": [[torch.tensor([0])], [torch.tensor([0])]]})
    told = {"negative_counts": torch.zeros(1, dtype=torch.int64), "contents": torch.zeros(5)}
    with pytest.raises(InputError, match="contents: 2 numbers were expected beside groups"):
        embed_columns(st, features[:2], {**told, "groups": [[torch.tensor([0])]] * 2})
    assert loss.last is None
    with pytest.raises(InputError, match="the pairs have pictures, and the collator was given no way to read them"):
        PairCollator(data.train, config, st.preprocess)([{"row": row} for row in range(4)])


def test_a_frozen_vision_tower_stays_bit_for_bit_and_its_statistics_too(data, tmp_path):
    st = dual()
    before = {name: value.clone() for name, value in st.state_dict().items()}
    train_stage(st, stage(), run_of(data), tmp_path)
    vision = {name for name in before if name.startswith("0.sub_modules.image.0.")}
    changed = {name for name, value in st.state_dict().items() if not torch.equal(value, before[name])}
    assert vision
    assert not vision & changed
    assert {"0.sub_modules.image.2.linear.weight", "0.sub_modules.text.2.linear.weight"} <= changed


def test_features_computed_once_train_the_same_weights(data, tmp_path):
    class Nothing(PictureFeatures):
        def used_by(self, *args, **kwargs):
            from contextlib import nullcontext

            return nullcontext(None)

    torch.use_deterministic_algorithms(mode=True)
    try:
        known, plain = dual(), dual()
        train_stage(known, stage(steps=2), run_of(data), tmp_path / "a")
        train_stage(plain, stage(steps=2), run_of(data, features=Nothing()), tmp_path / "b")
    finally:
        torch.use_deterministic_algorithms(mode=False)
    assert not torch.equal(known[0].sub_modules["image"][2].linear.weight, opened()[0].sub_modules["image"][2].linear.weight)
    for name, value in known.state_dict().items():
        assert torch.allclose(value.float(), plain.state_dict()[name].float(), atol=2e-4), name
    assert "forward" not in vars(known[0].sub_modules["image"][0])


def test_looked_up_vectors_are_those_of_encoding(data):
    st = dual().eval()
    contents = [*data.train.queries[:9], *data.train.corpus.contents[:6]]
    features = PictureFeatures()
    first = features.encode(st, contents, prompt=None, batch_size=4)
    np.testing.assert_allclose(first, embed(st, contents, None), atol=1e-4)
    again = features.encode(st, contents, prompt=None, batch_size=5)
    np.testing.assert_allclose(again, first, atol=1e-4)
    with torch.no_grad():
        next(st[0].sub_modules["image"][0].parameters()).mul_(1.5)
    np.testing.assert_allclose(features.encode(st, contents, prompt=None), embed(st, contents, None), atol=1e-4)


@pytest.mark.parametrize("unfreeze", [("head",), ("vision", "head"), ("embeddings", "encoder", "norms", "head")])
def test_what_is_named_is_trained_and_the_gates_never(unfreeze):
    st = dual()
    names = set_trainable(st, stage(unfreeze=unfreeze))
    trained = {name for name, parameter in st.named_parameters() if parameter.requires_grad}
    assert any(".image.0." in name for name in trained) == ("vision" in unfreeze)
    assert any(".text.0." in name for name in trained) == ("encoder" in unfreeze)
    assert not any("squeeze" in name for name in trained)
    assert set(names) <= trained


def test_a_trained_vision_tower_takes_a_batch_with_one_picture_and_keeps_its_statistics(data, tmp_path):
    st = dual()
    before = {name: value.clone() for name, value in st.state_dict().items()}
    mixed = np.asarray(data.train.tasks)
    rows = np.concatenate([np.flatnonzero(mixed == "i2t")[:1], np.flatnonzero(mixed == "t2i")[:1]])
    run = StageRun(pairs=data.train, plan=lambda stage, batches, seed: (rows,) * batches, seed=0)
    train_stage(st, stage(unfreeze=("vision", "head"), batch_size=2), run, tmp_path)
    moved = {name for name, value in st.state_dict().items() if not torch.equal(value, before[name])}
    assert any(".image.0." in name for name in moved)
    assert not any("running" in name or "num_batches" in name for name in moved)


def test_what_no_content_passes_through_is_frozen():
    st = dual()
    set_trainable(st, stage(), modalities=frozenset({"image"}))
    assert {name for name, parameter in st.named_parameters() if parameter.requires_grad} == {"0.sub_modules.image.2.linear.weight"}


def test_batches_of_one_task_each(data):
    plan = choose_plan_by_task(data.train, batch_size=5, steps=40, seed=3)
    tasks = np.asarray(data.train.tasks)
    assert all(len(set(tasks[rows])) == 1 for rows in plan.batches)
    assert {tasks[rows[0]] for rows in plan.batches} == {"t2i", "i2t", "composed"}
    assert "of one task each, 3 tasks" in plan.words
    again = choose_plan_by_task(data.train, batch_size=5, steps=40, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(plan.batches, again.batches, strict=True))


def test_queries_search_the_candidates_of_their_task(data):
    for split in (data.dev, data.test):
        for task, asked, pool in split.searches():
            kinds = {type(split.corpus.contents[row]).__name__ for row in pool}
            assert kinds == ({"str"} if task == "i2t" else {"Picture"})
            assert all(set(split.relevance[query]) <= set(pool.tolist()) for query in asked)


def test_a_whole_run_over_mixed_tasks_with_both_stages_of_pace(manifest, tmp_path):
    config = PaceConfig.read({
        "data": {"name": str(manifest), "instructions": {"composed": "Find an image matching the described changes."}},
        "model": {"layers": 1, "max_tokens": 12, "vision": {"dimensions": 16, "image_size": 64}},
        "arms": {"pace": [
            {"name": "angular", "temperature": 0.05, "trainable": "lora", "steps": 8, "batch_size": 8, "batches": "by_task"},
            {"name": "radial", "similarity": "dot", "temperature": "match", "steps": 4, "batch_size": 8, "focal": {"gamma": 2.0}},
        ]},
        "bootstrap": 100,
    })  # fmt: skip
    result = train(config, tmp_path / "run")
    assert {run.name for run in result.runs} == {"untrained", "pace"}
    for run in result.runs:
        assert set(run.by_task) == {"t2i", "i2t", "composed"}
        mean = np.mean([run.by_task[task]["p@1"].mean for task in run.by_task])
        assert 0 <= mean <= 1
    from normwise.models.encoder import Encoder
    from normwise.workflows.evaluate import evaluate

    encoder = Encoder.load(tmp_path / "run" / "model")
    assert encoder.contract.modalities == ("text", "image")
    found = evaluate(encoder, str(manifest), split="test")
    assert set(found.by_task) == {"t2i", "i2t", "composed"}
