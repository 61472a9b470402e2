"""From figures to a verdict: which regime explains the norms, what they follow, and what they may be used for.

What association alone can claim, and what it cannot:

* **what the norm follows**: yes, for the factors that were given. A factor that was not given may stand behind one that was.
* **ranking**: never. Whether longer vectors belong higher is a question of relevance; it takes judgements.
* **confidence**: only where the norm follows a *measured* uncertainty, at `LEAST_FOR_CONFIDENCE`, with the length held. Frequency
  or specificity may go with uncertainty, but that is a second step that somebody has to measure.
* **a sign with a meaning**: only beside its regime, since the sign of specificity turns with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.norm_records import (
    FactorAssociation,
    NextStep,
    NormDistribution,
    NormVerdict,
    RadialEvidence,
    RegimeEvidence,
    TrainingEvidence,
    Use,
    Usefulness,
)
from normwise.theory.association import EQUAL_WITHIN, LEAST_ROWS
from normwise.theory.norm_words import BENT, SPAN, verdict_text
from normwise.theory.regime_evidence import CLOSED_FORM_FREEDOM, judge_regime

# Each with its reason. LEAST_EFFECT, LEAST_RATIO, SIGNIFICANCE, EXCLUDED_EFFECT, DOMINANCE and LEAST_FOR_CONFIDENCE were written
# down before any run; CURVE_SIGNIFICANCE was .05 at first and was lowered after null runs, since two looks at .05 add up.
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


def strength(factor: FactorAssociation) -> float:
    """Return how strongly the norm follows a factor, 0 where it does not pass.

    Passes: |partial Spearman| >= 0.1 with an interval that excludes 0 and adjusted p < 0.05; for a category a correlation ratio
    >= 0.2 instead; or a curve, which need not be monotone, with a ratio >= 0.2 and adjusted p < 0.01. The ratio is
    returned where it is more than 1.5 times the correlation. Whatever it is, it has to move the norm by 3% (see `change`).

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


def passes_by_rank(factor: FactorAssociation) -> bool:
    """Return whether the partial figure itself passes: for a numeric factor it then has a sign."""
    if factor.partial_spearman is None or factor.ci_low is None or factor.ci_high is None or factor.p_adjusted is None:
        return False
    least = LEAST_RATIO if factor.categorical else LEAST_EFFECT
    apart = factor.ci_low > 0.0 or factor.ci_high < 0.0
    moves = change(factor, factor.partial_spearman) >= LEAST_CHANGE
    return abs(factor.partial_spearman) >= least and apart and factor.p_adjusted < SIGNIFICANCE and moves


def change(factor: FactorAssociation, figure: float) -> float:
    """Return by how much an effect of this size moves log r from the 5th to the 95th percentile of what the factor explains.

    Equation: 2 z_.95 |figure| sd(log r, controls held), about |figure| 3.29 sd; inf where the spread is not known.

    Example:
        >>> round(change(FactorAssociation(name="a", kind="a", rows=99, log_spread=0.02), 0.3), 4)
        0.0197
    """
    return math.inf if factor.log_spread is None else SPAN * abs(figure) * factor.log_spread


def judge(
    factors: Sequence[FactorAssociation],
    norm: NormDistribution,
    *,
    normalized_input: bool = False,
    radial: RadialEvidence | None = None,
    training: TrainingEvidence | None = None,
    usefulness: Usefulness | None = None,
) -> tuple[RegimeEvidence, NormVerdict]:
    """Return the regime with its evidence and the verdict.

    | label                   | when                                                                                      |
    |-------------------------|-------------------------------------------------------------------------------------------|
    | degenerate              | all norms equal up to rounding, or the vectors were normalized                            |
    | direction               | radial freedom below 0.01 or a closed form of the encoder; what the norm follows is told too |
    | a kind or a factor name | factors of this kind pass, and it is at least twice as strong as the next kind            |
    | mixed                   | several kinds pass and none is twice as strong as the next                                |
    | undetermined            | fewer than 30 rows, no factor, intervals too wide, or factors that cannot be told apart   |
    | uninformative           | no factor passes, every interval excludes an effect of 0.3 or of 3%, and none has it alone |

    Args:
        factors: what `associations` returned; may be empty.
        norm: distribution of the raw norms.
        normalized_input: the vectors came with unit length.
        radial: radial freedom and the test that decided it.
        training: optimizer's settings and tracker figures; without them signal, noise and adam are never said.
        usefulness: what was measured on judgements; without it ranking is never claimed.

    Returns:
        The regime and the verdict. A sign is stated in words only beside a regime that is determined.

    Reference: our derivation; the regimes are those of `regimes.STATEMENTS`.

    Example:
        >>> spread = NormDistribution(mean=1.0, cv=0.2)
        >>> f = FactorAssociation(name="tokens", kind="length", rows=500, spearman=-0.5, partial_spearman=-0.5, ci_low=-0.6,
        ...                       ci_high=-0.4, p_adjusted=0.0)
        >>> regime, verdict = judge([f], spread)
        >>> regime.regime, verdict.label, verdict.usable_for, verdict.next_step
        ('undetermined', 'length', (), 'cosine')
    """
    strengths = {factor.name: strength(factor) for factor in factors}
    named = sorted((factor for factor in factors if strengths[factor.name] > 0.0), key=lambda factor: -strengths[factor.name])
    degenerate = normalized_input or norm.cv is None or norm.cv <= EQUAL_WITHIN
    label = "degenerate" if degenerate else _label(factors, named, strengths, radial)
    regime = judge_regime(factors, strengths, degenerate=degenerate, radial=radial, training=training)
    named = [] if degenerate else named
    usable = () if degenerate else _usable(factors, named, strengths, usefulness)
    verdict = NormVerdict(
        label=label,
        usable_for=usable,
        text="",
        next_step=_next_step(label, named, usable, normalized_input=normalized_input, usefulness=usefulness),
        follows=tuple(factor.name for factor in named),
        effect=strengths[named[0].name] if named else None,
    )
    words = verdict_text(verdict, factors, norm, regime=regime, normalized_input=normalized_input, usefulness=usefulness)
    return regime, verdict.model_copy(update={"text": words})


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


