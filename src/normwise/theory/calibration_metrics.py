"""The figures of confidence under one roof: each is a pure function, and a row has them all with intervals."""

from normwise.theory.abstention_nauc import abstention_nauc
from normwise.theory.brier import brier_parts, brier_score
from normwise.theory.calibration_error import (
    debiased_calibration_error,
    debiased_squared_error,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    reliability_bins,
)
from normwise.theory.calibration_rows import calibrator_row, paired_gain, signal_row
from normwise.theory.risk_coverage import aurc, auroc, excess_aurc, negative_log_likelihood
from normwise.theory.selective_metrics import coverage_at_risk, risk_at_coverage, risk_curve
from normwise.theory.tied_answers import Answers

__all__ = [
    "Answers",
    "abstention_nauc",
    "aurc",
    "auroc",
    "brier_parts",
    "brier_score",
    "calibrator_row",
    "coverage_at_risk",
    "debiased_calibration_error",
    "debiased_squared_error",
    "equal_mass_calibration_error",
    "excess_aurc",
    "expected_calibration_error",
    "ks_calibration_error",
    "negative_log_likelihood",
    "paired_gain",
    "reliability_bins",
    "risk_at_coverage",
    "risk_curve",
    "signal_row",
]
