"""The InfoNCE meter against loops over the definition, on two batch sizes of one world, and inside real trainings."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    CoSENTLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import TrainerCallback

from normwise.core.errors import InputError
from normwise.core.meter_records import InfoNCEReading
from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.training import infonce_sources
from normwise.training.infonce_meter import InfoNCEMeter

WORDS = [f"w{n}" for n in range(48)]
LOSSES = {
    "ours": lambda model: FocalEmbeddingLoss(model, temperature=0.2, focal=None),
    "theirs": lambda model: MultipleNegativesRankingLoss(model, scale=5.0),
    "cached": lambda model: CachedMultipleNegativesRankingLoss(model, scale=5.0, mini_batch_size=4),
}


def table_model(*, seed=0):
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(seed)
    embedding = StaticEmbedding(tokenizer, embedding_dim=16)
    with torch.no_grad():
        embedding.embedding.weight.copy_(torch.randn(48, 16))
    return SentenceTransformer(modules=[embedding], device="cpu")


def trainer_of(model, loss, folder, *, callbacks=(), evaluated=False, repeats=False, **settings):
    """Batches of 8 that hold no positive twice; with `repeats`, each of 4 positives twice."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.permutation(np.arange(8) % 4 if repeats else 24)[:8] for _ in range(40)])
    data = Dataset.from_dict({"anchor": [WORDS[r] for r in rows], "positive": [WORDS[24 + r] for r in rows]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=8,
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **{"max_steps": 6, "learning_rate": 0.01, "logging_steps": 1, "report_to": "none", **settings},
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, eval_dataset=data if evaluated else None, loss=loss, callbacks=list(callbacks)
    )
    # In the order of the rows.
    trainer.get_batch_sampler = lambda *_, **__: torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(data), 8, False)
    return trainer


def logged(trainer):
    return [row for row in trainer.state.log_history if "loss" in row]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def slow_figures(queries, candidates, tau, *, masked=()):
    """Risk, DCL, limit, residual and effective negatives of each query, by cosine, one negative at a time."""
    scores = unit(queries.astype(np.float64)) @ unit(candidates.astype(np.float64)).T / tau
    found = []
    for i, row in enumerate(scores):
        there = np.exp([s for j, s in enumerate(row) if j != i and (i, j) not in masked])
        k, own = len(there), math.exp(row[i])
        left = [np.log(np.delete(there, out).mean()) for out in range(k)]
        weights = there / there.sum()
        found.append(
            [
                math.log((1.0 + there.sum() / own) / k),
                math.log(there.mean() / own),
                k * math.log(there.mean()) - (k - 1) * np.mean(left) - row[i],
                there.sum() / (own + there.sum()),
                1.0 / (weights**2).sum(),
            ]
        )
    return np.array(found).T


def world(rng, batch, *, width=16, noise=0.5):
    documents = unit(rng.standard_normal((batch, width)))
    return documents + noise * unit(rng.standard_normal((batch, width))), documents


# --- plain loops ---


def test_a_batch_is_what_a_loop_over_the_definition_finds():
    rng = np.random.default_rng(0)
    queries, positives = world(rng, 7)
    candidates = np.concatenate([positives, rng.standard_normal((5, 16))])
    candidates[3] = candidates[10] = candidates[1]
    meter = InfoNCEMeter()
    meter.observe(queries, candidates, 0.3)
    meter.end_step()
    found = meter.result()
    masked = {(i, j) for i in (1, 3) for j in (1, 3, 10) if i != j}
    risk, dcl, limit, residual, effective = slow_figures(queries, candidates, 0.3, masked=masked)
    assert (found.steps, found.queries, found.k_min, found.k_max) == (1, 7, 9, 11)
    assert found.k == pytest.approx((5 * 11 + 2 * 9) / 7)
    assert found.masked == pytest.approx(4 / 7)
    assert (found.risk, found.dcl, found.limit) == pytest.approx((risk.mean(), dcl.mean(), limit.mean()), rel=1e-9)
    assert (found.residual_p10, found.residual_p50, found.residual_p90) == pytest.approx(np.quantile(residual, [0.1, 0.5, 0.9]), rel=1e-9)
    assert found.effective_negatives == pytest.approx(np.median(effective), rel=1e-9)
    assert found.risk_error is None


