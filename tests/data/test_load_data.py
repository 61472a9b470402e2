import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from normwise.core.config import DataConfig
from normwise.core.errors import InputError, MissingExtraError
from normwise.data.contents import pictures_of
from normwise.data.load import load_data, load_to_judge
from normwise.data.settings import is_training_config
from normwise.data.splits import hold_out


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def rows(count, offset=0):
    return [{"query": f"q{n + offset}", "positive": f"p{n + offset}", "negatives": [f"n{n + offset}"] * (n % 3)} for n in range(count)]


def train_keys(data):
    return {(query, data.train.corpus.texts[row]) for query, row in zip(data.train.queries, data.train.positives, strict=True)}


def judged_keys(part):
    return {(query, part.corpus.texts[row]) for query, grades in zip(part.queries, part.relevance, strict=True) for row in grades}


def test_a_file_is_split_by_seed_and_nothing_is_lost(tmp_path):
    name = write(tmp_path / "x.jsonl", rows(60))
    one, same, other = (load_data(DataConfig(name=name), seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert judged_keys(one.test) != judged_keys(other.test)
    everything = train_keys(one) | judged_keys(one.dev) | judged_keys(one.test)
    assert everything == {(f"q{n}", f"p{n}") for n in range(60)}
    assert (len(one.dev), len(one.test)) == (6, 6)
    assert "seed 1" in one.notes[0]
    assert one.train.corpus is one.test.corpus
    assert not one.skewed


def test_whole_clusters_are_held_out(tmp_path):
    table = [{"query": f"q{n}", "positive": f"p{n // 3}", "source": f"f{n // 6}"} for n in range(90)]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", table)), seed=0)
    held = {query for query, _ in judged_keys(data.test) | judged_keys(data.dev)}
    for group in range(15):
        mine = {f"q{n}" in held for n in range(group * 6, group * 6 + 6)}
        assert len(mine) == 1
    assert len(set(data.test.clusters.tolist())) == len({int(query[1:]) // 6 for query in data.test.queries})


def test_case_and_space_do_not_hide_a_shared_query(tmp_path):
    table = [{"query": text, "positive": f"answer {n} {len(text)}"} for n in range(30) for text in (f"Query {n}", f"query  {n}")]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", table)), seed=3)
    held = {" ".join(query.lower().split()) for part in (data.dev, data.test) for query in part.queries}
    assert not held & {" ".join(query.lower().split()) for query in data.train.queries}


def test_popular_targets_fall_back_to_query_splits(tmp_path):
    table = [{"query": f"q{n}", "positive": "hub" if n % 2 else f"p{n}", "negative": f"n{n}"} for n in range(40)]
    table += [{"query": f"q{n}", "positive": "hub"} for n in range(0, 40, 2)]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", table)), seed=0)
    assert "split by query and source only" in data.notes[0]
    assert data.skewed
    assert not set(data.train.queries) & set(data.test.queries)


def test_names_of_classes_are_shared_by_all_splits_and_their_pictures_are_not(tmp_path):
    table = [{"query": f"thing {n}", "positive": f"class {n % 10}"} for n in range(400)]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", table)), seed=0)
    assert "the 10 positives are names of classes, which training and held-out rows share" in data.notes[0]
    assert len(set(data.train.positives.tolist())) == 10
    assert len({row for grades in data.test.relevance for row in grades}) > 5
    assert not set(data.train.queries) & {*data.test.queries, *data.dev.queries}
    assert len(set(data.test.clusters.tolist())) == len(data.test)


@pytest.mark.parametrize(
    "known",
    [
        [(f"make {i} {j}", (3 * i + j,), 3 * i + j + 1, "") for i in range(60) for j in range(2)],
        [(f"what {j} {i}", (i,), f"answer {i} {j}", f"s{i}-{j}") for i in range(60) for j in range(3)],
        [(f"<image> and <image> {i}{j}", (2 * i + j, 500 + i), f"text {i} {j}", "") for i in range(60) for j in range(2)],
        [(f"caption {i} {j}", (), i, f"a{i}-{j}") for i in range(20) for j in range(25)],
    ],
    ids=["an answer is asked about", "a source in every row", "the second picture", "no class"],
)
def test_no_picture_is_on_both_sides_of_a_split(tmp_path, known):
    def shown(number):
        path = tmp_path / f"{number}.png"
        if not path.exists():
            Image.new("RGB", (4, 4), (number % 256, number // 256, 7)).save(path)
        return path.name

    rows = [
        {
            "query": query,
            **({"query_image": [shown(number) for number in asked]} if asked else {}),
            **({"positive": answer} if isinstance(answer, str) else {"positive_image": shown(answer)}),
            **({"source": source} if source else {}),
        }
        for query, asked, answer, source in known
    ]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", rows)), seed=0)
    seen = {}
    pairs = [("train", *pair) for pair in zip(data.train.queries, data.train.positives.tolist(), strict=True)]
    for name, part in (("dev", data.dev), ("test", data.test)):
        pairs += [(name, query, row) for query, rows in zip(part.queries, part.relevance, strict=True) for row in rows]
    for split, query, row in pairs:
        for content in (query, data.train.corpus.contents[row]):
            for picture in pictures_of(content):
                seen.setdefault(picture.digest, set()).add(split)
    assert seen
    assert all(len(splits) == 1 for splits in seen.values())


def test_where_pictures_join_all_rows_those_of_queries_are_kept_apart_and_the_note_says_so(tmp_path):
    for number in range(61):
        Image.new("RGB", (4, 4), (number, 0, 7)).save(tmp_path / f"{number}.png")
    rows = [{"query_image": f"{number}.png", "positive_image": f"{number + 1}.png"} for number in range(60)]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", rows)), seed=0)
    assert "split by query, its pictures and source only, since shared pictures join almost all rows" in data.notes[0]
    assert not set(data.train.queries) & {*data.dev.queries, *data.test.queries}


def test_a_positive_of_few_queries_is_no_class_and_tasks_are_told_apart(tmp_path):
    few = [{"query": f"thing {n}", "positive": f"answer {n % 21}", "task": "find"} for n in range(399)]
    many = [{"query": f"picture {n}", "positive": f"class {n % 10}", "task": "name"} for n in range(400)]
    data = load_data(DataConfig(name=write(tmp_path / "x.jsonl", few + many)), seed=0)
    assert "the 10 positives of name are names of classes" in data.notes[0]
    contents = data.train.corpus.contents
    trained = {contents[row] for row in data.train.positives.tolist()}
    held = {contents[row] for part in (data.dev, data.test) for grades in part.relevance for row in grades}
    assert {name for name in held & trained if name.startswith("class")}
    assert not {name for name in held & trained if name.startswith("answer")}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=80), st.integers(1, 2), st.integers(0, 9))
def test_hold_out_keeps_clusters_whole(labels, parts, seed):
    labels = np.unique(labels, return_inverse=True)[1]
    chosen = hold_out(labels, parts=parts, seed=seed)
    if chosen is None:
        return
    for label in set(labels.tolist()):
        assert len(set(chosen[labels == label].tolist())) == 1
    assert (chosen < 0).sum() >= 2
    assert set(range(parts)) <= set(chosen.tolist())


def test_files_for_dev_and_test_are_taken(tmp_path):
    train, dev = write(tmp_path / "t.jsonl", rows(30)), write(tmp_path / "d.jsonl", rows(5, 100))
    data = load_data(DataConfig(name=train, dev=dev), seed=0)
    assert data.dev.queries == tuple(f"q{n}" for n in range(100, 105))
    assert len(data.test) == 3
    assert "p104" in data.test.corpus.texts
    both = load_data(DataConfig(name=train, dev=dev, test=dev), seed=0)
    assert len(both.train) == 30
    assert both.notes == ()


def test_repeated_queries_become_one_judged_query(tmp_path):
    test = write(tmp_path / "d.jsonl", [{"query": "a", "positive": "x"}, {"query": "a", "positive": "y"}, {"query": "b", "positive": "y"}])
    data = load_data(DataConfig(name=write(tmp_path / "t.jsonl", rows(30)), test=test), seed=0)
    assert [sorted(data.test.corpus.texts[row] for row in grades) for grades in data.test.relevance] == [["x", "y"], ["y"]]
    assert data.test.clusters.tolist() == [0, 0]


def test_limits_cut_the_same_rows_and_keep_what_is_relevant(tmp_path):
    name = write(tmp_path / "t.jsonl", rows(300))
    config = DataConfig(name=name, limit_train=50, limit_queries=8, limit_candidates=40)
    data, again, other = (load_data(config, seed=seed) for seed in (0, 0, 1))
    assert data == again
    assert data.train != other.train
    assert (len(data.train), len(data.dev), len(data.test), len(data.test.corpus)) == (50, 8, 8, 40)
    assert data.dev.corpus is data.test.corpus
    whole = load_data(DataConfig(name=name), seed=0)
    assert judged_keys(data.test) <= judged_keys(whole.test)
    assert train_keys(data) <= train_keys(whole)
    assert list(data.test.corpus.ids) == [key for key in whole.test.corpus.ids if key in set(data.test.corpus.ids)]


def test_a_limit_below_the_relevant_candidates_says_so(tmp_path):
    data = load_data(DataConfig(name=write(tmp_path / "t.jsonl", rows(300)), limit_candidates=10), seed=0)
    assert len(data.test.corpus) == len({row for part in (data.dev, data.test) for grades in part.relevance for row in grades})
    assert "above limit_candidates = 10" in data.notes[-1]


@pytest.mark.parametrize(
    ("count", "message"), [(1, "one row, so its query has no negative"), (3, "cannot be split into training and 2 held-out")]
)
def test_too_few_rows_are_refused(tmp_path, count, message):
    with pytest.raises(InputError, match=message):
        load_data(DataConfig(name=write(tmp_path / "x.jsonl", rows(count))), seed=0)


def test_one_training_row_is_refused_with_dev_and_test_given(tmp_path):
    held = write(tmp_path / "d.jsonl", rows(3, 50))
    with pytest.raises(InputError, match=r"1 training pair\(s\): a query needs another row"):
        load_data(DataConfig(name=write(tmp_path / "x.jsonl", rows(1)), dev=held, test=held), seed=0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"name": "no/such/path.jsonl"}, r"no/such/path\.jsonl does not exist"),
        ({"name": "./no-such-folder/"}, "does not exist: expected a built-in set"),
        ({"name": "python-doc"}, "did you mean python-docs"),
        ({"name": "pairs.jsonl", "roots": ["."]}, "roots belongs to a built-in set"),
        ({"name": "python-docs", "dev": "x.jsonl"}, "brings its own splits"),
        ({"name": "someone/something-that-is-not-there"}, "could not be loaded from the hub.*give a local path"),
    ],
)
def test_names_that_lead_nowhere(config, message):
    with pytest.raises(InputError, match=message):
        load_data(DataConfig(**config), seed=0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("beirr", r"did you mean beir\?$"),
        ("./beirr", r"beirr does not exist: did you mean beir\?$"),
        ("sets/beirr", r"in sets, did you mean beir\?$"),
        ("../here/beirr", r"beirr does not exist: in \.\./here, did you mean beir\?$"),
        ("sets/pairz.jsonl", r"sets/pairz\.jsonl does not exist: in sets, did you mean pairs\.jsonl\?$"),
        ("pairz.csv", r"pairz\.csv does not exist: did you mean pairs\.csv\?$"),
        ("python-doc", r"data 'python-doc' is unknown: did you mean python-docx or python-docs"),
        ("notes", "check the name and the network, or give a local path"),
        ("nowhere/beirr", "check the name and the network, or give a local path"),
    ],
)
def test_a_name_that_leads_nowhere_gets_near_names_of_data_beside_it(tmp_path, monkeypatch, name, words):
    here = tmp_path / "here"
    for folder in ("beir", "python-docx", "sets/beir"):
        (here / folder).mkdir(parents=True)
    for file in ("pairs.csv", "sets/pairs.jsonl", "notes.txt"):
        (here / file).write_text("")
    monkeypatch.chdir(here)
    with pytest.raises(InputError, match=words):
        load_data(DataConfig(name=name), seed=0)


