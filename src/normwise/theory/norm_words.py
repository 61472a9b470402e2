"""The verdict in plain words: effect size, interval, regime, use, next step; never a sign without its regime."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.norm_records import FactorAssociation, NormDistribution, NormVerdict, RegimeEvidence, Usefulness
from normwise.core.records import Interval

# A correlation ratio this many times the correlation says that the dependence is bent, and a sign would mislead.
BENT = 1.5
# 9% of the rank variance: a correlation of .3, as in the verdict.
# From the 5th to the 95th percentile of a normal variable, in standard deviations.
SPAN = 3.29
_MEDIUM = 0.09
_STEPS = {
    "cosine": "rank by cosine",
    "dot": "rank by dot",
    "one-sided": "use query_normalized: it ranks like dot, and its scores can be compared between queries",
    "calibrate": "fit a confidence with the norm as a feature (normwise calibrate), and see on held-out queries whether it helps",
    "evaluate": "measure it on judged queries with normwise evaluate --similarity all",
    "recover": "get the raw norms: encode without normalization, or recover them with --recover-norms where the encoder allows it",
    "more data": "give more rows or more factors, ones that differ from each other",
}


def verdict_text(
    verdict: NormVerdict,
    factors: Sequence[FactorAssociation],
    norm: NormDistribution,
    *,
    regime: RegimeEvidence,
    normalized_input: bool,
    usefulness: Usefulness | None,
) -> str:
    """Return the verdict as a few sentences.

    Args:
        verdict: everything but its text.
        factors: what `associations` returned.
        norm: distribution of the raw norms.
        regime: the regime and its evidence.
        normalized_input: the vectors came with unit length.
        usefulness: what was measured on judgements.

    Returns:
        Sentences, each ended by a period. Strengths are stated without sign where the regime is undetermined.

    Example:
        >>> verdict = NormVerdict(label="degenerate", text="", next_step="cosine")
        >>> unknown = RegimeEvidence(regime="undetermined", evidence=())
        >>> verdict_text(verdict, [], NormDistribution(mean=2.0, cv=0.0), regime=unknown, normalized_input=False, usefulness=None)
        'All norms are equal up to rounding (mean 2): there is nothing to read. Next: rank by cosine.'
    """
    if verdict.label == "degenerate":
        return f"{_degenerate(norm, normalized_input=normalized_input)} Next: {_STEPS[verdict.next_step]}."
    named = [factor for name in verdict.follows for factor in factors if factor.name == name]
    parts = [_what(verdict, factors, named)]
    parts += [_strength(factor, regime) for factor in named]
    parts.append(_regime(regime, named))
    parts += _hedges(factors, named)
    parts.append(_use(verdict, usefulness))
    parts.append(f"Next: {_STEPS[verdict.next_step]}")
    return " ".join(f"{part}." for part in parts if part)


def _degenerate(norm: NormDistribution, *, normalized_input: bool) -> str:
    if normalized_input:
        return "These vectors were normalized: their norms were lost before they came here."
    mean = "" if norm.mean is None else f" (mean {norm.mean:.4g})"
    return f"All norms are equal up to rounding{mean}: there is nothing to read."


def _what(verdict: NormVerdict, factors: Sequence[FactorAssociation], named: Sequence[FactorAssociation]) -> str:
    follows = " and ".join(factor.name for factor in named)
    if verdict.label == "direction":
        after = f"; it follows {follows}" if named else "; none of the given factors goes with it" if _tested(factors) else ""
        return f"The norm is a function of the direction, which is not the same as uninformative{after}"
    if verdict.label == "mixed":
        return f"The norm follows several things: {follows}"
    if verdict.label == "uninformative":
        return _uninformative(factors)
    if verdict.label == "undetermined":
        return _undetermined(factors)
    others = [factor.name for factor in named if factor.kind != verdict.label]
    less = f", and much less {' and '.join(others)}" if others else ""
    kept = " and ".join(factor.name for factor in named if factor.kind == verdict.label)
    means = "" if verdict.label == kept else f" ({verdict.label})"
    return f"The norm follows {kept}{means}{less}"


def _uninformative(factors: Sequence[FactorAssociation]) -> str:
    tested = _tested(factors)
    widest = max((_largest(factor) for factor in tested), default=0.0)
    small = [factor.name for factor in tested if factor.p_adjusted is not None and factor.p_adjusted < 0.05]
    real = f" ({', '.join(small)}: not zero, but too small to use)" if small else ""
    names = ", ".join(factor.name for factor in tested) or "the given factors"
    moves = max((SPAN * _largest(factor) * factor.log_spread for factor in tested if factor.log_spread is not None), default=math.inf)
    amount = f", none moves it by more than {max(moves, 0.001):.1%}" if moves < 0.1 else ""
    return f"The norm follows none of {names}: effects beyond {widest:.2f} are excluded at 95%{amount}{real}"


def _largest(factor: FactorAssociation) -> float:
    return max(abs(factor.ci_low or 0.0), abs(factor.ci_high or 0.0))


def _undetermined(factors: Sequence[FactorAssociation]) -> str:
    if not factors:
        return "No factor was given, so nothing can be said of what the norm follows"
    groups = [factor for factor in factors if factor.collinear_with]
    if groups:
        names = f"{groups[0].name} and {', '.join(groups[0].collinear_with)}"
        return f"{names} repeat each other in these rows: which of them the norm follows cannot be told"
    tested = _tested(factors)
    if not tested:
        return f"Nothing could be tested: {factors[0].name}: {factors[0].note}"
    overlap = [factor.name for factor in tested if factor.alone is not None and factor.alone >= _MEDIUM]
    if overlap:
        alone = " and ".join(overlap)
        return f"{alone} go with the norm alone, but not once the others are held: the factors overlap too much here to name one"
    return f"{tested[0].rows} rows are too few to name a factor or to exclude one"


def _tested(factors: Sequence[FactorAssociation]) -> list[FactorAssociation]:
    return [factor for factor in factors if factor.partial_spearman is not None]


def _strength(factor: FactorAssociation, regime: RegimeEvidence) -> str:
    held = f", {' and '.join(factor.controls)} held" if factor.controls else ", nothing held"
    rho = factor.partial_spearman or 0.0
    low, high = factor.ci_low or 0.0, factor.ci_high or 0.0
    if factor.categorical:
        return f"{factor.name}: correlation ratio {rho:.2f} [{low:.2f}, {high:.2f}]{held}"
    if factor.curve is not None and factor.curve > BENT * abs(rho):
        return f"{factor.name}: not monotone, correlation ratio {factor.curve:.2f}{held}"
    if regime.regime == "undetermined":
        near, far = sorted((abs(low), abs(high)))
        return f"{factor.name}: strength {abs(rho):.2f} [{near:.2f}, {far:.2f}] (absolute partial Spearman{held})"
    way = "longer" if rho > 0 else "shorter"
    slope = "" if factor.exponent is None else f", r ~ {factor.name}^{factor.exponent.mean:.2f} {_span(factor.exponent)}"
    return f"{factor.name}: partial Spearman {rho:+.2f} [{low:+.2f}, {high:+.2f}]{held}: vectors of larger {factor.name} are {way}{slope}"


def _regime(regime: RegimeEvidence, named: Sequence[FactorAssociation]) -> str:
    if regime.regime == "undetermined" and not named:
        return "The regime is undetermined"
    if regime.regime == "undetermined":
        return "The regime is undetermined, so the sign is given in the table only and must not be read as more than this model's"
    return f"Regime: {regime.regime}"


def _hedges(factors: Sequence[FactorAssociation], named: Sequence[FactorAssociation]) -> list[str]:
    if named and not any(factor.kind == "length" for factor in factors):
        return ["No length was given: where vectors are pooled over tokens, the length may stand behind this (give a column tokens)"]
    return []


def _use(verdict: NormVerdict, usefulness: Usefulness | None) -> str:
    ranking = usefulness.ranking if usefulness else None
    confidence = usefulness.confidence if usefulness else None
    for_ranking = (
        "no judgements were given, so a use for ranking is not claimed"
        if ranking is None
        else f"dot minus cosine is {ranking.mean or 0.0:+.4f} {_span(ranking)} nDCG@10"
        + ("" if "ranking" in verdict.usable_for else ", so the norm is not shown to help ranking")
    )
    if confidence is not None:
        shown = "" if "confidence" in verdict.usable_for else ", so it is not shown to help a confidence"
        return f"Use: {for_ranking}; as a feature of a confidence it gains {confidence.mean or 0.0:+.4f} {_span(confidence)}{shown}"
    if "confidence" in verdict.usable_for:
        return f"Use: {for_ranking}; for confidence, since the norm follows a measured uncertainty"
    return f"Use: {for_ranking}; nothing shows a use for confidence"


def _span(interval: Interval) -> str:
    if interval.ci_low is None or interval.ci_high is None:
        return "[no interval]"
    return f"[{interval.ci_low:+.4g}, {interval.ci_high:+.4g}]"
