"""Config files and overrides: plain data out, errors with file and line."""

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.config import PaceConfig
from normwise.core.config_file import apply_overrides, read_config_file
from normwise.core.errors import InputError

TOML = """
seeds = [0, 1]
[data]
name = "python-docs"
[[arms.pace]]
name = "angular"
temperature = 0.1
learning_rate = 2e-5
"""
JSON = (
    '{"seeds": [0, 1], "data": {"name": "python-docs"}, "arms": {"pace": [{"name": "angular", "temperature": 0.1, "learning_rate": 2e-5}]}}'
)
YAML = """
seeds: [0, 1]
data: {name: python-docs}
arms:
  pace:
    - name: angular
      temperature: 0.1
      learning_rate: 2e-5
"""


@pytest.mark.parametrize(("suffix", "text"), [("toml", TOML), ("json", JSON), ("yaml", YAML), ("yml", YAML), ("TOML", TOML)])
def test_the_three_formats_say_the_same(tmp_path, suffix, text):
    path = tmp_path / f"run.{suffix}"
    path.write_text(text, encoding="utf-8")
    expected = {
        "seeds": [0, 1],
        "data": {"name": "python-docs"},
        "arms": {"pace": [{"name": "angular", "temperature": 0.1, "learning_rate": 2e-5}]},
    }
    assert read_config_file(path) == expected
    assert PaceConfig.read(read_config_file(path)).arms["pace"][0].learning_rate == 2e-5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "x = 1\ny = = 2\n", r"a\.toml, line 2, column 5: not valid TOML"),
        ("a.toml", "x = 1\ny =", r"a\.toml, line 2.*not valid TOML"),
        ("a.json", '{\n "x": 1,\n}', r"a\.json, line [23], column \d+: not valid JSON"),
        ("a.json", '{"x": NaN}', r"NaN is not valid JSON: give a finite number"),
        ("a.json", '{"x": 1, "x": 2}', r"key 'x' stands twice"),
        ("a.json", "[1]", r"a config is a table of settings.*holds a list"),
        ("a.yaml", "x: 1\ny: [1, 2\n", r"a\.yaml, line 3, column 1: not valid YAML"),
        ("a.yaml", "x: 1\nx: 2\n", r"a\.yaml, line 2, column 1: not valid YAML: key 'x' stands twice"),
        ("a.yaml", "x: !!python/name:os.system\n", r"not valid YAML: could not determine a constructor"),
        ("a.yaml", "false", r"holds a bool"),
        ("a.toml", "x = " + "9" * 5000, r"a\.toml: a value cannot be read: .*5000 digits$"),
        ("a.json", '{"x": ' + "9" * 5000 + "}", r"a\.json: a value cannot be read: .*5000 digits$"),
        ("a.yaml", "x: " + "9" * 5000, r"a\.yaml, line 1, column 4: not valid YAML: .* cannot be read as int"),
        ("a.toml", "x = " + "[" * 5000, r"a\.toml: .*more than 16 deep"),
        ("a.json", '{"x": ' + "[" * 100_000, r"a\.json: .*more than 16 deep"),
        ("a.json", '{"x": ' + "[" * 300 + "]" * 300 + "}", r"a\.json: .*more than 16 deep"),
        ("a.yaml", "x: " + "[" * 5000, r"a\.yaml: .*more than 16 deep"),
        ("a.yaml", "x: &a [*a]", r"a\.yaml: .*more than 16 deep"),
        ("a.yaml", "c: 2020-13-45", r"a\.yaml, line 1, column 4: not valid YAML: '2020-13-45' cannot be read as timestamp"),
        ("a.yaml", "a: 1\nc: !!int xx", r"a\.yaml, line 2, column 4: not valid YAML: 'xx' cannot be read as int"),
        ("a.yaml", "c: !!int ''", "'' cannot be read as int"),
        ("a.yaml", "c: !!float xx", "'xx' cannot be read as float"),
        ("a.yaml", "c: [!!bool xx]", "'xx' cannot be read as bool"),
        ("a.yaml", "c: !!timestamp xx", "'xx' cannot be read as timestamp"),
        ("a.ini", "[x]", r"a config file ends in \.toml, \.json, \.yaml, \.yml \(got '\.ini'\)"),
        ("plain", "x", r"got 'no extension'"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_config_file(tmp_path / name)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.toml does not exist"):
        read_config_file(tmp_path / "gone.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match=r"folder\.toml cannot be read: Is a directory"):
        read_config_file(tmp_path / "folder.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    with pytest.raises(InputError, match=r"latin\.toml is not UTF-8 text \(byte 11\)"):
        read_config_file(tmp_path / "latin.toml")


def test_an_empty_yaml_file_is_an_empty_table(tmp_path):
    (tmp_path / "a.yaml").write_text("# nothing\n", encoding="utf-8")
    assert read_config_file(tmp_path / "a.yaml") == {}


@pytest.mark.parametrize(
    ("override", "value"),
    [("x=3", 3), ("x=2e-5", 2e-5), ("x=true", True), ("x=[0, 1]", [0, 1]), ('x="3"', "3"), ("x={a = 1}", {"a": 1})]
    + [("x=all-MiniLM-L6-v2", "all-MiniLM-L6-v2"), ("x=", ""), ("x=a=b", "a=b"), ("x = 5", 5), ("x=1\ny = 2", "1\ny = 2")],
)
def test_values_are_toml_or_else_text(override, value):
    assert apply_overrides({}, [override]) == {"x": value}


def test_keys_go_into_tables_and_lists_and_leave_the_input_alone():
    values = {"arms": {"pace": [{"steps": 9}, {"steps": 9}], "v1.2": [{"steps": 9}]}}
    before = copy.deepcopy(values)
    changed = apply_overrides(values, ["arms.pace.1.steps=5", 'arms."v1.2".0.steps=6', "model.layers=2"])
    assert changed == {"arms": {"pace": [{"steps": 9}, {"steps": 5}], "v1.2": [{"steps": 6}]}, "model": {"layers": 2}}
    assert values == before


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("arms.pace", "expected KEY=VALUE"),
        ("=3", "the key is dotted names"),
        ("a..b=3", "the key is dotted names"),
        ("a.=3", "the key is dotted names"),
        ('"a"b=3', "the key is dotted names"),
        ("arms.pace.2.steps=3", r"arms\.pace is a list of 2 \(0 to 1\), so '2' picks nothing"),
        ("arms.pace.last.steps=3", "'last' picks nothing"),
        ("seed.x=3", "seed is 4, not a table: set seed as a whole"),
        ("seeds=[1, 2", "starts like TOML but is not valid"),
        ("seeds=" + "9" * 5000, "a value cannot be read: .*5000 digits$"),
        ("seeds=" + "[" * 5000, "more than 16 deep"),
        ("arms.pace.\N{SUPERSCRIPT TWO}.x=1", "picks nothing"),
        (f"arms.pace.{'9' * 5000}.x=1", "picks nothing"),
    ],
)
def test_bad_overrides_say_what_is_wrong(override, message):
    with pytest.raises(InputError, match=message):
        apply_overrides({"arms": {"pace": [{}, {}]}, "seed": 4}, [override])


def test_an_unknown_key_is_found_by_the_config():
    values = {"data": {"name": "x"}, "arms": {"a": [{"name": "s", "temperature": 0.1}]}}
    with pytest.raises(InputError, match=r"unknown key 'arms\.a\.0\.stpes': did you mean steps\?"):
        PaceConfig.read(apply_overrides(values, ["arms.a.0.stpes=5"]))


def test_many_aliases_of_one_list_are_no_depth_and_cost_nothing(tmp_path):
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "a.yaml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError, match="unknown key 'a0'") as caught:
        PaceConfig.read(read_config_file(tmp_path / "a.yaml"))
    assert len(str(caught.value)) < 3000


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_comes_through(number):
    assert apply_overrides({}, [f"x={number!r}"]) == {"x": number}
    assert math.copysign(1, apply_overrides({}, [f"x={number!r}"])["x"]) == math.copysign(1, number)
