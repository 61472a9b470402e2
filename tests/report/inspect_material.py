"""Test material: made-up norm reports with the shape of real ones. Their numbers were drawn, not measured."""

from __future__ import annotations

import math
import random

from normwise.core.inspect_records import InspectReport, NormPictures
from normwise.core.norm_records import FactorAssociation, NormDistribution, NormVerdict, RadialEvidence, Usefulness
from normwise.core.records import Interval
from normwise.core.usefulness_records import Confidence, ConfidenceModel, PowerRow, PriorReranking, Reranking, UsefulnessReport

ROWS = 240
LEVELS = ("0", "0.001", "0.01", "0.05", "0.25", "0.5", "0.75", "0.95", "0.99", "0.999", "1")


def factor(name: str, partial: float | None = 0.41, **changes: object) -> FactorAssociation:
    known = (
        {} if partial is None else {"partial_spearman": partial, "ci_low": partial - 0.07, "ci_high": partial + 0.06, "p_adjusted": 0.013}
    )
    return FactorAssociation(**{"name": name, "kind": name, "rows": ROWS, "spearman": 0.337, **known, **changes})


def factors() -> tuple[FactorAssociation, ...]:
    return (
        factor(
            "frequency", kind="frequency", controls=("tokens", "source"), p_value=0.0071, curve=0.427, curve_p_adjusted=0.0291,
            alone=0.1729, own_share=0.8137, exponent=Interval(mean=0.2461, ci_low=0.2012, ci_high=0.2893),
        ),
        factor("tokens", -0.233, kind="length", controls=("frequency", "source"), spearman=-0.151, note="a note on tokens"),
        factor("source", 0.312, kind="source", categorical=True, controls=("frequency", "tokens"), spearman=0.298),
        factor("copy", None, collinear_with=("frequency",), shared=Interval(mean=0.377, ci_low=0.311, ci_high=0.439), note="repeats it"),
    )  # fmt: skip


def pictures(rows: int = ROWS) -> NormPictures:
    draw = random.Random(0)
    norms = sorted(math.exp(draw.gauss(0.4, 0.3)) for _ in range(rows))
    low, high = norms[1], norms[-2]
    edges = [low + (high - low) * i / 60 for i in range(61)]
    counts = [0] * 60
    for norm in norms[1:-1]:
        counts[min(59, int((norm - low) / (high - low) * 60))] += 1
    return NormPictures(
        histogram_edges=tuple(edges),
        histogram_counts=tuple(counts),
        below=1,
        above=1,
        scatter_norms=tuple(norms),
        scatter_factors={
            "frequency": tuple(math.exp(draw.gauss(3, 2)) for _ in norms),
            "tokens": tuple(float(draw.randrange(3, 30)) for _ in norms),
            "source": tuple(draw.choice("abcdefghijkl") for _ in norms),
            "copy": tuple(draw.gauss(0, 1) for _ in norms),
        },
        plane=tuple((draw.gauss(0, 1), draw.gauss(0, 1)) for _ in norms),
        plane_percentiles=tuple(100.0 * i / rows for i in range(rows)),
    )


def geometry() -> dict[str, float | None]:
    return {
        "mean_cosine": 0.1234, "mean_cosine_error": 0.0047, "effective_rank": 87.31, "effective_rank_error": 1.234, "isoscore": 0.2718,
        "isoscore_error": 0.0316, "hubness": 2.345, "hubness_error": 0.1873, "norm_hubs_dot": 0.0783, "norm_hubs_dot_error": 0.0061,
        "norm_hubs_cosine": 0.0127, "norm_hubs_cosine_error": 0.0029, "hub_share_dot": 0.0459, "hub_share_dot_error": 0.0048,
        "hub_share_cosine": 0.0064, "hub_share_cosine_error": None, "e3_affine": 0.1357, "e3_ellipsoid": None, "e3_knn": 0.2468,
        "e3_ridge": 0.1928, "radial_freedom": 0.7532, "pair_rows": 2000.0, "search_rows": 20000.0, "search_queries": 1999.0,
        "radial_rows": 1921.0,
    }  # fmt: skip


def distribution(start: float = 0.913) -> NormDistribution:
    return NormDistribution(
        mean=start + 0.618, cv=0.2817, std=0.4313, std_log=0.2764, minimum=start, maximum=start + 1.0, tail_ratio=1.9173, zero=3,
        nonfinite=5, duplicates=17, quantiles={level: start + i / 10 for i, level in enumerate(LEVELS)},
    )  # fmt: skip


