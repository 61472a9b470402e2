"""A small BEIR folder and a real encoder cut to one layer."""

from __future__ import annotations

import json

import pytest

NOUNS = [
    "queue", "stack", "tree", "graph", "heap", "list", "matrix", "vector", "string", "socket", "thread", "process",
    "file", "folder", "cache", "token", "parser", "lexer", "kernel", "filter", "buffer", "stream", "event", "signal",
]  # fmt: skip
VERBS = ["open", "close", "merge", "split", "sort"]


@pytest.fixture(scope="session")
def beir(tmp_path_factory):
    """120 documents; 72 training, 24 dev and 24 test queries."""
    folder = tmp_path_factory.mktemp("beir") / "toy"
    (folder / "qrels").mkdir(parents=True)
    items = [(f"{verb}-{noun}", verb, noun) for verb in VERBS for noun in NOUNS]
    with (folder / "corpus.jsonl").open("w") as file:
        for name, verb, noun in items:
            file.write(json.dumps({"_id": name, "title": "", "text": f"def {verb}_{noun}(self): return self.{noun}.{verb}()"}) + "\n")
    with (folder / "queries.jsonl").open("w") as file:
        for name, verb, noun in items:
            file.write(json.dumps({"_id": f"q-{name}", "text": f"how to {verb} the {noun}"}) + "\n")
    for split, part in (("train", items[:72]), ("dev", items[72:96]), ("test", items[96:])):
        with (folder / "qrels" / f"{split}.tsv").open("w") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"q-{name}\t{name}\t1\n" for name, _, _ in part)
    return folder


@pytest.fixture(scope="session")
def small_model(tmp_path_factory):
    """all-MiniLM-L6-v2 cut to its first layer, with a Dense head that frees the norm, as a plain folder."""
    from normwise.core.config import ModelConfig, RadialHeadConfig
    from normwise.models.loading import load_base

    folder = tmp_path_factory.mktemp("model") / "model"
    st = load_base(ModelConfig(layers=1, max_tokens=16, head=RadialHeadConfig(dimensions=64)))
    st.save_pretrained(str(folder), create_model_card=False)
    return folder
