"""Scoring trained arms on dev and test: vectors in, per-query figures out, kept on disk so that nothing is scored twice."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.config import ClaimConfig
from normwise.core.files import write_bytes
from normwise.core.records import METRICS, Comparison, Interval, MetricTable, Outcome, ReportFigures
from normwise.data.contents import Content
from normwise.data.sets import Judged
from normwise.models.encoding import encode_contents
from normwise.theory.bootstrap import hierarchical_interval, holm_levels, paired_difference_interval, paired_hierarchical_interval
from normwise.theory.decision import MINIMUM_SEEDS, outcome
from normwise.theory.directions import normalize, norms
from normwise.theory.plane import norm_percentiles, principal_plane
from normwise.training.picture_features import PictureFeatures
from normwise.workflows.ranked import geometry_figures, rank_judged

RANKINGS = ("cosine", "dot")
FIGURE_POINTS = 1_500


def embed(
    model: SentenceTransformer,
    contents: Sequence[Content],
    prompt: str | None,
    *,
    batch_size: int = 64,
    progress: bool = False,
    features: PictureFeatures | None = None,
) -> np.ndarray:
    """Raw vectors of contents: (B, D) float32, norms as the model gives them; no prompt means none, whatever the model's default.

    With `features`, what the vision tower has said of a picture before is looked up.
    """
    if features is not None:
        return features.encode(model, contents, prompt=prompt, batch_size=batch_size, progress=progress)
    return encode_contents(model, contents, prompt=prompt, batch_size=batch_size, progress=progress)


@dataclass(frozen=True)
class Scores:
    """Per-query figures of one model on one split.

    Attributes:
        metrics: ranking -> metric -> (B,) values.
        geometry: figures of the vectors, NaN where undefined.
    """

    metrics: dict[str, dict[str, np.ndarray]]
    geometry: dict[str, float]

    def write(self, path: Path) -> None:
        """Keep the scores as `.npz`, atomically."""
        arrays = {f"metric/{ranking}/{metric}": values for ranking, table in self.metrics.items() for metric, values in table.items()}
        arrays |= {f"geometry/{key}": np.float64(value) for key, value in self.geometry.items()}
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_bytes(path, buffer.getvalue())

    @classmethod
    def read(cls, path: Path) -> Scores:
        """Read what `write` kept."""
        metrics: dict[str, dict[str, np.ndarray]] = {}
        geometry: dict[str, float] = {}
        with np.load(path, allow_pickle=False) as arrays:
            for key in arrays.files:
                kind, *rest = key.split("/")
                if kind == "metric":
                    metrics.setdefault(rest[0], {})[rest[1]] = arrays[key]
                else:
                    geometry[rest[0]] = float(arrays[key])
        return cls(metrics=metrics, geometry=geometry)


def split_vectors(
    model: SentenceTransformer, judged: Judged, *, batch_size: int, progress: bool, features: PictureFeatures | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Raw vectors of a split's queries and candidates."""
    prompts = model.prompts or {}
    how: dict[str, Any] = {"batch_size": batch_size, "progress": progress, "features": features}
    queries = embed(model, judged.queries, prompts.get("query") or None, **how)
    return queries, embed(model, judged.corpus.contents, prompts.get("document") or None, **how)


def score_split(queries: np.ndarray, candidates: np.ndarray, judged: Judged, *, seed: int) -> Scores:
    """Score one model on one split under both rankings, and describe its geometry."""
    ranked = rank_judged(queries, candidates, judged)
    geometry = geometry_figures(queries, candidates, ranked, seed=seed)
    if geometry.get("e3_affine") is None:
        # Too few candidates for the closed forms: what the weaker tests leave over is no freedom.
        geometry["radial_freedom"] = None
    return Scores(metrics=ranked.metrics, geometry={key: np.nan if value is None else value for key, value in geometry.items()})


def cached_scores(folder: Path, split: str, compute: Callable[[], Scores]) -> Scores:
    """The scores of a split, from the folder when they are there."""
    path = folder / f"scores-{split}.npz"
    if not path.is_file():
        compute().write(path)
    return Scores.read(path)


def dev_cosine_ndcg(
    judged: Judged, *, batch_size: int, features: PictureFeatures | None = None
) -> Callable[[SentenceTransformer], np.ndarray]:
    """For a model, nDCG@10 under cosine of each dev query: what the gate between stages compares."""

    def measure(model: SentenceTransformer) -> np.ndarray:
        queries, candidates = split_vectors(model, judged, batch_size=batch_size, progress=False, features=features)
        return rank_judged(queries, candidates, judged).metrics["cosine"]["ndcg@10"]

    return measure


def stack(scores: Sequence[Scores], ranking: str, metric: str) -> np.ndarray:
    """(S, B): one row of per-query values per seed."""
    return np.stack([seed.metrics[ranking][metric] for seed in scores])