def test_near_names_need_no_library_of_the_hub(tmp_path, monkeypatch):
    (tmp_path / "beir").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"data 'beirr' is unknown: did you mean beir\?"):
        load_data(DataConfig(name="beirr"), seed=0)
    with pytest.raises(MissingExtraError, match="datasets is not installed"):
        load_data(DataConfig(name="else"), seed=0)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"neither a BEIR folder .* it holds notes\.txt"):
        load_data(DataConfig(name=str(tmp_path)), seed=0)


def test_datasets_folders_go_by_name_too(tmp_path):
    datasets = pytest.importorskip("datasets")
    table = {"positive": [f"p{n}" for n in range(20)], "anchor": [f"q{n}" for n in range(20)], "negatives": [["a"], []] * 10}
    datasets.Dataset.from_dict(table).save_to_disk(str(tmp_path / "one"))
    data = load_data(DataConfig(name=str(tmp_path / "one")), seed=0)
    assert set(data.train.queries) <= {f"q{n}" for n in range(20)}
    assert {len(mine) for mine in data.train.negatives} == {0, 1}
    parts = datasets.DatasetDict(
        {"train": datasets.Dataset.from_dict(table), "validation": datasets.Dataset.from_dict({k: v[:3] for k, v in table.items()})}
    )
    parts.save_to_disk(str(tmp_path / "two"))
    data = load_data(DataConfig(name=str(tmp_path / "two")), seed=0)
    assert data.dev.queries == ("q0", "q1", "q2")
    with pytest.raises(InputError, match="has a dev split of its own"):
        load_data(DataConfig(name=str(tmp_path / "two"), dev="x.jsonl"), seed=0)
    datasets.Dataset.from_dict({**table, "positive": ["p", None] * 10}).save_to_disk(str(tmp_path / "bad"))
    with pytest.raises(InputError, match=r"\[train\]: row 2, column positive: is None"):
        load_data(DataConfig(name=str(tmp_path / "bad")), seed=0)


