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


def test_export_never_replaces_what_it_did_not_write(pairs, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "main.py").write_text("years of work")
    with pytest.raises(InputError, match=r"work was not written by normwise data export .*refusing to delete it"):
        export_set("no-such-data", tmp_path / "work", overwrite=True)  # said before the data are looked for
    with pytest.raises(InputError, match=r"pairs\.jsonl is no folder: an export never replaces a file"):
        export_set(str(pairs), pairs, overwrite=True)
    export_set(str(pairs), tmp_path / "out")
    export_set(str(pairs), tmp_path / "out", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pairs.jsonl", "work"]


def test_check_refuses_a_split_that_judges_nothing(pairs, tmp_path):
    export_set(str(pairs), tmp_path / "out")
    for text in ("query-id\tcorpus-id\tscore\n", "dev-0\tc0\t0\n"):
        (tmp_path / "out" / "qrels" / "dev.tsv").write_text(text)
        report = check(str(tmp_path / "out"))
        assert "out/qrels/dev.tsv" in report.refusals[0]


def test_check_reports(pairs):
    report = check(str(pairs))
    assert report.ok
    assert report.truncated == {}
    assert json.loads(report.to_json())["rows"]["train pairs"] == 32


@pytest.mark.slow
def test_check_counts_truncation_with_an_encoder(tmp_path, small_model):
    rows = [{"query": f"find item {number}", "positive": f"item {number} " + "and so on " * (20 * (number % 2))} for number in range(40)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = check(str(tmp_path / "pairs.jsonl"), model=str(small_model))
    assert report.truncated["candidates"] == pytest.approx(0.5)
    assert any("50% of candidates are longer than the 16 tokens" in warning for warning in report.warnings)
