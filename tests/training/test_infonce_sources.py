"""A watched loss: itself again in whatever order readers end, and a copy of it that nobody watches."""

from __future__ import annotations

import copy
import itertools
import logging
import pickle

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss, MultipleNegativesRankingLoss
from torch import nn

from normwise.objectives.loss import FocalEmbeddingLoss
from normwise.training.infonce_meter import InfoNCEMeter

LOSSES = {
    "ours": lambda model: FocalEmbeddingLoss(model, temperature=0.2, focal=None),
    "theirs": lambda model: MultipleNegativesRankingLoss(model, scale=5.0),
    "cached": lambda model: CachedMultipleNegativesRankingLoss(model, scale=5.0, mini_batch_size=4),
}
METHODS = {"theirs": "compute_loss_from_embeddings", "cached": "calculate_loss"}
EVERY_LOSS = pytest.mark.parametrize("name", list(LOSSES))


class Table(nn.Module):
    """One vector for each id; features of another name go straight through."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(32, 8)

    def __getitem__(self, _):
        # The cached loss looks at a model's first module.
        return self.table

    def forward(self, features):
        if "vectors" in features:
            return {"sentence_embedding": features["vectors"]}
        return {"sentence_embedding": self.table(features["input_ids"]).mean(dim=1)}


def features(size=8):
    return [{"input_ids": torch.arange(first, first + size).unsqueeze(1)} for first in (0, 16)]


def queries_read(meter):
    meter.end_step()
    return meter.result().queries


def as_it_was(loss):
    hooks = (loss._forward_pre_hooks, loss._forward_hooks, vars(loss).get("_logits_hooks", {}))
    return not any(hooks) and not set(METHODS.values()) & set(vars(loss))


@EVERY_LOSS
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_meters_stopped_in_any_order_leave_the_loss_as_it_was(name, order):
    loss = LOSSES[name](Table())
    before = pickle.dumps(loss)
    meters = [InfoNCEMeter(loss, prefix=f"m{n}") for n in range(3)]
    for meter in meters:
        meter.start()
    for already, stopped in enumerate(order):
        meters[stopped].stop()
        loss(features(), None)
        for later in order[already + 1 :]:
            assert queries_read(meters[later]) == 8 * (already + 1)
    assert as_it_was(loss)
    assert pickle.dumps(loss) == before or name == "ours"  # ours keeps what it observed last
    pickle.loads(pickle.dumps(loss))


@EVERY_LOSS
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))], ids=["deepcopy", "pickle"])
def test_a_copy_of_a_watched_loss_is_itself_and_nobody_watches_it(name, copied):
    loss = LOSSES[name](Table())
    first, second = InfoNCEMeter(loss), InfoNCEMeter(loss)
    first.start()
    second.start()
    twin = copied(loss)
    assert twin.model is not loss.model
    with torch.no_grad():
        twin.model.table.weight.copy_(torch.randn(32, 8))
    unwatched = LOSSES[name](twin.model)
    assert twin(features(), None).item() == unwatched(features(), None).item()
    for meter in (first, second):
        meter.end_step()
        assert not meter._steps
    loss(features(), None)
    assert (queries_read(first), queries_read(second)) == (8, 8)
    third = InfoNCEMeter(twin)
    with third.watching():
        twin(features(), None)
    assert queries_read(third) == 8
    pickle.dumps(twin)
    first.stop()
    second.stop()
    assert as_it_was(loss)


def test_what_another_has_put_there_comes_back():
    loss = LOSSES["theirs"](Table())
    calls = []
    original = loss.compute_loss_from_embeddings
    loss.compute_loss_from_embeddings = theirs = lambda *given: calls.append(1) or original(*given)
    first, second = InfoNCEMeter(loss), InfoNCEMeter(loss)
    first.start()
    second.start()
    loss(features(), None)
    first.stop()
    second.stop()
    assert vars(loss)["compute_loss_from_embeddings"] is theirs
    assert (len(calls), queries_read(first), queries_read(second)) == (1, 8, 8)


def test_a_reader_that_fails_does_not_stop_the_loss(caplog):
    for name in ("ours", "theirs"):
        loss = LOSSES[name](Table())
        expected = loss(features(), None).item()
        meter, other = InfoNCEMeter(loss, prefix=name), InfoNCEMeter(loss)
        meter.take = lambda *_: 1 / 0
        with meter.watching(), other.watching(), caplog.at_level(logging.WARNING):
            assert loss(features(), None).item() == expected
            meter.end_step()
        assert meter.result().skipped == 1
        assert queries_read(other) == 8
        assert (
            f"step 1 is left out of {name}: ZeroDivisionError: division by zero; later ones are counted in its `skipped`" in caplog.messages
        )


@pytest.mark.parametrize("scale", [1.0, 1.7])
def test_copies_without_tokens_are_known_by_their_directions(scale):
    loss = LOSSES["theirs"](Table())
    torch.manual_seed(1)
    queries, positives = torch.randn(2, 8, 16)
    meter = InfoNCEMeter(loss)
    with meter.watching():
        loss([{"vectors": each} for each in (queries, positives, scale * positives.half().float())], None)
        meter.end_step()
    assert (meter.result().masked, meter.result().k) == (1.0, 14.0)


def test_texts_are_told_apart_by_their_tokens_however_near_their_vectors_are():
    model = Table()
    with torch.no_grad():
        model.table.weight.copy_(torch.ones(32, 8) + torch.linspace(0.0, 1e-7, 32).unsqueeze(1))
    loss = LOSSES["theirs"](model)
    meter = InfoNCEMeter(loss)
    with meter.watching():
        loss(features(), None)
        meter.end_step()
    assert (meter.result().masked, meter.result().k) == (0.0, 7.0)
