"""Search an index with texts, pictures or vectors, and say of every hit how probable it is and whether to trust it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from normwise.core.errors import InputError
from normwise.core.index_records import IndexManifest
from normwise.data.contents import Content, Modality, content_words, modality_of
from normwise.data.documents import shown_text
from normwise.data.opening import user_path
from normwise.index.opening import open_index
from normwise.index.protocol import Found, Index, Where
from normwise.report.words import counted
from normwise.theory.calibration import Calibration
from normwise.theory.directions import exact_norms
from normwise.workflows.calibrate_directions import CalibrationSet
from normwise.workflows.search_calibration import Fitted, Searched, find_calibration
from normwise.workflows.search_directions import choose, first_modalities, judged, known_directions, without_foreign
from normwise.workflows.search_judging import Query, Shown, calibrated, uncalibrated
from normwise.workflows.search_model import UNKNOWN, encoder_of, model_hash, open_encoder
from normwise.workflows.search_queries import checked_contents
from normwise.workflows.search_result import SearchResult
from normwise.workflows.text_lengths import text_lengths

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder
    from normwise.models.inputs import Input


# A search is made again where the corpus has changed since the calibration was checked.
_TRIES = 3


@final
class Searcher:
    """An open index with the model that reads queries for it and the calibration that judges its hits.

    `open` makes one. Use it as a context, or close it.

    Example:
        `with Searcher.open("my-index") as searcher: result = searcher.search(["how do I sort a list?"], k=5)`
    """

    def __init__(
        self,
        index: Index,
        find: Callable[[], Fitted],
        *,
        name: str = "the index",
        model: str | Path | Encoder | None = None,
        task: str | None = None,
    ) -> None:
        self._task = task
        self._index, self._find, self._name, self._model = index, find, name, model
        self._corpus, self._fitted = _corpus_of(index), find()
        self._encoder: Encoder | None = None
        self._notes: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        index: str | Path | Index,
        *,
        model: str | Path | Encoder | None = None,
        calibration: str | Path | Calibration | CalibrationSet | None = None,
        url: str | None = None,
        task: str | None = None,
    ) -> Searcher:
        """Open an index for searching.

        Args:
            index: its folder, or an open index.
            model: what reads queries that are texts or pictures; None takes the one that the index names. It is opened on the first such
                query, and must have the hash that the index holds.
            calibration: a `calibration.json`, the folder of one, or a `Calibration`; None looks in the index's folder and in
                the model's. A calibration holds for one model, similarity, kind of search and corpus, and for one direction:
                of several, each hit is judged by that of its query's modality and its own.
            url: of the server, where the index has one with a password.
            task: of all queries, where calibrations of several tasks share a direction.

        Raises:
            InputError: no index, or a broken one; a named calibration that was fitted on something else. One that was only
                found is left out instead, and `why_not_calibrated` says why.
            WorkError: a server does not answer.
        """
        if calibration is not None and not isinstance(calibration, str | Path | Calibration | CalibrationSet):
            raise InputError(f"calibration is {calibration!r:.80}; expected a file, the folder of one, or a Calibration")
        if model is not None and not isinstance(model, str | Path) and not hasattr(model, "encode_queries"):
            raise InputError(f"model is {model!r:.80}; expected a folder, a hub id, or an open encoder")
        folder = user_path(index, what="index") if isinstance(index, str | Path) else None
        opened: Any = index if folder is None else open_index(folder, url=url)
        manifest: IndexManifest = opened.manifest
        beside = manifest.model_name if model is None else model if isinstance(model, str | Path) else model.name
        try:
            own = None
            if model is not None and manifest.model == UNKNOWN:
                model = open_encoder(model)  # opened at once, since a calibration may name it
                own = model_hash(model)
            place = str(beside) if beside else None

            def find() -> Fitted:
                now = Searched(opened.manifest, len(opened), index=folder, model=place, model_hash=own, at=url)
                return find_calibration(calibration, now)

            return cls(opened, find, name="the index" if folder is None else str(folder), model=model, task=task)
        except BaseException:
            if folder is not None:
                opened.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        words = "calibrated" if self.calibration is not None else "not calibrated"
        return f"Searcher({self._name!r}, {len(self):,} candidates, similarity={self.manifest.similarity}, {words})"

    @property
    def manifest(self) -> IndexManifest:
        """What the index is."""
        return self._index.manifest

    @property
    def calibration(self) -> Calibration | CalibrationSet | None:
        """What judges the hits, if anything does."""
        return self._fitted.calibration

    @property
    def why_not_calibrated(self) -> str:
        """Why no calibration judges the hits, and how to get one; empty where one does."""
        return self._fitted.why_not

    def search(self, queries: Sequence[Input] | np.ndarray, *, k: int = 10, where: Where | None = None) -> SearchResult:
        """Find the k best candidates of every query.

        With a calibration the index is searched as deep as the calibrator reads, and k hits of that are returned. A filter
        searches a part of the corpus, for which no calibration was fitted: hits then have no probability. Where the corpus has
        changed since the last search, the calibration is checked, or looked for, anew.

        Args:
            queries: B contents as `Encoder.encode_queries` takes them (a str is a text, a `pathlib.Path`, open PIL image or
                `Picture` a picture, a tuple both), or (B, D) raw vectors.
            k: >= 1; where the index has fewer, all are returned and a note says so.
            where: metadata that a hit must have, all of it, by equality.

        Returns:
            Columns of ids, scores, norms, probabilities and decisions; `found[row]` gives the hits of a query one by one.

        Raises:
            InputError: an empty text, a picture that cannot be opened, a named calibration that has not the direction of a query,
                a vector of another width or with a value that is not finite, k < 1, an unknown key of
                `where`, another model than the index's, `where` with a calibration that was named, or a corpus that has changed
                so that the named one does not hold any more.
            WorkError: a server does not answer.
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise InputError(f"k is {k!r:.40}; expected a whole number of at least 1")
        wanted, tries = int(k), 0
        while True:
            vectors, contents, lengths = self._asked(queries)
            kinds: list[Modality] | None = None if contents is None else [modality_of(content) for content in contents]
            fitted = self._applicable(where, lengths=lengths, kinds=kinds)
            found = self._index.search(vectors, k=self._depth(wanted, fitted), where=where)
            if not self._changed():
                break
            if (tries := tries + 1) == _TRIES:
                fitted = Fitted(None, why_not="the corpus changes while it is searched")
                break
        size = len(self)
        judgement = self._judgement(found, Query(exact_norms(vectors, name="queries"), lengths), fitted, kinds, shown=wanted)
        shown = judgement.shown
        notes = [*(self._notes if contents is not None else ()), *judgement.notes]
        if not where and wanted > size:
            notes.append(f"k is {wanted:,}, and the index has {counted(size, 'candidate')}: all of them are returned")
        ids, scores, norms = (np.take_along_axis(values, shown.places, axis=1) for values in (found.ids, found.scores, found.norms))
        return SearchResult(
            ids=ids,
            scores=scores,
            norms=norms,
            counts=np.minimum(found.counts, min(wanted, size)),
            similarity=self.manifest.similarity,
            probabilities=shown.probabilities,
            abstains=shown.abstains,
            reason_at=shown.reason_at,
            queries=None if contents is None else tuple(map(content_words, contents)),
            texts_of=self._texts if self.manifest.has_texts else None,
            why_not_calibrated=judgement.why_not,
            verdict=judgement.verdict,
            notes=tuple(notes),
        )

    def metadata(self, ids: Sequence[str]) -> list[Mapping[str, str | int | float | bool]]:
        """The metadata that candidates came with, by their ids; empty where there are none.

        Raises:
            InputError: an id is not there; WorkError: a server does not answer.
        """
        return self._index.metadata(ids)

    def close(self) -> None:
        """Let go of files and connections."""
        self._index.close()

    def _texts(self, ids: Sequence[str]) -> list[str | None]:
        """What people read of candidates: texts, and the words of pictures."""
        return [None if text is None else shown_text(text) for text in self._index.texts(ids)]

    def _judgement(self, found: Found, query: Query, fitted: Fitted, kinds: list[Modality] | None, *, shown: int) -> _Judgement:
        """Judge hits by the calibration of their direction."""
        calibration, size = fitted.calibration, len(self)
        if calibration is None:
            return _Judgement(uncalibrated(found, query, shown=shown, why=fitted.why_not), fitted.why_not)
        if isinstance(calibration, Calibration) and set(kinds or ()) <= {"text"} and self._task is None:
            return _Judgement(calibrated(found, query, calibration, shown=shown, candidates=size), "", _verdict_of(calibration))
        queries: list[Modality] = kinds or ["text"] * found.ids.shape[0]
        first = first_modalities(self._index, calibration, found)
        choice = choose(calibration, queries, first, task=self._task)
        made = judged(found, query, choice, shown=shown, candidates=size)
        if isinstance(calibration, CalibrationSet) and len(calibration.candidates) > 1:
            made = without_foreign(self._index, found, made, queries, first, choice)
        return _Judgement(made, choice.why_not, choice.verdict, tuple(choice.notes))

    def _changed(self) -> bool:
        """Whether the corpus is not the one that the calibration was checked for, which is then done anew."""
        now = _corpus_of(self._index)
        if now == self._corpus:
            return False
        self._fitted = self._find()
        self._corpus = now
        return True

    def _depth(self, k: int, fitted: Fitted) -> int:
        """How many hits to find: k, or as many as the calibration reads."""
        return k if fitted.calibration is None else max(k, min(fitted.calibration.depth_needed, max(len(self), 1)))

    def _applicable(self, where: Where | None, *, lengths: np.ndarray | None, kinds: list[Modality] | None) -> Fitted:
        """The calibration, where this search is one that it can read; `kinds` None where vectors ask."""
        calibration = self._fitted.calibration
        if calibration is None:
            return self._fitted
        words, place = "", self._fitted.place
        if where:
            words = f"where searches a part of the corpus, and {place} was fitted on all of it: index and calibrate that part"
        elif isinstance(calibration, Calibration) and kinds is not None and calibration.fingerprint.model == UNKNOWN:
            # A pipeline that normalizes, or another prompt, makes other norms of the same texts: nothing compares the two.
            words = (
                f"{place} was fitted on bare query vectors, and nothing tells whether the model makes the same of these "
                "texts: calibrate with --model on the index, or search with vectors"
            )
        elif isinstance(calibration, CalibrationSet) and kinds is None:
            words = f"{place} was fitted by direction ({calibration.known}), and vectors do not tell theirs: search with texts or pictures"
        elif kinds and (lacking := known_directions(calibration, kinds, task=self._task)) and (self._fitted.named or len(set(kinds)) == 1):
            words = f"{place} is {lacking}: calibrate on data with such queries"
        elif calibration.needs_lengths and (lengths is None or not self.manifest.has_lengths):
            lacking = "the index" if lengths is not None else "a query vector"
            words = f"{place} reads token counts, and {lacking} has none: search with texts, in an index of a model and data"
        if words and self._fitted.named:
            raise InputError(f"{words}; or leave calibration out, and hits have no probability")
        return Fitted(None, why_not=words) if words else self._fitted

    def _asked(self, queries: Sequence[Input] | np.ndarray) -> tuple[np.ndarray, tuple[Content, ...] | None, np.ndarray | None]:
        """Raw vectors of the queries, and their contents and token counts where no vectors came and somebody reads counts."""
        if isinstance(queries, np.ndarray) and queries.dtype.kind == "f":
            return queries, None, None
        contents = checked_contents(queries)
        if self._encoder is None:
            self._encoder, self._notes = encoder_of(self.manifest, self._model, index=self._name)
        vectors = self._encoder.encode_queries(contents, progress=False)
        reads = self.calibration is not None and self.calibration.needs_lengths
        return vectors, contents, text_lengths(self._encoder, contents) if reads else None


@dataclass(frozen=True)
class _Judgement:
    """Hits as they are shown, why none has a probability, why none has a threshold, and what to say of some."""

    shown: Shown
    why_not: str
    verdict: str = ""
    notes: tuple[str, ...] = ()


def _corpus_of(index: Index) -> tuple[int, str | None, str | None]:
    """What a calibration is checked against that may change under an open index."""
    manifest = index.manifest
    return len(index), manifest.corpus_texts, manifest.corpus_vectors


def _verdict_of(calibration: Calibration) -> str:
    """Why every hit abstains, where its calibration has no threshold."""
    return "" if calibration.threshold is not None else calibration.verdict.text
