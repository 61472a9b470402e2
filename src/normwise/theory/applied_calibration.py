"""What a calibration says of hits: their probabilities, in which order to show them, whom not to trust, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from normwise.core.calibration_records import ThresholdRecord, VerdictRecord
from normwise.core.shapes import Bool, Int


@dataclass(frozen=True)
class Applied:
    """What a calibration says of hits, by the places that they came in.

    Args:
        order: (B,) the place of the hit to show first; 0 unless the calibration re-ranks.
        probabilities: (B, K) that each hit is relevant; NaN where nobody knows.
        zero: (B, K) whether the hit or its query is a zero vector.
        threshold: what was certified, if anything was.
        verdict: why there is no threshold, if there is none; no reason repeats it.
    """

    order: np.ndarray
    probabilities: np.ndarray
    zero: np.ndarray
    threshold: ThresholdRecord | None
    verdict: VerdictRecord

    @cached_property
    def abstain(self) -> Bool[np.ndarray, "B K"]:
        """(B, K) whether to abstain on each hit."""
        if self.threshold is None:
            return np.ones(self.probabilities.shape, dtype=bool)
        # An unknown probability reaches no threshold.
        return self.zero | (self.probabilities == 0.0) | ~(self.probabilities >= self.threshold.probability)

    def places(self, shown: int) -> Int[np.ndarray, "B S"]:
        """Return the places of up to `shown` hits in the order to show them in: `order` first, then the others as they came."""
        rank = np.arange(max(1, min(shown, self.probabilities.shape[1])))
        # Those that stood in front of the first one come one later.
        places = rank - (rank <= self.order[:, None])
        places[:, 0] = self.order
        return places

    def reason(self, query: int, place: int) -> str:
        """Return in words why the hit at that place is answered with or abstained on; equal cases share one text.

        Where no threshold exists it says only that: why is the same for every hit, and `verdict` tells it once.

        Example:
            >>> one = np.array([[0.9]])
            >>> none = VerdictRecord(label="no-usable-threshold", text="no order of these answers is better than chance")
            >>> Applied(np.array([0]), one, one < 0, None, none).reason(0, 0)
            'no usable threshold exists on the queries this was calibrated on'
        """
        return self._texts[self._cases[query, place]]

    def reasons(self) -> list[list[str]]:
        """Return `reason` of all hits, query by query."""
        return [[self._texts[case] for case in row] for row in self._cases.tolist()]

    @cached_property
    def _cases(self) -> np.ndarray:
        """(B, K) the place in `_texts` of each hit's reason."""
        first = np.arange(self.probabilities.shape[1]) == self.order[:, None]
        told = np.where(np.isnan(self.probabilities), _UNKNOWN, 2 * first + self.abstain)
        return np.where(self.zero, _ZERO, told if self.threshold is not None else _NO_THRESHOLD)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        limit = ""
        if self.threshold is not None:
            aim = f"precision {self.threshold.precision_target:g} with {100.0 * self.threshold.confidence:.4g}% confidence"
            limit = f"{self.threshold.probability:.6g}, the threshold for {aim}"
        lower = f"{limit}; that precision is of first hits, and this is a hit after the first"
        return (
            f"probability reaches {lower}",
            f"probability is below {lower}",
            f"probability reaches {limit}",
            f"probability is below {limit}",
            "zero vector: it has no direction, so no similarity says anything",
            "no probability is known: too few hits after the first were judged of both kinds",
            "no usable threshold exists on the queries this was calibrated on",
        )


# Places in `Applied._texts`, behind the four of answered or not, first or not.
_ZERO, _UNKNOWN, _NO_THRESHOLD = 4, 5, 6
