"""Numbers, names and figures of a result in plain words; nothing here is computed that the record does not hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from normwise.core.records import METRICS, Decision, Evaluation, RunResult, TrainResult
from normwise.core.similarity import Similarity

NOT_MEASURED = "not measured"

METRIC_NAMES = {
    "p@1": "P@1",
    "mrr@10": "MRR@10",
    "ndcg@10": "nDCG@10",
    "recall@1": "Recall@1",
    "recall@10": "Recall@10",
    "recall@100": "Recall@100",
}

SIMILARITY_NAMES = {
    "cosine": "cosine",
    "dot": "inner product",
    "query_normalized": "inner product, query normalized",
    "candidate_normalized": "inner product, candidate normalized",
}

_RANKING = {
    Similarity.COSINE: "rank by cosine: a candidate's length does not count",
    Similarity.DOT: "rank by inner product: a candidate's length counts",
    Similarity.QUERY_NORMALIZED: "rank by the inner product with the normalized query: a candidate's length counts",
    Similarity.CANDIDATE_NORMALIZED: "rank by the inner product with the normalized candidate: a candidate's length does not count",
}

CURVES = {
    "loss": ("Training loss", "Mean over the batch. Not comparable between runs with another similarity or temperature."),
    "residual": ("Residual", "1 − probability of the positive, mean of the batch. It falls as positives win."),
    "gradient_norm": ("Gradient norm", "Before clipping. Spikes mean an unstable stage."),
    "norm_mean": ("Mean norm", "Mean length of the raw candidate vectors, before any normalization."),
    "norm_cv": ("Norm spread (CV)", "Standard deviation of the candidate norms over their mean. Near 0, length carries nothing."),
    "effective_sample_size": ("Effective sample size", "How many queries of the batch carry the loss weights: (Σa)²/Σa²."),
    "positive_cosine": ("Cosine of positives", "Mean cosine of a query and its positive."),
    "positive_probability": ("Positive probability", "Softmax probability of the positive, mean of the batch."),
    "entanglement": ("Entanglement", "In the batch: correlation of log(query norm × positive norm) with the pair’s cosine."),
    "norm_length": ("Norm against length", "In the batch: correlation of log norm with log number of tokens."),
    "anisotropy": ("Anisotropy", "Mean cosine of unrelated pairs. Near 1, all vectors point one way."),
    "query_norm_mean": ("Mean query norm", "Mean length of the raw query vectors."),
    "norm_p01": ("Shortest candidates", "1st percentile of the candidate norms in the batch."),
    "norm_p99": ("Longest candidates", "99th percentile of the candidate norms in the batch."),
    "temperature": ("Temperature", "What divides the score."),
    "learning_rate": ("Learning rate", "As scheduled."),
    "duplicates_masked": ("Duplicates masked", "Candidates left out because they equal the positive."),
}
_FIRST_CURVES = ("loss", "residual", "gradient_norm", "norm_mean", "norm_cv", "effective_sample_size")

# The longest matching prefix explains a geometry figure (definitions: entanglement E1 to E6, anisotropy A1 to A5).
GEOMETRY = {
    "e1": "Pearson correlation of log(query norm × positive norm) with the pair's cosine. Near 0: length and angle are separate.",
    "e2": "The same by ranks (Spearman).",
    "e3": "Share of the variance of log norm that the direction alone predicts, on held-out vectors. 1: length is a function of direction.",
    "e3_knn": "How well the 10 nearest directions predict log norm (held-out R²). 1: length only repeats the direction.",
    "e3_ridge": "How well a ridge regression on the direction predicts log norm (held-out R²).",
    "e3_ellipsoid": "How well an ellipsoid fits the norms (held-out R²). 1: an RMSNorm at the end decides the length.",
    "e3_affine": "How well 1/norm is linear in the direction (held-out R²). 1: a LayerNorm at the end decides the length.",
    "e3_plane": "How well 1/norm is linear in the direction (held-out R²). 1: a LayerNorm at the end decides the length.",
    "radial_freedom": "1 − the best of the held-out R². Near 0, the norm is a function of the direction and holds no news.",
    "e4": "Moran's I of log norm on the graph of nearest directions. Above 0: neighbors have similar lengths.",
    "e5": "Distance correlation of direction and log norm. 0: independent.",
    "e6": "How much the angular gradient changes with the length, and the radial one with the direction.",
    "a1": "Mean cosine of random query-candidate pairs. Near 0 is spread out, near 1 is collapsed.",
    "a2": "Squared length of the mean direction. Equals the mean cosine within one set.",
    "a3": "Effective rank of the vectors: how many dimensions are in use.",
    "a3_isoscore": "IsoScore: 1 uses all dimensions equally, 0 uses one.",
    "isoscore": "IsoScore: 1 uses all dimensions equally, 0 uses one.",
    "effective_rank": "Effective rank of the vectors: how many dimensions are in use.",
    "a4": "Hubness: skewness of how often a candidate is among the 10 nearest. High: few candidates answer many queries.",
    "hub": "How much the most frequent candidates take of all first places.",
    "a5": "Uniformity or alignment of the unit vectors.",
    "a5_uniformity": "Uniformity: log mean exp(−2 · squared distance) of unit vectors. Lower is more spread out.",
    "a5_alignment": "Alignment: mean squared distance of a query’s direction to its positive’s. Lower is closer.",
    "uniformity": "Uniformity: log mean exp(−2 · squared distance) of unit vectors. Lower is more spread out.",
    "alignment": "Alignment: mean squared distance of a query’s direction to its positive’s. Lower is closer.",
    "norm_mean": "Mean norm before any normalization.",
    "norm_cv": "Standard deviation of the norm over its mean.",
    "norm": "A figure of the norms before any normalization.",
    "query_norm": "A figure of the query norms before any normalization.",
    "candidate_norm": "A figure of the candidate norms before any normalization.",
}

_GATES = {
    "merge": "LoRA merge verified",
    "angular": "Angular quality",
    "logit": "Logits matched at the switch",
    "freedom": "Can the norm move?",
}


def known_similarity(name: str) -> Similarity | None:
    """The similarity of that name, or None for a name that is not one of the four."""
    try:
        return Similarity(name)
    except ValueError:
        return None


def ranking_words(name: str) -> str:
    """How to rank with a similarity, and whether length counts, in words."""
    similarity = known_similarity(name)
    return _RANKING[similarity] if similarity else f"rank by {name}"


def number(value: float | None, *, digits: int = 4) -> str:
    """A number to so many significant digits, or that it was not measured.

    Example:
        >>> number(0.123456), number(12345.6), number(None), number(-2.0)
        ('0.1235', '12,346', 'not measured', '−2')
    """
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def plain_name(key: str) -> str:
    """A key of a record as a name for people.

    Example:
        >>> plain_name("truncated_share"), plain_name("e3_knn")
        ('Truncated share', 'E3 knn')
    """
    words = re.sub(r"[_\s]+", " ", key).strip()
    return words[:1].upper() + words[1:]


def duration(seconds: float) -> str:
    """A time span in words.

    Example:
        >>> duration(42.04), duration(432), duration(7384)
        ('42 s', '7 min 12 s', '2 h 3 min')
    """
    if not math.isfinite(seconds):
        return NOT_MEASURED
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(count: int, noun: str) -> str:
    """`1 run`, `2 runs`, `2 queries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def curve_order(keys: Sequence[str]) -> list[str]:
    """Logged quantities, the best known first, the rest in alphabetical order."""
    known = [key for key in (*_FIRST_CURVES, *CURVES) if key in keys]
    return [*dict.fromkeys(known), *sorted(set(keys) - set(known))]


def curve_words(key: str) -> tuple[str, str]:
    """Title and one-line explanation of a logged quantity."""
    return CURVES.get(key, (plain_name(key), "As logged during training."))


def is_main_curve(key: str) -> bool:
    """Whether a logged quantity is shown without unfolding."""
    return key in _FIRST_CURVES


def geometry_words(key: str) -> str:
    """What a geometry figure means, in one line."""
    matches = [prefix for prefix in GEOMETRY if key.lower().startswith(prefix)]
    return GEOMETRY[max(matches, key=len)] if matches else ""


def gate_title(name: str) -> str:
    """What a gate is called on the page."""
    for part, title in _GATES.items():
        if part in name.lower():
            return title
    return plain_name(name)


def chosen_run(result: TrainResult) -> RunResult | None:
    """The run that the decision names (by similarity too where a name occurs twice), or None."""
    named = [run for run in result.runs if run.name == result.decision.run]
    exact = [run for run in named if run.similarity == result.decision.similarity]
    return next(iter(exact or named), None)


def headline(decision: Decision) -> str:
    """The verdict as one sentence.

    Example:
        >>> headline(Decision(similarity="cosine", reason="", run="baseline"))
        "Use “baseline” and rank by cosine: a candidate's length does not count."
    """
    rule = ranking_words(decision.similarity)
    return f"Use “{decision.run}” and {rule}." if decision.run else f"{rule[:1].upper()}{rule[1:]}."


def claims_summary(claims: Mapping[str, str]) -> str:
    """How many claims were reproduced, not reproduced or undecided.

    Example:
        >>> claims_summary({"a": "reproduced", "b": "undecided at this size"})
        'Of 2 claims, 1 reproduced, 1 undecided at this size.'
        >>> claims_summary({})
        'No claim was tested in this run.'
    """
    if not claims:
        return "No claim was tested in this run."
    tallies = {outcome: list(claims.values()).count(outcome) for outcome in ("reproduced", "not reproduced", "undecided at this size")}
    said = ", ".join(f"{count} {outcome}" for outcome, count in tallies.items() if count)
    return f"Of {counted(len(claims), 'claim')}, {said}."


def seeds_words(result: TrainResult) -> str:
    """How many seeds the runs have, and what that allows to say."""
    counts = sorted({len(set(run.seeds)) for run in result.runs})
    if not counts:
        return NOT_MEASURED
    if counts == [1]:
        return "1 seed: intervals cover the choice of queries, not of the seed"
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{many} seeds" + (": fewer than five, so claims stay undecided" if counts[0] < 5 else "")


def level_words(level: float) -> str:
    """The coverage of an interval in percent; a small `level` is read as its error rate.

    Example:
        >>> level_words(0.95), level_words(0.0125)
        ('95%', '98.75%')
    """
    return f"{100 * (level if level >= 0.5 else 1 - level):.4g}%"


def metric_order(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics that at least one table holds, in the usual order, unknown ones last."""
    present = {metric for table in tables for metric in table}
    return [metric for metric in METRICS if metric in present] + sorted(present - set(METRICS))


def metric_name(metric: str) -> str:
    """How a metric is written."""
    return METRIC_NAMES.get(metric, metric)


def flat(values: Mapping[str, Any], *, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and readable values of nested plain data."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, prefix=f"{name}.")
        elif isinstance(value, list | tuple):
            yield name, "; ".join(json.dumps(v, ensure_ascii=False, default=str) if isinstance(v, Mapping) else str(v) for v in value) or "none"
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, int | float):
            yield name, number(value)
        else:
            yield name, NOT_MEASURED if value is None else str(value)


def evaluation_headline(evaluation: Evaluation) -> str:
    """What an evaluation says to do, or that it decides nothing."""
    if evaluation.decision is None:
        return "Measured, nothing decided."
    return headline(evaluation.decision)
