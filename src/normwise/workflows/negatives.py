"""Advise on negatives: what k and temperature do to one's own vectors, and what to change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import write_text
from normwise.core.negatives_records import (
    FalseNegativeRecord,
    NegativesReport,
    RegimeRecord,
    Spread,
)
from normwise.data.texts import printable
from normwise.theory.false_negatives import FalseNegatives, false_negative_bound
from normwise.theory.infonce_temperatures import AtTemperature, temperature_sweep
from normwise.workflows.evaluate import check_report
from normwise.workflows.negatives_inputs import (
    LEAST_TEMPERATURE,
    MOST_SCORE,
    MOST_TEMPERATURE,
    Limits,
    checked_count,
    checked_flag,
    checked_place,
    checked_temperatures,
    refuse_unheld,
)
from normwise.workflows.negatives_judged import judged_material
from normwise.workflows.negatives_material import Prepared, given_material
from normwise.workflows.negatives_parts import (
    Read,
    bounds_record,
    cross_entropy_record,
    effective_negatives,
    fit_record,
    floor_of,
    known,
    pool_record,
    read_pool,
    search_span,
    spans,
    step_records,
    temperature_row,
)
from normwise.workflows.negatives_verdict import nearest, verdict

# Steps of a factor of the square root of 2, four down and four up.
_SWEEP = tuple(2.0 ** (step / 2.0) for step in range(-4, 5))
_SWEEP_QUERIES, _SWEEP_POOL = 2_000, 20_000
_OWN_K = 256


def advise_negatives(
    queries: str | Path | np.ndarray | None = None,
    positives: str | Path | np.ndarray | None = None,
    *,
    pool: str | Path | np.ndarray | None = None,
    model: str | Path | None = None,
    data: str | Path | None = None,
    similarity: str | None = None,
    temperature: float | None = None,
    k: int | None = None,
    candidates: int | None = None,
    temperatures: Sequence[float] | None = None,
    limit_queries: int = 10_000,
    limit_pool: int = 200_000,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool | None = False,
    report: Path | None = None,
    overwrite: bool = False,
) -> NegativesReport:
    """Say what the number of negatives and the temperature of InfoNCE do to vectors, and what to change.

    Args:
        queries: (B, D) raw vectors, or a `.npy` file of them.
        positives: (B, D) likewise: row i is the positive of query i.
        pool: (M, D) vectors that negatives are drawn from; None takes the positives of other queries, as a batch does.
        model: a saved model, a folder or a hub id, in place of vectors; it brings its similarity and temperature.
        data: judged queries or pairs for `model`: their corpus is the pool.
        similarity: one of the four names; asked for with vectors, never guessed.
        temperature: tau, 1e-6 to 1e6; a model that normwise trained brings its own.
        k: negatives per query in training, which the advice is about, 1 to 2^53; None takes 256, or the pool where that is smaller.
        candidates: also the risk of a search over so many candidates, 1 to 2^53.
        temperatures: of the sweep; None takes nine, from a quarter of `temperature` to four times it.
        limit_queries: at most so many queries, drawn by `seed`.
        limit_pool: at most so many of the pool, likewise.
        seed: of draws, and of the order of the pool.
        batch_size: texts per forward pass.
        progress: show bars; None shows them on a terminal only.
        report: where to write the HTML page; None writes none.
        overwrite: replace an earlier page at `report`.

    Returns:
        The report. A pair of a query and a row of the pool that is a copy of its own positive is no negative: masked, and counted.
        Copies are equal as they are scored, but for storage in half precision. Queries that this leaves next to no negatives are
        left out, and the notes say which.

    Raises:
        InputError: an argument of another type or out of its range; vectors that are not finite or do not fit each other, rows of
            zeros where the similarity normalizes them, values or scores beyond float32; a similarity or temperature that is missing;
            a pool without a negative.

    Reference: Whiteley (2026) for the risk and its limit; estimators, errors and bounds are described in the guide on negatives.

    Example:
        >>> found = advise_negatives(np.eye(8), np.eye(8), similarity="cosine", temperature=1.0)
        >>> found.pool.kind, found.k, [round(value, 3) for value in found.risk]
        ('positives of other queries', (1, 2, 4, 7), [0.313, -0.142, -0.481, -0.672])
    """
    start = time.monotonic()
    report = None if (place := checked_place("report", report)) is None else Path(place)
    check_report(report, overwrite=checked_flag("overwrite", overwrite))
    seed = checked_count("seed", seed, least=0, most=None)
    limits = Limits(
        checked_count("limit_queries", limit_queries, least=2, most=None), checked_count("limit_pool", limit_pool, most=None), seed
    )
    k = None if k is None else checked_count("k", k)
    candidates = None if candidates is None else checked_count("candidates", candidates)
    taus = checked_temperatures(temperatures)
    batch_size = checked_count("batch_size", batch_size)
    progress = None if progress is None else checked_flag("progress", progress)
    model, data = checked_place("model", model), checked_place("data", data)
    if model is None:
        if queries is None or positives is None:
            raise InputError("negatives needs vectors of queries and of their positives, or a model with data")
        if data is not None:
            raise InputError("data belongs to a model: bare vectors are queries, positives and pool; leave data out, or give a model")
        material = given_material(queries, positives, pool, similarity=similarity, temperature=temperature, limits=limits)
    else:
        if queries is not None or positives is not None or pool is not None:
            raise InputError("a model makes its own vectors from data: leave queries, positives and pool out, or leave model out")
        if data is None:
            raise InputError("a model needs data: judged queries or pairs whose vectors it makes")
        if similarity is not None:
            raise InputError("similarity belongs to bare vectors: a model brings its own; leave it out")
        material = judged_material(model, data, temperature=temperature, limits=limits, batch_size=batch_size, progress=progress)
    found = _advise(material, k=k, candidates=candidates, temperatures=taus, seed=seed)
    found = found.model_copy(update={"seconds": time.monotonic() - start, "report": None if report is None else printable(str(report))})
    if report is not None:
        from normwise.report.page import render_negatives

        write_text(report, render_negatives(found))
    return found


def _advise(
    material: Prepared, *, k: int | None, candidates: int | None, temperatures: Sequence[float] | None, seed: int
) -> NegativesReport:
    tau = material.temperature
    others = _others(material, temperatures)
    refuse_unheld(material.largest, float(np.abs(material.own_similarity).max()), least=min([tau, *others]))
    read = read_pool(material)
    notes = list(material.notes)
    at = _own_k(read, k, notes)
    near = nearest(read, at)
    if at <= read.curve.k[-1] and near not in (at, read.curve.k[-1]):
        notes.append(f"k = {at:,} is not on the curve: the advice is about {near:,}, the nearest")
    sweep, lesser, wrong = _sweep(material, others, seed=seed)
    own = next(each for each in sweep if each.temperature == tau)
    ks = read.curve.k
    return NegativesReport(
        advice=verdict(read, at, sweep, own, recall=wrong.hit_rate),
        k=tuple(ks.tolist()),
        risk=tuple(read.curve.risk.tolist()),
        risk_ci=spans(read.curve.risk, read.curve.risk_error),
        decoupled=tuple(read.curve.decoupled.tolist()),
        decoupled_ci=spans(read.curve.decoupled, read.curve.decoupled_error),
        steps=step_records(read.curve),
        cross_entropy=cross_entropy_record(read.limit),
        cv2=Spread(median=read.regime.cv2_median, p90=read.regime.cv2_p90, mean=read.regime.cv2_mean),
        regime=RegimeRecord(
            positive_weight=known(read.regime.positive_weight),
            decoupled_start=known(read.regime.decoupled_start),
            start=known(read.regime.start),
            reached=read.regime.pool >= read.regime.start,
            extrapolates=read.regime.extrapolates,
            constant=known(read.regime.constant),
        ),
        fit=fit_record(read),
        effective_negatives=effective_negatives(material, read, seed=seed),
        bounds=bounds_record(material, read),
        temperatures=tuple(temperature_row(each, own, lesser, wrong) for each in sweep),
        false_negatives=FalseNegativeRecord(
            at_most=known(wrong.at_most),
            ci_high=known(wrong.high),
            above_own=wrong.above_own,
            expected_at_k=known(wrong.at_most * at),
        ),
        pool=pool_record(material, at, notes, seed=seed),
        at=at,
        loss_floor=floor_of(material.similarity, at, tau, in_batch=material.in_batch),
        candidates=candidates,
        search=None if candidates is None else search_span(read, candidates, notes),
        similarity=material.similarity.value,
        temperature=tau,
        queries=len(material.queries),
        sweep_queries=len(lesser.queries),
        sweep_pool=len(lesser.pool),
        sweep_k=own.regime.pool,
        source=printable(material.source),
        notes=tuple(notes),
    )


def _own_k(read: Read, k: int | None, notes: list[str]) -> int:
    """The number of negatives that the advice is about."""
    size = read.regime.pool
    if k is None:
        return min(_OWN_K, size)
    if k > size:
        notes.append(f"k is {k:,}, and the pool holds {size:,} negatives of each query: a larger pool would show what {k:,} do")
    return k


def _others(material: Prepared, temperatures: Sequence[float] | None) -> list[float]:
    """What to compare with: what was asked for, else nine as far as scores can be told there."""
    if temperatures is not None:
        return list(temperatures)
    least = max(LEAST_TEMPERATURE, float(np.abs(material.own_similarity).max()) / MOST_SCORE)
    return [tau for factor in _SWEEP if least <= (tau := factor * material.temperature) <= MOST_TEMPERATURE]


def _sweep(material: Prepared, others: Sequence[float], *, seed: int) -> tuple[list[AtTemperature], Prepared, FalseNegatives]:
    lesser = material.cut(_SWEEP_QUERIES, _SWEEP_POOL, seed=seed)
    parts = lesser.queries, lesser.positives, lesser.pool
    sweep = temperature_sweep(*parts, temperature=material.temperature, others=others, masked=lesser.pairs)
    return sweep, lesser, false_negative_bound(*parts, masked=lesser.pairs)
