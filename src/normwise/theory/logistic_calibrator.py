"""Confidence by a logistic model of signals, with and without norms, with curves of what the norm must not be praised for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator
from sklearn import config_context
from sklearn.linear_model import LogisticRegression

from normwise.core.calibration_records import LARGEST, Number, Positive
from normwise.core.errors import InputError, near_names
from normwise.core.records import Record
from normwise.core.shapes import Float
from normwise.theory.first_place import probability
from normwise.theory.fit_rows import KeepsOrder, fit_rows
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.rank_design import spline_freedom
from normwise.theory.signals import SIGNALS, signals
from normwise.theory.softmax_calibrators import training_temperature

SCORE_SIGNALS = ("score", "margin")
NORM_SIGNALS = ("log query norm", "log hit norm")
CONTROL_SIGNALS = ("query length", "hit length", "query frequency", "hit frequency")
Kind = Literal["logistic", "logistic_norm", "logistic_controls", "logistic_controls_norm"]
# Inverse strength of the ridge on standardized columns.
PENALTY = 1.0
_EQUAL = 1e-9
_STEPS = 200
# Squares of larger values leave float64.
_LARGEST = 1e100


class LogisticColumn(Record):
    """One column: (h - center) / scale, h the signal itself, or max(0, signal - knot) where a knot is set."""

    signal: str
    knot: Number | None = None
    center: Number
    scale: Positive
    coefficient: Number = 0.0

    @field_validator("signal")
    @classmethod
    def _check_signal(cls, name: str) -> str:
        if name not in SIGNALS:
            raise ValueError(f"{name!r} is no signal: {near_names(name, SIGNALS)}")
        return name

    def of(self, values: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
        """Return the standardized column from the signal's values, held inside +-1e150."""
        raw = values if self.knot is None else np.maximum(values - self.knot, 0.0)
        with np.errstate(over="ignore"):
            return np.clip((raw - self.center) / self.scale, -LARGEST, LARGEST)


