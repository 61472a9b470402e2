"""Tiny models with random weights of the families that read texts and pictures, saved as their real checkpoints are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tiny_families import WIDTH, byte_tokenizer, draw_norms
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    BitImageProcessorPil,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPProcessor,
    Dinov2Config,
    Dinov2Model,
    EfficientNetConfig,
    EfficientNetModel,
    MetaClip2Config,
    MetaClip2Model,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLModel,
    Qwen2_5_VLProcessor,
    Qwen2VLConfig,
    Qwen2VLImageProcessorPil,
    Qwen2VLModel,
    Qwen2VLProcessor,
    Qwen3_5Config,
    Qwen3_5Model,
    Qwen3VLConfig,
    Qwen3VLModel,
    Qwen3VLProcessor,
    Siglip2Config,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    Siglip2Processor,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
    SiglipProcessor,
    ViTConfig,
    ViTImageProcessorPil,
    ViTModel,
)

from normwise.models.chat_templates import set_chat_template
from normwise.models.dual_encoder import build_dual_encoder
from normwise.models.efficientnet import image_processor
from normwise.models.video_free import leave_videos_out

leave_videos_out()

TOWER = 48
_SPECIAL_CHAT = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_IDS = {name: 256 + number for number, name in enumerate(_SPECIAL_CHAT)}
# As the real template does, in short: turns between <|im_start|> and <|im_end|>, pictures as one token between two.
OWN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
)


@dataclass(frozen=True)
class PictureFamily:
    """A tiny model's parts, and whether it reads text and picture in one pass."""

    model: Callable[[], Any]
    processor: Callable[[], Any]
    together: bool = False