def _label(
    factors: Sequence[FactorAssociation],
    named: Sequence[FactorAssociation],
    strengths: dict[str, float],
    radial: RadialEvidence | None,
) -> str:
    if radial is not None and (radial.closed_form or (radial.freedom is not None and radial.freedom < CLOSED_FORM_FREEDOM)):
        return "direction"
    kinds: dict[str, float] = {}
    for factor in named:
        kinds.setdefault(factor.kind, strengths[factor.name])
    group = [factor for factor in inseparable(factors) if abs(_mean(factor)) * DOMINANCE > max(kinds.values(), default=0.0)]
    if group:
        return "undetermined"
    if kinds:
        first, *others = kinds.items()
        return first[0] if not others or first[1] >= DOMINANCE * others[0][1] else "mixed"
    return "uninformative" if _excluded(factors) and not overlapping(factors) else "undetermined"


def _mean(factor: FactorAssociation) -> float:
    return 0.0 if factor.shared is None or factor.shared.mean is None else factor.shared.mean


def _excluded(factors: Sequence[FactorAssociation]) -> bool:
    """Whether at least one factor was tested and all intervals exclude a medium effect, or one that moves the norm by 3%."""
    bounds = []
    for factor in factors:
        group = factor.shared
        low, high = (factor.ci_low, factor.ci_high) if group is None else (group.ci_low, group.ci_high)
        if low is not None and high is not None:
            bound = max(abs(low), abs(high))
            bounds.append(bound if change(factor, bound) >= LEAST_CHANGE else 0.0)
        elif factor.rows >= LEAST_ROWS and not factor.note.startswith("constant"):
            return False
    return bool(bounds) and max(bounds) < EXCLUDED_EFFECT


def _usable(
    factors: Sequence[FactorAssociation],
    named: Sequence[FactorAssociation],
    strengths: dict[str, float],
    usefulness: Usefulness | None,
) -> tuple[Use, ...]:
    ranking = usefulness.ranking if usefulness else None
    confidence = usefulness.confidence if usefulness else None
    uses: list[Use] = []
    if ranking is not None and ranking.ci_low is not None and ranking.ci_low > 0.0:
        uses.append("ranking")
    if confidence is not None:
        if confidence.ci_low is not None and confidence.ci_low > 0.0:
            uses.append("confidence")
    elif any(factor.kind == "length" for factor in factors):
        follows = any(f.kind == "uncertainty" and passes_by_rank(f) and strengths[f.name] >= LEAST_FOR_CONFIDENCE for f in named)
        if follows:
            uses.append("confidence")
    return tuple(uses)


def _next_step(
    label: str, named: Sequence[FactorAssociation], usable: tuple[Use, ...], *, normalized_input: bool, usefulness: Usefulness | None
) -> NextStep:
    if label == "degenerate":
        return "recover" if normalized_input else "cosine"
    if "ranking" in usable:
        # Same ranking as dot, and the scores of different queries stay comparable, which a confidence needs.
        return "one-sided" if "confidence" in usable else "dot"
    if "confidence" in usable:
        return "calibrate"
    ranking = usefulness.ranking if usefulness else None
    if ranking is not None and ranking.ci_high is not None:
        return "cosine"
    if label in ("uninformative", "length") or (label == "direction" and named and named[0].kind == "length"):
        return "cosine"
    return "more data" if label == "undetermined" else "evaluate"
