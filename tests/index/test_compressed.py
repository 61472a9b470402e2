"""Directions in fewer bytes: what they keep, what they cost, and that norms never pay for it."""

import re

import numpy as np
import pytest
from contract import all_scores, mixed, names

from normwise.core.errors import InputError
from normwise.core.index_config import IndexConfig
from normwise.core.similarity import Similarity
from normwise.index.build import build_index
from normwise.index.codecs import DimensionScaled, Product, Signs, VectorScaled, load_codec
from normwise.theory.directions import normalize


def built(folder, vectors, **settings):
    config = IndexConfig(**({"similarity": "dot"} | settings))
    return build_index(config, folder, ids=names(len(vectors)), vectors=vectors, queries=mixed(50, vectors.shape[1], seed=99))


def directions(count, width, *, seed):
    return normalize(mixed(count, width, seed=seed))


@pytest.mark.parametrize("codec", [VectorScaled(), DimensionScaled.fit(directions(200, 10, seed=1))])
def test_a_byte_is_off_by_half_a_step(codec):
    x = directions(200, 10, seed=1)
    steps = codec.scales if isinstance(codec, DimensionScaled) else np.abs(x).max(axis=1, keepdims=True) / 127
    assert (np.abs(codec.decode(codec.encode(x)) - x) <= 0.5001 * steps).all()


def test_a_byte_beyond_the_range_that_was_seen_is_cut_off():
    codec = DimensionScaled.fit(np.array([[0.5, 0.1], [-0.2, 0.0]], dtype=np.float32))
    assert np.allclose(codec.decode(codec.encode(np.array([[0.9, -0.9]], dtype=np.float32))), [[0.5, -0.1]])


def test_signs_are_the_sides_of_the_mean():
    x = directions(500, 9, seed=2) + np.float32(0.3)
    codec = Signs.fit(x)
    codes = codec.encode(x)
    assert codes.shape == (500, 2)
    sides = np.where(x >= x.mean(axis=0), 1.0, -1.0)
    wanted = x.mean(axis=0) + np.abs(x - x.mean(axis=0)).mean(axis=0) * sides
    assert np.allclose(codec.decode(codes), wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-5)


def test_parts_are_the_nearest_centers():
    x = directions(600, 10, seed=3)
    codec = Product.fit(x, seed=0)
    codes = codec.encode(x)
    assert codes.shape == (600, 3)
    import faiss

    centers = faiss.vector_to_array(codec.quantizer.centroids).reshape(3, 256, 4)
    padded = np.pad(x, ((0, 0), (0, 2))).reshape(600, 3, 4)
    nearest = np.stack([((padded[:, part, None] - centers[part]) ** 2).sum(axis=2).argmin(axis=1) for part in range(3)], axis=1)
    assert (codes == nearest).mean() > 0.999
    assert np.array_equal(codes, Product.fit(x, seed=0).encode(x))


@pytest.mark.parametrize(
    ("storage", "make"), [("int8", DimensionScaled.fit), ("pq", lambda x: Product.fit(x, seed=0)), ("binary", Signs.fit)]
)
@pytest.mark.parametrize("count", [1, 2, 3, 40, 300])
def test_a_codec_comes_back_from_its_folder(tmp_path, storage, make, count):
    x = directions(count, 7, seed=4)
    codec = make(x)
    codes = codec.encode(x)
    codec.save(tmp_path)
    again = load_codec(storage, tmp_path, width=7)
    assert np.array_equal(again.encode(x), codes)
    assert np.array_equal(again.decode(codes), codec.decode(codes))


def test_each_step_costs_recall_and_saves_bytes(tmp_path):
    vectors = mixed(2000, 32, seed=5)
    rows = {}
    for storage in ("float32", "int8", "pq", "binary"):
        manifest = built(tmp_path / storage, vectors, storage=storage).manifest
        rows[storage] = (manifest.recall, int(re.search(r"(\d+) bytes a vector", manifest.words)[1]) if storage != "float32" else 4 * 32)
    recalls, sizes = zip(*rows.values(), strict=True)
    assert recalls[0] == 1.0
    assert recalls[1] > 0.95
    assert list(recalls) == sorted(recalls, reverse=True)
    assert sizes[1] in (32 + 4, 32 + 4 + 4)
    assert (sizes[0], *sizes[2:]) == (128, 8 + 4, 4 + 4)
    assert recalls[3] > 0.1


