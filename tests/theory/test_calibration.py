"""The calibration beside a model: applied as fitted, refused where it does not hold, read back bit by bit."""

import json
import math
import shlex
from dataclasses import replace

import numpy as np
import pytest
from bake_off_worlds import judged

from normwise.core.calibration_records import Fingerprint, ThresholdRecord, VerdictRecord
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory.calibration import Calibration, parse_calibration
from normwise.theory.calibrators import (
    IsotonicCalibrator,
    LogisticCalibrator,
    NormTemperatureCalibrator,
    RerankingCalibrator,
    SoftmaxCalibrator,
    TemperatureCalibrator,
)
from normwise.theory.lower_hits import LowerHits
from normwise.theory.selective_threshold import decide

THEN = Fingerprint(
    model="a" * 64, similarity="cosine", search="exact", candidates=500, corpus_texts="t" * 64, corpus_vectors="v" * 64, depth=12
)
THRESHOLD = ThresholdRecord(
    precision_target=0.9, confidence=0.95, probability=0.7, coverage=0.4, answered=80, precision=0.95, precision_low=0.9
)
USABLE = VerdictRecord(label="usable", text="a threshold exists")
NONE = VerdictRecord(label="no-usable-threshold", text="the order of the answers is that of chance")


@pytest.fixture(scope="module")
def world():
    return judged(seed=0, count=300, depth=12, by_norm=0.5)


@pytest.fixture(scope="module")
def fitted(world):
    model = LogisticCalibrator.fit(world, kind="logistic_norm", signals=("score", "margin", "lead"))
    return made(model, lower_hits=LowerHits.fit(world, model.predict(world.hits)))


def made(calibrator, *, lower_hits=None, threshold=THRESHOLD, fingerprint=THEN, **others):
    return Calibration(
        fingerprint=fingerprint,
        calibrator=calibrator,
        lower_hits=lower_hits,
        threshold=threshold,
        verdict=USABLE if threshold else NONE,
        target=0.9,
        confidence_level=0.95,
        evidence={"ece": 0.1 + 0.2, "auroc": None},
        model_name="my model",
        data_name="data",
        created="2026-11-30",
        versions={"normwise": "0.4"},
        **others,
    )


def now(**changes):
    return THEN.model_copy(update=changes)


def test_applied_probabilities_are_those_of_calibrator_and_lower_hits(world, fitted):
    found = fitted.apply(world.hits)
    first = fitted.calibrator.predict(world.hits)
    assert np.array_equal(found.probabilities, fitted.lower_hits.predict(world.hits, first))
    assert np.array_equal(found.order, np.zeros(300))
    assert np.array_equal(found.abstain, found.probabilities < 0.7)
    assert 0 < found.abstain[:, 0].sum() < 300


def test_first_hits_abstain_as_decide_says(world, fitted):
    found = fitted.apply(world.hits)
    abstain, reasons = decide(found.probabilities[:, 0], THRESHOLD)
    assert np.array_equal(found.abstain[:, 0], abstain)
    aim = "0.7, the threshold for precision 0.9 with 95% confidence"
    for query in range(5):
        assert found.reason(query, 0).endswith(aim)
        assert reasons[query].endswith(aim)
        assert ("below" in found.reason(query, 0)) == abstain[query]


def test_a_hit_after_the_first_abstains_by_its_own_probability_and_says_for_whom_the_precision_is(world, fitted):
    found = fitted.apply(world.hits)
    query = int(np.argmax(~found.abstain[:, 0] & found.abstain[:, 5]))
    assert "below 0.7" in found.reason(query, 5)
    assert found.reason(query, 5).endswith("that precision is of first hits, and this is a hit after the first")
    assert found.reason(query, 0).startswith("probability reaches 0.7")
    assert "after the first" not in found.reason(query, 0)
    assert found.reasons() == [[found.reason(row, place) for place in range(12)] for row in range(300)]


def test_without_a_threshold_all_abstain_for_one_short_reason_that_leaves_the_why_to_the_verdict(world):
    found = made(LogisticCalibrator.fit(world), threshold=None).apply(world.hits)
    assert found.abstain.all()
    assert {found.reason(3, 0), found.reason(3, 4)} == {"no usable threshold exists on the queries this was calibrated on"}
    assert found.verdict.text == "the order of the answers is that of chance"