@pytest.mark.parametrize("similarity", ["cosine", "dot", "query_normalized", "candidate_normalized"])
def test_every_similarity_is_scored_by_its_name(similarity):
    rng = np.random.default_rng(1)
    queries, candidates = rng.standard_normal((5, 4)), rng.standard_normal((9, 4))
    meter, reference = InfoNCEMeter(), InfoNCEMeter()
    meter.observe(torch.from_numpy(queries), candidates, torch.tensor(2.0), similarity)
    left = unit(queries) if similarity in ("cosine", "query_normalized") else queries
    right = unit(candidates) if similarity in ("cosine", "candidate_normalized") else candidates
    reference.observe(left / 2.0, right, 1.0, "dot")
    for each in (meter, reference):
        each.end_step()
    assert meter.result().limit == pytest.approx(reference.result().limit, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_float32(dtype):
    rng = np.random.default_rng(2)
    halves = [torch.from_numpy(100.0 * rng.standard_normal((8, 16))).to(dtype) for _ in range(2)]
    meter, reference = InfoNCEMeter(), InfoNCEMeter()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        meter.observe(*halves, 50.0, "dot")
    reference.observe(*[half.float() for half in halves], 50.0, "dot")
    for each in (meter, reference):
        each.end_step()
    assert meter.result() == reference.result()
    # Dot products beyond 65,504: a product in float16 would be infinite.
    assert meter.result().skipped == 0


def test_two_batch_sizes_of_one_world_have_one_limit():
    rng = np.random.default_rng(3)
    found = {}
    for batch, steps in ((32, 400), (256, 50)):
        meter = InfoNCEMeter(window=steps)
        for _ in range(steps):
            meter.observe(*world(rng, batch), 0.5)
            meter.end_step()
        found[batch] = meter.result()
    small, large = found[32], found[256]
    assert small.queries == large.queries == 12_800
    assert small.limit_error < 0.01
    assert abs(small.limit - large.limit) < 3.0 * math.hypot(small.limit_error, large.limit_error)
    raw = {batch: each.risk + math.log(each.k) for batch, each in found.items()}
    assert raw[256] - raw[32] == pytest.approx(math.log(255 / 31), abs=0.15)
    assert abs(raw[256] - raw[32]) > 100 * small.limit_error
    # Less log k they still differ by the 1/k of their own, and by more than their errors.
    assert abs(small.risk - large.risk) > 4.0 * math.hypot(small.risk_error, large.risk_error)
    assert small.extrapolates
    assert large.extrapolates


def test_the_limit_is_that_of_the_law():
    rng = np.random.default_rng(4)
    meter = InfoNCEMeter(window=100)
    cosines = []
    for _ in range(100):
        queries, documents = world(rng, 64)
        cosines.append((unit(queries) * documents).sum(axis=1).mean())
        meter.observe(queries, documents, 0.5)
        meter.end_step()
    # A negative's cosine with a query is that of a uniform direction: density (1 - t^2)^((D - 3) / 2), D = 16.
    grid = np.linspace(-1.0, 1.0, 20_001)
    density = (1.0 - grid**2) ** 6.5
    expected = math.log((np.exp(grid / 0.5) * density).sum() / density.sum()) - np.mean(cosines) / 0.5
    found = meter.result()
    assert abs(found.limit - expected) < 3.0 * found.limit_error
    assert found.limit - found.dcl == pytest.approx(found.cv2 / (2 * 63), rel=0.1)


def test_gradient_accumulation_makes_one_step_of_its_batches():
    rng = np.random.default_rng(5)
    batches = [world(rng, size) for size in (4, 8, 6, 6)]
    together, apart = InfoNCEMeter(), InfoNCEMeter()
    for number, batch in enumerate(batches):
        together.observe(*batch, 0.2)
        apart.observe(*batch, 0.2)
        apart.end_step()
        if number % 2:
            together.end_step()
    one, each = together.result(), apart.result()
    assert (one.steps, each.steps, one.queries) == (2, 4, 24)
    # Negatives are those of the micro-batch.
    assert (one.k_min, one.k_max) == (3, 7)
    assert one.risk == pytest.approx(each.risk)
    step_means = [np.mean(np.concatenate([slow_figures(*b, 0.2)[0] for b in batches[at : at + 2]])) for at in (0, 2)]
    assert one.risk == pytest.approx(np.mean(step_means))
    assert one.risk_error == pytest.approx(abs(step_means[0] - step_means[1]) / 2)


def test_a_window_forgets_and_steps_between_are_passed_over():
    rng = np.random.default_rng(6)
    batches = [world(rng, 8) for _ in range(9)]

    def read(chosen, **settings):
        meter = InfoNCEMeter(**settings)
        for batch in chosen:
            meter.observe(*batch, 0.2)
            meter.end_step()
        return meter.result()

    assert read(batches, window=2) == read(batches[-2:])
    assert read(batches, every=3) == read([batches[0], batches[2], batches[5], batches[8]])
    with pytest.raises(InputError, match="every is 0; expected at least 1"):
        InfoNCEMeter(every=0)


def test_of_a_large_batch_some_queries_are_read_with_all_their_candidates():
    queries, documents = world(np.random.default_rng(7), 40)
    meter, rows = InfoNCEMeter(most_queries=5), [0, 9, 19, 29, 39]
    meter.observe(queries, documents, 0.2)
    meter.end_step()
    found = meter.result()
    assert (found.queries, found.k) == (5, 39.0)
    assert found.limit == pytest.approx(slow_figures(queries, documents, 0.2)[2][rows].mean(), rel=1e-9)


def test_a_batch_that_is_not_finite_is_named_and_in_no_figure(caplog):
    rng = np.random.default_rng(8)
    good, bad = world(rng, 6), world(rng, 6)
    bad[0][2] = np.nan
    meter, reference = InfoNCEMeter(), InfoNCEMeter()
    with caplog.at_level(logging.WARNING):
        for batch in (good, bad, bad):
            meter.observe(*batch, 0.2)
            meter.end_step()
    reference.observe(*good, 0.2)
    reference.end_step()
    found = meter.result()
    assert found.skipped_steps == (2, 3)
    assert found == reference.result().model_copy(update={"skipped": 2, "skipped_steps": (2, 3)})
    assert [record.message for record in caplog.records] == [
        "step 2 is left out of infonce: scores of query 2 are not all finite; check the vectors, and the temperature; "
        "later ones are counted in its `skipped`"
    ]
    only_bad = InfoNCEMeter()
    only_bad.observe(np.full((3, 2), np.nan), rng.standard_normal((3, 2)), 1.0)
    only_bad.end_step()
    assert only_bad.result().figures() == {
        "infonce/steps": 0, "infonce/queries": 0, "infonce/masked": 0.0, "infonce/lonely": 0, "infonce/skipped": 1,
    }  # fmt: skip


def test_queries_without_a_negative_are_counted_apart():
    meter = InfoNCEMeter()
    meter.observe(np.eye(2), np.array([[1.0, 2.0], [1.0, 2.0]]), 0.5)
    meter.end_step()
    assert (meter.result().lonely, meter.result().steps, meter.result().risk) == (2, 0, None)
    meter.observe(*world(np.random.default_rng(9), 4), 0.5)
    meter.end_step()
    assert (meter.result().lonely, meter.result().steps, meter.result().queries) == (2, 1, 4)


def test_a_result_is_the_same_after_a_trip_through_json():
    meter = InfoNCEMeter()
    for seed in range(3):
        meter.observe(*world(np.random.default_rng(seed), 8), 0.05)
        meter.end_step()
    found = meter.result()
    assert InfoNCEReading.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["extrapolates"] is False
    assert found.needed_k == pytest.approx(10 * found.cv2)
    assert found.effective_negatives_mean == pytest.approx(7 / (1 + found.cv2))
    assert found.figures()["infonce/extrapolates"] == 0
    assert found.model_copy(update={"extrapolates": True}).figures(prefix="b")["b/extrapolates"] == 1
    assert "infonce/extrapolates" not in found.model_copy(update={"limit": None}).figures()
    assert {"infonce/risk", "infonce/limit", "infonce/dcl", "infonce/residual_p50", "infonce/effective_negatives", "infonce/k"} <= set(
        found.figures()
    )


def test_what_cannot_be_observed_is_said():
    meter = InfoNCEMeter()
    with pytest.raises(InputError, match="no batch was seen: give the meter the loss"):
        meter.result()
    with pytest.raises(InputError, match=r"query_vectors have shape \(3, 2\), candidate_vectors \(2, 2\)"):
        meter.observe(np.ones((3, 2)), np.ones((2, 2)), 1.0)
    with pytest.raises(InputError, match="temperature is 0.0; expected a finite number above 0"):
        meter.observe(np.ones((2, 2)), np.ones((2, 2)), 0.0)
    with pytest.raises(InputError, match="cosin"):
        meter.observe(np.ones((2, 2)), np.ones((2, 2)), 1.0, "cosin")
    meter.observe(np.eye(2), np.eye(2), 1.0)
    with pytest.raises(InputError, match="no step has ended: call end_step"):
        meter.result()


def observed(*arguments, **settings):
    meter = InfoNCEMeter(**settings)
    meter.observe(*arguments)
    meter.end_step()
    return meter.result()


@pytest.mark.parametrize(
    "learned", [nn.Parameter(torch.tensor(0.3)), torch.tensor([0.3], requires_grad=True), np.array([0.3]), np.float32(0.3)]
)
def test_a_temperature_of_any_kind_is_read_and_a_learned_one_is_detached(learned):
    batch = world(np.random.default_rng(10), 6)
    queries, documents = (torch.from_numpy(each).requires_grad_() for each in batch)
    # Warnings are errors.
    assert observed(queries, documents, learned).risk == pytest.approx(slow_figures(*batch, 0.3)[0].mean(), rel=1e-6)


@pytest.mark.parametrize("similarity", ["cosine", "candidate_normalized"])
@pytest.mark.parametrize("scale", [2.0, 1.7, 1e-30, 1e30])
def test_multiples_of_the_positive_are_copies_where_candidates_are_normalized(similarity, scale):
    queries, positives = (torch.from_numpy(each).float() for each in world(np.random.default_rng(11), 16))
    exact = observed(queries, torch.cat([positives, positives]), 0.1, similarity)
    scaled = observed(queries, torch.cat([positives, scale * positives]), 0.1, similarity)
    assert (scaled.masked, scaled.k) == (exact.masked, exact.k) == (1.0, 30.0)
    assert scaled.risk == pytest.approx(exact.risk, abs=1e-5)


@pytest.mark.parametrize("similarity", ["dot", "query_normalized"])
def test_multiples_of_the_positive_are_negatives_where_norms_count(similarity):
    queries, positives = world(np.random.default_rng(11), 16)
    found = observed(queries, np.concatenate([positives, 1.7 * positives]), 0.1, similarity)
    assert (found.masked, found.k) == (0.0, 31.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 100.0])
