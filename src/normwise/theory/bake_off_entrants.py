"""Who takes part in a bake-off of calibrators: how each is fitted, and whether a search could compute what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError, near_names
from normwise.theory.bake_off_training import INNER_ROWS, Training, clipped_log_losses, predicted, tuned_logistic
from normwise.theory.calibrators import AnyCalibrator
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.logistic_calibrator import CONTROL_SIGNALS, SCORE_SIGNALS, LogisticCalibrator
from normwise.theory.monotone_calibrators import ISOTONIC_LEAST, BetaCalibrator, IsotonicCalibrator
from normwise.theory.prior_calibrators import PriorCalibrator, RerankingCalibrator
from normwise.theory.signals import SIGNALS, signals
from normwise.theory.softmax_calibrators import NormTemperatureCalibrator, SoftmaxCalibrator, TemperatureCalibrator

# Norms that differ by less are rounding: the model normalizes.
LEAST_NORM_SPREAD = 1e-4


@dataclass(frozen=True)
class Setting:
    """What a bake-off is told beside the queries; `signals` None leaves the choice to it."""

    temperature: float | None
    lengths_at_search: bool
    signals: tuple[str, ...] | None = None

    @property
    def score_signals(self) -> tuple[str, ...]:
        """What every logistic reads of the scores."""
        return SCORE_SIGNALS if self.temperature is None else (*SCORE_SIGNALS, "entropy")


@dataclass(frozen=True)
class Entrant:
    """One calibrator: its name, its fit, why it may never be chosen (empty: it may), and what it re-ranks by, if it does."""

    name: str
    fit: Callable[[Training], AnyCalibrator]
    barred: str = ""
    reranks_by: str | None = None

    def fitted(self, training: Training) -> AnyCalibrator:
        """The fit on these queries, made once."""
        if self.name not in training.fits:
            training.fits[self.name] = self.fit(training)
        return training.fits[self.name]


def norms_vary(hits: HitLists) -> bool:
    """Whether the norms of queries or of hits differ by more than rounding."""
    return any(np.ptp(np.log(norms[norms > 0.0])) > LEAST_NORM_SPREAD for norms in (hits.query_norms, hits.hit_norms))


def entrants(judged: JudgedHits, setting: Setting) -> tuple[tuple[Entrant, ...], dict[str, str]]:
    """Return who takes part, from the plainest on, and why the others do not.

    Args:
        judged: the queries of the fit.
        setting: what the bake-off is told.

    Returns:
        The entrants, and the reasons by name of those that the data do not allow.
    """
    found: list[Entrant] = []
    left_out: dict[str, str] = {}
    for group in (_softmax_entrants, _logistic_entrants, _reranking_entrants):
        for name, entrant in group(judged, setting).items():
            if isinstance(entrant, str):
                left_out[name] = entrant
            else:
                found.append(entrant)
    bases = tuple(each for each in found if not each.barred and each.reranks_by is None and each.name != "softmax")
    monotone = "isotonic" if len(judged) >= ISOTONIC_LEAST else "beta"
    if monotone == "beta":
        left_out["isotonic"] = f"needs {ISOTONIC_LEAST:,} fit queries, {len(judged):,} came; beta stands in"
    else:
        left_out["beta"] = f"isotonic stands in from {ISOTONIC_LEAST:,} fit queries on"
    found.append(Entrant(monotone, lambda training: _monotone(training, monotone, bases)))
    return tuple(found), left_out


def check_signals(names: Sequence[str], hits: HitLists, setting: Setting) -> tuple[str, ...]:
    """Return signal names that exist, that these data have and that a search can compute, or say what is wrong.

    Raises:
        InputError: no name, a repeated or unknown one, or one that the data or a later search lack.
    """
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise InputError(f'signals are {names!r}; expected "auto" or a list of different names: {", ".join(SIGNALS)}')
    # One row is enough to see which signals there are.
    there = signals(hits.subset(np.arange(1)), temperature=setting.temperature)
    for name in names:
        if name not in SIGNALS:
            raise InputError(f"signals: {name!r} is unknown; {near_names(name, SIGNALS)}")
        if name not in there:
            raise InputError(f"signals: {name!r} cannot be computed from these data; they allow {', '.join(there)}")
        if (reason := _not_at_search((name,), setting)) is not None:
            raise InputError(f"signals: {name!r} cannot be used: {reason}")
    return tuple(names)


def _not_at_search(names: Sequence[str], setting: Setting) -> str | None:
    if any("frequency" in name or name == "local scaling" for name in names):
        return "it reads how often something was asked or how dense queries are, which no search knows; it is a control"
    if any("length" in name for name in names) and not setting.lengths_at_search:
        return "it reads lengths, which a later search will not know"
    return None


def _softmax_entrants(judged: JudgedHits, setting: Setting) -> dict[str, Entrant | str]:
    hits = judged.hits
    if hits.depth < 2:
        reason = "one hit per query leaves a softmax nothing to compare"
        return dict.fromkeys(("softmax", "temperature", "norm_temperature", "norm_temperature_controls"), reason)
    known = {"query length": hits.query_lengths, "query frequency": hits.query_frequency}
    controls = tuple(name for name, values in known.items() if values is not None)
    found: dict[str, Entrant | str] = {
        "softmax": ("the training temperature is not known; temperature scaling fits its own"),
        "temperature": Entrant("temperature", lambda training: TemperatureCalibrator.fit(training.rows)),
        "norm_temperature": "the norms of all queries are equal",
        "norm_temperature_controls": "neither lengths nor frequencies of queries are known",
    }
    if setting.temperature is not None:
        found["softmax"] = Entrant("softmax", lambda training: SoftmaxCalibrator.fit(training.near, temperature=setting.temperature))
    if np.ptp(np.log(hits.query_norms)) > LEAST_NORM_SPREAD:
        found["norm_temperature"] = Entrant("norm_temperature", lambda training: NormTemperatureCalibrator.fit(training.rows))
    if controls:
        found["norm_temperature_controls"] = Entrant(
            "norm_temperature_controls",
            lambda training: NormTemperatureCalibrator.fit(training.rows, controls=controls),
            barred=_not_at_search(controls, setting) or "",
        )
    return found


def _logistic_entrants(judged: JudgedHits, setting: Setting) -> dict[str, Entrant | str]:
    hits = judged.hits
    score_signals = setting.score_signals
    controls = known_controls(hits)
    no_norms = "" if norms_vary(hits) else "all norms are equal: the model normalizes, or its vectors came normalized"
    no_controls = "" if controls else "neither lengths nor frequencies are known"
    barred = _not_at_search(controls, setting) or ""

    def logistic(kind: str, signal_names: tuple[str, ...]) -> Entrant:
        how = {"kind": kind, "signals": signal_names, "temperature": setting.temperature}
        return Entrant(kind, lambda training: _logistic(training, how), barred=barred if "controls" in kind else "")

    return {
        "logistic": logistic("logistic", setting.signals or score_signals),
        "logistic_norm": no_norms or logistic("logistic_norm", score_signals),
        "logistic_controls": no_controls or logistic("logistic_controls", score_signals),
        "logistic_controls_norm": no_controls or no_norms or logistic("logistic_controls_norm", score_signals),
    }


def known_controls(hits: HitLists) -> tuple[str, ...]:
    """The lengths and frequencies that these lists know, by the names of their signals."""
    return tuple(name for name in CONTROL_SIGNALS if _attribute(hits, name) is not None)


def _attribute(hits: HitLists, signal: str) -> np.ndarray | None:
    place, kind = signal.split()
    return getattr(hits, f"{place}_{'lengths' if kind == 'length' else kind}")


def _logistic(training: Training, how: dict[str, object]) -> AnyCalibrator:
    names = how["signals"]
    if any(SIGNALS[name].depth is None for name in names):  # pyright: ignore[reportGeneralTypeIssues]
        return LogisticCalibrator.fit(training.judged, **how)  # pyright: ignore[reportArgumentType]
    return tuned_logistic(training, **how)


def _reranking_entrants(judged: JudgedHits, setting: Setting) -> dict[str, Entrant | str]:
    hits = judged.hits
    missing = {
        "norm": "" if np.ptp(np.log(hits.hit_norms[hits.hit_norms > 0.0])) > LEAST_NORM_SPREAD else "the norms of all hits are equal",
        "length": "" if hits.hit_lengths is not None or "length" in judged.priors else "lengths of candidates are not known",
        "frequency": "" if hits.hit_frequency is not None or "frequency" in judged.priors else "frequencies of candidates are not known",
        "permuted norm": "" if "permuted norm" in judged.priors else "no permuted norms came",
    }
    if hits.depth < 2:
        missing = dict.fromkeys(missing, "one hit per query leaves nothing to re-rank")

    def entrant(family: type[RerankingCalibrator] | type[PriorCalibrator], name: str, prior: str) -> Entrant:
        barred = "" if prior == "norm" else f"a control: it shows what {prior} in the norm's place does"
        return Entrant(name, lambda training: family.fit(training.rows, prior=prior), barred=barred, reranks_by=prior)

    found: dict[str, Entrant | str] = {}
    for family, ending in ((RerankingCalibrator, "reranking"), (PriorCalibrator, "prior")):
        for prior, reason in missing.items():
            name = f"{prior.replace(' ', '_')}_{ending}"
            found[name] = reason or entrant(family, name, prior)
    return found


def _monotone(training: Training, kind: str, bases: Sequence[Entrant]) -> AnyCalibrator:
    """A rising map on top of the best base: by inner folds, whose held-out probabilities it maps, or by AIC of many queries."""
    confidence = None
    if training.many or not training.inner:
        chosen = min(bases, key=lambda each: _flattered_loss(each.fitted(training), training))
    else:
        held = {each.name: np.empty(len(training)) for each in bases}
        for used, rest, asked in training.inner:
            part = Training(rest, training.seed + 1, tuned=False, most=INNER_ROWS)
            for each in bases:
                held[each.name][used] = predicted(each.fitted(part), asked)
        chosen = min(bases, key=lambda each: float(clipped_log_losses(held[each.name], training.near.right).mean()))
        confidence = held[chosen.name]
    base = chosen.fitted(training)
    if confidence is None:
        confidence = predicted(base, training)
    # No base re-ranks, so a map reads of the rows whether the first hit is right, and nothing else.
    judged = training.near
    if kind == "isotonic":
        return IsotonicCalibrator.fit(judged, base=base, confidence=confidence)  # pyright: ignore[reportArgumentType]
    return BetaCalibrator.fit(judged, base=base, confidence=confidence)  # pyright: ignore[reportArgumentType]


def _flattered_loss(fitted: AnyCalibrator, training: Training) -> float:
    """Mean loss on queries of the fit, plus what its free numbers gained there (AIC)."""
    rows = training.rows
    return float(clipped_log_losses(fitted.predict(rows.hits), rows.right).mean()) + fitted.parameters / len(training)
