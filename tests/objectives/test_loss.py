"""The loss module against one slow loop in float64 that knows every rule; invariances; refusals."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from normwise.core.config import FocalConfig, TemperatureConfig, Weighting
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.objectives.loss import FocalEmbeddingLoss


class Bag(nn.Module):
    """Mean of token vectors in float64: the smallest model with texts, padding and free norms."""

    def __init__(self, seed=0, width=4, vocabulary=12):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(vocabulary, width, generator=generator, dtype=torch.float64))

    def forward(self, features):
        mask = features["attention_mask"].unsqueeze(-1).double()
        return {"sentence_embedding": (self.table[features["input_ids"]] * mask).sum(1) / mask.sum(1)}

    def vector(self, text):
        return self.table[list(text)].mean(0)


def column(texts, *, pad=0, left=False):
    width = max(map(len, texts)) + pad
    ids = [[0] * (width - len(t)) + list(t) if left else list(t) + [0] * (width - len(t)) for t in texts]
    mask = [[0] * (width - len(t)) + [1] * len(t) if left else [1] * len(t) + [0] * (width - len(t)) for t in texts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def ragged(queries, positives, negatives, pool=(), log_g=None):
    """Features and labels as our collator gives them."""
    flat = [text for own in negatives for text in own]
    features = [column(queries), column(positives, pad=1)]
    features += [column(flat)] if flat else []
    features += [column(pool, pad=2)] if pool else []
    labels = {"negative_counts": torch.tensor([len(own) for own in negatives])}
    if pool:
        labels["uniform_count"] = torch.tensor(len(pool))
    if log_g is not None:
        labels["log_g"] = torch.tensor(log_g, dtype=torch.float32)
    return features, labels


def score(q, c, similarity):
    a = q / q.norm() if similarity in ("cosine", "query_normalized") else q
    b = c / c.norm() if similarity in ("cosine", "candidate_normalized") else c
    return a @ b


def softmax_of(row, candidates, vectors, *, similarity, tau, shift=None, reverse=False):
    """Terms exp(s/tau - log g) of the positive and of each negative; in reverse the row is the candidate."""
    scores = [score(vectors[j], row, similarity) if reverse else score(row, vectors[j], similarity) for j in candidates]
    terms = [torch.exp(s / tau - (0.0 if shift is None else shift[j])) for j, s in zip(candidates, scores, strict=True)]
    return terms[0] / sum(terms)


def oracle(
    model,
    queries,
    positives,
    negatives,
    *,
    pool=(),
    log_g=None,
    similarity="cosine",
    tau=0.2,
    tau_w=0.2,
    gamma=2.0,
    symmetric=False,
    dcl=False,
):
    texts = list(positives) + [t for own in negatives for t in own] + list(pool)
    owners = list(range(len(queries))) + [i for i, own in enumerate(negatives) for _ in own] + [None] * len(pool)
    q, c = [model.vector(t) for t in queries], [model.vector(t) for t in texts]
    problems = []
    for i in range(len(queries)):
        allowed = [j for j in range(len(texts)) if texts[j] != positives[i] and (not pool or owners[j] in (i, None))]
        problems.append((0, q[i], [i, *allowed], c, log_g))
    if symmetric:
        for i in range(len(queries)):
            allowed = [j for j in range(len(queries)) if queries[j] != queries[i] and positives[j] != positives[i]]
            problems.append((1, c[i], [i, *allowed], q, None))
    losses, raw = {0: [], 1: []}, {0: [], 1: []}
    for which, row, candidates, vectors, shift in problems:
        p = softmax_of(row, candidates, vectors, similarity=similarity, tau=tau, shift=shift, reverse=which == 1)
        confidence = softmax_of(row, candidates, vectors, similarity="cosine", tau=tau_w).detach()
        losses[which].append(-torch.log(p) if not dcl else torch.log(1 / p - 1) if len(candidates) > 1 else 0 * p)
        raw[which].append(float(1 - confidence) ** gamma)
    totals = [sum(a * loss for a, loss in zip(raw[w], losses[w], strict=True)) / sum(raw[w]) for w in (0, 1) if losses[w]]
    return sum(totals) / len(totals)


QUERIES = [(1, 2), (3,), (1, 4, 5), (3,)]
POSITIVES = [(6, 7), (8,), (6, 7), (9, 10, 11)]
NEGATIVES = [[(8,), (2, 2)], [], [(6, 7), (5,), (4, 3)], [(9,)]]


def compare(loss, model, features, labels, expected):
    value = loss(features, labels)
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-9)
    (gradient,) = torch.autograd.grad(value, model.table, retain_graph=True)
    (wanted,) = torch.autograd.grad(expected, model.table, retain_graph=True)
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("similarity", [s.value for s in Similarity])
@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("symmetric", [False, True])
def test_value_and_gradient_are_the_loop_with_duplicates_and_ragged_negatives(similarity, gamma, symmetric):
    model = Bag()
    focal = FocalConfig(gamma=gamma, temperature=0.3)
    loss = FocalEmbeddingLoss(model, similarity=similarity, temperature=0.7, focal=focal, symmetric=symmetric)
    features, labels = ragged(QUERIES, POSITIVES, NEGATIVES)
    expected = oracle(model, QUERIES, POSITIVES, NEGATIVES, similarity=similarity, tau=0.7, tau_w=0.3, gamma=gamma, symmetric=symmetric)
    compare(loss, model, features, labels, expected)


@pytest.mark.parametrize("similarity", [s.value for s in Similarity])
@pytest.mark.parametrize("loss_name", ["infonce", "dcl"])
def test_the_symmetric_loss_is_the_mean_over_the_score_matrix_and_its_transpose(similarity, loss_name):
    generator = torch.Generator().manual_seed(0)
    q, c = torch.randn(4, 6, generator=generator).double(), torch.randn(4, 6, generator=generator).double()
    c = c * torch.tensor([[0.5], [1.0], [2.0], [4.0]])
    loss = FocalEmbeddingLoss(Given(), similarity=similarity, temperature=1.0, focal=None, loss=loss_name, symmetric=True)
    s = torch.tensor([[float(score(a, b, similarity)) for b in c] for a in q], dtype=torch.float64)
    negatives = ~torch.eye(4, dtype=torch.bool) if loss_name == "dcl" else torch.ones(4, 4, dtype=torch.bool)
    sides = [(m.masked_fill(~negatives, -math.inf).logsumexp(1) - m.diagonal()).mean() for m in (s, s.T)]
    torch.testing.assert_close(loss(vectors(q, c)), (sides[0] + sides[1]) / 2)


@pytest.mark.parametrize("loss_name", ["infonce", "dcl"])
def test_without_focal_weights(loss_name):
    model = Bag()
    loss = FocalEmbeddingLoss(model, scale=5, focal=None, loss=loss_name)
    expected = oracle(model, QUERIES, POSITIVES, NEGATIVES, gamma=0.0, dcl=loss_name == "dcl")
    compare(loss, model, *ragged(QUERIES, POSITIVES, NEGATIVES), expected)
    assert loss.last.weights.tolist() == [1.0] * 4


def test_gamma_zero_is_infonce_bit_for_bit():
    batch = ragged(QUERIES, POSITIVES, NEGATIVES)
    zero = FocalEmbeddingLoss(Bag(), temperature=0.2, focal=FocalConfig(gamma=0.0))(*batch)
    plain = FocalEmbeddingLoss(Bag(), temperature=0.2, focal=None)(*batch)
    assert torch.equal(zero, plain)


def test_corrected_negatives_divide_by_g_in_the_loss_but_not_in_the_confidence():
    model = Bag()
    log_g = torch.log_softmax(torch.randn(10, generator=torch.Generator().manual_seed(4)), 0).tolist()
    loss = FocalEmbeddingLoss(model, similarity="dot", temperature=0.7, focal=FocalConfig(temperature=0.3), negatives="corrected")
    expected = oracle(model, QUERIES, POSITIVES, NEGATIVES, log_g=log_g, similarity="dot", tau=0.7, tau_w=0.3)
    compare(loss, model, *ragged(QUERIES, POSITIVES, NEGATIVES, log_g=log_g), expected)


@pytest.mark.parametrize("negatives", [NEGATIVES, [[], [], [], []]])
def test_uniform_negatives_are_the_pool_and_the_own_columns_only(negatives):
    model = Bag()
    pool = [(8,), (2, 3), (10, 1), (5, 5), (6, 7)]
    loss = FocalEmbeddingLoss(model, temperature=0.2, negatives="uniform")
    compare(loss, model, *ragged(QUERIES, POSITIVES, negatives, pool=pool), oracle(model, QUERIES, POSITIVES, negatives, pool=pool))


def test_plain_columns_are_one_negative_for_each_query():
    model = Bag()
    first, second = [(2,), (4,), (5, 1), (7,)], [(3, 3), (6, 7), (1,), (10,)]
    loss = FocalEmbeddingLoss(model, temperature=0.2)
    features = [column(c) for c in (QUERIES, POSITIVES, first, second)]
    expected = oracle(model, QUERIES, POSITIVES, [list(pair) for pair in zip(first, second, strict=True)])
    compare(loss, model, features, None, expected)
    assert loss.last.candidate_norms.shape == (12,)


@given(pads=st.lists(st.integers(0, 3), min_size=3, max_size=3), left=st.lists(st.booleans(), min_size=3, max_size=3))
def test_padding_changes_nothing(pads, left):
    negatives = [(2,), (4,), (5, 1), (6, 7)]
    loss = FocalEmbeddingLoss(Bag(), temperature=0.2)
    plain = loss([column(c) for c in (QUERIES, POSITIVES, negatives)], None)
    masked = int(loss.last.n_duplicates_masked)
    columns = zip((QUERIES, POSITIVES, negatives), pads, left, strict=True)
    padded = loss([column(c, pad=p, left=side) for c, p, side in columns], None)
    torch.testing.assert_close(padded, plain)
    assert int(loss.last.n_duplicates_masked) == masked > 0


def test_duplicates_of_the_own_positive_change_nothing():
    loss = FocalEmbeddingLoss(Bag(), temperature=0.2)
    queries, positives = QUERIES[:2], POSITIVES[:2]
    plain = loss(*ragged(queries, positives, [[], []]))
    repeated = loss(*ragged(queries, positives, [[positives[0]], []]))
    assert int(loss.last.n_duplicates_masked) == 1
    # for the other query it is one more (repeated) negative, so only the first row stays as it was
    assert repeated != plain
    first = FocalEmbeddingLoss(Bag(), temperature=0.2)
    first(*ragged(queries, positives, [[], []]))
    torch.testing.assert_close(loss.last.loss_per_query[0], first.last.loss_per_query[0])


@given(order=st.permutations(range(4)))
def test_the_order_of_the_queries_changes_nothing(order):
    loss = FocalEmbeddingLoss(Bag(), similarity="dot", temperature=0.9, focal=FocalConfig(temperature=0.2), symmetric=True)
    plain = loss(*ragged(QUERIES, POSITIVES, NEGATIVES))
    weights = loss.last.weights
    moved = loss(*ragged([QUERIES[i] for i in order], [POSITIVES[i] for i in order], [NEGATIVES[i] for i in order]))
    torch.testing.assert_close(moved, plain)
    torch.testing.assert_close(loss.last.weights, weights[list(order)])


class Given(nn.Module):
    """A model that hands out the vectors it is given."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}


