"""How to serve and index a model without losing, or without wrongly keeping, the length of its vectors.

What a server does to norms was read in its documentation and public threads; versions change it, so each recipe ends
in a check with the model's own vectors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from normwise.core.similarity import Similarity


@dataclass(frozen=True, kw_only=True)
class Server:
    """What one embedding server does to the length of a vector, and how to keep it."""

    name: str
    does: str
    keep: str


SERVERS = (
    Server(
        name="sentence-transformers",
        does="keeps the norm (`normalize_embeddings` is off by default)",
        keep="call `encode` without `normalize_embeddings`",
    ),
    Server(
        name="text-embeddings-inference",
        does="`/embed` normalizes unless told not to; `/v1/embeddings` always normalizes; `dimensions` cuts first, then normalizes",
        keep='use `/embed` with `"normalize": false`',
    ),
    Server(
        name="vLLM",
        does="decides by the model folder and its version whether to normalize",
        keep="say it: `--pooler-config '{\"use_activation\": false}'` (versions up to 0.16: `'{\"normalize\": false}'`)",
    ),
    Server(
        name="Ollama",
        does="`/api/embed` normalizes; the older `/api/embeddings` does not",
        keep="use `/api/embeddings` where it still exists, else store the norm beside the vector",
    ),
    Server(
        name="infinity",
        does="normalizes every vector, without a switch",
        keep="compute norms with sentence-transformers and store them beside the vectors",
    ),
)


def server_table() -> list[str]:
    """The servers as lines of a Markdown table."""
    rows = [f"| {server.name} | {server.does} | {server.keep} |" for server in SERVERS]
    return ["| server | what it does to the norm | how to keep the norm |", "|---|---|---|", *rows]


def deploy_check(model: str) -> str:
    """Code that compares a server's vector with the model's own, norms included."""
    return f"""import numpy as np
from sentence_transformers import SentenceTransformer

text = "a short sentence to check the deployment with"
own = SentenceTransformer({json.dumps(model)}).encode(text)
served = np.asarray(...)  # the vector that the server returns for the same text
print(np.linalg.norm(own), np.linalg.norm(served))  # equal, or the server normalizes
np.testing.assert_allclose(served, own, rtol=1e-2, atol=1e-3)"""


def faiss_recipe(similarity: Similarity) -> str:
    """An exact FAISS index that ranks as the model was chosen to."""
    cosine = similarity.normalizes_candidate
    prepare = "faiss.normalize_L2(candidates)  # in place: keep a copy of the norms if you need them\n" if cosine else ""
    comment = "inner product of unit vectors: cosine" if cosine else "inner product; scores are not bound to -1..1"
    return f"""import faiss

{prepare}index = faiss.IndexFlatIP(candidates.shape[1])  # {comment}
index.add(candidates)
scores, rows = index.search(queries, 10)"""


def pgvector_recipe(similarity: Similarity, *, dimensions: int | None) -> str:
    """A pgvector table and query; `<#>` is the negative inner product, so ascending order puts the best first."""
    size = "D" if dimensions is None else str(dimensions)
    if similarity.normalizes_candidate:
        operator, classes, score = "<=>", "vector_cosine_ops", "1 - (embedding <=> :query)"
    else:
        operator, classes, score = "<#>", "vector_ip_ops", "-(embedding <#> :query)"
    return f"""CREATE TABLE candidates (id bigint PRIMARY KEY, embedding vector({size}), norm real);
CREATE INDEX ON candidates USING hnsw (embedding {classes});
SELECT id, {score} AS score
FROM candidates
ORDER BY embedding {operator} :query  -- ascending, on the operator itself, or the index is not used
LIMIT 10;"""


def qdrant_recipe(similarity: Similarity, *, dimensions: int | None) -> str:
    """A Qdrant collection; Cosine collections normalize at upload and lose the raw vector."""
    size = "D" if dimensions is None else str(dimensions)
    distance = "COSINE" if similarity.normalizes_candidate else "DOT"
    why = "normalizes at upload: the raw vector is lost" if similarity.normalizes_candidate else "not COSINE, which normalizes at upload"
    return f"""import numpy as np
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams

client = QdrantClient(":memory:")
client.create_collection("candidates", vectors_config=VectorParams(size={size}, distance=Distance.{distance}))  # {why}
client.upsert(
    "candidates",
    [PointStruct(id=i, vector=v.tolist(), payload={{"norm": float(np.linalg.norm(v))}}) for i, v in enumerate(candidates)],
)"""
