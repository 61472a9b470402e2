"""Follow the embedding table over saved checkpoints, and say which orders of the signatures of a text it learned, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Literal

import numpy as np

from normwise.core.errors import InputError
from normwise.core.staircase_records import SeriesIntegrity, TrackReport
from normwise.core.strict import shown
from normwise.data.checkpoint_series import Checkpoint, open_series
from normwise.data.opening import kind_of, user_path
from normwise.data.series_gate import check_series
from normwise.data.token_files import TokenFiles, TokenReading, open_token_files, texts_among
from normwise.data.token_names import token_names, word_ids
from normwise.data.token_texts import TextDocuments, tokenizer_file, vocabulary_of
from normwise.data.trainer_history import told_history
from normwise.engine.order_counting import CountedOrders, OrderCounting, count_orders
from normwise.engine.token_counting import Counting
from normwise.training.stair_track import StairTrack
from normwise.workflows.staircase_page import page_place, write_page

Told = Callable[[str], None]

# Whose neighbors are told where nobody asks for others.
WORDS = (
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
)
# Tables are filled up to a multiple of some size, by a few percent; a smaller tokenizer is another model's.
_LEAST_FILLED = 0.9
# The largest vocabularies have a few million ids, the longest windows as many tokens.
_LARGEST = 1 << 24


@dataclass(frozen=True, kw_only=True)
class CorpusReading:
    """How a text is read and counted; see `TokenReading`, `OrderCounting` and `Counting` for what each field does.

    Args:
        tokenizer: tokenizer.json of texts, or the folder that holds one.
        vocabulary: V; None = the tokenizer's, or the rows of the table that is tracked.
        end: the id that ends a document.
        dtype: of `.bin` and `.dat` files.
        column: of parquet files.
        documents: of texts, "lines" or "paragraphs".
        orders: of 0, 1 and 2.
        tokens: N, the most frequent tokens that are compared; None = 200.
        window: tokens before a position that orders 1 and 2 look at; None = all of the document.
        words: whose neighbors are told; None = weekdays and numbers, those that there are.
        engine: "local" or "ray".
        workers: processes that count, 1 in this one; None = all cores, for which a script needs its `if __name__ == "__main__"`.
        folder: where progress is kept; None keeps none.
        resume: go on with what it holds.
        recount: throw away what it holds.
        seed: of sketches, folds and permutations.
    """

    tokenizer: str | Path | None = None
    vocabulary: int | None = None
    end: int | None = None
    dtype: str | None = None
    column: str | None = None
    documents: TextDocuments | None = None
    orders: Sequence[int] = (0, 1)
    tokens: int | None = None
    window: int | None = None
    words: Sequence[str] | None = None
    engine: Literal["local", "ray"] = "local"
    workers: int | None = 1
    folder: Path | None = None
    resume: bool = False
    recount: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("vocabulary", 1), ("end", 0), ("tokens", None), ("window", None), ("workers", 1)):
            value = getattr(self, name)
            if value is not None:
                _check_whole(name, value, least)
        _check_whole("seed", self.seed, 0)
        for name in ("orders", "words"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
                raise InputError(f"{name} is {shown(value)}; expected a tuple, such as {(0, 1) if name == 'orders' else ('one', 'two')}")
        for order in self.orders:
            _check_whole("an order", order, None)
        if self.folder is None and (self.resume or self.recount):
            raise InputError("resume and recount are about counts that are kept, and no folder for them is named: name one (--progress)")


def count_signatures(
    corpus: str | Path | Sequence[str | Path], settings: CorpusReading | None = None, *, told: Told | None = None
) -> CountedOrders:
    """Count the signatures of a text or of token files, for a `StaircaseCallback` or a `StairTrack`.

    Args:
        corpus: paths or globs: text (with a tokenizer), .npy, .bin, .dat, .parquet.
        settings: how; None = texts are refused, since they need a tokenizer.
        told: gets lines on the progress.

    Raises:
        InputError: a file, a setting or a word that does not fit.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/ids.npy", np.arange(400, dtype=np.uint16) ** 2 % 23)
        ...     found = count_signatures(f"{folder}/ids.npy", CorpusReading(vocabulary=23, tokens=5, workers=1))
        >>> found.signatures.orders, found.positions
        ((0, 1), 400)
    """
    settings = settings or CorpusReading()
    return _count(_opened(corpus, settings, settings.vocabulary), settings, tokenizer=_tokenizer(settings.tokenizer), told=told)


def staircase_track(
    checkpoints: str | Path,
    corpus: str | Path | Sequence[str | Path],
    settings: CorpusReading | None = None,
    *,
    table: str | None = None,
    leave_out: Collection[int] = (),
    report: str | Path | None = None,
    overwrite: bool = False,
    told: Told | None = None,
) -> TrackReport:
    """Compare the embedding tables of saved checkpoints with signatures of a text, after the checkpoints themselves were checked.

    Args:
        checkpoints: the folder that holds them, each with its step in its name; `.safetensors`, read raw.
        corpus: the text that was trained on, or one like it; see `count_signatures`.
        settings: how it is read; of texts the tokenizer beside the checkpoints is taken where none is named.
        table: the tensor's name; None finds it.
        leave_out: steps to pass over.
        report: where to write the HTML page; None writes none.
        overwrite: replace an earlier page at `report`.
        told: gets lines on the progress.

    Returns:
        The report; its verdict is about the lowest order that was asked for.

    Raises:
        InputError: copies among the checkpoints, checkpoints in the wrong order or from another training (they are named), a bad
            file, a vocabulary that does not fit the table, a corpus that is shorter than the window.
    """
    settings, told = settings or CorpusReading(), told or (lambda line: None)
    page = page_place(report, overwrite=overwrite)
    folder = user_path(checkpoints, what="checkpoints")
    if isinstance(leave_out, str) or not isinstance(leave_out, Collection):
        raise InputError(f"leave_out is {shown(leave_out)}; expected steps, such as (100, 200)")
    series = open_series(folder, table=table, leave_out=leave_out)
    vocabulary, width = series[0].rows.shape
    tokenizer = _tokenizer_of(folder, series, settings)
    _check_vocabulary(vocabulary, tokenizer, settings)
    files = _opened(corpus, replace(settings, tokenizer=tokenizer), vocabulary)
    told(
        f"{len(series)} checkpoints, steps {series[0].step:,} to {series[-1].step:,}, table {series[0].table} of {vocabulary:,} x {width:,}"
    )
    checked = check_series(series)
    counted = _count(files, settings, tokenizer=tokenizer, told=told)
    track = StairTrack(counted)
    losses, accuracies = told_history(series)
    for checkpoint, loss, accuracy in zip(series, losses, accuracies, strict=True):
        rows = np.asarray(checkpoint.rows[counted.signatures.tokens])
        try:
            track.record_rows(checkpoint.step, rows, loss=loss, accuracy=accuracy)
        except InputError as error:
            raise InputError(f"{checkpoint.path}: {error}") from None
    found = track.report(
        source=f"{folder.name}, {len(series)} checkpoints",
        table=series[0].table,
        integrity=SeriesIntegrity(duplicates=checked.duplicates, gaps=checked.gaps, jumps=checked.jumps),
        notes=checked.notes,
        seed=settings.seed,
    )
    return write_page(found, page)


def _check_whole(name: str, value: object, least: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not (-_LARGEST if least is None else least) <= int(value) <= _LARGEST:
        told = "a whole number" if least is None else f"a whole number of at least {least}"
        raise InputError(f"{name} is {shown(value)}; expected {told}, {_LARGEST:,} at most")


def _opened(corpus: str | Path | Sequence[str | Path], settings: CorpusReading, vocabulary: int | None) -> TokenFiles:
    texts = texts_among(corpus)
    if texts and settings.tokenizer is None:
        raise InputError(f"{texts[0]} is text, whose tokens a tokenizer makes: name its tokenizer.json (--tokenizer)")
    return open_token_files(
        corpus,
        TokenReading(
            vocabulary=vocabulary,
            end=settings.end,
            dtype=settings.dtype,
            column=settings.column,
            tokenizer=settings.tokenizer if texts else None,
            documents=settings.documents,
        ),
    )


def _count(files: TokenFiles, settings: CorpusReading, *, tokenizer: Path | None, told: Told | None) -> CountedOrders:
    names = {} if tokenizer is None else token_names(tokenizer)
    words = WORDS if settings.words is None else tuple(settings.words)
    known = word_ids(words, names)
    lost = [word for word in words if word not in known and settings.words is not None]
    if lost and not names:
        raise InputError(f"words names {lost[0]!r}, and the tokens have no names: give their tokenizer")
    if lost and not known:
        raise InputError(
            f"words names {lost[0]!r}, which is no token of {tokenizer}, nor are the others: name words that are one token each"
        )
    asked = OrderCounting(
        orders=settings.orders, tokens=settings.tokens, window=settings.window, named=tuple(known.values()), seed=settings.seed
    )
    counting = Counting(
        engine=settings.engine, workers=settings.workers, folder=settings.folder, resume=settings.resume, overwrite=settings.recount
    )
    try:
        found = count_orders(files, asked, counting)
    except InputError as error:
        if settings.folder is None:
            raise
        # Folders of other commands have other names for the same ways out.
        raise InputError(str(error).replace("--overwrite", "--recount").replace("--out", "--progress")) from None
    notes = list(found.notes)
    if lost:
        notes.append(f"no token of their own have {', '.join(map(repr, lost))}: their neighbors are not told")
    if settings.documents is None and "text" in files.kinds:
        notes.append("each line of the text is a document, without its newline; --documents paragraphs makes other ones")
    found = replace(found, notes=tuple(notes))
    if told is not None:
        orders = ", ".join(str(order) for order in settings.orders)
        told(f"{found.positions:,} tokens counted; signatures of {found.signatures.judged.size:,} tokens, orders {orders}")
    return found.named_by(names)


def _tokenizer(given: str | Path | None) -> Path | None:
    return None if given is None else tokenizer_file(user_path(given, what="tokenizer")).absolute()


def _tokenizer_of(folder: Path, series: Sequence[Checkpoint], settings: CorpusReading) -> Path | None:
    """The tokenizer that is named, else one beside the last checkpoint's weights, or beside the checkpoints."""
    if settings.tokenizer is not None:
        return _tokenizer(settings.tokenizer)
    places = [series[-1].path / "tokenizer.json", folder / "tokenizer.json", folder.parent / "tokenizer.json"]
    return next((place for place in places if kind_of(place) == "file"), None)


def _check_vocabulary(rows: int, tokenizer: Path | None, settings: CorpusReading) -> None:
    if settings.vocabulary is not None and settings.vocabulary != rows:
        raise InputError(f"vocabulary is {settings.vocabulary:,}, and the table has {rows:,} rows; leave it out: it is the table's")
    if tokenizer is None:
        return
    own = vocabulary_of(tokenizer)
    if own > rows or own < _LEAST_FILLED * rows:
        raise InputError(
            f"{tokenizer} has {own:,} tokens, and the table {rows:,} rows: it is not this table's tokenizer; name the right one with "
            "--tokenizer"
        )
