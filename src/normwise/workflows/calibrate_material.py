"""What a calibration is made from: a model or bare vectors, each asked the judged queries once in an exact search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.calibration_records import Fingerprint
from normwise.core.contents_hash import contents_hash
from normwise.core.errors import InputError, MissingExtraError
from normwise.core.similarity import Similarity
from normwise.data.contents import Content
from normwise.data.documents import indexed_text
from normwise.data.texts import printable
from normwise.data.vectors import load_vectors
from normwise.index.row_hashes import vectors_hash
from normwise.theory.hit_lists import JudgedHits
from normwise.workflows.calibrate_data import Asked, rows_in_folder
from normwise.workflows.calibrate_hits import Searched, judge_hits, search_vectors
from normwise.workflows.text_lengths import text_lengths

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

VECTORS = "vectors"
# From row of the query and place of the hit to the hit's id and content.
Describe = Callable[[int, int], tuple[str, Content]]
WORDS_COUNTED = (
    "lengths are words between blanks, for want of a tokenizer: they serve as controls, and no confidence that reads them can be chosen"
)


@dataclass(frozen=True)
class Material:
    """Judged hits of all queries, and what they are tied to.

    `describe` gives the id and the content of the hit at (row of the query, place). `vectors` are those of queries and
    candidates, where the candidates are at hand. `lengths` are those of queries (B,) and of the corpus (N,), NaN for what is
    no text. `lengths_at_search` says whether a later search knows token counts.
    """

    name: str
    judged: JudgedHits
    found: Searched
    similarity: Similarity
    temperature: float | None
    fingerprint: Fingerprint
    lengths_at_search: bool
    describe: Describe
    vectors: tuple[np.ndarray, np.ndarray] | None
    lengths: tuple[np.ndarray, np.ndarray]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class AskHow:
    """How queries are asked: tau of the training loss if known, hits per query, seed, and how texts are encoded."""

    temperature: float | None = None
    depth: int | None = None
    seed: int = 0
    batch_size: int = 64
    progress: bool | None = False


def open_encoder(model: str | Path | Encoder, *, trust_remote_code: bool = False) -> tuple[Encoder, list[str]]:
    """Open a model as its contract says; what it would warn of comes as notes."""
    if not isinstance(model, str | Path):
        return model, []
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", extra="train")
    from normwise.models.encoder import Encoder

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = Encoder.load(model, trust_remote_code=trust_remote_code)
    prefix = f"{encoder.name}: "
    ours = [str(each.message).removeprefix(prefix) for each in caught if str(each.message).startswith(prefix)]
    for each in caught:
        if not str(each.message).startswith(prefix):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return encoder, ours


def known_temperature(encoder: Encoder, given: float | None) -> float | None:
    """The temperature of the training loss: that of the contract, else what the user says.

    Raises:
        InputError: the user says another than the contract.
    """
    own = encoder.contract.temperature
    if own is not None and given is not None and given != own:
        raise InputError(f"temperature {given:g} contradicts the model's contract, which says {own:g}: leave it out")
    return given if own is None else own


def ask_model(encoder: Encoder, asked: Asked, how: AskHow) -> Material:
    """Encode queries and candidates, and search exactly under the model's similarity."""
    from normwise.models.fingerprint import model_fingerprint

    judged = asked.judged
    candidates = encoder.encode_candidates(judged.corpus.contents, batch_size=how.batch_size, progress=how.progress)
    queries = encoder.encode_queries(judged.queries, batch_size=how.batch_size, progress=how.progress)
    found, notes = search_vectors(queries, candidates, asked, similarity=encoder.similarity, depth=how.depth)
    lengths = text_lengths(encoder, judged.queries), text_lengths(encoder, judged.corpus.contents)
    hits = judge_hits(found, asked, similarity=encoder.similarity, query_lengths=lengths[0], candidate_lengths=lengths[1], seed=how.seed)
    return Material(
        name=printable(encoder.name),
        judged=hits,
        found=found,
        similarity=encoder.similarity,
        temperature=how.temperature,
        fingerprint=_fingerprint_of(model_fingerprint(encoder), encoder.similarity, found, asked, candidates),
        lengths_at_search=True,
        describe=_from_corpus(found, asked),
        vectors=(queries, candidates),
        lengths=lengths,
        notes=tuple(notes),
    )


