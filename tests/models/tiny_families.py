"""Tiny models with random weights of the architectures that embedding models are built on, saved as their real checkpoints are.

Each folder is what a person downloads: weights, configuration, a tokenizer of bytes, and the list of modules with the
pooling (and `Normalize`) that the real model of that family has. Gains and biases of the norm layers are drawn as well, since
trained ones are neither 1 nor 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPProcessor,
    DistilBertConfig,
    DistilBertModel,
    GteConfig,
    GteModel,
    JinaEmbeddingsV3Config,
    JinaEmbeddingsV3Model,
    MetaClip2Config,
    MetaClip2Model,
    ModernBertConfig,
    ModernBertModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

WIDTH = 32
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_BEGIN, _PAD, _END, _UNKNOWN = range(4)
_VOCABULARY = 260
_IDS = {"bos_token_id": _BEGIN, "pad_token_id": _PAD, "eos_token_id": _END}
_POSITIONS = 130
# Weights as large as trained ones, beside which the epsilon in a norm layer is nothing.
_SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": _POSITIONS,
    "initializer_range": 0.5,
}


@dataclass(frozen=True)
class Family:
    """A tiny model's parts: the transformer, its pooling (None where it pools by itself), what follows, its prompts."""

    model: Callable[[], Any]
    pooling: str | None = "mean"
    normalized: bool = False
    prompts: Mapping[str, str] | None = None
    side: str = "right"


def _towers(model: Any, config: Any) -> Any:
    # As in the real ones, the text tower projects to its own width and the image tower to fewer dimensions.
    tower = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "projection_dim": WIDTH}
    # The text tower picks the first token with the id of the end; to CLIP, 2 means a legacy rule, so the end is another one.
    text = {**tower, **_IDS, "hidden_size": WIDTH, "vocab_size": _VOCABULARY, "max_position_embeddings": 48, "eos_token_id": _UNKNOWN}
    vision = {**tower, "hidden_size": 48, "image_size": 32, "patch_size": 16}
    return model(config(text_config=text, vision_config=vision, projection_dim=WIDTH))


def _distilbert() -> DistilBertModel:
    sizes = {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 40, "max_position_embeddings": _POSITIONS, "initializer_range": 0.5}
    return DistilBertModel(DistilBertConfig(**sizes, vocab_size=_VOCABULARY, pad_token_id=_PAD))


FAMILIES: Mapping[str, Family] = {
    "clip": Family(lambda: _towers(CLIPModel, CLIPConfig), pooling=None),
    "metaclip": Family(lambda: _towers(MetaClip2Model, MetaClip2Config), pooling=None),
    "albert": Family(lambda: AlbertModel(AlbertConfig(**_SIZES, **_IDS, vocab_size=_VOCABULARY, embedding_size=16))),
    "distilbert": Family(_distilbert),
    "distilbert-cls": Family(_distilbert, pooling="cls"),
    "e5": Family(lambda: XLMRobertaModel(XLMRobertaConfig(**_SIZES, **_IDS, vocab_size=_VOCABULARY)), normalized=True),
    "gte-bert": Family(lambda: BertModel(BertConfig(**_SIZES, vocab_size=_VOCABULARY, pad_token_id=_PAD)), normalized=True),
    "gte-new": Family(lambda: GteModel(GteConfig(**_SIZES, **_IDS, vocab_size=_VOCABULARY)), pooling="cls", normalized=True),
    "gte-modernbert": Family(
        lambda: ModernBertModel(
            ModernBertConfig(
                **_SIZES,
                **_IDS,
                vocab_size=_VOCABULARY,
                initializer_cutoff_factor=2.0,
                cls_token_id=_BEGIN,
                sep_token_id=_END,
                global_attn_every_n_layers=2,
            )
        ),
        pooling="cls",
    ),
    "jina-v3": Family(lambda: JinaEmbeddingsV3Model(JinaEmbeddingsV3Config(**_SIZES, **_IDS, vocab_size=_VOCABULARY)), normalized=True),
    "qwen3": Family(
        lambda: Qwen3Model(Qwen3Config(**_SIZES, **_IDS, vocab_size=_VOCABULARY, num_key_value_heads=1, head_dim=16)),
        pooling="lasttoken",
        normalized=True,
        prompts={"query": "Instruct: find what answers it\nQuery:", "document": ""},
        side="left",
    ),
}


def save_family(name: str, folder: Path, *, dtype: torch.dtype = torch.float32) -> Path:
    """Write a tiny model of a family; returns its folder."""
    family, bare = FAMILIES[name], folder / "bare"
    torch.manual_seed(0)
    model = family.model().eval()
    draw_norms(model)
    model.to(dtype).save_pretrained(bare)
    tokenizer = byte_tokenizer(family.side, end=_UNKNOWN if "clip" in name else _END)
    if family.pooling is None:
        size = {"shortest_edge": 32}
        CLIPProcessor(CLIPImageProcessorPil(size=size, crop_size={"height": 32, "width": 32}), tokenizer).save_pretrained(bare)
    else:
        tokenizer.save_pretrained(bare)
    modules: list[nn.Module] = [Transformer(str(bare))]
    if family.pooling is not None:
        modules.append(Pooling(WIDTH, family.pooling))
    if family.normalized:
        modules.append(Normalize())
    SentenceTransformer(modules=modules, device="cpu", prompts=dict(family.prompts or {})).save(str(folder / name), create_model_card=False)
    return folder / name


def draw_norms(model: nn.Module) -> None:
    """Give norm layers gains and biases like trained ones."""
    for module in model.modules():
        if "norm" in type(module).__name__.lower() and getattr(module, "weight", None) is not None:
            nn.init.uniform_(module.weight, 0.5, 2.0)
            if getattr(module, "bias", None) is not None:
                nn.init.normal_(module.bias, std=0.3)


def byte_tokenizer(side: str = "right", *, end: int = _END) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are bytes, with a beginning, an end and padding."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate((*_SPECIAL, *letters))}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[], unk_token=_SPECIAL[_UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    last = _SPECIAL[end]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"<s> $A {last}", pair=f"<s> $A {last} $B {last}", special_tokens=[("<s>", _BEGIN), (last, end)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token=last, cls_token="<s>", sep_token=last, padding_side=side
    )