def test_copies_that_half_precision_stored_are_copies(dtype, similarity, scale):
    queries, positives = (torch.from_numpy(each).float() for each in world(np.random.default_rng(12), 32, width=256))
    positives = scale * positives
    stored = positives.to(dtype).float()
    assert not torch.equal(stored, positives)
    found = observed(queries, torch.cat([positives, stored]), max(0.1, scale), similarity)
    assert (found.masked, found.k) == (1.0, 62.0)


def test_an_encoder_that_collapses_keeps_its_negatives():
    rng = np.random.default_rng(13)
    # Every vector within 4e-3 of every other: what half precision moves, and yet these are different texts.
    vectors = np.ones((24, 16)) + 1e-3 * rng.standard_normal((24, 16))
    assert np.linalg.norm(unit(vectors) - unit(vectors)[0], axis=1).max() < 4e-3
    found = observed(vectors, np.concatenate([vectors, vectors[:3]]), 0.05)
    assert (found.k_min, found.k_max, found.lonely) == (25, 26, 0)
    assert found.masked == pytest.approx(3 / 24)


@pytest.mark.parametrize(
    ("queries", "candidates", "similarity", "reason"),
    [
        (
            np.eye(4),
            np.diag([1.0, 1.0, 0.0, 1.0]),
            "cosine",
            "candidate_vectors, row 2 holds zeros only, which have no direction by cosine",
        ),
        (np.diag([1.0, 0.0, 0.0, 1.0]), np.eye(4), "query_normalized", "query_vectors, row 1 holds zeros only"),
        (np.ones((0, 4)), np.ones((0, 4)), "cosine", "the batch is empty"),
        (np.ones((0, 4)), np.ones((3, 4)), "dot", "the batch is empty"),
    ],
)
def test_a_batch_without_directions_or_rows_is_told_and_in_no_figure(queries, candidates, similarity, reason, caplog):
    with caplog.at_level(logging.WARNING):
        found = observed(queries, candidates, 0.5, similarity)
    assert (found.skipped, found.skipped_steps, found.queries) == (1, (1,), 0)
    assert caplog.messages[0].startswith(f"step 1 is left out of infonce: {reason}")