def test_where_nobody_knows_lower_hits_they_have_no_probability_and_abstain(world):
    model = LogisticCalibrator.fit(world)
    found = made(model).apply(world.hits)
    assert np.array_equal(found.probabilities[:, 0], model.predict(world.hits))
    assert np.isnan(found.probabilities[:, 1:]).all()
    assert found.abstain[:, 1:].all()
    assert "no probability is known" in found.reason(0, 1)


def test_zero_vectors_have_probability_zero_and_abstain_and_others_are_as_before(world, fitted):
    queries, norms = world.hits.query_norms.copy(), world.hits.hit_norms.copy()
    queries[4] = norms[7, 3] = norms[9, 0] = 0.0
    before, found = fitted.apply(world.hits), fitted.apply(replace(world.hits, query_norms=queries, hit_norms=norms))
    assert not found.probabilities[4].any()
    assert found.probabilities[7, 3] == found.probabilities[9, 0] == 0.0
    assert np.isfinite(found.probabilities).all()
    assert found.abstain[4].all()
    assert found.abstain[[7, 9], [3, 0]].all()
    assert "zero vector" in found.reason(4, 2)
    assert "zero vector" in found.reason(7, 3)
    assert "zero vector" not in found.reason(7, 2)
    untouched = np.setdiff1d(np.arange(300), [4, 7, 9])
    assert np.array_equal(found.probabilities[untouched], before.probabilities[untouched])


def test_a_re_ranking_shows_another_hit_first_and_the_rest_in_order(world):
    model = RerankingCalibrator(kind="norm_reranking", beta=3.0, center=0.0, inverse_temperature=5.0, bounds=(0.1, 100.0))
    found = made(model, lower_hits=LowerHits(intercept=0.0, weights=(0.0, 0.0, 1.0, 0.0))).apply(world.hits)
    assert (found.order > 0).any()
    assert np.array_equal(found.order, model.order(world.hits))
    rows = np.arange(300)
    assert np.array_equal(found.probabilities[rows, found.order], model.predict(world.hits))
    for query in range(30):
        rest = [place for place in range(12) if place != found.order[query]]
        assert found.places(5)[query].tolist() == [found.order[query], *rest[:4]]
        assert found.places(99)[query].tolist() == [found.order[query], *rest]
        assert "after the first" not in found.reason(query, int(found.order[query]))


def test_a_softmax_reads_as_many_hits_as_it_was_fitted_on_whatever_is_found(world):
    calibration = made(TemperatureCalibrator.fit(world))
    assert calibration.depth_needed == 12
    deeper = judged(seed=5, count=50, depth=40).hits
    cut = replace(deeper, **{name: getattr(deeper, name)[:, :12] for name in ("scores", "hit_norms", "hit_lengths")})
    assert np.array_equal(calibration.apply(deeper).probabilities[:, 0], calibration.apply(cut).probabilities[:, 0])
    assert calibration.apply(deeper).probabilities.shape == (50, 40)
    with pytest.raises(InputError, match="5 hits per query; this calibration reads 12: search for as many"):
        calibration.apply(judged(seed=5, count=50, depth=5).hits)


def test_signals_of_few_hits_need_few(world, fitted):
    assert fitted.depth_needed == 10
    assert made(LogisticCalibrator.fit(world)).depth_needed == 2
    assert made(LogisticCalibrator.fit(world), fingerprint=now(depth=1)).depth_needed == 1


def test_needs_are_those_of_what_the_calibrator_reads(world):
    plain = made(LogisticCalibrator.fit(world))
    assert not plain.needs_lengths
    assert not plain.needs_temperature
    controls = LogisticCalibrator.fit(world, kind="logistic_controls")
    assert made(controls).needs_lengths
    assert made(IsotonicCalibrator.fit(world, base=controls)).needs_lengths
    assert made(NormTemperatureCalibrator.fit(world, controls=("query length",))).needs_lengths
    assert not made(NormTemperatureCalibrator.fit(world)).needs_lengths
    assert made(RerankingCalibrator.fit(world, prior="length")).needs_lengths
    assert made(SoftmaxCalibrator(temperature=0.1)).needs_temperature
    assert made(LogisticCalibrator.fit(world, signals=("score", "entropy"), temperature=0.1)).needs_temperature


