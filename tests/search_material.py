"""What the tests of indices and searches share: vectors of mixed norm, a tiny encoder, calibrations that hold for an index."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from normwise.core.calibration_records import ThresholdRecord, VerdictRecord
from normwise.index.opening import open_index
from normwise.theory.calibration import Calibration
from normwise.theory.logistic_calibrator import LogisticCalibrator, LogisticColumn
from normwise.workflows.search_calibration import fingerprint_of

WORDS = ["red", "green", "blue", "cat", "dog", "bird", "runs", "sleeps", "eats", "fast", "slow", "big", "small", "old", "new", "tree"]
DOCUMENTS = [f"{color} {animal} {verb}" for color in WORDS[:3] for animal in WORDS[3:6] for verb in WORDS[6:9]]
ROWS, WIDTH = 40, 6


def mixed_vectors(rows=ROWS, *, seed=0):
    """Raw vectors whose norms differ by much; the last one is zero."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, WIDTH)) * np.exp(0.5 * random.normal(size=(rows, 1)))
    vectors[-1] = 0.0
    return vectors.astype(np.float32)


def write_corpus(folder: Path, *, extra=None, judged=True):
    """A BEIR folder of 27 documents and 9 queries; `extra` gives the fields of a row."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"_id": f"d{row}", "title": "", "text": text, **(extra(row) if extra else {})} for row, text in enumerate(DOCUMENTS)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": f"q{row}", "text": DOCUMENTS[3 * row]} for row in range(9)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    if judged:
        (folder / "qrels").mkdir(exist_ok=True)
        lines = "".join(f"q{row}\td{3 * row}\t1\n" for row in range(9))
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    return folder


def save_encoder(folder: Path, *, seed=0):
    """A static embedding of sixteen words, saved as normwise saves models: no network, no transformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    from normwise.models.encoder import Encoder

    tokenizer = Tokenizer(WordLevel({word: row for row, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    random = np.random.default_rng(seed)
    weights = random.normal(size=(len(WORDS) + 1, 8)) * np.exp(0.5 * random.normal(size=(len(WORDS) + 1, 1)))
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights.astype(np.float32))], device="cpu")
    Encoder(model, similarity="dot", name="tiny").save(folder)
    return folder


def calibration_for(index: Path, *, signal="score", probability=0.6, lower=None, usable=True, **changed):
    """A logistic of one signal with a threshold, fitted on nothing, that holds for an index; `changed` alters its fingerprint."""
    with_index = open_index(index)
    try:
        fingerprint = fingerprint_of(with_index.manifest, candidates=len(with_index), depth=changed.pop("depth", 10))
    finally:
        with_index.close()
    threshold = ThresholdRecord(
        precision_target=0.9, confidence=0.9, probability=probability, coverage=0.5, answered=50, precision=0.95, precision_low=0.9
    )
    verdict = "usable" if usable else "no-usable-threshold"
    return Calibration(
        fingerprint=fingerprint.model_copy(update=changed),
        calibrator=LogisticCalibrator(
            kind="logistic", columns=(LogisticColumn(signal=signal, center=5.0, scale=1.0, coefficient=1.0),), intercept=0.0
        ),
        lower_hits=lower,
        threshold=threshold if usable else None,
        verdict=VerdictRecord(label=verdict, text="as the test says"),
        target=0.9,
        confidence_level=0.9,
        created="2026-01-02",
    )
