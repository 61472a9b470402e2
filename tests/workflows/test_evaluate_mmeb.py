"""MMEB's protocol end to end with an encoder whose figures are known by hand; two models compared."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mmeb_material import EVAL, P_AT_1, ColorEncoder, row, write_jsonl, write_mmeb
from normwise import cli_mmeb
from normwise.core.errors import InputError
from normwise.core.mmeb_records import MmebComparison, MmebEvaluation
from normwise.core.similarity import Similarity
from normwise.data.contents import content_words
from normwise.data.mmeb import read_mmeb_eval
from normwise.workflows.mmeb import evaluate_mmeb
from normwise.workflows.mmeb_compare import compare_mmeb


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_mmeb(tmp_path_factory.mktemp("mmeb"), EVAL)


@pytest.fixture(scope="module")
def tasks(root):
    return read_mmeb_eval(root)


@pytest.fixture(scope="module")
def found(tasks):
    return evaluate_mmeb(ColorEncoder(), tasks)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Two tasks of 60 queries of their own text each."""
    colors = ("red", "green", "blue")
    rows = [
        row(f"thing {number} in {colors[number % 3]}", "", [(colors[(number + step) % 3], "") for step in range(3)]) for number in range(60)
    ]
    return read_mmeb_eval(write_mmeb(tmp_path_factory.mktemp("mmeb"), {"VizWiz": rows, "GQA": rows}))


