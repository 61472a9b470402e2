"""From contents to what a model reads: grouped by modality, texts never taken for paths, the way back to the order kept."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError
from normwise.data.contents import Content, Interleaved, Modality, content_place, content_words, modality_of, parts_of
from normwise.data.pictures import Picture
from normwise.data.texts import lone_surrogate
from normwise.models.chat_templates import read_whole
from normwise.models.skipping import Skipped

Reads = Literal["texts", "towers", "together"]
# A content as a person writes it: see `as_contents`.
Input = Any
Opened = Callable[[Picture], Any]
_JOINT = ("image", "text")


@dataclass(frozen=True)
class Group:
    """Inputs of one modality, which share a forward pass.

    Args:
        modality: of every input.
        owners: (n,) int64, the content that each input is a part of; a content's vector is the sum of its parts'.
        inputs: n texts, pictures or interleaved contents, not opened yet.
    """

    modality: Modality
    owners: np.ndarray
    inputs: tuple[Content, ...]


def reads(st: SentenceTransformer) -> Reads:
    """What a model reads: texts alone; pictures too, in a tower of their own; or both together in one pass.

    A model of chat messages that has an image processor reads them together, and so does one that names the pair of
    modalities (BLIP).
    """
    known = set(st.modalities)
    if "image" not in known:
        return "texts"
    pair = any(isinstance(modality, tuple) and tuple(sorted(modality)) == _JOINT for modality in known)
    return "together" if "message" in known or pair else "towers"


def group_contents(
    st: SentenceTransformer, contents: Sequence[Content], *, what: str = "inputs", first: int = 0, without: Container[int] = ()
) -> list[Group]:
    """Sort contents into groups of one modality.

    A model of two towers (CLIP, SigLIP) reads no text and picture in one pass: such a content is split, and its vector
    is the sum of the vectors of its text and its pictures. Under dot product its score is then the sum of their scores
    (score fusion, Wei et al., UniIR, arXiv 2311.17136).

    Args:
        st: the encoder.
        contents: n contents.
        what: what messages call them.
        first: the number of the first one in messages.
        without: rows to leave out.

    Returns:
        At most one group for each modality, texts first; together their owners are the rows 0..n-1 but those left out, each
        at least once.

    Raises:
        InputError: a picture for a model that reads texts only.
    """
    kind = reads(st)
    found: dict[Modality, list[tuple[int, Content]]] = {"text": [], "image": [], "text+image": []}
    for place, content in enumerate(contents):
        if place in without:
            continue
        modality = modality_of(content)
        if modality != "text" and kind == "texts":
            of = f" of {place_of}" if (place_of := content_place(content)) else ""
            raise InputError(
                f"{what}[{first + place}] is {modality} ({content_words(content):.60}{of}), and the model reads texts only: choose a model "
                "that reads pictures (CLIP, SigLIP, Qwen-VL), or set model.vision"
            )
        if not isinstance(content, Interleaved) or kind == "together":
            found[modality].append((place, content))
            continue
        if content.text:
            found["text"].append((place, content.text))
        found["image"] += [(place, picture) for picture in content.pictures]
    return [
        Group(modality, np.asarray([place for place, _ in parts], dtype=np.int64), tuple(content for _, content in parts))
        for modality, parts in found.items()
        if parts
    ]


def as_contents(values: Sequence[Input], *, what: str, first: int = 0, skipped: Skipped | None = None) -> list[Content]:
    """What a person hands over as contents: texts stay texts, paths and open images become pictures.

    Args:
        values: texts (str), pictures (`pathlib.Path`, open PIL image, `Picture`), and tuples or lists of these, which are
            read in their order.
        what: what messages call them.
        first: the number of the first one in messages and in `skipped`.
        skipped: receives those with a picture that cannot be read, whose content is then an empty text; None raises at
            the first.

    Raises:
        InputError: one value in place of a list, or a value that is none of these; the message names its index.
    """
    if isinstance(values, str | bytes | PurePath | Picture | Interleaved):
        raise InputError(f"{what} must be a list, got one {type(values).__name__}: put it into a list")
    if not isinstance(values, Iterable) or type(values).__module__.startswith("PIL."):
        raise InputError(f"{what} must be a list, got one {type(values).__name__}: put it into a list")
    contents: list[Content] = []
    for number, value in enumerate(values, start=first):
        try:
            contents.append(_as_content(value, f"{what}[{number}]"))
        except _UnreadablePictureError as error:
            if skipped is None:
                raise
            skipped.add(number, error.problem)
            contents.append("")
    return contents


class _UnreadablePictureError(InputError):
    """A picture that a person handed over and that cannot be read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.problem = problem


