import json

import pytest

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.load import load_data
from normwise.workflows.data import check, export_set, list_sets_verb


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"query": f"q{n}", "positive": f"p{n}"}) + "\n" for n in range(40)))
    return path


def test_list_names_every_set():
    entries = [json.loads(entry.to_json()) for entry in list_sets_verb()]
    assert [entry["name"] for entry in entries][:2] == ["python-docs", "python-calls"]
    assert set(entries[0]) == {"name", "kind", "available", "how_to_get"}


def test_export_writes_what_load_reads(pairs, tmp_path):
    result = export_set(str(pairs), tmp_path / "out", seed=3, limits={"limit_train": 10})
    assert result.rows == {"train pairs": 10, "dev queries": 4, "test queries": 4, "candidates": 40}
    assert (
        load_data(DataConfig(name=str(tmp_path / "out")), seed=0).train
        == load_data(DataConfig(name=str(pairs), limit_train=10), seed=3).train
    )
    with pytest.raises(InputError, match="exists already"):
        export_set(str(pairs), tmp_path / "out")
    with pytest.raises(InputError, match="unknown key 'limit_trian': did you mean limit_train"):
        export_set(str(pairs), tmp_path / "new", limits={"limit_trian": 3})


def test_check_reports(pairs):
    report = check(str(pairs), token_counter=lambda texts: [len(text) for text in texts], max_tokens=2)
    assert report.ok
    assert 0 < report.truncated["candidates"] < 1
    assert json.loads(report.to_json())["rows"]["train pairs"] == 32