def test_zeros_are_vectors_like_others_where_norms_count():
    queries, candidates = np.eye(4), np.diag([1.0, 1.0, 0.0, 0.0])
    found = observed(queries, candidates, 0.5, "dot")
    # Rows 2 and 3 are each other's copies.
    assert (found.skipped, found.queries, found.masked) == (0, 4, 0.5)


def test_a_step_that_is_not_observed_is_not_told_either():
    meter = InfoNCEMeter(every=5)
    for _ in range(2):
        meter.observe(np.zeros((2, 2)), np.zeros((2, 2)), 1.0)
        meter.end_step()
    assert meter.result().skipped_steps == (1,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_vectors": torch.ones(3, 2, dtype=torch.complex64)}, r"query_vectors is a tensor of torch.complex64, .*; expected"),
        ({"candidate_vectors": np.ones((3, 2), complex)}, "candidate_vectors is a ndarray with values of type complex128"),
        ({"query_vectors": np.ones((3, 2), object)}, "query_vectors is a ndarray with values of type object"),
        ({"query_vectors": None}, "query_vectors is None with values of type object; expected a matrix of real numbers"),
        ({"query_vectors": [[1.0], [1.0, 2.0]]}, "query_vectors is a list of 2, and no array"),
        ({"query_vectors": torch.eye(3, 2).to_sparse()}, r"query_vectors is a tensor of torch\.float32, torch\.sparse_coo"),
        ({"query_vectors": torch.ones(2)}, r"query_vectors have shape \(2,\)"),
        ({"query_vectors": np.ones((3, 0)), "candidate_vectors": np.ones((3, 0))}, r"shape \(3, 0\).*at least one number"),
        ({"temperature": "x"}, "temperature is 'x'; expected a finite number above 0"),
        ({"temperature": None}, "temperature is None; expected a finite number above 0"),
        ({"temperature": True}, "temperature is True; expected"),
        ({"temperature": torch.tensor([0.1, 0.2])}, r"temperature has shape \(2,\) and type torch.float32; expected"),
        ({"temperature": torch.tensor(1j)}, "temperature has shape .* and type torch.complex64; expected"),
        ({"temperature": 10**400}, "temperature is inf; expected a finite"),
    ],
)  # fmt: skip
def test_arguments_of_a_wrong_kind_are_named(change, message):
    given = {"query_vectors": np.ones((3, 2)), "candidate_vectors": np.ones((3, 2)), "temperature": 1.0, **change}
    with pytest.raises(InputError, match=message):
        InfoNCEMeter().observe(**given)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 1.5}, "window is 1.5; expected at least 1, as a whole number"),
        ({"window": "a"}, "window is 'a'; expected"),
        ({"window": 10**30}, "window is 10+; expected"),
        ({"every": 1.5}, "every is 1.5; expected"),
        ({"every": True}, "every is True; expected"),
        ({"most_queries": None}, "most_queries is None; expected"),
        ({"prefix": ""}, "prefix is ''; expected a name"),
        ({"prefix": 3}, "prefix is 3; expected a name"),
    ],
)
def test_settings_of_a_wrong_kind_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        InfoNCEMeter(**settings)