def test_figures_are_those_computed_by_hand(found):
    for task in found.tasks:
        for ranking, known in P_AT_1.items():
            assert task.p_at_1[ranking].mean == pytest.approx(known[task.name]), (task.name, ranking)
    assert [task.chance for task in found.tasks] == pytest.approx([1 / 3, (1 / 2 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2, 1 / 2])
    named = found.tasks[0]
    # Purple finds blue first and red second under cosine.
    assert named.mrr["cosine"] == pytest.approx((4 + 1 / 2) / 5)
    assert named.first["cosine"] == (1.0, 1.0, 1.0, 1.0, 0.0)
    assert named.first["dot"] == (1.0, 1.0, 1.0, 0.0, 0.0)
    assert named.dot_minus_cosine.difference.mean == pytest.approx(-1 / 5)


def test_means_weigh_tasks_alike(found):
    means = {name: (mean.p_at_1["cosine"].mean, mean.p_at_1["dot"].mean, len(mean.tasks)) for name, mean in found.means.items()}
    assert means["classification"] == (pytest.approx(0.8), pytest.approx(0.6), 1)
    assert means["in-domain"] == (pytest.approx((0.8 + 0.5 + 1) / 3), pytest.approx((0.6 + 0.5 + 1) / 3), 3)
    assert means["out-of-domain"] == (1.0, 1.0, 1)
    assert means["overall"] == (pytest.approx(3.3 / 4), pytest.approx(3.1 / 4), 4)
    assert list(means) == ["classification", "vqa", "retrieval", "grounding", "in-domain", "out-of-domain", "overall"]
    assert found.means["overall"].dot_minus_cosine.difference.mean == pytest.approx(-0.05)
    assert found.notes == ("4 of the benchmark's 36 tasks: the means are not comparable with published ones",)


def test_queries_that_share_a_picture_are_one_cluster_across_tasks(found):
    clusters = {task.name: task.clusters for task in found.tasks}
    named, seen = clusters["ImageNet-1K"], clusters["OK-VQA"]
    assert len(set(named)) == 5
    assert seen == (named[0], named[2])
    # Targets count too: a red and a blue picture are the right answers.
    assert clusters["MSCOCO_t2i"] == (named[0], named[2])


def test_every_distinct_content_is_encoded_once(tasks):
    encoder = ColorEncoder()
    evaluate_mmeb(encoder, [task for task in tasks if task.name == "ImageNet-1K"])
    assert len(encoder.seen) == len(set(encoder.seen)) == 5 + 3
    again = ColorEncoder()
    (task,) = [task for task in tasks if task.name == "MSCOCO_t2i"]
    twice = task.subset(np.array([0, 1, 0, 1]))
    evaluate_mmeb(again, [twice])
    assert len(again.seen) == 2 + 3


def test_a_folder_is_what_its_tasks_are(root, found):
    assert evaluate_mmeb(ColorEncoder(), root).tasks == found.tasks
    some = evaluate_mmeb(ColorEncoder(), str(root), subsets=["OK-VQA"], image_root=root / "images")
    assert [task.name for task in some.tasks] == ["OK-VQA"]


def test_results_survive_json(found):
    assert MmebEvaluation.from_json(found.to_json()) == found
    compared = compare_mmeb(found, found)
    assert MmebComparison.from_json(compared.to_json()) == compared


def test_lines_hold_every_task_and_mean(found):
    lines = found.lines()
    assert len(lines) == 1 + len(found.tasks) + len(found.means)
    assert "0.800 [" in lines[1]
    assert lines[-1].startswith("mean overall")


def test_intervals_cover_their_means_and_are_wider_after_correction(many):
    found = evaluate_mmeb(ColorEncoder(swap={"red": "green", "green": "blue"}), many)
    for task in found.tasks:
        assert task.p_at_1["cosine"].ci_low <= task.p_at_1["cosine"].mean <= task.p_at_1["cosine"].ci_high
        assert task.dot_minus_cosine.level > 0.95 or task.dot_minus_cosine.verdict != "undecided at this size"


def test_a_limit_draws_the_same_queries_whatever_else_is_asked_for(many):
    both = evaluate_mmeb(ColorEncoder(), many, limit_queries=10)
    alone = evaluate_mmeb(ColorEncoder(), [replace(task) for task in many], subsets=["GQA"], limit_queries=10)
    assert [task.queries for task in both.tasks] == [10, 10]
    assert {task.name: task.fingerprint for task in both.tasks}["GQA"] == alone.tasks[0].fingerprint
    other = evaluate_mmeb(ColorEncoder(), many, subsets=["GQA"], limit_queries=10, seed=1)
    assert other.tasks[0].fingerprint != alone.tasks[0].fingerprint
    assert "at most 10 queries of each task, drawn by seed" in both.notes


def test_the_better_model_is_called_better_and_the_other_worse(many):
    class Blind(ColorEncoder):
        """Right on every third query."""

        def encode_queries(self, contents, *, batch_size=64, progress=None):
            return np.tile(np.array([[1.0, 0.5, 0.1]], dtype=np.float32), (len(contents), 1))

    base, trained = evaluate_mmeb(Blind("blind"), many), evaluate_mmeb(ColorEncoder(), many)
    compared = compare_mmeb(base, trained, trained_ranking="dot")
    assert compared.overall.verdict == "better"
    assert compared.overall.difference.mean == pytest.approx(2 / 3)
    assert compared.overall.level == 0.95
    assert {one.verdict for one in compared.tasks.values()} == {"better"}
    assert max(one.level for one in compared.tasks.values()) == pytest.approx(0.975)
    assert set(compared.means) == {"vqa", "out-of-domain"}
    assert "colors (dot) against blind (cosine): better, mean P@1 over 2 tasks differs by +0.6667" in compared.words
    assert "2 better, 0 worse" in compared.words
    assert compare_mmeb(trained, base).overall.verdict == "worse"
    same = compare_mmeb(base, base)
    assert (same.overall.verdict, same.overall.difference.mean) == ("undecided at this size", 0.0)


def test_each_model_is_read_under_its_own_ranking(found):
    compared = compare_mmeb(found, found, base_ranking="cosine", trained_ranking="dot")
    assert compared.overall.difference.mean == pytest.approx(-0.05)
    assert compare_mmeb(found, found, base_ranking="dot").overall.difference.mean == pytest.approx(0.05)


def test_a_model_that_gives_everything_one_vector_gets_what_chance_gets(tasks):
    class Collapsed(ColorEncoder):
        def _encode(self, role, contents):
            return np.ones((len(contents), 3), dtype=np.float32)

    for task in evaluate_mmeb(Collapsed(), tasks).tasks:
        assert task.p_at_1["cosine"].mean == pytest.approx(task.chance)


def test_zero_vectors_and_dropped_rows_are_told(tmp_path):
    write_mmeb(tmp_path, {})
    rows = [row("nothing known", "", [("red", ""), ("grey", "")]), row("red", "", [("red", ""), ("blue", "")]), row("", "", [("red", "")])]
    write_jsonl(tmp_path / "mine.jsonl", rows)
    found = evaluate_mmeb(ColorEncoder(), tmp_path, on_bad_rows="drop")
    assert found.tasks[0].notes == (
        "1 rows were left out: qry_text is empty: neither text nor picture (1)",
        "1 query vectors are zero: they score 0 with everything",
        "1 candidate vectors are zero: they score 0 with everything",
    )
    assert found.tasks[0].p_at_1["dot"].mean == pytest.approx((1 / 2 + 1) / 2)
    assert found.tasks[0].in_domain is None
    assert set(found.means) == {"other", "overall"}
    assert found.notes[0] == "not subsets of the benchmark, so neither in-domain nor out-of-domain: mine"


def test_a_task_of_one_cluster_has_no_interval_and_says_so(tmp_path):
    write_mmeb(tmp_path, {"OK-VQA": [EVAL["OK-VQA"][0], EVAL["OK-VQA"][0] | {"qry_text": "and now?"}]})
    found = evaluate_mmeb(ColorEncoder(), tmp_path)
    assert found.means["overall"].p_at_1["cosine"].ci_low is None
    assert "no interval for OK-VQA" in found.notes[-1]
    assert "no interval" in found.lines()[1]
    assert compare_mmeb(found, found).overall.verdict == "undecided at this size"


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (lambda contents: np.ones((len(contents) + 1, 3)), r"OK-VQA: encode_queries of colors gave float64 of shape \(3, 3\); expected"),
        (lambda contents: [[1.0]] * len(contents), r"encode_queries of colors gave list; expected a float array of 2 rows"),
        (lambda contents: np.full((len(contents), 3), np.nan), r"OK-VQA, vectors of colors: queries: row 0, column 0 is nan"),
        (lambda contents: np.ones((len(contents), 2)), r"OK-VQA, vectors of colors: queries have 2 dimensions, candidates 3"),
    ],
)
def test_vectors_that_cannot_be_ranked_are_refused(tasks, vectors, message):
    class Broken(ColorEncoder):
        def encode_queries(self, contents, *, batch_size=64, progress=None):
            return vectors(contents)

    with pytest.raises(InputError, match=message):
        evaluate_mmeb(Broken(), tasks, subsets=["OK-VQA"])