def metric_table(
    scores: Sequence[Scores], ranking: str, clusters: np.ndarray, *, samples: int, seed: int = 0, weights: np.ndarray | None = None
) -> MetricTable:
    """Means over seeds and queries, weighed if asked, with hierarchical intervals (seeds, then clusters)."""
    return {
        metric: hierarchical_interval(stack(scores, ranking, metric), clusters, samples=samples, seed=seed, weights=weights)
        for metric in METRICS
    }


def tables_by_task(scores: Sequence[Scores], ranking: str, judged: Judged, *, samples: int) -> dict[str, MetricTable]:
    """`metric_table` of each task's queries; empty for a set of one task."""
    return {
        task: {
            metric: hierarchical_interval(stack(scores, ranking, metric)[:, asked], judged.clusters[asked], samples=samples, seed=0)
            for metric in METRICS
        }
        for task, asked, _ in (judged.searches() if judged.tasks else ())
        if any(judged.relevance[query] for query in asked)
    }


def means_by_seed(scores: Sequence[Scores], ranking: str) -> dict[str, tuple[float, ...]]:
    """For each metric, the mean over queries of every seed; queries without a relevant candidate are left out."""
    return {metric: tuple(float(np.nanmean(one.metrics[ranking][metric])) for one in scores) for metric in METRICS}


def mean_geometry(scores: Sequence[Scores]) -> dict[str, float | None]:
    """Geometry figures averaged over seeds; None where no seed has one."""
    keys = scores[0].geometry
    means = {key: np.array([seed.geometry.get(key, np.nan) for seed in scores]) for key in keys}
    return {key: float(np.nanmean(values)) if np.isfinite(values).any() else None for key, values in means.items()}


def judge_claims(
    claims: Sequence[ClaimConfig], scores: dict[str, list[Scores]], clusters: np.ndarray, *, samples: int, seed: int, split: str = "test"
) -> tuple[dict[str, Outcome], tuple[Comparison, ...]]:
    """Judge claims written down before the run, Holm-corrected over all of them.

    Args:
        claims: what was claimed.
        scores: arm -> scores by seed.
        clusters: (B,) cluster of each query.
        samples: bootstrap samples.
        seed: of the bootstrap.
        split: which split the scores come from.

    Returns:
        The outcome of each claim by name, and the differences behind them.
    """
    seeds = len(next(iter(scores.values()))) if scores else 0

    def difference(claim: ClaimConfig, level: float) -> Interval:
        if claim.figure in METRICS:
            (high, high_ranking), (low, low_ranking) = claim.higher, claim.lower
            upper = stack(scores[high], high_ranking.ranking.value, claim.figure)
            lower = stack(scores[low], low_ranking.ranking.value, claim.figure)
            return paired_hierarchical_interval(upper, lower, clusters, level=level, samples=samples, seed=seed)
        upper = np.array([one.geometry.get(claim.figure, np.nan) for one in scores[claim.higher[0]]])
        lower = np.array([one.geometry.get(claim.figure, np.nan) for one in scores[claim.lower[0]]])
        return paired_difference_interval(upper, lower, np.arange(seeds), level=level, samples=samples, seed=seed)

    few = "" if seeds >= MINIMUM_SEEDS else f" ({seeds} seed{'s' * (seeds != 1)}; a verdict needs {MINIMUM_SEEDS})"
    outcomes: dict[str, Outcome] = {}
    comparisons = []
    levels = holm_levels([lambda level, claim=claim: difference(claim, level) for claim in claims])
    for claim, (interval, level) in zip(claims, levels, strict=True):
        outcomes[claim.name] = outcome(interval, seeds=seeds)
        comparisons.append(
            Comparison(
                candidate=f"{claim.higher[0]} ({claim.higher[1]})",
                baseline=f"{claim.lower[0]} ({claim.lower[1]})",
                metric=claim.figure,
                split=split,
                difference=interval,
                level=level,
                words=f"{claim.name}: {outcomes[claim.name]}{few}",
            )
        )
    return outcomes, tuple(comparisons)


def report_figures(queries: np.ndarray, candidates: np.ndarray, *, seed: int) -> ReportFigures:
    """The points that the page draws: at most 1,500 of each kind, drawn by seed."""
    generator = np.random.default_rng(seed)
    some = candidates[np.sort(generator.permutation(len(candidates))[:FIGURE_POINTS])]
    left = normalize(queries[generator.integers(0, len(queries), FIGURE_POINTS)])
    right = normalize(candidates[generator.integers(0, len(candidates), FIGURE_POINTS)])
    return ReportFigures(
        norms_queries=tuple(_rounded(norms(queries[:FIGURE_POINTS]))),
        norms_candidates=tuple(_rounded(norms(some))),
        directions=tuple((float(x), float(y)) for x, y in np.round(principal_plane(some), 4)),
        direction_norm_percentiles=tuple(_rounded(norm_percentiles(some))),
        random_pair_similarities=tuple(_rounded((left * right).sum(axis=1))),
    )


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
