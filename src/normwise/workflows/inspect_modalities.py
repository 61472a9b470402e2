"""Norms of several modalities: the contents of a set with pictures by a model, or two files of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.errors import InputError
from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import NormExamples
from normwise.core.records import GateReport
from normwise.data import emoji, emoji_composed
from normwise.data.contents import MODALITIES, Content, Modality, iter_pictures, modality_of, sameness
from normwise.data.emoji_factors import emoji_factors
from normwise.data.factor_files import read_factors
from normwise.data.factors import has_wordfreq
from normwise.data.norm_inputs import array_input, open_vectors
from normwise.data.sets import Corpus, Judged, RetrievalData
from normwise.data.thumbnails import ThumbnailBudget
from normwise.workflows.inspect_across import across_modalities, named_apart, side_of
from normwise.workflows.inspect_examples import belongings, norm_examples
from normwise.workflows.inspect_report import Factors, Judging, Related, relate_norms, report_of
from normwise.workflows.inspect_source import Material, OpenModel, Reading, after_normalize, closed_form, text_material
from normwise.workflows.inspect_usefulness import EncodedSet, LoadedSet, encode_set, usefulness_of_set

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

NAMES: dict[Modality, str] = {"text": "texts", "image": "pictures", "text+image": "texts with pictures"}
BOTH = "all contents"
_EMOJI = (emoji.CAPTIONS, emoji.PICTURES, emoji.STYLED, emoji_composed.COMPOSED)
# What repeats others of its kind, so that few rows are left to tell them apart by.
_LEFT_OUT = ("group_size", "forms")
# What the text itself gives in a finer form.
_OF_TEXTS = ("text_words", "label_words", "zipf_frequency")
_PROBED = 16


@dataclass(frozen=True)
class Against:
    """Vectors that are set against the source: another modality of the same model.

    `paired` says that row i of both belongs together.
    """

    vectors: str | Path | np.ndarray
    factors: Factors = None
    paired: bool = False


@dataclass(frozen=True)
class Contents:
    """All contents of a set, candidates first and then queries, with vectors, units and factors (NaN where a row has none)."""

    contents: tuple[Content, ...]
    vectors: np.ndarray
    clusters: np.ndarray
    candidates: int
    factors: Mapping[str, np.ndarray]

    def rows(self, modality: Modality) -> np.ndarray:
        """Rows of one modality; a content that stands twice in one role is taken once."""
        seen: set[tuple[bool, str]] = set()
        kept = []
        for row, content in enumerate(self.contents):
            key = (row < self.candidates, sameness(content))
            if modality_of(content) == modality and key not in seen:
                seen.add(key)
                kept.append(row)
        return np.array(kept, dtype=np.int64)


def has_pictures(data: RetrievalData) -> bool:
    """Whether a set's test queries or candidates have pictures."""
    test = data.test
    return test is not None and any(modality_of(content) != "text" for content in (*test.queries, *test.corpus.contents))


def inspect_set(model: OpenModel, loaded: LoadedSet, factors: Factors, how: Reading, judging: Judging) -> InspectReport:
    """Report on the norms of a set's test queries and candidates: of all, of each modality, and what lies between the first two.

    Args:
        model: the encoder.
        loaded: a set with pictures.
        factors: one row for each candidate of the set, before any limit; None gives emoji sets their own factors.
        how: batch size, progress and seed.
        judging: what each report rests on.

    Raises:
        InputError: the model reads no pictures, one cannot be opened, there is no test query with a relevant candidate, or
            factors do not fit.
    """
    encoded = encode_set(model.encoder, loaded, batch_size=how.batch_size, progress=how.progress)
    test = encoded.test.judged
    found = _gather(encoded, _set_factors(encoded, test, factors, loaded.candidates, loaded.roots))
    measured = usefulness_of_set(encoded, notes=model.notes, seed=how.seed)
    present: list[Modality] = [modality for modality in MODALITIES if found.rows(modality).size]
    belong, budget = belongings(test), ThumbnailBudget()
    sides, rows = [], []
    for modality in present:
        mine = found.rows(modality)
        material, freedom = _material(model, found, modality, mine)
        related = relate_norms(material, _factors_of(found, modality, mine), judging)
        # What judged queries say of norms is said of the candidates': where these are of one kind, it is that kind's.
        ranked = measured if all(modality_of(content) == modality for content in test.corpus.contents) else None
        part = report_of(related, judging, usefulness=ranked, modality=NAMES[modality])
        part = part.model_copy(update={"examples": _examples(found, related, mine, belong, budget)})
        sides.append(side_of(NAMES[modality], related, part, found.clusters[mine], freedom))
        rows.append(mine)
    whole = relate_norms(*_pooled(model, found, present, rows), judging)
    pairs = _pairs(test, found.candidates, rows[0], rows[1]) if len(rows) > 1 else None
    return report_of(whole, judging, usefulness=measured, modality=BOTH if len(present) > 1 else NAMES[present[0]]).model_copy(
        update={
            "parts": tuple(side.report for side in sides) if len(sides) > 1 else (),
            "across": across_modalities(sides[0], sides[1], pairs=pairs, seed=how.seed) if len(sides) > 1 else None,
            "examples": sides[0].report.examples if len(sides) == 1 else None,
        }
    )


