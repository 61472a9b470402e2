"""Counting tokens, with a tokenizer of transformers and with that of a static embedding."""

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from normwise.models.encoder import Encoder
from normwise.models.loading import load_plain
from normwise.models.structure import token_limit
from normwise.models.tokens import token_counter
from normwise.workflows.inspect import inspect


@pytest.fixture
def static():
    words = ["[UNK]", "[CLS]", *(f"w{number}" for number in range(40))]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    # It would add a token, and sentence-transformers tells it not to.
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    weights = np.random.default_rng(0).normal(size=(len(words), 12)).astype(np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")


def test_special_tokens_count_where_the_encoder_adds_them(make_small):
    assert token_counter(make_small())(["sort", "sort a list"]).tolist() == [3, 5]


def test_a_text_longer_than_the_encoder_reads_counts_whole(make_small):
    assert token_counter(make_small())(["sort " * 900]).tolist() == [902]


def test_a_static_embedding_reads_words_alone_and_all_of_them(static):
    assert token_counter(static)(["w1 w2 w3", "w4", "what"]).tolist() == [3, 1, 1]
    assert token_limit(static) is None


def test_a_static_embedding_is_saved_loaded_and_inspected(static, tmp_path):
    static.save_pretrained(str(tmp_path / "model"))
    encoder = Encoder.load(tmp_path / "model")
    texts = [" ".join(f"w{(row + step) % 40}" for step in range(1 + row % 7)) for row in range(120)]
    np.testing.assert_allclose(encoder.encode_candidates(texts[:3]), static.encode(texts[:3]), rtol=1e-6)
    assert encoder.contract.max_tokens is None
    report = inspect(tmp_path / "model", texts=texts)
    assert report.factors[0].name == "tokens"
    assert report.factors[0].spearman < -0.5


def test_the_list_of_training_data_in_an_old_folder_is_no_broken_setting(make_small, tmp_path):
    make_small().save_pretrained(str(tmp_path / "model"))
    (tmp_path / "model" / "data_config.json").write_text(json.dumps([{"name": "pairs.jsonl.gz", "weight": 1}]))
    assert load_plain(str(tmp_path / "model"), device="cpu").model.get_embedding_dimension() == 384
