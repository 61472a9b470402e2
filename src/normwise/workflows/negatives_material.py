"""Queries, positives and a pool of negatives, brought to one form: scores are products, and the pool is in a random order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity, parse_similarity
from normwise.data.vectors import load_vectors
from normwise.theory.directions import exact_norms, normalize

_UNIT = 1e-3


@dataclass(frozen=True)
class Limits:
    """At most so many queries and negatives, drawn by `seed`."""

    queries: int
    pool: int
    seed: int


@dataclass(frozen=True)
class Prepared:
    """Vectors whose products are similarities.

    Args:
        queries: (B, D) float32.
        positives: (B, D) float32.
        pool: (M, D) float32, in a random order.
        masked: rows of queries and of the pool, (P,) each, of pairs that are no negatives.
        positive_keys: (B,) int64, equal where positives are.
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
    masked: tuple[np.ndarray, np.ndarray] | None
    positive_keys: np.ndarray
    own_similarity: np.ndarray
    largest: float
    similarity: Similarity
    temperature: float
    in_batch: bool
    source: str
    notes: tuple[str, ...]

    def cut(self, queries: int, pool: int, *, seed: int) -> Prepared:
        """The first of the pool, which is in a random order, and queries drawn by `seed`."""
        if len(self.queries) <= queries and len(self.pool) <= pool:
            return self
        rows = np.arange(len(self.queries))
        if len(rows) > queries:
            rows = np.sort(np.random.default_rng([seed, 7]).choice(rows, queries, replace=False))
        masked = None
        if self.masked is not None:
            place = np.full(len(self.queries), -1)
            place[rows] = np.arange(len(rows))
            kept = (place[self.masked[0]] >= 0) & (self.masked[1] < pool)
            masked = place[self.masked[0][kept]], self.masked[1][kept]
        return Prepared(
            queries=self.queries[rows],
            positives=self.positives[rows],
            pool=self.pool[:pool],
            masked=masked,
            positive_keys=self.positive_keys[rows],
            own_similarity=self.own_similarity[rows],
            largest=self.largest,
            similarity=self.similarity,
            temperature=self.temperature,
            in_batch=self.in_batch,
            source=self.source,
            notes=self.notes,
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
    tau = _checked_temperature(temperature)
    names = [_name(each, name) for each, name in ((queries, "queries"), (positives, "positives"), (pool, "pool"))]
    asked, own = _opened(queries, names[0]), _opened(positives, names[1])
    if len(asked) != len(own):
        raise InputError(f"{names[0]} has {len(asked):,} rows, and {names[1]} has {len(own):,}: row i is the positive of query i")
    others = None if pool is None else _opened(pool, names[2])
    for vectors, name in ((own, names[1]), (others, names[2])):
        if vectors is not None and vectors.shape[1] != asked.shape[1]:
            raise InputError(
                f"{names[0]} has {asked.shape[1]} dimensions, and {name} has {vectors.shape[1]}: all must come from one encoder"
            )
    source = " x ".join(Path(name).name for name in (names if pool is not None else names[:2]))
    return prepared(asked, own, others, similarity=parsed, temperature=tau, limits=limits, source=source)


def prepared(
    queries: np.ndarray,
    positives: np.ndarray,
    pool: np.ndarray | None,
    *,
    similarity: Similarity,
    temperature: float,
    limits: Limits,
    source: str,
    relevant: Sequence[np.ndarray] | None = None,
    notes: tuple[str, ...] = (),
) -> Prepared:
    """Normalize what the similarity normalizes, draw and shuffle by the seed, and find pairs that are no negatives.

    Args:
        queries: (B, D) raw vectors.
        positives: (B, D) raw vectors.
        pool: (M, D) raw vectors; None takes the positives of all queries.
        similarity: what scores are.
        temperature: tau > 0.
        limits: how many to draw.
        source: for reports.
        relevant: rows of the pool that are relevant to each query, beside copies of its positive.
        notes: what is known to be told.
    """
    random = np.random.default_rng([limits.seed, 6])
    told = list(notes)
    in_batch = pool is None
    everything = positives if pool is None else pool
    rows = np.arange(len(queries))
    if len(queries) > limits.queries:
        rows = np.sort(random.choice(rows, limits.queries, replace=False))
        told.append(f"{limits.queries:,} of {len(queries):,} queries were drawn (limit_queries)")
    order = random.permutation(len(everything))
    if len(order) > limits.pool:
        order = order[: limits.pool]
        told.append(f"{limits.pool:,} of {len(everything):,} negatives were drawn (limit_pool)")
    asked, own, others = (_taken(vectors, chosen) for vectors, chosen in ((queries, rows), (positives, rows), (everything, order)))
    told += _length_notes(similarity, asked, own, others)
    keys, pool_keys = _keys(own, others)
    masked = _masked(keys, pool_keys, rows, order, relevant)
    largest = 1.0
    if not similarity.normalizes_query:
        largest *= float(exact_norms(asked, name="queries").max())
    if not similarity.normalizes_candidate:
        largest *= max(float(exact_norms(each, name="candidates").max()) for each in (own, others))
    asked = normalize(asked) if similarity.normalizes_query else asked
    own, others = (normalize(each) if similarity.normalizes_candidate else each for each in (own, others))
    count = len(masked[0])
    copies = count - len(rows) if in_batch else count
    if copies > 0:
        what = "a copy of its own positive" if in_batch else "its own positive, or another relevant row,"
        told.append(f"{copies:,} pairs of a query and {what} in the pool are no negatives: masked")
    return Prepared(
        queries=asked,
        positives=own,
        pool=others,
        masked=masked if count else None,
        positive_keys=keys,
        own_similarity=np.einsum("ij,ij->i", asked, own, dtype=np.float64),
        largest=largest,
        similarity=similarity,
        temperature=temperature,
        in_batch=in_batch,
        source=source,
        notes=tuple(told),
    )


def judged_material(
    model: str | Path,
    data: str | Path,
    *,
    temperature: float | None,
    limits: Limits,
    batch_size: int,
    progress: bool | None,
) -> Prepared:
    """Encode judged queries, the first relevant candidate of each, and their corpus as the pool.

    Raises:
        InputError: no judged query with a relevant candidate; a temperature that is missing, or contradicts the model's.
    """
    from normwise.workflows.calibrate_data import load_asked
    from normwise.workflows.calibrate_material import known_temperature, open_encoder

    asked = load_asked(data)
    encoder, notes = open_encoder(model)
    tau = _checked_temperature(known_temperature(encoder, temperature))
    judged = asked.judged
    answered = np.flatnonzero([bool(grades) for grades in judged.relevance])
    if len(answered) < 2:
        raise InputError(f"{asked.name} has {len(answered)} query with a relevant candidate; expected at least 2")
    best = np.array([max(judged.relevance[row].items(), key=lambda each: (each[1], -each[0]))[0] for row in answered.tolist()])
    queries = encoder.encode_queries([judged.queries[row] for row in answered.tolist()], batch_size=batch_size, progress=progress)
    corpus = encoder.encode_candidates(judged.corpus.texts, batch_size=batch_size, progress=progress)
    relevant = [np.array(sorted(judged.relevance[row]), dtype=np.int64) for row in answered.tolist()]
    return prepared(
        queries,
        corpus[best],
        corpus,
        similarity=encoder.similarity,
        temperature=tau,
        limits=limits,
        source=f"{encoder.name} on {asked.name}",
        relevant=relevant,
        notes=(*notes, *asked.notes),
    )


def _checked_temperature(temperature: float | None) -> float:
    if temperature is None:
        raise InputError("temperature is missing: give that of the training loss, such as 0.05 (a scale of 20 is 1 / 0.05)")
    if not (np.isfinite(temperature) and temperature > 0.0):
        raise InputError(f"temperature is {temperature}; expected a finite number above 0, such as 0.05 (a scale of 20 is 1 / 0.05)")
    return float(temperature)


def _name(given: str | Path | np.ndarray | None, name: str) -> str:
    return str(given) if isinstance(given, str | Path) else name


def _opened(given: str | Path | np.ndarray, name: str) -> np.ndarray:
    if isinstance(given, str | Path):
        return load_vectors(given)
    if given.ndim != 2 or not given.size or given.dtype.kind != "f":
        raise InputError(f"{name} have shape {given.shape} of {given.dtype}; expected rows of float vectors, at least one")
    exact_norms(given, name=name)
    return given


def _taken(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows as float32; a file is read once from front to back, whatever their order."""
    order = np.argsort(rows, kind="stable")
    found = np.empty((len(rows), vectors.shape[1]), dtype=np.float32)
    with np.errstate(over="ignore"):
        found[order] = vectors[rows[order]]
    if not np.isfinite(found).all():
        row = int(rows[int(np.argwhere(~np.isfinite(found))[0, 0])])
        raise InputError(f"row {row} holds a value beyond float32: multiply all vectors by one small number, which changes no ranking")
    return found


def _keys(own: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that are equal where rows are, bit for bit but for the sign of 0."""
    known: dict[bytes, int] = {}

    def numbered(rows: np.ndarray) -> np.ndarray:
        return np.array([known.setdefault((row + np.float32(0.0)).tobytes(), len(known)) for row in rows], dtype=np.int64)

    return numbered(own), numbered(others)


def _masked(
    keys: np.ndarray, pool_keys: np.ndarray, rows: np.ndarray, order: np.ndarray, relevant: Sequence[np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a query and a row of the pool with the vector of its positive, or relevant to it."""
    sort = np.argsort(pool_keys, kind="stable")
    first, last = (np.searchsorted(pool_keys[sort], keys, side=side) for side in ("left", "right"))
    pairs = {(query, int(place)) for query, (low, high) in enumerate(zip(first, last, strict=True)) for place in sort[low:high]}
    if relevant is not None:
        places = {row: place for place, row in enumerate(order.tolist())}
        for query, row in enumerate(rows.tolist()):
            pairs |= {(query, places[other]) for other in relevant[row].tolist() if other in places}
    found = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _length_notes(similarity: Similarity, *sides: np.ndarray) -> list[str]:
    """Say what a similarity does to lengths, since nothing is guessed from them."""
    lengths = np.concatenate([exact_norms(each, name="vectors") for each in sides])
    unit = bool((np.abs(lengths - 1.0) < _UNIT).all())
    if similarity is Similarity.COSINE and not unit:
        return [f"vectors have lengths from {lengths.min():.3g} to {lengths.max():.3g}: cosine, as asked, uses their directions alone"]
    if similarity is not Similarity.COSINE and unit:
        return [f"all vectors have length 1, so that {similarity.value} is cosine here"]
    return []
