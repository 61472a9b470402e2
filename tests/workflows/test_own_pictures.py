"""A query's own picture is no candidate of that query: found by its bytes, ranked as if it were not there, said in a note."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.contents import Interleaved
from normwise.data.load import load_data, load_to_judge
from normwise.data.own_pictures import KEPT, LEFT_OUT, own_rows
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged, RetrievalData
from normwise.data.splits import cut
from normwise.workflows.evaluate import evaluate
from normwise.workflows.ranked import last, rank, rank_judged

SHOWN = [Picture.of_bytes(bytes([number]), name=f"{number}.png") for number in range(8)]
DOT = "dot"


def judged(queries, contents, relevance, **more):
    names = tuple(map(str, range(len(queries))))
    corpus = Corpus(tuple(f"c{row}" for row in range(len(contents))), tuple(contents), pools=more.pop("pools", {}))
    return Judged(names, tuple(queries), tuple(relevance), corpus, np.arange(len(queries)), **more)


def test_own_rows_are_those_of_the_definition():
    copy = Picture.of_bytes(bytes([1]), name="other name.png")
    dark = Picture.of_bytes(bytes([1]), name="1.png", background=(0, 0, 0))
    candidates = [SHOWN[0], SHOWN[1], "1.png", Interleaved((SHOWN[1], "a text beside")), dark, SHOWN[2]]
    queries = [
        Interleaved((copy, "in red")),  # by bytes, not by name; on whatever background
        SHOWN[1],  # a picture alone too
        Interleaved((SHOWN[2], "and", SHOWN[0])),  # several pictures
        "1.png",
        Interleaved((SHOWN[1], "judged")),
        Interleaved((SHOWN[7], "of no candidate")),
    ]
    relevance = [{5: 1.0}, {5: 1.0}, {1: 1.0}, {1: 1.0}, {1: 2.0}, {0: 1.0}]
    assert own_rows(queries, candidates, relevance) == [(1, 4), (1, 4), (0, 5), (), (4,), ()]


def test_a_text_finds_no_own_candidate_even_where_it_is_one():
    assert own_rows(["a", "b"], ["a", "b", SHOWN[0]], [{1: 1.0}, {0: 1.0}]) == [(), ()]


def dcg(gains):
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:10]))


@given(st.integers(0, 10_000), st.integers(1, 130), st.integers(0, 3))
def test_the_figures_are_those_of_a_search_without_the_own_pictures(seed, count, most):
    rng = np.random.default_rng(seed)
    queries, candidates = rng.normal(size=(3, 4)), rng.normal(size=(count, 4))
    relevance = [{int(rng.integers(count)): float(rng.integers(1, 4))} for _ in range(3)]
    out = [
        [int(row) for row in rng.permutation(count)[: rng.integers(0, most + 1)] if int(row) not in relevance[query]] for query in range(3)
    ]
    found = rank(queries, candidates, relevance, not_ranked=out)
    for query in range(3):
        rows = [row for row in range(count) if row not in out[query]]
        order = sorted(rows, key=lambda row: (-np.float32(queries[query] @ candidates[row] / np.linalg.norm(queries[query])), row))
        ((right, gain),) = relevance[query].items()
        place = order.index(right)
        assert found.first_places[DOT][query] == order[0]
        assert found.metrics[DOT]["p@1"][query] == float(place == 0)
        assert found.metrics[DOT]["mrr@10"][query] == (1 / (place + 1) if place < 10 else 0.0)
        assert found.metrics[DOT]["recall@100"][query] == float(place < 100)
        wanted = dcg([gain if row == right else 0.0 for row in order]) / dcg([gain])
        assert found.metrics[DOT]["ndcg@10"][query] == pytest.approx(wanted)


def test_what_is_put_last_leaves_the_order_of_the_others():
    indices = np.array([[3, 0, 2, 1], [3, 0, 2, 1], [1, 2, 3, 0]])
    assert last(indices, [(0, 3), (), (9,)]).tolist() == [[2, 1, 3, 0], [3, 0, 2, 1], [1, 2, 3, 0]]


def test_the_hundred_first_places_are_those_of_other_candidates():
    candidates = np.stack([np.cos(np.arange(120) / 100), np.sin(np.arange(120) / 100)], axis=1)  # in the order of their rows
    found = rank(np.array([[1.0, 0.0]]), candidates, [{101: 1.0}], not_ranked=[(0, 1)])
    assert found.metrics["cosine"]["recall@100"].tolist() == [1.0]
    assert rank(np.array([[1.0, 0.0]]), candidates, [{101: 1.0}]).metrics["cosine"]["recall@100"].tolist() == [0.0]


def test_without_own_pictures_nothing_changes():
    rng = np.random.default_rng(0)
    queries, candidates = rng.normal(size=(5, 4)), rng.normal(size=(120, 4))
    relevance = [{row: 1.0} for row in range(5)]
    plain, out = rank(queries, candidates, relevance), rank(queries, candidates, relevance, not_ranked=[()] * 5)
    for ranking, table in plain.metrics.items():
        for metric, values in table.items():
            np.testing.assert_array_equal(values, out.metrics[ranking][metric])


def composed(**more):
    """Each query is nearest to its own picture, and then to the right one."""
    queries = [Interleaved((SHOWN[row], "in red")) for row in range(4)]
    return judged(queries, SHOWN, [{row + 4: 1.0} for row in range(4)], **more)


def vectors():
    candidates = np.eye(8)
    queries = np.eye(8)[:4] + 0.5 * np.eye(8)[4:]
    return queries, candidates


def test_the_own_picture_is_left_out_by_default_and_ranked_on_demand():
    left_out, kept = rank_judged(*vectors(), composed()), rank_judged(*vectors(), composed(own_pictures="keep"))
    assert left_out.metrics["cosine"]["p@1"].tolist() == [1.0] * 4
    assert kept.metrics["cosine"]["p@1"].tolist() == [0.0] * 4
    assert kept.metrics["cosine"]["mrr@10"].tolist() == [0.5] * 4
    assert left_out.first_places["dot"].tolist() == [4, 5, 6, 7]


def test_an_own_picture_that_is_judged_relevant_is_ranked():
    asked = judged([SHOWN[0]], SHOWN, [{0: 1.0}])
    assert rank_judged(np.eye(8)[:1], np.eye(8), asked).metrics["dot"]["p@1"].tolist() == [1.0]


def test_the_own_picture_is_left_out_of_the_pool_of_its_task():
    pools = {"a": tuple(range(8)), "b": (1, 3, 4, 5, 6, 7)}
    asked = composed(tasks=("a", "b", "b", "a"), pools=pools)
    assert rank_judged(*vectors(), asked).metrics["dot"]["p@1"].tolist() == [1.0] * 4
    kept = rank_judged(*vectors(), composed(tasks=("a", "b", "b", "a"), pools=pools, own_pictures="keep"))
    assert kept.metrics["dot"]["p@1"].tolist() == [0.0, 0.0, 1.0, 0.0]  # the pool of b lacks the picture of query 2


def test_a_part_of_the_queries_keeps_what_is_said_of_them():
    assert composed(own_pictures="keep").subset(np.array([2])).own_pictures == "keep"
    assert composed().subset(np.array([2, 0])).not_ranked() == [(2,), (0,)]


def test_the_note_is_said_once_and_only_where_it_applies():
    settings = DataConfig(name="x")
    for part, note in ((composed(), LEFT_OUT), (composed(own_pictures="keep"), KEPT)):
        data = RetrievalData("x", "x", None, None, part, skewed=False)
        once = cut(data, settings, seed=0)
        assert once.notes == cut(once, settings, seed=0).notes == (note,)
    plain = judged(["a"], SHOWN, [{0: 1.0}])
    assert cut(RetrievalData("x", "x", None, plain, plain, skewed=False), settings, seed=0).notes == ()


def png(color):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), color).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture
def pairs(tmp_path):
    """Rows of two pictures; the first of each is a candidate too, as an explicit negative of another row."""
    for number in range(12):
        (tmp_path / f"{number}.png").write_bytes(png((number * 20, 9, 9)))
    rows = [
        {"query": "the next one", "query_image": f"{n}.png", "positive_image": f"{n + 1}.png", "negative_image": f"{n}.png"}
        for n in range(0, 12, 2)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Colors:
    """An encoder of a picture's red value on a circle: each query is nearest to its own picture."""

    name = "colors"

    def _vectors(self, contents, shift):
        pictures = [content if isinstance(content, Picture) else content.pictures[0] for content in contents]
        angles = np.array([picture.open().getpixel((0, 0))[0] for picture in pictures]) / 255.0 + shift
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def encode_queries(self, contents, *, batch_size, progress):
        return self._vectors(contents, 0.02)

    def encode_candidates(self, contents, *, batch_size, progress):
        return self._vectors(contents, 0.0)


