"""Test material: made-up reports of two modalities. Their numbers were drawn, not measured."""

from __future__ import annotations

import math

from inspect_material import factor, factors, norm_report

from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import (
    AcrossModalities,
    ConformityReport,
    DoubleEllipsoid,
    Ellipsoid,
    EllipsoidProperty,
    ModalityGap,
    NormShare,
    SignComparison,
)
from normwise.core.records import GateReport, Interval

NAMES = ("texts", "pictures")
NONE = Interval(mean=None, ci_low=None, ci_high=None)


def around(mean: float) -> Interval:
    return Interval(mean=mean, ci_low=mean - 0.0321, ci_high=mean + 0.0243)


def gap(**changes: object) -> ModalityGap:
    return ModalityGap(
        **{
            "first_rows": 571, "second_rows": 593, "gap": 0.7317, "gap_by_chance": 0.1129, "p_value": 0.005, "relabelings": 199,
            "tested_rows": 1013,
            "held_out": around(0.7123), "squared_gap": 0.5219, "variance_share": 0.1973, "within_first": 0.2217, "within_second": 0.3391,
            "cross": 0.0187, "direction_auc": around(0.9613), "norm_auc": around(0.3579),
            "log_norm_first": 1.4817, "log_norm_second": 1.9231,
            "log_norm_difference": around(-0.4414), "raw_gap": 5.318, "raw_gap_norm_share": 0.2671, "pairs": 301, "matched_cosine": 0.2713,
            "random_cosine": 0.0193, "matched": around(0.2520), **changes,
        }
    )  # fmt: skip


def prop(mean: float, outcome: str, **changes: object) -> EllipsoidProperty:
    return EllipsoidProperty(**{"figure": around(mean), "threshold": 0.05, "outcome": outcome, "p_value": 0.0251, **changes})


def cloud(start: float, **changes: object) -> Ellipsoid:
    return Ellipsoid(
        **{
            "rows": 444, "shell": prop(start, "holds", threshold=0.25, above=False, p_value=None), "gaussian_shell": start + 0.0417,
            "shell_ratio": start + 1.3, "effective_dimensions": 97.3, "offset": prop(start + 0.2, "holds"),
            "tilt": prop(start + 0.3, "undecided"), "outcome": "undecided", **changes,
        }
    )  # fmt: skip


def conformity(start: float) -> ConformityReport:
    return ConformityReport(
        rows=333, mean=start, std=0.0517, mean_length=start**0.5, norm=factor("conformity", 0.271, controls=("tokens",)), factors=factors()
    )


def across(**changes: object) -> AcrossModalities:
    ellipsoids = DoubleEllipsoid(
        first=cloud(0.1371), second=cloud(0.1659), separability=prop(0.9613, "holds", threshold=0.95), outcome="undecided",
        words="undecided: tilt of the texts, tilt of the pictures",
    )  # fmt: skip
    shares = tuple(
        NormShare(
            queries=one, candidates=two, query_rows=300, candidate_rows=600, share=around(share), top_share=around(share + 0.1031),
            positive=share + 0.41, same_first=share + 0.22,
            outcome=outcome,
        )
        for one, two, share, outcome in ((*NAMES, 0.0937, "by the direction"), (*NAMES[::-1], 0.5729, "by the norm"))
    )  # fmt: skip
    gate = GateReport(name="norm_freedom", passed=True, words="free: no closed form ties the norm")
    return AcrossModalities(
        **{
            "first": NAMES[0], "second": NAMES[1], "gap": gap(), "ellipsoids": ellipsoids, "conformity_first": conformity(0.2217),
            "conformity_second": conformity(0.3391), "shares": shares, "freedom_first": gate, "freedom_second": gate, "clusters": 417,
            "signs": (SignComparison(factor="depth", first=around(0.3719), second=around(-0.2873), agreement="opposite signs"),),
            "sign_words": "opposite signs in both for depth. The regime of the texts is undetermined: signs say nothing of their origin",
            "notes": ("a note on the comparison",), **changes,
        }
    )  # fmt: skip


def both(**changes: object) -> InspectReport:
    parts = tuple(norm_report(modality=name, notes=(f"a note on {name}",)) for name in NAMES)
    return norm_report(**{"modality": "all contents", "parts": parts, "across": across(), **changes})


NOTHING = across(
    gap=None, ellipsoids=None, conformity_first=None, conformity_second=None, shares=(), signs=(), sign_words="", freedom_first=None,
    freedom_second=None, notes=("12 usable rows of texts: nothing is compared below 30",),
)  # fmt: skip
UNMEASURED = across(
    gap=gap(matched=None, raw_gap_norm_share=None, norm_auc=NONE, p_value=0.4),
    ellipsoids=DoubleEllipsoid(
        first=cloud(0.1, gaussian_shell=None, shell_ratio=math.nan, shell=prop(0.1, "undecided", figure=NONE), note="12 independent rows"),
        second=cloud(0.2), separability=prop(0.5, "undecided", figure=NONE), outcome="undecided", words="undecided: separability",
    ),
    shares=(
        NormShare(
            queries="a", candidates="b", query_rows=3, candidate_rows=4, share=NONE, top_share=NONE, positive=0.0,
            same_first=0.0, outcome="undecided"
        ),
    ),
    signs=(SignComparison(factor="kappa", first=NONE, second=around(0.1), agreement="in one only"),),
)  # fmt: skip
REPORTS = {"full": both(), "nothing": both(across=NOTHING), "unmeasured": both(across=UNMEASURED), "one": both(parts=both().parts[:1])}
