"""A calibration file that was edited by hand: refused by the key, or a probability whatever the hits; what was fitted is never refused."""

import copy
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from bake_off_worlds import judged
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from normwise.core.calibration_records import LARGEST, MOST_CONFIDENCE, Fingerprint, VerdictRecord
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.bake_off import bake_off
from normwise.theory.calibration import Calibration, parse_calibration
from normwise.theory.calibrators import (
    BetaCalibrator,
    IsotonicCalibrator,
    LogisticCalibrator,
    NormTemperatureCalibrator,
    PriorCalibrator,
    RerankingCalibrator,
    SoftmaxCalibrator,
    TemperatureCalibrator,
)
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.lower_hits import LowerHits
from normwise.theory.selective_threshold import certified_threshold

DEPTH = 12


def whole(calibrator, world, *, target=0.7, level=0.9):
    """A calibration as a fit makes it: threshold and hits after the first by the calibrator's own predictions."""
    first, places = calibrator.predict(world.hits, priors=world.priors), calibrator.order(world.hits, priors=world.priors)
    right = world.relevant[np.arange(len(world)), places]
    threshold = certified_threshold(first, right, target=target, confidence_level=level)
    return Calibration(
        fingerprint=Fingerprint(
            model="m", similarity=world.hits.similarity.value, search="exact", candidates=5 * world.hits.depth, depth=world.hits.depth
        ),
        calibrator=calibrator,
        lower_hits=LowerHits.fit(world, first, places=places),
        threshold=threshold,
        verdict=VerdictRecord(label="no-usable-threshold" if threshold is None else "usable", text="as the test says"),
        target=target,
        confidence_level=level,
        created="2026-11-30",
    )


def fits_of(world):
    """One of each kind that a file can hold and a search can read without more than its hits."""
    base = NormTemperatureCalibrator.fit(world)
    return {
        "softmax": SoftmaxCalibrator.fit(world, temperature=0.05),
        "temperature": TemperatureCalibrator.fit(world),
        "norm_temperature": base,
        "norm_temperature_controls": NormTemperatureCalibrator.fit(world, controls=("query length",)),
        "logistic": LogisticCalibrator.fit(world, signals=("score", "margin", "entropy", "residual"), temperature=0.05),
        "logistic_controls_norm": LogisticCalibrator.fit(world, kind="logistic_controls_norm"),
        "norm_reranking": RerankingCalibrator.fit(world),
        "norm_prior": PriorCalibrator.fit(world),
        "isotonic": IsotonicCalibrator.fit(world, base=base),
        "beta": BetaCalibrator.fit(world, base=base),
    }


@pytest.fixture(scope="module")
def world():
    return judged(seed=0, count=300, depth=DEPTH, by_norm=0.5)


@pytest.fixture(scope="module")
def files(world):
    """The text of a file by kind."""
    found = {name: whole(each, world) for name, each in fits_of(world).items()}
    assert any(each.threshold is not None for each in found.values())
    return {name: each.to_json() for name, each in found.items()}


def changed(text, path, value):
    """The file with one value in another's place; `path` is its key, as a message names it."""
    read = json.loads(text)
    inside = read
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        inside = inside[part]
    inside[last] = value
    return json.dumps(read)


