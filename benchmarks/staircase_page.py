"""Claims with their differences by seed, judged together by Holm's rule, and the page that says so: for `staircase_study`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from normwise.core.records import Interval
from normwise.theory.bootstrap import hierarchical_interval, holm_levels
from normwise.theory.claims import claim_outcome


@dataclass(frozen=True)
class Claim:
    """A claim, with what it needs: name of a difference -> its values by seed and the least that would matter."""

    name: str
    needs: dict[str, tuple[Sequence[float], float]]


@dataclass(frozen=True)
class Section:
    """What the page says of a measurement: claims, and tables of (what it shows, header, rows)."""

    title: str
    text: str
    claims: Sequence[Claim] = ()
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)


def mean_of(values: Any, digits: int = 3) -> str:
    """Mean and standard deviation over seeds."""
    known = np.asarray(values, dtype=np.float64)
    return f"{known.mean():.{digits}f} ± {known.std(ddof=1):.{digits}f}"


def interval(by_seed: Sequence[float], level: float) -> Interval:
    """Bootstrap over seeds; NaN is a seed that says nothing."""
    return hierarchical_interval(np.array(by_seed, dtype=np.float64)[:, None], np.zeros(1, dtype=np.int64), seed=0, level=level)


def judged(claims: Sequence[Claim]) -> list[list[str]]:
    """Rows of claim, outcome and differences, what was not reproduced first; Holm's rule over all differences of all of them."""
    needs = [need for claim in claims for need in claim.needs.values()]
    found = iter([each for each, _ in holm_levels([partial(interval, values) for values, _ in needs])])
    order = ("not reproduced", "undecided at this size", "reproduced")
    rows = []
    for claim in claims:
        own = {name: next(found) for name in claim.needs}
        outcome = claim_outcome([(each, claim.needs[name][1]) for name, each in own.items()])
        rows.append([claim.name, outcome, "; ".join(spelled(name, each, claim.needs[name][0]) for name, each in own.items())])
    return sorted(rows, key=lambda row: order.index(row[1]))


def spelled(name: str, found: Interval, by_seed: Sequence[float]) -> str:
    known = np.array(by_seed)[~np.isnan(by_seed)]
    if found.mean is None or found.ci_low is None or found.ci_high is None:
        return f"{name}: says nothing"
    return f"{name} {found.mean:+.3f} [{found.ci_low:+.3f}, {found.ci_high:+.3f}], above 0 in {(known > 0.0).sum()} of {known.size}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))
