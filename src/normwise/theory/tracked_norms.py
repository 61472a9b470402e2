"""From what a tracker measured to a verdict: the law's prediction along a schedule, fits of log r, and the frozen record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.errors import InputError
from normwise.core.norm_records import TrainingEvidence
from normwise.core.shapes import Float
from normwise.core.track_records import NormFit, NormTrack, OptimizerSettings, TrackedItem
from normwise.theory.adaptive import predicted_norm_adam
from normwise.theory.entanglement import pearson, spearman
from normwise.theory.equilibria import predicted_norm_sgd
from normwise.theory.gradient_stream import GradientStream
from normwise.theory.radial import r_squared
from normwise.theory.training_stage import memory_words

FOLDS = 5
FEWEST_ITEMS = 20
_SEGMENTS = 512
_RADIAL_TOLERANCE = 1e-3


def predicted_norms_along(
    initial_norms: Float[np.ndarray, " N"],
    visit_rates: Float[np.ndarray, " N"],
    second_moments: Float[np.ndarray, " N"],
    *,
    learning_rates: Float[np.ndarray, " T"],
    settings: OptimizerSettings,
    width: int,
) -> Float[np.ndarray, " N"]:
    """Return the norms that the law of the optimizer gives after T steps whose learning rate follows a schedule.

    Equation: r_T = law(law(... r_0; eta_1); ... eta_T). The laws' r_T is linear in r_0^4 (r_0^2 for Adam) and composes over steps, so
    steps of equal eta are taken at once; of more than 512 different stretches, neighbors are merged at their root mean square eta.

    Args:
        initial_norms: (N,) r_0 > 0.
        visit_rates: (N,) f in 0..1.
        second_moments: (N,) G >= 0 of the loss as trained; without effect for Adam.
        learning_rates: (T,) eta_t >= 0 of each step.
        settings: name, decay and betas; its mean learning rate is not used.
        width: d >= 1.

    Returns:
        (N,) predicted r_T; NaN where the optimizer has no law.

    Raises:
        InputError: a value outside the laws' range.

    Reference: `predicted_norm_sgd`, `predicted_norm_adam`.

    Example:
        >>> sgd = OptimizerSettings(name="sgd", learning_rate=0.1)
        >>> one, rates = np.ones(1), np.full(1000, 0.1)
        >>> predicted_norms_along(one, 0.3 * one, 0.25 * one, learning_rates=rates, settings=sgd, width=8).round(6).tolist()
        [1.257433]
    """
    if settings.name is None or (settings.name == "adam" and settings.weight_decay > 0):
        return np.full(initial_norms.shape, np.nan)
    norms = initial_norms.astype(np.float64)
    for steps, rate in _stretches(learning_rates):
        if settings.name == "sgd":
            norms = predicted_norm_sgd(
                norms,
                steps=steps,
                visit_rate=visit_rates,
                second_moment=second_moments,
                learning_rate=rate,
                weight_decay=settings.weight_decay,
                lazy_decay=settings.lazy,
                momentum=settings.momentum,
                coupled=settings.coupled and settings.momentum > 0,
            )
        else:
            norms = predicted_norm_adam(
                norms,
                steps=steps,
                visit_rate=visit_rates,
                width=width,
                learning_rate=rate,
                beta2=0.999 if settings.beta2 is None else settings.beta2,
                weight_decay=settings.weight_decay,
                lazy=settings.lazy,
            )
    return np.asarray(norms, dtype=np.float64)


def fit_of(norms: Float[np.ndarray, " N"], predicted: Float[np.ndarray, " N"]) -> NormFit:
    """Return how well predicted norms give the real ones, nothing fitted but in `r2_fitted`.

    Args:
        norms: (N,) real norms > 0.
        predicted: (N,) predictions; items whose prediction is not a positive number are left out.

    Returns:
        The figures; None below 3 items or where one side does not vary.

    Example:
        >>> fit_of(np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0])).r2_fitted
        1.0
    """
    used = np.isfinite(predicted) & (predicted > 0) & np.isfinite(norms) & (norms > 0)
    count = int(used.sum())
    if count < 3:
        return NormFit(items=count, r2=None, spearman=None)
    real, guess = np.log(norms[used]), np.log(predicted[used])
    correlation = pearson(real, guess)
    return NormFit(
        items=count,
        r2=_defined(r_squared(real, guess)),
        spearman=_defined(spearman(real, guess)),
        r2_fitted=_defined(round(correlation**2, 12)),
        error_log_norm=float(np.sqrt(np.mean((real - guess) ** 2))),
    )


def baseline_fit(norms: Float[np.ndarray, " N"], factor: Float[np.ndarray, " N"], *, seed: int = 0) -> NormFit:
    """Return how well one factor alone gives log r: a cubic in its log, fitted out of fold.

    Equation: log r ~ cubic(log(1 + factor)), fitted on four fifths of the items and judged on the rest, five times; r2 joins the folds.
    Predictions stay within the log norms that were fitted.

    Args:
        norms: (N,) real norms > 0.
        factor: (N,) values >= 0, such as visits or tokens; NaN is left out.
        seed: of the folds.

    Returns:
        The figures; r2 is None below 20 items or where the factor does not vary.

    Raises:
        InputError: a negative value.

    Reference: our choice: it is what a person without any gradient could predict, and may bend as it likes.

    Example:
        >>> visits = np.arange(1.0, 101.0)
        >>> baseline_fit(visits**0.25, visits).r2 > 0.99
        True
    """
    if np.any(factor < 0):
        raise InputError("factor holds a negative value; expected counts such as visits or tokens")
    used = np.isfinite(factor) & np.isfinite(norms) & (norms > 0)
    real, x = np.log(norms[used]), np.log1p(factor[used])
    count = int(used.sum())
    if count < FEWEST_ITEMS or np.ptp(x) == 0.0:
        return NormFit(items=count, r2=None, spearman=None)
    x = (x - x.mean()) / x.std()
    degree = min(3, np.unique(x).size - 1)
    folds = np.random.default_rng(seed).permutation(count) % FOLDS
    guess = np.empty(count)
    for fold in range(FOLDS):
        held = folds == fold
        design = np.polynomial.legendre.legvander(x, degree)
        fitted = design[held] @ np.linalg.lstsq(design[~held], real[~held], rcond=None)[0]
        # A cubic runs away where a fold holds values that the others lack.
        guess[held] = np.clip(fitted, real[~held].min(), real[~held].max())
    return NormFit(items=count, r2=_defined(r_squared(real, guess)), spearman=_defined(spearman(real, x)))


@dataclass(frozen=True)
class TrackedRun:
    """What one run showed of its items, as arrays (N,); `learning_rates` is (T,).

    `driving_moments` are the second moments that the law is to use (`DrivingMoment`); None takes the plain means over the visits.
    `shared` says that items are made by weights that they share, as an encoder's texts are, and do not move freely.
    """

    names: Sequence[str]
    stream: GradientStream
    initial_norms: np.ndarray
    norms: np.ndarray
    lengths: np.ndarray | None
    learning_rates: np.ndarray
    settings: OptimizerSettings
    width: int
    driving_moments: np.ndarray | None = None
    radial_share: float | None = None
    clipped_share: float = 0.0
    shared: bool = False
    notes: tuple[str, ...] = ()


def track_of(run: TrackedRun) -> NormTrack:
    """Return the record of a tracked run: predictions, fits, baselines.

    Args:
        run: of at least one step.

    Returns:
        The frozen record.

    Raises:
        InputError: no step was seen.
    """
    steps = int(run.learning_rates.size)
    if steps == 0:
        raise InputError("no optimizer step was seen: train with the tracker among the callbacks, or call before_step in your loop")
    stream, visited = run.stream, run.stream.visits > 0
    rates = stream.visits / steps
    used = stream.second_moments if run.driving_moments is None else run.driving_moments
    moments = np.where(visited & np.isfinite(used), used, 0.0)
    predicted = predicted_norms_along(
        run.initial_norms, rates, moments, learning_rates=run.learning_rates, settings=run.settings, width=run.width
    )
    baselines = {"frequency": baseline_fit(run.norms, stream.visits.astype(np.float64))}
    if run.lengths is not None:
        baselines["length"] = baseline_fit(run.norms, run.lengths.astype(np.float64))
    shares = stream.signal_shares
    return NormTrack(
        steps=steps,
        width=run.width,
        optimizer=run.settings,
        items=tuple(_items(run, rates, predicted)),
        law=fit_of(run.norms, np.where(visited, predicted, np.nan)),
        baselines=baselines,
        signal_share=_defined(float(np.nanmedian(shares))) if np.isfinite(shares).any() else None,
        radial_share=run.radial_share,
        clipped_share=run.clipped_share,
        notes=(*run.notes, *_notes(run, visited), *_limits(run, steps)),
    )


def _items(run: TrackedRun, rates: np.ndarray, predicted: np.ndarray) -> Iterable[TrackedItem]:
    columns: Mapping[str, np.ndarray] = {
        "predicted_norm": predicted,
        "second_moment": run.stream.second_moments,
        "signal": run.stream.signals,
        "noise": run.stream.noises,
        "agreement": run.stream.agreements,
    }
    if run.lengths is not None:
        columns = {**columns, "length": run.lengths}
    if run.driving_moments is not None:
        columns = {**columns, "driving_moment": run.driving_moments}
    for place, name in enumerate(run.names):
        yield TrackedItem(
            name=name,
            visits=int(run.stream.visits[place]),
            visit_rate=float(rates[place]),
            initial_norm=float(run.initial_norms[place]),
            norm=float(run.norms[place]),
            **{key: _defined(float(values[place])) for key, values in columns.items()},
        )


def _notes(run: TrackedRun, visited: np.ndarray) -> Iterable[str]:
    missing = int((~visited).sum())
    if missing:
        yield f"{missing} of {visited.size} items were never visited: they are left out of the law's figures"
    if run.settings.name is None:
        yield "the optimizer is none of sgd, adam and adamw: there is no law for it, and no prediction"
    elif run.settings.name == "adam" and run.settings.weight_decay > 0:
        yield "weight decay in Adam's gradient has no law here, and there is no prediction: use AdamW"
    if run.radial_share is not None and run.radial_share > _RADIAL_TOLERANCE:
        yield f"{run.radial_share:.0%} of the squared gradient points along the vectors: the loss sees norms, and no law here is for it"


def _limits(run: TrackedRun, steps: int) -> Iterable[str]:
    """Where there is a law, but not for such items or so short a run."""
    settings = run.settings
    if settings.name is None or (settings.name == "adam" and settings.weight_decay > 0):
        return
    if run.shared:
        yield (
            "the items are texts of an encoder, whose weights they share: every step moves all of them, so the law, which is one of free "
            "vectors, is a yardstick here and not a truth"
        )
    early = memory_words(TrainingEvidence(optimizer=settings.name, beta2=settings.beta2, lazy=settings.lazy, steps=steps))
    if early:
        # What follows the colon is known of free vectors only.
        yield f"{early.partition(':')[0]}: the law is not for so short a run" if run.shared else early


def _stretches(rates: np.ndarray) -> list[tuple[int, float]]:
    """(steps, learning rate) of stretches of equal rate, at most `_SEGMENTS` of them."""
    if rates.size == 0:
        return []
    starts = np.flatnonzero(np.concatenate([[True], rates[1:] != rates[:-1]]))
    parts = np.split(rates, starts[1:])
    if len(parts) > _SEGMENTS:
        parts = np.array_split(rates, _SEGMENTS)
    # The mean of equal rates is the rate, but for rounding.
    return [(part.size, float(part[0] if np.ptp(part) == 0 else np.sqrt(np.mean(part**2)))) for part in parts]


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
