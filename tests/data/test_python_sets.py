import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data.cache import cached_tables
from normwise.data.calls import CallSite, ModuleNames, Resolver, call_sites, imports_of
from normwise.data.hygiene import check_data
from normwise.data.neighbors import jaccard, shingles
from normwise.data.python_calls import MASK, build_python_calls, masked_context, split_of
from normwise.data.python_docs import build_python_docs, split_groups
from normwise.data.sources import SourceFile, folder_sources, parse, parsing

NOUNS = "river bank table cloud engine matrix letter garden window signal".split()
VERBS = "count paint carry merge split order weigh polish".split()


def library(root: Path, *, modules=10) -> Path:
    """A small package of documented functions, and programs that call them unevenly."""
    for number in range(modules):
        noun = NOUNS[number % len(NOUNS)]
        body = [f'"""Functions about every {noun}."""', "import re", ""]
        for place, verb in enumerate(VERBS):
            name = f"{verb}_{noun}_{number}"
            inner = "\n".join(f"    step_{place}_{k} = values[{k}] * {number + k} + len('{verb}{k}{noun}')" for k in range(3 + place))
            body.append(
                f'def {name}(values):\n    """{verb.title()} every {noun} of group {"abcdefghij"[number]} in the list."""\n'
                f"{inner}\n    return step_{place}_0\n"
            )
        path = root / noun / "tools.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(body))
        (path.parent / "__init__.py").write_text("from .tools import *\n")
    rng = np.random.default_rng(0)
    for number in range(80):
        noun = NOUNS[min(int(rng.geometric(0.4)) - 1, modules - 1)]
        verb = VERBS[min(int(rng.geometric(0.4)) - 1, len(VERBS) - 1)]
        name = f"{verb}_{noun}_{NOUNS.index(noun)}"
        text = f"from {noun} import {name} as act\n\ndef program_{number}(data_{number}):\n    first_{number} = sorted(data_{number})\n"
        text += f"    result_{number} = act(first_{number})\n    print(result_{number}, 'program {number}')\n"
        if number % 2:
            text += f"\n\n# far away {number}\n\n\ndef later_{number}():\n    other_{number} = list_of_{number}()\n"
            text += f"    from table import weigh_table_2\n    return weigh_table_2(other_{number}, extra_{number}, {number})\n"
        (root / "programs").mkdir(exist_ok=True)
        (root / "programs" / f"program_{number}.py").write_text(text)
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return library(tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="module")
def docs(root, tmp_path_factory):
    return build_python_docs(roots=[str(root)], cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def calls(root, tmp_path_factory):
    return build_python_calls(roots=[str(root)], cache_dir=tmp_path_factory.mktemp("cache"))


def modules_of(data, part):
    rows = data.train.positives if part == "train" else [next(iter(grades)) for grades in getattr(data, part).relevance]
    return {data.train.corpus.ids[row].partition(":")[0] for row in rows}


def test_docs_are_pairs_of_summary_and_code_without_it(docs):
    assert len(docs.train) + len(docs.dev) + len(docs.test) == 80
    for query, row in zip(docs.train.queries, docs.train.positives, strict=True):
        code = docs.train.corpus.texts[row]
        assert query.rstrip(".") not in code
        assert '"""' not in code
        assert ast.parse(code).body[0].name in docs.train.corpus.ids[row]
    assert check_data(docs).ok
    assert not docs.skewed
    assert any("possibly seen in pre-training" in note for note in docs.notes)


def test_docs_are_split_by_module_whatever_the_seed(docs, root, tmp_path):
    names = [modules_of(docs, part) for part in ("train", "dev", "test")]
    assert all(names)
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]
    again = build_python_docs(roots=[str(root)], cache_dir=tmp_path)
    assert again == docs
    assert len(set(docs.test.clusters.tolist())) == len(modules_of(docs, "test"))


