"""Factors and tables for the verdict's tests: their figures were made up, not measured."""

from __future__ import annotations

import re

import numpy as np

from normwise.core.norm_records import FactorAssociation, NormDistribution, RadialEvidence, TrainingEvidence
from normwise.theory.association import associations
from normwise.theory.norm_verdict import judge

SPREAD = NormDistribution(mean=1.0, cv=0.2)
SIGN = re.compile(r"longer|shorter|[+-]\d|\br ~")
PLANE = RadialEvidence(freedom=1e-6, test="e3_affine")
NOISE = TrainingEvidence(optimizer="sgd", signal_share=0.1)


def factor(name="visits", kind="frequency", rho=0.5, half=0.05, p_value=1e-6, **more):
    given = {"rows": 1000, "spearman": rho, "partial_spearman": rho, "ci_low": rho - half, "ci_high": rho + half, "p_adjusted": p_value}
    return FactorAssociation(**({"name": name, "kind": kind, "alone": rho**2} | given | more))


TOKENS = factor("tokens", "length", -0.8)
NO_TOKENS = factor("tokens", "length", 0.01, p_value=0.9)


def table(seed, rows=1500):
    """Independent visits, dispersion and token counts, and noise."""
    rng = np.random.default_rng(seed)
    visits, dispersion = np.exp(1.5 * rng.normal(size=rows)), np.exp(rng.normal(size=rows))
    return {"visits": visits, "dispersion": dispersion, "tokens": rng.integers(1, 30, rows)}, rng.normal(size=rows)


def judged(log_norms, factors, **more):
    found = associations(log_norms, factors, seed=0, resamples=200)
    return found, *judge(found, NormDistribution(mean=1.0, cv=float(np.std(log_norms))), **more)
