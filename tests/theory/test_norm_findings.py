"""What counts as a finding: every border of it."""

import pytest
from verdict_material import NO_TOKENS, SIGN, SPREAD, factor

from normwise.core.norm_records import FactorAssociation
from normwise.core.records import Interval
from normwise.theory.norm_findings import excluded, farthest, passes_by_rank, strength
from normwise.theory.norm_verdict import judge


@pytest.mark.parametrize(
    "change",
    [{"partial_spearman": 0.099}, {"ci_low": -0.01}, {"p_adjusted": 0.06}, {"partial_spearman": None}, {"ci_low": None}],
)
def test_each_border_of_a_finding_counts(change):
    base = factor(rho=0.12, half=0.03, curve=0.15, curve_p_adjusted=1e-9)
    assert strength(base) == pytest.approx(0.12)
    assert strength(base.model_copy(update=change)) == 0.0
    assert not passes_by_rank(base.model_copy(update=change))


def test_a_curve_that_is_not_monotone_is_named_without_a_sign():
    hump = factor("tokens", "length", 0.02, p_value=0.4, curve=0.7, curve_p_adjusted=1e-9, alone=0.5)
    assert strength(hump) == 0.7
    regime, verdict = judge([hump], SPREAD)
    assert (regime.regime, verdict.label, verdict.effect) == ("length-bound", "length", 0.7)
    assert "not monotone" in verdict.text
    assert not SIGN.search(verdict.text)
    assert strength(hump.model_copy(update={"curve_p_adjusted": 0.02})) == 0.0


def test_only_what_was_tested_is_excluded():
    group = Interval(mean=0.0, ci_low=-0.1, ci_high=0.2)
    twins = [FactorAssociation(name=a, kind=a, rows=99, collinear_with=(b,), shared=group) for a, b in ("fg", "gf")]
    assert not excluded(twins)
    assert excluded([*twins, NO_TOKENS])
    assert farthest(twins[0]) == 0.2
    assert not excluded([twins[0].model_copy(update={"shared": Interval(mean=0.1, ci_low=-0.1, ci_high=0.3)}), NO_TOKENS])
    # Beyond 0.3, but of norms that hardly vary at all: less than 3% of the norm.
    still = twins[0].model_copy(update={"shared": Interval(mean=0.1, ci_low=-0.1, ci_high=0.4), "log_spread": 0.001})
    assert excluded([still, NO_TOKENS])
    assert not excluded([FactorAssociation(name="a", kind="a", rows=99, note="levels too small: ..."), NO_TOKENS])
    assert excluded([FactorAssociation(name="a", kind="a", rows=99, note="constant: ..."), NO_TOKENS])
