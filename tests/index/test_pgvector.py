"""pgvector on a real PostgreSQL against the contract, kind by kind."""

import pytest
from contract import IndexContract

from normwise.core.index_config import IndexConfig
from normwise.index.build import build_index
from normwise.index.opening import open_index


class Served(IndexContract):
    settings: dict = {}

    @pytest.fixture
    def build(self, tmp_path, postgres, table_name):
        self._folders = {}
        made = []

        def build(similarity, ids, vectors, **contents):
            folder = tmp_path / f"index{len(made)}"
            config = IndexConfig(
                similarity=similarity, engine="pgvector", url=postgres.url, name=f"{table_name} {len(made)}", **self.settings
            )
            made.append(build_index(config, folder, ids=ids, vectors=vectors, **contents))
            self._folders[id(made[-1])] = folder
            return made[-1]

        self._made = made
        yield build
        for index in made:
            index.close()

    def reopen(self, index):
        index.close()
        self._made.append(open_index(self._folders[id(index)]))
        return self._made[-1]


class TestExact(Served):
    pass


class TestGraph(Served):
    settings = {"method": "hnsw", "links": 8, "construction_effort": 40}
    exact = False


class TestLists(Served):
    settings = {"method": "ivf"}
    exact = False