def vectors(*tensors):
    return [{"vectors": t} for t in tensors]


def test_the_gradient_of_the_logits_is_weight_times_p_minus_the_positive():
    generator = torch.Generator().manual_seed(5)
    c = torch.eye(3, dtype=torch.float64)
    q = torch.randn(3, 3, generator=generator).double().requires_grad_()
    loss = FocalEmbeddingLoss(Given(), similarity="dot", temperature=1.0, focal=FocalConfig(temperature=0.5))
    # With candidates that are unit axes and tau = 1, the logits are q itself.
    (gradient,) = torch.autograd.grad(loss(vectors(q, 1.0 * c)), q)
    p = torch.softmax(q.detach(), dim=1)
    torch.testing.assert_close(gradient, loss.last.weights.unsqueeze(1) / 3 * (p - torch.eye(3).double()))


@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 100))
def test_focal_weights_are_the_same_in_both_stages_and_blind_to_norms(seed, size):
    generator = torch.Generator().manual_seed(seed)
    q, c = torch.randn(4, 5, generator=generator).double(), torch.randn(4, 5, generator=generator).double()
    sizes = torch.linspace(1, size, 4).unsqueeze(1).double()
    one = FocalEmbeddingLoss(Given(), temperature=0.1)
    two = FocalEmbeddingLoss(Given(), similarity="dot", temperature=3.0, focal=FocalConfig(temperature=0.1))
    one(vectors(q, c))
    two(vectors(sizes * q, size * c))
    torch.testing.assert_close(one.last.weights, two.last.weights, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(one.last.confidence_residual, two.last.confidence_residual, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_reach_dot_logits_near_400(dtype):
    q = torch.full((2, 400), 1.0)
    c = torch.ones(2, 400)
    c[1, 0] = 1.0625
    loss = FocalEmbeddingLoss(Given(), similarity="dot", temperature=1.0, focal=FocalConfig(temperature=0.1))
    plain = loss(vectors(q, c))
    with torch.autocast("cpu", dtype=dtype):
        cast = loss(vectors(q, c))
    assert cast.dtype == torch.float32
    assert torch.equal(cast, plain)
    residual = 1 / (1 + math.exp(-0.0625))
    torch.testing.assert_close(loss.last.residual, torch.tensor([residual, 1 - residual]))
    half = loss(vectors(q.to(dtype), torch.ones(2, 400, dtype=dtype) * torch.tensor([[1.0], [1.25]], dtype=dtype)))
    assert half.dtype == torch.float32
    assert torch.isfinite(half)


def test_zero_vectors_and_small_temperatures_are_finite():
    q = torch.zeros(2, 3, requires_grad=True)
    c = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], requires_grad=True)
    value = FocalEmbeddingLoss(Given(), temperature=0.01)(vectors(q, c))
    torch.testing.assert_close(value.detach(), torch.tensor(math.log(2.0)))
    value.backward()
    assert torch.isfinite(q.grad).all()
    assert torch.isfinite(c.grad).all()