def ask_vectors(
    files: tuple[str | Path, str | Path],
    asked: Asked,
    data: str | Path,
    similarity: Similarity,
    how: AskHow,
) -> Material:
    """Search bare vectors exactly; their rows are those of queries.jsonl and corpus.jsonl of the data.

    Raises:
        InputError: row counts differ from those files, a value is not finite, or widths differ; the message names the file.
    """
    queries, candidates = given_vectors(files, asked, data)
    try:
        found, notes = search_vectors(queries, candidates, asked, similarity=similarity, depth=how.depth)
    except InputError as error:
        raise InputError(f"{error} (queries: {files[0]}, candidates: {files[1]})") from None
    lengths = word_counts(asked.judged.queries), word_counts(asked.judged.corpus.contents)
    hits = judge_hits(found, asked, similarity=similarity, query_lengths=lengths[0], candidate_lengths=lengths[1], seed=how.seed)
    return Material(
        name=name_of(files),
        judged=hits,
        found=found,
        similarity=similarity,
        temperature=how.temperature,
        fingerprint=_fingerprint_of(VECTORS, similarity, found, asked, candidates),
        lengths_at_search=False,
        describe=_from_corpus(found, asked),
        vectors=(queries, candidates),
        lengths=lengths,
        notes=(*notes, WORDS_COUNTED),
    )


def given_vectors(files: tuple[str | Path, str | Path], asked: Asked, data: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Read bare vectors of queries and candidates, and put their rows in the order of `asked`.

    Raises:
        InputError: as `ask_vectors`.
    """
    query_rows, corpus_rows, query_count, corpus_count = rows_in_folder(asked, data)
    all_queries, all_candidates = load_vectors(files[0]), load_vectors(files[1])
    swapped = (all_queries.shape[0], all_candidates.shape[0]) == (corpus_count, query_count) != (query_count, corpus_count)
    hint = "; the two files look swapped: queries come first" if swapped else "; give one row for each line, in its order"
    for file, vectors, name, count in (
        (files[0], all_queries, "queries.jsonl", query_count),
        (files[1], all_candidates, "corpus.jsonl", corpus_count),
    ):
        if vectors.shape[0] != count:
            raise InputError(f"{file} has {vectors.shape[0]:,} rows, and {Path(data) / name} has {count:,}{hint}")
    return np.asarray(all_queries[query_rows]), np.asarray(all_candidates[corpus_rows])


def name_of(files: tuple[str | Path, str | Path]) -> str:
    """What a report calls two files of bare vectors."""
    return printable(f"{Path(files[0]).name} x {Path(files[1]).name}")


def word_counts(contents: Sequence[Content]) -> np.ndarray:
    """(N,) words between blanks of each text; NaN for what is no text."""
    return np.array([len(each.split()) if isinstance(each, str) else np.nan for each in contents], dtype=np.float64)


def _fingerprint_of(model: str, similarity: Similarity, found: Searched, asked: Asked, candidates: np.ndarray) -> Fingerprint:
    corpus = asked.judged.corpus
    return Fingerprint(
        model=model,
        similarity=similarity.value,
        search="exact",
        candidates=found.candidates,
        corpus_texts=contents_hash(
            (name, indexed_text(content).encode("utf-8")) for name, content in zip(corpus.ids, corpus.contents, strict=True)
        ),
        corpus_vectors=vectors_hash(corpus.ids, candidates),
        depth=found.depth,
    )


def _from_corpus(found: Searched, asked: Asked) -> Describe:
    corpus = asked.judged.corpus

    def describe(row: int, place: int) -> tuple[str, Content]:
        at = int(found.rows[row, place])
        return corpus.ids[at], corpus.contents[at]

    return describe