def test_what_cannot_be_asked_is_refused(tasks, found, many):
    with pytest.raises(InputError, match=r"limit_queries is 0; expected at least 1"):
        evaluate_mmeb(ColorEncoder(), tasks, limit_queries=0)
    with pytest.raises(InputError, match=r"image_root belongs to a folder"):
        evaluate_mmeb(ColorEncoder(), tasks, image_root="x")
    with pytest.raises(InputError, match=r"expected tasks of distinct names.*'GQA' was asked for"):
        evaluate_mmeb(ColorEncoder(), tasks, subsets=["GQA"])
    with pytest.raises(InputError, match=r"expected tasks of distinct names, got none"):
        evaluate_mmeb(ColorEncoder(), [])
    with pytest.raises(InputError, match=r"ranking 'cos' is unknown: expected cosine or dot"):
        compare_mmeb(found, found, base_ranking="cos")
    with pytest.raises(InputError, match=r"different tasks \(GQA, ImageNet-1K, .*VizWiz\): evaluate both on the same"):
        compare_mmeb(found, evaluate_mmeb(ColorEncoder(), many))
    with pytest.raises(InputError, match=r"GQA: colors and colors saw other queries or candidates"):
        compare_mmeb(evaluate_mmeb(ColorEncoder(), many), evaluate_mmeb(ColorEncoder(), many, limit_queries=50))


def test_a_comparison_holds_what_both_reached(found, tasks):
    other = evaluate_mmeb(ColorEncoder("swapped", swap={"red": "green"}), tasks)
    compared = compare_mmeb(other, found, trained_ranking="dot")
    for name, both in compared.p_at_1.items():
        (before,), (after,) = ([task for task in one.tasks if task.name == name] for one in (other, found))
        assert (both.base, both.trained) == (before.p_at_1["cosine"], after.p_at_1["dot"])
        assert (both.queries, both.candidates, both.chance, both.meta) == (after.queries, after.candidates, after.chance, after.meta)
        assert compared.tasks[name].difference.mean == pytest.approx(both.trained.mean - both.base.mean)
    assert set(compared.mean_p_at_1) == {*compared.means, "overall"}
    overall = compared.mean_p_at_1["overall"]
    assert (overall.base, overall.trained) == (other.means["overall"].p_at_1["cosine"], found.means["overall"].p_at_1["dot"])
    assert (overall.tasks, overall.queries, overall.chance) == (4, 11, pytest.approx(np.mean([task.chance for task in found.tasks])))
    assert compared.notes == found.notes
    lines = compared.lines()
    assert len(lines) == 2 + 4 + 7
    assert lines[-1].startswith("mean overall          4 tasks")
    assert f"{overall.trained.mean:.3f} [" in lines[-1]


