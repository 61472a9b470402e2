"""The advice of `normwise negatives`: one verdict on k, why, and then what holds of the limit and of temperatures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from normwise.theory.infonce_estimates import Estimate, risk_change, search_risk
from normwise.theory.infonce_temperatures import AtTemperature
from normwise.theory.negatives_advice import batch_advice, counted, ease_advice, limit_advice, temperature_advice
from normwise.workflows.negatives_parts import Read

_LARGER = 4


def verdict(read: Read, at: int, sweep: Sequence[AtTemperature], own: AtTemperature, *, recall: float) -> str:
    """Say what to do, the most important first.

    Args:
        read: of the whole pool.
        at: the number of negatives that this is about.
        sweep: of temperatures.
        own: that of the training, one of these.
        recall: share of queries of the sweep whose positive is above all negatives.
    """
    easy = ease_advice(own, own.regime.pool)
    parts = [_batch(read, at, easy=easy is not None)]
    parts += [easy] if easy is not None else []
    parts += [limit_advice(read.regime)] if read.limit is None else []
    parts.append(temperature_advice(sweep, own.temperature, recall=recall))
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def nearest(read: Read, at: int) -> int:
    """The number on the curve that is nearest, by their ratio."""
    return min(read.curve.k.tolist(), key=lambda each: abs(math.log(each / at)))


def _batch(read: Read, at: int, *, easy: bool) -> str:
    """From the number of negatives, on the curve the nearest to it, to four times that, or to the pool."""
    ks = read.curve.k.tolist()
    near = nearest(read, at)
    left = None if read.limit is None else read.limit[0].value - float(read.curve.risk[ks.index(near)])
    known = at <= ks[-1] and near < ks[-1]
    if known:
        after = _LARGER * near if _LARGER * near in ks else ks[-1]
        loss = float(read.curve.risk[ks.index(after)]) + math.log(after)
        return batch_advice(near, after, risk_change(read.positive, read.sums, near, after), left, loss=loss, easy=easy)
    if read.limit is None:
        return f"what more than {counted(ks[-1])} would do cannot be told from a pool of {ks[-1]:,}: give a larger one"
    now, then = (search_risk(read.positive, read.sums, each) for each in (at, _LARGER * at))
    # Of the same queries and negatives: the error of the difference is no more than that of the term that changes.
    change = Estimate(then.value - now.value, read.limit[1] / at + now.error / max(1.0, at / read.regime.start))
    return f"beyond the pool, extrapolated: {batch_advice(at, _LARGER * at, change, left, easy=easy)}"