WRONG = [
    ("logistic", "format", True, "format: expected 1"),
    ("logistic", "threshold.probability", 0, "expected above 0"),
    ("logistic", "threshold.probability", -1, "expected above 0"),
    ("logistic", "threshold.probability", 6, "expected 1 or below"),
    ("logistic", "threshold.probability", math.nan, "expected a finite number"),
    ("logistic", "threshold.probability", math.inf, "expected a finite number"),
    ("logistic", "threshold.probability", "0.5", "expected a number"),
    ("logistic", "threshold.probability", True, "expected a number"),
    ("logistic", "threshold.precision_target", 1.5, "expected below 1"),
    ("logistic", "threshold.confidence", 0.4, "expected above 0.5"),
    ("logistic", "threshold.confidence", 0.99999, "expected 0.9999 or below"),
    ("logistic", "threshold.answered", -1, "expected 0 or above"),
    ("logistic", "threshold.answered", 1.5, "expected a whole number"),
    ("logistic", "target", 0.5, "expected 0.7 as in threshold.precision_target, and 0.5 came"),
    ("logistic", "confidence_level", 0.8, "expected 0.9 as in threshold.confidence, and 0.8 came"),
    ("logistic", "threshold", None, 'verdict: expected the label "usable" with a threshold'),
    ("logistic", "verdict.label", "no-usable-threshold", 'verdict: expected the label .*; it is "no-usable-threshold" with a threshold'),
    ("logistic", "verdict.label", "maybe", "expected 'usable' or 'no-usable-threshold'"),
    ("logistic", "fingerprint.candidates", -3, "expected 0 or above"),
    ("logistic", "fingerprint.candidates", 4, "fingerprint: expected a depth of at most its candidates, 4, and it is 12"),
    ("logistic", "fingerprint.depth", 10**30, "fingerprint: expected a depth of at most its candidates"),
    ("logistic", "fingerprint.similarity", "cosin", "similarity 'cosin' is unknown: did you mean cosine"),
    ("temperature", "fingerprint.depth", 1, "calibrator: expected a fingerprint.depth of 2 or above"),
    ("logistic", "created", "today", "expected a date, such as 2026-01-31"),
    ("logistic", "surprise", 1, "expected no such key"),
    ("logistic", "calibrator", {"kind": "magic"}, "expected a kind, one of 'softmax', 'temperature', .*, and it is 'magic'"),
    ("logistic", "calibrator", [], "expected a table"),
    ("logistic", "calibrator", {}, "expected a table with a kind"),
    ("logistic", "calibrator", {"kind": "softmax"}, "calibrator.temperature: expected a value, and the key is missing"),
    *[
        ("logistic", f"calibrator.columns.0.{name}", value, words)
        for name in ("coefficient", "center", "knot", "scale")
        for value, words in (
            (math.inf, "expected a finite number"),
            (-math.inf, "expected a finite number"),
            (math.nan, "expected a finite number"),
            (1e308, r"expected 1e\+150 or below"),
        )
    ],
    ("logistic", "calibrator.columns.0.scale", 0, "expected 1e-150 or above"),
    ("logistic", "calibrator.columns.0.signal", "scores", "'scores' is no signal: did you mean score"),
    ("logistic", "calibrator.columns.1.signal", "score", "calibrator.columns: .* that of score with no knot stands there twice"),
    ("logistic", "calibrator.temperature", None, "expected the training temperature, which entropy reads"),
    ("logistic", "calibrator.temperature", 0, "expected 1e-150 or above"),
    ("logistic", "lower_hits.intercept", math.inf, "expected a finite number"),
    ("logistic", "lower_hits.weights.1", math.nan, "expected a finite number"),
    ("logistic", "lower_hits.weights.3", -1e308, r"expected -1e\+150 or above"),
    ("logistic", "lower_hits.weights", [1.0], "expected at least 4 items"),
    ("logistic", "lower_hits.weights", [1.0] * 5, "expected at most 4 items"),
    ("logistic", "lower_hits.hits", 1, "lower_hits.relevant: expected no more relevant hits than hits"),
    ("softmax", "calibrator.temperature", 1e-320, "expected 1e-150 or above"),
    ("softmax", "calibrator.temperature", math.inf, "expected a finite number"),
    ("temperature", "calibrator.inverse_temperature", 1e100, "calibrator.bounds: expected a range that holds the inverse_temperature"),
    ("temperature", "calibrator.bounds", [5.0], r"calibrator\.bounds\.1: expected a value"),
    ("temperature", "calibrator.bounds", [5.0, 1.0], "expected a lower number and a higher one, and 5 is not below 1"),
    ("temperature", "calibrator.bounds.0", math.nan, "expected a finite number"),
    ("temperature", "calibrator.bounds.0", 0, "expected 1e-150 or above"),
    ("norm_reranking", "calibrator.bounds", [1e149, 1e150], "expected a range that holds the inverse_temperature"),
    ("norm_prior", "calibrator.score_weight", -1, "expected 0 or above"),
    ("norm_temperature", "calibrator.exponents", {"log query norm": 1.0, "nope": 1.0}, "'nope' has no exponent here"),
    ("norm_temperature", "calibrator.exponents", {"log query norm": 1.0, "query length": 1.0}, "'query length' has no exponent here"),
    ("norm_temperature_controls", "calibrator.exponents", {"query length": 1.0}, "expected that of log query norm among them"),
    ("norm_temperature", "calibrator.exponents.log query norm", math.nan, "expected a finite number"),
    ("isotonic", "calibrator.x", [0.5, 0.2], "expected numbers that never fall, and 0.2 at place 1 comes after 0.5"),
    ("isotonic", "calibrator.x", [], "expected at least 1 item"),
    ("isotonic", "calibrator.x", [0.5], "calibrator.y: expected as many numbers as x has, 1, and"),
    ("isotonic", "calibrator.y", [], "expected as many numbers as x has"),
    ("isotonic", "calibrator.y.0", math.nan, "expected a finite number"),
    ("isotonic", "calibrator.y.0", 6, "expected 1 or below"),
    ("isotonic", "calibrator.y.0", 1, "calibrator.y: expected numbers that never fall"),
    ("isotonic", "calibrator.base.intercept", 1e308, r"calibrator\.base\.intercept: expected 1e\+150 or below"),
    ("isotonic", "calibrator.base", {"kind": "isotonic"}, "expected a kind, one of"),
    ("beta", "calibrator.a", -1, "expected 0 or above"),
    ("beta", "calibrator.c", 1e308, r"expected 1e\+150 or below"),
]