def test_what_the_observer_sees():
    generator = torch.Generator().manual_seed(2)
    q, c, n = (torch.randn(3, 4, generator=generator, requires_grad=True) for _ in range(3))
    loss = FocalEmbeddingLoss(Given(), temperature=0.1)
    assert loss.last is None
    loss(vectors(q, c, n)).backward()
    last = loss.last
    fields = [getattr(last, name) for name in type(last).__dataclass_fields__]
    assert not any(field.requires_grad for field in fields)
    torch.testing.assert_close(last.query_norms, q.detach().norm(dim=1))
    torch.testing.assert_close(last.positive_norms, c.detach().norm(dim=1))
    torch.testing.assert_close(last.candidate_norms, torch.cat([c, n]).detach().norm(dim=1))
    torch.testing.assert_close(last.positive_cosine, torch.cosine_similarity(q, c).detach())
    torch.testing.assert_close(last.residual, 1 - last.positive_probability)
    torch.testing.assert_close(last.loss_per_query, -last.positive_probability.log())
    torch.testing.assert_close(last.residual, last.confidence_residual)  # cosine with tau_w = tau
    assert float(last.temperature) == 0.1
    assert int(last.n_duplicates_masked) == 0


def test_random_weights_follow_the_seed_and_the_number_of_draws():
    q, c = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)), torch.randn(8, 4, generator=torch.Generator().manual_seed(2))

    def series(seed, draws=0):
        loss = FocalEmbeddingLoss(Given(), temperature=0.1, focal=FocalConfig(weighting=Weighting.RANDOM), seed=seed)
        loss.draws = draws
        seen = []
        for _ in range(3):
            loss(vectors(q, c))
            seen.append(loss.last.weights)
        return seen

    one, again, other, later = series(1), series(1), series(2), series(1, draws=1)
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one[0], other[0])
    assert not torch.equal(one[0], one[1])
    assert torch.equal(one[1], later[0])
    loss = FocalEmbeddingLoss(Given(), temperature=0.1, focal=FocalConfig(weighting=Weighting.RANDOM))
    loss.model.eval()
    loss(vectors(q, c))
    assert loss.draws == 0