def chat_tokenizer(side: str = "left") -> PreTrainedTokenizerFast:
    """A tokenizer of bytes with the special tokens of the Qwen families; padding is `<|endoftext|>`, as in theirs."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(_SPECIAL_CHAT))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|endoftext|>", eos_token="<|im_end|>", padding_side=side, model_max_length=512
    )


def _clip(model: Any, config: Any) -> Any:
    tower = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "projection_dim": WIDTH}
    text = {**tower, "hidden_size": WIDTH, "vocab_size": 260, "max_position_embeddings": 48}
    text |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 3}
    vision = {**tower, "hidden_size": TOWER, "image_size": 32, "patch_size": 16}
    return model(config(text_config=text, vision_config=vision, projection_dim=WIDTH))


def _clip_processor() -> CLIPProcessor:
    pictures = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return CLIPProcessor(pictures, byte_tokenizer(end=3))


def _siglip_tokenizer() -> PreTrainedTokenizerFast:
    # As the real ones: no mask over the padding, and no more tokens than positions.
    tokenizer = byte_tokenizer()
    tokenizer.model_input_names = tokenizer.init_kwargs["model_input_names"] = ["input_ids"]
    tokenizer.model_max_length = 64
    return tokenizer


def _siglip(model: Any, config: Any, **vision: Any) -> Any:
    tower = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40}
    text = {**tower, "vocab_size": 260, "max_position_embeddings": 64, "projection_size": WIDTH}
    text |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    return model(config(text_config=text, vision_config={**tower, "patch_size": 16, **vision}))


def _text_of(**more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    return {**sizes, "vocab_size": 264, "max_position_embeddings": 512, "initializer_range": 0.3, **more}


_MULTIMODAL = {
    "image_token_id": _IDS["<|image_pad|>"],
    "video_token_id": _IDS["<|video_pad|>"],
    "vision_start_token_id": _IDS["<|vision_start|>"],
    "vision_end_token_id": _IDS["<|vision_end|>"],
}
# Half a head's width has 8 places: for time, height and width.
_SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def _qwen2(model: Any, config: Any, **vision: Any) -> Any:
    seen = {"depth": 2, "num_heads": 2, "patch_size": 14, "in_channels": 3, "initializer_range": 0.3, **vision}
    return model(config(text_config=_text_of(rope_parameters=_SECTIONS), vision_config=seen, **_MULTIMODAL))


def _qwen3(model: Any, config: Any, *, text: dict[str, Any], **vision: Any) -> Any:
    seen = {"depth": 2, "hidden_size": TOWER, "intermediate_size": 40, "num_heads": 2, "patch_size": 16, "out_hidden_size": WIDTH}
    seen |= {"num_position_embeddings": 16, "initializer_range": 0.3, **vision}
    return model(config(text_config=_text_of(**text), vision_config=seen, **_MULTIMODAL))


_QWEN35_TEXT = {
    "head_dim": 32,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    # A quarter of the head turns with the position: 4 places.
    "rope_parameters": {**_SECTIONS, "mrope_section": [2, 1, 1], "mrope_interleaved": True, "partial_rotary_factor": 0.25},
}


def _qwen_processor(kind: Any, *, patch: int) -> Any:
    side = patch * 2
    pictures = Qwen2VLImageProcessorPil(
        patch_size=patch, merge_size=2, temporal_patch_size=2, size={"shortest_edge": side**2, "longest_edge": 9 * side**2}
    )
    return kind(pictures, chat_tokenizer(), chat_template=OWN_TEMPLATE)


PICTURE_FAMILIES: Mapping[str, PictureFamily] = {
    "clip": PictureFamily(lambda: _clip(CLIPModel, CLIPConfig), _clip_processor),
    # MetaCLIP's first generation has CLIP's classes.
    "metaclip": PictureFamily(lambda: _clip(CLIPModel, CLIPConfig), _clip_processor),
    "metaclip-2": PictureFamily(lambda: _clip(MetaClip2Model, MetaClip2Config), _clip_processor),
    "siglip": PictureFamily(
        lambda: _siglip(SiglipModel, SiglipConfig, image_size=32),
        lambda: SiglipProcessor(SiglipImageProcessorPil(size={"height": 32, "width": 32}), _siglip_tokenizer()),
    ),
    "siglip-2": PictureFamily(
        lambda: _siglip(Siglip2Model, Siglip2Config, num_patches=16),
        lambda: Siglip2Processor(Siglip2ImageProcessorPil(patch_size=16, max_num_patches=16), _siglip_tokenizer()),
    ),
    "qwen2-vl": PictureFamily(
        lambda: _qwen2(Qwen2VLModel, Qwen2VLConfig, embed_dim=TOWER, hidden_size=WIDTH, mlp_ratio=1),
        lambda: _qwen_processor(Qwen2VLProcessor, patch=14),
        together=True,
    ),
    "qwen2.5-vl": PictureFamily(
        lambda: _qwen2(
            Qwen2_5_VLModel, Qwen2_5_VLConfig, hidden_size=TOWER, intermediate_size=40, out_hidden_size=WIDTH, fullatt_block_indexes=[1]
        ),
        lambda: _qwen_processor(Qwen2_5_VLProcessor, patch=14),
        together=True,
    ),
    "qwen3-vl": PictureFamily(
        lambda: _qwen3(
            Qwen3VLModel,
            Qwen3VLConfig,
            text={"head_dim": 16, "rope_parameters": {**_SECTIONS, "mrope_interleaved": True}},
            deepstack_visual_indexes=[0],
        ),
        lambda: _qwen_processor(Qwen3VLProcessor, patch=16),
        together=True,
    ),
    "qwen3.5": PictureFamily(
        lambda: _qwen3(Qwen3_5Model, Qwen3_5Config, text=_QWEN35_TEXT),
        lambda: _qwen_processor(Qwen3VLProcessor, patch=16),
        together=True,
    ),
}
DUAL = "dual-encoder"
ALL_FAMILIES = (*PICTURE_FAMILIES, DUAL)


def save_picture_family(name: str, folder: Path, *, template: str = "own") -> Path:
    """Write a tiny model of a family (or the dual encoder); returns its folder."""
    if name == DUAL:
        dual = build_dual_encoder(tiny_text(folder / "text"), save_vision("vit", folder / "vision"), dimensions=16, seed=3)
        dual.save(str(folder / name), create_model_card=False)
        return folder / name
    family, bare = PICTURE_FAMILIES[name], folder / "bare"
    torch.manual_seed(0)
    model = family.model().eval()
    draw_norms(model)
    model.save_pretrained(bare)
    family.processor().save_pretrained(bare)
    modules: list[nn.Module] = [Transformer(str(bare))]
    if family.together:
        modules.append(Pooling(WIDTH, "lasttoken"))
    st = SentenceTransformer(modules=modules, device="cpu")
    if family.together and template != "own":
        set_chat_template(st, template)
    st.save(str(folder / name), create_model_card=False)
    return folder / name


def tiny_text(folder: Path) -> SentenceTransformer:
    """A tiny text encoder: BERT with mean pooling."""
    torch.manual_seed(1)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "initializer_range": 0.5}
    model = BertModel(BertConfig(**sizes, vocab_size=260, pad_token_id=1, max_position_embeddings=130)).eval()
    draw_norms(model)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return SentenceTransformer(modules=[Transformer(str(folder)), Pooling(WIDTH, "mean")], device="cpu")


def save_vision(kind: str, folder: Path) -> Path:
    """Write a tiny vision model (efficientnet, vit, dinov2) with its image processor; returns its folder."""
    torch.manual_seed(2)
    sizes = {"hidden_size": TOWER, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32, "patch_size": 16}
    square = {"height": 32, "width": 32}
    if kind == "vit":
        model: Any = ViTModel(ViTConfig(**sizes, intermediate_size=40))
        processor: Any = ViTImageProcessorPil(size=square)
    elif kind == "dinov2":
        model = Dinov2Model(Dinov2Config(**sizes, mlp_ratio=1))
        processor = BitImageProcessorPil(size={"shortest_edge": 32}, crop_size=square)
    else:
        small = {"in_channels": [32, 16], "out_channels": [16, 24], "kernel_sizes": [3, 3], "strides": [1, 2]}
        model = EfficientNetModel(
            EfficientNetConfig(
                **small, num_block_repeats=[1, 1], expand_ratios=[1, 6], width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280
            )
        )
        processor = image_processor(32)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