@pytest.mark.parametrize(("kind", "path", "value", "words"), WRONG)
def test_what_no_fit_could_have_written_is_refused_by_its_key_and_with_the_way_out(files, kind, path, value, words):
    key = "" if ":" in words else f"{re.escape(path)}: "
    way_out = "Move it away and fit it again: normwise calibrate --model m$"
    with pytest.raises(InputError, match=f"^m/c.json is not a whole calibration: {key}.*{words}.*{way_out}"):
        parse_calibration(changed(files[kind], path, value), "m/c.json", again="normwise calibrate --model m")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda text: text.replace('"m"', '"\\udc80"', 1), "not a whole calibration: expected JSON of whole characters"),
        (lambda text: text.replace('"format":1', f'"format":{"1" * 5000}', 1), r"is no JSON \(a number of many digits\)"),
        (lambda text: text.encode("utf-16"), r"is no JSON \(not UTF-8\)"),
    ],
)
def test_text_that_is_read_by_one_reader_only_is_refused_in_words(files, edit, words):
    with pytest.raises(InputError, match=words):
        parse_calibration(edit(files["softmax"]), "c.json")


VALUES = st.one_of(
    st.sampled_from([0.0, -0.0, -1.0, 1.0, 2, 1e-320, 1e-150, 1e150, -1e150, 1e308, -1e308, math.nan, math.inf, -math.inf, 10**30]),
    st.floats(),
    st.floats(0.0, 1.0),
    st.integers(-3, 2000),
)


def numbers(read, path=()):
    """The paths of all numbers of a file."""
    if isinstance(read, dict | list):
        for key, inside in read.items() if isinstance(read, dict) else enumerate(read):
            yield from numbers(inside, (*path, key))
    elif isinstance(read, int | float) and not isinstance(read, bool):
        yield path


