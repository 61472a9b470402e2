"""Directions: each calibrated by itself, as if the others were not there; scores near 0.2 that become probabilities."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from normwise.core.calibration_records import Fingerprint, ThresholdRecord, VerdictRecord
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.data.contents import Interleaved
from normwise.data.documents import indexed_text
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged
from normwise.report.hits_view import DirectionReport, DirectionsReport
from normwise.report.page import render_calibration
from normwise.theory.calibration import Calibration
from normwise.theory.calibration_error import expected_calibration_error
from normwise.theory.hit_lists import HitLists
from normwise.theory.logistic_calibrator import LogisticCalibrator, LogisticColumn
from normwise.theory.lower_hits import LowerHits
from normwise.workflows import calibrate_finish
from normwise.workflows.calibrate_data import Asked, cluster
from normwise.workflows.calibrate_directions import CalibrationSet, DirectedCalibration, corpus_notes, divide, parse_calibrations
from normwise.workflows.calibrate_files import Place
from normwise.workflows.calibrate_finish import Output, finish
from normwise.workflows.calibrate_fit import Goal, fit_calibration
from normwise.workflows.calibrate_hits import Searched, judge_hits
from normwise.workflows.calibrate_material import Material, word_counts
from normwise.workflows.text_lengths import known_lengths

CANDIDATES = 12


def picture(number):
    """A picture that no other number has."""
    buffer = io.BytesIO()
    Image.new("RGB", (6, 4), (number % 256, number // 256 % 256, 90)).save(buffer, format="PNG")
    return Picture.of_bytes(buffer.getvalue(), name=f"p{number}.png")


def clip_scores(random, count, *, candidates=CANDIDATES, shift=0.0, scale=1.0):
    """Scores as CLIP has them: 0.25 ± 0.03 for the match, in column 0, and 0.19 ± 0.03 for all others."""
    scores = random.normal(0.19, 0.03, size=(count, candidates))
    scores[:, 0] = random.normal(0.25, 0.03, size=count)
    return scale * scores + shift


def hit_lists(scores):
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    hits = HitLists(ranked, np.ones(len(scores)), np.ones(scores.shape), Similarity.COSINE, complete=True)
    return hits, order[:, 0] == 0


def world(parts, *, contents, tasks=(), seed=0):
    """Queries of several parts, (contents, scores) each, over one corpus; the match of query i is candidate i mod N."""
    queries = tuple(content for some, _ in parts for content in some)
    scores = np.concatenate([each for _, each in parts])
    count, size = scores.shape
    match = np.arange(count) % size
    # Column 0 is the match: turn each row so that it stands in the column of its candidate.
    turned = np.stack([np.roll(row, at) for row, at in zip(scores, match, strict=True)])
    corpus = Corpus(tuple(f"c{n}" for n in range(size)), tuple(contents))
    judged = Judged(
        tuple(f"q{n}" for n in range(count)), queries, tuple({int(at): 1.0} for at in match), corpus, np.arange(count), tasks=tasks
    )
    nothing = np.zeros(count, dtype=bool)
    asked = Asked("world", judged, from_dev=nothing, hidden=nothing, popularity=None, notes=())
    order = np.argsort(-turned, axis=1, kind="stable")
    found = Searched(np.take_along_axis(turned, order, axis=1), order, np.ones(count), np.ones(order.shape), size)
    lengths = word_counts(queries), word_counts(contents)
    return Material(
        name="model",
        judged=judge_hits(found, asked, similarity=Similarity.COSINE, query_lengths=lengths[0], candidate_lengths=lengths[1], seed=seed),
        found=found,
        similarity=Similarity.COSINE,
        temperature=0.01,
        fingerprint=Fingerprint(model="m", similarity="cosine", search="exact", candidates=size, corpus_texts="h", depth=size),
        lengths_at_search=True,
        describe=lambda row, place: (corpus.ids[order[row, place]], corpus.contents[order[row, place]]),
        vectors=None,
        lengths=lengths,
        notes=(),
    ), asked


def texts(count, name="text"):
    return tuple(f"{name} {number}" + " more" * (number % 4) for number in range(count))


def pictures(count, first=0):
    return tuple(picture(first + number) for number in range(count))


def fit(material, asked, **goal):
    return fit_calibration(material, asked, Goal(**goal), model_name="m", data_name="d")


def written(*, center=0.26, usable=True):
    """A calibration as `fit` makes them of the score alone, written down: a hit with a score of `center` is right as often as not."""
    threshold = ThresholdRecord(
        precision_target=0.6, confidence=0.9, probability=0.34, coverage=0.9, answered=117, precision=0.67, precision_low=0.6
    )
    return Calibration(
        fingerprint=Fingerprint(model="m", similarity="cosine", search="exact", candidates=CANDIDATES, corpus_texts="h", depth=CANDIDATES),
        calibrator=LogisticCalibrator(
            kind="logistic", columns=(LogisticColumn(signal="score", center=center, scale=0.02, coefficient=0.8),), intercept=0.0
        ),
        lower_hits=LowerHits(intercept=-0.2, weights=(0.9, 20.0, -0.5, 0.4)),
        threshold=threshold if usable else None,
        verdict=VerdictRecord(label="usable" if usable else "no-usable-threshold", text=f"center {center}"),
        target=0.6,
        confidence_level=0.9,
        created="2026-01-02",
    )


# Queries of texts and of pictures, whose scores lie elsewhere and closer together.
EACH = 300


def two_parts():
    random = np.random.default_rng(3)
    return (texts(EACH), clip_scores(random, EACH)), (pictures(EACH, 1000), clip_scores(random, EACH, shift=0.4, scale=0.5))


@pytest.fixture(scope="module")
def alone():
    """Either part of `two_parts` calibrated where the other is not, by direction."""
    made = {}
    for each in two_parts():
        material, asked = world([each], contents=pictures(CANDIDATES))
        [part] = divide(material, asked, seed=0)
        made[part.direction] = fit(part.material, part.asked, precision=0.7)
    return made


@pytest.mark.slow
def test_scores_near_a_fifth_become_probabilities_and_a_threshold_keeps_its_promise():
    random = np.random.default_rng(0)
    material, asked = world([(texts(900), clip_scores(random, 900))], contents=pictures(CANDIDATES))
    [part] = divide(material, asked, seed=0)
    assert (part.direction, part.pictured, len(part.asked.judged)) == ("text -> image", True, 900)
    report, calibration = fit(part.material, part.asked, precision=0.8)
    fresh, right = hit_lists(clip_scores(np.random.default_rng(1), 20_000))
    said = calibration.apply(fresh)
    first = said.probabilities[:, 0]
    assert expected_calibration_error(first, right) < 0.05
    assert abs(first.mean() - right.mean()) < 0.04
    assert fresh.scores[:, 0].max() < 0.4
    assert first.max() > 0.9
    assert report.threshold is not None
    answered = ~said.abstain[:, 0]
    assert 0.3 < answered.mean() < 0.9
    assert right.mean() < 0.7 < 0.8 <= right[answered].mean()


@pytest.mark.slow
def test_scores_that_tell_nothing_are_refused_a_threshold():
    random = np.random.default_rng(2)
    # The match stands out at random only: right as often as chance, whatever the score.
    scores = random.normal(0.2, 0.03, size=(400, 3))
    material, asked = world([(texts(400), scores)], contents=pictures(3))
    report, _ = fit(*(lambda part: (part.material, part.asked))(divide(material, asked, seed=0)[0]))
    assert (report.threshold, report.verdict.label) == (None, "no-usable-threshold")


@pytest.mark.slow
def test_two_directions_are_each_as_if_the_other_were_not_there(tmp_path, alone):
    whole = world(two_parts(), contents=pictures(CANDIDATES))
    output = Output(Place(tmp_path / "calibration.json", None, ()), tmp_path / "page.html", {"--seed": "0"}, 0.0)
    report = finish(*whole, Goal(precision=0.7), output, ("m", "d"))
    assert isinstance(report, DirectionsReport)
    assert list(report.directions) == ["image -> image", "text -> image"]
    kept = parse_calibrations((tmp_path / "calibration.json").read_bytes(), "calibration.json")
    assert isinstance(kept, CalibrationSet)
    assert kept.candidates == ("image",)
    assert set(alone) == set(report.directions)
    for name, (_, expected) in alone.items():
        found = kept.of(name)
        assert isinstance(found, Calibration)
        assert found.calibrator == expected.calibrator
        assert found.threshold == expected.threshold
        assert report.directions[name].threshold == expected.threshold
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/") <= 40
    assert "image -&gt; image" in page
    assert "text -&gt; image" in page
    assert DirectionsReport.from_json(report.to_json()) == report
    assert render_calibration(DirectionsReport.from_json(report.to_json())) == page


@pytest.mark.slow
def test_a_direction_that_cannot_be_calibrated_does_not_stop_the_other(tmp_path, alone, monkeypatch):
    few = (pictures(5, 1000), clip_scores(np.random.default_rng(4), 5))
    material, asked = world([two_parts()[0], few], contents=pictures(CANDIDATES))

    def fitted_before(part, queries, goal, **more):
        return alone["text -> image"] if len(queries.judged) == EACH else fit_calibration(part, queries, goal, **more)

    monkeypatch.setattr(calibrate_finish, "fit_calibration", fitted_before)
    output = Output(Place(tmp_path / "calibration.json", None, ()), None, {}, 0.0)
    report = finish(material, asked, Goal(), output, ("m", "d"))
    assert list(report.directions) == ["text -> image"]
    assert "first hits are right" in report.refused["image -> image"]
    kept = parse_calibrations((tmp_path / "calibration.json").read_text(), "x")
    why = kept.of("image -> image")
    assert why.startswith("calibrated for text -> image only, and this is image -> image (all 5 first hits")


def test_where_no_direction_can_be_calibrated_each_says_why():
    random = np.random.default_rng(5)
    parts = [(texts(4), clip_scores(random, 4)), (pictures(5, 1000), clip_scores(random, 5))]
    with pytest.raises(InputError, match=r"image -> image: too few .*; text -> image: (too few|all 4|all)"):
        finish(*world(parts, contents=pictures(CANDIDATES)), Goal(), Output(Place(None, None, ()), None, {}, 0.0), ("m", "d"))


@pytest.mark.slow
def test_texts_alone_are_calibrated_and_kept_as_before(tmp_path, monkeypatch):
    random = np.random.default_rng(6)
    material, asked = world([(texts(200), clip_scores(random, 200))], contents=texts(CANDIDATES, "document"))
    [part] = divide(material, asked, seed=0)
    assert part.material is material
    assert part.asked is asked
    fitted = []

    def watched(*given, **more):
        fitted.append((given, more, fit_calibration(*given, **more)))
        return fitted[-1][2]

    monkeypatch.setattr(calibrate_finish, "fit_calibration", watched)
    output = Output(Place(tmp_path / "calibration.json", None, ()), None, {}, 0.0)
    report = finish(material, asked, Goal(), output, ("m", "d"))
    [((of, by, goal), more, (said, alone))] = fitted
    assert of is material
    assert by is asked
    assert (goal, more) == (Goal(), {"model_name": "m", "data_name": "d", "thumbnails": None})
    assert not isinstance(report, DirectionReport | DirectionsReport)
    assert report.calibrators == said.calibrators
    read = json.loads((tmp_path / "calibration.json").read_text())
    assert (read["format"], "calibrations" in read) == (1, False)
    assert parse_calibrations(json.dumps(read), "x") == alone.model_copy(update={"options": {}})


def test_a_mixed_corpus_divides_by_the_first_hit_and_says_what_that_means():
    random = np.random.default_rng(7)
    contents = (*texts(6, "document"), *pictures(6))
    material, asked = world([(texts(40), clip_scores(random, 40)), (pictures(20, 900), clip_scores(random, 20))], contents=contents)
    parts = {part.direction: part for part in divide(material, asked, seed=0)}
    assert set(parts) == {"text -> text", "text -> image", "image -> text", "image -> image"}
    assert sum(len(part.asked.judged) for part in parts.values()) == 60
    for name, part in parts.items():
        query, _, hit = name.partition(" -> ")
        assert all(isinstance(each, str) == (query == "text") for each in part.asked.judged.queries)
        firsts = [part.material.describe(row, 0)[1] for row in range(len(part.asked.judged))]
        assert all(isinstance(each, str) == (hit == "text") for each in firsts)
    [note] = corpus_notes(contents)
    assert "6 text, 6 image" in note
    assert "not comparable" in note
    assert corpus_notes(contents[:6]) == []


def test_tasks_of_one_direction_stay_apart_and_are_named():
    random = np.random.default_rng(8)
    tasks = ("find",) * 10 + ("compare",) * 8 + ("find",) * 6
    parts = [(texts(18), clip_scores(random, 18)), (pictures(6, 900), clip_scores(random, 6))]
    found = divide(*world(parts, contents=pictures(CANDIDATES), tasks=tasks), seed=0)
    assert [(part.name, part.direction, len(part.asked.judged)) for part in found] == [
        ("find: text -> image", "text -> image", 10),
        ("compare", "text -> image", 8),
        ("find: image -> image", "image -> image", 6),
    ]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(["text", "image", "both"]), min_size=1, max_size=9), st.integers(0, 3))
def test_parts_together_are_all_queries_and_keep_their_hits(kinds, seed):
    made = {"text": lambda n: f"t {n}", "image": picture, "both": lambda n: Interleaved((picture(n), f"like {n}"))}
    queries = tuple(made[kind](number) for number, kind in enumerate(kinds))
    scores = clip_scores(np.random.default_rng(seed), len(kinds))
    material, asked = world([(queries, scores)], contents=pictures(CANDIDATES, 500))
    names = []
    for part in divide(material, asked, seed=0):
        for row, name in enumerate(part.asked.judged.query_ids):
            at = asked.judged.query_ids.index(name)
            names.append(name)
            np.testing.assert_array_equal(part.material.judged.hits.scores[row], material.judged.hits.scores[at])
            np.testing.assert_array_equal(part.material.judged.relevant[row], material.judged.relevant[at])
            assert part.material.describe(row, 2) == material.describe(at, 2)
    assert sorted(names) == sorted(asked.judged.query_ids)


def test_lengths_are_left_out_exactly_where_there_are_none():
    random = np.random.default_rng(9)
    parts = [(texts(12), clip_scores(random, 12)), (pictures(6, 900), clip_scores(random, 6))]
    by_name = {part.direction: part for part in divide(*world(parts, contents=pictures(CANDIDATES)), seed=0)}
    text, image = by_name["text -> image"].material, by_name["image -> image"].material
    assert text.judged.hits.query_lengths.tolist() == [len(each.split()) for each in texts(12)]
    assert text.judged.hits.hit_lengths is None
    assert image.judged.hits.query_lengths is None
    assert "length" not in image.judged.priors
    assert not text.lengths_at_search
    assert any("no length in tokens" in note for note in image.notes)
    by_name = {part.direction: part for part in divide(*world(parts, contents=texts(CANDIDATES, "d")), seed=0)}
    assert by_name["text -> text"].material.lengths_at_search
    assert by_name["text -> text"].material.judged.hits.hit_lengths is not None
    assert not by_name["image -> text"].material.lengths_at_search
    np.testing.assert_array_equal(known_lengths(np.array([3.0, 4.0])), [3.0, 4.0])


def test_the_same_picture_asked_twice_is_one_cluster():
    corpus = Corpus(("a", "b"), ("x", "y"))
    queries = (picture(1), Picture.of_bytes(picture(1).data, name="another name"), picture(2))
    judged = Judged(("1", "2", "3"), queries, ({}, {0: 1.0}, {1: 1.0}), corpus, np.arange(3))
    assert cluster(judged, own=[judged.clusters])[0].tolist() == [0, 0, 1]


def test_the_text_of_a_picture_in_a_hash_is_its_digest_and_that_of_a_text_the_text():
    same, other = indexed_text(Picture.of_bytes(b"a", name="x.png")), indexed_text(Picture.of_bytes(b"b", name="x.png"))
    assert same != other
    assert indexed_text("plain") == "plain"


@pytest.fixture(scope="module")
def kept():
    return written()


def test_a_set_knows_its_directions_and_says_so(kept):
    row = {"direction": "text -> image", "calibration": kept}
    one = CalibrationSet(calibrations=(DirectedCalibration(**row),), candidates=("image",))
    assert one.of("text -> image") is kept
    assert one.of("image -> text") == "calibrated for text -> image only, and this is image -> text"
    several = CalibrationSet(calibrations=tuple(DirectedCalibration(**row, task=name) for name in ("a", "b")), candidates=("image",))
    assert several.of("text -> image") == "calibrated for text -> image by task (a, b): name the task"
    assert several.of("text -> image", task="b") is kept
    assert several.of("text -> image", task="c") == "calibrated for text -> image (a, b) only, and this is text -> image, task 'c'"
    assert several.depth_needed == kept.depth_needed
    assert not several.needs_lengths


def test_a_task_of_several_directions_is_asked_for_by_its_bare_name(kept):
    rows = [("text -> image", "find: text -> image"), ("image -> text", "find: image -> text"), ("text -> image", "tell")]
    made = [kept, kept.model_copy(), kept.model_copy()]
    several = CalibrationSet(
        calibrations=tuple(
            DirectedCalibration(direction=name, task=task, calibration=each) for (name, task), each in zip(rows, made, strict=True)
        ),
        candidates=("image", "text"),
        refused={"find: text -> text": "too few queries"},
    )
    assert several.of("text -> image", task="find") is several.calibrations[0].calibration
    assert several.of("image -> text", task="find") is several.calibrations[1].calibration
    assert several.of("text -> image", task="find: text -> image") is several.calibrations[0].calibration
    assert several.of("text -> image", task="tell") is several.calibrations[2].calibration
    assert "and this is image -> text, task 'tell'" in several.of("image -> text", task="tell")
    assert several.of("text -> text", task="find").endswith("(too few queries)")


def broken(whole, **changes):
    return json.dumps({**whole, **changes})


def test_a_broken_file_of_a_set_is_told_in_words(kept):
    row = DirectedCalibration(direction="text -> image", calibration=kept)
    whole = json.loads(CalibrationSet(calibrations=(row,), candidates=("image",)).to_json())
    assert parse_calibrations(json.dumps(whole), "f.json").calibrations == (row,)
    rows = whole["calibrations"]
    cases = {
        broken(whole, format=3): r"f\.json has format 3; a file of several calibrations has 2\. Move it away",
        broken(whole, format=True): r"has format True",
        broken(whole, calibrations=3): "expected a list of them",
        broken(whole, calibrations=[{"direction": "text -> image"}]): "expected a list of them",
        broken(whole, calibrations=[]): "not a whole set of calibrations: calibrations:",
        broken(whole, calibrations=[{**rows[0], "direction": "text -> sound"}]): r"calibrations\.0\.direction",
        broken(whole, calibrations=rows * 2): "two calibrations of one direction",
        broken(whole, candidates=["sound"]): r"candidates\.0",
        broken(whole, calibrations=[{**rows[0], "calibration": {"format": 1}}]): r"f\.json, text -> image is JSON, but no calibration",
        "{": "is no JSON",
    }
    for text, words in cases.items():
        with pytest.raises(InputError, match=words):
            parse_calibrations(text, "f.json")
