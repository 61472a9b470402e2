"""What people see: every figure with its interval, every text as it is, undefined where a number is missing."""

import functools

import pytest
import rich.console

from normwise import cli_tables
from normwise.core.records import METRICS, Comparison, Decision, Evaluation, GateReport, Interval, Record, RunResult, TrainResult


def interval(mean):
    return Interval(mean=mean, ci_low=None if mean is None else mean - 0.1, ci_high=None if mean is None else mean + 0.1)


def training():
    return TrainResult(
        runs=(
            RunResult(name="cosine", similarity="cosine", metrics={"p@1": interval(0.5)}, dev={}, seeds=(0,)),
            RunResult(name="pace", similarity="dot", metrics={"p@1": interval(0.4), "mrr@10": interval(None)}, dev={}, seeds=(0,)),
        ),
        decision=Decision(similarity="cosine", reason="The interval of [pace] holds 0.", run="cosine"),
        comparisons=(
            Comparison(
                candidate="pace",
                baseline="cosine",
                metric="ndcg@10",
                split="dev",
                difference=interval(-0.05),
                level=0.975,
                words="no difference seen",
            ),
        ),
        claims={"dot helps": "undecided at this size"},
        data="python-docs",
        data_notes=("possibly seen in [bold]pre-training[/bold] :smile:",),
        model="out/model",
        report=None,
        seconds=61.4,
    )


def test_a_training_is_told_in_full(capsys):
    cli_tables.show_training(training())
    out = capsys.readouterr().out
    assert "note: possibly seen in [bold]pre-training[/bold] :smile:" in out
    assert "cosine (cosine)" in out
    assert "0.500 [0.400, 0.600]" in out
    assert "undefined" in out
    assert "pace against cosine, ndcg@10 on dev: -0.050 [-0.150, 0.050] at level 0.975: no difference seen" in out
    assert "claim dot helps: undecided at this size" in out
    assert "decision (on dev): cosine with cosine. The interval of [pace] holds 0." in out
    assert "report: not written" in out
    assert "61 seconds" in out


def test_wide_tables_are_not_cut_where_there_is_no_terminal(capsys):
    table = {name: interval(0.5) for name in ("p@1", "mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100")}
    cli_tables.show_evaluation(
        Evaluation(model="m", data="d", queries=2, candidates=3, clusters=2, similarities={"candidate_normalized": table})
    )
    out = capsys.readouterr().out
    assert "2 queries in 2 clusters, 3 candidates" in out
    assert out.count("0.500 [0.400, 0.600]") == 6
    assert "…" not in out


FIGURES = {name: interval(0.5) for name in METRICS}


@pytest.mark.parametrize("columns", [None, 80, 30])
def test_no_name_and_no_figure_is_cut_or_broken(capsys, monkeypatch, columns):
    if columns:
        terminal = functools.partial(rich.console.Console, force_terminal=True, width=columns, no_color=True)
        monkeypatch.setattr(rich.console, "Console", lambda **settings: terminal(**{**settings, "width": columns}))
    names = ["candidate_normalized", "an-arm-with-a-very-long-name (candidate_normalized)"]
    cli_tables.show_evaluation(
        Evaluation(model="m", data="d", queries=2, candidates=3, clusters=2, similarities=dict.fromkeys(names, FIGURES))
    )
    out = capsys.readouterr().out
    assert all(name in out for name in [*names, *METRICS])
    assert out.count("0.500 [0.400, 0.600]") == 2 * len(METRICS)
    assert "…" not in out


def test_a_record_is_names_and_values(capsys):
    cli_tables.show_record("gate", GateReport(name="merge", passed=True, words="fine", figures={"max difference": 5e-7, "share": None}))
    out = capsys.readouterr().out
    for part in ("gate", "figures.max difference", "5e-07", "undefined", "passed", "yes"):
        assert part in out


def test_a_list_of_records_is_a_table_of_its_own(capsys):
    class Plan(Record):
        stages: tuple[GateReport, ...]
        warnings: tuple[str, ...] = ()

    cli_tables.show_record("plan", Plan(stages=tuple(GateReport(name=name, passed=False, words="") for name in ("first", "second"))))
    lines = capsys.readouterr().out.splitlines()
    assert any("warnings" in line and "none" in line for line in lines)
    assert any("name" in line and "passed" in line for line in lines)
    assert any("second" in line and "no" in line for line in lines)
    assert not any("stages.0" in line for line in lines)


def test_rows_share_one_table(capsys):
    cli_tables.show_rows("sets", [{"name": "a", "available": True}, {"name": "b", "available": False}])
    out = capsys.readouterr().out
    assert [word for word in ("name", "available", "a", "yes", "b", "no") if word not in out] == []


def test_bytes_are_shown_in_the_unit_that_people_read(capsys):
    cli_tables.show_rows("stages", [{"memory_bytes": 3 * 2**30 + 2**29}, {"memory_bytes": 7 * 2**20}, {"memory_bytes": None}])
    out = capsys.readouterr().out
    assert "3.50 GiB" in out
    assert "7 MiB" in out
    assert "undefined" in out


def test_one_query_per_candidate_stands_in_a_table_of_its_own(capsys):
    alike = {"cosine": {name: interval(0.25) for name in METRICS}}
    cli_tables.show_evaluation(
        Evaluation(
            model="m", data="d", queries=2, candidates=3, clusters=2, similarities={"cosine": FIGURES}, one_query_per_candidate=alike
        )
    )
    out = capsys.readouterr().out
    assert "one query per candidate" in out
    assert out.count("0.250 [0.150, 0.350]") == len(METRICS)
