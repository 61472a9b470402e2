from dataclasses import replace

import numpy as np
import pytest

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.hygiene import HygieneReport, check_data, drop_bad_pairs
from normwise.data.load import load_data
from normwise.data.sets import Corpus, Judged, Origin, RetrievalData, TrainingPairs


def toy(
    *,
    queries=("q0", "q1", "q2"),
    texts=("x", "y", "z", "w"),
    positives=(0, 1, 2),
    negatives=((), (), ()),
    test_queries=("t0",),
    relevance=({3: 1.0},),
):
    corpus = Corpus(tuple(f"c{n}" for n in range(len(texts))), tuple(texts))
    origin = Origin("pairs.jsonl", np.arange(1, len(queries) + 1) * 10)
    train = TrainingPairs(tuple(queries), np.asarray(positives), tuple(negatives), corpus, np.arange(len(queries)), origin)
    ids = tuple(f"t{n}" for n in range(len(test_queries)))
    test = Judged(ids, tuple(test_queries), tuple(relevance), corpus, np.arange(len(test_queries)))
    return RetrievalData("toy", "pairs", train, None, test, skewed=False)


def test_clean_data_report_nothing():
    report = check_data(toy())
    assert report.ok
    assert report.warnings == ()
    assert "nothing to report" in str(report)
    assert report.rows == {"train pairs": 3, "test queries": 1, "candidates": 4}
    assert HygieneReport.from_json(report.to_json()) == report
    report.require_ok()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "is None"),
        (float("nan"), "is NaN"),
        ("", "is empty"),
        ("\u3000", "is empty"),
        ("\udc00", "holds a lone surrogate"),
        (3, "is int"),
    ],
)
def test_unusable_texts_are_refused_with_file_row_and_column(value, words):
    report = check_data(toy(queries=("q0", value, "q2")))
    assert len(report.refusals) == 1
    assert f"pairs.jsonl, row 20, column query: {words}" in report.refusals[0]
    in_corpus = check_data(toy(texts=("x", "y", value, "w")))
    assert f"train candidates, row 3, column text: {words}" in in_corpus.refusals[0]
    with pytest.raises(InputError, match=r"toy: unusable texts: pairs\.jsonl, row 20"):
        report.require_ok()


def test_positive_among_its_own_negatives_is_refused_by_row_or_text():
    by_row = check_data(toy(negatives=((), (3, 1), ())))
    assert "explicit negative of its query: pairs.jsonl, row 20, column positive" in by_row.refusals[0]
    by_text = check_data(toy(texts=("x", "same", "z", "same"), negatives=((), (3,), ())))
    assert by_text.counts["positive is also a negative"] == 1
    assert check_data(toy(negatives=((), (0,), ()))).ok


def test_leaked_pairs_are_refused_up_to_case_and_space():
    report = check_data(toy(texts=("x", "The Answer", "z", " the  ANSWER"), test_queries=("Q1 ",), relevance=({3: 1.0},)))
    assert report.refusals == (
        "judged pairs that are also training pairs (up to case and whitespace): "
        "test, row 1, column query is pairs.jsonl, row 20, column query",
    )
    assert report.counts["leaked pairs"] == 1
    shared = check_data(toy(test_queries=("q1",), relevance=({3: 1.0},)))
    assert shared.ok
    assert shared.counts["shared queries"] == 1
    assert "1 of test" in shared.warnings[0]


def test_duplicates_are_counted_not_refused():
    report = check_data(toy(queries=("q", "q", "r"), positives=(0, 0, 0)))
    assert report.ok
    assert (report.counts["duplicate pairs"], report.counts["repeated positives"]) == (1, 2)
    same = check_data(toy(queries=("x", "q1", "q2")))
    assert same.counts["query equals positive"] == 1
    assert "first at pairs.jsonl, row 10, column query" in same.warnings[0]


