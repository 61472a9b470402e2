"""What negatives do to a prior (known optima on a free table of logits), and the radial and angular parts of a gradient."""

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.similarity import Similarity
from normwise.objectives.infonce import correct_sampling, infonce
from normwise.objectives.scores import score_matrix

QUERY_LAW = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
ANSWER_LAW = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.4, 0.4, 0.1, 0.1], [0.3, 0.1, 0.2, 0.4]], dtype=torch.float64)


def optimum(g, *, corrected):
    """Minimize the exact expected loss over a free 3 x 4 table: one positive from p(d|q), two negatives from g."""
    draws = list(itertools.product(range(3), range(4), range(4), range(4)))
    query = torch.tensor([d[0] for d in draws])
    shown = torch.tensor([d[1:] for d in draws])
    chance = QUERY_LAW[query] * ANSWER_LAW[query, shown[:, 0]] * g[shown[:, 1]] * g[shown[:, 2]]
    table = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([table], max_iter=300, tolerance_grad=1e-11, tolerance_change=1e-14, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        logits = correct_sampling(table, g.log()) if corrected else table
        loss = (chance * infonce(logits[query].gather(1, shown), torch.zeros_like(query)).loss).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return table.detach()


def centered(x):
    return x - x.mean(dim=1, keepdim=True)


def test_in_batch_negatives_divide_the_prior_out_and_the_correction_or_uniform_negatives_bring_it_back():
    popularity = QUERY_LAW @ ANSWER_LAW
    log_p = centered(ANSWER_LAW.log())
    information = centered((ANSWER_LAW / popularity).log())
    torch.testing.assert_close(centered(optimum(popularity, corrected=False)), information, atol=1e-5, rtol=0)
    torch.testing.assert_close(centered(optimum(popularity, corrected=True)), log_p, atol=1e-5, rtol=0)
    uniform = torch.full((4,), 0.25, dtype=torch.float64)
    torch.testing.assert_close(centered(optimum(uniform, corrected=False)), log_p, atol=1e-5, rtol=0)
    assert (information - log_p).abs().max() > 0.5


def dot_problem(seed, sharpness):
    generator = torch.Generator().manual_seed(seed)
    n, d = int(torch.randint(2, 7, (), generator=generator)), int(torch.randint(2, 6, (), generator=generator))
    draw = torch.randn(n + 1, d, generator=generator).double()
    unit = draw / draw.norm(dim=1, keepdim=True)
    direction, candidates = unit[0], unit[1:]
    candidates = candidates.clone()
    candidates[0] = direction + candidates[0] * math.exp(-sharpness)
    candidates[0] /= candidates[0].norm()
    r, big_r, tau = (0.2 + 3 * torch.rand(3, generator=generator).double()).tolist()
    return direction, candidates, r, big_r, tau


def gradient_of_query(q, candidates, big_r, tau, *, create_graph=False):
    logits = score_matrix(q.unsqueeze(0), big_r * candidates, Similarity.DOT) / tau
    loss = infonce(logits, torch.zeros(1, dtype=torch.int64)).loss.sum()
    return torch.autograd.grad(loss, q, create_graph=create_graph)[0]


def tangent(direction, x):
    return x - direction * (direction @ x)


@given(seed=st.integers(0, 2**31), sharpness=st.floats(0, 5))
def test_radial_and_angular_parts_their_derivatives_and_both_bounds_of_proposition_1(seed, sharpness):
    direction, candidates, r, big_r, tau = dot_problem(seed, sharpness)
    beta = r * big_r / tau
    u = candidates @ direction
    p = torch.softmax(beta * u, dim=0)
    rho = float(1 - p[0])

    radius = torch.tensor(r, dtype=torch.float64, requires_grad=True)
    gradient = gradient_of_query(radius * direction, candidates, big_r, tau, create_graph=True)
    mean = (p.unsqueeze(1) * candidates).sum(0)
    torch.testing.assert_close((gradient @ direction).detach(), big_r / tau * (p @ u - u[0]))
    torch.testing.assert_close(tangent(direction, gradient).detach(), big_r / tau * tangent(direction, mean - candidates[0]))

    # d b / d r, by autograd, by its exact form, and below its bound
    b = tangent(direction, gradient)
    rows = [torch.autograd.grad(x, radius, retain_graph=True)[0] for x in b]
    slope = torch.stack(rows)
    exact = (big_r / tau) ** 2 * tangent(direction, ((p * (u - p @ u)).unsqueeze(1) * candidates).sum(0))
    torch.testing.assert_close(slope, exact, rtol=1e-8, atol=1e-12)
    assert slope.norm() <= 4 * big_r**2 * rho / tau**2 + 1e-12

    # D a [h] for every tangent h at once: the tangent part of the gradient of a with respect to the direction
    free = direction.clone().requires_grad_()
    a = gradient_of_query(r * free, candidates, big_r, tau, create_graph=True) @ free
    change = tangent(direction, torch.autograd.grad(a, free)[0])
    h = tangent(direction, torch.randn(len(direction), generator=torch.Generator().manual_seed(seed)).double())
    v = candidates @ h
    covariance = p @ (u * v) - (p @ u) * (p @ v)
    torch.testing.assert_close(change @ h, big_r / tau * (beta * covariance + p @ v - v[0]), rtol=1e-8, atol=1e-12)
    assert change.norm() <= big_r / tau * (4 * beta + 2) * rho + 1e-12


def test_derivative_of_the_angular_part_by_finite_differences():
    direction, candidates, r, big_r, tau = dot_problem(7, 1.0)

    def angular(radius):
        q = (radius * direction).requires_grad_()
        return tangent(direction, gradient_of_query(q, candidates, big_r, tau))

    step = 1e-5
    u = candidates @ direction
    p = torch.softmax(r * big_r / tau * u, dim=0)
    exact = (big_r / tau) ** 2 * tangent(direction, ((p * (u - p @ u)).unsqueeze(1) * candidates).sum(0))
    torch.testing.assert_close((angular(r + step) - angular(r - step)) / (2 * step), exact, rtol=1e-7, atol=1e-9)
