"""A track of embeddings through one training: figures of every order at every step, and at the end a report on their stairs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, final

import numpy as np

from normwise.core.errors import InputError
from normwise.core.staircase_records import (
    OrderGain,
    PredictedStair,
    SeriesIntegrity,
    StairRecord,
    TokenMap,
    TokenNeighbors,
    TrackReport,
    TrackSettings,
    series_of,
)
from normwise.engine.order_counting import CountedOrders
from normwise.theory.series_integrity import find_gaps
from normwise.theory.stairs import Stair
from normwise.training.stair_track_inputs import as_array, checked_number, checked_step
from normwise.training.stair_track_verdict import THRESHOLDS, stream_stair, track_verdict
from normwise.training.staircase_maps import token_maps

_MOST_KEPT = 1 << 28
_GAINS, _NEIGHBORS = 8, 8
_FIGURES = ("alignment", "null", "spread", "spearman")


@final
class StairTrack:
    """Follows the embeddings of one training.

    In a loop of your own (`StaircaseCallback` does it in a trainer):

        track = StairTrack(counted)
        for step, batch in enumerate(batches):
            if step % 100 == 0:
                track.record(step, model.embeddings.weight, loss=loss.item())
        print(track.report().verdict.text)

    Copies of the compared rows are kept for maps and gains, 1 GiB at most: of more, every second one is dropped.

    Args:
        counted: signatures of the text that is trained on, by `count_orders`.
    """

    def __init__(self, counted: CountedOrders) -> None:
        self._counted, self._signatures = counted, counted.signatures
        self._names = tuple(counted.names.get(int(token), str(int(token))) for token in self._signatures.tokens)
        self._start = time.monotonic()
        self._steps: list[int] = []
        self._loss: list[float] = []
        self._accuracy: list[float] = []
        self._norm_frequency: list[float] = []
        self._found: dict[str, dict[int, list[float]]] = {name: {order: [] for order in self._signatures.orders} for name in _FIGURES}
        self._kept: dict[int, np.ndarray] = {}
        self._first: dict[bytes, int] = {}
        self._copies: list[tuple[int, int]] = []

    @property
    def steps(self) -> tuple[int, ...]:
        """Those that were recorded."""
        return tuple(self._steps)

    def record(self, step: int, table: Any, *, loss: float | None = None, accuracy: float | None = None) -> dict[str, float]:
        """Compare the embeddings at a step.

        Args:
            step: a whole number above the last one recorded.
            table: (V, D) the whole table: an array, a tensor or a parameter of any float type.
            loss: of the training, if known.
            accuracy: in 0..1, if known.

        Returns:
            The figures, as a log takes them: "order_0", "order_0_null_sd", .., "norm_frequency".

        Raises:
            InputError: a step that does not rise, a table of another shape or type, or a value that is not finite; nothing was recorded.
        """
        vocabulary, values = self._signatures.vocabulary, as_array(table)
        if values.ndim != 2 or values.shape[0] != vocabulary:
            raise InputError(f"the table has shape {values.shape}; expected ({vocabulary}, D), one row for each id of the vocabulary")
        return self.record_rows(step, values[self._signatures.tokens], loss=loss, accuracy=accuracy)

    def record_rows(self, step: int, rows: Any, *, loss: float | None = None, accuracy: float | None = None) -> dict[str, float]:
        """Compare as `record`, with the (A, D) rows of `counted.signatures.tokens` alone, in their order."""
        step = checked_step(step, after=self._steps[-1] if self._steps else None)
        loss, accuracy = checked_number("loss", loss), checked_number("accuracy", accuracy, most=1.0, least=0.0)
        rows = self._checked(rows)
        found = self._signatures.at(rows)
        norm_frequency = self._signatures.norm_frequency(rows)
        self._steps.append(step)
        self._loss.append(float("nan") if loss is None else loss)
        self._accuracy.append(float("nan") if accuracy is None else accuracy)
        self._norm_frequency.append(norm_frequency)
        told = {"norm_frequency": norm_frequency}
        for order, each in found.items():
            figure, ranked = each.figure, each.spearman
            values = (figure.value, figure.null, figure.spread, float("nan") if ranked is None else ranked.value)
            for name, value in zip(_FIGURES, values, strict=True):
                self._found[name][order].append(value)
            told |= {f"order_{order}": figure.value, f"order_{order}_null_sd": figure.spread}
        self._keep(step, rows)
        digest = blake2b(rows.tobytes(), digest_size=16).digest()
        earlier = self._first.setdefault(digest, step)
        if earlier != step:
            self._copies.append((earlier, step))
        return told

    def tell(self, step: int, *, loss: float) -> None:
        """Add a loss that is known only after the step was recorded: it is kept for the last recorded step that has none, up to `step`."""
        if self._steps and self._steps[-1] <= step and np.isnan(self._loss[-1]):
            self._loss[-1] = loss

    def report(
        self,
        *,
        source: str = "",
        table: str = "",
        integrity: SeriesIntegrity | None = None,
        notes: Sequence[str] = (),
        seed: int = 0,
    ) -> TrackReport:
        """Return what was found so far.

        Args:
            source: what was tracked, in words.
            table: the tensor's name.
            integrity: of the checkpoints; None looks for equal copies of the compared rows, and for missing steps.
            notes: further sentences.
            seed: of folds and permutations.

        Raises:
            InputError: fewer than two steps were recorded.
        """
        if len(self._steps) < 2:
            told = "1 step was" if self._steps else "no step was"
            raise InputError(f"{told} recorded; expected at least 2, for a series")
        steps = np.array(self._steps)
        orders = sorted(self._signatures.orders)
        series = {name: {order: np.array(self._found[name][order]) for order in orders} for name in _FIGURES}
        told = {name: {str(order): series_of(values) for order, values in each.items()} for name, each in series.items()}
        above = {order: series["alignment"][order] - series["null"][order] for order in orders}
        stairs = [
            stream_stair(steps, series["alignment"][order], series["null"][order], series["spread"][order], order=order) for order in orders
        ]
        gains = self._gains(stairs[0], seed=seed)
        return TrackReport(
            verdict=track_verdict(stairs, above, steps=steps, gains=gains),
            steps=tuple(self._steps),
            loss=series_of(np.array(self._loss)),
            accuracy=series_of(np.array(self._accuracy)),
            alignment=told["alignment"],
            null=told["null"],
            spread=told["spread"],
            spearman=told["spearman"],
            stairs=tuple(stair_record(stair, [stair.onset]) for stair in stairs),
            stairs_by_seed=(),
            integrity=integrity or SeriesIntegrity(duplicates=tuple(self._copies), gaps=find_gaps(steps)),
            predicted=self._predicted(),
            maps=self._maps(stairs[0]),
            neighbors=self._neighbors(),
            gains=gains,
            norm_frequency=series_of(np.array(self._norm_frequency)),
            thresholds=THRESHOLDS,
            settings=TrackSettings(
                orders=tuple(orders),
                tokens=self._signatures.judged.size,
                next_tokens=self._counted.next_tokens,
                contexts=self._counted.contexts,
                window=self._counted.window,
                sketches=self._counted.sketches,
                vocabulary=self._signatures.vocabulary,
                corpus_tokens=self._counted.positions,
                table=table,
                engine=self._counted.engine,
                seed=seed,
            ),
            source=source,
            notes=(*self._counted.notes, *notes, *self._own_notes()),
            seconds=time.monotonic() - self._start,
        )

    def _checked(self, rows: np.ndarray) -> np.ndarray:
        count, rows = self._signatures.tokens.size, as_array(rows)
        if rows.ndim != 2 or rows.shape[0] != count:
            raise InputError(f"rows have shape {rows.shape}; expected ({count}, D), those of the counted tokens")
        rows = np.asarray(rows, dtype=np.float64 if rows.dtype == np.float64 else np.float32)
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            raise InputError(f"the embedding of token {self._names[int(bad.argmax())]!r} holds a value that is not finite")
        if self._kept and next(iter(self._kept.values())).shape != rows.shape:
            width = next(iter(self._kept.values())).shape[1]
            raise InputError(f"the table has {rows.shape[1]} columns, and at step {self._steps[0]} it had {width}")
        return rows

    def _keep(self, step: int, rows: np.ndarray) -> None:
        self._kept[step] = rows.copy()
        while len(self._kept) > 3 and len(self._kept) * rows.size > _MOST_KEPT:
            for dropped in list(self._kept)[1:-1:2]:
                del self._kept[dropped]

    def _own_notes(self) -> list[str]:
        notes = []
        if self._copies:
            first, step = self._copies[0]
            notes.append(
                f"the compared embeddings of steps {first:,} and {step:,} are equal to the last bit"
                + (f", and so are {len(self._copies) - 1} other pairs" if len(self._copies) > 1 else "")
                + ": nothing moved between them, or one table was recorded for both"
            )
        if len(self._steps) <= THRESHOLDS.stays:
            notes.append(f"{len(self._steps)} steps: a rise must stay for {THRESHOLDS.stays} checkpoints, so that hardly one can be seen")
        for order in self._signatures.orders:
            why = self._signatures.why_undefined(order)
            if why is not None:
                notes.append(f"order {order}: {why}")
        return notes

    def _chosen(self, most: int, stair: Stair) -> list[int]:
        """Steps of which copies are kept, evenly over them, with the first, the last, and the one nearest to the peak."""
        kept = list(self._kept)
        places = {round(at) for at in np.linspace(0, len(kept) - 1, min(most, len(kept)))}
        if stair.peak_step is not None:
            places.add(int(np.argmin(np.abs(np.array(kept) - stair.peak_step))))
        return [kept[place] for place in sorted(places)]

    def _gains(self, stair: Stair, *, seed: int) -> tuple[OrderGain, ...]:
        found = []
        for step in self._chosen(_GAINS, stair):
            for share in self._signatures.gains(self._kept[step], seed=seed):
                figures = np.array([share.r2, share.gain.value, share.gain.null])
                # Far worse than the mean: what fits some tokens says nothing of others.
                r2, gain, null = series_of(np.where((figures < -1.0).any(), np.nan, figures))
                found.append(OrderGain(step=step, order=share.order, r2=r2, gain=gain, null=null))
        return tuple(found)

    def _maps(self, stair: Stair) -> tuple[TokenMap, ...]:
        steps = self._chosen(3, stair)
        judged = self._signatures.judged
        copies = np.stack([self._kept[step][judged] for step in steps])
        return token_maps(np.array(steps), copies, [self._names[place] for place in judged], list(range(len(steps))))

    def _neighbors(self) -> tuple[TokenNeighbors, ...]:
        last = self._kept[self._steps[-1]]
        return tuple(
            TokenNeighbors(
                token=self._names[place],
                by_signature=tuple(self._names[near] for near in self._signatures.nearest(place, _NEIGHBORS)),
                by_embedding=tuple(self._names[near] for near in self._signatures.nearest(place, _NEIGHBORS, embedding=last)),
            )
            for place in self._counted.named
        )

    def _predicted(self) -> PredictedStair:
        rate = self._signatures.growth_rate
        if self._signatures.why_no_stair is not None:
            return PredictedStair(exists=False, reason=self._signatures.why_no_stair, growth_rate=rate)
        return PredictedStair(
            exists=True,
            reason="by the next tokens of the corpus, for a table that plain gradient descent trains from a small init; steps of other "
            "optimizers are not known",
            growth_rate=rate,
        )


def stair_record(stair: Stair, onsets: Sequence[int | None]) -> StairRecord:
    """A stair as a report holds it, with the onsets of the seeds, None for those that have none."""
    known = [onset for onset in onsets if onset is not None]
    return StairRecord(
        order=stair.order,
        onset=stair.onset,
        peak_step=stair.peak_step,
        peak=None if np.isnan(stair.peak) else stair.peak,
        decay=stair.decay,
        seeds=len(known),
        earliest=min(known, default=None),
        latest=max(known, default=None),
        note=stair.note,
    )
