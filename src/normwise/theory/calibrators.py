"""Every calibrator under one name: frozen values that fit on judged hits, predict on new ones and live in JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from normwise.theory.fit_rows import chosen_right
from normwise.theory.logistic_calibrator import CONTROL_SIGNALS, NORM_SIGNALS, SCORE_SIGNALS, LogisticCalibrator
from normwise.theory.monotone_calibrators import ISOTONIC_LEAST, BaseCalibrator, BetaCalibrator, IsotonicCalibrator
from normwise.theory.prior_calibrators import PriorCalibrator, RerankingCalibrator
from normwise.theory.softmax_calibrators import QUERY_CONTROLS, NormTemperatureCalibrator, SoftmaxCalibrator, TemperatureCalibrator

__all__ = [
    "CONTROL_SIGNALS",
    "ISOTONIC_LEAST",
    "NORM_SIGNALS",
    "QUERY_CONTROLS",
    "SCORE_SIGNALS",
    "AnyCalibrator",
    "BaseCalibrator",
    "BetaCalibrator",
    "IsotonicCalibrator",
    "LogisticCalibrator",
    "NormTemperatureCalibrator",
    "PriorCalibrator",
    "RerankingCalibrator",
    "SoftmaxCalibrator",
    "TemperatureCalibrator",
    "chosen_right",
    "read_calibrator",
]

AnyCalibrator = Annotated[
    SoftmaxCalibrator
    | TemperatureCalibrator
    | NormTemperatureCalibrator
    | LogisticCalibrator
    | IsotonicCalibrator
    | BetaCalibrator
    | RerankingCalibrator
    | PriorCalibrator,
    Field(discriminator="kind"),
]

_READER: TypeAdapter[AnyCalibrator] = TypeAdapter(AnyCalibrator)


def read_calibrator(text: str | bytes) -> AnyCalibrator:
    """Return the calibrator that `to_json` wrote, whichever kind it is; its predictions are the same to the last bit.

    Raises:
        pydantic.ValidationError: the text is no calibrator, or holds a key that it does not know.

    Example:
        >>> read_calibrator(SoftmaxCalibrator(temperature=0.05).to_json())
        SoftmaxCalibrator(kind='softmax', temperature=0.05)
    """
    return _READER.validate_json(text)