@pytest.mark.parametrize("storage", ["int8", "pq", "binary"])
def test_norms_come_through_untouched_and_scale_scores(tmp_path, storage):
    vectors = mixed(300, 16, seed=6, spread=1.5)
    queries = mixed(5, 16, seed=7)
    once = built(tmp_path / "a", vectors, storage=storage)
    found = once.search(queries, k=300)
    norms = dict(zip(names(300), np.linalg.norm(vectors.astype(np.float64), axis=1).astype(np.float32), strict=True))
    assert (found.norms == np.vectorize(norms.get)(found.ids)).all()
    # The same directions under cosine: a score is the norm times that of the decoded direction, in every place.
    flat = build_index(
        IndexConfig(similarity="query_normalized", storage=storage), tmp_path / "b", ids=names(300), vectors=normalize(vectors)
    ).search(queries, k=300)
    for row in range(5):
        cosines = dict(zip(flat.ids[row], flat.scores[row], strict=True))
        wanted = [cosines[name] * norms[name] * np.linalg.norm(queries[row].astype(np.float64)) for name in found.ids[row]]
        assert np.allclose(found.scores[row], wanted, rtol=2e-4, atol=1e-6)


def test_half_norms_have_three_digits_and_their_range_is_checked(tmp_path):
    vectors = mixed(50, 8, seed=8)
    index = built(tmp_path / "half", vectors, storage="int8", norm_storage="float16")
    found = index.search(vectors[:3], k=50)
    exact = dict(zip(names(50), np.linalg.norm(vectors.astype(np.float64), axis=1), strict=True))
    wanted = np.vectorize(exact.get)(found.ids)
    assert np.allclose(found.norms, wanted, rtol=2.0**-11, atol=0)
    assert (found.norms == wanted.astype(np.float16)).all()
    for factor, norm in ((1e5, "100000"), (1e-6, "1e-06")):
        far = vectors.copy()
        far[7] *= np.float32(factor / np.linalg.norm(far[7]))
        with pytest.raises(
            InputError, match=rf"vectors: row 7 has norm {norm}; norm_storage float16 holds 0 and 6.1e-05..65504: use float32"
        ):
            built(tmp_path / "far", far, norm_storage="float16")
        assert not (tmp_path / "far").exists()
        with pytest.raises(InputError, match=r"vectors: row 0 has norm"):
            index.add(["far"], far[7:8])
        assert len(index) == 50


def test_the_scale_of_a_byte_is_chosen_by_what_it_measures(tmp_path):
    rng = np.random.default_rng(9)
    wide = rng.normal(size=(500, 16)) * np.geomspace(1.0, 1e-3, 16)
    wide[:, 0] = 5.0
    spiky = rng.standard_t(1.1, size=(500, 16))
    for vectors, kept in ((wide, "dimension"), (spiky, "vector")):
        manifest = built(tmp_path / kept, vectors.astype(np.float32), similarity="cosine", storage="int8").manifest
        by = {row.graph.rsplit(" ", 1)[1]: row.recall for row in manifest.tried}
        assert set(by) == {"dimension", "vector"}
        assert manifest.recall == max(by.values())
        other = "vector" if kept == "dimension" else "dimension"
        if by[kept] != by[other]:
            assert f"for each {max(by, key=by.get)}" in manifest.words


def test_scores_of_bytes_are_near_the_true_ones(tmp_path):
    vectors, queries = mixed(400, 64, seed=10), mixed(6, 64, seed=11)
    found = built(tmp_path / "i", vectors, storage="int8").search(queries, k=10)
    scores = all_scores(queries, vectors, Similarity.DOT)
    pairs = [[scores[row, int(name[1:])] for name in found.ids[row]] for row in range(6)]
    assert np.allclose(found.scores, pairs, rtol=0.02)