def test_arrays_of_every_byte_order_and_layout_are_read():
    queries, documents = world(np.random.default_rng(14), 6)
    expected = observed(queries, documents, 0.2)
    frozen = documents.copy()
    frozen.setflags(write=False)
    for other in (documents.astype(">f8"), np.asfortranarray(documents), documents[::-1].copy()[::-1], documents.tolist(), frozen):
        assert observed(queries, other, 0.2) == expected
    assert observed(queries, documents.astype(np.longdouble), 0.2) == expected


# --- losses and trainers ---


@pytest.mark.parametrize("name", ["ours", "theirs"])
def test_in_a_trainer_the_risk_is_the_logged_loss_less_log_k(name, tmp_path):
    model = table_model()
    loss = LOSSES[name](model)
    meter = InfoNCEMeter(loss, window=1)
    trainer = trainer_of(model, loss, tmp_path, callbacks=[meter])
    trainer.train()
    rows = logged(trainer)
    assert len(rows) == 6
    assert [row["infonce/k"] for row in rows] == [7.0] * 6
    for row in rows:
        assert row["infonce/risk"] == pytest.approx(row["loss"] - math.log(7), abs=2e-4)
    assert json.loads(json.dumps(rows)) == rows
    assert meter.result().risk == rows[-1]["infonce/risk"]


