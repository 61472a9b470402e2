"""What every index must do, whichever engine and method: a class of tests to inherit and to give a `build` fixture."""

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.index.contents import check_contents, texts_hash
from normwise.index.row_hashes import vectors_hash

SIMILARITIES = tuple(Similarity)


def names(count, *, first=0):
    return [f"d{number}" for number in range(first, first + count)]


def mixed(count, width, *, seed, spread=0.5):
    """Vectors whose log norms have a standard deviation of `spread`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width))
    x *= np.exp(spread * rng.normal(size=(count, 1))) / np.linalg.norm(x, axis=1, keepdims=True)
    return x.astype(np.float32)


def all_scores(queries, vectors, similarity):
    """The slow loop of the definition, in float64."""
    scores = np.zeros((len(queries), len(vectors)))
    for row, query in enumerate(queries.astype(np.float64)):
        for column, vector in enumerate(vectors.astype(np.float64)):
            q, c = np.linalg.norm(query), np.linalg.norm(vector)
            if q > 0 and c > 0:
                by = (q if similarity.normalizes_query else 1.0) * (c if similarity.normalizes_candidate else 1.0)
                scores[row, column] = query @ vector / by
    return scores


class IndexContract:
    """Tests for any index. A subclass gives the fixture `build` and says what its kind promises.

    `build(similarity, ids, vectors, **contents)` returns an index; `reopen(index)` closes it and opens what was saved.
    """

    exact = True
    precision = 1e-5
    norm_precision = 1e-6
    metadata = True

    @pytest.fixture
    def build(self):
        raise NotImplementedError

    def reopen(self, index):
        raise NotImplementedError

    def check(self, found, queries, ids, vectors, similarity, *, k):
        """Every hit has the score of its own pair; scores descend; in exact kinds the hits are the best ones."""
        scores = all_scores(queries, vectors, similarity)
        largest = 1.0 if similarity.normalizes_candidate else np.linalg.norm(vectors.astype(np.float64), axis=1).max()
        lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
        scale = largest * np.maximum(np.ones_like(lengths) if similarity.normalizes_query else lengths, 1e-30)
        width = min(k, len(ids))
        assert found.ids.shape == found.scores.shape == found.norms.shape == (len(queries), width)
        assert found.ids.dtype == object
        assert found.scores.dtype == found.norms.dtype == np.float64
        assert (found.counts == width).all()
        place = {name: row for row, name in enumerate(ids)}
        for row in range(len(queries)):
            columns = [place[name] for name in found.ids[row]]
            assert len(set(columns)) == width
            assert np.allclose(found.scores[row], scores[row, columns], rtol=0, atol=self.precision * scale[row])
            assert (np.diff(found.scores[row]) <= 0).all()
            norms = np.linalg.norm(vectors[columns].astype(np.float64), axis=1)
            assert np.allclose(found.norms[row], norms, rtol=self.norm_precision, atol=0)
            if self.exact:
                best = np.sort(scores[row])[::-1][:width]
                assert np.allclose(scores[row, columns], best, rtol=0, atol=2 * self.precision * scale[row])

    @pytest.mark.parametrize("similarity", SIMILARITIES)
    def test_hits_have_the_scores_of_the_definition(self, build, similarity):
        vectors, queries = mixed(300, 16, seed=1), mixed(20, 16, seed=2)
        index = build(similarity, names(300), vectors)
        found = index.search(queries, k=10)
        self.check(found, queries, names(300), vectors, similarity, k=10)
        if not self.exact:
            tenth = np.sort(all_scores(queries, vectors, similarity), axis=1)[:, -10]
            assert (found.scores >= tenth[:, None] * (1 - 1e-5)).mean() >= 0.9

    @pytest.mark.parametrize("similarity", SIMILARITIES)
    def test_all_negative_scores(self, build, similarity):
        vectors = np.abs(mixed(40, 8, seed=3))
        queries = -np.abs(mixed(5, 8, seed=4))
        found = build(similarity, names(40), vectors).search(queries, k=7)
        assert (found.scores < 0).all()
        self.check(found, queries, names(40), vectors, similarity, k=7)

    def test_scores_of_four_hundred(self, build):
        vectors, queries = 20 * mixed(50, 8, seed=5, spread=0.1), 20 * mixed(5, 8, seed=6, spread=0.1)
        vectors[0] = queries[0]
        found = build(Similarity.DOT, names(50), vectors).search(queries, k=3)
        assert found.scores[0, 0] > 200
        self.check(found, queries, names(50), vectors, Similarity.DOT, k=3)

    def test_a_query_norm_scales_scores_where_the_similarity_has_it(self, build):
        vectors, queries = mixed(60, 8, seed=7), mixed(4, 8, seed=8)
        for similarity in SIMILARITIES:
            index = build(similarity, names(60), vectors)
            once, thrice = index.search(queries, k=5), index.search(3 * queries, k=5)
            factor = 1.0 if similarity.normalizes_query else 3.0
            assert (once.ids == thrice.ids).all()
            assert np.allclose(thrice.scores, factor * once.scores, rtol=1e-5)
            index.close()

    @pytest.mark.parametrize("similarity", SIMILARITIES)
    def test_equal_scores_come_in_the_order_of_addition(self, build, similarity):
        vectors = mixed(30, 8, seed=9)
        vectors[[3, 11, 12, 20, 27]] = vectors[3]
        query = vectors[3:4]
        if not similarity.normalizes_candidate:
            vectors = vectors * np.float32(0.2)
            vectors[[3, 11, 12, 20, 27]] *= np.float32(10.0)
        index = build(similarity, names(30), vectors)
        for k in (1, 2, 3, 5, 8):
            found = index.search(query, k=k)
            ties = list(found.ids[0, : min(k, 5)])
            assert len(set(found.scores[0, : min(k, 5)])) == 1
            if self.exact:
                assert ties == ["d3", "d11", "d12", "d20", "d27"][:k]
            else:
                assert set(ties) <= {"d3", "d11", "d12", "d20", "d27"}

    def test_a_collapsed_corpus_answers_in_the_order_of_addition(self, build):
        vectors = np.tile(mixed(1, 8, seed=10), (50, 1))
        found = build(Similarity.DOT, names(50), vectors).search(mixed(2, 8, seed=11), k=6)
        assert (found.scores == found.scores[:, :1]).all()
        assert all(len(set(row)) == 6 for row in found.ids)
        if self.exact:
            assert (found.ids == np.array(names(6), dtype=object)).all()

    @pytest.mark.parametrize("similarity", SIMILARITIES)
    def test_zero_vectors_score_zero(self, build, similarity):
        vectors = mixed(20, 6, seed=12)
        vectors[[4, 9]] = 0.0
        queries = np.vstack([mixed(2, 6, seed=13), np.zeros((1, 6), dtype=np.float32)])
        found = build(similarity, names(20), vectors).search(queries, k=20)
        assert np.isfinite(found.scores).all()
        for row in range(3):
            hit = dict(zip(found.ids[row], zip(found.scores[row], found.norms[row], strict=True), strict=True))
            assert hit["d4"] == hit["d9"] == (0.0, 0.0)
        assert (found.scores[2] == 0.0).all()
        if self.exact:
            assert list(found.ids[2]) == names(20)

    def test_k_beyond_the_corpus_gives_the_corpus(self, build):
        vectors, queries = mixed(5, 4, seed=14), mixed(3, 4, seed=15)
        found = build(Similarity.DOT, names(5), vectors).search(queries, k=1000)
        self.check(found, queries, names(5), vectors, Similarity.DOT, k=1000)

    def test_a_corpus_of_one(self, build):
        vectors, queries = mixed(1, 4, seed=16), mixed(3, 4, seed=17)
        index = build(Similarity.COSINE, ["only"], vectors)
        assert len(index) == 1
        self.check(index.search(queries, k=10), queries, ["only"], vectors, Similarity.COSINE, k=10)

    @pytest.mark.parametrize("dtype", [np.float16, np.float64])
    def test_other_float_types(self, build, dtype):
        vectors, queries = mixed(40, 8, seed=18).astype(dtype), mixed(4, 8, seed=19).astype(dtype)
        index = build(Similarity.DOT, names(40), vectors)
        assert index.manifest.corpus_vectors == vectors_hash(names(40), vectors)
        self.check(index.search(queries, k=5), queries, names(40), vectors, Similarity.DOT, k=5)

    def test_no_query_at_all(self, build):
        found = build(Similarity.DOT, names(8), mixed(8, 4, seed=20)).search(np.empty((0, 4), dtype=np.float32), k=3)
        assert found.ids.shape == found.scores.shape == (0, 3)

    @pytest.mark.parametrize("similarity", [Similarity.DOT, Similarity.COSINE])
    def test_deleted_candidates_are_gone_and_come_back(self, build, similarity):
        vectors, queries = mixed(60, 8, seed=21), mixed(6, 8, seed=22)
        index = build(similarity, names(60), vectors)
        first = index.search(queries, k=5)
        away = sorted(set(first.ids[:, 0]))
        kept = [row for row, name in enumerate(names(60)) if name not in away]
        index.delete(away)
        assert len(index) == len(kept)
        self.check(index.search(queries, k=5), queries, [f"d{row}" for row in kept], vectors[kept], similarity, k=5)
        index.add(away, vectors[[int(name[1:]) for name in away]])
        again = index.search(queries, k=5)
        assert np.allclose(again.scores[:, 0], first.scores[:, 0], rtol=1e-6)
        # Codes of a few bits tie, and what comes back comes last.
        assert self.precision > 0.1 or (again.ids[:, 0] == first.ids[:, 0]).all()
        assert len(index) == 60

    def test_the_hash_of_the_corpus_follows(self, build):
        vectors, texts = mixed(12, 4, seed=23), [f"text {row}" for row in range(12)]
        index = build(Similarity.DOT, names(12), vectors, texts=texts)
        index.delete(["d2", "d7"])
        index.add(["new"], vectors[2:3] * 2, texts=["fresh"])
        kept = [row for row in range(12) if row not in (2, 7)]
        wanted = check_contents(
            [f"d{row}" for row in kept] + ["new"],
            np.vstack([vectors[kept], vectors[2:3] * 2]),
            texts=[texts[row] for row in kept] + ["fresh"],
        )
        assert index.manifest.corpus_vectors == vectors_hash(wanted.ids, wanted.vectors)
        assert index.manifest.corpus_texts == texts_hash(wanted)
        assert index.manifest.candidates == len(index) == 11
        assert index.texts(["new", "d3"]) == ["fresh", "text 3"]

    def test_everything_may_be_deleted(self, build):
        vectors = mixed(4, 4, seed=24)
        index = build(Similarity.DOT, names(4), vectors)
        index.delete(names(4))
        found = index.search(vectors[:2], k=3)
        assert len(index) == 0
        assert found.ids.shape == (2, 0)
        assert (found.counts == 0).all()
        index.add(["x"], vectors[:1])
        assert index.search(vectors[:1], k=3).ids.tolist() == [["x"]]

    def test_refused_changes_change_nothing(self, build):
        vectors = mixed(6, 4, seed=25)
        index = build(Similarity.DOT, names(6), vectors)
        before, hashed = index.search(vectors, k=6), index.manifest.corpus_vectors
        with pytest.raises(InputError, match=r"ids: row 1 is 'd3', which the index holds already: delete it first"):
            index.add(["fresh", "d3"], vectors[:2])
        with pytest.raises(InputError, match=r"ids: row 1 is 'gone', which the index does not hold: nothing was deleted"):
            index.delete(["d0", "gone"])
        with pytest.raises(InputError, match=r"ids: row 1 is 'd0', as row 0"):
            index.delete(["d0", "d0"])
        with pytest.raises(InputError, match=r"vectors: row 0, column 2 is nan"):
            index.add(["fresh"], np.array([[0, 1, np.nan, 0]], dtype=np.float32))
        with pytest.raises(InputError, match=r"vectors have 3 dimensions, and the index has 4"):
            index.add(["fresh"], np.ones((1, 3), dtype=np.float32))
        with pytest.raises(InputError, match=r"texts came, and the index was built without"):
            index.add(["fresh"], vectors[:1], texts=["t"])
        after = index.search(vectors, k=6)
        assert len(index) == 6
        assert index.manifest.corpus_vectors == hashed
        assert (before.ids == after.ids).all()
        assert np.array_equal(before.scores, after.scores)

    def test_filters_by_equality(self, build):
        if not self.metadata:
            pytest.skip("this engine has no metadata")
        vectors, queries = mixed(80, 8, seed=26), mixed(4, 8, seed=27)
        rows = [{"even": row % 2 == 0, "third": row % 3, "name": "it's; --" if row < 10 else "other", "half": row / 2} for row in range(80)]
        index = build(Similarity.DOT, names(80), vectors, metadata=rows)
        for where in ({"even": True}, {"third": 1, "even": False}, {"name": "it's; --"}, {"half": 3}, {"half": 3.5}, {}):
            kept = [row for row, table in enumerate(rows) if all(table[key] == value for key, value in where.items())]
            found = index.search(queries, k=5, where=where)
            count = min(5, len(kept))
            assert (found.counts == count).all()
            assert set(found.ids[:, :count].ravel()) <= {f"d{row}" for row in kept}
            best = np.sort(all_scores(queries, vectors[kept], Similarity.DOT), axis=1)[:, ::-1][:, :count]
            scale = np.linalg.norm(queries, axis=1, keepdims=True) * np.linalg.norm(vectors, axis=1).max()
            close = np.abs(found.scores[:, :count] - best) <= 2 * self.precision * scale
            # Lists whose recall is .99 may miss one of twenty.
            assert close.all() if self.exact else close.mean() >= 0.85
            assert (found.ids[:, count:] == None).all()  # noqa: E711
            assert (found.scores[:, count:] == -np.inf).all()
            assert (found.norms[:, count:] == 0.0).all()

    def test_filters_that_nothing_meets_or_nobody_knows(self, build):
        if not self.metadata:
            pytest.skip("this engine has no metadata")
        vectors = mixed(5, 4, seed=28)
        index = build(Similarity.DOT, names(5), vectors, metadata=[{"year": 2000 + row} for row in range(5)])
        found = index.search(vectors[:1], k=2, where={"year": 1})
        assert found.counts.tolist() == [0]
        assert found.ids.tolist() == [[None, None]]
        with pytest.raises(InputError, match=r"where: no candidate has a metadata key 'yaer': did you mean year"):
            index.search(vectors[:1], k=2, where={"yaer": 2000})
        with pytest.raises(InputError, match=r"where: year is '2000', a str; that key holds int values"):
            index.search(vectors[:1], k=2, where={"year": "2000"})

    def test_lengths_come_with_hits(self, build):
        vectors = mixed(10, 4, seed=29)
        index = build(Similarity.DOT, names(10), vectors, lengths=np.arange(10) + 3)
        found = index.search(vectors[:2], k=4)
        assert found.lengths.tolist() == [[int(name[1:]) + 3 for name in row] for row in found.ids]
        assert index.manifest.has_lengths
        assert not index.manifest.has_texts

    @pytest.mark.parametrize(
        ("queries", "k", "message"),
        [
            (np.ones((1, 3)), 1, r"queries have 3 dimensions, and the index has 4"),
            (np.ones(4), 1, r"queries have shape \(4,\); expected two dimensions"),
            (np.ones((1, 4), dtype=np.int64), 1, r"queries hold int64; expected float16, float32 or float64"),
            (np.array([[1, 1, np.inf, 1]]), 1, r"queries: row 0, column 2 is inf"),
            (np.ones((1, 4)), 0, r"k is 0; expected a whole number of at least 1"),
            (np.ones((1, 4)), 2.5, r"k is 2.5; expected a whole number"),
        ],
    )
    def test_bad_questions(self, build, queries, k, message):
        index = build(Similarity.DOT, names(3), mixed(3, 4, seed=30))
        with pytest.raises(InputError, match=message):
            index.search(queries, k=k)

    def test_what_is_saved_answers_bit_for_bit(self, build):
        vectors, queries = mixed(70, 8, seed=31), mixed(9, 8, seed=32)
        rows = [{"third": row % 3} for row in range(70)] if self.metadata else None
        texts = [f"Größe {row} \U0001f600" for row in range(70)]
        index = build(Similarity.DOT, names(70), vectors, texts=texts, lengths=np.arange(70), metadata=rows)
        before, manifest = index.search(queries, k=9), index.manifest
        index = self.reopen(index)
        after = index.search(queries, k=9)
        for name in ("ids", "scores", "norms", "counts", "lengths"):
            assert np.array_equal(getattr(before, name), getattr(after, name))
        assert index.manifest == manifest
        assert index.texts(["d69"]) == [texts[69]]
        if rows:
            assert index.search(queries, k=70, where={"third": 1}).counts.tolist() == [23] * 9

    def test_metadata_come_back_as_they_were_given(self, build):
        if not self.metadata:
            pytest.skip("this engine has no metadata")
        vectors = mixed(5, 4, seed=36)
        rows = [{"year": 2000, "whole": 3.0}, {}, {"name": "it's %s", "open": True}, {"whole": 1e300}, {"year": -(2**62)}]
        index = build(Similarity.DOT, names(5), vectors, metadata=rows)
        index.delete(["d1"])
        index.add(["new"], vectors[:1], metadata=[{"fresh": 0.1, "year": 7}])
        wanted = {"d0": rows[0], "d2": rows[2], "d3": rows[3], "d4": rows[4], "new": {"fresh": 0.1, "year": 7}}
        for saved in (False, True):
            if saved:
                index.save()
                index = self.reopen(index)
            found = [dict(row) for row in index.metadata(["new", "d4", "d0", "d3", "d2", "d0"])]
            assert found == [wanted[name] for name in ("new", "d4", "d0", "d3", "d2", "d0")]
            kinds = [{key: type(value) for key, value in row.items()} for row in found]
            assert kinds == [{key: type(value) for key, value in wanted[name].items()} for name in ("new", "d4", "d0", "d3", "d2", "d0")]
            assert index.metadata([]) == []
        with pytest.raises(InputError, match=r"ids: 'd1' is not in the index"):
            index.metadata(["d0", "d1"])

    def test_an_index_without_metadata_has_empty_ones(self, build):
        index = build(Similarity.DOT, names(3), mixed(3, 4, seed=37))
        assert [dict(row) for row in index.metadata(["d2", "d0"])] == [{}, {}]

    def test_a_change_that_was_saved_is_there_again(self, build):
        vectors = mixed(8, 4, seed=38)
        index = build(Similarity.DOT, names(8), vectors)
        index.delete(["d3"])
        index.add(["new"], vectors[:1] * 2)
        index.save()
        hashed = index.manifest.corpus_vectors
        index = self.reopen(index)
        assert index.manifest.corpus_vectors == hashed
        assert set(index.search(vectors[:1], k=9).ids[0]) == {*names(8), "new"} - {"d3"}

    def test_an_exact_index_has_neither_graph_nor_effort(self, build):
        manifest = build(Similarity.DOT, names(200), mixed(200, 8, seed=39)).manifest
        if manifest.method == "exact":
            assert manifest.graph == "none"
            assert dict(manifest.effort) == {}
            assert dict(manifest.tried[-1].effort) == {}
        else:
            assert manifest.graph != "none"
            assert manifest.effort

    def test_the_self_test_is_on_record(self, build):
        index = build(Similarity.DOT, names(200), mixed(200, 8, seed=33), queries=mixed(30, 8, seed=34))
        manifest = index.manifest
        assert manifest.recall_source == "queries"
        assert manifest.recall_queries == 30
        assert manifest.recall_k == 10
        assert manifest.tried
        assert manifest.words
        if self.exact and self.precision < 1e-4:
            assert manifest.recall == 1.0
        assert index.search(mixed(2, 8, seed=35), k=3).norms.min() > 0
