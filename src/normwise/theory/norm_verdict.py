"""From figures to a verdict: which regime explains the norms, what they follow, and what they may be used for.

What association alone can claim, and what it cannot:

* **what the norm follows**: yes, for the factors that were given. A factor that was not given may stand behind one that was.
* **ranking**: never. Whether longer vectors belong higher is a question of relevance; it takes judgements.
* **confidence**: only where the norm follows a *measured* uncertainty, at `LEAST_FOR_CONFIDENCE`, with the length held. Frequency
  or specificity may go with uncertainty, but that is a second step that somebody has to measure.
* **a sign with a meaning**: only beside its regime, since the sign of specificity turns with it.
"""

from __future__ import annotations

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
from normwise.theory.association import EQUAL_WITHIN
from normwise.theory.norm_findings import (
    DOMINANCE,
    LEAST_FOR_CONFIDENCE,
    above_zero,
    excluded,
    inseparable,
    overlapping,
    passes_by_rank,
    strength,
    strength_word,
)
from normwise.theory.norm_words import verdict_text
from normwise.theory.regime_evidence import CLOSED_FORM_FREEDOM, judge_regime


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
    | degenerate              | no two usable rows, all norms equal up to rounding, or the vectors were normalized        |
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
        The regime and the verdict. A sign is stated in words only beside a regime that is determined. Factors that repeat each
        other count by the interval that they share; where there are no others, the label is undetermined.

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
        next_step=_next_step(label, named, usable, norm=norm, normalized_input=normalized_input, usefulness=usefulness),
        follows=tuple(factor.name for factor in named),
        effect=strengths[named[0].name] if named else None,
        strength=strength_word(strengths[named[0].name]) if named else None,
    )
    words = verdict_text(verdict, factors, norm, regime=regime, normalized_input=normalized_input, usefulness=usefulness)
    return regime, verdict.model_copy(update={"text": words})


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
    return "uninformative" if excluded(factors) and not overlapping(factors) else "undetermined"


def _mean(factor: FactorAssociation) -> float:
    return 0.0 if factor.shared is None or factor.shared.mean is None else factor.shared.mean


def _usable(
    factors: Sequence[FactorAssociation],
    named: Sequence[FactorAssociation],
    strengths: dict[str, float],
    usefulness: Usefulness | None,
) -> tuple[Use, ...]:
    ranking = usefulness.ranking if usefulness else None
    confidence = usefulness.confidence if usefulness else None
    uses: list[Use] = []
    beyond = usefulness.beyond_length if usefulness else None
    if above_zero(ranking) and above_zero(beyond):
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
    label: str,
    named: Sequence[FactorAssociation],
    usable: tuple[Use, ...],
    *,
    norm: NormDistribution,
    normalized_input: bool,
    usefulness: Usefulness | None,
) -> NextStep:
    if label == "degenerate":
        nothing = norm.mean is None or norm.usable == 1
        return "recover" if normalized_input else "more data" if nothing else "cosine"
    # Dot is better where it was measured to be, whatever stands behind it.
    if above_zero(usefulness.ranking if usefulness else None):
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