def norm_report(**changes: object) -> InspectReport:
    """A full report: four factors, one of them categories, one a repetition of another."""
    return InspectReport(
        **{
            "source": "vectors.npy", "n": 24013, "d": 384, "norm": distribution(), "normalized_input": False, "radial_freedom": 0.7532,
            "radial": RadialEvidence(freedom=0.7532, test="e3_knn"), "factors": factors(), "regime": "undetermined",
            "evidence": ("first evidence", "second evidence"), "geometry": geometry(), "sample_rows": 20000, "seed": 7,
            "verdict": NormVerdict(
                label="frequency", text="The verdict in full.", next_step="evaluate", follows=("frequency", "tokens"), effect=0.4137
            ),
            "notes": ("a note of the report",), "versions": {"numpy": "2.4.1"}, "seconds": 12.34,
            "command": "normwise inspect data/vectors.npy --factors factors.csv --seed 7", "stored": "float32", "skew_log": 0.3571,
            "tail_low": 1.4142, "tail_high": 1.6449, "nan_rows": 2, "infinite_rows": 3, "factor_rows": 19999, "figures": pictures(),
            **changes,
        }
    )  # fmt: skip


def between(mean: float) -> Interval:
    return Interval(mean=mean, ci_low=mean - 0.0321, ci_high=mean + 0.0243)


def prior_reranking(name: str, start: float) -> PriorReranking:
    """One prior under five exponents; the second largest was chosen twice."""
    rows = tuple(
        PowerRow(
            beta=strength / start, strength=strength, chosen_on=start + 0.3017 - strength**2, reported=start + 0.2913 - strength**2,
            difference=between(start - 0.2309 - strength**2),
        )
        for strength in (-0.5, -0.1, 0.0, 0.1, 0.5)
    )  # fmt: skip
    chosen = (rows[3].beta, rows[0].beta, rows[3].beta)
    return PriorReranking(
        prior=name, spread=start, chosen_betas=chosen, reported=between(start + 0.2817), difference=between(start - 0.2411), table=rows
    )


def usefulness_report(**changes: object) -> UsefulnessReport:
    """What judged queries said: norm, length, a popularity that is the same for all, permuted norms; three different outcomes."""
    priors = {"norm": 0.2385, "length": 0.3917, "norm without length": 0.1855, "permuted norm": 0.2297}
    models = {
        name: ConfidenceModel(features=(f"feature of {name}",), nll=value, aurc=value / 3, e_aurc=value / 7, auroc=1.0 - value)
        for name, value in {"plain": 0.4987, "plain and norms": 0.4836, "held": 0.5155, "held and norms": 0.5042}.items()
    }
    reranking = Reranking(
        metric="ndcg@10", queries=397, candidates=1523, clusters=231, level=0.975, chosen_on="dev", cosine=between(0.5314),
        dot_minus_cosine=between(-0.0713), priors={name: prior_reranking(name, start) for name, start in priors.items()},
        norm_minus={"length": between(0.0089), "popularity": between(0.0412), "permuted norm": between(0.0523)}, claimed_gain=0.096,
        outcome="undecided at this size", claimed_size="not reproduced", words="undecided at this size: the words of ranking",
    )  # fmt: skip
    confidence = Confidence(
        queries=394, right=251, clusters=229, level=0.975, controls=("tokens of the query", "tokens of the top hit"), models=models,
        gains={"nll": between(0.0631), "e_aurc": between(0.0417)}, gains_beyond={"nll": between(0.0731), "e_aurc": between(0.0517)},
        coefficients={"log norm of the query": 0.1358, "log norm of the top hit": -0.2718}, outcome="reproduced",
        words="reproduced: the words of confidence",
    )  # fmt: skip
    whole = UsefulnessReport(
        model="a-model", data="a-set", split="test", reranking=reranking, confidence=confidence,
        summary=Usefulness(ranking=reranking.dot_minus_cosine, beyond_length=between(0.0089), confidence=confidence.gains_beyond["e_aurc"]),
        notes=("a note of the queries",),
    )  # fmt: skip
    return whole.model_copy(update=changes)