def test_candidate_columns_share_a_forward_pass_and_image_like_inputs_do_not():
    class Counting(Bag):
        calls = 0

        def forward(self, features):
            self.calls += 1
            return super().forward(features)

    model = Counting()
    FocalEmbeddingLoss(model, temperature=0.2)([column(c) for c in (QUERIES, POSITIVES, [(2,)] * 4, [(4, 5)] * 4)], None)
    assert model.calls == 2
    model = Counting()
    odd = [column(c) | {"other": torch.zeros(4)} for c in (QUERIES, POSITIVES, [(2,)] * 4)]
    FocalEmbeddingLoss(model, temperature=0.2)(odd, None)
    assert model.calls == 3


def test_sharing_a_forward_pass_moves_no_token():
    class Positional(Bag):
        def forward(self, features):
            place = torch.arange(1.0, features["input_ids"].shape[1] + 1)
            return super().forward(features | {"attention_mask": features["attention_mask"] * place})

    columns = [column(c) for c in (QUERIES, POSITIVES, [(2,)] * 4, [(4, 5, 1, 2)] * 4)]
    together = FocalEmbeddingLoss(Positional(), temperature=0.2)(columns, None)
    apart = FocalEmbeddingLoss(Positional(), temperature=0.2)([c | {"other": torch.zeros(4)} for c in columns], None)
    torch.testing.assert_close(together, apart)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity": "cosin"}, "did you mean cosine"),
        ({"temperature": 0.1, "scale": 10.0}, "both came"),
        ({"temperature": 0.0}, "temperature must be a finite number > 0"),
        ({"scale": -1}, "scale must be a finite number > 0"),
        ({"temperature": math.nan}, "temperature must be"),
        ({"similarity": "dot"}, "temperature is needed with similarity dot"),
        ({"similarity": "dot", "temperature": 9.0}, "tau_w of the cosine confidence"),
        ({"loss": "dlc", "focal": None}, "did you mean dcl"),
        ({"loss": "dcl"}, "pass focal=None"),
        ({"negatives": "unifrom"}, "did you mean uniform"),
        ({"negatives": "uniform", "symmetric": True}, "symmetric needs negatives in_batch"),
        ({"temperature": TemperatureConfig(mode="match")}, "measure it"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        FocalEmbeddingLoss(Given(), **settings)


class Normalize(nn.Module):
    """Named as the module of sentence-transformers, which is recognized by its name."""

    def forward(self, features):
        return features | {"sentence_embedding": nn.functional.normalize(features["sentence_embedding"])}


@pytest.mark.parametrize("similarity", ["dot", "query_normalized", "candidate_normalized"])
def test_a_model_that_normalizes_cannot_learn_norms(similarity):
    focal = FocalConfig(temperature=0.1)
    with pytest.raises(InputError, match="ends in a Normalize module"):
        FocalEmbeddingLoss(nn.Sequential(Given(), Normalize()), similarity=similarity, temperature=1.0, focal=focal)
    FocalEmbeddingLoss(nn.Sequential(Given(), Normalize()))
    FocalEmbeddingLoss(nn.Sequential(Normalize(), Given()), similarity=similarity, temperature=1.0, focal=focal)


def test_norms_that_are_all_one_under_dot_are_warned_of_once():
    loss = FocalEmbeddingLoss(Given(), similarity="dot", temperature=1.0, focal=None)
    with pytest.warns(UserWarning, match="something normalizes"):
        loss(vectors(torch.eye(3), torch.eye(3)))
    loss(vectors(torch.eye(3), torch.eye(3)))
    FocalEmbeddingLoss(Given())(vectors(torch.eye(3), torch.eye(3)))


def test_batches_that_cannot_teach_are_refused():
    loss = FocalEmbeddingLoss(Bag())
    with pytest.raises(InputError, match="zero negatives in a batch of 1 with 1 candidates: there is nothing but the positive"):
        loss([column([(1,)]), column([(2,)])], None)
    with pytest.raises(InputError, match="zero negatives in a batch of 2 with 2 candidates: every other candidate equals"):
        loss([column([(1,), (3,)]), column([(2,), (2,)])], None)
    assert torch.isfinite(FocalEmbeddingLoss(Bag())([column([(1,)]), column([(2,)]), column([(3,)])], None))
    with pytest.raises(InputError, match="at least two columns"):
        loss([column([(1,)])], None)
    with pytest.raises(InputError, match="positive column: 2 rows were expected"):
        loss([column([(1,), (2,)]), column([(2,)])], None)
    with pytest.raises(InputError, match="negative column 1: 2 rows"):
        loss([column([(1,), (2,)]), column([(2,), (3,)]), column([(3,)])], None)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("queries", "positives"), [([(1,)], [(2,)]), ([(1,), (3,)], [(2,), (2,)])])
