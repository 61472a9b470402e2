"""Figures of one cell of the founding experiment, and claims judged over seeds by thresholds that were written down before any run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.concept_records import ConceptCell, ConceptClaim
from normwise.core.errors import InputError
from normwise.core.records import Interval, Outcome
from normwise.core.shapes import Float
from normwise.theory.association import associations
from normwise.theory.bootstrap import hierarchical_interval
from normwise.theory.regimes import Sign, statement_for
from normwise.theory.tracked_norms import baseline_fit, fit_of

# Thresholds, fixed before any run of the experiment.
FEWEST_SEEDS = 5
LAW_R2 = {"table": 0.8, "human-table": 0.8, "deep": 0.5, "wordnet": 0.5}
LAW_RMSE = 0.1
HELD_OUT_R2 = 0.5
SETTINGS_R2 = 0.5
SMALLEST_EFFECT = 0.1
LARGEST_ZERO = 0.2
DRIFT_SHARE = 0.5
SIGNAL_SHARE = 0.5

_RESAMPLES = 100
_FEWEST_ROWS = 30


@dataclass(frozen=True)
class CellItems:
    """The items of a cell as arrays (N,); `lengths` is None where items have no length, `initial` where all start alike."""

    norms: np.ndarray
    predicted: np.ndarray
    visits: np.ndarray
    dispersions: np.ndarray
    lengths: np.ndarray | None = None
    initial: np.ndarray | None = None


def cell_figures(items: CellItems, *, seed: int) -> dict[str, float | None]:
    """Return the figures that every cell has: the law, its baselines, and the two signs.

    Args:
        items: of the run; those without a visit are left out.
        seed: of folds and bootstrap.

    Returns:
        Names of `FIGURES` -> values; None where undefined.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> visits, d = rng.integers(1, 99, 80).astype(float), rng.random(80)
        >>> r = (visits * (0.1 + d)) ** 0.25
        >>> found = cell_figures(CellItems(r, r, visits, d), seed=0)
        >>> found["law_r2"], found["dispersion"] > 0.5, found["gain"] > 0
        (1.0, True, True)
    """
    used = (items.visits > 0) & np.isfinite(items.predicted) & (items.predicted > 0)
    norms, predicted, visits = items.norms[used], items.predicted[used], items.visits[used].astype(np.float64)
    law, frequency = fit_of(norms, predicted), baseline_fit(norms, visits, seed=seed)
    figures: dict[str, float | None] = {
        "law_r2": law.r2,
        "law_spearman": law.spearman,
        "law_r2_fitted": law.r2_fitted,
        "law_rmse": float(np.sqrt(np.mean((np.log(norms) - np.log(predicted)) ** 2))) if norms.size else None,
        "spread": float(np.log(norms).std()) if norms.size else None,
        "frequency_r2": frequency.r2,
        "gain": None if law.r2 is None or frequency.r2 is None else law.r2 - frequency.r2,
    }
    if items.initial is not None:
        start = fit_of(norms, items.initial[used]).r2
        figures |= {"start_r2": start, "gain_over_start": None if law.r2 is None or start is None else law.r2 - start}
    factors = {"dispersion": items.dispersions[used].astype(np.float64), "frequency": np.log(visits)}
    if items.lengths is not None:
        factors["length"] = items.lengths[used].astype(np.float64)
        figures["length_r2"] = baseline_fit(norms, factors["length"], seed=seed).r2
    return figures | partial_signs(np.log(norms), factors, seed=seed)


def partial_signs(log_norms: Float[np.ndarray, " N"], factors: dict[str, np.ndarray], *, seed: int) -> dict[str, float | None]:
    """Return each factor's partial Spearman with log r, the others controlled; None below 30 items or for a constant factor.

    Example:
        >>> partial_signs(np.zeros(3), {"dispersion": np.zeros(3)}, seed=0)
        {'dispersion': None}
    """
    if log_norms.size < _FEWEST_ROWS:
        return dict.fromkeys((name for name in factors if name != "length"), None)
    found = associations(log_norms, factors, seed=seed, kinds={name: name for name in factors}, resamples=_RESAMPLES)
    return {row.name: row.partial_spearman for row in found if row.name != "length"}


def regime_of(*, optimizer: str, weight_decay: float, signal_share: float | None) -> tuple[str, Sign | None]:
    """Return the statement that applies and its sign for dispersion.

    A run whose median signal share is at least one half is signal-dominated; the table has no row for signal with decay.

    Args:
        optimizer: sgd, adam or adamw.
        weight_decay: lambda; > 0 is dense decay.
        signal_share: of the run.

    Returns:
        (name, sign): None for the sign where the table says nothing.

    Example:
        >>> regime_of(optimizer="sgd", weight_decay=0.01, signal_share=0.1)
        ('SGD, dense decay, equilibrium', 1)
    """
    decay = "dense" if weight_decay > 0 else "none"
    if optimizer.startswith("adam"):
        regime = "adam"
    else:
        regime = "signal" if signal_share is not None and signal_share >= SIGNAL_SHARE else "noise"
    try:
        statement = statement_for(regime=regime, decay=decay)
    except InputError:
        return f"{optimizer}, {regime}-dominated, {decay} decay: no statement", None
    return statement.name, statement.dispersion


def judged(values: Sequence[float], *, threshold: float, seed: int = 0) -> tuple[Interval, Outcome]:
    """Return the mean over seeds with its bootstrap interval, and the outcome against a threshold.

    Reproduced: the whole interval is above it; not reproduced: below it; else, or with fewer than 5 seeds, undecided at this size.

    Example:
        >>> judged([0.9, 0.91, 0.92, 0.93, 0.94], threshold=0.8)[1], judged([0.9], threshold=0.8)[1]
        ('reproduced', 'undecided at this size')
    """
    array = np.asarray(values, dtype=np.float64)[:, None]
    interval = hierarchical_interval(array, np.zeros(1, dtype=np.int64), seed=seed)
    if len(values) < FEWEST_SEEDS or interval.ci_low is None or interval.ci_high is None:
        return interval, "undecided at this size"
    if interval.ci_low > threshold:
        return interval, "reproduced"
    return interval, "not reproduced" if interval.ci_high < threshold else "undecided at this size"


def claims_of(cells: Sequence[ConceptCell]) -> tuple[ConceptClaim, ...]:
    """Return every claim that the cells can speak about, one per part, optimizer and variant.

    Args:
        cells: all seeds.

    Returns:
        The claims, in the order of the cells.

    Example:
        >>> cell = ConceptCell(part="table", optimizer="sgd", seed=0, figures={"law_r2": 0.9})
        >>> [claim.name for claim in claims_of([cell])]
        ["the law gives the items' norms"]
    """
    groups: dict[tuple[str, str, str], list[ConceptCell]] = {}
    for cell in cells:
        groups.setdefault((cell.part, cell.optimizer, cell.variant), []).append(cell)
    return tuple(claim for members in groups.values() for claim in _group_claims(members))


def _group_claims(cells: list[ConceptCell]) -> Iterable[ConceptClaim]:
    first = cells[0]
    if first.optimizer.startswith("adam"):
        # Adam makes norms alike: R2 divides by a spread that the law itself says is small, so that their size is judged. Its law takes
        # no second moment: items and settings are all held out.
        yield from _claim(cells, "the law gives the size of the norms", "law_rmse", -LAW_RMSE, sign=-1)
    if first.variant != "base":
        if not first.optimizer.startswith("adam"):
            yield from _claim(cells, "G of the base run gives the norms under this setting", "base_r2", SETTINGS_R2)
        return
    # Where little moves, the start alone has most of the norms, and a law that begins there has them too.
    yield from _claim(cells, "the law beats the norms at the start", "gain_over_start", 0.0)
    if first.part in LAW_R2 and not first.optimizer.startswith("adam"):
        yield from _claim(cells, "the law gives the items' norms", "law_r2", LAW_R2[first.part])
        yield from _claim(cells, "the law beats frequency alone", "gain", 0.0)
        yield from _claim(cells, "the law gives norms of items that were held out", "held_out_items_r2", HELD_OUT_R2)
    yield from _sign_claim(cells)
    yield from _claim(cells, "the kernel drift explains the radial changes", "radial_r2_drift", DRIFT_SHARE)
    yield from _claim(cells, "the free vector's law explains the radial changes", "radial_r2_free", DRIFT_SHARE)
    # Added when a smoke run showed changes that neither of the two explains; with the threshold of the two.
    yield from _claim(cells, "the first-order displacement explains the radial changes", "radial_r2_displacement", DRIFT_SHARE)
    yield from _claim(cells, "norms grow with human disagreement", "spread_of_ratings", SMALLEST_EFFECT)


def _sign_claim(cells: list[ConceptCell]) -> Iterable[ConceptClaim]:
    signs = {cell.expected_dispersion for cell in cells}
    if len(signs) != 1 or None in signs:
        return
    (sign,) = signs
    if sign:
        yield from _claim(cells, "dispersion has the sign of the regime", "dispersion", SMALLEST_EFFECT, sign=int(sign))
        return
    plain = _claim(cells, "dispersion leaves no trace, as the regime says", "dispersion", -LARGEST_ZERO, sign=-1, absolute=True)
    yield from plain


def _claim(
    cells: list[ConceptCell], name: str, figure: str, threshold: float, *, sign: int = 1, absolute: bool = False
) -> Iterable[ConceptClaim]:
    raw = [value for cell in cells if (value := cell.figures.get(figure)) is not None]
    if not raw:
        return
    values = [sign * (abs(value) if absolute else value) for value in raw]
    interval, outcome = judged(values, threshold=threshold)
    first = cells[0]
    words = f"{'minus ' if sign < 0 else ''}{'|' + figure + '|' if absolute else figure}"
    yield ConceptClaim(
        part=first.part,
        optimizer=first.optimizer,
        variant=first.variant,
        name=name,
        figure=words,
        threshold=threshold,
        interval=interval,
        by_seed=tuple(values),
        outcome=outcome,
    )
