"""Confidence from a softmax over the hits: at the training temperature, at a fitted one, at one that follows the query's norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import field_validator

from normwise.core.calibration_records import LARGEST, Number, Positive
from normwise.core.errors import InputError, near_names
from normwise.core.records import Record
from normwise.core.shapes import Float
from normwise.theory.first_place import log_odds, probability, rivals
from normwise.theory.fit_rows import KeepsOrder, check_rivals, fit_rows, thinned
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.signals import SIGNALS, check_temperature, signals
from normwise.theory.softmax_fit import InverseFit, fit_inverse

QUERY_NORM = "log query norm"
QUERY_CONTROLS = ("query length", "query frequency")
# A fit squares gaps in float32; what it finds inside these lies far inside what a calibration may hold.
_LARGEST_SCORE, _SMALLEST_GAP = 1e18, 1e-18


def training_temperature(temperature: float) -> float:
    """Return the temperature of a softmax that a calibration may hold, or say what is wrong with it.

    Raises:
        InputError: not a number from 1e-150 to 1e150.

    Example:
        >>> training_temperature(0.05)
        0.05
    """
    found = check_temperature(temperature)
    if not 1.0 / LARGEST <= found <= LARGEST:
        raise InputError(f"temperature is {found}; expected {1.0 / LARGEST:g} to {LARGEST:g}: the tau of the training loss")
    return found


def checked_bounds(bounds: tuple[float, float], known: Any) -> tuple[float, float]:
    """Return the range that an inverse temperature was sought in; a record's check of the two against each other.

    Raises:
        ValueError: the range is empty, or what was found lies outside it.
    """
    low, high = bounds
    inverse = known.data.get("inverse_temperature")
    if not low < high:
        raise ValueError(f"expected a lower number and a higher one, and {low:g} is not below {high:g}")
    if inverse is not None and not low <= inverse <= high:
        raise ValueError(f"expected a range that holds the inverse_temperature {inverse:g}, and it is {low:g} to {high:g}")
    return bounds


class SoftmaxCalibrator(KeepsOrder, Record):
    """E0: the softmax of training, taken at its word.

    Equation: p = 1 / sum_j exp((s_j - s_1) / tau), over the whole row of hits. Nothing is fitted, so with K of N candidates the
    row must be as deep where it is used as where it is judged.

    Args:
        temperature: tau > 0.

    Example:
        >>> from normwise.core.similarity import Similarity
        >>> two = HitLists(np.array([[0.9, 0.9]]), np.ones(1), np.ones((1, 2)), Similarity.COSINE)
        >>> SoftmaxCalibrator(temperature=0.05).predict(two).tolist()
        [0.5]
    """

    kind: Literal["softmax"] = "softmax"
    temperature: Positive

    @classmethod
    def fit(cls, judged: JudgedHits, *, temperature: float | None) -> SoftmaxCalibrator:
        """Take the training temperature as it is; refuse where it is not known or a row holds one hit."""
        if temperature is None:
            raise InputError("softmax: no training temperature is known; expected the tau of the training loss: fit a temperature instead")
        check_rivals(judged, name="softmax")
        return cls(temperature=training_temperature(temperature))

    def predict(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each first hit is right; 0 where a vector is zero."""
        return softmax_probability(hits, np.full(len(hits), 1.0 / self.temperature))

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted."""
        return 0

    @property
    def words(self) -> str:
        """One line for a reader."""
        return f"softmax over the hits at the training temperature {self.temperature:g}"


class TemperatureCalibrator(KeepsOrder, Record):
    """E1: one temperature for all queries, fitted.

    Equation: p = 1 / sum_j exp(b (s_j - s_1)), b > 0 of least NLL of the first hit being right. Of more than `MOST_ROWS`
    queries an even sample is fitted.

    Args:
        inverse_temperature: b, in units of 1 / score.
        bounds: the range that b was sought in; at an edge the data are separable, or no b helps.

    Reference: Guo et al. (2017), with the first hit right or wrong in place of a class.
    """

    kind: Literal["temperature"] = "temperature"
    inverse_temperature: Positive
    bounds: tuple[Positive, Positive]

    _check_bounds = field_validator("bounds")(checked_bounds)

    @classmethod
    def fit(cls, judged: JudgedHits) -> TemperatureCalibrator:
        """Fit b; refuse one hit per row, fewer than two right or wrong first hits, or scores that are all alike."""
        found = _fitted(judged, thinned(fit_rows(judged, name="temperature")), None, name="temperature")
        return cls(inverse_temperature=found.inverse, bounds=found.bounds)

    def predict(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each first hit is right; 0 where a vector is zero."""
        return softmax_probability(hits, np.full(len(hits), self.inverse_temperature))

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted."""
        return 1

    @property
    def words(self) -> str:
        """One line for a reader."""
        return f"softmax over the hits at the fitted inverse temperature {self.inverse_temperature:.4g}"


class NormTemperatureCalibrator(KeepsOrder, Record):
    """E2: a temperature that follows the norm of the query, and its length and frequency if asked.

    Equation: p_i = 1 / sum_j exp(b_i (s_ij - s_i1)), log b_i = a_0 + a_1 log r_i (+ a_2 log(1 + f_i) + a_3 log(1 + tokens_i)),
    held inside `bounds`; all a by NLL of the first hit being right. Without a_1, a_2 and a_3 it is `TemperatureCalibrator`.

    a_1 is a finding of its own: below 0 a long query is an ambiguous one (noise regime), above 0 a certain one (signal regime).
    Under `dot` and `candidate_normalized` the scores hold r already, so a_1 = -1 is there what 0 is under cosine.

    Args:
        intercept: a_0.
        exponents: a by the name of its signal.
        bounds: of b.
    """

    kind: Literal["norm_temperature", "norm_temperature_controls"]
    intercept: Number
    exponents: Mapping[str, Number]
    bounds: tuple[Positive, Positive]

    _check_bounds = field_validator("bounds")(checked_bounds)

    @field_validator("exponents")
    @classmethod
    def _check_exponents(cls, exponents: Mapping[str, float], known: Any) -> Mapping[str, float]:
        names = (QUERY_NORM, *(QUERY_CONTROLS if known.data.get("kind") == "norm_temperature_controls" else ()))
        for name in exponents:
            if name not in names:
                raise ValueError(f"{name!r} has no exponent here: {near_names(name, names)}")
        if QUERY_NORM not in exponents:
            raise ValueError(f"expected that of {QUERY_NORM} among them")
        return exponents

    @classmethod
    def fit(cls, judged: JudgedHits, *, controls: Sequence[str] = ()) -> NormTemperatureCalibrator:
        """Fit all a.

        Args:
            judged: what to fit on.
            controls: some of `QUERY_CONTROLS`; none gives kind "norm_temperature".

        Raises:
            InputError: as `TemperatureCalibrator.fit`, or a control that is unknown or that these hits do not know.
        """
        kind = "norm_temperature_controls" if controls else "norm_temperature"
        if unknown := [name for name in controls if name not in QUERY_CONTROLS]:
            raise InputError(f"{kind}: control {unknown[0]!r} is unknown; expected some of {', '.join(QUERY_CONTROLS)}")
        names = (QUERY_NORM, *controls)
        rows = thinned(fit_rows(judged, name=kind))
        columns = np.stack(list(query_columns(judged.hits, names, name=kind).values()), axis=1)[rows]
        found = _fitted(judged, rows, columns, name=kind)
        return cls(kind=kind, intercept=found.intercept, exponents=dict(zip(names, found.slopes, strict=True)), bounds=found.bounds)

    def predict(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each first hit is right; 0 where a vector is zero."""
        return softmax_probability(hits, self.inverse_temperatures(hits))

    def inverse_temperatures(self, hits: HitLists) -> Float[np.ndarray, " B"]:
        """Return (B,) each query's own b."""
        columns = query_columns(hits, tuple(self.exponents), name=self.kind)
        log_inverse = np.full(len(hits), self.intercept)
        for name, values in columns.items():
            log_inverse += self.exponents[name] * values
        return np.exp(np.clip(log_inverse, *np.log(self.bounds)))

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted."""
        return 1 + len(self.exponents)

    @property
    def regime(self) -> str:
        """What the sign of a_1 says."""
        slope = self.exponents[QUERY_NORM]
        if slope == 0.0:
            return "the query norms are all equal, or say nothing"
        if slope < 0.0:
            return "longer queries are the more ambiguous ones, as in the noise regime"
        return "longer queries are the more certain ones, as in the signal regime"

    @property
    def words(self) -> str:
        """One line for a reader."""
        others = [name for name in self.exponents if name != QUERY_NORM]
        held = f", {' and '.join(others)} held" if others else ""
        return f"softmax at an inverse temperature that grows as query norm^{self.exponents[QUERY_NORM]:.3g}{held}: {self.regime}"


def softmax_probability(hits: HitLists, inverse: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    """Return the softmax probability of each first hit at each query's own inverse temperature.

    Raises:
        InputError: one hit per row.
    """
    if hits.depth < 2:
        raise InputError("one hit per query; a softmax over one hit is always 1: search for at least 2 hits per query")
    places = np.zeros(len(hits), dtype=np.int64)
    # Absurd scores leave float64 on the side of certainty.
    with np.errstate(over="ignore"):
        return probability(log_odds(rivals(hits.scores, places), inverse), hits.usable)


def query_columns(hits: HitLists, names: Sequence[str], *, name: str) -> dict[str, Float[np.ndarray, " B"]]:
    """Return some signals of the queries, or say which the hits do not know."""
    known = signals(hits, names=names)
    for each in names:
        if each not in known:
            raise InputError(f"{name}: {each} is not known of these queries; expected {SIGNALS[each].words}: give it, or leave it out")
    return {each: known[each] for each in names}


def check_scores(hits: HitLists, *, name: str) -> None:
    """Refuse scores whose temperature a calibration could not hold.

    Raises:
        InputError: a score beyond 1e18, or rows whose scores all lie within 1e-18 and are not equal.
    """
    first, last = hits.scores[:, 0], hits.scores[:, -1]
    largest = float(max(np.abs(first).max(), np.abs(last).max()))
    if largest > _LARGEST_SCORE:
        raise InputError(f"{name}: scores reach {largest:.3g}; expected magnitudes up to {_LARGEST_SCORE:g}: check scores and norms")
    widest = float((first - last).max())
    if 0.0 < widest < _SMALLEST_GAP:
        raise InputError(
            f"{name}: scores of one query differ by {widest:.3g} at most; expected differences from {_SMALLEST_GAP:g} on: give vectors "
            "in a larger unit"
        )


def _fitted(judged: JudgedHits, rows: np.ndarray, columns: np.ndarray | None, *, name: str) -> InverseFit:
    check_rivals(judged, name=name)
    check_scores(judged.hits, name=name)
    gaps = rivals(judged.hits.scores[rows], np.zeros(rows.size, dtype=np.int64), dtype=np.float32)
    return fit_inverse(gaps, judged.right[rows], columns, name=name)
