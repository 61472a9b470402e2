"""The embedded index against the contract, kind by kind."""

import pytest
from contract import IndexContract

from normwise.core.index_config import IndexConfig
from normwise.index.build import build_index
from normwise.index.opening import open_index


class Embedded(IndexContract):
    settings: dict = {}

    @pytest.fixture
    def build(self, tmp_path):
        made = []

        def build(similarity, ids, vectors, **contents):
            folder = tmp_path / f"index{len(made)}"
            made.append(build_index(IndexConfig(similarity=similarity, **self.settings), folder, ids=ids, vectors=vectors, **contents))
            return made[-1]

        yield build
        for index in made:
            index.close()

    def reopen(self, index):
        folder = index._path
        index.close()
        return open_index(folder)


class TestExact(Embedded):
    pass


class TestLists(Embedded):
    settings = {"method": "ivf"}
    exact = False


class TestGraph(Embedded):
    settings = {"method": "hnsw", "links": 8, "construction_effort": 40}
    exact = False


class TestBytes(Embedded):
    settings = {"storage": "int8"}
    precision = 0.01


class TestBytesAndHalfNorms(Embedded):
    settings = {"storage": "int8", "norm_storage": "float16"}
    precision = 0.01
    norm_precision = 2.0**-11


class TestProduct(Embedded):
    settings = {"storage": "pq"}
    precision = 0.7


class TestSigns(Embedded):
    settings = {"storage": "binary"}
    precision = 1.0
