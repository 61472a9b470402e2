"""`normwise index` and `normwise search`: exit codes, one JSON value, notes on stderr, and what a person reads."""

import functools
import json
import re
import shlex

import numpy as np
import pytest
import rich.console
from typer.testing import CliRunner

from normwise import cli
from normwise.cli_index import show_index
from normwise.cli_tables import verdict_line
from normwise.core.index_config import IndexConfig
from normwise.core.index_records import IndexManifest
from normwise.core.search_records import Hit, IndexReport
from normwise.core.similarity import Similarity
from search_material import DOCUMENTS, ROWS, calibration_for, mixed_vectors, save_encoder, write_corpus

ASKED = mixed_vectors(4, seed=5)[:3]
KEYS = {"id", "score", "similarity", "norm", "probability", "abstain", "reason", "query", "rank", "text"}


def invoke(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert not isinstance(result.exception, Exception), result.exception
    return result


def refused(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    np.save(folder / "d.npy", mixed_vectors())
    np.save(folder / "q.npy", ASKED)
    broken = ASKED.copy()
    broken[1, 2] = np.nan
    np.save(folder / "nan.npy", broken)
    return folder


@pytest.fixture
def index(files, tmp_path):
    assert invoke("index", "build", "--vectors", files / "d.npy", "--similarity", "dot", "--out", tmp_path / "index").exit_code == 0
    return tmp_path / "index"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    corpus = write_corpus(
        folder / "set", extra=lambda row: {"metadata": {"third": row % 3, "lang": "de" if row else "7", "part": row / 2, "known": row > 3}}
    )
    done = invoke("index", "build", "--model", save_encoder(folder / "model"), "--data", corpus, "--out", folder / "index")
    assert done.exit_code == 0
    return folder / "index"


@pytest.mark.parametrize("command", [["index"], *(["index", name] for name in ("build", "add", "delete", "info")), ["search"]])
def test_every_help_has_an_example(command):
    assert "Example: normwise" in invoke(*command, "--help").stdout


def test_help_tells_defaults_and_choices():
    build = " ".join(invoke("index", "build", "--help").stdout.replace("│", " ").split())
    assert all(member in build for member in Similarity)
    assert f"[default: ({IndexConfig(similarity=Similarity.DOT, method='ivf').recall_target:g}" in build
    assert "--engine pgvector --url postgresql://me@host:5432/db" in build
    search = " ".join(invoke("search", "--help").stdout.replace("│", " ").split())
    assert "--where lang=de" in search
    assert "--queries questions.txt" in search


def test_build_tells_what_it_tried_and_what_a_vector_takes(files, tmp_path):
    arguments = ("--vectors", files / "d.npy", "--similarity", "dot", "--method", "hnsw", "--queries", files / "q.npy")
    shown = invoke("index", "build", *arguments, "--out", tmp_path / "one")
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    for words in ("40 candidates of 6 dimensions, dot", "bytes per vector (float32, norm in float32)", "inner product", "augmented"):
        assert words in text
    assert "recall@10 on 3 real queries: inner product 1.0000 at ef_search" in text
    screen = text + " ".join(shown.stderr.split())
    assert (screen.count("recall@10"), screen.count("inner product 1.0000")) == (1, 1)
    assert "building graph over augmented of 40 vectors" in screen
    told = invoke("index", "build", *arguments, "--out", tmp_path / "two", "--json")
    report = IndexReport.from_json(told.stdout)
    assert (report.candidates, report.manifest.method, report.manifest.recall_queries) == (ROWS, "hnsw", 3)
    assert {row.graph for row in report.manifest.tried} >= {"inner product", "augmented"}
    assert told.stderr.count("recall@10") == len(report.manifest.tried) + 1
    measured = cells_of(invoke("index", "info", tmp_path / "one").stdout)
    assert [row[0] for row in measured] == ["graph", *(row.graph for row in report.manifest.tried)]


def test_add_delete_and_info_follow_each_other(index, files, tmp_path):
    (tmp_path / "ids.txt").write_text("a\nb\nc\n")
    added = invoke("index", "add", index, "--vectors", files / "q.npy", "--ids", tmp_path / "ids.txt", "--json")
    assert IndexReport.from_json(added.stdout).candidates == ROWS + 3
    assert IndexReport.from_json(invoke("index", "delete", index, "a", "b", "--json").stdout).candidates == ROWS + 1
    assert IndexReport.from_json(invoke("index", "info", index, "--json").stdout).candidates == ROWS + 1
    assert "41 candidates of 6 dimensions" in invoke("index", "info", index).stdout
    assert "\n1 candidate deleted\n" in invoke("index", "delete", index, "c").stdout
    assert "\n2 candidates deleted\n" in invoke("index", "delete", index, "0", "1").stdout
    again = invoke("index", "add", index, "--vectors", files / "q.npy", "--ids", tmp_path / "ids.txt")
    assert "\n3 candidates added\n" in again.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("Every search compares with every vector.", "recall@10 against exact search: 0.9870, on 400 real queries"),
        ("hnsw reached recall@10 0.987 at ef 40.", "measured against exact search, on 400 real queries"),
        ("HNSW, recall@10 on 400 real queries: 0.9870.", ""),
    ],
)
def test_recall_and_its_queries_are_told_once_whatever_the_builder_told(capsys, words, told):
    manifest = IndexManifest(
        engine="qdrant", method="hnsw", similarity="dot", dimensions=2, candidates=9, recall=0.987, recall_queries=400, words=words
    )
    show_index(IndexReport(index="i", manifest=manifest, candidates=9))
    assert capsys.readouterr().out.splitlines()[1:] == [*([told] if told else []), words]


