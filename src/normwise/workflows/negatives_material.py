"""Queries, positives and a pool of negatives, brought to one form: scores are products, and the pool is in a random order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity, parse_similarity
from normwise.theory.vector_copies import kinds_of
from normwise.workflows.negatives_inputs import (
    Limits,
    Words,
    checked_temperature,
    named,
    opened,
    refuse_far,
    same_vectors,
    scale_notes,
    taken,
)
from normwise.workflows.negatives_masks import (
    Masked,
    copy_notes,
    cut_note,
    enough_left,
    equal_note,
    find_masked,
    first_names,
    left_out_note,
    reach_of,
)

_UNIT = 1e-3


@dataclass(frozen=True)
class Drawn:
    """Which rows take part.

    Args:
        rows: (B,) of the queries and of their positives, ascending.
        order: (M,) of the pool, in a random order.
        notes: what a person should know.
    """

    rows: np.ndarray
    order: np.ndarray
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """Vectors whose products are similarities.

    Args:
        queries: (B, D) float32.
        positives: (B, D) float32.
        pool: (M, D) float32, in a random order.
        masked: pairs of a query and a row of the pool that are no negatives.
        positive_keys: (B,) int64, equal where positives are copies.
        own_similarity: (B,) float64 similarity of each query with its positive.
        largest: no similarity is larger.
        similarity: what products are.
        temperature: tau.
        in_batch: whether the pool are the positives themselves.
        source: what a report calls all this.
        notes: what a person should know.
    """

    queries: np.ndarray
    positives: np.ndarray
    pool: np.ndarray
    masked: Masked
    positive_keys: np.ndarray
    own_similarity: np.ndarray
    largest: float
    similarity: Similarity
    temperature: float
    in_batch: bool
    source: str
    notes: tuple[str, ...]

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows of queries and of the pool, (P,) each, of pairs that are no negatives."""
        return (self.masked.rows, self.masked.places) if self.masked.rows.size else None

    def cut(self, queries: int, pool: int, *, seed: int) -> Prepared:
        """The first of the pool, which is in a random order, and queries drawn by `seed` that have negatives enough among them."""
        if len(self.queries) <= queries and len(self.pool) <= pool:
            return self
        kept = np.zeros(len(self.queries), dtype=bool)
        some = np.random.default_rng([seed, 7]).choice(len(kept), queries, replace=False) if len(kept) > queries else slice(None)
        kept[some] = True
        few, masked = self.pool[:pool], self.masked.of(kept, size=pool)
        enough = enough_left(len(few) - masked.many(int(kept.sum())))
        if not enough.any():
            return self.cut(queries, len(self.pool), seed=seed)
        masked = masked.of(enough)
        kept[kept] = enough
        return replace(
            self,
            queries=self.queries[kept],
            positives=self.positives[kept],
            pool=few,
            masked=masked,
            positive_keys=self.positive_keys[kept],
            own_similarity=self.own_similarity[kept],
        )


def given_material(
    queries: str | Path | np.ndarray,
    positives: str | Path | np.ndarray,
    pool: str | Path | np.ndarray | None,
    *,
    similarity: str | None,
    temperature: float | None,
    limits: Limits,
) -> Prepared:
    """Take bare vectors.

    Raises:
        InputError: files that cannot be read, shapes that do not fit, values that are not finite, a similarity or a temperature that
            is missing.
    """
    if similarity is None:
        raise InputError("similarity is missing: say how the vectors are scored, cosine, dot, query_normalized or candidate_normalized")
    parsed = parse_similarity(similarity)
    tau = checked_temperature(temperature)
    names = [named(each, name) for each, name in ((queries, "queries"), (positives, "positives"), (pool, "pool"))]
    asked, own = opened(queries, names[0]), opened(positives, names[1])
    if len(asked) != len(own):
        raise InputError(f"{names[0]} has {len(asked):,} rows, and {names[1]} has {len(own):,}: row i is the positive of query i")
    others = None if pool is None else opened(pool, names[2])
    for vectors, name in ((own, names[1]), (others, names[2])):
        if vectors is not None and vectors.shape[1] != asked.shape[1]:
            raise InputError(
                f"{names[0]} has {asked.shape[1]} dimensions, and {name} has {vectors.shape[1]}: all must come from one encoder"
            )
    source = " x ".join(Path(name).name for name in (names if pool is not None else names[:2]))
    notes = []
    if same_vectors(queries, pool):
        notes.append(f"pool and queries are one: {names[0]}, so that a query is one of its own negatives; give candidates as the pool")
    words = Words(source, names[0], names[1], names[1] if pool is None else names[2])
    return prepared(asked, own, others, similarity=parsed, temperature=tau, limits=limits, words=words, notes=tuple(notes))