def test_truncated_share_counts_tokens():
    report = check_data(
        toy(queries=("one two three", "one", "two words")),
        token_counter=lambda texts: np.array([len(t.split()) for t in texts]),
        max_tokens=2,
    )
    assert report.truncated == {"training queries": pytest.approx(1 / 3), "candidates": 0.0}
    assert "33.3% of training queries" in str(report)
    with pytest.raises(InputError, match="token_counter and max_tokens together"):
        check_data(toy(), max_tokens=3)


def test_no_answer_queries_are_reported():
    report = check_data(toy(test_queries=("t0", "t1"), relevance=({3: 1.0}, {})))
    assert report.ok
    assert "1 dev and test queries have no relevant candidate" in report.warnings[0]


def judged(relevance, *, file=None, queries=("t0", "t1")):
    ids = tuple(f"t{n}" for n in range(len(relevance)))
    return Judged(ids, queries[: len(relevance)], relevance, toy().test.corpus, np.arange(len(relevance)), file=file)


@pytest.mark.parametrize(("relevance", "words"), [((), "no query"), (({}, {}), "2 queries")])
@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_split_without_a_judged_pair_is_refused_and_its_file_named(relevance, words, split):
    report = check_data(replace(toy(), **{split: judged(relevance, file=f"be/qrels/{split}.tsv")}))
    assert report.refusals == (f"no query has a relevant candidate, so no metric is defined: {split} (be/qrels/{split}.tsv): {words}",)
    with pytest.raises(InputError, match="no metric is defined"):
        report.require_ok()


def test_a_split_without_a_judged_pair_is_a_warning_where_the_other_can_be_evaluated():
    alone = replace(toy(), train=None, dev=judged(({},), file="qrels/dev.tsv"))
    report = check_data(alone)
    assert report.ok
    assert report.warnings[0] == "nothing can be measured on dev (qrels/dev.tsv): 1 queries"
    assert not check_data(replace(alone, test=judged((), file="qrels/test.tsv"))).ok
    assert not check_data(replace(alone, dev=None, test=judged(()))).ok


def test_answers_shared_by_dev_and_test_are_reported():
    name = "queries with a judged pair of dev and test"
    dev = judged(({3: 1.0},), queries=(" T0",))
    report = check_data(replace(toy(), dev=dev))
    assert report.ok
    assert report.counts[name] == 1
    assert "1 test queries stand in dev with the same answer (up to case and whitespace), first at test, row 1" in report.warnings[0]
    assert check_data(replace(toy(), dev=judged(({2: 1.0},)))).counts[name] == 0
    assert check_data(replace(toy(), train=None, dev=dev)).counts[name] == 1


def test_dropping_leaves_what_the_check_accepts():
    data = toy(negatives=((0,), (), ()), test_queries=("q1",), relevance=({1: 1.0},))
    assert len(check_data(data).refusals) == 2
    kept = drop_bad_pairs(data)
    assert kept.train.queries == ("q2",)
    assert kept.dropped == {"positive is also a negative": 1, "training pair is also a judged pair": 1}
    report = check_data(kept)
    assert report.ok
    assert report.dropped == kept.dropped
    clean = toy()
    assert drop_bad_pairs(clean) is clean


def test_dropping_through_the_front_door(tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("query,positive,negative\n" + "".join(f"q{n},p{n},n{n}\n" for n in range(20)) + "bad,same,same\n,empty,n\nT,tp,n\n")
    test.write_text("query,positive\nt,TP\nu,up\n")
    config = DataConfig(name=str(train), test=str(test), on_bad_rows="drop")
    data = load_data(config, seed=0)
    assert data.dropped == {
        "query is empty or whitespace": 1,
        "positive is also a negative": 1,
        "training pair is also a judged pair": 1,
    }
    assert check_data(data).ok
    with pytest.raises(InputError, match=r"train\.csv: row 22, column positive: is also a negative; row 23, column query: is empty"):
        load_data(config.model_copy(update={"on_bad_rows": "refuse"}), seed=0)
