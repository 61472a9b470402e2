"""Calibration end to end: on vectors whose truth is known, on a real small encoder, and on what people get wrong."""

import json
import re
import shlex
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from calibrate_folders import vector_world, write_beir

import normwise
from normwise.core.calibration_records import CalibrationReport
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.report.card_calibration import BEGIN, END
from normwise.theory.calibration import Calibration
from normwise.theory.hit_lists import HitLists
from normwise.workflows.calibrate import calibrate, calibrate_vectors, checked_signals
from normwise.workflows.calibrate_data import load_asked
from normwise.workflows.calibrate_files import Place, choose_place, write_calibration
from normwise.workflows.calibrate_fit import ndcg
from normwise.workflows.calibrate_index import ask_index
from normwise.workflows.calibrate_material import AskHow

KEYS = {"queries", "signals", "calibrators", "chosen", "norm_gain", "threshold", "verdict"}


def run(folder, **more):
    how = {"similarity": "cosine", "precision": 0.9} | more
    return calibrate_vectors(folder / "Q.npy", folder / "D.npy", folder, **how)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return vector_world(tmp_path_factory.mktemp("calibrate") / "toy", splits=("dev", "test"), queries=400, no_answer=40)


@pytest.fixture(scope="module")
def saved(folder):
    """One whole run, with file and page."""
    out, page = folder / "out.json", folder / "out.html"
    return run(folder, out=out, report=page), out, page


def test_the_result_has_the_promised_keys_and_round_trips(saved):
    found, out, page = saved
    value = json.loads(found.to_json())
    assert set(value) >= KEYS
    assert set(value["queries"]) >= {"fit", "test", "unanswerable"}
    assert {"name", "ece", "brier", "nll", "auroc", "aurc", "e_aurc", "nauc"} <= set(value["calibrators"][0])
    assert {"name", "auroc", "ci_low", "ci_high"} <= set(value["signals"][0])
    assert {"metric", "delta", "ci_low", "ci_high"} <= set(value["norm_gain"])
    assert {"precision_target", "confidence", "probability", "coverage"} <= set(value["threshold"])
    assert CalibrationReport.from_json(found.to_json()) == found
    assert (found.calibration, found.report) == (str(out), str(page))
    assert found.seconds > 0


def test_dev_fits_test_tests_and_unanswerable_queries_take_part(saved):
    found = saved[0]
    assert (found.queries.fit, found.queries.test, found.queries.unanswerable) == (200, 200, 40)
    assert found.verdict.label == "usable"
    assert "dev queries fit, test queries test" in found.notes


def test_figures_follow_from_the_file_that_was_written(saved, folder):
    """Probabilities of the saved calibration, on hits searched by hand, give the reported precision and coverage."""
    found, out, _ = saved
    calibration = Calibration.from_json(out.read_text())
    queries, candidates = np.load(folder / "Q.npy").astype(np.float64), np.load(folder / "D.npy").astype(np.float64)
    rows = np.array([i for i in range(400) if i % 2 == 1])
    norms = np.linalg.norm(candidates, axis=1)
    scores = (queries[rows] / np.linalg.norm(queries[rows], axis=1, keepdims=True)) @ (candidates / norms[:, None]).T
    order = np.argsort(-scores, axis=1, kind="stable")
    hits = HitLists(
        np.take_along_axis(scores, order, axis=1), np.linalg.norm(queries[rows], axis=1), norms[order], Similarity.COSINE, complete=True
    )
    applied = calibration.apply(hits)
    target = {}
    for split in ("dev", "test"):
        for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]:
            query, candidate, _ = line.split("\t")
            target[int(query[1:])] = int(candidate[1:])
    right = np.array([target.get(int(row)) == hit for row, hit in zip(rows, order[:, 0], strict=True)])
    answered = ~applied.abstain[:, 0]
    assert answered.mean() == pytest.approx(found.threshold.coverage)
    assert right[answered].mean() == pytest.approx(found.threshold.precision)
    chosen = next(row for row in found.calibrators if row.name == found.chosen)
    assert np.mean((applied.probabilities[:, 0] - right) ** 2) == pytest.approx(chosen.brier, abs=1e-6)
    assert calibration.lower_hits is not None


