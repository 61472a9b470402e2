"""The staircase of a small language model on real text: alignment of its embeddings with what follows each word, over several seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from normwise.core.staircase_records import (
    BeyondOrderZero,
    SeedStairsRecord,
    Series,
    StaircaseReport,
    StaircaseSettings,
    StaircaseThresholds,
    StaircaseVerdict,
    TrackReport,
    series_of,
)
from normwise.data.running_text import RunningText, installed_text, running_text_from
from normwise.engine.order_counting import CountedOrders, OrderCounting, orders_of_stream
from normwise.theory.stairs import Stair
from normwise.theory.token_stream import TokenStream
from normwise.training.stair_track import StairTrack, stair_record
from normwise.training.stair_track_verdict import OWN, THRESHOLDS, order_words, plain, stream_stair
from normwise.training.staircase_language import LanguageRun, LanguageSeries, train_language
from normwise.training.staircase_text import split_text
from normwise.workflows.staircase_parts import integrity_of
from normwise.workflows.staircase_verdict import SHARE, needed

VOCABULARY = 4096
# Docstrings have hardly a weekday or a month; a text of one's own may.
WORDS = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *"0123456789",
)
_ORDERS = (0, 1)
_SAID = {
    "early-peak": "peaks early, and then falls to a level above its null,",
    "late-peak": "peaks after the first quarter of the steps, and then falls to a level above its null,",
    "no-decay": "rises above its null, and does not fall so far,",
    "faded": "rises, and falls back to its null,",
    "frequency-only": "goes no further than how often words occur",
    "risen-before": "is above its null from the first checkpoint on",
    "no-stair": "does not rise above its null",
}
_FEW_SEEDS = 5

Told = Callable[[str], None]


def text_staircase(
    corpus: str | Path | Sequence[str | Path] | None,
    run: LanguageRun,
    *,
    seeds: Sequence[int],
    vocabulary: int = VOCABULARY,
    told: Told | None = None,
) -> StaircaseReport:
    """Train a decoder on running text with several seeds, and compare its embeddings with signatures of the text that it trains on.

    Order 0 is the law of the next word; order 1 that of the next word with one that stood before it, in the window of the network. The
    200 most frequent words are compared.

    Args:
        corpus: .txt or .md files; None = docstrings of what is installed.
        run: settings of the training.
        seeds: two or more.
        vocabulary: V, words that have an id.
        told: gets lines on the progress.

    Returns:
        The report: means over seeds; each seed's onsets; no task is "learned", so that `task` is None everywhere.

    Raises:
        InputError: a text that is too short or broken; WorkError: a loss that is not finite.
    """
    told = told or (lambda line: None)
    text = installed_text(vocabulary=vocabulary) if corpus is None else running_text_from(corpus, vocabulary=vocabulary)
    counted = text_signatures(text, window=run.length)
    told(f"{counted.positions:,} words to train on; {len(seeds)} seeds of {run.steps} steps")
    series: list[LanguageSeries] = []
    reports: list[TrackReport] = []
    for seed in seeds:
        found, report = follow_seed(text, counted, run, seed=seed)
        series.append(found)
        reports.append(report)
        told(f"seed {seed}: loss {found.loss[-1]:.3f} (by frequency {found.unigram:.3f}, by the word before {found.bigram:.3f})")
    return _report(text, run, series=series, reports=reports, tokens=counted.signatures.judged.size)


def text_signatures(text: RunningText, *, window: int) -> CountedOrders:
    """Count orders 0 and 1 of the documents of a text that are trained on.

    Args:
        text: any.
        window: words before a position that order 1 looks at; all of a document where none is so long.
    """
    split = split_text(text.ids, end=text.end, vocabulary=len(text.words))
    known = set(text.words)
    named = tuple(int(place) for place in text.ids_of([word for word in WORDS if word in known]))
    stream = TokenStream(split.train, vocabulary=len(text.words), end=text.end)
    asked = OrderCounting(orders=_ORDERS, window=window if stream.longest >= window else None, named=named)
    return orders_of_stream(stream, asked, names=dict(enumerate(text.words)))


def follow_seed(text: RunningText, counted: CountedOrders, run: LanguageRun, *, seed: int) -> tuple[LanguageSeries, TrackReport]:
    """Train one seed, and compare its embeddings at each checkpoint."""
    found = train_language(text.ids, run, end=text.end, vocabulary=len(text.words), seed=seed, watch=counted.signatures.tokens)
    track = StairTrack(counted)
    for step, rows, loss, accuracy in zip(found.steps, found.embedding, found.loss, found.accuracy, strict=True):
        track.record_rows(int(step), rows, loss=float(loss), accuracy=float(accuracy))
    return found, track.report()


def _report(
    text: RunningText, run: LanguageRun, *, series: Sequence[LanguageSeries], reports: Sequence[TrackReport], tokens: int
) -> StaircaseReport:
    steps = series[0].steps
    onsets = [[report.stairs[order].onset for report in reports] for order in _ORDERS]
    first, beyond = reports[0], _beyond(reports)
    return StaircaseReport(
        verdict=text_verdict(reports, beyond=beyond, series=series),
        steps=tuple(int(step) for step in steps),
        loss=_mean([report.loss for report in reports]),
        accuracy=_mean([report.accuracy for report in reports]),
        alignment={str(order): _mean([report.alignment[str(order)] for report in reports]) for order in _ORDERS},
        null={str(order): _mean([report.null[str(order)] for report in reports]) for order in _ORDERS},
        spread={
            "loss": _spread([report.loss for report in reports]),
            "accuracy": _spread([report.accuracy for report in reports]),
            **{f"alignment_{order}": _spread([report.alignment[str(order)] for report in reports]) for order in _ORDERS},
        },
        rule="pearson",
        stairs=tuple(stair_record(_mean_stair(reports, order)[0], onsets[order]) for order in _ORDERS),
        stairs_by_seed=tuple(
            SeedStairsRecord(
                seed=each.seed,
                order_0=zero,
                order_1=one,
                task=None,
                in_order=zero is not None and one is not None and zero < one,
            )
            for each, zero, one in zip(series, *onsets, strict=True)
        ),
        integrity=integrity_of(steps, np.stack([each.embedding for each in series])),
        predicted=first.predicted,
        maps=first.maps,
        neighbors=first.neighbors,
        beyond_order_0=beyond,
        thresholds=StaircaseThresholds(rise=THRESHOLDS.rise, stays=THRESHOLDS.stays, learned=None, share=SHARE, own=OWN),
        settings=StaircaseSettings(
            task="text",
            modulus=None,
            vocabulary=len(text.words),
            labels=len(text.words),
            model=f"decoder of {run.layers} layers",
            width=run.width,
            gamma=run.gamma,
            optimizer="adamw",
            learning_rate=run.learning_rate,
            steps=run.steps,
            seeds=tuple(each.seed for each in series),
        ),
        source=f"{text.documents:,} documents, {text.ids.size:,} words, {len(text.words):,} of them known; the {tokens} most frequent",
        notes=(*text.notes, *_notes(reports, series)),
    )


def text_verdict(
    reports: Sequence[TrackReport], *, beyond: Sequence[BeyondOrderZero], series: Sequence[LanguageSeries] = ()
) -> StaircaseVerdict:
    """Judge order 0 over the seeds: the word that `SHARE` of them have, else "mixed"; "early-peak" is what the paper saw.

    Args:
        reports: one per seed.
        beyond: what order 1 adds.
        series: of the same seeds, for what the network learned at all.
    """
    labels = Counter(report.verdict.label for report in reports)
    label, count = labels.most_common(1)[0]
    seeds = len(reports)
    told = ", ".join(f"{name} in {number}" for name, number in labels.most_common())
    word = label if count >= needed(seeds) else "mixed"
    words = [order_words(*_mean_stair(reports, order)) for order in _ORDERS]
    falls = [(report.stairs[0].decay or 0.0) for report in reports if report.stairs[0].onset is not None]
    said = f"Alignment with the next word {_SAID[label]} in {count} of {seeds} seeds"
    first = f"The seeds differ: {told} of {seeds}" if word == "mixed" else said
    rest = "" if word == "mixed" or count == seeds else f" By seed: {told}."
    text = f"{first}.{rest} Mean over seeds: {' '.join(words)}"
    if falls:
        text += f" From its peak to the last step order 0 falls by {min(falls):.3f} to {max(falls):.3f}; {THRESHOLDS.falls:g} counts."
    rows = [row for row in beyond if row.gain is not None and row.null is not None]
    if rows:
        last = rows[-1]
        text += f" At step {last.step:,} order 1 adds {plain(last.gain)} of R^2 to order 0 (null {plain(last.null)}); {OWN:g} would count."
    if series:
        loss = np.mean([each.loss[-1] for each in series])
        frequency, before = series[0].unigram, series[0].bigram
        text += f" Held-out loss at the end {loss:.3f}; by frequency alone {frequency:.3f}, by the word before {before:.3f}."
    return StaircaseVerdict(label=word, text=text)


def _mean_stair(reports: Sequence[TrackReport], order: int) -> tuple[Stair, np.ndarray]:
    """The stair of an order in the mean series over seeds, and that series less its null."""
    name = str(order)
    alignment, null, spread = (
        np.mean([_known(getattr(report, field)[name]) for report in reports], axis=0) for field in ("alignment", "null", "spread")
    )
    return stream_stair(np.array(reports[0].steps), alignment, null, spread, order=order), alignment - null


def _beyond(reports: Sequence[TrackReport]) -> tuple[BeyondOrderZero, ...]:
    """Means over seeds at the steps that gains of all seeds have."""
    by_seed = [{(row.step, row.order): row for row in report.gains} for report in reports]
    steps = sorted(set.intersection(*({step for step, _ in rows} for rows in by_seed)))
    found = []
    for step in steps:
        zero = series_of(np.array([_nan_mean([rows[step, 0].r2 for rows in by_seed])]))[0]
        gain, null = (series_of(np.array([_nan_mean([getattr(rows[step, 1], name) for rows in by_seed])]))[0] for name in ("gain", "null"))
        found.append(BeyondOrderZero(step=step, r2_order_0=zero, gain=gain, null=null))
    return tuple(found)


def _notes(reports: Sequence[TrackReport], series: Sequence[LanguageSeries]) -> tuple[str, ...]:
    last = [report.norm_frequency[-1] for report in reports if report.norm_frequency and report.norm_frequency[-1] is not None]
    notes = [
        f"a rise is also {THRESHOLDS.spreads:g} standard deviations of its null above it",
        "what frequency of the two words explains stands before order 0, and is part of its R^2",
    ]
    if last:
        notes.append(f"length of embeddings and frequency of words correlate (Spearman) by {min(last):.2f} to {max(last):.2f} at the end")
    if len(series) < _FEW_SEEDS:
        notes.append(f"{len(series)} seeds: seeds differ, and a verdict over fewer than {_FEW_SEEDS} is a hint")
    return tuple(notes)


def _known(series: Series) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in series], dtype=np.float64)


def _mean(rows: Sequence[Series]) -> Series:
    return series_of(np.mean([_known(row) for row in rows], axis=0))


def _spread(rows: Sequence[Series]) -> Series:
    return series_of(np.std([_known(row) for row in rows], axis=0, ddof=1))


def _nan_mean(values: Sequence[float | None]) -> float:
    return float(np.mean([np.nan if value is None else value for value in values]))