def test_duplicates_are_masked_though_their_loss_does_not(tmp_path):
    found = {}
    for name in ("ours", "theirs"):
        model = table_model()
        loss = LOSSES[name](model)
        meter = InfoNCEMeter(loss, window=1)
        trainer = trainer_of(model, loss, tmp_path, callbacks=[meter], repeats=True, max_steps=1)
        trainer.train()
        found[name] = logged(trainer)[0]
    assert found["ours"]["infonce/k"] == found["theirs"]["infonce/k"] == 6.0
    assert found["ours"]["infonce/masked"] == 1.0
    assert found["ours"]["infonce/risk"] == pytest.approx(found["theirs"]["infonce/risk"], abs=1e-5)
    assert found["ours"]["infonce/risk"] == pytest.approx(found["ours"]["loss"] - math.log(6), abs=2e-4)
    assert found["theirs"]["loss"] > found["ours"]["loss"] + 0.01


@pytest.mark.parametrize("name", ["ours", "theirs"])
def test_weights_are_bit_equal_with_and_without_the_meter(name, tmp_path):
    weights = []
    for metered in (True, False):
        model = table_model()
        loss = FocalEmbeddingLoss(model, temperature=0.2) if name == "ours" else LOSSES[name](model)
        meters = [InfoNCEMeter(loss)] if metered else []
        trainer_of(model, loss, tmp_path, callbacks=meters, gradient_accumulation_steps=2).train()
        weights.append(model[0].embedding.weight.detach().clone())
        if metered:
            found = meters[0].result()
            assert (found.steps, found.queries, found.k) == (6, 96, 7.0)
    assert torch.equal(*weights)
    assert not torch.equal(weights[0], table_model()[0].embedding.weight)


