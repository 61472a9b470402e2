"""InfoNCE and DCL: loops transcribed from the equations, gradients, extremes, masks."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normwise.objectives.candidates import padding_mask
from normwise.objectives.infonce import correct_sampling, dcl, hardest_negative, infonce


def problem(seed, rows=4, columns=6, size=3.0):
    generator = torch.Generator().manual_seed(seed)
    logits = size * torch.randn(rows, columns, generator=generator).double()
    positive = torch.randint(columns, (rows,), generator=generator)
    excluded = torch.rand(rows, columns, generator=generator) < 0.3
    excluded[torch.arange(rows), positive] = False
    return logits, positive, excluded


def loop(logits, positive, excluded, *, decoupled=False):
    losses, probabilities = [], []
    for row, p, out in zip(logits.tolist(), positive.tolist(), excluded.tolist(), strict=True):
        negatives = sum(math.exp(z) for j, z in enumerate(row) if j != p and not out[j])
        probability = math.exp(row[p]) / (negatives + math.exp(row[p]))
        probabilities.append(probability)
        losses.append(0.0 if negatives == 0 else math.log(negatives) - row[p] if decoupled else -math.log(probability))
    return torch.tensor(losses, dtype=torch.float64), torch.tensor(probabilities, dtype=torch.float64)


@given(seed=st.integers(0, 2**31), columns=st.integers(1, 8))
def test_losses_are_the_loops(seed, columns):
    logits, positive, excluded = problem(seed, columns=columns)
    loss, probability = loop(logits, positive, excluded)
    result = infonce(logits, positive, excluded=excluded)
    torch.testing.assert_close(result.loss, loss)
    torch.testing.assert_close(result.positive_probability, probability)
    torch.testing.assert_close(result.residual, 1 - probability)
    torch.testing.assert_close(result.log_residual.exp(), 1 - probability)
    decoupled = dcl(logits, positive, excluded=excluded)
    torch.testing.assert_close(decoupled.loss, loop(logits, positive, excluded, decoupled=True)[0])
    torch.testing.assert_close(decoupled.positive_probability, probability)


@given(seed=st.integers(0, 2**31))
def test_gradient_is_p_minus_the_positive(seed):
    logits, positive, excluded = problem(seed)
    logits.requires_grad_()
    weights = torch.rand(4, generator=torch.Generator().manual_seed(seed)).double()
    (gradient,) = torch.autograd.grad((weights * infonce(logits, positive, excluded=excluded).loss).mean(), logits)
    p = torch.softmax(logits.detach().masked_fill(excluded, -torch.inf), dim=1)
    p[torch.arange(4), positive] -= 1
    torch.testing.assert_close(gradient, weights.unsqueeze(1) / 4 * p)


@given(seed=st.integers(0, 2**31), order=st.permutations(range(6)), shift=st.floats(-1e3, 1e3))
def test_order_of_columns_chunks_of_rows_and_a_shift_change_nothing(seed, order, shift):
    logits, positive, excluded = problem(seed)
    whole = infonce(logits, positive, excluded=excluded).loss
    columns = torch.tensor(order)
    moved = infonce(logits[:, columns] + shift, torch.argsort(columns)[positive], excluded=excluded[:, columns]).loss
    torch.testing.assert_close(moved, whole, rtol=1e-7, atol=1e-9)
    chunks = [infonce(logits[i : i + 1], positive[i : i + 1], excluded=excluded[i : i + 1]).loss for i in range(4)]
    torch.testing.assert_close(torch.cat(chunks), whole)


@given(counts=st.lists(st.integers(0, 4), min_size=2, max_size=5), extra=st.integers(0, 3), seed=st.integers(0, 2**31))
def test_ragged_negatives_are_the_unpadded_rows_and_padding_changes_nothing(counts, extra, seed):
    generator = torch.Generator().manual_seed(seed)
    width = max(counts) + extra
    logits = torch.randn(len(counts), 1 + width, generator=generator).double()
    positive = torch.zeros(len(counts), dtype=torch.int64)
    excluded = torch.cat([torch.zeros(len(counts), 1, dtype=torch.bool), padding_mask(torch.tensor(counts), width=width)], dim=1)
    result = infonce(logits, positive, excluded=excluded)
    alone = [infonce(logits[i : i + 1, : 1 + n], positive[:1]) for i, n in enumerate(counts)]
    torch.testing.assert_close(result.loss, torch.cat([a.loss for a in alone]))
    torch.testing.assert_close(result.log_residual, torch.cat([a.log_residual for a in alone]))


@pytest.mark.parametrize("loss", [infonce, dcl])
def test_rows_without_negatives_and_masked_columns_have_gradient_zero_also_with_a_learned_temperature(loss):
    scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    bias = torch.tensor(3.0, requires_grad=True)
    excluded = torch.tensor([[False, True, True, True], [False, False, True, False], [False, False, False, False]])
    result = loss(scores * bias.exp(), torch.tensor([0, 0, 1]), excluded=excluded)
    assert result.loss[0] == 0
    assert (result.positive_probability[0], result.residual[0], result.log_residual[0]) == (1, 0, -torch.inf)
    (result.loss.sum() + result.residual.sum()).backward()
    assert torch.isfinite(scores.grad).all()
    assert torch.isfinite(bias.grad)
    assert scores.grad[0].tolist() == [0.0] * 4
    assert scores.grad[1, 2] == 0


def test_a_logit_of_minus_infinity_is_a_masked_column():
    logits = torch.tensor([[1.0, -torch.inf, 0.5], [0.0, -torch.inf, -torch.inf]], requires_grad=True)
    result = infonce(logits, torch.tensor([0, 0]))
    torch.testing.assert_close(result.loss[0], infonce(torch.tensor([[1.0, 0.5]]), torch.tensor([0])).loss[0])
    assert result.loss[1] == 0
    result.loss.sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_the_residual_survives_where_one_minus_p_underflows():
    result = infonce(torch.tensor([[60.0, 0.0]]), torch.tensor([0]))
    assert 1 - result.positive_probability == 0
    torch.testing.assert_close(result.residual, torch.tensor([math.exp(-60)]), rtol=1e-5, atol=0)
    torch.testing.assert_close(result.log_residual, torch.tensor([-60.0]))
    torch.testing.assert_close(result.loss, torch.tensor([math.exp(-60)]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("temperature", [0.01, 0.001])
def test_small_temperatures_neither_overflow_nor_lose_the_gradient(temperature):
    cosines = torch.tensor([[0.2, 0.9, -1.0]], requires_grad=True)
    result = infonce(cosines / temperature, torch.tensor([0]))
    torch.testing.assert_close(result.loss, torch.tensor([0.7 / temperature]))
    result.loss.sum().backward()
    torch.testing.assert_close(cosines.grad, torch.tensor([[-1.0, 1.0, 0.0]]) / temperature)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_float32_results(dtype):
    logits = torch.tensor([[400.0, 399.0, 398.0]], dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = infonce(logits, torch.tensor([0]))
    assert result.loss.dtype == torch.float32
    torch.testing.assert_close(result.loss, infonce(logits.float(), torch.tensor([0])).loss)


def test_hardest_negative():
    scores = torch.tensor([[0.9, 0.2, 0.5], [0.1, 0.8, 0.3]])
    excluded = torch.tensor([[False, False, True], [True, False, True]])
    assert torch.equal(hardest_negative(scores, torch.tensor([0, 1]), excluded=excluded), torch.tensor([0.2, -torch.inf]))


@given(seed=st.integers(0, 2**31), constant=st.floats(-20, 20))
def test_the_correction_divides_every_term_by_g_and_ignores_a_common_factor(seed, constant):
    logits, positive, excluded = problem(seed)
    g = torch.rand(6, generator=torch.Generator().manual_seed(seed)).double() + 0.01
    corrected = infonce(correct_sampling(logits, g.log()), positive, excluded=excluded)
    for i, p in enumerate(positive.tolist()):
        terms = [math.exp(logits[i, j]) / float(g[j]) if not excluded[i, j] else 0.0 for j in range(6)]
        torch.testing.assert_close(float(corrected.positive_probability[i]), terms[p] / sum(terms))
    shifted = infonce(correct_sampling(logits, g.log() + constant), positive, excluded=excluded)
    torch.testing.assert_close(shifted.loss, corrected.loss)
