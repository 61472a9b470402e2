"""Test material: made-up norm reports with the shape of real ones. Their numbers were drawn, not measured."""

from __future__ import annotations

import math
import random

from normwise.core.inspect_records import InspectReport, NormPictures
from normwise.core.norm_records import FactorAssociation, NormDistribution, NormVerdict, RadialEvidence
from normwise.core.records import Interval

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
    "not finite": norm_report(
        factors=(NOT_FINITE,), geometry={"hubness": math.nan, "isoscore": math.inf, "isoscore_error": math.nan}, skew_log=math.nan
    ),
}  # fmt: skip