def test_an_equal_seed_gives_an_equal_result_and_no_file(saved, folder):
    again = run(folder)
    assert again.calibration is None
    assert any("was not saved" in note for note in again.notes)
    leave = {"calibration", "report", "seconds", "notes"}
    assert again.model_dump(exclude=leave) == saved[0].model_dump(exclude=leave)


def test_the_report_keeps_a_few_texts_only(saved):
    found = saved[0]
    text = found.to_json()
    shown = {i for i in range(400) if f'what of number {i}"' in text}
    examples = [*found.figures.confident_errors, *found.figures.good_abstentions]
    assert len(shown) == len({hit.query for hit in examples})
    assert 0 < len(shown) <= 16
    assert not any(hit.right for hit in examples)
    probabilities = [hit.probability for hit in found.figures.confident_errors]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(hit.probability < found.threshold.probability for hit in found.figures.good_abstentions)
    probabilities = [hit.probability for hit in found.figures.good_abstentions]
    assert len(set(probabilities)) > 1
    assert probabilities == sorted(probabilities)


def test_the_curves_start_where_they_should(saved):
    found = saved[0]
    curves = found.figures.risk
    assert list(curves) == ["chosen", "score", "oracle"]
    assert curves["chosen"][-1] == pytest.approx(1 - next(row for row in found.calibrators if row.name == found.chosen).precision)
    assert all(best <= risk + 1e-12 for best, risk in zip(curves["oracle"], curves["chosen"], strict=True))
    assert sum(each.queries for each in found.figures.bins) == 200


def test_the_page_is_written_once_and_replaced_on_request_only(saved, folder):
    page = saved[2]
    assert page.read_text().startswith("<!doctype html")
    with pytest.raises(InputError, match="exists already: pass --overwrite"):
        run(folder, report=page)


def test_an_older_calibration_is_replaced_and_a_foreign_file_refused(saved, tmp_path):
    out = tmp_path / "kept.json"
    out.write_bytes(saved[1].read_bytes())
    place = choose_place(None, out=out, save=True)
    assert place.notes == (f"the older calibration at {out} was replaced",)
    for foreign in ("{}", "not json", '{"format": 1}'):
        out.write_text(foreign)
        with pytest.raises(InputError, match=r"kept\.json is no calibration of normwise.*--out"):
            choose_place(None, out=out, save=True)
    with pytest.raises(InputError, match=r"is no file"):
        choose_place(None, out=tmp_path, save=True)
    with pytest.raises(InputError, match="--out names a file to write and --no-save"):
        choose_place(None, out=out, save=False)


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch, saved):
    """Also above folders that are still to be made, and where an older calibration is to be replaced."""
    (tmp_path / "kept.json").write_bytes(saved[1].read_bytes())
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    for out in (tmp_path / "new.json", tmp_path / "a" / "b" / "new.json", tmp_path / "kept.json"):
        with pytest.raises(InputError, match="is write-protected: name another place with --out"):
            choose_place(None, out=out, save=True)


@pytest.mark.parametrize("text", ["# one\r\n\r\ntwo\r\n", "\ufeff# one\n"])
def test_a_card_keeps_the_bytes_of_others(saved, tmp_path, text):
    card = tmp_path / "README.md"
    card.write_bytes(text.encode())
    calibration = Calibration.from_json(saved[1].read_text())
    for _ in range(2):
        notes = write_calibration(Place(tmp_path / "calibration.json", card, ()), calibration, saved[0])
        assert notes == (f"{card} tells of the calibration",)
        assert card.read_bytes().startswith(text.rstrip().encode())
        assert card.read_text().count(BEGIN) == 1