def parsed(read):
    """The calibration, or None and why it is none."""
    try:
        return parse_calibration(json.dumps(read), "c.json"), ""
    except InputError as refused:
        return None, str(refused)


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e100, 1e300])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_an_edited_number_is_refused_by_its_key_or_every_probability_stays_one(files, world, size, data):
    """Whatever the scores are, of whatever size: warnings of the arithmetic would be errors here."""
    read = json.loads(files[data.draw(st.sampled_from(list(files)), label="kind")])
    edited = copy.deepcopy(read)
    paths = [path for path in numbers(read) if path[0] != "evidence"]
    some = data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3, unique=True), label="paths")
    for path in some:
        inside = edited
        for part in path[:-1]:
            inside = inside[part]
        inside[path[-1]] = data.draw(VALUES, label=str(path))
    calibration, refusal = parsed(edited)
    if calibration is None:
        names = {[part for part in path if isinstance(part, str)][-1] for path in some}
        assert any(name in refusal for name in names), (refusal, some)
        return
    # A search finds as many hits as are needed.
    assume(calibration.depth_needed <= DEPTH)
    few = world.hits.subset(np.arange(20))
    hits = replace(few, scores=size * few.scores, query_norms=few.query_norms * size**0.5, hit_norms=few.hit_norms / size**0.5)
    found = calibration.apply(hits).probabilities
    known = found if calibration.lower_hits is not None else found[~np.isnan(found)]
    assert ((known >= 0.0) & (known <= 1.0)).all(), some
    assert known.size >= len(hits)


def test_the_largest_numbers_that_pass_give_probabilities(files, world):
    huge = replace(world.hits, scores=1e300 * world.hits.scores)
    for kind, text in files.items():
        read = json.loads(text)
        for path in numbers(read["calibrator"]):
            for value in (LARGEST, -LARGEST, 1.0 / LARGEST):
                edited = copy.deepcopy(read)
                inside = edited["calibrator"]
                for part in path[:-1]:
                    inside = inside[part]
                inside[path[-1]] = value
                calibration, _ = parsed(edited)
                if calibration is None:
                    continue
                for hits in (world.hits, huge):
                    found = calibration.apply(hits).probabilities
                    assert ((found >= 0.0) & (found <= 1.0)).all(), (kind, path, value)


def test_no_confidence_is_told_as_certain(world):
    made = judged(seed=4, count=2000, by_score=40.0)
    calibration = whole(LogisticCalibrator.fit(made), made, target=0.6, level=MOST_CONFIDENCE)
    assert calibration.threshold is not None
    assert calibration.apply(world.hits).reason(0, 0).endswith("precision 0.6 with 99.99% confidence")
    right = np.ones(9, dtype=bool)
    with pytest.raises(InputError, match=r"confidence_level is 0\.99995; expected at most 0\.9999: a smaller chance"):
        certified_threshold(np.linspace(0.1, 0.9, 9), right, target=0.6, confidence_level=0.99995)


def in_unit(world, unit, similarity):
    """The same answers with all scores in another unit."""
    return replace(world, hits=replace(world.hits, scores=unit * world.hits.scores, similarity=similarity))


@settings(max_examples=12)
@given(
    seed=st.integers(0, 50),
    unit=st.sampled_from([1e-15, 1e-6, 1.0, 400.0, 1e15]),
    depth=st.sampled_from([2, DEPTH]),
    by_score=st.sampled_from([0.0, 6.0, 60.0]),
    by_length=st.sampled_from([0.0, 2.0]),
    similarity=st.sampled_from(list(Similarity)),
)
def test_what_is_fitted_is_never_refused_and_comes_back_bit_by_bit(seed, unit, depth, by_score, by_length, similarity):
    made = judged(seed=seed, count=160, depth=depth, by_score=by_score, by_norm=1.0, by_length=by_length)
    made = in_unit(made, unit, similarity)
    for name, calibrator in fits_of(made).items():
        calibration = whole(calibrator, made)
        again = parse_calibration(calibration.to_json(), "c.json")
        assert again == calibration, name
        before, after = calibration.apply(made.hits), again.apply(made.hits)
        np.testing.assert_array_equal(before.probabilities, after.probabilities, err_msg=name)
        np.testing.assert_array_equal(before.abstain, after.abstain, err_msg=name)