def test_one_candidate_is_one(tmp_path):
    np.save(tmp_path / "one.npy", ASKED[:1])
    shown = invoke("index", "build", "--vectors", tmp_path / "one.npy", "--similarity", "dot", "--out", tmp_path / "index")
    assert "1 candidate of 6 dimensions" in shown.stdout
    told = invoke("search", tmp_path / "index", "--vectors", tmp_path / "one.npy", "--k", 3, "--json").stderr
    assert "the index has 1 candidate: all of them are returned" in " ".join(told.split())


def test_search_gives_one_flat_list_of_hits(index, files):
    done = invoke("search", index, "--vectors", files / "q.npy", "--k", 2, "--json")
    rows = json.loads(done.stdout)
    assert [set(row) for row in rows] == [KEYS] * 6
    assert [(row["query"], row["rank"]) for row in rows] == [(query, rank) for query in range(3) for rank in (1, 2)]
    scores = ASKED.astype(np.float64) @ mixed_vectors().T.astype(np.float64)
    assert [row["id"] for row in rows if row["rank"] == 1] == [str(best) for best in scores.argmax(axis=1)]
    assert {row["probability"] for row in rows} == {None}
    assert "note: no probabilities: no calibration.json lies in the index" in " ".join(done.stderr.split())


def test_a_calibration_gives_probabilities_and_a_verdict(index, files, tmp_path):
    (index / "calibration.json").write_text(calibration_for(index).to_json())
    done = invoke("search", index, "--vectors", files / "q.npy", "--k", 1, "--json")
    rows = json.loads(done.stdout)
    assert [row["abstain"] for row in rows] == [row["probability"] < 0.6 for row in rows]
    assert done.stderr == ""
    shown = invoke("search", index, "--vectors", files / "q.npy", "--k", 1)
    assert shown.stdout.count("query ") == 3
    for row in rows:
        assert (f"I don't know (probability {row['probability']:.3g})" if row["abstain"] else "answer (probability") in shown.stdout


def test_a_calibration_for_something_else_is_refused_when_named_and_told_when_found(index, files, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(calibration_for(index, similarity="cosine").to_json())
    told = refused("search", index, "--vectors", files / "q.npy", "--calibration", wrong, "--json")
    assert "the similarity is dot, fitted on cosine" in told
    assert "normwise calibrate" in told
    (index / "calibration.json").write_text(wrong.read_text())
    done = invoke("search", index, "--vectors", files / "q.npy", "--json")
    assert done.exit_code == 0
    assert "the similarity is dot, fitted on cosine" in " ".join(done.stderr.split())
    assert {row["probability"] for row in json.loads(done.stdout)} == {None}


def cells_of(shown):
    """The rows of the tables that a person sees, head lines first."""
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in shown.splitlines() if line[:1] in ("│", "┃")]


def test_a_hit_without_a_probability_keeps_its_columns(texts, tmp_path):
    (tmp_path / "c.json").write_text(calibration_for(texts, probability=0.001).to_json())
    arguments = ("search", texts, "red cat runs", "--k", 3)
    head, first, *others = cells_of(invoke(*arguments, "--calibration", tmp_path / "c.json").stdout)
    assert head == ["rank", "id", "score", "norm", "probability", "trust", "text"]
    assert (first[5], first[6] in DOCUMENTS) == ("yes", True)
    assert 0.0 < float(first[4]) < 1.0
    assert [(row[0], row[4], row[5], row[6] in DOCUMENTS) for row in others] == [("2", "–", "no", True), ("3", "–", "no", True)]


