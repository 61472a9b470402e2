"""Calibration reports for the page's tests: a full one, and one that lacks all it may lack."""

from normwise.core.calibration_records import (
    CalibrationFigures,
    CalibrationReport,
    CalibratorRow,
    ExampleHit,
    NormGain,
    QueryCounts,
    ReliabilityBin,
    SignalRow,
    ThresholdRecord,
    VerdictRecord,
)
from normwise.core.records import Interval


def row(name, **values):
    figures = {"ece": 0.03, "brier": 0.1, "nll": 0.34, "auroc": 0.88, "aurc": 0.53, "e_aurc": 0.083, "nauc": 0.41}
    around = {key: Interval(mean=value, ci_low=value - 0.02, ci_high=value + 0.02) for key, value in figures.items()}
    return CalibratorRow(name=name, **{**figures, "intervals": around, "cv_nll": 0.35, "cv_se": 0.01, **values})


def example(text, **values):
    return ExampleHit(
        **{
            "query": text,
            "hit_id": "d7",
            "hit": text,
            "probability": 0.97,
            "score": 0.81,
            "norm": 5.2,
            "right": False,
            "answerable": True,
            **values,
        }
    )


def full_report(text="a query"):
    bins = tuple(
        ReliabilityBin(
            low=low, high=low + 0.2, queries=40 + int(200 * low), probability=low + 0.1, right=low + 0.08, ci_low=low, ci_high=low + 0.2
        )
        for low in (0.0, 0.2, 0.4, 0.6, 0.8)
    )
    coverage = tuple(step / 50 for step in range(1, 51))
    risk = {
        "chosen": tuple(0.1 + 0.4 * at * at for at in coverage),
        "score": tuple(0.15 + 0.35 * at for at in coverage),
        "oracle": tuple(max(0.0, (at - 0.5) / at) for at in coverage),
    }
    return CalibrationReport(
        queries=QueryCounts(fit=600, test=500, unanswerable=110),
        signals=(
            SignalRow(name="score", auroc=0.71, ci_low=0.66, ci_high=0.75, similarity="cosine"),
            SignalRow(name="score under dot", auroc=0.44, ci_low=0.40, ci_high=0.48, similarity="dot", words=text),
            SignalRow(name="hit length", auroc=0.51, ci_low=0.46, ci_high=0.56),
        ),
        calibrators=(
            row("softmax", ece=0.2, coverage_at_risk={"0.05": 0.4}, risk_at_coverage={"0.5": 0.12}),
            row("logistic", coverage_at_risk={"0.05": 0.5}, risk_at_coverage={"0.5": 0.1}),
            row("norm_reranking", eligible=False, words=text),
        ),
        chosen="logistic",
        norm_gain=NormGain(metric="e_aurc", delta=0.004, ci_low=-0.001, ci_high=0.009, controls=("hit length",), words=text),
        norm_gains=(
            NormGain(metric="e_aurc", delta=0.004, ci_low=-0.001, ci_high=0.009),
            NormGain(metric="nll", delta=None, ci_low=None, ci_high=None),
            NormGain(metric="e_aurc of shuffled norms", delta=-0.001, ci_low=-0.003, ci_high=0.001),
        ),
        threshold=ThresholdRecord(
            precision_target=0.95, confidence=0.9, probability=0.62, coverage=0.41, answered=205, precision=0.976, precision_low=0.951
        ),
        verdict=VerdictRecord(label="usable", text=f"It holds for {text}."),
        precision_target=0.95,
        model=text,
        data="python-docs",
        similarity="cosine",
        temperature=0.05,
        figures=CalibrationFigures(
            bins=bins,
            coverage=coverage,
            risk=risk,
            confident_errors=(example(text), example(text, answerable=False)),
            good_abstentions=(example(text, probability=0.04),),
        ),
        notes=(text,),
        calibration="model/calibration.json",
    )


def bare_report():
    return CalibrationReport(
        queries=QueryCounts(fit=60, test=60, unanswerable=0),
        signals=(),
        calibrators=(row("temperature", nll=None, auroc=None, nauc=None, intervals={}, cv_nll=None, cv_se=None),),
        chosen="temperature",
        norm_gain=NormGain(metric="e_aurc", delta=None, ci_low=None, ci_high=None),
        threshold=None,
        verdict=VerdictRecord(label="no-usable-threshold", text="The AUROC is .51 [.46, .56]: its interval touches .5."),
    )