def test_a_training_config_is_judged_on_what_it_held_out_and_a_bare_file_on_every_row(tmp_path):
    table = [{"query": f"q{n}", "positive": f"p{n}"} for n in range(40)]
    name = write(tmp_path / "x.jsonl", table)
    (tmp_path / "trained.toml").write_text(f'seeds = [0]\n[data]\nname = "{name}"\n')
    (tmp_path / "data.toml").write_text(f'[data]\nname = "{name}"\n')
    assert [is_training_config(tmp_path / each) for each in ("trained.toml", "data.toml", "x.jsonl", "absent.toml")] == [
        True,
        False,
        False,
        False,
    ]
    data, whole = load_to_judge(DataConfig(name=name), seed=0)
    assert (len(data.test), whole) == (40, True)
    data, whole = load_to_judge(DataConfig(name=name), seed=0, as_trained=True)
    assert (len(data.train), len(data.test), whole) == (32, 4, False)


def test_a_folder_of_pictures_alone_is_told_what_to_write(tmp_path):
    for name in ("b.PNG", "a.jpg"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=r'holds pictures alone: .* such as \{"query": "...", "positive_image": "a.jpg"\} in pairs.jsonl'):
        load_data(DataConfig(name=str(tmp_path)), seed=0)
    (tmp_path / "readme.txt").write_text("x")
    with pytest.raises(InputError, match=r"no subset in MMEB's layout \(qry_text, tgt_text\): it holds a.jpg, b.PNG, readme.txt"):
        load_data(DataConfig(name=str(tmp_path)), seed=0)


def test_rows_that_were_dropped_are_counted_beside_every_result(tmp_path):
    table = [{"query": f"q{n}" if n % 10 else "", "positive": f"p{n}"} for n in range(40)]
    config = DataConfig(name=write(tmp_path / "x.jsonl", table), on_bad_rows="drop")
    for data in (load_data(config, seed=0), load_to_judge(config, seed=0)[0]):
        assert [note for note in data.notes if note.startswith("4 rows were left out: 4 query is empty")], data.notes