def test_a_later_batch_without_negatives_is_left_out_with_one_warning(training, symmetric, queries, positives):
    model = Bag().train(training)
    loss = FocalEmbeddingLoss(model, temperature=0.2, symmetric=symmetric)
    loss([column(QUERIES), column(POSITIVES)], None)
    last = [column(queries), column(positives)]
    with pytest.warns(UserWarning, match="zero negatives in a batch of .* left out"):
        value = loss(last, None)
    assert float(value.detach()) == 0.0
    value.backward()
    assert model.table.grad.eq(0).all()
    assert float(loss(last, None).detach()) == 0.0
    assert torch.isfinite(loss.last.random_cosine)
    model.train(not training)
    with pytest.raises(InputError, match="zero negatives"):
        loss(last, None)


@pytest.mark.parametrize("similarity", ["dot", "query_normalized", "candidate_normalized"])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_logits_that_overflow_are_refused_with_their_place(similarity, where):
    batch = [torch.eye(2, 3) + 1.0 for _ in range(3)]
    batch[where][1] = 3e38
    other = 0 if where else 1
    batch[other] = batch[other] * 1e3
    loss = FocalEmbeddingLoss(Given(), similarity=similarity, temperature=1e-3, focal=None)
    batch[where].requires_grad_()
    raw = {"query_normalized": (1, 2), "candidate_normalized": (0,)}.get(similarity, (0, 1, 2))
    if where in raw:
        place = "query row 1 .* with candidate column" if where == 0 else f"query row 0 .* with candidate column {1 if where == 1 else 3}"
        with pytest.raises(InputError, match=place + ".*overflows float32"):
            loss(vectors(*batch))
    else:
        assert torch.isfinite(loss(vectors(*batch)))