class Reporter(TrainerCallback):
    """As TensorBoard's: it sees a log when its turn comes."""

    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.seen.append(dict(logs))


def test_a_joined_meter_reaches_reporters_that_came_before(tmp_path):
    model = table_model()
    loss = LOSSES["theirs"](model)
    reporter, meter = Reporter(), InfoNCEMeter(loss, prefix="pairs")
    trainer = trainer_of(model, loss, tmp_path, callbacks=[reporter, meter], evaluated=True, eval_strategy="steps", eval_steps=2)
    assert meter.join(trainer) is meter
    assert trainer.callback_handler.callbacks.count(meter) == 1
    trainer.train()
    training = [row for row in reporter.seen if "loss" in row]
    assert len(training) == 6
    assert all(row["pairs/steps"] == number for number, row in enumerate(training, start=1))
    # Batches in evaluation are not read.
    assert training[-1]["pairs/queries"] == 48
    evaluation = [row for row in reporter.seen if "eval_loss" in row]
    assert evaluation
    assert not any(key.startswith("pairs/") for row in evaluation for key in row)


def test_a_figure_is_logged_once(tmp_path):
    model = table_model()
    loss = LOSSES["theirs"](model)
    trainer = trainer_of(model, loss, tmp_path, callbacks=[InfoNCEMeter(loss, every=3)])
    trainer.train()
    assert ["infonce/risk" in row for row in logged(trainer)] == [True, False, True, False, False, True]


def features_of(model, size=8):
    return [model.tokenize([WORDS[first + n] for n in range(size)]) for first in (0, 24)]


def once(loss, features):
    meter = InfoNCEMeter(loss)
    with meter.watching():
        loss(features, None).backward()
        meter.end_step()
    return meter.result()


def test_of_other_directions_and_penalties_only_query_to_document_is_read():
    model = table_model()
    features = features_of(model)
    plain = once(MultipleNegativesRankingLoss(model, scale=5.0), features)
    directions = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
    assert once(MultipleNegativesRankingLoss(model, scale=5.0, directions=directions), features) == plain
    assert once(MultipleNegativesRankingLoss(model, scale=5.0, hardness_mode="all_negatives", hardness_strength=2.0), features) == plain
    assert once(MultipleNegativesRankingLoss(model, scale=10.0), features).risk != plain.risk
    ours = once(FocalEmbeddingLoss(model, temperature=0.2, symmetric=True), features)
    assert ours.queries == plain.queries == 8
    assert ours.limit == pytest.approx(plain.limit, abs=1e-5)


def test_a_loss_is_itself_again_afterwards():
    model = table_model()
    loss = MultipleNegativesRankingLoss(model)
    first, second = InfoNCEMeter(loss), InfoNCEMeter(loss)
    first.start()
    second.start()
    first.stop()
    loss(features_of(model), None)
    second.end_step()
    second.stop()
    assert second.result().queries == 8
    loss(features_of(model), None)
    second.end_step()
    assert second.result().queries == 8
    with pytest.raises(InputError, match="no batch was seen"):
        first.result()
    alone = InfoNCEMeter(loss := MultipleNegativesRankingLoss(model))
    with alone.watching():
        assert "compute_loss_from_embeddings" in vars(loss)
    assert "compute_loss_from_embeddings" not in vars(loss)
    assert not loss._forward_pre_hooks
    ours = FocalEmbeddingLoss(model, temperature=0.2)
    with InfoNCEMeter(ours).watching():
        assert len(ours._logits_hooks) == 1
    assert not ours._logits_hooks


def test_a_diverged_model_is_named_or_refused_by_our_loss():
    model = table_model()
    with torch.no_grad():
        model[0].embedding.weight[2] = torch.nan
    loss = MultipleNegativesRankingLoss(model)
    found = once(loss, features_of(model))
    assert (found.skipped, found.skipped_steps, found.risk) == (1, (1,), None)
    with pytest.raises(InputError, match="finite"):
        once(FocalEmbeddingLoss(model, temperature=0.2), features_of(model))