def test_a_card_that_is_a_link_is_left_alone(saved, tmp_path):
    """In a cache of models it names a file that all snapshots share."""
    (tmp_path / "blob").write_text("# shared\n")
    card = tmp_path / "README.md"
    card.symlink_to(tmp_path / "blob")
    calibration = Calibration.from_json(saved[1].read_text())
    notes = write_calibration(Place(tmp_path / "calibration.json", card, ()), calibration, saved[0])
    assert "was left as it was: it is a link" in notes[0]
    assert card.is_symlink()
    assert (tmp_path / "blob").read_text() == "# shared\n"
    assert (tmp_path / "calibration.json").is_file()


def test_a_model_of_the_hub_or_a_package_saves_nothing_unasked(tmp_path):
    place = choose_place("all-MiniLM-L6-v2", out=None, save=True)
    assert place.file is None
    assert "name a file with --out" in place.notes[0]
    index = tmp_path / "index"
    place = choose_place("all-MiniLM-L6-v2", out=None, save=True, index=index)
    assert place.file == index / "calibration.json"
    assert place.card is None
    assert f"the calibration goes to {index / 'calibration.json'}, where a search of this index looks first" in place.notes[0]
    assert choose_place("all-MiniLM-L6-v2", out=tmp_path / "x.json", save=True, index=index).file == tmp_path / "x.json"
    assert choose_place("all-MiniLM-L6-v2", out=None, save=False, index=index).file is None
    assert choose_place(str(tmp_path), out=None, save=True, index=index).file == tmp_path / "calibration.json"
    assert choose_place(str(tmp_path), out=None, save=True).file == tmp_path / "calibration.json"
    assert choose_place(str(tmp_path), out=None, save=True).card == tmp_path / "README.md"
    assert choose_place(str(tmp_path), out=tmp_path / "x.json", save=True).card is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"similarity": "cosin"}, "similarity 'cosin' is unknown: did you mean cosine"),
        ({"temperature": 0.0}, r"temperature is 0\.0; expected a finite number above 0"),
        ({"temperature": -1.0}, r"temperature is -1\.0; expected"),
        ({"temperature": float("nan")}, "temperature is nan; expected"),
        ({"precision": 1.0}, r"precision is 1\.0; expected a share above 0, at most 0.999999"),
        ({"precision": 0.0}, r"precision is 0\.0; expected"),
        ({"confidence": 0.5}, r"confidence is 0\.5; expected more than 0\.5"),
        ({"signals": "margn"}, r"signal 'margn' is neither auto nor one of the signals: did you mean margin\?"),
        ({"signals": "score,local scaling"}, "'local scaling' cannot be used"),
        ({"signals": "score,"}, "signals are 'score,', and one name is empty: expected auto, or names with one comma"),
        ({"depth": 0}, "depth is 0; expected at least 1"),
    ],
)
def test_a_setting_out_of_its_range_is_refused(folder, more, message):
    with pytest.raises(InputError, match=message):
        run(folder, **more)


def test_row_counts_that_do_not_fit_are_told_with_both_numbers(folder, tmp_path):
    queries, candidates = np.load(folder / "Q.npy"), np.load(folder / "D.npy")
    np.save(tmp_path / "Q.npy", queries[:399])
    with pytest.raises(InputError, match=r"Q\.npy has 399 rows, and .*queries\.jsonl has 400; give one row for each line"):
        calibrate_vectors(tmp_path / "Q.npy", folder / "D.npy", folder, similarity="dot")
    with pytest.raises(InputError, match=r"D\.npy has 150 rows, and .*queries\.jsonl has 400; the two files look swapped"):
        calibrate_vectors(folder / "D.npy", folder / "Q.npy", folder, similarity="dot")
    np.save(tmp_path / "D.npy", candidates[:, :5])
    with pytest.raises(InputError, match=r"query vectors have 12 dimensions, candidate vectors 5.*Q\.npy"):
        calibrate_vectors(folder / "Q.npy", tmp_path / "D.npy", folder, similarity="dot")
    queries[17, 3] = np.nan
    np.save(tmp_path / "Q.npy", queries)
    with pytest.raises(InputError, match=r"Q\.npy, row 17, column 3: nan"):
        calibrate_vectors(tmp_path / "Q.npy", folder / "D.npy", folder, similarity="dot")