@pytest.mark.parametrize(
    "by",
    [
        {"by_norm": 2.0, "frequency": True},
        *(pytest.param(by, marks=pytest.mark.slow) for by in ({"by_score": 9.0}, {"by_length": 3.0}, {"by_score": 0.0})),
    ],
)
def test_every_calibrator_of_a_bake_off_makes_the_trip(by):
    made = judged(seed=3, count=160, **by)
    found = bake_off(made, temperature=0.05, seed=0, lengths_at_search=True)
    assert len(found.fitted) > 8
    for name, calibrator in found.fitted.items():
        calibration = whole(calibrator, made)
        assert parse_calibration(calibration.to_json(), "c.json") == calibration, name


def test_answers_that_a_score_separates_and_rows_without_rivals_make_the_trip():
    made = judged(seed=1, count=200)
    first = made.hits.scores[:, 0]
    relevant = made.relevant.copy()
    relevant[:, 0] = first > np.median(first)
    for name, calibrator in fits_of(replace(made, relevant=relevant)).items():
        calibration = whole(calibrator, replace(made, relevant=relevant))
        assert parse_calibration(calibration.to_json(), "c.json") == calibration, name


def test_a_repeated_signal_is_one_column():
    made = judged(seed=2, count=200)
    twice = ("score", "score", "log query norm")
    plain = LogisticCalibrator.fit(made, kind="logistic_norm", signals=twice)
    assert [column.signal for column in plain.columns] == ["score", "log query norm", "log hit norm"]
    curved = LogisticCalibrator.fit(made, kind="logistic_controls_norm", signals=twice)
    assert parse_calibration(whole(curved, made).to_json(), "c.json").calibrator == curved


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1e30, r"scores reach .*; expected magnitudes up to 1e\+18"),
        (1e-40, "scores of one query differ by .* at most; expected .* 1e-18"),
    ],
)
def test_scores_whose_temperature_no_file_could_hold_are_refused_by_the_fit(factor, words):
    made = in_unit(judged(seed=2, count=100), factor, Similarity.DOT)
    for fit in (TemperatureCalibrator.fit, NormTemperatureCalibrator.fit, RerankingCalibrator.fit, PriorCalibrator.fit):
        with pytest.raises(InputError, match=words):
            fit(made)


def test_temperatures_that_no_file_could_hold_are_refused_by_the_fit():
    made = judged(seed=2, count=100)
    for temperature in (1e-320, 1e200):
        with pytest.raises(InputError, match="expected 1e-150 to"):
            SoftmaxCalibrator.fit(made, temperature=temperature)
        with pytest.raises(InputError, match="expected 1e-150 to"):
            LogisticCalibrator.fit(made, signals=("score", "entropy"), temperature=temperature)


def test_scores_that_no_lower_hits_could_be_fitted_to_are_refused():
    made = in_unit(judged(seed=2, count=300), 1e120, Similarity.DOT)
    with pytest.raises(InputError, match=r"scores reach .*; expected magnitudes up to 1e\+100"):
        LowerHits.fit(made, np.full(300, 0.5))


def test_a_zero_weight_file_still_abstains_where_a_vector_is_zero():
    hits = HitLists(np.array([[0.5, 0.4]]), np.zeros(1), np.ones((1, 2)), Similarity.COSINE)
    unjudged = JudgedHits(hits, np.zeros((1, 2), dtype=bool), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool))
    flat = IsotonicCalibrator(base=SoftmaxCalibrator(temperature=1.0), x=(0.0, 1.0), y=(1.0, 1.0))
    assert flat.predict(unjudged.hits).tolist() == [0.0]