def inspect_against(material: Material, factors: Factors, other: Against, judging: Judging) -> InspectReport:
    """Report on vectors, on those that are set against them, and on what lies between.

    Args:
        material: the first vectors.
        factors: of these.
        other: the second vectors, with factors of their own.
        judging: what each report rests on.

    Raises:
        InputError: the vectors have other widths, or are to be paired and of another number.
    """
    opened = array_input(other.vectors, name="against") if isinstance(other.vectors, np.ndarray) else open_vectors(other.vectors)
    counts = material.vectors.rows.shape, opened.rows.shape
    if counts[0][1] != counts[1][1]:
        raise InputError(f"against has {counts[1][1]} dimensions and {material.vectors.name} {counts[0][1]}: expected vectors of one model")
    if other.paired and counts[0][0] != counts[1][0]:
        raise InputError(
            f"paired: {material.vectors.name} has {counts[0][0]:,} vectors and against {counts[1][0]:,}; expected row i of both to "
            "belong together"
        )
    names = named_apart(material.vectors.name, opened.name)
    sides = []
    for name, mine, given in ((names[0], material, factors), (names[1], Material(opened, notes=opened.notes), other.factors)):
        related = relate_norms(mine, given, judging)
        report = report_of(related, judging, modality=name)
        # Row i of both is one unit where they are paired; else no row has to do with another.
        clusters = np.arange(counts[0][0]) if other.paired else np.arange(mine.vectors.rows.shape[0]) + len(sides) * counts[0][0]
        sides.append(side_of(name, related, report, clusters))
    pairs = np.repeat(np.arange(counts[0][0])[:, None], 2, axis=1) if other.paired else None
    across = across_modalities(sides[0], sides[1], pairs=pairs, seed=judging.seed)
    return sides[0].report.model_copy(update={"parts": (sides[1].report,), "across": across})


def _gather(encoded: EncodedSet, factors: Mapping[str, np.ndarray]) -> Contents:
    test = encoded.test.judged
    size = len(test.corpus)
    clusters = np.full(size, -1, dtype=np.int64)
    for query, relevant in enumerate(test.relevance):
        for row in relevant:
            clusters[row] = test.clusters[query] if clusters[row] < 0 else clusters[row]
    lone = np.flatnonzero(clusters < 0)
    clusters[lone] = np.arange(lone.size) + int(test.clusters.max()) + 1
    return Contents(
        contents=(*test.corpus.contents, *test.queries),
        vectors=np.concatenate([encoded.candidates, encoded.test.vectors]),
        clusters=np.concatenate([clusters, test.clusters]),
        candidates=size,
        factors=factors,
    )


