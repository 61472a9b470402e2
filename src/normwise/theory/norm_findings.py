"""What counts as a finding: how strong a factor has to be to be named, and how narrow an interval to exclude it.

The thresholds, each with its reason. LEAST_EFFECT, LEAST_RATIO, SIGNIFICANCE, EXCLUDED_EFFECT, DOMINANCE and LEAST_FOR_CONFIDENCE were
written down before any run; CURVE_SIGNIFICANCE was .05 at first and was lowered after null runs, since two looks at .05 add up.
LEAST_CHANGE came after simulations under AdamW, and has to be shown by the interval since some of those passed it by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.norm_records import FactorAssociation, Strength
from normwise.core.records import Interval
from normwise.theory.association import LEAST_ROWS

# A rank correlation of .1 is 1% of the rank variance: below it nobody's ranking or threshold changes.
LEAST_EFFECT = 0.1
# Correlation ratios have no sign and take up several degrees of freedom, so chance feeds them more: 4% of the variance.
LEAST_RATIO = 0.2
# The laws of the norm are leading orders: finite steps, buffers and mixed gradients move it by a percent or two, in every regime.
# An effect that moves the norm by less than 3% from the 5th to the 95th percentile is of that size, however sure its rank is.
LEAST_CHANGE = 0.03
SIGNIFICANCE = 0.05
# A curve is a second look at the same factor: it gets a fifth of the false alarms, so that both looks together stay near 5%.
CURVE_SIGNIFICANCE = 0.01
# "It follows nothing" needs every interval to exclude a medium effect (9% of the variance); wider ones only say that the data are few.
EXCLUDED_EFFECT = 0.3
# One kind is the answer if it is at least twice as strong as the next (four times the variance); else they are mixed.
DOMINANCE = 2.0
# Telling right from wrong by a number of rank correlation .2 means an AUC of about .6: the least that a threshold can use.
LEAST_FOR_CONFIDENCE = 0.2
# A correlation ratio this many times the correlation says that the dependence is bent, and a sign would mislead.
BENT = 1.5
# From the 5th to the 95th percentile of a normal variable, in standard deviations.
SPAN = 3.29
_MEDIUM, _STRONG = 0.3, 0.5


def strength(factor: FactorAssociation) -> float:
    """Return how strongly the norm follows a factor, 0 where it does not pass.

    Passes: |partial Spearman| >= 0.1 with an interval that excludes 0 and adjusted p < 0.05; for a category a correlation ratio
    >= 0.2 instead; or a curve, which need not be monotone, with a ratio >= 0.2 and adjusted p < 0.01. The ratio is
    returned where it is more than 1.5 times the correlation. Whatever it is, it has to move the norm by 3% (see `change`), the
    correlation with the near end of its interval: what is smaller cannot be told from what the laws leave out.

    Example:
        >>> strength(FactorAssociation(name="a", kind="a", rows=99, partial_spearman=-0.3, ci_low=-0.4, ci_high=-0.2, p_adjusted=0.01))
        0.3
        >>> strength(FactorAssociation(name="a", kind="a", rows=99, partial_spearman=0.09, ci_low=0.08, ci_high=0.1, p_adjusted=0.0))
        0.0
    """
    by_rank = abs(factor.partial_spearman or 0.0) if passes_by_rank(factor) else 0.0
    if factor.curve is None or factor.curve_p_adjusted is None:
        return by_rank
    passes = factor.curve >= LEAST_RATIO and factor.curve_p_adjusted < CURVE_SIGNIFICANCE and change(factor, factor.curve) >= LEAST_CHANGE
    by_curve = factor.curve if passes else 0.0
    return by_curve if by_curve > BENT * by_rank else by_rank


def strength_word(value: float) -> Strength:
    """Return the conventional word for a correlation or a correlation ratio: weak below .3, strong from .5 on.

    Reference: Cohen (1988), Statistical Power Analysis, chapter 3: .1 small, .3 medium, .5 large.

    Example:
        >>> [strength_word(value) for value in (0.29, 0.3, -0.5)]
        ['weak', 'medium', 'strong']
    """
    return "weak" if abs(value) < _MEDIUM else "medium" if abs(value) < _STRONG else "strong"


def passes_by_rank(factor: FactorAssociation) -> bool:
    """Return whether the partial figure itself passes: for a numeric factor it then has a sign."""
    if factor.partial_spearman is None or factor.ci_low is None or factor.ci_high is None or factor.p_adjusted is None:
        return False
    least = LEAST_RATIO if factor.categorical else LEAST_EFFECT
    apart = factor.ci_low > 0.0 or factor.ci_high < 0.0
    moves = change(factor, min(abs(factor.ci_low), abs(factor.ci_high))) >= LEAST_CHANGE
    return abs(factor.partial_spearman) >= least and apart and factor.p_adjusted < SIGNIFICANCE and moves


def change(factor: FactorAssociation, figure: float) -> float:
    """Return by how much an effect of this size moves log r from the 5th to the 95th percentile of what the factor explains.

    Equation: 2 z_.95 |figure| sd(log r, controls held), about |figure| 3.29 sd; inf where the spread is not known.

    Example:
        >>> round(change(FactorAssociation(name="a", kind="a", rows=99, log_spread=0.02), 0.3), 4)
        0.0197
    """
    return math.inf if factor.log_spread is None else SPAN * abs(figure) * factor.log_spread


def above_zero(interval: Interval | None) -> bool:
    """Return whether a figure is shown to be above 0: its whole interval is.

    Example:
        >>> above_zero(Interval(mean=0.1, ci_low=0.01, ci_high=0.2)), above_zero(None)
        (True, False)
    """
    return interval is not None and interval.ci_low is not None and interval.ci_low > 0.0


def with_own_figure(factors: Sequence[FactorAssociation]) -> list[FactorAssociation]:
    """Return the factors that have a partial figure of their own."""
    return [factor for factor in factors if factor.partial_spearman is not None]


def repeating(factors: Sequence[FactorAssociation]) -> list[FactorAssociation]:
    """Return the factors that repeat others, so that only their group has a figure."""
    return [factor for factor in factors if factor.collinear_with]


def farthest(factor: FactorAssociation) -> float | None:
    """Return the largest size that the interval allows, of the factor or of the group it repeats; None without an interval.

    Example:
        >>> farthest(FactorAssociation(name="a", kind="a", rows=99, ci_low=-0.2, ci_high=0.1))
        0.2
    """
    group = factor.shared
    low, high = (factor.ci_low, factor.ci_high) if group is None else (group.ci_low, group.ci_high)
    return None if low is None or high is None else max(abs(low), abs(high))


def excluded(factors: Sequence[FactorAssociation]) -> bool:
    """Return whether a factor was tested on its own and all intervals exclude a medium effect, or one that moves the norm by 3%.

    Factors that all repeat each other leave nothing that was tested on its own. Groups of them count with the shared interval.
    """
    for factor in factors:
        bound = farthest(factor)
        if bound is None:
            if factor.rows >= LEAST_ROWS and not factor.note.startswith("constant"):
                return False
        elif bound >= EXCLUDED_EFFECT and change(factor, bound) >= LEAST_CHANGE:
            return False
    return bool(with_own_figure(factors))


def overlapping(factors: Sequence[FactorAssociation]) -> list[FactorAssociation]:
    """Return the factors that explain a medium share of the norm alone; where none passes once the others are held, they overlap."""
    return [
        factor
        for factor in factors
        if factor.alone is not None and factor.alone >= EXCLUDED_EFFECT**2 and change(factor, math.sqrt(factor.alone)) >= LEAST_CHANGE
    ]


def inseparable(factors: Sequence[FactorAssociation]) -> list[FactorAssociation]:
    """Return the factors that repeat others while their group as a whole goes with the norm."""
    found = []
    for factor in factors:
        group = factor.shared
        if group is None or group.mean is None or group.ci_low is None or group.ci_high is None:
            continue
        least = LEAST_RATIO if factor.categorical else LEAST_EFFECT
        if abs(group.mean) >= least and (group.ci_low > 0.0 or group.ci_high < 0.0):
            found.append(factor)
    return found