def prepared(
    queries: np.ndarray,
    positives: np.ndarray,
    pool: np.ndarray | None,
    *,
    similarity: Similarity,
    temperature: float,
    limits: Limits,
    words: Words,
    relevant: Sequence[np.ndarray] | None = None,
    notes: tuple[str, ...] = (),
    drawn: Drawn | None = None,
) -> Prepared:
    """Normalize what the similarity normalizes, draw and shuffle by the seed, and find pairs that are no negatives.

    Queries whose masked pairs leave them next to no negatives are left out, and the notes say which.

    Args:
        queries: (B, D) raw vectors.
        positives: (B, D) raw vectors.
        pool: (M, D) raw vectors; None takes the positives of all queries.
        similarity: what scores are.
        temperature: tau > 0.
        limits: how many to draw.
        words: what messages call all this.
        relevant: rows of the pool that are relevant to each query, beside copies of its positive.
        notes: what is known to be told.
        drawn: what `draw` drew, where vectors are of that alone, in that order; rows of `relevant` and of messages are those of the whole.

    Raises:
        InputError: rows of zeros where they are normalized, values beyond float32, scores beyond its digits, or no negative at all.
    """
    everything = positives if pool is None else pool
    chosen = draw(len(queries), len(everything), limits) if drawn is None else drawn
    rows, order = chosen.rows, chosen.order
    asked, own, others = (
        taken(vectors, each if drawn is None else np.arange(len(each)), name=name, normalized=normalized, called=each)
        for vectors, each, name, normalized in (
            (queries, rows, words.queries, similarity.normalizes_query),
            (positives, rows, words.positives, similarity.normalizes_candidate),
            (everything, order, words.pool, similarity.normalizes_candidate),
        )
    )
    told = [*notes, *chosen.notes, *_length_notes(similarity, words.asked, asked[1], own[1], others[1])]
    told += scale_notes(temperature, _largest(similarity, asked[1], np.concatenate([own[1], others[1]])))
    within = reach_of(own[0], others[0], seed=limits.seed)
    places = None if relevant is None else _places(relevant, rows, order)
    masked = find_masked(own[0], others[0], within=within, places=places, pool=words.pool)
    kept = _kept(masked, rows, len(order), words, judged=relevant is not None, told=told)
    masked = masked.of(kept)
    vectors, candidates, lengths = asked[0][kept], own[0][kept], (asked[1][kept], np.concatenate([own[1][kept], others[1]]))
    in_batch = int((order[masked.places] == rows[kept][masked.rows]).sum()) if pool is None else 0
    told += copy_notes(masked, len(order), own=in_batch, judged=relevant is not None)
    told += equal_note(vectors, candidates, lengths=(asked[1][kept], own[1][kept]))
    own_similarity = np.einsum("ij,ij->i", vectors, candidates, dtype=np.float64)
    refuse_far(own_similarity / temperature, lambda at: words.of_row(int(rows[kept][at])))
    return Prepared(
        queries=vectors,
        positives=candidates,
        pool=others[0],
        masked=masked,
        positive_keys=kinds_of(candidates, within=within),
        own_similarity=own_similarity,
        largest=_largest(similarity, *lengths),
        similarity=similarity,
        temperature=temperature,
        in_batch=pool is None,
        source=words.source,
        notes=tuple(told),
    )


def draw(queries: int, pool: int, limits: Limits) -> Drawn:
    """Draw by the seed what the limits leave of so many queries and so large a pool."""
    random, told = np.random.default_rng([limits.seed, 6]), []
    rows = np.arange(queries)
    if queries > limits.queries:
        rows = np.sort(random.choice(rows, limits.queries, replace=False))
        told.append(f"{limits.queries:,} of {queries:,} queries were drawn (limit_queries)")
    order = random.permutation(pool)
    if pool > limits.pool:
        order = order[: limits.pool]
        told.append(f"{limits.pool:,} of {pool:,} negatives were drawn (limit_pool)")
    return Drawn(rows, order, tuple(told))


def _places(relevant: Sequence[np.ndarray], rows: np.ndarray, order: np.ndarray) -> list[np.ndarray]:
    """Where what is relevant to each query stands in the pool, as far as it was drawn."""
    place = {row: at for at, row in enumerate(order.tolist())}
    return [np.array([place[other] for other in relevant[row].tolist() if other in place], dtype=np.int64) for row in rows.tolist()]


def _kept(masked: Masked, rows: np.ndarray, size: int, words: Words, *, judged: bool, told: list[str]) -> np.ndarray:
    """Which queries have negatives enough; what that leaves out is told."""
    many = masked.many(len(rows))
    kept = enough_left(size - many)
    what = "are its positive, copies of it, or relevant to it" if judged else "are copies of its positive"
    if not kept.any():
        raise InputError(f"no query has a negative: of {size:,} in {words.pool} all {what}; give a pool that holds other candidates")
    if not kept.all():
        names = [words.of_row(row) for row in first_names(kept, rows)]
        told.append(left_out_note(kept, many, names, size=size, what=what))
    if (note := cut_note(size - many[kept], size)) is not None:
        told.append(note)
    return kept


def _largest(similarity: Similarity, queries: np.ndarray, candidates: np.ndarray) -> float:
    """No product is larger, by the lengths of vectors."""
    factors = [] if similarity.normalizes_query else [float(queries.max())]
    return math.prod(factors if similarity.normalizes_candidate else [*factors, float(candidates.max())])


def _length_notes(similarity: Similarity, asked: str, *sides: np.ndarray) -> list[str]:
    """Say what a similarity does to lengths, since nothing is guessed from them."""
    lengths = np.concatenate(sides)
    unit = bool((np.abs(lengths - 1.0) < _UNIT).all())
    if similarity is Similarity.COSINE and not unit:
        return [f"vectors have lengths from {lengths.min():.3g} to {lengths.max():.3g}: cosine, {asked}, uses their directions alone"]
    if similarity is not Similarity.COSINE and unit:
        return [f"all vectors have length 1, so that {similarity.value} is cosine here"]
    return []