def test_hits_that_nobody_calibrated_are_neither_trusted_nor_not(texts, index, files):
    head, *rows = cells_of(invoke("search", texts, "red cat runs", "--k", 2).stdout)
    assert head == ["rank", "id", "score", "norm", "probability", "trust", "text"]
    assert [(row[4], row[5], row[6] in DOCUMENTS) for row in rows] == [("–", "unknown", True)] * 2
    bare = cells_of(invoke("search", index, "--vectors", files / "q.npy", "--k", ROWS).stdout)
    assert bare[0] == ["rank", "id", "score", "norm", "probability", "trust"]
    zero = {tuple(row[2:]) for row in bare if row[1] == str(ROWS - 1)}
    assert zero == {("0", "0", "0", "no")}
    assert {tuple(row[4:]) for row in bare if row[0] != "rank" and row[1] != str(ROWS - 1)} == {("–", "unknown")}


def test_a_long_verdict_is_told_once_for_many_queries(index, files, tmp_path):
    verdict = "five lines that a person reads once"
    chosen = calibration_for(index, usable=False)
    chosen = chosen.model_copy(update={"verdict": chosen.verdict.model_copy(update={"text": verdict})})
    (tmp_path / "c.json").write_text(chosen.to_json())
    arguments = ("search", index, "--vectors", files / "q.npy", "--calibration", tmp_path / "c.json", "--k", 1)
    shown = invoke(*arguments).stdout
    short = "): no usable threshold exists on the queries this was calibrated on\n"
    assert (shown.count("I don't know (probability"), shown.count(short), shown.count(verdict)) == (3, 3, 1)
    assert shown.splitlines()[-1] == f"verdict: {verdict}"
    done = invoke(*arguments, "--json")
    reasons = {row["reason"] for row in json.loads(done.stdout)}
    assert reasons == {"no usable threshold exists on the queries this was calibrated on"}
    assert done.stderr.count(f"note: no usable threshold exists: {verdict}") == 1


@pytest.fixture
def narrow(monkeypatch):
    """Sets the width of the terminal."""

    terminal = functools.partial(rich.console.Console, force_terminal=True, no_color=True)

    def set_to(columns):
        monkeypatch.setattr(rich.console, "Console", lambda **settings: terminal(**{**settings, "width": columns}))

    return set_to


def test_many_queries_share_one_head_line_and_each_reason(index, files, tmp_path):
    (tmp_path / "c.json").write_text(calibration_for(index).to_json())
    np.save(tmp_path / "many.npy", np.concatenate([ASKED, ASKED]))
    arguments = ("search", index, "--calibration", tmp_path / "c.json", "--k", 2, "--vectors", tmp_path / "many.npy")
    rows = json.loads(invoke(*arguments, "--json").stdout)
    head, *lines = invoke(*arguments).stdout.splitlines()
    assert head.split() == ["rank", "id", "score", "norm", "probability", "trust"]
    assert [line for line in lines if line.startswith("query")] == [f"query {row}" for row in range(6)]
    hits = [line.split() for line in lines if line.startswith(" ")]
    assert [(int(line[0]), line[1]) for line in hits] == [(row["rank"], row["id"]) for row in rows]
    np.testing.assert_allclose([float(line[2]) for line in hits], [row["score"] for row in rows], rtol=1e-3)
    assert [line[5] for line in hits] == ["no" if row["abstain"] else "yes" for row in rows]
    assert lines.index("query 1") - lines.index("query 0") == 3
    told = [line for line in lines if line.startswith("trust")]
    assert sorted(told) == sorted({f"trust {'no' if row['abstain'] else 'yes'}: {row['reason']}" for row in rows})


def test_many_queries_fit_a_terminal(texts, tmp_path, narrow):
    (tmp_path / "q.txt").write_text("\n".join(DOCUMENTS[:7]))
    for columns in (100, 60):
        narrow(columns)
        shown = invoke("search", texts, "--queries", tmp_path / "q.txt", "--k", 2).stdout.splitlines()
        assert max(map(len, shown)) <= columns
        assert sum(line.startswith("query: ") for line in shown) == 7
        assert sum(line.split()[-1:] == ["text"] for line in shown) == 1
        assert sum(any(text in line for text in DOCUMENTS) for line in shown if line.startswith(" ")) == 14
    assert shown[-1] == "trust unknown: not calibrated"


def test_many_queries_that_find_nothing_say_so_each(texts, tmp_path):
    (tmp_path / "q.txt").write_text("\n".join(DOCUMENTS[:7]))
    shown = invoke("search", texts, "--queries", tmp_path / "q.txt", "--where", "lang=none").stdout.splitlines()
    assert shown == [line for text in DOCUMENTS[:7] for line in (f"query: {text}", "I don't know: nothing was found")]


