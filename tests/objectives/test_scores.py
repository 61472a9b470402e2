"""Norms, directions, score matrices: oracles in float64, gradients, precision, zero vectors."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.similarity import Similarity
from normwise.objectives.scores import full_precision, normalize, norms, score_matrix


def loop_score(q, c, similarity):
    dot = sum(float(a) * float(b) for a, b in zip(q, c, strict=True))
    q_norm = math.sqrt(sum(float(a) ** 2 for a in q))
    c_norm = math.sqrt(sum(float(b) ** 2 for b in c))
    return {"cosine": dot / (q_norm * c_norm), "dot": dot, "query_normalized": dot / q_norm, "candidate_normalized": dot / c_norm}[
        similarity
    ]


@pytest.mark.parametrize("similarity", list(Similarity))
def test_scores_are_the_loop(similarity):
    generator = torch.Generator().manual_seed(1)
    q, c = torch.randn(3, 5, generator=generator).double(), 4 * torch.randn(4, 5, generator=generator).double()
    expected = torch.tensor([[loop_score(a, b, similarity.value) for b in c] for a in q], dtype=torch.float64)
    torch.testing.assert_close(score_matrix(q, c, similarity), expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(score_matrix(q.float(), c.float(), similarity), expected.float())


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e20, 1e30])
def test_directions_do_not_depend_on_the_scale(size):
    x = torch.tensor([[3.0, -4.0, 12.0]])
    torch.testing.assert_close(normalize(x * size), x / 13.0)
    torch.testing.assert_close(norms(x * size), torch.tensor([13.0 * size]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_zero_vectors_have_norm_direction_score_and_gradient_zero(dtype):
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    direction = normalize(x)
    assert direction.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert direction[0].tolist() == [0.0, 0.0]
    assert norms(x.detach()).tolist() == [0.0, 5.0]
    score_matrix(x, x.detach(), Similarity.COSINE).square().sum().backward()
    assert x.grad[0].tolist() == [0.0, 0.0]
    assert torch.isfinite(x.grad).all()


def test_no_rows_and_no_width():
    assert norms(torch.zeros(0, 3)).shape == (0,)
    assert normalize(torch.zeros(2, 0)).shape == (2, 0)


@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 100))
def test_cosine_gradient_is_orthogonal_to_the_embedding_and_dot_gradient_is_not(seed, size):
    generator = torch.Generator().manual_seed(seed)
    q = (size * torch.randn(3, 6, generator=generator).double()).requires_grad_()
    c = torch.randn(5, 6, generator=generator).double()
    upstream = torch.randn(3, 5, generator=generator).double()
    (gradient,) = torch.autograd.grad((upstream * score_matrix(q, c, Similarity.COSINE)).sum(), q)
    assert ((gradient * q).sum(1).abs() <= 1e-12 * gradient.norm(dim=1) * q.norm(dim=1) + 1e-14).all()
    (raw,) = torch.autograd.grad((upstream * score_matrix(q, c, Similarity.DOT)).sum(), q)
    assert (raw * q).sum().abs() > 0


def test_gradient_of_normalize_is_that_of_the_plain_formula():
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    assert torch.autograd.gradcheck(normalize, (x,))
    assert torch.autograd.gradcheck(norms, (x,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_reach_dot_scores_near_400(dtype):
    q = torch.full((1, 400), 1.0)
    c = torch.ones(2, 400)
    c[1, 0] = 1.0625  # neither half precision type can tell 400 from 400.0625
    with torch.autocast("cpu", dtype=dtype):
        scores = score_matrix(q, c, Similarity.DOT)
        assert (q @ c.T)[0, 0] == (q @ c.T)[0, 1]
    assert scores.dtype == torch.float32
    assert scores.tolist() == [[400.0, 400.0625]]


def test_full_precision_keeps_float64_and_lifts_the_rest():
    assert full_precision(torch.zeros(1, dtype=torch.float64)).dtype == torch.float64
    assert full_precision(torch.zeros(1, dtype=torch.float16)).dtype == torch.float32
