"""Scores on disk, claims over seeds, and the points of the page."""

from __future__ import annotations

import numpy as np
import pytest

from normwise.core.config import ClaimConfig, PaceConfig
from normwise.core.errors import InputError
from normwise.core.records import GEOMETRY, METRICS
from normwise.core.similarity import Similarity
from normwise.theory.geometry import embedding_geometry
from normwise.workflows.comparison import Scores, cached_scores, judge_claims, mean_geometry, report_figures, stack
from normwise.workflows.job import check_claims


def scores_of(level, *, queries=60, seed=0, e3=0.1):
    generator = np.random.default_rng(seed)
    table = {metric: np.clip(level + 0.05 * generator.normal(size=queries), 0, 1) for metric in METRICS}
    return Scores(metrics={"cosine": table, "dot": table}, geometry={"e3_knn": e3, "a1": float("nan")})


def claim(figure="ndcg@10"):
    return ClaimConfig(name="a beats b", higher=("a", Similarity.DOT), lower=("b", Similarity.COSINE), figure=figure)


def test_scores_round_trip(tmp_path):
    scores = scores_of(0.5)
    scores.write(tmp_path / "s.npz")
    back = Scores.read(tmp_path / "s.npz")
    for ranking in ("cosine", "dot"):
        for metric in METRICS:
            np.testing.assert_array_equal(back.metrics[ranking][metric], scores.metrics[ranking][metric])
    assert back.geometry["e3_knn"] == 0.1
    assert np.isnan(back.geometry["a1"])


def test_scores_are_computed_once(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return scores_of(0.5)

    assert stack([cached_scores(tmp_path, "dev", compute)], "dot", "p@1").shape == (1, 60)
    cached_scores(tmp_path, "dev", compute)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("gap", "seeds", "expected"),
    [(0.2, 5, "reproduced"), (-0.2, 5, "not reproduced"), (0.2, 4, "undecided at this size"), (0.0, 5, "undecided at this size")],
)
@pytest.mark.parametrize("figure", ["ndcg@10", "e3_knn"])
def test_claims_follow_the_evidence(gap, seeds, expected, figure):
    scores = {
        "a": [scores_of(0.5 + gap, seed=s, e3=0.3 + gap + 0.001 * s * (-1) ** s) for s in range(seeds)],
        "b": [scores_of(0.5, seed=s + 100, e3=0.3) for s in range(seeds)],
    }
    outcomes, comparisons = judge_claims([claim(figure)], scores, np.arange(60), samples=400, seed=0)
    assert outcomes == {"a beats b": expected}
    assert comparisons[0].candidate == "a (dot)"
    assert comparisons[0].difference.mean == pytest.approx(gap, abs=0.01)


def test_geometry_means_leave_out_what_is_undefined():
    assert mean_geometry([scores_of(0.5, e3=0.1), scores_of(0.5, e3=0.3)]) == {"e3_knn": pytest.approx(0.2), "a1": None}


def test_figures_are_bounded_and_true():
    generator = np.random.default_rng(0)
    queries, candidates = generator.normal(size=(40, 8)), generator.normal(size=(3_000, 8))
    figures = report_figures(queries, candidates, seed=0)
    assert len(figures.norms_candidates) == len(figures.directions) == len(figures.direction_norm_percentiles) == 1_500
    assert figures.norms_queries == pytest.approx(np.linalg.norm(queries, axis=1), rel=1e-4)
    known = np.sort(np.linalg.norm(candidates, axis=1))
    drawn = np.array(figures.norms_candidates)
    place = np.clip(np.searchsorted(known, drawn), 1, len(known) - 1)
    assert np.minimum(abs(known[place] - drawn), abs(known[place - 1] - drawn)).max() < 1e-4
    assert max(map(abs, figures.random_pair_similarities)) <= 1
    assert min(figures.direction_norm_percentiles) == 0
    assert max(figures.direction_norm_percentiles) == 100


def test_the_named_figures_are_those_that_are_measured():
    vectors = np.random.default_rng(0).normal(size=(60, 4))
    assert tuple(embedding_geometry(vectors, vectors, vectors, seed=0)) == GEOMETRY


def test_a_claim_about_an_unknown_figure_is_refused_with_near_names():
    arms = {"a": [{"name": "s", "temperature": 0.1}]}
    config = PaceConfig.read(
        {"data": {"name": "x"}, "arms": arms, "claims": [{**claim().model_dump(), "lower": ["a", "cosine"], "figure": "e3_kn"}]}
    )
    with pytest.raises(InputError, match="figure 'e3_kn' is unknown: did you mean e3_knn"):
        check_claims(config)