def test_why_nothing_is_calibrated_is_told_once_and_in_one_voice(index, files):
    (index / "calibration.json").write_text(calibration_for(index, similarity="cosine").to_json())
    done = invoke("search", index, "--vectors", files / "q.npy", "--k", 1)
    assert done.stdout.count("\nnot calibrated\n") == 3
    told = " ".join(done.stderr.split())
    assert "fitted on cosine" not in done.stdout
    assert told.count("fitted on cosine") == 1
    assert told.count("does not hold here") == 1
    assert f"{index / 'calibration.json'}: this calibration does not hold here" in told


def test_more_than_there_are_is_told(index, files):
    done = invoke("search", index, "--vectors", files / "q.npy", "--k", 100, "--json")
    assert len(json.loads(done.stdout)) == 3 * ROWS
    assert "note: k is 100, and the index has 40 candidates: all of them are returned" in " ".join(done.stderr.split())


def test_texts_are_searched_by_the_model_of_the_index(texts, tmp_path):
    rows = json.loads(invoke("search", texts, "red cat runs", "blue bird", "--k", 1, "--json").stdout)
    assert [row["query"] for row in rows] == ["red cat runs", "blue bird"]
    assert all(row["text"] in DOCUMENTS for row in rows)
    (tmp_path / "q.txt").write_text("red cat runs\nblue bird\n")
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "red cat runs"}\n{"_id": "2", "text": "blue bird"}\n')
    for name in ("q.txt", "q.jsonl"):
        assert json.loads(invoke("search", texts, "--queries", tmp_path / name, "--k", 1, "--json").stdout) == rows
    shown = invoke("search", texts, "red cat runs", "--k", 2).stdout
    assert "query: red cat runs" in shown
    assert "not calibrated" in shown


def test_filters_are_numbers_or_texts(texts):
    rows = json.loads(invoke("search", texts, "red", "--where", "third=1", "--where", "lang=de", "--k", 30, "--json").stdout)
    assert {int(row["id"][1:]) % 3 for row in rows} == {1}
    quoted = json.loads(invoke("search", texts, "red", "--where", 'lang="7"', "--json").stdout)
    assert [row["id"] for row in quoted] == ["d0"]
    assert json.loads(invoke("search", texts, "red", "--where", "lang=NaN", "--json").stdout) == []
    assert json.loads(invoke("search", texts, "red", "--where", f"lang={'[' * 100_000}", "--json").stdout) == []
    assert "--where names 'lang' twice" in refused("search", texts, "red", "--where", "lang=de", "--where", "lang=en")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("lang=7", "--where lang=7 is a whole number; lang holds texts: write --where 'lang=\"7\"'"),
        ("lang=true", "--where lang=true is true or false; lang holds texts: write --where 'lang=\"true\"'"),
        ('third="1"', "--where 'third=\"1\"' is a text; third holds whole numbers: write --where third=1"),
        ("third=1.0", "--where third=1.0 is a decimal number; third holds whole numbers: write --where third=1"),
        ("third=one", "--where third=one is a text; third holds whole numbers: write --where third=NUMBER"),
        ("third=true", "--where third=true is true or false; third holds whole numbers: write --where third=NUMBER"),
        ("part=half", "--where part=half is a text; part holds numbers: write --where part=NUMBER"),
        ('part="0.5"', "--where 'part=\"0.5\"' is a text; part holds numbers: write --where part=0.5"),
        ("known=1", "--where known=1 is a whole number; known holds true or false: write --where known=true or --where known=false"),
        ("known=False", "--where known=False is a text; known holds true or false: write --where known=false"),
    ],
)
def test_a_filter_of_another_type_is_refused_with_the_way_out(texts, given, told):
    assert told in refused("search", texts, "red", "--where", given)


def test_the_way_out_that_a_refused_filter_names_leads_out(texts):
    for given in ("lang=7", 'third="1"', "third=2.0"):
        told = refused("search", texts, "red", "--where", given)
        way = shlex.split(told.rpartition("write ")[2])
        assert json.loads(invoke("search", texts, "red", *way, "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k", "0"], "k is 0; expected a whole number of at least 1"),
        (["--where", "color=red"], "this index has no metadata"),
        (["--where", "color"], "--where is 'color'; expected KEY=VALUE"),
        (["red"], "one of the three: QUERY and --vectors came"),
        (["--model", "m"], "--model reads texts, and --vectors are there already"),
        (["--url", "postgresql://x"], "leave url out"),
        (["--calibration", "gone.json"], "gone.json does not exist"),
    ],
)
def test_bad_searches_are_refused(index, files, arguments, words):
    assert words in refused("search", index, "--vectors", files / "q.npy", *arguments)