def test_a_loss_that_cannot_be_read_is_refused(monkeypatch):
    model = table_model()
    with pytest.raises(InputError, match="loss is a CoSENTLoss; expected one of FocalEmbeddingLoss, MultipleNegativesRankingLoss"):
        InfoNCEMeter(CoSENTLoss(model)).start()
    with pytest.raises(InputError, match="loss is a Identity"):
        InfoNCEMeter(nn.Identity()).start()
    monkeypatch.setattr(infonce_sources, "world_size", lambda: 2)
    with pytest.raises(InputError, match="MultipleNegativesRankingLoss gathers from 2 processes"):
        InfoNCEMeter(MultipleNegativesRankingLoss(model, gather_across_devices=True)).start()


def test_a_meter_of_another_loss_says_that_it_saw_nothing(tmp_path, caplog):
    model = table_model()
    meter = InfoNCEMeter(MultipleNegativesRankingLoss(model))
    with caplog.at_level(logging.WARNING):
        trainer_of(model, MultipleNegativesRankingLoss(model), tmp_path, callbacks=[meter], max_steps=1).train()
    assert "infonce saw no batch: is it the trained loss that it was given?" in caplog.messages


# --- a real encoder, with dropout ---


def texts_data(size=48):
    # Every document twice in a row: with dropout, their vectors differ.
    return Dataset.from_dict(
        {"anchor": [f"thing number {n}" for n in range(size)], "positive": [f"the object {n // 2} is here" for n in range(size)]}
    )


def train_encoder(folder, base, name, *, metered, batch=8, steps=4):
    torch.manual_seed(0)
    model = SentenceTransformer(str(base), local_files_only=True, device="cpu")
    loss = LOSSES[name](model)
    meter = InfoNCEMeter(loss)
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=batch, learning_rate=1e-3, use_cpu=True, report_to="none",
        save_strategy="no", disable_tqdm=True, dataloader_pin_memory=False, logging_steps=1, seed=1,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=texts_data(), loss=loss, callbacks=[meter] if metered else []
    )
    trainer.get_batch_sampler = lambda data, *_, **__: torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(data), batch, False)
    trainer.train()
    return meter, trainer, {key: value.clone() for key, value in model.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ours", "theirs", "cached"])
def test_an_encoder_with_dropout_is_read_and_left_alone(name, base_folder, tmp_path):
    meter, trainer, with_meter = train_encoder(tmp_path, base_folder, name, metered=True)
    _, plain, without = train_encoder(tmp_path, base_folder, name, metered=False)
    assert with_meter.keys() == without.keys()
    assert all(torch.equal(with_meter[key], without[key]) for key in without)
    found = meter.result()
    assert (found.steps, found.queries, found.skipped) == (4, 32, 0)
    # Copies of the positive are known by their tokens.
    assert (found.k, found.masked) == (6.0, 1.0)
    losses = [row["loss"] for row in logged(trainer)]
    assert losses == [row["loss"] for row in logged(plain)]
    if name == "ours":
        assert found.risk == pytest.approx(np.mean(losses) - math.log(6), abs=2e-4)


@pytest.mark.slow
def test_cached_and_plain_losses_are_read_alike(base_folder):
    model = SentenceTransformer(str(base_folder), local_files_only=True, device="cpu")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.train()
    data = texts_data(12)
    features = [
        {key: value for key, value in model.tokenize(list(data[column])).items() if hasattr(value, "shape")} for column in data.column_names
    ]
    found = [once(LOSSES[name](model), features) for name in ("ours", "theirs", "cached")]
    assert found[0].queries == 12
    for each in found[1:]:
        for name, value in each.figures().items():
            assert value == pytest.approx(found[0].figures()[name], abs=1e-4)
