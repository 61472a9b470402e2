"""Qdrant's local mode against the contract, and what a server adds to it."""

from contextlib import closing

import numpy as np
import pytest
from contract import IndexContract, all_scores, mixed, names

from normwise.core.errors import InputError, WorkError
from normwise.core.index_config import IndexConfig
from normwise.core.similarity import Similarity
from normwise.index.build import build_index
from normwise.index.opening import open_index


def build_local(folder, similarity, ids, vectors, *, method="exact", overwrite=False, **contents):
    config = IndexConfig(similarity=similarity, engine="qdrant", method=method)
    return build_index(config, folder, ids=ids, vectors=vectors, overwrite=overwrite, **contents)


class TestLocal(IndexContract):
    @pytest.fixture
    def build(self, tmp_path):
        self._made = []

        def build(similarity, ids, vectors, **contents):
            self._made.append(build_local(tmp_path / f"index{len(self._made)}", similarity, ids, vectors, **contents))
            return self._made[-1]

        yield build
        for index in self._made:
            index.close()

    def reopen(self, index):
        folder = index._folder
        index.close()
        self._made.append(open_index(folder))
        return self._made[-1]


def test_local_mode_never_pretends_to_have_a_graph(tmp_path):
    index = build_local(tmp_path / "index", "dot", names(30), mixed(30, 4, seed=1), method="hnsw")
    assert index.manifest.method == "exact"
    assert index.manifest.search_kind == "exact"
    assert "Qdrant's local mode has no graph: hnsw was asked for, and the index is exact" in index.manifest.words
    assert index.manifest.location is None
    index.close()


def test_raw_vectors_come_back_from_a_dot_collection_and_norms_from_every_one(tmp_path):
    vectors = 7 * mixed(20, 4, seed=2)
    for similarity in ("dot", "cosine"):
        index = build_local(tmp_path / similarity, similarity, names(20), vectors)
        points, _ = index._server._client.scroll(index._collection, limit=100, with_vectors=True)
        stored = np.array([point.vector for point in sorted(points, key=lambda point: point.payload["position"])], dtype=np.float32)
        wanted = vectors if similarity == "dot" else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert np.allclose(stored, wanted, rtol=1e-6)
        found = index.search(vectors[:3], k=1)
        assert found.ids[:, 0].tolist() == ["d0", "d1", "d2"] or similarity == "dot"
        assert np.allclose(found.norms[:, 0], [np.linalg.norm(vectors[int(name[1:])].astype(np.float64)) for name in found.ids[:, 0]])
        index.close()


def test_changes_are_in_the_folder_after_save(tmp_path):
    vectors = mixed(20, 4, seed=3)
    index = build_local(
        tmp_path / "index", "cosine", names(20), vectors, texts=[f"t{n}" for n in range(20)], metadata=[{"a": n} for n in range(20)]
    )
    index.delete(["d3", "d9"])
    index.add(["new"], vectors[:1], texts=["fresh"], metadata=[{"b": 0.5}])
    index.save()
    before, manifest = index.search(vectors, k=19), index.manifest
    index.close()
    again = open_index(tmp_path / "index")
    after = again.search(vectors, k=19)
    assert again.manifest == manifest
    assert np.array_equal(before.ids, after.ids)
    assert np.array_equal(before.scores, after.scores)
    assert again.search(vectors[:1], k=3, where={"b": 0.5}).ids[0, 0] == "new"
    assert again.search(vectors[:1], k=3, where={"a": 5}).counts.tolist() == [1]
    again.close()


@pytest.mark.parametrize("name", ["points.json", "vectors.npy", "collection.json"])
def test_a_changed_byte_or_a_file_cut_in_half_is_detected(tmp_path, name):
    build_local(tmp_path / "index", "dot", names(20), mixed(20, 4, seed=4)).close()
    path = tmp_path / "index" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=f"{name} is cut short or was changed"):
        open_index(tmp_path / "index")
    path.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
    with pytest.raises(InputError, match=f"{name} is cut short or was changed"):
        open_index(tmp_path / "index")


def test_an_address_for_local_mode_is_refused(tmp_path):
    build_local(tmp_path / "index", "dot", names(3), mixed(3, 4, seed=5)).close()
    with pytest.raises(InputError, match="is held by Qdrant's local mode in that folder: leave url out"):
        open_index(tmp_path / "index", url="http://127.0.0.1:6333")


def test_metadata_keys_of_any_spelling_are_filtered_by(tmp_path):
    keys = ["a.b", 'k"[]', "normwise", "id", "it's %s", "position"]
    rows = [{key: n % (place + 2) for place, key in enumerate(keys)} for n in range(30)]
    vectors = mixed(30, 4, seed=6)
    index = build_local(tmp_path / "index", "dot", names(30), vectors, metadata=rows)
    for place, key in enumerate(keys):
        wanted = {f"d{n}" for n in range(30) if n % (place + 2) == 1}
        assert set(index.search(vectors[:1], k=30, where={key: 1}).ids[0]) - {None} == wanted
    index.close()


def test_many_ties_at_the_end_are_settled_in_the_order_of_addition(tmp_path):
    vectors = mixed(120, 4, seed=7, spread=0.0)
    vectors[20:100] = vectors[5]
    index = build_local(tmp_path / "index", "dot", names(120), vectors)
    found = index.search(vectors[5:6], k=30)
    assert found.ids[0].tolist() == [f"d{n}" for n in [5, *range(20, 49)]]
    assert np.allclose(found.scores, np.sort(all_scores(vectors[5:6], vectors, Similarity.DOT))[:, ::-1][:, :30], rtol=1e-6)
    index.close()


def test_ties_that_float32_does_not_see_come_in_the_order_of_addition(tmp_path):
    rng = np.random.default_rng(16)
    vectors = np.array([rng.permutation(mixed(1, 64, seed=17)[0]) for _ in range(80)])
    index = build_local(tmp_path / "index", "dot", names(80), vectors)
    found = index.search(np.ones((1, 64)), k=10)
    assert found.ids[0].tolist() == names(10)
    assert len(set(found.scores[0])) == 1
    index.close()


def test_of_two_who_change_an_index_the_second_is_told_and_loses_nothing_of_the_first(tmp_path):
    vectors = mixed(20, 4, seed=18)
    build_local(tmp_path / "index", "dot", names(20), vectors).close()
    (tmp_path / "index" / "calibration.json").write_text("{}")
    with closing(open_index(tmp_path / "index")) as first, closing(open_index(tmp_path / "index")) as second:
        first.add(["a"], vectors[:1])
        second.add(["b"], vectors[:1])
        first.save()
        with pytest.raises(WorkError, match=r"index was changed by somebody else since it was opened: nothing was saved; make the change"):
            second.save()
        first.delete(["d0"])
        first.save()
    with closing(open_index(tmp_path / "index")) as now:
        assert set(now.search(vectors[:1], k=30).ids[0]) == {*names(20)[1:], "a"}
    assert (tmp_path / "index" / "calibration.json").read_text() == "{}"