def test_a_page_is_written_of_either_and_never_over_another(tasks, found, tmp_path):
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert evaluate_mmeb(ColorEncoder(), tasks, report=one) == found
    compare_mmeb(found, found, report=two)
    assert "OK-VQA" in one.read_text()
    assert "Trained (cosine)" in two.read_text()
    seen = ColorEncoder()
    with pytest.raises(InputError, match=r"one\.html exists already"):
        evaluate_mmeb(seen, tasks, report=one)
    assert seen.seen == []
    with pytest.raises(InputError, match=r"two\.html exists already"):
        compare_mmeb(found, found, report=two)


def test_the_command_shows_a_comparison_and_draws_the_page_of_what_it_returns(root, found, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("normwise.workflows.mmeb._open", lambda model: ColorEncoder(str(model)))
    baseline = tmp_path / "base.json"
    baseline.write_text(found.to_json())
    page = tmp_path / "page.html"
    given = {"subsets": None, "image_root": None}
    compared = cli_mmeb.evaluate("mine", str(root), baseline=baseline, report=page, **given)
    assert isinstance(compared, MmebComparison)
    assert "Comparison in MMEB" in page.read_text()
    cli_mmeb.show(compared)
    said = capsys.readouterr().out
    assert "trained - base" in said
    assert "OK-VQA" in said
    alone = tmp_path / "alone.html"
    assert isinstance(cli_mmeb.evaluate("mine", str(root), baseline=None, report=alone, **given), MmebEvaluation)
    assert "Evaluation in MMEB" in alone.read_text()
    with pytest.raises(InputError, match="exists already"):
        cli_mmeb.evaluate("mine", str(root), baseline=None, report=alone, **given)


def test_a_config_in_place_of_the_folder_gives_its_settings(root, tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.workflows.mmeb._open", lambda model: ColorEncoder(str(model)))
    (tmp_path / "one.toml").write_text(f'[data]\nname = "{root}"\nlimit_queries = 1\non_bad_rows = "drop"\n')
    config = str(tmp_path / "one.toml")
    assert cli_mmeb.asked(config, ["OK-VQA"], None, None)
    found = cli_mmeb.evaluate("mine", config, subsets=None, image_root=None, baseline=None)
    assert {task.queries for task in found.tasks} == {1}
    (tmp_path / "two.toml").write_text(f'[data]\nname = "{root}"\nbackground = "black"\ninstructions = {{"*" = "Find it."}}\n')
    with pytest.raises(InputError, match=r"two\.toml: data\.background, data\.instructions would change nothing, .*: leave it out"):
        cli_mmeb.evaluate("mine", str(tmp_path / "two.toml"), subsets=None, image_root=None, baseline=None)


def test_rows_that_cannot_be_used_are_refused_or_dropped_as_the_config_says(tmp_path, monkeypatch):
    monkeypatch.setattr("normwise.workflows.mmeb._open", lambda model: ColorEncoder(str(model)))
    rows = [row("red", "", [("red", ""), ("blue", "")]), row("", "", [("red", ""), ("blue", "")])]
    folder = write_mmeb(tmp_path / "mmeb", {"GQA": rows})
    with pytest.raises(InputError, match="on_bad_rows"):
        cli_mmeb.evaluate("mine", str(folder), subsets=None, image_root=None, baseline=None)
    (tmp_path / "c.toml").write_text(f'[data]\nname = "{folder}"\non_bad_rows = "drop"\n')
    found = cli_mmeb.evaluate("mine", str(tmp_path / "c.toml"), subsets=None, image_root=None, baseline=None)
    assert [task.queries for task in found.tasks] == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], r"base.json holds no evaluation of an MMEB folder \(the whole: .*give what normwise evaluate --json said"),
        ({"model": "m", "recall": 1}, r"holds no evaluation of an MMEB folder \("),
        (lambda values: values["tasks"][0]["first"].update(cosine=[1.0]), r"ImageNet-1K, first.cosine must hold 5 figures between 0 and 1"),
        (lambda values: values["tasks"][1]["first"].update(dot=[7.0, 7.0]), r"MSCOCO_t2i, first.dot must hold 2 figures between 0 and 1"),
        (lambda values: values["tasks"][0]["first"].pop("cosine"), r"first.cosine must hold 5 figures"),
        (lambda values: values["tasks"][0]["p_at_1"].pop("dot"), r"ImageNet-1K, p_at_1.dot is missing"),
    ],
)
def test_a_baseline_of_something_else_is_refused_before_any_work(root, found, tmp_path, monkeypatch, change, message):
    def never(model):
        raise AssertionError("opened")

    monkeypatch.setattr("normwise.workflows.mmeb._open", never)
    values = json.loads(found.to_json())
    if callable(change):
        change(values)
    (tmp_path / "base.json").write_text(json.dumps(values if callable(change) else change))
    with pytest.raises(InputError, match=message):
        cli_mmeb.evaluate("mine", str(root), subsets=None, image_root=None, baseline=tmp_path / "base.json")


