"""Small BEIR folders with vectors beside them, whose truth is known."""

import json

import numpy as np

WIDTH = 12


def write_beir(folder, *, corpus, queries, qrels):
    """`qrels` maps a split to (query id, candidate id, grade) lines."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, texts in (("corpus", corpus), ("queries", queries)):
        lines = [json.dumps({"_id": key, **(text if isinstance(text, dict) else {"text": text})}) for key, text in texts]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split, rows in qrels.items():
        body = "".join(f"{query}\t{candidate}\t{grade}\n" for query, candidate, grade in rows)
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{body}", encoding="utf-8")
    return folder


def vector_world(folder, *, queries=240, candidates=150, seed=0, scale=1.0, splits=("test",), no_answer=0):
    """Queries near their target, with noise that their norm betrays; the last `no_answer` of them have no answer."""
    random = np.random.default_rng(seed)
    documents = random.normal(size=(candidates, WIDTH)) * random.lognormal(0.0, 0.2, size=(candidates, 1))
    target = random.integers(candidates, size=queries)
    noise = random.lognormal(-0.7, 0.8, size=(queries, 1))
    asked = (
        documents[target] / np.linalg.norm(documents[target], axis=1, keepdims=True) + noise * random.normal(size=(queries, WIDTH)) / 2.5
    )
    answered = queries - no_answer
    asked[answered:] = random.normal(size=(no_answer, WIDTH))
    asked = asked / np.linalg.norm(asked, axis=1, keepdims=True) / noise**0.5
    part = np.arange(queries) % len(splits)
    qrels = {split: [(f"q{i}", f"d{target[i]}", 1) for i in range(answered) if splits[part[i]] == split] for split in splits}
    texts = [
        (f"q{i}", {"text": f"what of number {i}", **({"no_answer": True, "split": splits[part[i]]} if i >= answered else {})})
        for i in range(queries)
    ]
    write_beir(folder, corpus=[(f"d{i}", "word " * (1 + i % 5) + f"document {i}") for i in range(candidates)], queries=texts, qrels=qrels)
    np.save(folder / "Q.npy", (scale * asked).astype(np.float32))
    np.save(folder / "D.npy", (scale * documents).astype(np.float32))
    return folder
