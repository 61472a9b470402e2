"""The verdict in plain words: effect size, interval, regime, use, next step; never a sign without its regime."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.core.norm_records import FactorAssociation, NormDistribution, NormVerdict, RegimeEvidence, Usefulness
from normwise.core.records import Interval
from normwise.theory.association import LEAST_ROWS
from normwise.theory.norm_findings import (
    BENT,
    LEAST_EFFECT,
    SIGNIFICANCE,
    SPAN,
    above_zero,
    excluded,
    farthest,
    inseparable,
    overlapping,
    repeating,
    strength_word,
    with_own_figure,
)

_STEPS = {
    "cosine": "rank by cosine",
    "dot": "rank by dot",
    "one-sided": "use query_normalized: it ranks like dot, and its scores can be compared between queries",
    "calibrate": "fit a confidence with the norm as a feature (normwise calibrate), and see on held-out queries whether it helps",
    "evaluate": "measure it on judged queries with normwise evaluate --similarity all",
    "recover": "get the raw norms: encode without normalization, or recover them with --recover-norms where the encoder allows it",
}
_GIVE_FACTORS = (
    "give what the norm may follow: columns such as tokens, frequency or a measured uncertainty (--factors F.csv), or the texts of the "
    "vectors, from which length and frequency are counted (--texts)"
)
# Of these kinds the laws of training say which way they move the norm; a last norm layer or pooling says it of none.
_WITH_LAW = frozenset({"frequency", "specificity", "uncertainty"})
_BOUND = ("plane-bound", "ellipsoid-bound", "length-bound")


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
        Sentences, each ended by a period. Strengths are stated without sign where the regime is undetermined, and with the
        figure that nothing was held for where it tells another story.

    Example:
        >>> verdict = NormVerdict(label="degenerate", text="", next_step="cosine")
        >>> unknown = RegimeEvidence(regime="undetermined", evidence=())
        >>> verdict_text(verdict, [], NormDistribution(mean=2.0, cv=0.0), regime=unknown, normalized_input=False, usefulness=None)
        'All norms are equal up to rounding (mean 2): there is nothing to read. Next: rank by cosine.'
    """
    if verdict.label == "degenerate":
        return f"{_degenerate(norm, normalized_input=normalized_input)} Next: {_next(verdict, factors, norm)}."
    named = [factor for name in verdict.follows for factor in factors if factor.name == name]
    parts = [_what(verdict, factors, norm, named)]
    parts += [_strength(factor, regime) for factor in named]
    parts.append(_regime(regime, named))
    parts += _hedges(factors, named)
    parts.append(_use(verdict, usefulness))
    parts.append(f"Next: {_next(verdict, factors, norm)}")
    return " ".join(f"{part}." for part in parts if part)


def _degenerate(norm: NormDistribution, *, normalized_input: bool) -> str:
    if normalized_input:
        return "These vectors were normalized: their norms were lost before they came here."
    if norm.mean is None:
        return "No row is usable: each is zero or holds NaN or infinite values, so there is no norm to read."
    if norm.usable == 1:
        return f"One row is usable: its norm ({norm.mean:.4g}) has nothing to be compared with."
    return f"All norms are equal up to rounding (mean {norm.mean:.4g}): there is nothing to read."


def _next(verdict: NormVerdict, factors: Sequence[FactorAssociation], norm: NormDistribution) -> str:
    if verdict.next_step != "more data":
        return _STEPS[verdict.next_step]
    if verdict.label == "degenerate":
        return "repair what made these vectors" if norm.mean is None else "give more rows"
    few = norm.usable is not None and norm.usable < LEAST_ROWS
    if not factors:
        return _GIVE_FACTORS + (f", and at least {LEAST_ROWS} rows" if few else "")
    if few or all(factor.rows < LEAST_ROWS for factor in factors):
        return f"give at least {LEAST_ROWS} rows that are no copies of each other"
    if repeating(factors) or _overlap(factors):
        return "give factors that differ more from each other"
    return "mend the factors as their notes say" if not with_own_figure(factors) else "give more rows"


def _what(verdict: NormVerdict, factors: Sequence[FactorAssociation], norm: NormDistribution, named: Sequence[FactorAssociation]) -> str:
    follows = " and ".join(factor.name for factor in named)
    if verdict.label == "direction" and named:
        return f"The norm follows {follows}, and is a function of the direction: unit vectors contain it too"
    if verdict.label == "direction":
        return f"The norm is a function of the direction, which is not the same as uninformative; {_beside(factors, norm)}"
    if verdict.label == "mixed":
        return f"The norm follows several things: {follows}"
    if verdict.label == "uninformative":
        return f"The norm {_follows_none(factors)}"
    if verdict.label == "undetermined":
        return f"What the norm follows cannot be told: {_why_open(factors, norm)}"
    others = [factor.name for factor in named if factor.kind != verdict.label]
    less = f", and much less {' and '.join(others)}" if others else ""
    kept = " and ".join(factor.name for factor in named if factor.kind == verdict.label)
    means = "" if verdict.label == kept else f" ({verdict.label})"
    return f"The norm follows {kept}{means}{less}"