def test_another_similarity_is_refused_when_applied(world, fitted):
    with pytest.raises(InputError, match="hits are scored by dot; this calibration was fitted on cosine"):
        fitted.apply(replace(world.hits, similarity=Similarity.DOT))


def test_lengths_that_are_needed_and_missing_are_refused(world):
    calibration = made(LogisticCalibrator.fit(world, kind="logistic_controls"))
    with pytest.raises(InputError, match="length is not known"):
        calibration.apply(replace(world.hits, query_lengths=None, hit_lengths=None))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"depth": 50},
        {"corpus_vectors": None},
        {"corpus_texts": None},
        {"corpus_vectors": "w" * 64},
        {"corpus_texts": "u" * 64},
    ],
)
def test_what_it_was_fitted_on_passes(fitted, changes):
    fitted.check(now(**changes))


REFIT = "normwise calibrate --model 'my model' --data data"
AIM = "--precision 0.9 --confidence 0.95"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": "b" * 64}, r"the model is b{12}\.\.\., fitted on a{12}\.\.\.\. Fit one"),
        ({"similarity": "dot"}, "the similarity is dot, fitted on cosine"),
        ({"candidates": 501}, "the corpus has 501 candidates, fitted on 500"),
        (
            {"corpus_texts": "u" * 64, "corpus_vectors": "w" * 64},
            r"its texts are u{12}\.\.\., fitted on t{12}\.\.\.; its vectors are w{12}\.\.\., fitted on v{12}",
        ),
        ({"corpus_texts": None, "corpus_vectors": "w" * 64}, r"the corpus differs: its vectors are w{12}"),
        ({"corpus_texts": None, "corpus_vectors": None}, "cannot be told: no hash"),
        ({"depth": 9}, "the depth is 9 hits per query, and this one reads 10"),
        ({"model": "b", "similarity": "dot"}, "the model is b, fitted on .*; the similarity is dot"),
    ],
)
def test_another_model_similarity_corpus_or_depth_is_refused_with_both_values_and_the_remedy(fitted, changes, expected):
    with pytest.raises(InputError, match=f"{expected}.*{REFIT} {AIM}$"):
        fitted.check(now(**changes))


def test_another_kind_of_search_is_refused_and_the_remedy_names_the_index(fitted):
    with pytest.raises(InputError, match=f"the kind of search is faiss-hnsw, .*{REFIT} --index INDEX --out INDEX/calibration.json {AIM}$"):
        fitted.check(now(search="faiss-hnsw"))


def remedy(calibration, here, **known):
    """What the refusal says to type."""
    with pytest.raises(InputError) as refused:
        calibration.check(here, **known)
    words = shlex.split(str(refused.value).rpartition(": normwise")[2])
    return words[1:]


@pytest.mark.parametrize("changes", [{"candidates": 501}, {"search": "faiss-hnsw"}, {"depth": 9}])
def test_the_remedy_calibrates_on_the_index_at_hand_and_saves_where_a_search_looks_first(fitted, changes):
    typed = remedy(fitted, now(**changes), index="my index/")
    assert typed == [*REFIT_PARTS, "--index", "my index/", "--out", "my index/calibration.json", *AIM.split()]


REFIT_PARTS = ["--model", "my model", "--data", "data"]


def test_the_remedy_leaves_defaults_out_and_repeats_what_was_typed(world):
    plain = made(LogisticCalibrator.fit(world), options={"--unanswerable": "0.3", "--temperature": "0.05", "--depth": "1"})
    plain = plain.model_copy(update={"target": 0.95, "confidence_level": 0.9})
    assert remedy(plain, now(candidates=501)) == [*REFIT_PARTS, "--unanswerable", "0.3", "--temperature", "0.05", "--depth", "1"]
    # Too few hits were found at this depth, and another model has its own temperature.
    assert remedy(plain, now(depth=1)) == [*REFIT_PARTS, "--unanswerable", "0.3", "--temperature", "0.05"]
    assert remedy(plain, now(model="b" * 64), model="other") == ["--model", "other", "--data", "data", "--unanswerable", "0.3"]