def test_logits_whose_difference_overflows_are_refused():
    q, c = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[-3e38, 1.0], [3e38, 2.0]])
    loss = FocalEmbeddingLoss(Given(), similarity="dot", temperature=1.0, focal=None)
    with pytest.raises(InputError, match=r"query row 0 \(norm 1\) .*overflows float32"):
        loss(vectors(q, c))


@pytest.mark.parametrize(
    ("side", "row", "message"),
    [(0, 1, "query embeddings, row 1"), (1, 0, "positive embeddings, row 0"), (2, 1, "negative embeddings, row 1")],
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_vectors_that_are_not_finite_are_named(side, row, message, value):
    batch = [torch.randn(2, 3) for _ in range(3)]
    batch[side][row, 2] = value
    with pytest.raises(InputError, match=message):
        FocalEmbeddingLoss(Given())(vectors(*batch))


def test_labels_that_do_not_fit_are_refused():
    features, labels = ragged(QUERIES, POSITIVES, NEGATIVES)
    loss = FocalEmbeddingLoss(Bag())
    for wrong, message in [
        (torch.zeros(4), "drop the label column"),
        ({**labels, "counts": 1}, "unknown keys"),
        ({}, "negative_counts is missing"),
        ({"negative_counts": torch.tensor([1, 1, 1])}, "4 values were expected"),
        ({"negative_counts": torch.tensor([1, 1, 1, 1])}, r"\[4\] rows were expected"),
        ({**labels, "log_g": torch.zeros(10)}, "labels hold log_g"),
    ]:
        with pytest.raises(InputError, match=message):
            loss(features, wrong)
    corrected = FocalEmbeddingLoss(Bag(), negatives="corrected")
    for wrong, message in [
        (labels, "needs labels with log_g"),
        ({**labels, "log_g": torch.zeros(3)}, "log_g: 10 values"),
        ({**labels, "log_g": torch.full((10,), -torch.inf)}, "log_g, column 0"),
    ]:
        with pytest.raises(InputError, match=message):
            corrected(features, wrong)
    with pytest.raises(InputError, match="no pool came"):
        FocalEmbeddingLoss(Bag(), negatives="uniform")(features, labels)
    with pytest.raises(InputError, match="a pool of 2 came"):
        loss(*ragged(QUERIES, POSITIVES, NEGATIVES, pool=[(1,), (2,)]))


def test_the_repr_and_the_config_say_what_is_done():
    loss = FocalEmbeddingLoss(Given(), similarity="query_normalized", temperature=4.0, focal=FocalConfig(temperature=0.1))
    text = repr(loss)
    for part in ("similarity=query_normalized", "normalized=query", "temperature=4", "scale=0.25", "focal(gamma=2, tau_w=0.1)"):
        assert part in text
    assert "normalized=neither side" in repr(FocalEmbeddingLoss(Given(), similarity="dot", temperature=4.0, focal=None))
    config = loss.get_config_dict()
    assert config["temperature"] == 4.0
    assert config["focal"]["gamma"] == 2.0
    assert "2609.15152" in loss.citation


@pytest.mark.parametrize("number", [np.float32(0.25), np.float64(0.25), np.int64(2), 2])
def test_a_measured_temperature_may_be_a_number_of_numpy(number):
    loss = FocalEmbeddingLoss(torch.nn.Identity(), similarity="dot", temperature=number, focal=None)
    assert float(loss.temperature.current()) == float(number)