def _beside(factors: Sequence[FactorAssociation], norm: NormDistribution) -> str:
    """What a norm goes with that is a function of the direction, where no factor is named."""
    if excluded(factors) and not overlapping(factors) and not inseparable(factors):
        return f"it {_follows_none(factors)}"
    return f"what else goes with it cannot be told: {_why_open(factors, norm)}"


def _follows_none(factors: Sequence[FactorAssociation]) -> str:
    alone, groups = with_own_figure(factors), repeating(factors)
    known = [(factor, bound) for factor in (*alone, *groups) if (bound := farthest(factor)) is not None]
    widest = max((bound for _, bound in known), default=0.0)
    small = [factor.name for factor in alone if factor.p_adjusted is not None and factor.p_adjusted < SIGNIFICANCE]
    real = f" ({', '.join(small)}: not zero, but too small to use)" if small else ""
    names = ", ".join(factor.name for factor in alone)
    twins = f", nor {_groups(groups)} together, which repeat each other" if groups else ""
    moves = max((SPAN * bound * factor.log_spread for factor, bound in known if factor.log_spread is not None), default=math.inf)
    amount = f", none moves it by more than {max(moves, 0.001):.1%}" if moves < 0.1 else ""
    return f"follows none of {names}{twins}: effects beyond {widest:.2f} are excluded at 95%{amount}{real}"


def _why_open(factors: Sequence[FactorAssociation], norm: NormDistribution) -> str:
    if not factors:
        few = norm.usable is not None and norm.usable < LEAST_ROWS
        return "no factor was given" + (f", and {norm.usable} usable rows are too few to test one (it takes {LEAST_ROWS})" if few else "")
    groups = repeating(factors)
    if groups:
        return _repeat(groups)
    alone = with_own_figure(factors)
    if not alone:
        return f"nothing could be tested ({factors[0].name}: {factors[0].note})"
    if overlap := _overlap(factors):
        names = " and ".join(factor.name for factor in overlap)
        return f"{names} go with the norm alone, but not once the others are held: the factors overlap too much here to name one"
    left = [factor for factor in factors if factor.partial_spearman is None and not factor.note.startswith("constant")]
    if left and excluded(alone):
        return f"{' and '.join(factor.name for factor in alone)} can be excluded, but not {left[0].name} ({left[0].note})"
    return f"{alone[0].rows} rows are too few to name a factor or to exclude one"


def _overlap(factors: Sequence[FactorAssociation]) -> list[FactorAssociation]:
    return [factor for factor in overlapping(factors) if factor.controls]


def _repeat(groups: Sequence[FactorAssociation]) -> str:
    known = [bound for factor in groups if (bound := farthest(factor)) is not None]
    together = f", and together they may have up to {max(known):.2f}" if known else ""
    return f"{_groups(groups)} repeat each other in these rows, so none of them has a part of its own to test{together}"


def _groups(groups: Sequence[FactorAssociation]) -> str:
    names = dict.fromkeys(name for factor in groups for name in (factor.name, *factor.collinear_with))
    return " and ".join(names)


def _bent(factor: FactorAssociation) -> bool:
    """Whether the norm bends with a factor, so that no sign is stated."""
    return factor.curve is not None and factor.curve > BENT * abs(factor.partial_spearman or 0.0)


def _strength(factor: FactorAssociation, regime: RegimeEvidence) -> str:
    held = f", with {' and '.join(factor.controls)} held fixed" if factor.controls else ""
    rho = factor.partial_spearman or 0.0
    low, high = factor.ci_low or 0.0, factor.ci_high or 0.0
    if factor.categorical:
        return f"{factor.name}: a {strength_word(rho)} effect, correlation ratio {rho:.2f} [{low:.2f}, {high:.2f}] of 0 to 1{held}"
    if _bent(factor):
        curve = factor.curve or 0.0
        size = f"a {strength_word(curve)} effect that is not monotone, correlation ratio {curve:.2f} of 0 to 1"
        return f"{factor.name}: {size}{held}"
    effect = f"{factor.name}: a {strength_word(rho)} effect, rank correlation"
    if regime.regime == "undetermined":
        near, far = sorted((abs(low), abs(high)))
        return f"{effect} {abs(rho):.2f} [{near:.2f}, {far:.2f}] without its sign{held}{_raw(factor, rho, signed=False)}"
    way = "longer" if rho > 0 else "shorter"
    slope = "" if factor.exponent is None else f", r ~ {factor.name}^{factor.exponent.mean:.2f} {_span(factor.exponent)}"
    figures = f"{effect} {rho:+.2f} [{low:+.2f}, {high:+.2f}]{held}{_raw(factor, rho, signed=True)}"
    return f"{figures}: vectors with larger values of {factor.name} are {way}{slope}"


