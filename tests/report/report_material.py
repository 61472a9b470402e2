"""Test material: a made-up result with the shape of a real one. Its numbers were drawn, not measured."""

from __future__ import annotations

import math
import random

from normwise.core.records import (
    METRICS,
    Comparison,
    Decision,
    Evaluation,
    GateReport,
    Interval,
    ReportFigures,
    RunResult,
    StageResult,
    TrainResult,
)

MARK = "TEST MATERIAL: drawn numbers, nothing was trained"


def interval(mean: float, half: float = 0.016) -> Interval:
    return Interval(mean=mean, ci_low=mean - half, ci_high=mean + half)


def metric_table(ndcg: float) -> dict[str, Interval]:
    levels = {
        "p@1": ndcg - 0.11,
        "mrr@10": ndcg - 0.04,
        "ndcg@10": ndcg,
        "recall@1": ndcg - 0.11,
        "recall@10": ndcg + 0.15,
        "recall@100": ndcg + 0.33,
    }
    return {metric: interval(levels[metric]) for metric in METRICS}


def curve(similarity: str, *, steps: int, start: float, seed: int) -> tuple[dict[str, float | None], ...]:
    draw = random.Random(seed)
    rows = []
    for step in range(1, steps + 1):
        done = step / steps
        loss = start * math.exp(-1.6 * done) + 0.35 + draw.gauss(0, 0.05)
        scale = 1.0 if similarity == "cosine" else 1.0 + 0.5 * done
        rows.append(
            {
                "step": float(step),
                "loss": loss,
                "residual": max(0.05, 0.75 * math.exp(-1.3 * done) + draw.gauss(0, 0.02)),
                "gradient_norm": abs(draw.gauss(1.6, 0.4)) * (9.0 if similarity == "dot" and step in (12, 40) else 1.0) + 0.2,
                "norm_mean": 5.6 * scale + draw.gauss(0, 0.03),
                "norm_cv": 0.06 + (0.07 * done if similarity == "dot" else 0.004) + draw.gauss(0, 0.002),
                "effective_sample_size": 64 - 30 * done + draw.gauss(0, 2),
                "learning_rate": 1e-4 * (1 - done),
                "temperature": 0.05 if similarity == "cosine" else 1.6,
                "entanglement": -0.3 * done + draw.gauss(0, 0.05) if step > 1 else None,
            }
        )
    return tuple(rows)


def gates(*, last: bool) -> tuple[GateReport, ...]:
    freedom = GateReport(
        name="norm_freedom",
        passed=False,
        words="The encoder ends in a LayerNorm: 1/norm is linear in the direction.",
        figures={"affine_r2": 1.0, "knn_r2": 0.24, "ridge_r2": 0.48, "radial_freedom": 0.0},
    )
    if not last:
        merge = GateReport(
            name="merge",
            passed=True,
            words="Probe vectors before and after the merge differ by at most 4.8e-07.",
            figures={"max_difference": 4.8e-7, "tolerance": 1e-4},
        )
        return (freedom, merge)
    logits = GateReport(
        name="logits_matched",
        passed=True,
        words="Logits of the next stage are 1.02 times as wide as those of the stage before: matched.",
        figures={"ratio": 1.02},
    )
    angular = GateReport(
        name="angular_quality",
        passed=True,
        words="Cosine nDCG@10 on dev moved by +0.0410 (standard error 0.0090): the angles improved.",
        figures={"difference": 0.041, "standard_error": None},
    )
    return (freedom, logits, angular)


def stage(name: str, similarity: str, trainable: str, *, steps: int, seed: int) -> StageResult:
    return StageResult(
        name=name,
        similarity=similarity,
        trainable=trainable,
        steps=steps,
        temperature=0.05 if similarity == "cosine" else 1.58,
        seconds=1.1 * steps,
        curve=curve(similarity, steps=steps, start=2.9 if similarity == "cosine" else 2.2, seed=seed),
        gates=gates(last=name == "two"),
        notes=(MARK,),
    )


def geometry(level: float) -> dict[str, float | None]:
    return {
        "e1_pearson": -0.6 * level,
        "e2_spearman": -0.55 * level,
        "e3_affine": 0.21 * level,
        "e3_ellipsoid": 0.9 * level,
        "e3_knn": 0.6 * level,
        "e3_ridge": 0.7 * level,
        "radial_freedom": 1 - 0.9 * level,
        "e4_moran": 0.2,
        "e5_distance_correlation": None,
        "a1_random_cosine": 0.12,
        "a2_mean_direction": 0.117,
        "a3_effective_rank": 112.4,
        "a3_isoscore": 0.214,
        "a4_hubness": 2.31,
        "a5_uniformity": -3.1,
        "a5_alignment": 0.61,
        "hub_share_cosine": 0.012,
        "hub_share_dot": 0.031,
        "norm_mean_queries": 5.9,
        "norm_cv_queries": 0.055,
        "norm_mean_candidates": 5.5,
        "norm_cv_candidates": 0.09,
    }


