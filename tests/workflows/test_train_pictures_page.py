"""A training on pictures keeps hits of the model it saved, and its page shows them; factors come from the folders of their set."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tiny_picture_families import DUAL, save_picture_family

from normwise.core.config import PaceConfig
from normwise.core.records import TrainResult
from normwise.core.similarity import Similarity
from normwise.data.load import load_data
from normwise.data.sets import Corpus, Judged, RetrievalData
from normwise.models.encoder import Encoder
from normwise.workflows import inspect_modalities, inspect_usefulness
from normwise.workflows.inspect_modalities import _set_factors
from normwise.workflows.inspect_usefulness import load_judged
from normwise.workflows.train import train


def write_pairs(folder, rows=40):
    """Pairs of a text and a picture of one color."""
    (folder / "shown").mkdir(parents=True)
    lines = []
    for row in range(rows):
        Image.new("RGB", (16, 16), (row * 6, 255 - row * 6, row * 37 % 256)).save(folder / "shown" / f"{row}.png")
        lines.append(json.dumps({"query": f"picture number {row}", "positive_image": f"shown/{row}.png"}))
    path = folder / "pairs.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_a_run_on_pictures_keeps_hits_of_the_saved_model(tmp_path):
    config = PaceConfig.read(
        {
            "data": {"name": str(write_pairs(tmp_path / "data"))},
            "model": {"name": str(save_picture_family(DUAL, tmp_path / "model"))},
            "arms": {"dot": [{"name": "dot", "similarity": "dot", "temperature": 1.0, "steps": 2, "batch_size": 8}]},
            "bootstrap": 200,
        }
    )
    result = train(config, tmp_path / "out")
    assert TrainResult.model_validate_json((tmp_path / "out" / "result.json").read_text()) == result
    test = load_data(config.data, seed=0).test
    found = result.nearest
    assert found.ranking == Similarity(result.decision.similarity).ranking.value
    assert (found.queries, found.left_out, len(found.shown)) == (len(test), 0, min(6, len(test)))
    encoder = Encoder.load(tmp_path / "out" / "model")
    queries, candidates = encoder.encode_queries(test.queries), encoder.encode_candidates(test.corpus.contents)
    if found.ranking == "cosine":
        queries, candidates = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, candidates))
    for near in found.shown:
        scores = queries[test.queries.index(near.query)] @ candidates.T
        assert near.hits[0].score == pytest.approx(float(scores.max()), rel=1e-4, abs=1e-5)
        assert near.hits[0].picture.startswith("data:image/png;base64,")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<img") == sum(len(near.hits) for near in found.shown)
    assert "measures it, and shows both" in page


def test_the_factors_of_a_set_come_from_the_folders_that_it_came_from(tmp_path, monkeypatch):
    corpus = Corpus(("a", "b"), ("x", "y"))
    judged = Judged(("q",), ("?",), ({0: 1.0},), corpus, np.zeros(1, dtype=np.int64))
    data = RetrievalData(name="emoji-captions", kind="k", train=None, dev=None, test=judged, skewed=False)
    config = tmp_path / "run.toml"
    config.write_text(f'[data]\nname = "emoji-captions"\nroots = ["{tmp_path}"]\n')
    monkeypatch.setattr(inspect_usefulness, "load_to_judge", lambda settings, *, seed, as_trained: (data, False))
    loaded = load_judged(str(config), seed=0)
    assert loaded.roots == (str(tmp_path),)
    assert load_judged(data, seed=0).roots is None
    asked = []

    def factors(corpus, *, roots):
        asked.append(roots)
        return {"depth": np.zeros(len(corpus))}

    monkeypatch.setattr(inspect_modalities, "emoji_factors", factors)
    encoded = SimpleNamespace(name="emoji-captions", popularity=None)
    found = _set_factors(encoded, judged, None, (), loaded.roots)
    assert asked == [(str(tmp_path),)] * 2
    assert found["depth"].shape == (3,)