class LogisticCalibrator(KeepsOrder, Record):
    """E3: the log odds of a right first hit are a sum of signals, or of curves of them.

    Equation: log p / (1 - p) = intercept + sum_c coefficient_c column_c, by penalized likelihood, C = `penalty` on standardized
    columns. What is in the sum follows from the kind:

    | kind                     | linear                    | curves                     |
    |--------------------------|---------------------------|----------------------------|
    | `logistic`               | score signals             |                            |
    | `logistic_norm`          | score signals, both norms |                            |
    | `logistic_controls`      |                           | score signals and controls |
    | `logistic_controls_norm` | both norms                | score signals and controls |

    A curve is a broken line with joints at quantiles of the fitted queries, so that a norm which follows length is not praised
    for mending the bend of length. A signal that never varies has no column. Outside the fitted range lines go straight on.

    Args:
        columns: all columns with their coefficients.
        intercept: at the mean of every column.
        temperature: of entropy and residual, where they are among the signals.

    Reference: Platt (1999) with more than one input; the broken lines are Friedman's (1991) hinges at fixed places.
    """

    kind: Kind
    columns: tuple[LogisticColumn, ...]
    intercept: Number
    temperature: Positive | None = Field(default=None, validate_default=True)

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, columns: tuple[LogisticColumn, ...]) -> tuple[LogisticColumn, ...]:
        seen = set()
        for column in columns:
            if (column.signal, column.knot) in seen:
                knot = "no knot" if column.knot is None else f"knot {column.knot:g}"
                raise ValueError(f"expected each column once, and that of {column.signal} with {knot} stands there twice")
            seen.add((column.signal, column.knot))
        return columns

    @field_validator("temperature")
    @classmethod
    def _check_temperature(cls, temperature: float | None, known: Any) -> float | None:
        needing = [column.signal for column in known.data.get("columns", ()) if column.signal in _NEEDS_TEMPERATURE]
        if temperature is None and needing:
            raise ValueError(f"expected the training temperature, which {needing[0]} reads")
        return temperature

    @classmethod
    def fit(
        cls,
        judged: JudgedHits,
        *,
        kind: Kind = "logistic",
        signals: Sequence[str] = SCORE_SIGNALS,
        controls: Sequence[str] | None = None,
        temperature: float | None = None,
        penalty: float = PENALTY,
    ) -> LogisticCalibrator:
        """Fit one of the four models.

        Args:
            judged: what to fit on.
            kind: which columns, see the class.
            signals: the score side, names of `SIGNALS`.
            controls: names of `SIGNALS` that the two kinds with controls hold; None = those of `CONTROL_SIGNALS` that are known.
            temperature: needed by entropy and residual.
            penalty: C > 0, the inverse strength of the ridge.

        Raises:
            InputError: fewer than two right or wrong first hits, an unknown signal, one that these hits do not know, no control
                at all for a kind with controls, or a penalty that is not above 0.
        """
        if not (np.isfinite(penalty) and penalty > 0.0):
            raise InputError(f"{kind}: penalty is {penalty}; expected a finite inverse strength above 0")
        rows = fit_rows(judged, name=kind)
        hits = judged.hits.subset(rows)
        linear, curved = _plan(hits, kind, signals, controls)
        values = _read(hits, [*linear, *curved], temperature, name=kind)
        sizes = _sizes(hits, values)
        plain = [column for name in linear for column in _columns(name, values[name], (), size=sizes[name])]
        bent = [column for name in curved for column in _columns(name, values[name], _knots(values[name]), size=sizes[name])]
        columns = [*plain, *bent]
        design = np.stack([column.of(values[column.signal]) for column in columns], axis=1) if columns else np.empty((rows.size, 0))
        coefficients, intercept = _likeliest(design, judged.right[rows], penalty)
        fitted = tuple(column.model_copy(update={"coefficient": each}) for column, each in zip(columns, coefficients, strict=True))
        used = training_temperature(temperature) if temperature is not None and any(name in _NEEDS_TEMPERATURE for name in values) else None
        return cls(kind=kind, columns=fitted, intercept=intercept, temperature=used)

    def predict(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each first hit is right; 0 where a vector is zero."""
        values = _read(hits, [column.signal for column in self.columns], self.temperature, name=self.kind)
        odds = np.full(len(hits), self.intercept)
        # Column by column: a matrix product would round a query by the company that it comes in.
        for column in self.columns:
            odds += column.coefficient * column.of(values[column.signal])
        return probability(odds, hits.usable)

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted."""
        return 1 + len(self.columns)

    @property
    def depth(self) -> int | None:
        """How many hits per query its signals read; None = the whole row."""
        depths = [SIGNALS[column.signal].depth for column in self.columns]
        return None if None in depths else max([each for each in depths if each is not None], default=1)

    @property
    def words(self) -> str:
        """One line for a reader."""
        names = list(dict.fromkeys(column.signal for column in self.columns))
        curves = "" if all(column.knot is None for column in self.columns) else ", some as curves"
        return f"logistic model of {', '.join(names) or 'nothing that varies'}{curves}"


_NEEDS_TEMPERATURE = ("entropy", "residual")
# Signals in the unit of the scores.
_OF_SCORES = ("score", "margin", "spread", "lead")


def _plan(hits: HitLists, kind: Kind, score_side: Sequence[str], controls: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The names that enter as lines and those that enter as curves."""
    norms: list[str] = [*NORM_SIGNALS] if kind.endswith("norm") else []
    if not kind.startswith("logistic_controls"):
        return list(dict.fromkeys([*score_side, *norms])), []
    if controls is None:
        known = signals(hits, names=CONTROL_SIGNALS)
        controls = [name for name in CONTROL_SIGNALS if name in known]
    if not controls:
        raise InputError(
            f"{kind}: neither lengths nor frequencies of these hits are known; expected at least one control: give token counts"
        )
    curved = list(dict.fromkeys([*score_side, *controls]))
    # A curve holds the line.
    return [name for name in norms if name not in curved], curved


def _read(hits: HitLists, names: Sequence[str], temperature: float | None, *, name: str) -> dict[str, np.ndarray]:
    wanted = temperature if any(each in _NEEDS_TEMPERATURE for each in names) else None
    known = signals(hits, temperature=wanted, names=names)
    for each in names:
        if each not in SIGNALS:
            raise InputError(f"{name}: signal {each!r} is unknown: {near_names(each, list(SIGNALS))}")
        if each not in known:
            lack = "the training temperature" if each in _NEEDS_TEMPERATURE else SIGNALS[each].words
            raise InputError(f"{name}: {each} is not known of these hits; expected {lack}: give it, or leave the signal out")
    return {each: known[each] for each in names}


def _sizes(hits: HitLists, values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Beside what a signal's spread is rounding: 1, or the largest score where scores are all small, as those of short vectors are."""
    largest = min(1.0, float(np.abs(hits.scores[:, 0]).max()))
    sizes = dict.fromkeys(values, 1.0) | {name: largest for name in _OF_SCORES if name in values}
    for name, each in values.items():
        if name.startswith("score under "):
            sizes[name] = min(1.0, float(np.abs(each).max()))
    return sizes


def _columns(signal: str, values: np.ndarray, knots: Sequence[float], *, size: float) -> list[LogisticColumn]:
    found = []
    for knot in (None, *knots):
        raw = values if knot is None else np.maximum(values - knot, 0.0)
        if np.abs(raw).max() > _LARGEST:
            raise InputError(
                f"{signal} reaches {raw[np.abs(raw).argmax()]}; expected magnitudes up to {_LARGEST:g}: check scores and norms"
            )
        center, scale = float(raw.mean()), float(raw.std())
        if scale > max(_EQUAL * max(abs(center), size), 1.0 / LARGEST):
            found.append(LogisticColumn(signal=signal, knot=knot, center=center, scale=scale))
    return found


def _knots(values: np.ndarray) -> list[float]:
    """Inner joints at equal shares of the queries; of few distinct values each inner one is a joint, which fits them exactly."""
    freedom = spline_freedom(values.size)
    distinct = np.unique(values)
    inner = distinct[1:-1]
    if inner.size >= freedom:
        inner = np.unique(np.quantile(values, np.arange(1, freedom) / freedom))
        inner = inner[(inner > distinct[0]) & (inner < distinct[-1])]
    return inner.tolist()


def _likeliest(design: np.ndarray, right: np.ndarray, penalty: float) -> tuple[list[float], float]:
    if not design.shape[1]:
        share = right.mean()
        return [], float(np.log(share) - np.log1p(-share))
    # The values were checked at the border; the library's own checks would take most of the time of a small fit.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        model = LogisticRegression(C=penalty, solver="newton-cholesky", max_iter=_STEPS).fit(design, right)
    return np.ravel(model.coef_).tolist(), float(np.ravel(model.intercept_)[0])