def test_no_near_duplicates_across_splits(docs):
    numbers = {}
    sets = {part: [shingles(docs.train.corpus.texts[r], numbers) for r in rows] for part, rows in {
        "train": docs.train.positives, "test": [next(iter(grades)) for grades in docs.test.relevance]}.items()}  # fmt: skip
    assert max(jaccard(one, other) for one in sets["train"] for other in sets["test"]) < 0.7


def test_copied_functions_are_dropped(root, tmp_path):
    copy = tmp_path / "code"
    source = (root / "river" / "tools.py").read_text()
    library(copy)
    (copy / "copied").mkdir()
    (copy / "copied" / "tools.py").write_text(source.replace("every river of", "one more river of"))
    data = build_python_docs(roots=[str(copy)], cache_dir=tmp_path / "cache")
    assert len(data.train) + len(data.dev) + len(data.test) == 80
    assert any("8 near-duplicate functions" in note for note in data.notes)


def test_broken_files_are_counted_and_warnings_do_not_leak(tmp_path):
    root = library(tmp_path / "code")
    (root / "broken.py").write_text("def f(:\n")
    (root / "latin.py").write_bytes(b"x = '\xe9'\n")
    (root / "odd.py").write_text('def odd(a):\n    """Say an odd thing here."""\n    b = "\\d"\n    c = a is "x"\n    return b, c\n')
    (root / "test_skipped.py").write_text('def skipped(a):\n    """This stands in a test file."""\n    b = a\n    c = b\n    return c\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = build_python_docs(roots=[str(root)], cache_dir=tmp_path / "cache")
    assert any("2 files that do not parse" in note for note in data.notes)
    assert "odd:odd" in data.train.corpus.ids
    assert not any("skipped" in name for name in data.train.corpus.ids)


def test_nothing_is_imported(tmp_path):
    root = library(tmp_path / "code")
    (root / "trap.py").write_text("raise SystemExit('imported')\n")
    build_python_docs(roots=[str(root)], cache_dir=tmp_path / "cache")


def test_roots_that_hold_nothing_are_refused(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        folder_sources([str(tmp_path / "none")])
    with pytest.raises(InputError, match="no Python file"):
        folder_sources([str(tmp_path)])
    (tmp_path / "one.py").write_text("x = 1\n")
    with pytest.raises(InputError, match="0 documented functions found in 1 files"):
        build_python_docs(roots=[str(tmp_path)], cache_dir=tmp_path / "cache")
    with pytest.raises(InputError, match="too few calls of documented imported functions in 1 files"):
        build_python_calls(roots=[str(tmp_path)], cache_dir=tmp_path / "cache")


def test_groups_get_finer_until_test_and_dev_are_filled():
    splits, words = split_groups([f"top.sub{n % 20}.m" for n in range(200)])
    assert "subpackage" in words
    assert {splits.count(split) > 10 for split in ("dev", "test")} == {True}
    by_group = {}
    for row, split in enumerate(splits):
        by_group.setdefault(row % 20, set()).add(split)
    assert all(len(found) == 1 for found in by_group.values())
    splits, words = split_groups(["one"] * 10)
    assert "single function" in words
    assert {"train", "dev", "test"} == set(splits)


def test_calls_hide_the_called_name_and_keep_popularity(calls):
    corpus = calls.train.corpus
    assert calls.skewed
    for query, row in zip(calls.train.queries, calls.train.positives, strict=True):
        name = corpus.ids[row].rpartition(":")[2]
        assert MASK in query
        assert name not in query
        assert f"def {name}(values)" in corpus.texts[row]
    popularity = calls.train.popularity()
    assert popularity.max() > 5
    assert (popularity == 0).any()
    assert check_data(calls).ok


def test_calls_are_split_by_file_and_held_out_files_give_one_query(calls):
    for part in ("dev", "test"):
        files = [name.split(":")[1] for name in getattr(calls, part).query_ids]
        assert len(files) == len(set(files))
        assert {split_of(name) for name in files} == {part}
    targets = [next(iter(grades)) for grades in calls.test.relevance]
    assert len(set(calls.test.clusters.tolist())) == len(set(targets))


@pytest.mark.parametrize(
    ("lines", "written", "target", "gone"),
    [
        (
            ["import numpy as np", "def test_asarray(x):", "    Asarray = np.asarray(x)", "    return my_asarray_of(Asarray)"],
            "np.asarray",
            "n:asarray",
            "asarray",
        ),
        (["value = get(budget, target)", "forget = value.get_all(widget)"], "get", "m:get", None),
    ],
)  # fmt: skip
def test_masking(lines, written, target, gone):
    text = masked_context(lines, CallSite(3 if len(lines) > 2 else 1, 3 if len(lines) > 2 else 1, written, written), target)
    if gone is not None:
        assert gone not in text.lower()
    else:
        assert text == "value = <mask>(budget, target)\nforget = value.<mask>_all(widget)"


def test_alias_and_definition_are_masked_too():
    text = masked_context(
        ["from lib import compute as run", "outcome = run(first, second)"], CallSite(2, 2, "run", "lib.compute"), "lib.core:compute_all"
    )
    assert not re.search("run|compute", text)
    assert masked_context(["run(a)"], CallSite(1, 1, "run", "m.run"), "m:run") is None


def test_names_are_resolved_through_imports():
    source = SourceFile(Path("x.py"), "pkg.sub.mod", False, "pkg")
    code = "import a.b\nimport c.d as e\nfrom ..up import f as g\nfrom . import h\ndef k():\n    from late import m\n    m(1)\n"
    code += "a.b.x(e.y(g(h.z(local(1)))))\nobj().w()"
    tree = ast.parse(code)
    found = {site.dotted for site in call_sites(tree, imports_of(tree, source, everywhere=True))}
    assert found == {"a.b.x", "c.d.y", "pkg.up.f", "pkg.sub.h.z", "late.m"}
    assert "m" not in imports_of(tree, source, everywhere=False).passed_on


def test_reexports_are_followed_and_circles_end():
    modules = {
        "p": ModuleNames(passed_on={"f": "p.a.f", "alias": "p.a"}, stars=["p.b"]),
        "p.a": ModuleNames(defined={"f", "C", "C.make"}, passed_on={"loop": "p.b.loop"}),
        "p.b": ModuleNames(defined={"g"}, passed_on={"loop": "p.a.loop"}, stars=["p"]),
    }
    resolver = Resolver(modules)
    assert resolver.resolve("p.f") == "p.a:f"
    assert resolver.resolve("p.g") == "p.b:g"
    assert resolver.resolve("p.alias.C.make") == "p.a:C.make"
    assert resolver.resolve("p.a.loop") is None
    assert resolver.resolve("other.f") is None


def test_cache_is_read_repaired_and_never_fatal(tmp_path):
    built = []

    def build():
        built.append(1)
        return {"t": {"a": [1, 2], "b": ["x", "y"]}, "u": {"c": [0.5]}}, {"n": 1}

    def load(key="k", folder=tmp_path):
        return cached_tables("set", key=key, cache_dir=folder, build=build)

    assert load() == load() == build()
    assert len(built) == 2
    load("other")
    assert len(built) == 3
    for path in tmp_path.glob("*.parquet"):
        path.write_bytes(b"broken")
    assert load() == build()
    (tmp_path / "file").write_text("")
    _, facts = load(folder=tmp_path / "file" / "below")
    assert "could not be written" in facts["cache"]


def test_changed_files_are_read_anew(tmp_path):
    root = library(tmp_path / "code")
    first = build_python_docs(roots=[str(root)], cache_dir=tmp_path / "cache")
    (root / "extra.py").write_text('def extra(a):\n    """Do one more useful thing."""\n    b = a + 1\n    c = b * 2\n    return c\n')
    second = build_python_docs(roots=[str(root)], cache_dir=tmp_path / "cache")
    assert len(second.train.corpus) == len(first.train.corpus) + 1


def test_standard_library_module_parses(tmp_path):
    source = SourceFile(Path(re.__file__), "re", True, "python")
    with parsing():
        text, tree = parse(source)
    assert "def compile" in text
    assert isinstance(tree, ast.Module)
