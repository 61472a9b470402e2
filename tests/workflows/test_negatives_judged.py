"""A model's own data: drawn before anything is encoded, with the draws and masks of vectors that were encoded whole."""

import dataclasses

import numpy as np
import pytest

from normwise.core.similarity import Similarity
from normwise.data.sets import Corpus, Judged
from normwise.workflows import calibrate_data, calibrate_material
from normwise.workflows.negatives_inputs import Limits, Words
from normwise.workflows.negatives_judged import counted_notes, judged_material
from normwise.workflows.negatives_material import prepared


class Reader:
    """Has one vector for each text, and counts what it is asked for."""

    name, similarity = "reader", Similarity.DOT

    def __init__(self):
        self.asked = []

    def vectors(self, texts, **_):
        self.asked.append(list(texts))
        return np.array([np.random.default_rng(int(text[1:]) + 1000 * (text[0] == "c")).normal(size=6) for text in texts])

    encode_queries = encode_candidates = vectors


@pytest.fixture
def world(monkeypatch):
    """40 queries, two of them without an answer, over 90 candidates; each other has one relevant candidate, and some have two."""
    corpus = Corpus(tuple(f"d{row}" for row in range(90)), tuple(f"c{row}" for row in range(90)))
    relevance = [{2 * row: 1.0} for row in range(40)]
    relevance[3] = {6: 1.0, 80: 2.0, 1: 1.0}
    relevance[5], relevance[39] = {}, {}
    judged = Judged(tuple(map(str, range(40))), tuple(f"q{row}" for row in range(40)), tuple(relevance), corpus, np.arange(40))
    asked = calibrate_data.Asked("rows", judged, np.zeros(40, dtype=bool), np.zeros(40, dtype=bool), None, ("told",))
    reader = Reader()
    monkeypatch.setattr(calibrate_data, "load_asked", lambda data: asked)
    monkeypatch.setattr(calibrate_material, "open_encoder", lambda model: (reader, []))
    monkeypatch.setattr(calibrate_material, "known_temperature", lambda encoder, given: given)
    return judged, reader


def material(limits):
    return judged_material("m", "d", temperature=1.0, limits=limits, batch_size=8, progress=False)


@pytest.mark.parametrize("limits", [Limits(10, 20, 3), Limits(10, 1000, 1), Limits(1000, 20, 2), Limits(1000, 1000, 0)])
def test_what_is_drawn_first_is_what_was_drawn_of_the_whole(world, limits):
    judged, reader = world
    found = material(limits)
    answered = [row for row in range(40) if judged.relevance[row]]
    best = [80 if row == 3 else 2 * row for row in answered]
    whole = Reader()
    queries, corpus = whole.vectors([judged.queries[row] for row in answered]), whole.vectors(judged.corpus.texts)
    expected = prepared(
        queries,
        corpus[best],
        corpus,
        similarity=Similarity.DOT,
        temperature=1.0,
        limits=limits,
        words=Words("x"),
        relevant=[np.array(sorted(judged.relevance[row])) for row in answered],
    )
    for name in ("queries", "positives", "pool", "own_similarity", "positive_keys"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for each in ("rows", "places"):
        np.testing.assert_array_equal(getattr(found.masked, each), getattr(expected.masked, each))
    assert set(expected.notes) <= set(found.notes)


def test_only_what_was_drawn_is_encoded(world):
    judged, reader = world
    found = material(Limits(10, 20, 3))
    queries, candidates = reader.asked
    assert len(queries) == len(set(queries)) == 10
    assert len(candidates) == len(set(candidates))
    assert 20 <= len(candidates) <= 30
    assert (len(found.queries), len(found.pool)) == (10, 20)
    assert "10 of 38 queries were drawn (limit_queries)" in found.notes
    assert "20 of 90 negatives were drawn (limit_pool)" in found.notes


def test_fewer_queries_than_rows_are_explained(world):
    notes = material(Limits(1000, 1000, 0)).notes
    assert "2 of 40 queries have no relevant candidate, and so no positive: they take no part" in notes
    assert any(note.startswith("40 pairs of a query and a relevant candidate come from 38 queries, since rows of one") for note in notes)
    judged, _ = world
    plain = dataclasses.replace(judged, relevance=tuple({row: 1.0} for row in range(40)))
    assert counted_notes(plain, np.arange(40)) == []


def test_a_row_that_cannot_be_scored_is_named_as_in_the_corpus(world, monkeypatch):
    judged, reader = world
    usual = reader.vectors
    monkeypatch.setattr(reader, "encode_candidates", lambda texts, **more: usual(texts) * np.array([[text != "c78"] for text in texts]))
    monkeypatch.setattr(reader, "similarity", Similarity.CANDIDATE_NORMALIZED)
    seen = [seed for seed in range(4) if _refused(Limits(1000, 60, seed))]
    assert seen


def _refused(limits):
    try:
        material(limits)
    except calibrate_data.InputError as error:
        return "row 78 is all zeros" in str(error)
    return False