def test_bad_queries_are_refused(index, files, tmp_path, texts):
    assert "nan.npy, row 1, column 2: nan" in refused("search", index, "--vectors", files / "nan.npy")
    np.save(tmp_path / "wide.npy", np.ones((1, 7)))
    assert "queries have 7 dimensions, and the index has 6" in refused("search", index, "--vectors", tmp_path / "wide.npy")
    assert "one of the three: none came" in refused("search", index)
    assert "no model is known that reads texts" in refused("search", index, "red")
    assert "queries: row 1 is empty or whitespace" in refused("search", texts, "red", "  ")
    assert "does not exist" in refused("search", tmp_path / "gone", "red")
    assert "is not an index of normwise" in refused("search", tmp_path, "red")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "tree"], "--method is 'tree'"),
        (["--engine", "redis"], "--engine is 'redis'"),
        (["--target-recall", "1.5", "--method", "hnsw"], "--target-recall is 1.5"),
        (["--target-recall", "0.9"], "--target-recall belongs to methods ivf and hnsw"),
        (["--url", "postgresql://x"], "url belongs to engines pgvector and qdrant"),
        (["--engine", "pgvector"], "engine pgvector needs url"),
        (["--storage", "int8", "--method", "hnsw"], "storage int8 is scanned exactly"),
    ],
)
def test_bad_settings_are_named_as_they_were_typed(files, tmp_path, arguments, words):
    told = refused("index", "build", "--vectors", files / "d.npy", "--similarity", "dot", "--out", tmp_path / "index", *arguments)
    assert words in told
    assert not (tmp_path / "index").exists()


def test_bad_changes_are_refused(index, tmp_path):
    assert "which the index does not hold" in refused("index", "delete", index, "none")
    assert "delete needs ids" in refused("index", "delete", index)
    assert "nothing to add" in refused("index", "add", index)
    assert "exists already: pass --overwrite" in refused("index", "build", "--vectors", "d.npy", "--similarity", "dot", "--out", index)


def test_the_verdict_line_says_answer_or_i_do_not_know():
    one = Hit(
        id="a", score=1.0, similarity="dot", norm=1.0, probability=0.31, abstain=True, reason="probability is below .62", query=0, rank=1
    )
    assert verdict_line([one]) == "I don't know (probability 0.31): probability is below .62"
    sure = one.model_copy(update={"probability": 0.9, "abstain": False, "reason": "probability reaches .62"})
    assert verdict_line([sure, one]) == "answer (probability 0.9): probability reaches .62"
    open_end = one.model_copy(update={"probability": None, "abstain": False, "reason": "not calibrated: why"})
    assert verdict_line([open_end]) == "not calibrated: why"
    assert verdict_line([open_end], once="why") == "not calibrated"
    assert verdict_line([one], once="elsewhere") == verdict_line([one])
    assert verdict_line([]) == "I don't know: nothing was found"


def test_texts_and_ids_cannot_steer_a_terminal(files, tmp_path):
    rows = [{"_id": f"a\x1b[2J\n{row}", "text": f"\x1b[31mred\u202e {row} \U0001f469\u200d\U0001f52c"} for row in range(ROWS)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("--vectors", files / "d.npy", "--data", tmp_path / "c.jsonl", "--similarity", "dot", "--out", tmp_path / "index")
    assert invoke("index", "build", *arguments).exit_code == 0
    shown = invoke("search", tmp_path / "index", "--vectors", files / "q.npy", "--k", 1).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\ufffd[31mred\ufffd" in shown
    assert "\u200d" in shown
    told = invoke("search", tmp_path / "index", "--vectors", files / "q.npy", "--k", 1, "--json").stdout
    assert json.loads(told)[0]["id"].startswith("a\x1b[2J\n")


def test_more_hits_than_a_machine_counts_are_all_there_are(index, files):
    done = invoke("search", index, "--vectors", files / "q.npy", "--k", 10**30, "--json")
    assert len(json.loads(done.stdout)) == 3 * ROWS


def test_a_calibration_that_is_nested_too_deep_is_no_calibration(index, files, tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    told = refused("search", index, "--vectors", files / "q.npy", "--calibration", tmp_path / "deep.json")
    assert re.search(r"deep\.json is no calibration: it is nested too deep\. .*fit it again: normwise calibrate", told, re.IGNORECASE)
