"""What the evidence allows one to say of a claim about one given model: no training seeds, only queries to resample."""

from __future__ import annotations

from collections.abc import Sequence

from normwise.core.records import Interval, Outcome
from normwise.theory.bootstrap import bonferroni_level

# Ranking and confidence are two claims that are looked at together.
LEVEL = bonferroni_level(0.95, 2)


def claim_outcome(differences: Sequence[tuple[Interval, float]], *, complete: bool = True) -> Outcome:
    """Return what the evidence says of a claim that needs every difference to lie above 0.

    The rule: reproduced if every interval lies above 0; not reproduced if one does not and ends below its least value, which
    is too small to matter; else undecided.

    Args:
        differences: of each difference that the claim needs, its interval and the least value that would matter.
        complete: whether they are all that the claim needs; without one of them it cannot be reproduced.

    Example:
        >>> up, flat = Interval(mean=0.3, ci_low=0.1, ci_high=0.5), Interval(mean=0.0, ci_low=-0.002, ci_high=0.002)
        >>> claim_outcome([(up, 0.01), (up, 0.01)]), claim_outcome([(up, 0.01), (flat, 0.01)])
        ('reproduced', 'not reproduced')
    """
    open_ones = [(found, least) for found, least in differences if found.ci_low is None or found.ci_low <= 0.0]
    if not open_ones:
        return "reproduced" if complete else "undecided at this size"
    too_small = any(found.ci_high is not None and found.ci_high < least for found, least in open_ones)
    return "not reproduced" if too_small else "undecided at this size"


def size_outcome(beyond: Interval) -> Outcome:
    """Return what the evidence says of a claimed size, from the interval of what lies beyond it.

    Example:
        >>> size_outcome(Interval(mean=-0.1, ci_low=-0.2, ci_high=-0.05))
        'not reproduced'
    """
    if beyond.ci_low is not None and beyond.ci_low >= 0.0:
        return "reproduced"
    return "not reproduced" if beyond.ci_high is not None and beyond.ci_high < 0.0 else "undecided at this size"


def span(interval: Interval) -> str:
    """Return a difference with its interval in words.

    Example:
        >>> span(Interval(mean=0.01, ci_low=-0.02, ci_high=0.04)), span(Interval(mean=None, ci_low=None, ci_high=None))
        ('+0.0100 [-0.0200, +0.0400]', 'an undefined amount')
    """
    if interval.mean is None:
        return "an undefined amount"
    if interval.ci_low is None or interval.ci_high is None:
        return f"{interval.mean:+.4f} (too few clusters for an interval)"
    return f"{interval.mean:+.4f} [{interval.ci_low:+.4f}, {interval.ci_high:+.4f}]"