def test_the_remedy_of_bare_vectors_names_their_files_while_the_corpus_is_the_same(world):
    bare = made(LogisticCalibrator.fit(world), fingerprint=now(model="vectors")).model_copy(update={"model_name": "q.npy 'my d.npy'"})
    searched = ["--index", "i", "--out", "i/calibration.json"]
    typed = remedy(bare, now(model="vectors", similarity="dot"), index="i")
    assert typed == ["--vectors", "q.npy", "my d.npy", "--similarity", "dot", "--data", "data", *searched, *AIM.split()]
    typed = remedy(bare, now(model="vectors", candidates=3))
    assert typed == ["--vectors", "QUERIES.npy", "CORPUS.npy", "--similarity", "cosine", "--data", "DATA", *AIM.split()]
    typed = remedy(bare, now(model="vectors", search="faiss-hnsw"), index="i")
    assert typed == ["--vectors", "q.npy", "my d.npy", "--similarity", "cosine", "--data", "data", *searched, *AIM.split()]
    assert remedy(bare, now())[:2] == ["--model", "MODEL"]
    assert remedy(made(LogisticCalibrator.fit(world)), now(model="vectors"))[:3] == ["--vectors", "QUERIES.npy", "CORPUS.npy"]


def test_a_refusal_names_nothing_that_agrees(fitted):
    with pytest.raises(InputError) as refused:
        fitted.check(now(similarity="dot"))
    assert not any(word in str(refused.value) for word in ("the model is", "the corpus", "the depth", "kind of search"))


def test_the_trip_through_json_changes_no_bit(world, fitted):
    again = parse_calibration(fitted.to_json(), "calibration.json")
    assert again == fitted
    assert again.evidence["ece"] == 0.1 + 0.2
    assert again.to_json() == fitted.to_json()
    before, after = fitted.apply(world.hits), again.apply(world.hits)
    assert np.array_equal(before.probabilities, after.probabilities)
    assert np.array_equal(before.abstain, after.abstain)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda text: text[: len(text) // 2],
            r"m/calibration.json is no JSON \(line 1, column \d+\); was it cut off\?.*normwise calibrate",
        ),
        (lambda text: b"\xff\xfe\x00", r"is no JSON \(not UTF-8\)"),
        (lambda text: "[1]", "no calibration: it has no format or no calibrator"),
        (lambda text: '{"a": 1}', "no calibration"),
        (lambda text: text.replace('"format":1', '"format":2'), "has format 2, this normwise reads 1: a newer one wrote it.*--upgrade"),
        (lambda text: text.replace('"format":1', '"format":"one"'), "not a whole calibration: format"),
        (lambda text: edited(text, target="much"), "not a whole calibration: target: expected a number"),
        (lambda text: edited(text, target=1.0), "target: expected below 1"),
        (lambda text: edited(text, created="yesterday"), "created"),
        (lambda text: edited(text, surprise=1), "surprise"),
        (lambda text: edited(text, calibrator={"kind": "magic"}), "calibrator"),
        (lambda text: edited(text, verdict=None), "verdict"),
        (lambda text: with_threshold(text, probability=6), "threshold.probability: expected 1 or below"),
        (lambda text: with_threshold(text, probability=-0.1), "threshold.probability: expected above 0"),
        (lambda text: with_threshold(text, probability=math.nan), "threshold.probability"),
        (lambda text: with_threshold(text, coverage=1.5), "threshold.coverage"),
        (lambda text: with_threshold(text, precision_target=0), "threshold.precision_target"),
    ],
)
def test_a_foreign_cut_or_newer_file_is_refused_in_words(fitted, change, expected):
    with pytest.raises(InputError, match=expected):
        parse_calibration(change(fitted.to_json()), "m/calibration.json")


def edited(text, **changes):
    return json.dumps(json.loads(text) | changes)


def with_threshold(text, **changes):
    read = json.loads(text)
    return json.dumps(read | {"threshold": read["threshold"] | changes})
