"""Judged queries and their corpus as queries, positives and a pool: drawn first, and encoded only as far as they were drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.sets import Judged
from normwise.data.texts import printable
from normwise.workflows.calibrate_overlap import TOO_MUCH
from normwise.workflows.negatives_inputs import Limits, Words, checked_temperature
from normwise.workflows.negatives_material import Prepared, draw, prepared

_SEEN = "has seen the answers, and its risks are lower than those of new queries"


def judged_material(
    model: str | Path,
    data: str | Path,
    *,
    temperature: float | None,
    limits: Limits,
    batch_size: int,
    progress: bool | None,
) -> Prepared:
    """Encode judged queries, the first relevant candidate of each, and their corpus as the pool, each as far as it was drawn.

    Raises:
        InputError: no judged query with a relevant candidate; a temperature that is missing, or contradicts the model's.
    """
    from normwise.workflows.calibrate_data import load_asked
    from normwise.workflows.calibrate_material import known_temperature, open_encoder

    asked = load_asked(data)
    encoder, notes = open_encoder(model)
    tau = checked_temperature(known_temperature(encoder, temperature))
    judged = asked.judged
    answered = np.flatnonzero([bool(grades) for grades in judged.relevance])
    if len(answered) < 2:
        raise InputError(f"{asked.name} has {len(answered)} query with a relevant candidate; expected at least 2")
    best = np.array([max(judged.relevance[row].items(), key=lambda each: (each[1], -each[0]))[0] for row in answered.tolist()])
    drawn = draw(len(answered), len(judged.corpus), limits)
    own = best[drawn.rows]
    # Each candidate once: a positive may be in the pool too.
    needed = np.unique(np.concatenate([drawn.order, own]))
    asks, candidates = answered[drawn.rows].tolist(), needed.tolist()
    queries = encoder.encode_queries([judged.queries[row] for row in asks], batch_size=batch_size, progress=progress)
    vectors = encoder.encode_candidates([judged.corpus.contents[row] for row in candidates], batch_size=batch_size, progress=progress)
    return prepared(
        queries,
        vectors[np.searchsorted(needed, own)],
        vectors[np.searchsorted(needed, drawn.order)],
        similarity=encoder.similarity,
        temperature=tau,
        limits=limits,
        words=Words(
            f"{encoder.name} on {asked.name}",
            f"vectors of the queries of {asked.name}",
            f"vectors of the positives of {asked.name}",
            f"the corpus of {asked.name}",
            "as the model has it",
            lambda row: f"query {printable(judged.queries[answered[row]])!r:.60}",
        ),
        relevant=[np.array(sorted(judged.relevance[row]), dtype=np.int64) for row in answered.tolist()],
        notes=(*notes, *(note.replace(TOO_MUCH, _SEEN) for note in asked.notes), *counted_notes(judged, answered)),
        drawn=drawn,
    )


def counted_notes(judged: Judged, answered: np.ndarray) -> list[str]:
    """Say why there are fewer queries than rows: equal texts are one, and queries without an answer have no positive.

    Args:
        judged: all queries.
        answered: (B,) those with a relevant candidate.
    """
    notes = []
    if (without := len(judged) - len(answered)) > 0:
        notes.append(f"{without:,} of {len(judged):,} queries have no relevant candidate, and so no positive: they take no part")
    pairs = sum(map(len, judged.relevance))
    if pairs > len(answered):
        notes.append(
            f"{pairs:,} pairs of a query and a relevant candidate come from {len(answered):,} queries, since rows of one query text are "
            "one query: its positive is the most relevant of its candidates, else the first, and its others are no negatives of it"
        )
    return notes