def test_rows_follow_the_files_not_the_judgements(folder, saved, tmp_path):
    """Lines, rows and judgements in another order are the same calibration, up to the seeded halves it does not use."""
    random = np.random.default_rng(3)
    (tmp_path / "qrels").mkdir()
    for name, file in (("queries", "Q"), ("corpus", "D")):
        text = (folder / f"{name}.jsonl").read_text().splitlines()
        order = random.permutation(len(text))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(text[row] for row in order) + "\n")
        np.save(tmp_path / f"{file}.npy", np.load(folder / f"{file}.npy")[order])
    for split in ("dev", "test"):
        head, *rows = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()
        (tmp_path / "qrels" / f"{split}.tsv").write_text("\n".join([head, *(rows[i] for i in random.permutation(len(rows)))]) + "\n")
    again = run(tmp_path)
    assert again.fingerprint == saved[0].fingerprint
    precisions = [next(row.precision for row in each.calibrators if row.name == "temperature") for each in (again, saved[0])]
    assert precisions[0] == precisions[1]


def test_relevance_without_any_sense_has_no_usable_threshold(tmp_path):
    """Right with probability .6 whatever the scores are."""
    folder = vector_world(tmp_path, queries=300, seed=5)
    queries, candidates = np.load(folder / "Q.npy"), np.load(folder / "D.npy")
    first = (
        (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ (candidates / np.linalg.norm(candidates, axis=1, keepdims=True)).T
    ).argmax(axis=1)
    random = np.random.default_rng(6)
    rows = [(f"q{i}", f"d{first[i] if random.random() < 0.6 else (first[i] + 1) % 150}", 1) for i in range(300)]
    write_beir(
        folder,
        corpus=[(f"d{i}", f"document {i}") for i in range(150)],
        queries=[(f"q{i}", f"what {i}") for i in range(300)],
        qrels={"test": rows},
    )
    found = run(folder)
    assert found.verdict.label == "no-usable-threshold"
    assert found.threshold is None
    assert json.loads(found.to_json())["threshold"] is None
    assert "would have passed" not in found.verdict.text


def test_a_target_out_of_reach_says_what_the_fit_would_have_passed(folder):
    found = run(folder, precision=0.998)
    assert found.verdict.label == "no-usable-threshold"
    assert found.precision_target == 0.998
    assert found.verdict.text.startswith("No usable threshold for a precision of 0.998 exists on these data: ")
    assert re.search(r"On the fit queries, a target precision of 0\.\d+ would have passed: a guess, to be", found.verdict.text)


def test_few_answers_are_a_note(tmp_path):
    found = run(vector_world(tmp_path, queries=240, no_answer=40), precision=0.8)
    assert found.threshold.answered < 100
    assert any(note.startswith(f"the threshold hangs on {found.threshold.answered} answered test queries") for note in found.notes)


def test_the_choice_says_when_the_simplest_is_the_best_too(saved):
    notes = "\n".join(saved[0].notes)
    eligible = {row.name: row.cv_nll for row in saved[0].calibrators if row.eligible}
    assert ("and itself the best" in notes) == (saved[0].chosen == min(eligible, key=eligible.get))
    assert "the training temperature is not known" in notes
    assert "temperature scaling fits its own" in notes


@pytest.mark.parametrize(
    ("similarity", "scale", "below"),
    [
        pytest.param("dot", 30.0, 0.0, marks=pytest.mark.slow, id="hundreds"),
        pytest.param("candidate_normalized", 1e-4, 0.0, marks=pytest.mark.slow, id="tiny"),
        pytest.param("dot", 1.0, 20.0, id="negative"),
    ],
)
def test_scores_of_any_size_and_sign(tmp_path, similarity, scale, below):
    folder = vector_world(tmp_path, queries=240, candidates=80, scale=scale, seed=2)
    if below:
        # One more coordinate lowers all dot products alike.
        for file, value in (("Q.npy", -below), ("D.npy", below)):
            vectors = np.load(folder / file)
            np.save(folder / file, np.column_stack([vectors, np.full(len(vectors), value, dtype=np.float32)]))
    found = run(folder, similarity=similarity, temperature=0.05, unanswerable=0.3)
    examples = [hit.score for hit in found.figures.confident_errors]
    assert max(examples) < 0 if below else max(examples) > 300 if scale > 1 else max(examples) < 0.01
    assert found.queries.unanswerable == 72
    for row in found.calibrators:
        assert np.isfinite((row.ece, row.brier, row.aurc, row.e_aurc)).all()
    assert "softmax" in {row.name for row in found.calibrators}


@pytest.mark.parametrize("scale", [1e-20, 1e18])
def test_scores_that_float32_cannot_tell_apart_are_refused(tmp_path, scale):
    folder = vector_world(tmp_path, queries=240, candidates=80, scale=scale, seed=2)
    with pytest.raises(InputError, match=r"largest score by dot is .*expected 1e-12 to 1e\+12: multiply all vectors by one number"):
        run(folder, similarity="dot", unanswerable=0.3, temperature=0.05)


def test_asking_rates_are_a_control_that_cannot_be_chosen(tmp_path):
    folder = vector_world(tmp_path, queries=240, no_answer=80)
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    (folder / "queries.jsonl").write_text("\n".join(json.dumps(line | {"frequency": i % 7}) for i, line in enumerate(lines)) + "\n")
    found = run(folder)
    assert "query frequency" in {row.name for row in found.signals}
    assert "query frequency" in found.norm_gain.controls
    rows = {row.name: row for row in found.calibrators}
    assert not rows["norm_temperature_controls"].eligible
    assert not rows["logistic_controls_norm"].eligible
    assert "which no search knows" in rows["logistic_controls_norm"].words
    with pytest.raises(InputError, match="'query frequency' cannot be used.*it is a control"):
        run(folder, signals="score,query frequency")


def test_calibration_and_page_need_two_files(folder, tmp_path):
    with pytest.raises(InputError, match="is to hold the calibration and the page: give --out and --report different names"):
        run(folder, out=tmp_path / "one.json", report=tmp_path / "a" / ".." / "one.json")


def test_a_calibration_of_bare_vectors_knows_its_files_from_any_folder(folder, tmp_path, monkeypatch):
    """Named from within another folder, and typed again from a third one."""
    inside, elsewhere = tmp_path / "a folder", tmp_path / "elsewhere"
    for made in (inside, elsewhere):
        made.mkdir()
    (inside / "my set").symlink_to(folder)
    monkeypatch.chdir(inside)
    calibrate_vectors("my set/Q.npy", Path("my set") / "D.npy", "my set", similarity="cosine", precision=0.9, out=tmp_path / "out.json")
    calibration = Calibration.from_json((tmp_path / "out.json").read_text())
    assert shlex.split(calibration.model_name) == [str(folder.resolve() / name) for name in ("Q.npy", "D.npy")]
    assert calibration.data_name == str(folder.resolve())
    now = calibration.fingerprint.model_copy(update={"similarity": "dot"})
    with pytest.raises(InputError, match="normwise calibrate --vectors") as refused:
        calibration.check(now)
    words = shlex.split(str(refused.value)[str(refused.value).rindex("normwise calibrate") :])
    monkeypatch.chdir(elsewhere)
    queries, candidates = words[words.index("--vectors") + 1 :][:2]
    assert calibrate_vectors(queries, candidates, words[words.index("--data") + 1], similarity="dot", precision=0.9).similarity == "dot"


def test_a_collapsed_encoder_has_one_confidence_and_no_threshold(tmp_path):
    folder = vector_world(tmp_path, queries=160, candidates=2, seed=4)
    np.save(folder / "Q.npy", np.ones((160, 3), dtype=np.float32))
    np.save(folder / "D.npy", np.ones((2, 3), dtype=np.float32))
    found = run(folder)
    assert found.verdict.label == "no-usable-threshold"
    assert next(row.auroc for row in found.signals if row.name == "score") == 0.5


def test_a_corpus_of_one_can_be_calibrated_where_queries_have_no_answer(tmp_path):
    folder = vector_world(tmp_path, queries=200, candidates=1, no_answer=90)
    found = run(folder)
    assert found.fingerprint.candidates == found.fingerprint.depth == 1
    assert {row.name for row in found.calibrators} >= {"logistic"}
    assert not {"softmax", "temperature"} & {row.name for row in found.calibrators}


def test_zero_vectors_are_abstained_on_and_counted(tmp_path):
    folder = vector_world(tmp_path, queries=200, candidates=150, no_answer=30)
    queries = np.load(folder / "Q.npy")
    queries[:5] = 0.0
    np.save(folder / "Q.npy", queries)
    found = run(folder)
    assert any(note.startswith("5 queries are zero vectors") for note in found.notes)
    assert found.queries.fit + found.queries.test == 200


def test_ndcg_moves_one_hit_to_the_front():
    rows = np.array([[3, 1, 2, 0], [3, 1, 2, 0], [-1, -1, 2, 0]])
    values = ndcg(rows, np.array([0, 2, 0]), [{2: 1.0}, {2: 1.0}, {}], size=4)
    np.testing.assert_allclose(values, [0.5, 1.0, 0.0])
    long = np.arange(20)[None, :]
    assert ndcg(long, np.array([15]), [{15: 1.0, 8: 1.0}], size=20)[0] == pytest.approx((1 + 1 / np.log2(11)) / (1 + 1 / np.log2(3)))


def test_signals_are_read_by_name():
    assert checked_signals("auto") == "auto"
    assert checked_signals(["score", "log query norm"]) == ("score", "log query norm")


def test_the_door_opens_it():
    assert normwise.calibrate is calibrate


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """150 queries on 200 short documents, some of them hard to tell apart."""
    nouns = [
        "queue",
        "stack",
        "tree",
        "graph",
        "heap",
        "list",
        "matrix",
        "vector",
        "string",
        "socket",
        "thread",
        "process",
        "file",
        "folder",
    ]
    verbs = ["open", "close", "merge", "split", "sort", "copy", "find", "drop", "lock", "scan", "walk", "dump", "load", "trim"]
    items = [(f"{verb}-{noun}", verb, noun) for verb in verbs for noun in nouns]
    return write_beir(
        tmp_path_factory.mktemp("texts") / "code",
        corpus=[(name, f"def {verb}_{noun}(self): return self.{noun}.{verb}()") for name, verb, noun in items],
        queries=[(f"q-{name}", f"how to {verb} the {noun}") for name, verb, noun in items],
        qrels={"test": [(f"q-{name}", name, 1) for name, _, _ in items]},
    )


needs_models = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs the extra train")


@pytest.mark.slow
@needs_models
def test_a_saved_model_keeps_its_calibration_and_still_loads(small_model, texts, tmp_path):
    """The file and the card's section lie beside a sealed model, and its seal holds; a second run replaces both."""
    from normwise.models.encoder import Encoder
    from normwise.models.fingerprint import model_fingerprint

    folder = tmp_path / "model"
    Encoder.load(small_model).save(folder, card_text="# demo\n\n## Limits\n\n- one\n")
    found = calibrate(folder, texts, unanswerable=0.4, precision=0.8, trust_remote_code=True)
    encoder = Encoder.load(folder)
    assert found.calibration == str(folder / "calibration.json")
    calibration = Calibration.from_json((folder / "calibration.json").read_text())
    assert calibration.fingerprint == found.fingerprint
    assert calibration.fingerprint.model == model_fingerprint(encoder)
    assert calibration.model_name == str(folder)
    assert calibration.options == {"--unanswerable": "0.4", "--trust-remote-code": ""}
    assert found.similarity == encoder.similarity.value
    assert {"query length", "hit length"} <= {row.name for row in found.signals}
    card = (folder / "README.md").read_text()
    assert card.index("# demo") < card.index(BEGIN) < card.index(END) < card.index("## Limits")
    again = calibrate(folder, texts, unanswerable=0.4, precision=0.8)
    assert any("older calibration" in note for note in again.notes)
    assert Calibration.from_json((folder / "calibration.json").read_text()).options == {"--unanswerable": "0.4"}
    assert (folder / "README.md").read_text() == card
    assert again.fingerprint == found.fingerprint
    (folder / "calibration.json").write_text("{}")
    with pytest.raises(InputError, match="is no calibration of normwise"):
        calibrate(folder, texts)


@pytest.mark.slow
@needs_models
def test_a_temperature_against_the_contract_is_refused(small_model, texts):
    from normwise.models.encoder import Encoder

    encoder = Encoder.load(small_model)
    contract = encoder.contract.model_copy(update={"temperature": 0.05})
    known = Encoder(encoder.model, contract=contract)
    with pytest.raises(InputError, match=r"temperature 0\.1 contradicts the model's contract, which says 0\.05: leave it out"):
        calibrate(known, texts, temperature=0.1)
    found = calibrate(known, texts, unanswerable=0.4, save=False)
    assert found.temperature == 0.05
    assert found.calibrators[0].name == "softmax"


@pytest.mark.slow
@needs_models
@pytest.mark.skipif(find_spec("faiss") is None, reason="needs the extra index")
def test_an_exact_index_calibrates_as_exact_search_does_and_another_model_is_refused(small_model, texts, tmp_path):
    from normwise.core.index_config import IndexConfig
    from normwise.data.beir import read_beir
    from normwise.index.build import build_index
    from normwise.index.opening import open_index
    from normwise.models.encoder import Encoder
    from normwise.models.fingerprint import model_fingerprint

    encoder = Encoder.load(small_model)
    corpus = read_beir(texts, on_bad_rows="refuse")[0].test.corpus
    what = {"ids": corpus.ids, "texts": corpus.texts, "vectors": encoder.encode_candidates(corpus.texts)}
    own = model_fingerprint(encoder)
    for name, model in (("right", own), ("wrong", "0" * 64), ("bare", "vectors")):
        build_index(IndexConfig(similarity=encoder.similarity.value), tmp_path / name, **what, model=model, model_name="some model").close()
    how = {"unanswerable": 0.4, "save": False, "precision": 0.8}
    there, here = calibrate(encoder, texts, index=tmp_path / "right", **how), calibrate(encoder, texts, **how)
    assert there.fingerprint.search == here.fingerprint.search == "exact"
    assert there.fingerprint.corpus_texts == here.fingerprint.corpus_texts
    assert there.fingerprint.model == own
    assert there.queries == here.queries
    # Lengths are not in this index, so what reads them is no candidate there; what reads scores alone is the same.
    plain = [next(row for row in each.calibrators if row.name == "temperature") for each in (there, here)]
    assert plain[0].brier == pytest.approx(plain[1].brier, abs=1e-4)
    assert not next(row for row in there.calibrators if row.name == "logistic_controls").eligible
    assert there.figures.confident_errors[0].hit == here.figures.confident_errors[0].hit
    with pytest.raises(InputError, match=r"vectors of another model \(some model\) than"):
        calibrate(encoder, texts, index=tmp_path / "wrong", **how)
    with pytest.raises(InputError, match="the index scores by .*, and .* by dot"):
        calibrate(Encoder(encoder.model, similarity="dot"), texts, index=tmp_path / "right", **how)
    with closing(open_index(tmp_path / "bare")) as bare:
        assert any("does not tell which model" in note for note in ask_index(encoder, bare, load_asked(texts), AskHow()).notes)
