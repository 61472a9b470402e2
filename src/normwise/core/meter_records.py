"""What the InfoNCE meter saw in the last steps of a training run: frozen, and the same after a trip through JSON."""

from __future__ import annotations

from pydantic import Field

from normwise.core.records import Record


class InfoNCEReading(Record):
    """What the meter saw in the last steps; nats, and less log k. What there is nothing to tell of is None.

    Errors are standard errors over steps, one step being one draw; what training moved within the window counts as spread.

    Attributes:
        steps: optimizer steps behind the figures.
        queries: queries behind them.
        k: mean number of negatives of a query, duplicates of its positive left out.
        k_min: the fewest of any query.
        k_max: the most.
        risk: mean of log((1 + sum_j e^{s_j - s_+}) / k): the usual InfoNCE loss less log k.
        dcl: the same without the 1.
        limit: jackknife estimate of H, where both go as k grows.
        residual_p10: 10% quantile over queries of 1 - p_+.
        residual_p50: the median.
        residual_p90: 90%.
        effective_negatives: median over queries of 1 / sum w^2 = k / (1 + cv2), w the softmax weights among the negatives.
        cv2: mean over queries of cv2 = Var e^s / (mean e^s)^2 over their negatives.
        effective_negatives_mean: k / (1 + cv2) at those two means; the bias of the DCL risk is about half of 1 / this - 1 / k.
        needed_k: 10 cv2; with fewer negatives than that (or than 16) 1/k has not begun, and `limit` is still low.
        extrapolates: whether every query had so many; logged beside `limit` as 0 or 1.
        masked: candidates of a query that were left out besides its positive, on average.
        lonely: queries that had no negative, and are in no figure.
        skipped: batches since the start that are in no figure: a score was not finite, a vector had no direction, the batch was empty.
        skipped_steps: the first 20 steps that had one.
    """

    steps: int = Field(ge=0)
    queries: int = Field(ge=0)
    k: float | None = None
    k_min: int | None = None
    k_max: int | None = None
    risk: float | None = None
    risk_error: float | None = None
    dcl: float | None = None
    dcl_error: float | None = None
    limit: float | None = None
    limit_error: float | None = None
    residual_p10: float | None = None
    residual_p50: float | None = None
    residual_p90: float | None = None
    effective_negatives: float | None = None
    effective_negatives_mean: float | None = None
    cv2: float | None = None
    needed_k: float | None = None
    extrapolates: bool = False
    masked: float = 0.0
    lonely: int = 0
    skipped: int = 0
    skipped_steps: tuple[int, ...] = ()

    def figures(self, *, prefix: str = "infonce") -> dict[str, float]:
        """The numbers by name, `<prefix>/risk` and so on, without those that are None; `extrapolates` is 0 or 1, there with the limit."""
        values = self.model_dump(exclude={"skipped_steps", "extrapolates"})
        if self.limit is not None:
            values["extrapolates"] = int(self.extrapolates)
        return {f"{prefix}/{name}": value for name, value in values.items() if value is not None}