def test_evaluation_of_a_users_set_leaves_them_out_and_says_so(pairs):
    found = evaluate(Colors(), pairs)
    assert found.similarities["cosine"]["p@1"].mean == 1.0
    assert LEFT_OUT in found.notes
    config = pairs.with_name("run.toml")
    config.write_text(f'[data]\nname = "{pairs}"\nown_pictures = "keep"\n')
    kept = evaluate(Colors(), config)
    assert kept.similarities["cosine"]["p@1"].mean == 0.0
    assert KEPT in kept.notes
    assert LEFT_OUT not in kept.notes


def test_the_setting_reaches_every_split(pairs):
    config = DataConfig(name=str(pairs), own_pictures="keep")
    assert load_to_judge(config, seed=0)[0].test.own_pictures == "keep"
    data = load_data(config, seed=0)
    assert (data.dev.own_pictures, data.test.own_pictures) == ("keep", "keep")
    assert load_data(DataConfig(name=str(pairs)), seed=0).test.own_pictures == "exclude"


def test_a_run_from_before_the_setting_has_the_same_settings():
    assert "own_pictures" not in DataConfig(name="x").model_dump(mode="json")
    with pytest.raises(InputError, match="own_pictures: expected 'exclude' or 'keep' .got 'drop'"):
        DataConfig.read({"name": "x", "own_pictures": "drop"}, source="run.toml")