def _as_content(value: Any, name: str) -> Content:
    if isinstance(value, str):
        if lone_surrogate(value):
            raise InputError(f"{name} has a lone surrogate, which no tokenizer reads: {value[:40]!r}; clean that row")
        return value
    if isinstance(value, Picture | Interleaved):
        return value
    if isinstance(value, PurePath) or type(value).__module__.startswith("PIL."):
        try:
            return Picture.of_file(str(value), name=str(value)) if isinstance(value, PurePath) else Picture.of_image(value, name=name)
        except InputError as error:
            raise _UnreadablePictureError(name, str(error)) from None
    if isinstance(value, tuple | list) and value:
        parts = [_as_content(part, f"{name}[{place}]") for place, part in enumerate(value)]
        flat = tuple(part for content in parts for part in parts_of(content))
        if any(isinstance(part, Picture) for part in flat):
            return flat[0] if len(flat) == 1 else Interleaved(flat)
    came = f"{' '.join(repr(value).split()):.60} ({type(value).__name__})"
    raise InputError(f"{name} must be a text (str) or a picture (pathlib.Path, PIL image), got {came}: {_way_out(value)}")


def _way_out(value: Any) -> str:
    """What to do with a value that is no content.

    Example:
        >>> _way_out(b"x"), _way_out(None)
        ('bytes of a picture go in as Picture.of_bytes(data, name=...)', 'leave that row out, or fill it')
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes of a picture go in as Picture.of_bytes(data, name=...)"
    if hasattr(value, "__array__"):
        return "an array of pixels goes in as PIL.Image.fromarray(array), rows x columns x 3 of uint8"
    if isinstance(value, tuple | list | dict):
        return "texts and pictures that belong together go in as a tuple of str and pathlib.Path with at least one picture"
    return "leave that row out, or fill it"


def model_input(st: SentenceTransformer, content: Content, opened: Opened = Picture.open) -> Any:
    """One content as sentence-transformers takes it.

    A text for a model that reads pictures is wrapped: as a bare str that looks like the path or the address of a picture,
    the library would open or fetch it.

    Args:
        st: the encoder.
        content: what to read.
        opened: turns a picture into an open image.
    """
    if isinstance(content, str):
        return content if reads(st) == "texts" else {"text": content}
    if isinstance(content, Picture):
        return {"image": opened(content)}
    if "message" in st.modalities:
        return [{"role": "user", "content": [_message_part(part, opened) for part in content.parts]}]
    if len(content.pictures) != 1:
        raise InputError(f"the model reads one picture beside a text, got {len(content.pictures)} ({content_words(content):.60})")
    return {"image": opened(content.pictures[0]), "text": content.text}


def _message_part(part: str | Picture, opened: Opened) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": opened(part)}


def put_together(count: int, width: int, groups: Sequence[Group], vectors: Sequence[np.ndarray]) -> np.ndarray:
    """The vectors of all contents in their order: for each the sum over its parts.

    Args:
        count: n contents.
        width: D.
        groups: of `group_contents`.
        vectors: one (m, D) array for each group.

    Returns:
        (n, D) float32.
    """
    result = np.zeros((count, width), dtype=np.float32)
    for group, rows in zip(groups, vectors, strict=True):
        np.add.at(result, group.owners, rows)
    return result


def grouped_features(
    st: SentenceTransformer,
    contents: Sequence[Content],
    *,
    prompt: str | None,
    opened: Opened = Picture.open,
) -> list[tuple[np.ndarray, Mapping[str, Any]]]:
    """The model-ready features of a batch, one entry for each modality in it.

    Args:
        st: the encoder.
        contents: the batch.
        prompt: put before texts (and as the system line of a chat); None is none.
        opened: turns a picture into an open image.

    Returns:
        (owners, features) of each group, see `Group`.
    """
    groups = group_contents(st, contents)
    return [(group.owners, ready(st, [model_input(st, content, opened) for content in group.inputs], prompt=prompt)) for group in groups]


def ready(st: SentenceTransformer, inputs: Sequence[Any], *, prompt: str | None, **settings: Any) -> Mapping[str, Any]:
    """Model-ready features of inputs of one modality (`model_input`); a chat keeps its ending however long it is.

    Args:
        st: the encoder.
        inputs: at least one.
        prompt: put before texts (and as the system line of a chat); None is none.
        settings: of `SentenceTransformer.preprocess`, such as the task.
    """
    if "message" in st.modalities and reads(st) == "together":
        return read_whole(st, inputs, prompt=prompt)
    return st.preprocess(list(inputs), prompt=prompt, **settings)