def barely_useful() -> UsefulnessReport:
    """All norms equal, no counts, too few answers: nothing has a figure that could be left out."""
    full, none = usefulness_report(), Interval(mean=None, ci_low=None, ci_high=None)
    reranking = full.reranking.model_copy(
        update={
            "cosine": Interval(mean=math.nan, ci_low=math.inf, ci_high=None), "dot_minus_cosine": none, "priors": {}, "norm_minus": {},
            "chosen_on": "cross-validation",
        }
    )  # fmt: skip
    emptied: dict[str, object] = {"models": {}, "gains": {}, "gains_beyond": {}, "coefficients": {}, "controls": ()}
    confidence = full.confidence.model_copy(update={**emptied, "outcome": "undecided at this size", "words": "too few answers"})
    return full.model_copy(
        update={"model": "", "data": "", "split": "given", "reranking": reranking, "confidence": confidence, "notes": ()}
    )


def unmeasured_powers() -> UsefulnessReport:
    """Tables without figures, intervals without ends, a model without an AUROC."""
    full = usefulness_report()
    none = Interval(mean=None, ci_low=None, ci_high=None)
    open_ended = Interval(mean=0.0123, ci_low=None, ci_high=None)
    row = PowerRow(beta=0.5, strength=0.1, chosen_on=None, reported=None, difference=none)
    rows = (row, row.model_copy(update={"reported": math.nan, "chosen_on": math.inf, "strength": -0.1}))
    prior = prior_reranking("norm", 0.2).model_copy(update={"table": rows, "chosen_betas": (), "reported": none, "difference": open_ended})
    model = ConfidenceModel(features=(), nll=math.nan, aurc=math.inf, e_aurc=0.1, auroc=None)
    confidence = full.confidence.model_copy(update={"models": {"one": model}, "gains": {}, "gains_beyond": {"nll": open_ended}})
    reranking = full.reranking.model_copy(update={"priors": {"norm": prior}, "norm_minus": {"length": open_ended}})
    return full.model_copy(update={"reranking": reranking, "confidence": confidence})


def verdict(label: str, **changes: object) -> NormVerdict:
    return NormVerdict(**{"label": label, "text": "A text.", "next_step": "more data", **changes})


NOTHING = NormDistribution(mean=None, cv=None)
MANY = tuple(factor(f"factor_{i}_" + "very_long_name_" * 9, controls=tuple(f"c{j}" for j in range(19))) for i in range(20))
UNKNOWN = FactorAssociation(name="kappa", kind="specificity", rows=12, note="12 rows: too few")
NOT_FINITE = FactorAssociation(
    name="kappa", kind="kappa", rows=99, spearman=math.nan, partial_spearman=math.inf, ci_low=-math.inf, ci_high=math.nan,
    p_adjusted=math.nan, curve=math.nan, alone=math.nan, own_share=math.nan,
    exponent=Interval(mean=math.nan, ci_low=math.nan, ci_high=math.nan),
)  # fmt: skip
LEAST = InspectReport(
    n=3, d=2, norm=NOTHING, normalized_input=False, radial_freedom=None, regime="undetermined", verdict=verdict("degenerate")
)
UNDRAWN = pictures().model_copy(update={"scatter_factors": {}, "scatter_norms": ()})
REPORTS = {
    "full": norm_report(),
    "least": LEAST,
    "no factors": norm_report(factors=(), figures=UNDRAWN, verdict=verdict("undetermined")),
    "few rows": norm_report(
        n=12, factors=(UNKNOWN,), figures=pictures(12), verdict=verdict("undetermined"), geometry=dict.fromkeys(geometry())
    ),
    "came normalized": norm_report(
        normalized_input=True, verdict=verdict("degenerate", next_step="recover"), radial_freedom=None, radial=None,
        raw_norms=("from a model: normwise inspect X --recover-norms M --out n.npy", "no call here"),
    ),
    "one direction": norm_report(
        norm_after_normalize=distribution(1.0), regime="plane-bound", radial_freedom=1e-9, source="some/model",
        command="normwise inspect some/model", verdict=verdict("direction", next_step="evaluate"),
        radial=RadialEvidence(freedom=1e-9, test="e3_affine", closed_form="plane-bound"),
    ),
    "twenty factors": norm_report(factors=MANY, verdict=verdict("mixed", follows=tuple(f.name for f in MANY))),
    "judged": norm_report(usefulness=usefulness_report()),
    "judged, nothing measured": norm_report(usefulness=barely_useful()),
    "judged, not finite": norm_report(usefulness=unmeasured_powers()),
    "not finite": norm_report(
        factors=(NOT_FINITE,), geometry={"hubness": math.nan, "isoscore": math.inf, "isoscore_error": math.nan}, skew_log=math.nan
    ),
}  # fmt: skip