def _raw(factor: FactorAssociation, rho: float, *, signed: bool) -> str:
    """The figure with nothing held, where it is not nearly the same."""
    raw = factor.spearman
    if raw is None or not factor.controls or abs(raw - rho) < LEAST_EFFECT:
        return ""
    turned = " and the other sign" if raw * rho < 0.0 and not signed else ""
    return f" (with nothing held {f'{raw:+.2f}' if signed else f'{abs(raw):.2f}'}{turned})"


def _regime(regime: RegimeEvidence, named: Sequence[FactorAssociation]) -> str:
    if regime.regime == "undetermined" and all(factor.categorical or _bent(factor) for factor in named):
        return "The regime is undetermined"
    if regime.regime == "undetermined":
        return "The regime is undetermined, so the sign stands in the table of factors only, and says nothing beyond these vectors"
    bound = regime.regime in _BOUND
    without = [factor.name for factor in named if not factor.categorical and not _bent(factor) and (bound or factor.kind not in _WITH_LAW)]
    frequent = [factor.name for factor in named if factor.kind == "frequency"]
    limit = f"; {regime.limit}" if regime.limit and frequent else ""
    if not without:
        return f"Regime: {regime.regime}{limit}"
    law = "no law of training stands behind the sign of" if bound else "its law says nothing of"
    return f"Regime: {regime.regime}; {law} {' and '.join(without)}: which way it goes is this model's, and may turn in another{limit}"


def _hedges(factors: Sequence[FactorAssociation], named: Sequence[FactorAssociation]) -> list[str]:
    hedges = []
    if named and (groups := repeating(factors)):
        hedges.append(_repeat(groups))
    if named and not any(factor.kind == "length" for factor in factors):
        hedges.append("No length was given: where vectors are pooled over tokens, the length may stand behind this (give a column tokens)")
    return hedges


def _use(verdict: NormVerdict, usefulness: Usefulness | None) -> str:
    ranking = usefulness.ranking if usefulness else None
    confidence = usefulness.confidence if usefulness else None
    for_ranking = (
        "no judgements were given, so a use for ranking is not claimed"
        if ranking is None
        else f"dot minus cosine is {ranking.mean or 0.0:+.4f} {_span(ranking)} nDCG@10{_beyond(verdict, ranking, usefulness)}"
    )
    if confidence is not None:
        worse = confidence.ci_high is not None and confidence.ci_high < 0.0
        unshown = ", so it makes a confidence worse" if worse else ", so it is not shown to help a confidence"
        shown = "" if "confidence" in verdict.usable_for else unshown
        return f"Use: {for_ranking}; as a feature of a confidence it gains {confidence.mean or 0.0:+.4f} {_span(confidence)}{shown}"
    if "confidence" in verdict.usable_for:
        return f"Use: {for_ranking}; for confidence, since the norm follows a measured uncertainty"
    return f"Use: {for_ranking}; nothing shows a use for confidence"


def _beyond(verdict: NormVerdict, ranking: Interval, usefulness: Usefulness | None) -> str:
    """What stands between a difference of dot and cosine and a use of the norm."""
    beyond = usefulness.beyond_length if usefulness else None
    against = "" if beyond is None else f" (re-ranking by the norm minus by the token count: {beyond.mean or 0.0:+.4f} {_span(beyond)})"
    if "ranking" in verdict.usable_for:
        return f", and not for its length alone{against}"
    if ranking.ci_high is not None and ranking.ci_high < 0.0:
        return ", so the norm makes this ranking worse"
    if not above_zero(ranking):
        return ", so the norm is not shown to help ranking"
    if beyond is None:
        return ", but the length was not controlled, so this may be the length's"
    return f", but the length may do it as well{against}"


def _span(interval: Interval) -> str:
    if interval.ci_low is None or interval.ci_high is None:
        return "[no interval]"
    return f"[{interval.ci_low:+.4g}, {interval.ci_high:+.4g}]"
