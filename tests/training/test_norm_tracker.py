"""The norm tracker on a table whose law is exact, on a real encoder, and on inputs it cannot take."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn

from normwise.core.errors import InputError
from normwise.models.structure import strip_normalize
from normwise.training.norm_tracker import NormTracker
from normwise.training.optimizer_reading import optimizer_settings, owning_group
from normwise.training.tracked_items import TrackedRows, TrackedTexts, row_keys

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "norms.md"
WORDS = [f"w{n}" for n in range(24)]


def table_model(*, normalize=False, seed=0):
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(seed)
    embedding = StaticEmbedding(tokenizer, embedding_dim=16)
    model = SentenceTransformer(modules=[embedding, Normalize()] if normalize else [embedding], device="cpu")
    with torch.no_grad():
        embedding.embedding.weight.copy_(nn.functional.normalize(torch.randn(24, 16), dim=1))
    return model


def train(model, folder, *, trackers=(), optimizer=None, steps=30, **settings):
    rng = np.random.default_rng(1)
    rows = rng.choice(12, size=8 * steps * settings.get("gradient_accumulation_steps", 1), p=np.arange(1, 13) / 78)
    data = Dataset.from_dict({"anchor": [WORDS[r] for r in rows], "positive": [WORDS[12 + r] for r in rows]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        **{"max_grad_norm": 0.0, "lr_scheduler_type": "constant", "learning_rate": 0.2, **settings},
    )
    extra = {} if optimizer is None else {"optimizers": (optimizer(model), None)}
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=MultipleNegativesRankingLoss(model), callbacks=list(trackers), **extra
    )
    trainer.train()
    return model[0].embedding.weight.detach().clone()


def guide_examples():
    """The Python of the guide's section on tracking: a trainer, a plain loop, and what goes into inspect."""
    text = GUIDE.read_text(encoding="utf-8").split("## Tracking a training\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def sgd(**settings):
    return lambda model: torch.optim.SGD(model.parameters(), **{"lr": 0.2, **settings})


def test_a_table_under_sgd_has_the_norms_of_the_law(tmp_path):
    model = table_model()
    tracker = NormTracker(TrackedTexts(model, WORDS[:12]))
    # Small angular steps: the law leaves out the quartic term, so it is low, and the less so the smaller the steps are.
    weight = train(model, tmp_path, trackers=[tracker], optimizer=sgd(lr=0.05))
    track = tracker.result()
    assert all(item.predicted_norm <= item.norm * (1 + 1e-6) for item in track.items if item.predicted_norm is not None)
    assert np.allclose([item.norm for item in track.items], weight[:12].norm(dim=1).numpy(), rtol=1e-6)
    assert track.law.r2 is not None
    assert track.law.r2 > 0.99
    assert track.law.spearman is not None
    assert track.law.spearman > 0.99
    assert track.radial_share is not None
    assert track.radial_share < 1e-8
    assert track.steps == 30
    assert sum(item.visits for item in track.items) > 30
    assert track.clipped_share == 0.0


def test_under_decay_the_law_takes_the_gradients_that_the_norm_still_holds(tmp_path):
    model = table_model(seed=3)
    tracker = NormTracker(TrackedTexts(model, WORDS[:12]))
    # Six times as long as a fourth power takes to fall to 1/e: with the plain mean over the run, R2 is -160.
    train(model, tmp_path, trackers=[tracker], optimizer=sgd(lr=0.05, weight_decay=0.2), steps=150)
    track = tracker.result()
    assert track.law.r2 is not None
    assert track.law.r2 > 0.95
    assert all(item.driving_moment < 0.1 * item.second_moment for item in track.items if item.driving_moment is not None)


def test_texts_and_rows_of_the_table_see_the_same_gradients(tmp_path):
    model = table_model(normalize=True)
    texts, rows = NormTracker(TrackedTexts(model, WORDS)), NormTracker(TrackedRows(model[0].embedding.weight, range(24)))
    train(
        model,
        tmp_path,
        trackers=[texts, rows],
        optimizer=sgd(weight_decay=0.05),
        gradient_accumulation_steps=2,
        steps=10,
        max_grad_norm=0.2,
    )
    by_text, by_row = texts.result(), rows.result()
    assert by_text.clipped_share > 0.5
    for mine, theirs in zip(by_text.items, by_row.items, strict=True):
        assert mine.visits == theirs.visits
        if mine.second_moment is not None:
            assert mine.second_moment == pytest.approx(theirs.second_moment, rel=1e-4, abs=1e-12)
        assert mine.norm == pytest.approx(theirs.norm)
    assert by_row.items[3].name == "3"
    assert by_text.optimizer.weight_decay == 0.05


def test_training_is_bit_equal_with_and_without_the_tracker(tmp_path):
    weights = []
    for tracked in (True, False):
        model = table_model()
        trackers = [NormTracker(TrackedTexts(model, WORDS)), NormTracker(TrackedRows(model[0].embedding.weight, [0, 5]))] if tracked else []
        weights.append(train(model, tmp_path, trackers=trackers, steps=6, max_grad_norm=0.1, weight_decay=0.01))
        if tracked:
            assert trackers[0].result().items[11].visits > 0
    assert torch.equal(*weights)


def test_adamw_is_read_from_the_trainer_and_predicted_by_its_own_law(tmp_path):
    model = table_model()
    tracker = NormTracker(TrackedTexts(model, WORDS[:12]))
    train(model, tmp_path, trackers=[tracker], steps=6, weight_decay=0.1, learning_rate=0.01, lr_scheduler_type="linear")
    track = tracker.result()
    assert (track.optimizer.name, track.optimizer.weight_decay, track.optimizer.beta2) == ("adamw", 0.1, 0.999)
    assert track.optimizer.learning_rate == pytest.approx(0.01 * np.mean([1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]))
    assert all(item.predicted_norm is not None for item in track.items if item.visits)
    assert any("remembers about 1/(1 - beta2) = 1,000 steps, and 6 are fewer" in note for note in track.notes)
    assert not any("yardstick" in note for note in track.notes)


def test_texts_that_share_weights_are_told_from_single_tokens_and_rows():
    model = table_model()
    weight = model[0].embedding.weight
    wide = TrackedTexts(model, ["w1 w2", "w3"])
    for items, shared in ((TrackedTexts(model, ["w1", "w2"]), False), (TrackedRows(weight, [1, 2]), False), (wide, True)):
        tracker = NormTracker(items)
        with tracker.watching():
            vectors = model(model.preprocess(["w1 w2", "w1", "w3"]))["sentence_embedding"]
            nn.functional.normalize(vectors, dim=1)[:, 0].sum().backward()
            tracker.before_step(torch.optim.SGD([weight], lr=0.1))
        assert any("yardstick" in note for note in tracker.result().notes) is shared


def test_the_guides_plain_loop_and_its_way_into_inspect_run(capsys):
    _, loop, inspection = guide_examples()
    names = {}
    exec(loop, names)  # the guide's own code
    exec(inspection, names)
    track = names["track"]
    assert track.law.r2 > 0.9
    # The law had something to predict: all norms were 1 at the start.
    assert np.mean([item.norm / item.initial_norm for item in track.items]) > 1.05
    assert capsys.readouterr().out.startswith("law (200 items): ")
    assert names["report"].n == 400


def test_a_plain_loop_and_a_gradient_by_hand():
    model = table_model()
    weight = model[0].embedding.weight
    optimizer = torch.optim.SGD([weight], lr=0.5)
    tracker = NormTracker(TrackedTexts(model, ["w1", "w2", "w3"]))
    target = nn.functional.normalize(torch.randn(16, generator=torch.Generator().manual_seed(2)), dim=0)
    before = weight.detach().clone()
    with tracker.watching():
        vectors = model(model.preprocess(["w1", "w9", "w1", "w2"]))["sentence_embedding"]
        (nn.functional.normalize(vectors, dim=1) @ target).mean().backward()
        tracker.before_step(optimizer)
        optimizer.step()
    first, second, third = tracker.result().items
    u = before / before.norm(dim=1, keepdim=True)
    tangent = target - (u @ target)[:, None] * u
    assert (first.visits, second.visits, third.visits) == (1, 1, 0)
    assert first.second_moment == pytest.approx(float(tangent[1].square().sum()) * (2 / 4) ** 2, rel=1e-5)
    assert second.second_moment == pytest.approx(float(tangent[2].square().sum()) * (1 / 4) ** 2, rel=1e-5)
    r, g2 = first.initial_norm, first.second_moment
    assert first.norm == pytest.approx((r**2 + 0.25 * g2 / r**2) ** 0.5, rel=1e-6)
    assert model._forward_hooks == {}
    assert model[0]._forward_hooks == {}


def test_a_dot_loss_is_found_to_see_norms():
    model = table_model()
    tracker = NormTracker(TrackedTexts(model, WORDS[:3]))
    with tracker.watching():
        (model(model.preprocess(WORDS[:3]))["sentence_embedding"] @ torch.ones(16)).sum().backward()
        tracker.before_step(torch.optim.SGD(model.parameters(), lr=0.1))
    track = tracker.result()
    assert track.radial_share is not None
    assert track.radial_share > 1e-3
    assert any("the loss sees norms" in note for note in track.notes)


def test_keys_leave_padding_out_and_read_flat_batches():
    padded = row_keys({"input_ids": torch.tensor([[0, 7, 8], [9, 0, 0]]), "attention_mask": torch.tensor([[0, 1, 1], [1, 0, 0]])})
    flat = row_keys({"input_ids": torch.tensor([7, 8, 9]), "offsets": torch.tensor([0, 2])})
    assert padded == flat
    with pytest.raises(InputError, match="no input_ids"):
        row_keys({"pixel_values": torch.zeros(1)})
    with pytest.raises(InputError, match="turn unpadded batches off"):
        row_keys({"input_ids": torch.tensor([7, 8, 9])})


def test_what_cannot_be_tracked_is_refused():
    model = table_model()
    with pytest.raises(InputError, match="have the same tokens after truncation"):
        TrackedTexts(model, ["w1", "w2", " w1 "])
    with pytest.raises(InputError, match="texts is empty"):
        TrackedTexts(model, [])
    with pytest.raises(InputError, match=r"rows\[1\] is 24; expected 0 to 23"):
        TrackedRows(model[0].embedding.weight, [0, 24])
    with pytest.raises(InputError, match="different whole numbers"):
        TrackedRows(model[0].embedding.weight, [1, 1])
    with pytest.raises(InputError, match="no optimizer step was seen"):
        NormTracker(TrackedTexts(model, ["w1"])).result()
    with torch.no_grad():
        model[0].embedding.weight[1] = 0.0
    with pytest.raises(InputError, match="zero vector"):
        NormTracker(TrackedTexts(model, ["w1"])).start()


def test_half_precision_and_several_processes_are_refused(tmp_path):
    tracker = NormTracker(TrackedTexts(table_model(), ["w1"]))
    with pytest.raises(InputError, match="fp16 scales the loss"):
        tracker.on_train_begin(type("Args", (), {"fp16": True, "world_size": 1})(), None, None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="2 processes average"):
        tracker.on_train_begin(type("Args", (), {"fp16": False, "world_size": 2})(), None, None)  # pyright: ignore[reportArgumentType]


def test_sparse_gradients_are_read_row_by_row():
    table = nn.Embedding(6, 3, sparse=True)
    before = table.weight.detach().clone()
    tracker = NormTracker(TrackedRows(table.weight, [4, 1, 5]))
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.01)
    with tracker.watching():
        nn.functional.normalize(table(torch.tensor([1, 4, 4])), dim=1)[:, 0].sum().backward()
        tracker.before_step(optimizer)
        optimizer.step()
    track = tracker.result()
    assert [item.visits for item in track.items] == [1, 1, 0]
    assert track.optimizer.lazy
    # Row 4 stands twice in the batch: its gradients add up. Of a cosine with an axis the tangent is that axis less its part along u.
    for item, row, times in zip(track.items, (4, 1), (2, 1), strict=False):
        first = before[row, 0] / before[row].norm()
        assert item.second_moment == pytest.approx(times**2 * float(1 - first**2), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2), ("sgd", 0.2, False)),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.2), ("sgd", 0.2, True)),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), (None, 0.0, False)),
        (lambda p: torch.optim.AdamW(p, weight_decay=0.3), ("adamw", 0.3, False)),
        (lambda p: torch.optim.Adam(p, weight_decay=0.3), ("adam", 0.3, True)),
        (lambda p: torch.optim.Adam(p, amsgrad=True), (None, 0.0, False)),
        (lambda p: torch.optim.RMSprop(p), (None, 0.0, False)),
    ],
)
def test_optimizers_are_read(make, expected):
    optimizer = make([nn.Parameter(torch.zeros(2))])
    found = optimizer_settings(optimizer, optimizer.param_groups[0], learning_rate=0.1)
    assert (found.name, found.weight_decay) == expected[:2]
    if found.name is not None:
        assert found.coupled is expected[2]


