"""Chat templates of multimodal language models, and the task instructions that go with them, as configuration by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from normwise.core.errors import InputError, near_names
from normwise.models.structure import token_limit

END = "<|endoftext|>"
OWN = "own"
_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
_SYSTEM = "Represent the user's input."
# A prompt reaches a template as a message of the system; both templates below move it to where the paper has its instruction.
_TASK = (
    "{%- set ns = namespace(task='') -%}"
    "{%- for message in messages if message.role == 'system' -%}"
    "{%- if message.content is string -%}{%- set ns.task = ns.task + message.content -%}"
    "{%- else -%}{%- for part in message.content -%}{%- set ns.task = ns.task + part.text -%}{%- endfor -%}{%- endif -%}"
    "{%- endfor -%}"
)
_PACE = (
    _TASK + "{{- '<|im_start|>system\\n" + _SYSTEM.replace("'", "\\'") + "<|im_end|>\\n<|im_start|>user\\n' -}}"
    "{%- if ns.task -%}{{- ns.task + '\\n' -}}{%- endif -%}"
    "{%- for message in messages if message.role != 'system' -%}"
    "{%- if message.content is string -%}{{- message.content -}}"
    "{%- else -%}{%- for part in message.content -%}"
    "{%- if part.type == 'image' -%}{{- '" + _PICTURE + "' -}}{%- else -%}{{- part.text -}}{%- endif -%}"
    "{%- endfor -%}{%- endif -%}{%- endfor -%}"
    "{{- '<|im_end|>\\n<|im_start|>assistant\\n" + END + "' -}}"
)
_VLM2VEC = (
    _TASK + "{%- for message in messages if message.role != 'system' -%}"
    "{%- if message.content is not string -%}"
    "{%- for part in message.content if part.type == 'image' -%}{{- '" + _PICTURE + "' -}}{%- endfor -%}{%- endif -%}{%- endfor -%}"
    "{{- ns.task -}}"
    "{%- for message in messages if message.role != 'system' -%}"
    "{%- if message.content is string -%}{{- message.content -}}"
    "{%- else -%}{%- for part in message.content if part.type == 'text' -%}{{- part.text -}}{%- endfor -%}{%- endif -%}{%- endfor -%}"
)
CHAT_TEMPLATES: Mapping[str, str] = {"pace": _PACE, "vlm2vec": _VLM2VEC}
"""Jinja sources by name. `pace`: a system line, the content as user turn (the instruction before it, on a line of its own), an
empty turn of the assistant, and `<|endoftext|>`, whose hidden state is the vector. `vlm2vec`: no chat; pictures, then
instruction and text."""

_QUESTION = "Represent the given image to answer the following question."
TASK_INSTRUCTIONS: Mapping[str, str] = {
    "vqa": _QUESTION,
    "classification": _QUESTION,
    "text_to_image": "Retrieve an image that best matches the following description.",
    "image_to_text": "Find the caption that best describes this image.",
    "composed": "Find an image matching the described changes.",
}
"""Instructions for queries by task. Reference: PACE (arXiv 2609.15152), Table 5."""


def set_chat_template(st: SentenceTransformer, template: str) -> None:
    """Have a model read its inputs through a chat template, in place; the template is saved with the model.

    The vector is then the hidden state of the last token that is no padding, on whichever side padding stands.

    Args:
        st: a model with a tokenizer that knows the tokens of the template, and with pooling.
        template: `pace`, `vlm2vec`, `own` (the model's own, left as it is), or a Jinja source.

    Raises:
        InputError: an unknown name, a model without pooling or tokenizer, or one whose tokenizer splits a token of the template.
    """
    module, pooling = _message_parts(st, template)
    if template != OWN:
        source = CHAT_TEMPLATES.get(template, template)
        if template not in CHAT_TEMPLATES and "{" not in template:
            raise InputError(
                f"chat template {template!r} is neither a name nor Jinja source: {near_names(template, [*CHAT_TEMPLATES, OWN])}"
            )
        _check_syntax(source)
        _check_tokens(module, source)
        module.processor.chat_template = source
        # A folder has one template: the tokenizer's, saved first, would otherwise come back beside it.
        module.tokenizer.chat_template = source
        module.input_formatter.message_format = "structured"
        module._chat_template_suffix_cache.clear()
        text = module.modality_config["text"]
        module.modality_config["message"] = {**text, "format": "structured"}
        module.input_formatter.supported_modalities = list(module.modality_config)
    pooling.pooling_mode = "lasttoken"
    pooling.pooling_output_dimension = pooling.embedding_dimension


def _check_syntax(source: str) -> None:
    from jinja2 import Environment, TemplateError

    try:
        Environment(extensions=["jinja2.ext.loopcontrols"]).parse(source)
    except TemplateError as error:
        raise InputError(f"the chat template is no Jinja source: {error}; choose {OWN}, {', '.join(CHAT_TEMPLATES)}, or mend it") from None


def _message_parts(st: SentenceTransformer, template: str) -> tuple[Any, Pooling]:
    module: Any = st[0]
    pooling = next((module for module in st.children() if isinstance(module, Pooling)), None)
    if not isinstance(module, Transformer) or module.tokenizer is None or "text" not in module.modality_config or pooling is None:
        raise InputError(
            f"chat template {template!r}: the model has no tokenizer or no pooling of tokens: choose a language model (Qwen-VL)"
        )
    if template == OWN and getattr(module.processor, "chat_template", None) is None:
        raise InputError(f"chat template {template!r}: the model brings none: choose one of {', '.join(CHAT_TEMPLATES)}")
    return module, pooling


def _check_tokens(module: Any, source: str) -> None:
    special = (END, "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
    for token in special:
        if token in source and len(module.tokenizer(token, add_special_tokens=False)["input_ids"]) != 1:
            raise InputError(
                f"the chat template has {token}, which the model's tokenizer does not know as one token: choose `{OWN}`, or a Qwen model"
            )


def read_whole(st: SentenceTransformer, inputs: Sequence[Any], *, prompt: str | None = None) -> dict[str, Any]:
    """Model-ready features whose last token is the template's, however long the input: what is too long loses the end of its text.

    sentence-transformers cuts the finished chat: it puts the ending back for texts, but with a picture the ending is lost, or
    the picture's tokens are and the model refuses. Here the text inside is cut, and pictures are whole.

    Args:
        st: a model that reads chat messages.
        inputs: as `SentenceTransformer.preprocess` takes them: {"text": ...}, {"image": ...}, or a list of messages with the
            content in parts.
        prompt: the instruction; None is none.

    Returns:
        As `SentenceTransformer.preprocess`.

    Raises:
        InputError: template, instruction and pictures of one input are longer than the model reads.
    """
    limit = token_limit(st)
    chats = [_as_chat(value) for value in inputs]
    while True:
        features: Any = st.preprocess(chats, prompt=prompt, processing_kwargs={"text": {"truncation": False}})
        lengths: list[int] = features["attention_mask"].sum(dim=1).tolist()
        if limit is None or max(lengths) <= limit:
            return features
        for row, length in enumerate(lengths):
            if length > limit:
                chats[row] = _cut(st, chats[row], length - limit, row=row, limit=limit)


def _as_chat(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return value
    parts = {"text": value} if isinstance(value, str) else value
    return [{"role": "user", "content": [{"type": kind, kind: part} for kind, part in parts.items()]}]


def _cut(st: SentenceTransformer, chat: list[dict[str, Any]], tokens: int, *, row: int, limit: int) -> list[dict[str, Any]]:
    """The chat without the last `tokens` tokens of its texts, from the last text backwards."""
    tokenizer: Any = st.tokenizer
    before, parts = chat[:-1], list(chat[-1]["content"])
    for place in reversed(range(len(parts))):
        if parts[place]["type"] != "text" or not parts[place]["text"]:
            continue
        text = parts[place]["text"]
        ends = [end for _, end in tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]]
        kept = max(len(ends) - tokens, 0)
        parts[place] = {"type": "text", "text": text[: ends[kept - 1]] if kept else ""}
        tokens -= len(ends) - kept
        # Tokens of one character (bytes of a rare letter) end at the same place: at least something must go.
        if parts[place]["text"] == text:
            parts[place]["text"] = text[:-1]
        if tokens <= 0:
            return [*before, {**chat[-1], "content": parts}]
    if parts == chat[-1]["content"]:
        raise InputError(
            f"inputs[{row}]: its pictures, the instruction and the chat template take {tokens} tokens more than the {limit} that the model "
            "reads: raise max_tokens, or have pictures resized to fewer pixels"
        )
    return [*before, {**chat[-1], "content": parts}]
