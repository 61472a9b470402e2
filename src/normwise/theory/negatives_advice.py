"""One sentence to act on: whether more negatives are worth it, and whether another temperature is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from normwise.theory.infonce_estimates import Estimate
from normwise.theory.infonce_regime import FEWEST_NEGATIVES, Regime
from normwise.theory.infonce_temperatures import AtTemperature

# Nats; laid down before any run. A change of the loss below a hundredth is less than what seeds do.
WORTH = 0.01
_EASY = 0.01
# Recall@1 from which a search has next to nothing more to tell.
_FOUND = 0.99
_NOTHING = 0.05
_FOUR_PLACES, _ROUNDING = 5e-5, 1e-9


def batch_advice(k: int, after: int, change: Estimate, left: float | None, *, loss: float | None = None, easy: bool = False) -> str:
    """Say what going from k to `after` negatives does to the risk.

    Args:
        k: negatives now.
        after: the number asked about.
        change: of the risk between them.
        left: H - R_k, what all further negatives together would change; None where the limit cannot be told.
        loss: the InfoNCE loss at `after` as training libraries report it, log k included; None where it is not known. Where it is next to
            nothing, the risk is at its floor -log k, and falls with k although nothing is learned.
        easy: whether most queries have nothing left to learn, as `ease_advice` says.

    Example:
        >>> batch_advice(256, 1024, Estimate(0.004, 0.001), None)
        'going from 256 to 1,024 negatives changes the risk by +0.0040 ± 0.0020 nats: not worth it'
    """
    low, high = change.interval()
    half = (high - low) / 2.0
    text = f"going from {k:,} to {counted(after)} changes the risk by {change.value:+.4f}"
    if not np.isfinite(half):
        return f"{text} nats: too few queries or negatives to tell its error"
    text = f"{text} ± {_half(half)} nats"
    if loss is not None and loss < _NOTHING:
        return f"{text}, but then still leaves a loss of {loss:.2g}: more negatives of this kind teach next to nothing"
    if abs(change.value) + half < WORTH:
        return f"{text}: not worth it"
    if abs(change.value) - half <= WORTH:
        return f"{text}: whether that is more than {WORTH} nats cannot be told with so few queries and negatives"
    if easy:
        # Of these the risk is at -log k.
        return (
            f"{text}: they teach the few hard queries alone, since for most nothing is left to learn, and the risk of these falls by "
            f"log {after / k:.3g} = {np.log(after / k):.3f} whatever is learned"
        )
    part = f" of the {left:+.3f} that all further ones would" if left is not None and left / change.value > 1.0 else ""
    return f"{text}{part}: more negatives still change what is learned"


def limit_advice(regime: Regime) -> str:
    """Say what it takes to extrapolate, where the pool is too small.

    Example:
        >>> limit_advice(Regime(40.0, 90.0, 50.0, 3.0, 500.0, 500.0, 256))
        '1/k has not begun within 256 negatives: it needs k >> 50 (mean cv2 of e^score), say 500; no extrapolation is given'
    """
    if regime.pool >= regime.decoupled_start:
        verb = "is" if regime.pool == 1 else "are"
        return f"{counted(regime.pool)} {verb} too few to extrapolate from: it takes {FEWEST_NEGATIVES} or more"
    return (
        f"1/k has not begun within {counted(regime.pool)}: it needs k >> {regime.cv2_mean:,.3g} (mean cv2 of e^score), say "
        f"{_round_up(regime.decoupled_start):,}; no extrapolation is given"
    )


def temperature_advice(sweep: Sequence[AtTemperature], temperature: float, *, recall: float = 0.0) -> str:
    """Say whether another temperature of a sweep has a lower cross-entropy, beyond the error of the difference.

    Where that of the training has no limit, or no other has, the risk over the pool is compared. Where nearly every positive is found first
    already, colder temperatures lower both without telling more, and this is said instead.

    Args:
        sweep: of `temperature_sweep`.
        temperature: that of the training.
        recall: share of queries whose positive is above all negatives, 0..1.
    """
    own = next(each for each in sweep if each.temperature == temperature)
    if len(sweep) == 1:
        return f"no other temperature was compared with {temperature:g}"
    known = [each for each in sweep if each.change is not None]
    if own.change is None:
        return f"the limit at {temperature:g} cannot be told, nor so which temperature has the least{_over_pool(sweep, own, recall)}"
    if len(known) == 1:
        return f"no other temperature of the sweep has a limit that can be told beside {temperature:g}{_over_pool(sweep, own, recall)}"
    best = min(known, key=lambda each: each.change.value if each.change is not None else 0.0)
    low, high = (0.0, 0.0) if best is own else change_interval(best, own) or (float("nan"), float("nan"))
    if not np.isfinite(high):
        return f"whether another temperature is better than {temperature:g} cannot be told: with so few queries no difference has an error"
    if high < 0.0 and best.change is not None:
        if recall >= _FOUND and best.temperature < temperature:
            return _found_already(recall, own.regime.pool)
        return (
            f"temperature {temperature:g} -> {best.temperature:.3g} lowers the cross-entropy of a search with these vectors by "
            f"{-best.change.value:.3f} nats ({-high:.3f} to {-low:.3f}){_further(sweep, known, best)}"
        )
    untold = [each for each in sweep if each.change is None]
    if not untold:
        if best is own:
            return f"no temperature of the sweep tells positives better than {temperature:g}"
        return f"no temperature of the sweep is better than {temperature:g} beyond the error of the difference"
    colder = all(each.temperature < temperature for each in untold)
    if recall >= _FOUND and colder:
        return _found_already(recall, own.regime.pool)
    verdict = f"{temperature:g} is best" if best is own else f"none is better than {temperature:g} beyond the error of the difference"
    rest = f"{'colder' if colder else 'the other'} ones cannot be told from this pool"
    return f"of the temperatures whose limit can be told, {verdict}; {rest}{_over_pool(sweep, own, recall)}"


def _over_pool(sweep: Sequence[AtTemperature], own: AtTemperature, recall: float) -> str:
    """A further clause: where the risk over the pool, which every temperature has, is least."""
    best = min(sweep, key=lambda each: each.pool_change.value)
    if recall >= _FOUND and best.temperature < own.temperature:
        return f"; {_found_already(recall, own.regime.pool)}"
    here = "this 1 candidate" if own.regime.pool == 1 else f"these {own.regime.pool:,} candidates"
    if best is own:
        return f"; over {here} the risk is least at {own.temperature:g}"
    low, high = best.pool_change.interval()
    told = f"; over {here} the risk is least at {best.temperature:.3g}, by {-best.pool_change.value:.3f} nats"
    if not np.isfinite(high):
        return f"{told}, whose error so few queries cannot tell"
    if high >= 0.0:
        return f"{told}, which is not beyond the error of the difference"
    return f"{told} ({-high:.3f} to {-low:.3f}) below that at {own.temperature:g}{_further(sweep, sweep, best)}"


def _further(sweep: Sequence[AtTemperature], known: Sequence[AtTemperature], best: AtTemperature) -> str:
    """Whether the best is the last there is, or the last that can be told."""
    if best is sweep[0] or best is sweep[-1]:
        return ", the last of the sweep: look further"
    if best is known[0] or best is known[-1]:
        return f", the {'coldest' if best is known[0] else 'warmest'} whose limit can be told from this pool"
    return ""


def _found_already(recall: float, k: int) -> str:
    return (
        f"recall@1 is {recall:.3f} among {counted(k)} already, where a colder temperature lowers the cross-entropy without telling more: "
        "no reason to choose one, so compare over harder negatives, or by recall on judged queries"
    )


def change_interval(each: AtTemperature, own: AtTemperature) -> tuple[float, float] | None:
    """Return the 95% interval of a change of the cross-entropy, widened by what either limit may be off by beyond its error.

    Args:
        each: a temperature of a sweep.
        own: that of the training; against itself nothing changes.
    """
    if each.change is None:
        return None
    return each.change.interval(beyond=0.0 if each is own else each.beyond + own.beyond)


def ease_advice(own: AtTemperature, k: int) -> str | None:
    """Say that the task is too easy to learn from, where nearly every query has its positive with certainty."""
    _, middle, high = own.residuals
    if middle >= _EASY:
        return None
    return (
        f"half of the queries leave less than {middle:.2g} to learn (1 - p of their positive among {counted(k)}; a tenth leave more "
        f"than {high:.2g}): the negatives are too easy at this temperature"
    )


def counted(k: int) -> str:
    """So many negatives.

    Example:
        >>> counted(1), counted(1024)
        ('1 negative', '1,024 negatives')
    """
    return f"{k:,} negative" if k == 1 else f"{k:,} negatives"


def _half(value: float) -> str:
    """Half of an interval, to four places, or to one digit where they would be zeros; what is below rounding is none."""
    return f"{value:.1g}" if _ROUNDING < value < _FOUR_PLACES else f"{value:.4f}"


def _round_up(value: float) -> int:
    """Up to two digits."""
    if not np.isfinite(value) or value > 1e15:
        return 10**15
    step = 10 ** max(0, len(str(int(value))) - 2)
    return int(-(-value // step) * step)
