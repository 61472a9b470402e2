"""What norms are worth on judged data: re-ranking by their powers and confidence in the top hit, with length held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.config import DataConfig
from normwise.core.errors import InputError, MissingExtraError
from normwise.core.norm_records import Usefulness
from normwise.core.records import Interval
from normwise.core.usefulness_records import Confidence, UsefulnessReport
from normwise.data.contents import Content
from normwise.data.load import load_to_judge
from normwise.data.own_pictures import as_ranked
from normwise.data.sets import Judged, RetrievalData
from normwise.data.settings import data_settings, is_training_config
from normwise.data.splits import cut
from normwise.data.texts import printable
from normwise.theory.directions import exact_norms
from normwise.theory.norm_confidence import TopHits, norm_confidence
from normwise.theory.norm_reranking import JudgedVectors, norm_reranking
from normwise.theory.search import exact_top_k
from normwise.workflows.text_lengths import text_lengths

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder


@dataclass(frozen=True)
class LoadedSet:
    """A set to judge on, cut to the limits; `candidates` are the ids of all candidates before the cut, in the set's order.

    `roots` are the folders that a built-in set was read from, None for the usual places: its factors come from there too.
    """

    data: RetrievalData
    notes: tuple[str, ...]
    candidates: tuple[str, ...]
    roots: tuple[str, ...] | None = None


@dataclass(frozen=True)
class JudgedSet:
    """Queries as vectors with judgements, clusters, and how many tokens each has where that is known."""

    vectors: np.ndarray
    judged: Judged
    tokens: np.ndarray | None = None

    @property
    def for_ranking(self) -> JudgedVectors:
        """The same without texts, as the theory takes it."""
        return JudgedVectors(self.vectors, self.judged.relevance, self.judged.clusters)


@dataclass(frozen=True)
class EncodedSet:
    """A set whose candidates and queries stand ready as raw vectors; `tokens` and `popularity` of candidates are None where unknown."""

    name: str
    model: str
    candidates: np.ndarray
    test: JudgedSet
    dev: JudgedSet | None
    tokens: np.ndarray | None
    popularity: np.ndarray | None
    notes: tuple[str, ...]


def measure_usefulness(
    model: str | Path | Encoder,
    data: str | Path | RetrievalData | Judged,
    *,
    limit_queries: int | None = None,
    limit_candidates: int | None = None,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool | None = False,
) -> UsefulnessReport:
    """Measure on judged queries whether the norms of a model's vectors help to rank or to trust a top hit.

    Figures are of the test queries. The exponents of re-ranking are chosen on dev queries where these search the same
    candidates, else by cross-validation over clusters; confidences are cross-validated over clusters.

    Args:
        model: a folder, a hub id or an open encoder.
        data: a built-in set, a path, a hub id, loaded data, or one set of judged queries; as `evaluate` takes it.
        limit_queries: at most so many queries of each split, drawn by `seed`.
        limit_candidates: at most so many candidates; those that are relevant to a kept query always stay.
        seed: of cuts, folds, permutations and the bootstrap.
        batch_size: texts per forward pass.
        progress: show bars; None shows them on a terminal only.

    Returns:
        The report; its `summary` is what `judge` takes as `usefulness`.

    Raises:
        InputError: an unknown name, no test query with a relevant candidate, fewer than 30 candidates, or bad content.

    Example:
        `measure_usefulness("all-MiniLM-L6-v2", "python-docs", limit_queries=400, limit_candidates=1500).reranking.words`
    """
    loaded = load_judged(data, limit_queries=limit_queries, limit_candidates=limit_candidates, seed=seed)
    encoder, model_notes = _open(model)
    encoded = encode_set(encoder, loaded, batch_size=batch_size, progress=progress)
    return usefulness_of_set(encoded, notes=model_notes, seed=seed)


def encode_set(encoder: Encoder, loaded: LoadedSet, *, batch_size: int = 64, progress: bool | None = False) -> EncodedSet:
    """Encode the candidates and queries of a set, texts and pictures alike.

    Dev queries choose exponents where they search the same candidates as those of test; else they are not encoded.

    Raises:
        InputError: the model does not read what the set has.
    """
    test, notes = _test_of(loaded.data), list(loaded.notes)
    candidates = encoder.encode_candidates(test.corpus.contents, batch_size=batch_size, progress=progress)

    def encoded(judged: Judged) -> JudgedSet:
        vectors = encoder.encode_queries(judged.queries, batch_size=batch_size, progress=progress)
        return JudgedSet(vectors, judged, _lengths(encoder, judged.queries))

    dev = loaded.data.dev
    if dev is not None and dev.usable and dev.corpus is not test.corpus and dev.corpus != test.corpus:
        notes.append("dev queries search other candidates than test queries, so exponents are chosen by cross-validation")
        dev = None
    return EncodedSet(
        name=loaded.data.name,
        model=encoder.name,
        candidates=candidates,
        test=encoded(test),
        dev=encoded(dev) if dev is not None and dev.usable else None,
        tokens=_lengths(encoder, test.corpus.contents),
        popularity=_popularity(loaded.data, test),
        notes=(*as_ranked(loaded.data.notes), *notes),
    )


def usefulness_of_set(encoded: EncodedSet, *, notes: Sequence[str] = (), seed: int = 0) -> UsefulnessReport:
    """Measure on an encoded set what its norms are worth; see `measure_usefulness`."""
    report = usefulness_of_vectors(
        encoded.candidates,
        encoded.test,
        choosing=encoded.dev,
        tokens=encoded.tokens,
        popularity=encoded.popularity,
        seed=seed,
    )
    return report.model_copy(
        update={
            "model": printable(encoded.model),
            "data": encoded.name,
            "split": "test",
            "notes": (*encoded.notes, *notes, *report.notes),
        }
    )


def usefulness_of_vectors(
    candidates: np.ndarray,
    reported: JudgedSet,
    *,
    choosing: JudgedSet | None = None,
    tokens: np.ndarray | None = None,
    popularity: np.ndarray | None = None,
    seed: int = 0,
) -> UsefulnessReport:
    """Measure the same on vectors that are at hand.

    Args:
        candidates: (N, D) raw vectors, in the order of the corpus.
        reported: queries that the figures are of.
        choosing: queries over the same candidates that choose exponents.
        tokens: (N,) token counts of the candidates; None leaves length uncontrolled, and notes and outcomes say so.
        popularity: (N,) training counts of the candidates.
        seed: of folds, permutations and the bootstrap.

    Returns:
        A report without names.

    Raises:
        InputError: as `norm_reranking`.
    """
    hits, controls, notes = _top_hits(candidates, reported, tokens=tokens, popularity=popularity)
    reranking = norm_reranking(
        candidates,
        reported.for_ranking,
        choosing=None if choosing is None else choosing.for_ranking,
        tokens=tokens,
        popularity=popularity,
        seed=seed,
    )
    confidence = norm_confidence(hits, controls=controls, seed=seed)
    if tokens is None:
        notes.append("no token counts: length is not controlled, so nothing can be claimed of ranking, and confidence may be length's")
    return UsefulnessReport(
        model="",
        data="",
        split="given",
        reranking=reranking,
        confidence=confidence,
        summary=Usefulness(
            ranking=reranking.dot_minus_cosine,
            beyond_length=reranking.norm_minus.get("length"),
            confidence=_gain(confidence) if tokens is not None else None,
        ),
        notes=tuple(notes),
    )


def _gain(confidence: Confidence) -> Interval | None:
    """What a verdict reads: by how much the norm lowers E-AURC beyond all controls."""
    return confidence.gains_beyond.get("e_aurc")


def _top_hits(
    candidates: np.ndarray, asked: JudgedSet, *, tokens: np.ndarray | None, popularity: np.ndarray | None
) -> tuple[TopHits, dict[str, np.ndarray], list[str]]:
    """First places under cosine with the controls of their norms; queries whose norms are 0 are left out."""
    relevance = asked.judged.relevance
    top = exact_top_k(asked.vectors, candidates, k=2, rankings=("cosine",))["cosine"]
    hit = top.indices[:, 0]
    query_norms, hit_norms = exact_norms(asked.vectors, name="queries"), exact_norms(candidates, name="candidates")[hit]
    kept = (query_norms > 0.0) & (hit_norms > 0.0)
    notes = [] if kept.all() else [f"{np.count_nonzero(~kept):,} queries whose vector or top hit is zero are left out of confidence"]
    if asked.judged.no_answer:
        notes.append(f"{asked.judged.no_answer:,} queries without a relevant candidate: left out of ranking, wrong in confidence")
    hits = TopHits(
        score=top.scores[kept, 0],
        margin=(top.scores[:, 0] - top.scores[:, -1])[kept],
        right=np.array([relevance[query].get(int(row), 0.0) > 0.0 for query, row in enumerate(hit)], dtype=bool)[kept],
        query_norms=query_norms[kept],
        hit_norms=hit_norms[kept],
        clusters=asked.judged.clusters[kept],
    )
    controls = {}
    if asked.tokens is not None:
        controls["tokens of the query"] = asked.tokens[kept]
    if tokens is not None:
        controls["tokens of the top hit"] = tokens[hit][kept]
    if popularity is not None:
        controls["popularity of the top hit"] = popularity[hit][kept]
    return hits, {name: values.astype(np.float64) for name, values in controls.items()}, notes


def load_judged(
    data: str | Path | RetrievalData | Judged, *, limit_queries: int | None = None, limit_candidates: int | None = None, seed: int
) -> LoadedSet:
    """Load judged queries as `evaluate` takes them, cut to the limits.

    Raises:
        InputError: nothing of that name, bad content, or no test query with a relevant candidate.
    """
    limits = {"limit_queries": limit_queries, "limit_candidates": limit_candidates}
    notes: list[str] = []
    roots = None
    if isinstance(data, str | Path):
        settings = data_settings(data, source="inspect")
        roots = settings.roots
        data, every = load_to_judge(settings, seed=seed, as_trained=is_training_config(data))
        notes = ["every row is a test query: a model trained on these rows knows the answers"] if every else []
    elif isinstance(data, Judged):
        data = RetrievalData(name="judged queries", kind="judged", train=None, dev=None, test=data, skewed=False)
    whole = () if data.test is None else data.test.corpus.ids
    found = cut(data, DataConfig.read({"name": data.name, **limits}, source="inspect"), seed=seed)
    _test_of(found)
    return LoadedSet(found, tuple(notes), whole, roots)


def _test_of(data: RetrievalData) -> Judged:
    if data.test is None or not data.test.usable:
        raise InputError(f"{data.name} has no test query with a relevant candidate, so usefulness cannot be measured: give judged queries")
    return data.test


def _open(model: str | Path | Encoder) -> tuple[Encoder, list[str]]:
    if not isinstance(model, str | Path):
        return model, []
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", extra="train")
    from normwise.models.encoder import Encoder
    from normwise.models.loading import load_plain

    loaded = load_plain(str(model))
    return Encoder.of_plain(loaded, name=str(model)), list(loaded.notes)


def _lengths(encoder: Encoder, contents: Sequence[Content]) -> np.ndarray | None:
    """Token counts of contents; None where one has a picture, whose share in the length no token says."""
    texts = [content for content in contents if isinstance(content, str)]
    return text_lengths(encoder, texts) if len(texts) == len(contents) else None


def _popularity(data: RetrievalData, test: Judged) -> np.ndarray | None:
    """Training counts of the candidates, where positives repeat in training.

    Where each is a positive once, a count of 1 would say "not among the answers of test", which is no popularity.
    """
    if data.train is None or not data.skewed:
        return None
    counts = dict(zip(data.train.corpus.ids, data.train.popularity().tolist(), strict=True))
    return np.array([counts.get(name, 0) for name in test.corpus.ids], dtype=np.float64)
