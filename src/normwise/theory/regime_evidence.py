"""Which mechanism set the norms: closed forms of the encoder, the length, or the optimizer, with the evidence in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from normwise.core.norm_records import FactorAssociation, RadialEvidence, Regime, RegimeEvidence, TrainingEvidence
from normwise.theory.regimes import STATEMENTS, Decay, Statement
from normwise.theory.training_stage import (
    equilibrium_reached,
    frequency_limit,
    is_adam,
    lacks_law,
    memory_words,
    stage_of,
    stage_words,
)

# A norm is a function of the direction where less than 1% of its variance is left to explain.
CLOSED_FORM_FREEDOM = 0.01
# The length binds the norm where it explains at least half of its rank variance.
LENGTH_SHARE = 0.5
# Signal and noise move the norm alike at a share of 1/2; between these borders neither may be said to dominate.
SIGNAL_ABOVE, NOISE_BELOW = 0.6, 0.4
# A curve that explains twice what the rank correlation does is bent (1.5 times the correlation, as in `norm_findings`).
_BENT_SHARE = 2.25
Form = Literal["plane-bound", "ellipsoid-bound"]
_FORMS: dict[str, Form] = {
    "e3_affine": "plane-bound",
    "e3_ellipsoid": "ellipsoid-bound",
    "plane-bound": "plane-bound",
    "ellipsoid-bound": "ellipsoid-bound",
}
_SIGNS = {1: "+", 0: "0", -1: "-", None: "open"}
_FORM_WORDS = {"plane-bound": "1/r is linear in the direction", "ellipsoid-bound": "1/r^2 is linear in the squared direction"}


def judge_regime(
    factors: Sequence[FactorAssociation],
    strengths: Mapping[str, float],
    *,
    degenerate: bool,
    radial: RadialEvidence | None,
    training: TrainingEvidence | None,
) -> RegimeEvidence:
    """Return the regime that explains the norms.

    In this order, the first that holds: a closed form that ties the norm to the direction (plane, ellipsoid); a length that
    explains at least half of the norm's rank variance while nothing else comes near it; the training (Adam's name; for SGD the
    measured share of signal in the gradients, or weight decay run to its equilibrium, which is noise-driven). Else undetermined:
    signal, noise and adam cannot be told from vectors alone.

    Args:
        factors: what `associations` returned.
        strengths: name -> strength of those that pass, 0 for others.
        degenerate: the norms are all equal, so there is nothing to explain.
        radial: radial freedom and the test that decided it.
        training: optimizer's settings and tracker figures.

    Returns:
        The regime and its evidence.

    Reference: our derivation.

    Example:
        >>> judge_regime([], {}, degenerate=False, radial=None, training=TrainingEvidence(optimizer="adam")).regime
        'adam'
    """
    if degenerate:
        return RegimeEvidence(regime="undetermined", evidence=("the norms do not vary, so there is nothing to explain",))
    evidence: list[str] = []
    form = _closed_form(radial, evidence)
    length = _length_bound(factors, strengths, evidence)
    trained = _of_training(training, evidence)
    if form or length:
        return RegimeEvidence(regime=form or "length-bound", evidence=tuple(evidence))
    if training is None or trained == "undetermined":
        return RegimeEvidence(regime=trained, evidence=tuple(evidence))
    limit = "" if lacks_law(training) else frequency_limit(training)
    return RegimeEvidence(regime=trained, evidence=(*evidence, *_laws(trained, training)), limit=limit)


def law_of(regime: Regime, training: TrainingEvidence) -> str:
    """Return what the law of a regime says of the norm, in words, or nothing where the table has no row for these settings.

    Where the settings do not tell whether weight decay had balanced growth, both rows are named.

    Example:
        >>> law_of("noise", TrainingEvidence(optimizer="sgd"))
        'the law for this (SGD, no decay, noise-dominated): frequency +, exponent 0.25; dispersion +'
    """
    if lacks_law(training):
        return ""
    decayed: Decay = "lazy" if training.lazy else "dense"
    stage = stage_of(training)
    decays: tuple[Decay, ...] = ("none", decayed) if stage is None else (decayed,) if stage == "equilibrium" else ("none",)
    lazy_updates = regime == "adam" and bool(training.lazy)
    rows = [s for s in STATEMENTS for decay in decays if (s.regime, s.decay, s.lazy_updates) == (regime, decay, lazy_updates)]
    if not rows:
        return ""
    told = [_row_words(row) for row in rows]
    return f"the law for this {told[0]}" if len(told) == 1 else f"the law is one of two: {told[0]}; or {told[1]}"


def _row_words(row: Statement) -> str:
    power = "" if row.frequency_exponent is None else f", exponent {row.frequency_exponent:g}"
    knee = " (only for visit rates below about 1 - beta2)" if row.frequency_below_knee else ""
    return f"({row.name}): frequency {_SIGNS[row.frequency]}{power}{knee}; dispersion {_SIGNS[row.dispersion]}"


def _laws(regime: Regime, training: TrainingEvidence) -> list[str]:
    """What the law says for these settings, where it ends, and what was assumed."""
    lines = [stage_words(training), law_of(regime, training)]
    if regime == "adam" and not lacks_law(training):
        if training.lazy is None:
            lines.append("whether rows without a gradient stay as they are was not given: dense updates are assumed")
        lines += [frequency_limit(training), memory_words(training)]
    return [line for line in lines if line]


def _closed_form(radial: RadialEvidence | None, evidence: list[str]) -> Form | None:
    if radial is None:
        return None
    if radial.closed_form:
        evidence.append(f"the encoder's last norm layer binds the norm: {_FORM_WORDS[radial.closed_form]}")
        return radial.closed_form
    if radial.freedom is None:
        return None
    if radial.freedom >= CLOSED_FORM_FREEDOM:
        bound = "at most " if radial.upper_bound else ""
        evidence.append(f"the direction leaves {bound}{radial.freedom:.1%} of the norm's variance open, so no closed form binds it")
        return None
    form = _FORMS.get(radial.test or "")
    what = _FORM_WORDS[form] if form else f"found by {radial.test or 'a regression'}, which is no closed form"
    evidence.append(f"the norm is a function of the direction (radial freedom {radial.freedom:.2g}): {what}")
    return form


def _length_bound(factors: Sequence[FactorAssociation], strengths: Mapping[str, float], evidence: list[str]) -> bool:
    lengths = [factor for factor in factors if factor.kind == "length" and strengths.get(factor.name, 0.0) > 0.0]
    if not lengths:
        return False
    shares = {factor.name: factor.alone if factor.alone is not None else (factor.spearman or 0.0) ** 2 for factor in lengths}
    name, share = max(shares.items(), key=lambda item: item[1])
    rival = max((strengths.get(factor.name, 0.0) for factor in factors if factor.kind != "length"), default=0.0)
    binds = share >= LENGTH_SHARE and rival**2 < LENGTH_SHARE * share
    straight = max((factor.spearman or 0.0) ** 2 for factor in lengths if factor.name == name)
    bent = " along a curve that is not monotone" if share > _BENT_SHARE * straight else ""
    evidence.append(
        f"{name} goes with {share:.0%} of the norm's rank variance{bent}" + (", and nothing else comes near it" if binds else "")
    )
    return binds


def _of_training(training: TrainingEvidence | None, evidence: list[str]) -> Regime:
    if training is None or (training.optimizer is None and training.signal_share is None):
        evidence.append(
            "neither the optimizer's settings nor a tracker's figures were given: signal, noise and adam cannot be told from vectors alone"
        )
        return "undetermined"
    if training.predicted_spearman is not None:
        r2 = "" if training.predicted_r2 is None else f", R2 on log r {training.predicted_r2:.2f}"
        evidence.append(f"norms predicted by the law against the real ones: rank correlation {training.predicted_spearman:+.2f}{r2}")
    if training.similarity == "dot":
        evidence.append("trained with the dot product: its gradient has a radial part, so the laws of cosine training do not apply")
        return "undetermined"
    if is_adam(training):
        evidence.append(f"trained with {training.optimizer}, which divides the gradient's size out")
        return "adam"
    if training.signal_share is not None:
        share = training.signal_share
        evidence.append(f"the mean gradient carries {share:.0%} of the gradient's second moment (tracker)")
        if training.optimizer is None:
            evidence.append("the optimizer was not named: under Adam the share would not decide")
            return "undetermined"
        return "signal" if share > SIGNAL_ABOVE else "noise" if share < NOISE_BELOW else "undetermined"
    if equilibrium_reached(training):
        evidence.append(
            "SGD with weight decay, trained longer than its relaxation time 1/(4 eta lambda): the equilibrium is driven by noise"
        )
        return "noise"
    reason = stage_words(training)
    if reason:
        evidence.append(reason)
    where = "not known to be at" if stage_of(training) is None else "short of"
    evidence.append(f"SGD {where} a weight-decay equilibrium: whether signal or noise moves the norm takes the tracker's signal share")
    return "undetermined"