def _set_factors(
    encoded: EncodedSet, test: Judged, given: Factors, every: Sequence[str], roots: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Factors by name over candidates and queries; rows without any hold NaN, or "" for categories."""
    queries = len(test)
    if given is not None:
        found = _of_candidates(given, every, test.corpus.ids)
        return {name: np.concatenate([value, _nothing(value, queries)]) for name, value in found.items()}
    found: dict[str, np.ndarray] = {}
    if encoded.name in _EMOJI:
        asked = ((test.corpus.ids, test.corpus.contents), (test.query_ids, test.queries))
        parts = [_by_modality(ids, contents, roots) for ids, contents in asked]
        for name in dict.fromkeys((*parts[0], *parts[1])):
            found[name] = np.concatenate(
                [part.get(name, np.full(size, np.nan)) for part, size in zip(parts, (len(test.corpus), queries), strict=True)]
            )
    if encoded.popularity is not None:
        found["popularity"] = np.concatenate([encoded.popularity, np.full(queries, np.nan)])
    return found  # fmt: skip


def _by_modality(ids: Sequence[str], contents: Sequence[Content], roots: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Factors of emoji; of categories (group and subgroup) their sizes only, since hundreds of levels leave nothing to test."""
    found: dict[str, np.ndarray] = {}
    for modality in MODALITIES:
        rows = [row for row, content in enumerate(contents) if modality_of(content) == modality]
        if rows:
            factors = emoji_factors(Corpus(tuple(ids[row] for row in rows), tuple(contents[row] for row in rows)), roots=roots)
            for name, value in factors.items():
                if value.dtype.kind == "f" and name not in _LEFT_OUT:
                    found.setdefault(name, np.full(len(ids), np.nan))[rows] = value
    return found


def _of_candidates(given: Factors, every: Sequence[str], kept: Sequence[str]) -> dict[str, np.ndarray]:
    """Given factors, a row for each candidate of the set before limits, cut to the candidates that were kept."""
    if isinstance(given, str | Path):
        found = read_factors(given, rows=len(every))
    else:
        found = {str(name): np.asarray(value) for name, value in (given or {}).items()}
    for name, value in found.items():
        if value.shape != (len(every),):
            raise InputError(f"factor {name!r} has shape {value.shape}: the set has {len(every):,} candidates; expected one value for each")
    place = {name: row for row, name in enumerate(every)}
    rows = np.array([place[name] for name in kept], dtype=np.int64)
    return {name: value[rows] for name, value in found.items()}


def _nothing(value: np.ndarray, size: int) -> np.ndarray:
    return np.full(size, np.nan) if value.dtype.kind in "biuf" else np.full(size, "", dtype=value.dtype)


def _factors_of(found: Contents, modality: Modality, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The factors that every row of a modality has."""
    kept = {}
    for name, value in found.factors.items():
        mine = value[rows]
        known = np.isfinite(mine).all() if mine.dtype.kind == "f" else bool((mine != "").all())
        if known and not (modality == "text" and name in _OF_TEXTS and (name != "zipf_frequency" or has_wordfreq())):
            kept[name] = mine
    return kept


def _material(model: OpenModel, found: Contents, modality: Modality, rows: np.ndarray) -> tuple[Material, GateReport | None]:
    vectors = found.vectors[rows]
    contents = [found.contents[row] for row in rows]
    if modality == "text":
        material = text_material(model, vectors, [content for content in contents if isinstance(content, str)])
        return replace(material, notes=(*model.notes, *material.notes)), model.freedom
    freedom = _picture_freedom(model.encoder.model, contents) if modality == "image" else None
    form, left = closed_form(freedom)
    return (
        Material(
            array_input(vectors, name=model.encoder.name),
            after=after_normalize(model, vectors),
            closed_form=form,
            closed_freedom=left,
            encoder=model.encoder,
            notes=() if freedom is None else (freedom.words,),
        ),
        freedom,
    )


def _picture_freedom(st: SentenceTransformer, contents: Sequence[Content]) -> GateReport | None:
    """What the last norm layer of the picture tower says."""
    from normwise.models.freedom import norm_freedom
    from normwise.models.inputs import reads

    shown = list(iter_pictures(tuple(contents)))[:_PROBED]
    return norm_freedom(st, texts=shown) if reads(st) == "towers" and len(shown) >= 2 else None


def _pooled(model: OpenModel, found: Contents, present: Sequence[Modality], rows: Sequence[np.ndarray]) -> tuple[Material, Factors]:
    """All modalities together, with the modality as the factor that they have in common."""
    every = np.concatenate(rows)
    vectors = found.vectors[every]
    names = np.concatenate([np.full(mine.size, NAMES[modality]) for modality, mine in zip(present, rows, strict=True)])
    material = Material(array_input(vectors, name=model.encoder.name), after=after_normalize(model, vectors), notes=model.notes)
    return material, {"modality": names} if len(present) > 1 else _factors_of(found, present[0], rows[0])


def _examples(
    found: Contents, related: Related, rows: np.ndarray, belong: Mapping[int, Content], budget: ThumbnailBudget
) -> NormExamples | None:
    """Contents of either end of the norms; none where all norms are equal, so that there is no end."""
    if not related.found.vary:
        return None
    usable = np.flatnonzero(related.found.scan.usable)
    kept = rows[usable].tolist()
    norms = related.found.scan.norms[usable]
    return norm_examples([found.contents[row] for row in kept], norms, beside=[belong.get(row) for row in kept], budget=budget)


def _pairs(test: Judged, candidates: int, first: np.ndarray, second: np.ndarray) -> np.ndarray | None:
    """Rows of the two modalities that judgements put together."""
    places = {int(row): place for place, row in enumerate(first)}, {int(row): place for place, row in enumerate(second)}
    found = []
    for query, relevant in enumerate(test.relevance):
        for row in relevant:
            for one, two in ((row, candidates + query), (candidates + query, row)):
                if one in places[0] and two in places[1]:
                    found.append((places[0][one], places[1][two]))
    return np.array(found, dtype=np.int64) if found else None
