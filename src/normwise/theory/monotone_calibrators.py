"""A second look at a probability: a monotone map on top of another calibrator, as steps and lines or as a beta curve."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from normwise.core.calibration_records import Number, Share, Weight
from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.core.shapes import Float, Int
from normwise.theory.first_place import CERTAIN, probability
from normwise.theory.fit_rows import chosen_right, fit_rows
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.prior_calibrators import PriorCalibrator, RerankingCalibrator
from normwise.theory.softmax_calibrators import NormTemperatureCalibrator, SoftmaxCalibrator, TemperatureCalibrator

BaseCalibrator = Annotated[
    SoftmaxCalibrator | TemperatureCalibrator | NormTemperatureCalibrator | LogisticCalibrator | RerankingCalibrator | PriorCalibrator,
    Field(discriminator="kind"),
]
# With fewer queries the steps follow the noise; a caller that chooses among calibrators asks for this many.
ISOTONIC_LEAST = 1000
# Close to no penalty, and still an answer where the answers are separable.
_WEAK = 1e6
_STEPS = 500


class IsotonicCalibrator(Record):
    """E4: the rising function of a base probability that fits best.

    Equation: pool adjacent violators on (base probability, right), lines between the pools' edges. The mean prediction in the
    fitted rows is their share of right answers. Then the ends are drawn in by Laplace's rule, as one surprise would else make
    the NLL infinite: a lowest pool of m rows, none right, predicts 1 / (m + 2), a highest one, all right, (m + 1) / (m + 2),
    neither past the pool beside it; the sum of the predictions moves by less than 1 at each end.

    Args:
        base: what it stands on, fitted.
        x: base probabilities, rising.
        y: calibrated probabilities at them, never falling.

    Reference: Zadrozny and Elkan (2002); the ends are ours.
    """

    kind: Literal["isotonic"] = "isotonic"
    base: BaseCalibrator
    x: tuple[Share, ...] = Field(min_length=1)
    y: tuple[Share, ...]

    @field_validator("x", "y")
    @classmethod
    def _check_order(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        for place, (before, after) in enumerate(pairwise(values)):
            if after < before:
                raise ValueError(f"expected numbers that never fall, and {after:g} at place {place + 1} comes after {before:g}")
        return values

    @field_validator("y")
    @classmethod
    def _check_length(cls, y: tuple[float, ...], known: Any) -> tuple[float, ...]:
        if len(y) != len(known.data.get("x", y)):
            raise ValueError(f"expected as many numbers as x has, {len(known.data['x'])}, and {len(y)} came")
        return y

    @classmethod
    def fit(cls, judged: JudgedHits, *, base: BaseCalibrator, confidence: np.ndarray | None = None) -> IsotonicCalibrator:
        """Fit the map on top of a fitted base.

        Args:
            judged: what to fit on; fewer than `ISOTONIC_LEAST` queries are the caller's risk.
            base: a fitted calibrator.
            confidence: (B,) held-out probabilities of the base in these rows, where there are any; else its own predictions,
                which flatter a base of many parameters.

        Raises:
            InputError: fewer than two right or wrong first hits, or confidences that do not fit.
        """
        given, right = _pairs(judged, base, confidence, name="isotonic")
        model = IsotonicRegression(y_min=0.0, y_max=1.0).fit(given, right.astype(np.float64))
        x = np.asarray(model.X_thresholds_, dtype=np.float64)
        y = _off_the_ends(given, x, np.asarray(model.y_thresholds_, dtype=np.float64))
        return cls(base=base, x=tuple(x.tolist()), y=tuple(y.tolist()))

    def predict(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each first hit is right; 0 where a vector is zero."""
        # Between two x that nearly meet, the line may leave its ends.
        mapped = np.clip(np.interp(self.base.predict(hits, priors=priors), self.x, self.y), self.y[0], self.y[-1])
        return np.where(hits.usable, mapped, 0.0)

    def order(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Int[np.ndarray, " B"]:
        """Return (B,) the place of the hit that stands first: that of the base."""
        return self.base.order(hits, priors=priors)

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted: the levels, and those of the base."""
        return len(set(self.y)) + self.base.parameters

    @property
    def depth(self) -> int | None:
        """How many hits per query the base reads; None = the whole row."""
        return self.base.depth

    @property
    def words(self) -> str:
        """One line for a reader."""
        return f"isotonic map of {len(set(self.y))} levels on top of: {self.base.words}"


class BetaCalibrator(Record):
    """E4: the beta curve of a base probability.

    Equation: log q / (1 - q) = a log p - b log(1 - p) + c, a and b >= 0, by logistic regression on log p and -log(1 - p). A
    coefficient that comes out negative is set to 0 and the other two are fitted again; if that one is then negative too, only
    c stays. a = b = 1, c = 0 leaves every probability as it is.

    Args:
        base: what it stands on, fitted.
        a: how the low end bends.
        b: how the high end bends.
        c: where the curve crosses.

    Reference: Kull, Silva Filho and Flach (2017), section 4, with their rule for signs; a ridge of 1e-6 keeps separable data finite.
    """

    kind: Literal["beta"] = "beta"
    base: BaseCalibrator
    a: Weight
    b: Weight
    c: Number

    @classmethod
    def fit(cls, judged: JudgedHits, *, base: BaseCalibrator, confidence: np.ndarray | None = None) -> BetaCalibrator:
        """Fit the curve on top of a fitted base; arguments and refusals as `IsotonicCalibrator.fit`."""
        given, right = _pairs(judged, base, confidence, name="beta")
        columns = _beta_columns(given)
        free = [0, 1]
        coefficients, c = _logistic(columns, right)
        while free and coefficients.min() < 0.0:
            free.pop(int(coefficients.argmin()))
            coefficients, c = _logistic(columns[:, free], right)
        found = np.zeros(2)
        found[free] = coefficients
        return cls(base=base, a=float(found[0]), b=float(found[1]), c=c)

    def predict(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Float[np.ndarray, " B"]:
        """Return (B,) the chance that each first hit is right; 0 where a vector is zero."""
        columns = _beta_columns(self.base.predict(hits, priors=priors))
        return probability(self.a * columns[:, 0] + self.b * columns[:, 1] + self.c, hits.usable)

    def order(self, hits: HitLists, *, priors: Mapping[str, np.ndarray] | None = None) -> Int[np.ndarray, " B"]:
        """Return (B,) the place of the hit that stands first: that of the base."""
        return self.base.order(hits, priors=priors)

    @property
    def parameters(self) -> int:
        """How many free numbers were fitted, those of the base included."""
        return 3 + self.base.parameters

    @property
    def depth(self) -> int | None:
        """How many hits per query the base reads; None = the whole row."""
        return self.base.depth

    @property
    def words(self) -> str:
        """One line for a reader."""
        return f"beta curve (a {self.a:.3g}, b {self.b:.3g}, c {self.c:.3g}) on top of: {self.base.words}"


def _pairs(judged: JudgedHits, base: BaseCalibrator, confidence: np.ndarray | None, *, name: str) -> tuple[np.ndarray, np.ndarray]:
    """What the base says in the rows that may be fitted on, and whether the hit that it puts first is right."""
    rows = fit_rows(judged, name=name)
    if confidence is None:
        confidence = base.predict(judged.hits, priors=judged.priors)
    elif confidence.shape != (len(judged),) or not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        raise InputError(f"{name}: confidence has shape {confidence.shape}; expected {len(judged)} probabilities, one for each query")
    right = chosen_right(judged, base.order(judged.hits, priors=judged.priors))
    return confidence[rows], right[rows]


def _off_the_ends(given: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Laplace's rule for a lowest pool of 0 and a highest of 1, neither moved past the pool beside it."""
    zero, one = y <= 0.0, y >= 1.0
    drawn = y.copy()
    if zero.any():
        rows = np.count_nonzero(given <= x[zero].max())
        drawn[zero] = min(1.0 / (rows + 2.0), y[~zero].min(initial=1.0))
    if one.any():
        rows = np.count_nonzero(given >= x[one].min())
        drawn[one] = max((rows + 1.0) / (rows + 2.0), y[~one].max(initial=0.0))
    return drawn


def _beta_columns(confidence: np.ndarray) -> np.ndarray:
    inside = np.clip(confidence, CERTAIN, 1.0 - CERTAIN)
    return np.stack([np.log(inside), -np.log1p(-inside)], axis=1)


def _logistic(columns: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    if not columns.shape[1]:
        share = np.clip(right.mean(), CERTAIN, 1.0 - CERTAIN)
        return np.empty(0), float(np.log(share) - np.log1p(-share))
    model = LogisticRegression(C=_WEAK, solver="newton-cholesky", max_iter=_STEPS).fit(columns, right)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
