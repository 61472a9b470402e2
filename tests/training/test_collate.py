"""The collator: names, ragged negatives, seeded pools, popularity."""

from __future__ import annotations

import numpy as np
import pytest

from normwise.core.config import StageConfig
from normwise.training.collate import PairCollator


class Tokens:
    """Stands for the tokenizer: remembers what it was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, texts, prompt=None):
        self.calls.append((list(texts), prompt))
        return {"input_ids": [len(text) for text in texts]}


def collate(pairs, rows, *, seed=0, **settings):
    tokens = Tokens()
    stage = StageConfig.model_validate({"name": "s", "temperature": 0.05, "batch_size": 4, **settings})
    collator = PairCollator(pairs, stage, tokens, query_prompt="query: ", candidate_prompt="doc: ", seed=seed)
    return collator([{"row": row} for row in rows]), tokens.calls


def test_texts_are_taken_by_row_and_named(pairs):
    batch, calls = collate(pairs, [3, 1])
    assert calls == [
        ([pairs.queries[3], pairs.queries[1]], "query: "),
        ([pairs.corpus.texts[3], pairs.corpus.texts[1]], "doc: "),
    ]
    assert [key for key in batch if key != "label"] == ["anchor_input_ids", "positive_input_ids"]
    assert batch["label"]["negative_counts"].tolist() == [0, 0]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_ragged_negatives_are_flat_and_counted(pairs, most):
    rows = [0, 1, 2, 3]
    batch, calls = collate(pairs, rows, hard_negatives=most)
    expected = [pairs.corpus.texts[c] for row in rows for c in pairs.negatives[row][:most]]
    assert calls[2] == (expected, "doc: ")
    assert batch["label"]["negative_counts"].tolist() == [min(row % 4, most) for row in rows]


def test_uniform_pool_depends_on_seed_and_rows_only(pairs):
    def pool(rows, seed):
        return collate(pairs, rows, seed=seed, negatives={"source": "uniform", "count": 9})[1][-1][0]

    assert pool([1, 2], 0) == pool([1, 2], 0)
    assert pool([1, 2], 0) != pool([1, 2], 1)
    assert pool([1, 2], 0) != pool([2, 3], 0)
    assert len(pool([1, 2], 0)) == 9


def test_uniform_pool_is_uniform_over_the_corpus(pairs):
    drawn = []
    for row in range(24):
        _, calls = collate(pairs, [row, (row + 1) % 24], negatives={"source": "uniform", "count": 200})
        drawn += calls[-1][0]
    counts = np.array([drawn.count(text) for text in pairs.corpus.texts])
    expected = len(drawn) / 24
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 49.7  # the 0.999 quantile of chi-square with 23 degrees of freedom


def test_corrected_negatives_carry_log_popularity(pairs):
    skewed = pairs.subset(np.array([7, 0, 24, 7, 31, 2]))
    batch, _ = collate(skewed, [0, 5], negatives={"source": "corrected", "smoothing": 1.0})
    counts = np.bincount([7, 0, 0, 7, 7, 2], minlength=24) + 1.0
    np.testing.assert_allclose(batch["label"]["log_g"].numpy(), np.log(counts / counts.sum())[[7, 2]], rtol=1e-6)


def test_no_popularity_without_correction(pairs):
    assert "log_g" not in collate(pairs, [0, 1])[0]["label"]


def test_candidates_that_are_never_drawn_need_no_smoothing(pairs):
    rare = pairs.subset(np.array([1, 1, 4]))
    batch, _ = collate(rare, [0, 2], negatives={"source": "corrected"})
    np.testing.assert_allclose(batch["label"]["log_g"].numpy(), np.log([2 / 3, 1 / 3]), rtol=1e-6)