def test_the_group_with_most_of_the_items_parameters_counts():
    small, large = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(20))
    optimizer = torch.optim.SGD([{"params": [small], "lr": 1.0}, {"params": [large], "lr": 2.0}], lr=0.1)
    assert owning_group(optimizer, [small, large])["lr"] == 2.0
    assert owning_group(optimizer, [small])["lr"] == 1.0


@pytest.mark.slow
def test_a_real_encoder_is_tracked_and_its_weights_are_bit_equal(base_folder, tmp_path):
    texts = ["a cat", "a dog on the mat", "snow", "rain falls all day long"]
    pairs = Dataset.from_dict({"anchor": texts * 3, "positive": ["an animal", "a pet", "weather", "bad weather"] * 3})
    states = []
    for tracked in (True, False):
        model = SentenceTransformer(str(base_folder), local_files_only=True, device="cpu")
        strip_normalize(model)
        tracker = NormTracker(TrackedTexts(model, texts))
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path),
            max_steps=3,
            per_device_train_batch_size=4,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=pairs,
            loss=MultipleNegativesRankingLoss(model),
            callbacks=[tracker] if tracked else [],
        ).train()
        states.append({name: value.clone() for name, value in model.state_dict().items()})
        if tracked:
            track = tracker.result()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert sum(item.visits for item in track.items) >= 10
    assert track.radial_share is not None
    assert track.radial_share < 1e-6
    assert track.items[0].length == 4.0
    raw = model.encode(texts, convert_to_numpy=True)
    assert np.allclose([item.norm for item in track.items], np.linalg.norm(raw, axis=1), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")
def test_the_guides_trainer_runs_and_says_what_does_not_hold(base_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_DISABLED", "true")
    trainer = guide_examples()[0]
    name = '"sentence-transformers/all-MiniLM-L6-v2"'
    assert name in trainer
    names = {}
    exec(trainer.replace(name, repr(str(base_folder))), names)  # the guide's own code, on a smaller model
    track = names["track"]
    assert len(track.items) == 8
    assert sum("yardstick" in note for note in track.notes) == 1
    assert any("the law is not for so short a run" in note for note in track.notes)
    assert "law (8 items): " in capsys.readouterr().out


@pytest.mark.slow
def test_a_loss_that_encodes_twice_is_read_once(base_folder):
    model = SentenceTransformer(str(base_folder), local_files_only=True, device="cpu")
    model.eval()
    texts = ["a cat", "a dog on the mat", "snow"]
    found = []
    for loss in (MultipleNegativesRankingLoss(model), CachedMultipleNegativesRankingLoss(model, mini_batch_size=2)):
        tracker = NormTracker(TrackedTexts(model, texts))
        with tracker.watching():
            loss([model.preprocess(texts), model.preprocess(["an animal", "a pet", "weather"])], torch.zeros(3)).backward()
            tracker.before_step(torch.optim.SGD(model.parameters(), lr=0.1))
        model.zero_grad()
        found.append([(item.visits, item.second_moment) for item in tracker.result().items])
    assert [visits for visits, _ in found[1]] == [1, 1, 1]
    assert np.allclose([g for _, g in found[0]], [g for _, g in found[1]], rtol=1e-3)
