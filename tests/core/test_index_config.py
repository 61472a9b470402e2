"""Settings of an index: what fits together, and that nothing is ignored."""

import pytest

from normwise.core.errors import InputError
from normwise.core.index_config import IndexConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "key 'similarity' is missing"),
        ({"similarity": "dots"}, "similarity"),
        ({"similarity": "dot", "engine": "annoy"}, "engine"),
        ({"similarity": "dot", "methd": "hnsw"}, "unknown key 'methd': did you mean method"),
        ({"similarity": "dot", "links": 8}, "links belongs to method hnsw, and method is exact: leave links out"),
        ({"similarity": "dot", "method": "ivf", "construction_effort": 80}, "construction_effort belongs to method hnsw"),
        ({"similarity": "dot", "method": "hnsw", "lists": 8}, "lists belongs to method ivf, and method is hnsw"),
        ({"similarity": "dot", "target_recall": 0.9}, "target_recall belongs to methods ivf and hnsw"),
        ({"similarity": "dot", "method": "hnsw", "target_recall": 1.5}, "target_recall"),
        ({"similarity": "dot", "method": "hnsw", "storage": "pq"}, "storage pq is scanned exactly, and method is hnsw"),
        ({"similarity": "dot", "url": "http://x"}, "url belongs to engines pgvector and qdrant, and engine is faiss"),
        ({"similarity": "dot", "engine": "qdrant", "storage": "int8"}, "engine qdrant stores vectors and norms in float32"),
        ({"similarity": "dot", "engine": "qdrant", "norm_storage": "float16"}, "engine qdrant stores vectors and norms in float32"),
        ({"similarity": "dot", "engine": "qdrant", "method": "ivf"}, "engine qdrant has methods exact and hnsw"),
        ({"similarity": "dot", "engine": "pgvector"}, "engine pgvector needs url"),
        ({"similarity": "dot", "recall_k": 0}, "recall_k"),
        ({"similarity": "dot", "seed": 1.5}, "seed"),
    ],
)
def test_refused(values, message):
    with pytest.raises(InputError, match=message):
        IndexConfig.read(values)


def test_it_survives_json_with_nothing_ignored():
    for values in (
        {"similarity": "dot"},
        {"similarity": "cosine", "method": "ivf", "lists": 3},
        {"similarity": "cosine", "engine": "pgvector", "url": "postgresql://x/y", "method": "hnsw", "links": 4, "name": "t"},
        {"similarity": "dot", "storage": "binary", "norm_storage": "float16"},
    ):
        config = IndexConfig.read(values)
        assert IndexConfig.read(config.model_dump(mode="json")) == config


def test_the_rule_of_lists():
    config = IndexConfig(similarity="dot", method="ivf")
    assert config.lists_for(1) == 1
    assert config.lists_for(1_000_000) == 4000
    assert all(config.lists_for(count) * 39 <= max(39, count) for count in (10, 100, 1000, 10_000))
    assert IndexConfig(similarity="dot", method="ivf", lists=50).lists_for(20) == 20
