"""Two processes against one: value, gradients and weights of uneven batches, and a learned temperature under DDP."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from normwise.core.config import FocalConfig, TemperatureConfig
from normwise.objectives.bigbatch import gather_rows, global_maximum, global_sum, rank, row_counts, world_size
from normwise.objectives.focal import unit_mean_weights
from normwise.objectives.loss import FocalEmbeddingLoss

# Texts of both processes: the second batch is smaller, and shares a positive and a negative with the first.
QUERIES = ([(1, 2), (3,), (1, 4, 5)], [(3,), (2, 6)])
POSITIVES = ([(6, 7), (8,), (10,)], [(6, 7), (9, 10, 11)])
NEGATIVES = ([[(8,), (2, 2)], [], [(5,)]], [[(4, 3)], [(10,), (1,)]])
POOL = ([(8,), (2, 3)], [(5, 5), (6, 7), (11,)])
LOG_G = (torch.linspace(-1, 1, 6).tolist(), torch.linspace(0.5, -2, 5).tolist())
CONFIGS = {
    "cosine": {"temperature": 0.2},
    "dot": {"similarity": "dot", "temperature": 0.7, "focal": FocalConfig(temperature=0.3, cap=1.5)},
    "symmetric": {"temperature": 0.2, "symmetric": True},
    "plain": {"temperature": 0.2, "focal": None},
    "corrected": {"temperature": 0.2, "negatives": "corrected"},
    "uniform": {"temperature": 0.2, "negatives": "uniform"},
}


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, features):
        mask = features["attention_mask"].unsqueeze(-1).double()
        return {"sentence_embedding": (self.table[features["input_ids"]] * mask).sum(1) / mask.sum(1)}


def column(texts):
    width = max(map(len, texts))
    ids = [list(t) + [0] * (width - len(t)) for t in texts]
    mask = [[1] * len(t) + [0] * (width - len(t)) for t in texts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def batch(name, queries, positives, negatives, pool, log_g):
    features = [column(queries), column(positives), column([t for own in negatives for t in own])]
    labels = {"negative_counts": torch.tensor([len(own) for own in negatives])}
    if name == "uniform":
        features.append(column(pool))
        labels["uniform_count"] = torch.tensor(len(pool))
    if name == "corrected":
        labels["log_g"] = torch.tensor(log_g)
    return features, labels


def part(name, i):
    return batch(name, QUERIES[i], POSITIVES[i], NEGATIVES[i], POOL[i], LOG_G[i])


def union(name):
    # The correction belongs to columns in the order positives, negatives, so that of the union interleaves both parts.
    log_g = LOG_G[0][:3] + LOG_G[1][:2] + LOG_G[0][3:] + LOG_G[1][2:]
    return batch(name, QUERIES[0] + QUERIES[1], POSITIVES[0] + POSITIVES[1], NEGATIVES[0] + NEGATIVES[1], POOL[0] + POOL[1], log_g)


def run(config, name, features, labels, *, gather=False):
    model = Bag()
    loss = FocalEmbeddingLoss(model, gather_across_devices=gather, **config)
    value = loss(features, labels)
    value.backward()
    last = loss.last
    return {
        "value": value.detach(),
        "gradient": model.table.grad,
        "weights": last.weights,
        "losses": last.loss_per_query,
        "effective_sample_size": last.effective_sample_size,
        "mean_weight": last.mean_weight,
    }


def worker(number, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=number, world_size=2)
    seen = {"world": (world_size(), rank(), row_counts(torch.zeros(3 - number)))}
    seen["sum"] = global_sum(torch.tensor(float(number + 1)))
    seen["maximum"] = global_maximum(torch.tensor(float(number)))
    mine = torch.full((2 - number, 2), float(number + 1), requires_grad=True)
    everybody = gather_rows(mine)
    ((number + 1) * everybody.square()).sum().backward()
    seen["gathered"], seen["gathered_gradient"] = everybody.detach(), mine.grad
    for name, config in CONFIGS.items():
        for gather in (False, True):
            seen[name, gather] = run(config, name, *part(name, number), gather=gather)
    seen["empty"] = unit_mean_weights(torch.tensor([[0.0, 1.0], []][number]))
    seen["temperature"] = learned(number)
    torch.save(seen, f"{folder}/{number}.pt")
    dist.destroy_process_group()


def learned(number):
    model = Bag()
    loss = FocalEmbeddingLoss(model, temperature=TemperatureConfig(mode="learnable", value=0.2 + 0.1 * number))
    loss.model = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = torch.optim.SGD([p for p in loss.parameters()], lr=0.1)
    count = sum(p is loss.temperature.parameter for group in optimizer.param_groups for p in group["params"])
    start = float(loss.temperature.current())
    for _ in range(2):
        optimizer.zero_grad()
        loss(*part("cosine", number)).backward()
        gradient = loss.temperature.parameter.grad.clone()
        optimizer.step()
    return {"start": start, "gradient": gradient, "end": loss.temperature.parameter.detach(), "count": count}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("ranks"))
    mp.spawn(worker, args=(folder,), nprocs=2, join=True)
    return [torch.load(f"{folder}/{i}.pt", weights_only=False) for i in range(2)]


@pytest.mark.slow
def test_collectives_and_their_gradient(both):
    assert [b["world"] for b in both] == [(2, 0, [3, 2]), (2, 1, [3, 2])]
    for b in both:
        assert float(b["sum"]) == 3.0
        assert float(b["maximum"]) == 1.0
        assert b["gathered"].tolist() == [[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]
    # The sum over both processes of (rank + 1) x^2 is 3 x^2, whose slope is 6 x.
    assert both[0]["gathered_gradient"].tolist() == [[6.0, 6.0], [6.0, 6.0]]
    assert both[1]["gathered_gradient"].tolist() == [[12.0, 12.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CONFIGS))
def test_gathered_processes_are_one_process_on_the_union(both, name):
    whole = run(CONFIGS[name], name, *union(name))
    torch.testing.assert_close((both[0][name, True]["value"] + both[1][name, True]["value"]) / 2, whole["value"])
    torch.testing.assert_close((both[0][name, True]["gradient"] + both[1][name, True]["gradient"]) / 2, whole["gradient"])
    for key in ("weights", "losses"):
        torch.testing.assert_close(torch.cat([b[name, True][key] for b in both]), whole[key])
    for key in ("effective_sample_size", "mean_weight"):
        torch.testing.assert_close(both[0][name, True][key], whole[key])
        torch.testing.assert_close(both[1][name, True][key], whole[key])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "symmetric"])
def test_ungathered_processes_weigh_their_uneven_batches_by_query_over_both(both, name):
    config = CONFIGS[name]
    focal = config.get("focal", FocalConfig())
    model = Bag()
    losses, log_a = [], []
    for i in range(2):
        loss = FocalEmbeddingLoss(model, **config)
        features, labels = part(name, i)
        directions = []
        solve = loss._solve
        loss._solve = lambda d, solve=solve, directions=directions: directions.append(solve(d)) or directions[-1]
        loss(features, labels)
        losses.append(directions[0][0].loss)
        confidence = loss.last.confidence_residual
        log_a.append(torch.zeros(len(losses[-1])).double() if focal is None else focal.gamma * confidence.log())
    a = torch.cat(log_a).exp()
    weights = a / a.mean()
    weights = weights if focal is None or focal.cap is None else weights.clamp(max=focal.cap)
    total = (weights * torch.cat(losses)).mean()
    (gradient,) = torch.autograd.grad(total, model.table)
    torch.testing.assert_close(torch.cat([b[name, False]["weights"] for b in both]), weights)
    torch.testing.assert_close((both[0][name, False]["value"] + both[1][name, False]["value"]) / 2, total.detach())
    torch.testing.assert_close((both[0][name, False]["gradient"] + both[1][name, False]["gradient"]) / 2, gradient)


@pytest.mark.slow
def test_a_process_without_queries_takes_part(both):
    assert both[1]["empty"].weights.shape == (0,)
    torch.testing.assert_close(both[0]["empty"].weights, 2 * torch.softmax(torch.tensor([0.0, 1.0]), 0))


@pytest.mark.slow
def test_a_learned_temperature_is_synchronized_by_ddp(both):
    one, two = (b["temperature"] for b in both)
    assert two["start"] == one["start"] == pytest.approx(0.2)  # DDP hands out the first process's value
    assert torch.equal(one["gradient"], two["gradient"])
    assert torch.equal(one["end"], two["end"])
    assert float(one["gradient"].abs()) > 0
    assert one["count"] == 1


def test_without_a_process_group_everything_is_the_identity():
    x = torch.arange(3.0, requires_grad=True)
    assert (world_size(), rank(), row_counts(x)) == (1, 0, [3])
    assert gather_rows(x) is x
    assert global_sum(x).tolist() == global_maximum(x).tolist() == [0.0, 1.0, 2.0]
