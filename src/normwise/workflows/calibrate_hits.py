"""From vectors or an index to hit lists that a calibrator reads: the best candidates of each query, judged, with what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.directions import exact_norms
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.search import exact_top_k
from normwise.workflows.calibrate_data import Asked
from normwise.workflows.text_lengths import known_lengths

if TYPE_CHECKING:
    from normwise.index.protocol import Index

# A softmax over a corpus of this size is cheap; of a larger one the best hundred hold nearly all of its mass.
WHOLE_CORPUS = 1_000
DEPTH = 100
# A fit in float32 squares gaps between scores; outside this range it would lose them.
_SCORES = 1e-12, 1e12
_NEAR = 10
_DENSITY_QUERIES = 4_096
_SLICE = 4_096
_PAIR_VALUES = 1 << 20


@dataclass(frozen=True)
class Searched:
    """What a search found for B queries, K hits each.

    `rows` (B, K) are rows of the data's corpus, -1 for candidates that the data do not know; `names` (B, K) their ids where
    an index gave them; `candidates` counts all that can be found.
    """

    scores: np.ndarray
    rows: np.ndarray
    query_norms: np.ndarray
    hit_norms: np.ndarray
    candidates: int
    names: np.ndarray | None = None
    lengths: np.ndarray | None = None

    @property
    def depth(self) -> int:
        """K."""
        return self.scores.shape[1]

    def subset(self, rows: np.ndarray) -> Searched:
        """The queries at `rows`, in that order."""
        return replace(
            self,
            scores=self.scores[rows],
            rows=self.rows[rows],
            query_norms=self.query_norms[rows],
            hit_norms=self.hit_norms[rows],
            names=None if self.names is None else self.names[rows],
            lengths=None if self.lengths is None else self.lengths[rows],
        )


def _search(queries: np.ndarray, candidates: np.ndarray, asked: Asked, *, k: int, ranking: str) -> tuple[np.ndarray, np.ndarray]:
    """(B, k) scores and rows of the nearest candidates, task by task where the set has tasks."""
    searches = asked.judged.searches()
    if len(searches) == 1 and len(searches[0][2]) == len(candidates):
        top = exact_top_k(queries, candidates, k=k, rankings=(ranking,))[ranking]
        return top.scores, top.indices
    parts = [(mine, pool, exact_top_k(queries[mine], candidates[pool], k=k, rankings=(ranking,))[ranking]) for _, mine, pool in searches]
    scores = np.zeros((len(queries), k), dtype=parts[0][2].scores.dtype)
    rows = np.zeros((len(queries), k), dtype=np.int64)
    for mine, pool, top in parts:
        scores[mine], rows[mine] = top.scores, pool[top.indices]
    return scores, rows


def search_vectors(
    queries: np.ndarray, candidates: np.ndarray, asked: Asked, *, similarity: Similarity, depth: int | None
) -> tuple[Searched, list[str]]:
    """Search exactly; the relevant candidates of hidden queries are passed over.

    Queries of a set that mixes tasks search the candidates of their task, as they do in evaluation.

    Args:
        queries: (B, D) raw vectors, in the order of `asked`.
        candidates: (N, D) raw vectors, in the order of its corpus.
        asked: the judged queries.
        similarity: what the scores are.
        depth: K; None takes all of up to 1,000 candidates, else 100.

    Returns:
        The hits, and notes.

    Raises:
        InputError: widths differ, a norm is out of range, or nothing is left to search.
    """
    if queries.shape[1] != candidates.shape[1]:
        raise InputError(
            f"query vectors have {queries.shape[1]} dimensions, candidate vectors {candidates.shape[1]}: both must come from one encoder"
        )
    smallest = min(len(pool) for _, _, pool in asked.judged.searches())
    wanted, most, notes = _depth(depth, smallest, asked)
    scores, rows = _search(queries, candidates, asked, k=min(wanted + most, smallest), ranking=similarity.ranking.value)
    if most:
        kept = _without_hidden(rows, asked, wanted=wanted)
        scores, rows = np.take_along_axis(scores, kept, axis=1), np.take_along_axis(rows, kept, axis=1)
    query_norms = exact_norms(queries, name="queries")
    found = Searched(
        scores=_under(similarity, scores, query_norms),
        rows=rows,
        query_norms=query_norms,
        hit_norms=exact_norms(candidates, name="candidates")[rows],
        candidates=candidates.shape[0],
    )
    return found, notes


def search_index(queries: np.ndarray, index: Index, asked: Asked, *, depth: int | None) -> tuple[Searched, list[str]]:
    """Search an index as it answers in use; the relevant candidates of hidden queries are passed over.

    Args:
        queries: (B, D) raw vectors, in the order of `asked`.
        index: its scores are under its own similarity.
        asked: the judged queries; candidates are known by their ids.
        depth: as `search_vectors`.

    Returns:
        The hits, and notes.

    Raises:
        InputError: the index is empty, or too small; WorkError: it cannot answer.
    """
    wanted, most, notes = _depth(depth, len(index), asked)
    parts = [index.search(queries[start : start + _SLICE], k=wanted + most) for start in range(0, queries.shape[0], _SLICE)]
    common = min([wanted + most, *(int(part.counts.min()) for part in parts)])
    if common - most < 1:
        raise InputError("the index leaves some queries without a hit: rebuild it, or raise its search effort")
    if common < wanted + most:
        notes.append(f"the index returns as few as {common:,} hits for some queries: {common - most:,} of each are read")
        wanted = common - most
    scores, norms, names = (np.concatenate([getattr(part, name)[:, :common] for part in parts]) for name in ("scores", "norms", "ids"))
    lengths = None
    if all(part.lengths is not None for part in parts):
        lengths = np.concatenate([part.lengths[:, :common] for part in parts if part.lengths is not None])
    places = {name: row for row, name in enumerate(asked.judged.corpus.ids)}
    rows = np.array([[places.get(name, -1) for name in line] for line in names], dtype=np.int64).reshape(names.shape)
    kept = _without_hidden(rows, asked, wanted=wanted)
    scores, norms, names, rows = (np.take_along_axis(values, kept, axis=1) for values in (scores, norms, names, rows))
    found = Searched(
        scores=scores.astype(np.float64),
        rows=rows,
        query_norms=exact_norms(queries, name="queries"),
        hit_norms=norms.astype(np.float64),
        candidates=len(index),
        names=names,
        lengths=None if lengths is None else np.take_along_axis(lengths, kept, axis=1).astype(np.float64),
    )
    return found, notes


def judge_hits(
    found: Searched,
    asked: Asked,
    *,
    similarity: Similarity,
    query_lengths: np.ndarray | None = None,
    candidate_lengths: np.ndarray | None = None,
    seed: int = 0,
) -> JudgedHits:
    """Judge hits, and put beside them what is known of queries and candidates.

    Args:
        found: what a search found.
        asked: the queries it was asked.
        similarity: what the scores are.
        query_lengths: (B,) token or word counts; NaN where a query has none. Where one has none, no count of a query is read.
        candidate_lengths: (N,) those of the corpus, likewise for what was found; an index's own come before them.
        seed: of the permutation.

    Returns:
        Hit lists with judgements. Priors are log norm, log(1 + length), log(1 + training count) where known, and the log norm
        of another of the candidates found, drawn without replacement: the same from an exact index as without one.

    Raises:
        InputError: no score is large enough, or one is too large, to be told from others in float32.
    """
    _check_scores(found.scores, similarity)
    rows, known = found.rows, found.rows >= 0
    lengths = found.lengths
    if lengths is None and candidate_lengths is not None and known.all():
        lengths = candidate_lengths[rows].astype(np.float64)
    lengths, query_lengths = known_lengths(lengths), known_lengths(query_lengths)
    frequency = None if asked.popularity is None or not known.all() else asked.popularity[rows]
    hits = HitLists(
        scores=found.scores,
        query_norms=found.query_norms,
        hit_norms=found.hit_norms,
        similarity=similarity,
        complete=found.depth == found.candidates,
        query_lengths=None if query_lengths is None else query_lengths.astype(np.float64),
        hit_lengths=lengths,
        query_frequency=asked.frequency,
        hit_frequency=frequency,
    )
    priors = {"norm": _log_norms(found.hit_norms), "permuted norm": _log_norms(_permuted(found, asked, seed=seed))}
    counts = {"length": lengths, "frequency": frequency}
    priors |= {name: np.log1p(values) for name, values in counts.items() if values is not None}
    return JudgedHits(hits, relevant_hits(rows, asked), asked.clusters, asked.answerable, priors)


def relevant_hits(rows: np.ndarray, asked: Asked) -> np.ndarray:
    """(B, K) whether each hit is relevant to its query."""
    found = np.zeros(rows.shape, dtype=bool)
    pairs = [(query, row) for query, grades in enumerate(asked.judged.relevance) if not asked.hidden[query] for row in grades]
    step = max(1, _PAIR_VALUES // rows.shape[1])
    for start in range(0, len(pairs), step):
        queries, relevant = np.array(pairs[start : start + step], dtype=np.int64).T
        pair, place = np.nonzero(rows[queries] == relevant[:, None])
        found[queries[pair], place] = True
    return found


def with_density(
    judged: JudgedHits, found: Searched, queries: np.ndarray, candidates: np.ndarray, fit: np.ndarray, *, seed: int
) -> JudgedHits:
    """Add how crowded each hit is: its mean cosine with the ten nearest fit queries, the query that found it left out.

    Args:
        judged: all B queries.
        found: their hits, rows of `candidates`.
        queries: (B, D) raw vectors.
        candidates: (N, D) raw vectors.
        fit: rows of the queries that fit; of many, 4,096 are drawn.
        seed: of that draw.

    Returns:
        The same with `hit_density`.

    Reference: r of CSLS (Conneau et al., 2018); leaving the query itself out is ours, since a test query is never among them.
    """
    if fit.size > _DENSITY_QUERIES:
        fit = np.sort(np.random.default_rng([seed, 4]).choice(fit, _DENSITY_QUERIES, replace=False))
    seen = np.zeros(candidates.shape[0], dtype=bool)
    seen[found.rows] = True
    unique, place = np.flatnonzero(seen), (np.cumsum(seen) - 1)[found.rows]
    top = exact_top_k(candidates[unique], queries[fit], k=_NEAR + 1, rankings=("cosine",))["cosine"]
    near = min(_NEAR, fit.size)
    density = top.scores[:, :near].mean(axis=1)[place]
    # Only a query that fits can be its own hit's neighbor.
    mine, corrected = place[fit], density[fit]
    rest = top.scores.sum(axis=1)[mine]
    for column in range(near):
        own = fit[top.indices[:, column]][mine] == fit[:, None]
        others = (rest - top.scores[:, column][mine]) / max(top.scores.shape[1] - 1, 1)
        corrected = np.where(own, others, corrected)
    density[fit] = corrected
    return replace(judged, hits=replace(judged.hits, hit_density=density))


def _depth(depth: int | None, candidates: int, asked: Asked) -> tuple[int, int, list[str]]:
    """How many hits to keep, how many more to search so that those of hidden queries can be passed over, and notes."""
    hidden = np.flatnonzero(asked.hidden)
    most = max((len(asked.judged.relevance[query]) for query in hidden), default=0)
    available = candidates - most
    if available < 1:
        raise InputError(
            f"the corpus has {candidates:,} candidate(s), and {most:,} of them are taken from a query by unanswerable: nothing is left to "
            "search; give more candidates, or leave unanswerable out"
        )
    if depth is not None and depth < 1:
        raise InputError(f"depth is {depth}; expected at least 1 hit per query")
    if depth is None:
        return (available if candidates <= WHOLE_CORPUS else min(DEPTH, available)), most, []
    if depth > available:
        return available, most, [f"depth is {depth:,}, and {available:,} candidates can be found: all of them are read"]
    return depth, most, []


def _without_hidden(rows: np.ndarray, asked: Asked, *, wanted: int) -> np.ndarray:
    """(B, wanted) the first places of each row, the relevant candidates of hidden queries passed over."""
    barred = np.zeros(rows.shape, dtype=bool)
    for query in np.flatnonzero(asked.hidden):
        barred[query] = np.isin(rows[query], list(asked.judged.relevance[query]))
    return np.argsort(barred, axis=1, kind="stable")[:, :wanted]


def _under(similarity: Similarity, scores: np.ndarray, query_norms: np.ndarray) -> np.ndarray:
    """Scores of the ranking, cosine or dot, as the similarity itself has them."""
    if similarity is Similarity.CANDIDATE_NORMALIZED:
        return scores * query_norms[:, None]
    if similarity is Similarity.QUERY_NORMALIZED:
        norms = np.broadcast_to(query_norms[:, None], scores.shape)
        return np.divide(scores, norms, out=np.zeros_like(scores), where=norms > 0.0)
    return scores


def _permuted(found: Searched, asked: Asked, *, seed: int) -> np.ndarray:
    # An index tells the norms of what it finds and of nothing else, so those alone are shuffled without one, too; in the order of
    # ids, so that a corpus that an index keeps in another order is shuffled alike.
    keys = found.rows if found.names is None else found.names.astype(str)
    unique, first, place = np.unique(keys, return_index=True, return_inverse=True)
    known = found.hit_norms.reshape(-1)[first]
    ids = unique if found.names is not None else np.array([asked.judged.corpus.ids[row] for row in unique.tolist()])
    order = np.argsort(ids)
    shuffled = np.empty_like(known)
    shuffled[order] = known[order][np.random.default_rng([seed, 5]).permutation(known.size)]
    return shuffled[place].reshape(found.rows.shape)


def _check_scores(scores: np.ndarray, similarity: Similarity) -> None:
    largest = float(np.abs(scores).max(initial=0.0))
    if largest == 0.0 or _SCORES[0] <= largest <= _SCORES[1]:
        return
    raise InputError(
        f"the largest score by {similarity.value} is {largest:.3g}; expected {_SCORES[0]:g} to {_SCORES[1]:g}: multiply all vectors by "
        f"one number, such as 1 / their mean norm, which changes no ranking"
    )


def _log_norms(norms: np.ndarray) -> np.ndarray:
    return np.log(np.where(norms > 0.0, norms, 1.0))