def runs() -> tuple[RunResult, ...]:
    one = stage("one", "cosine", "lora", steps=75, seed=3)
    arms = (
        ("untrained", 0.301, 0.262, (), 0.9),
        ("cosine_full", 0.412, 0.371, (stage("cosine", "cosine", "full", steps=150, seed=1),), 0.15),
        ("dot_full", 0.384, 0.391, (stage("dot", "dot", "full", steps=150, seed=2),), 1.0),
        ("pace_without_focal", 0.393, 0.404, (one, stage("two", "dot", "full", steps=75, seed=4)), 0.5),
        ("pace_with_focal", 0.392, 0.401, (one, stage("two", "dot", "full", steps=75, seed=5)), 0.45),
    )
    return tuple(
        RunResult(
            name=name,
            similarity=ranking,
            metrics=metric_table(ndcg),
            dev=metric_table(ndcg + 0.006),
            seeds=(0, 1, 2, 3, 4) if stages else (),
            stages=stages,
            geometry=geometry(level),
        )
        for name, cosine, dot, stages, level in arms
        for ranking, ndcg in (("cosine", cosine), ("dot", dot))
    )


def figures(count: int = 2400) -> ReportFigures:
    draw = random.Random(11)
    angles = [(draw.gauss(0, 0.25) + (0.35 if i % 3 else -0.4), draw.gauss(0, 0.2) + (0.2 if i % 2 else -0.15)) for i in range(count)]
    return ReportFigures(
        norms_queries=tuple(draw.gauss(5.9, 0.32) for _ in range(600)),
        norms_candidates=tuple(draw.lognormvariate(1.7, 0.09) for _ in range(count)),
        directions=tuple(angles),
        direction_norm_percentiles=tuple(min(1.0, max(0.0, 0.5 + 0.8 * y + draw.gauss(0, 0.2))) for _, y in angles),
        random_pair_similarities=tuple(draw.gauss(0.11, 0.09) for _ in range(1500)),
    )


def comparison(
    candidate: str, mean: float, low: float, high: float, words: str, *, metric: str = "ndcg@10", split: str = "dev"
) -> Comparison:
    return Comparison(
        candidate=candidate,
        baseline="cosine_full (cosine)",
        metric=metric,
        split=split,
        difference=Interval(mean=mean, ci_low=low, ci_high=high),
        level=1 - 0.05 / 3,
        words=words,
    )


def train_result() -> TrainResult:
    return TrainResult(
        runs=runs(),
        decision=Decision(
            run="cosine_full",
            similarity="cosine",
            split="dev",
            reason="The best cosine run is the default, and no other pair replaced it: the closest, pace_with_focal (dot), "
            "differs by −0.007 on dev with a corrected interval from −0.024 to +0.010, which includes 0.",
        ),
        comparisons=(
            comparison("dot_full (dot)", -0.021, -0.039, -0.004, "worse than the best cosine run"),
            comparison("pace_without_focal (dot)", -0.008, -0.026, 0.010, "undecided at this size"),
            comparison("pace_with_focal (dot)", -0.007, -0.024, 0.010, "undecided at this size"),
            comparison("pace_with_focal (dot)", -0.011, -0.021, -0.001, "C2.8 Dot beats cosine over all: not reproduced", split="test"),
            comparison("dot_full (dot)", 0.51, 0.44, 0.58, "C2.1: reproduced", metric="e3_knn", split="test"),
        ),
        claims={
            "C2.1 Norms depend most on directions under direct dot, then staged, then cosine": "reproduced",
            "C2.7 Focal weights beat random, query-positive and query-negative weights": "undecided at this size",
            "C2.8 Dot beats cosine over all": "not reproduced",
        },
        data="python-docs",
        data_notes=(
            "possibly seen in pre-training: public code models have read such pairs",
            "split by package; near-duplicates across splits dropped",
            MARK,
        ),
        hygiene={
            "refusals": [],
            "warnings": ["212 of 8,000 texts are longer than 24 tokens"],
            "counts": {"rows": 8000, "duplicates": 31, "truncated_share": 0.0265, "leaked": 0},
        },
        settings={
            "data": {"name": "python-docs"},
            "model": {"name": "all-MiniLM-L6-v2", "layers": 2},
            "seeds": [0, 1, 2],
            "arms": {"cosine_full": [{"similarity": "cosine", "steps": 150}]},
        },
        figures=figures(),
        command="normwise train --config run.toml --set model.layers=2 --set seeds='[0,1,2]' --out runs/python-docs-demo",
        versions={"normwise": "0.1.0", "python": "3.11.9", "torch": "2.13.0", "sentence-transformers": "6.0.1", "transformers": "5.23.0"},
        model="runs/python-docs-demo/model",
        report="runs/python-docs-demo/report.html",
        seconds=541.7,
    )


def bare_result() -> TrainResult:
    """The least a result can hold: one run, nothing measured."""
    return TrainResult(
        runs=(
            RunResult(
                name="only", similarity="dot", metrics={}, dev={"ndcg@10": Interval(mean=None, ci_low=None, ci_high=None)}, seeds=(0,)
            ),
        ),
        decision=Decision(run="only", similarity="dot", reason="the only run"),
        data="tiny",
        model="out/model",
        report=None,
        seconds=1.0,
    )


def evaluation() -> Evaluation:
    return Evaluation(
        model="all-MiniLM-L6-v2",
        data="python-docs",
        queries=1500,
        candidates=3000,
        clusters=1288,
        similarities={
            "cosine": metric_table(0.41),
            "dot": metric_table(0.36),
            "query_normalized": metric_table(0.36),
            "candidate_normalized": metric_table(0.41),
        },
        geometry=geometry(0.3),
        notes=("possibly seen in pre-training", MARK),
        decision=Decision(similarity="cosine", reason="Cosine ranks better: the paired interval of dot − cosine lies below 0."),
    )