def test_models_are_compared_as_their_own_similarities_rank(root, found, tmp_path, monkeypatch):
    encoder = ColorEncoder()
    encoder.similarity = Similarity.DOT
    monkeypatch.setattr("normwise.workflows.mmeb._open", lambda model: encoder)
    (tmp_path / "base.json").write_text(found.to_json())
    assert found.own_ranking is None
    compared = cli_mmeb.evaluate("mine", str(root), subsets=None, image_root=None, baseline=tmp_path / "base.json")
    assert (compared.base_ranking, compared.trained_ranking) == ("cosine", "dot")
    assert compared.overall.difference.mean == pytest.approx((3.1 - 3.3) / 4)


def test_an_encoder_that_knows_nothing_is_not_shown_as_right(tasks):
    class Constant(ColorEncoder):
        def _encode(self, role, contents):
            return np.ones((len(contents), 3), dtype=np.float32)

    shown = evaluate_mmeb(Constant(), tasks).nearest.shown
    by_query = {content_words(query): len(task.candidates[row]) for task in tasks for row, query in enumerate(task.queries)}
    assert [near.first_right for near in shown] == [by_query[near.query] for near in shown]


def test_some_queries_are_kept_with_the_best_of_their_own_candidates(tasks, found):
    nearest = found.nearest
    # Cosine has the higher mean here.
    assert (nearest.ranking, nearest.seed, nearest.queries, nearest.depth, len(nearest.shown)) == ("cosine", 0, 11, 3, 6)
    encoder = ColorEncoder()
    by_name = {task.name: task for task in tasks}
    asked = nearest.shown
    assert len({near.task for near in asked}) > 1
    for near in asked:
        task = by_name[near.task]
        rows = [row for row, query in enumerate(task.queries) if content_words(query) == near.query]
        query = encoder.encode_queries([task.queries[rows[0]]])[0]
        members = task.candidates[rows[0]]
        vectors = encoder.encode_candidates([task.corpus.contents[row] for row in members])
        cosines = [float(vector @ query) / float(np.linalg.norm(vector) * np.linalg.norm(query)) for vector in vectors]
        order = sorted(range(len(members)), key=lambda place: (-round(cosines[place], 6), members[place]))
        assert [hit.words for hit in near.hits] == [content_words(task.corpus.contents[members[place]]) for place in order[:3]]
        assert [hit.score for hit in near.hits] == pytest.approx([cosines[place] for place in order[:3]], abs=1e-6)
        answers = [members[place] for place in order]
        assert near.first_right == answers.index(task.answers[rows[0]]) + 1
        assert [hit.right for hit in near.hits] == [row == task.answers[rows[0]] for row in answers[:3]]
        assert (near.picture is not None) == ("[shop/" in near.query)
    assert any(hit.picture for near in asked for hit in near.hits)


def test_kept_queries_hang_on_the_seed_and_are_none_for_texts_alone(tasks, many):
    kept = [[near.query for near in evaluate_mmeb(ColorEncoder(), tasks, seed=seed).nearest.shown] for seed in (0, 0, 1, 2)]
    assert kept[0] == kept[1]
    assert len({tuple(each) for each in kept}) == 3
    assert evaluate_mmeb(ColorEncoder(), many).nearest is None


def test_the_ranking_of_the_kept_queries_is_the_better_one(tasks):
    class Longer(ColorEncoder):
        """Candidates of the right kind are longer: the dot product finds more."""

        def encode_candidates(self, contents, *, batch_size=64, progress=None):
            rows = super().encode_candidates(contents, batch_size=batch_size, progress=progress)
            return rows * np.where(rows.argmax(axis=1) == 0, 9.0, 1.0)[:, None].astype(np.float32)

    (task,) = [task for task in tasks if task.name == "ImageNet-1K"]
    reds = task.subset(np.array([row for row in range(len(task)) if content_words(task.corpus.contents[task.answers[row]]) == "red"]))
    found = evaluate_mmeb(Longer(), [reds])
    assert found.means["overall"].p_at_1["dot"].mean > found.means["overall"].p_at_1["cosine"].mean
    assert found.nearest.ranking == "dot"
    assert compare_mmeb(evaluate_mmeb(ColorEncoder(), [reds]), found).nearest == found.nearest
