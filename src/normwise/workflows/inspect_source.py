"""What is inspected: a model on texts, vectors, or an embedding table, brought to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.records import GateReport
from normwise.data.factors import token_counts, word_list
from normwise.data.norm_inputs import VECTOR_SUFFIXES, VectorInput, array_input, open_vectors, refuse_table
from normwise.data.opening import kind_of, user_path
from normwise.data.safetensors_tables import is_checkpoint
from normwise.data.text_files import read_texts
from normwise.data.texts import text_problem
from normwise.data.token_strings import token_words
from normwise.theory.directions import exact_norms, normalize

if TYPE_CHECKING:
    from normwise.models.encoder import Encoder

LIMIT = 4_000
OBVIOUS = "auto"
_MODEL_FILES = ("modules.json", "config.json")


@dataclass(frozen=True)
class Material:
    """Vectors with what is known of them.

    `texts` (one per row, None where a row has none) give factors; `tokens` their counts as the model reads them.
    `after` are the norms behind the model's own Normalize module, None where it has none. `closed_form` is what the
    model's last norm layer says. `separate` says that each text is one token of a table. `encoder` is the open model, if one was.
    """

    vectors: VectorInput
    texts: tuple[str | None, ...] | None = None
    tokens: np.ndarray | None = None
    after: np.ndarray | None = None
    closed_form: Literal["plane-bound", "ellipsoid-bound"] | None = None
    closed_freedom: float | None = None
    separate: bool = False
    encoder: Encoder | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How a source is to be read: which part of a file, which column of texts, how many texts a model gets."""

    column: str | None = None
    table: str | None = None
    text_column: str | None = None
    limit: int = LIMIT
    batch_size: int = 64
    progress: bool | None = False
    seed: int = 0
    trust_remote_code: bool = False


@dataclass(frozen=True)
class OpenModel:
    """An open encoder, what its last norm layer says of texts, whether it had a `Normalize`, and notes on its opening."""

    encoder: Encoder
    freedom: GateReport
    normalized: bool
    notes: tuple[str, ...] = ()


def open_source(source: str | Path | np.ndarray, texts: str | Path | Sequence[str] | None, how: Reading) -> Material:
    """Bring a source to one form; a model encodes its texts here.

    Args:
        source: an array, a file of vectors, a checkpoint (a .safetensors file, or a folder or hub id with `how.table`), or a
            model's folder or hub id.
        texts: one per row (or what a model is to encode): a list, or a file of them. None gives a model the built-in words.
        how: see `Reading`.

    Raises:
        InputError: nothing that can be read, or texts that do not fit; the message names what.
    """
    if isinstance(source, np.ndarray):
        _refuse_reading(how, "an array")
        return _with_texts(Material(array_input(source)), texts, how)
    if not isinstance(source, str | Path):
        raise InputError(f"source is {type(source).__name__}; expected a path, a hub id or a float array of rows of vectors")
    if how.table is not None:
        return _table(_resolved(source), texts, how)
    if is_model(source):
        return _encoded(open_model(str(source), how), texts, how)
    vectors = open_vectors(source, column=how.column)
    return _table_words(vectors, texts) if vectors.tokens is not None else _with_texts(Material(vectors, notes=vectors.notes), texts, how)


def is_model(source: str | Path | np.ndarray, *, table: str | None = None) -> bool:
    """Whether a source is a model to encode with: a folder of one, or a name that is no file of vectors."""
    if table is not None or not isinstance(source, str | Path):
        return False
    path = user_path(source, what="source")
    kind = kind_of(path)
    if kind == "folder":
        return any((path / name).is_file() for name in _MODEL_FILES)
    looks_like_a_file = path.name.lower().endswith(VECTOR_SUFFIXES) or is_checkpoint(path)
    return kind is None and not looks_like_a_file


def _resolved(source: str | Path) -> Path:
    """The folder of a model named by its id, where it is at hand."""
    path = user_path(source, what="source")
    if kind_of(path) is not None:
        return path
    _need_models()
    from normwise.models.loading import resolve_name

    target = Path(resolve_name(str(source))[0])
    if kind_of(target) != "folder":
        raise InputError(f"table: {source} is no folder here: download it once, and give the folder or its .safetensors file")
    return target


def _table(path: Path, texts: object, how: Reading) -> Material:
    refuse_table(how.table, path)
    vectors = open_vectors(path, column=how.column, table=None if how.table == OBVIOUS else how.table)
    return _table_words(vectors, texts)


def _table_words(vectors: VectorInput, texts: object) -> Material:
    if texts is not None:
        raise InputError(f"texts: the rows of {vectors.name} are tokens, whose strings come from its tokenizer: leave texts out")
    if vectors.tokens is None:
        return Material(vectors, notes=vectors.notes)
    words = tuple(token_words(vectors.tokens))
    whole = sum(word is not None for word in words)
    note = f"factors rest on the {whole:,} rows that are whole lower-case words; parts of words and special tokens have none"
    return Material(vectors, texts=words, separate=True, notes=(*vectors.notes, note))


def _with_texts(material: Material, texts: str | Path | Sequence[str] | None, how: Reading) -> Material:
    if texts is None:
        if how.text_column is not None:
            raise InputError(f"text_column = {how.text_column!r} is of a file of texts, and none was given: leave it out")
        return material
    given, rows = _read(texts, how), material.vectors.rows.shape[0]
    if len(given) != rows:
        where = str(texts) if isinstance(texts, str | Path) else "texts"
        raise InputError(f"{where}: {len(given):,} texts for {rows:,} vectors: expected one each, in the order of the vectors")
    return replace(material, texts=tuple(given))


def _read(texts: str | Path | Sequence[str], how: Reading) -> list[str]:
    if isinstance(texts, str | Path):
        return read_texts(texts, column=how.text_column)
    for row, text in enumerate(texts):
        if (problem := text_problem(text)) is not None:
            raise InputError(f"texts, row {row} {problem}; expected a text for every row")
    return list(texts)


def open_model(name: str, how: Reading) -> OpenModel:
    """Open a model, a `Normalize` at its end taken away, and ask how its last norm layer binds the norms of texts.

    Args:
        name: its folder or hub id.
        how: what of it applies to files of vectors is refused.

    Raises:
        InputError: no such model, code of its own that was not allowed, or a column or table of a model.
        MissingExtraError: the packages of models are not installed.
    """
    _refuse_reading(how, "a model")
    _need_models()
    from normwise.models.encoder import Encoder
    from normwise.models.freedom import norm_freedom
    from normwise.models.loading import load_plain

    loaded = load_plain(name, trust_remote_code=how.trust_remote_code)
    # Asked before the encoder is made: a Normalize that is left would be an answer too.
    freedom = norm_freedom(loaded.model)
    return OpenModel(Encoder.of_plain(loaded, name=name), freedom, loaded.normalized, tuple(loaded.notes))


def closed_form(freedom: GateReport | None) -> tuple[Literal["plane-bound", "ellipsoid-bound"] | None, float | None]:
    """The form that a model's last norm layer gives to its norms, and what it leaves free; None twice where it gives none.

    Example:
        >>> closed_form(GateReport(name="norm_freedom", passed=True, words="free: no norm layer"))
        (None, None)
    """
    words = "" if freedom is None else freedom.words
    form = "plane-bound" if words.startswith("plane-bound") else "ellipsoid-bound" if words.startswith("ellipsoid-bound") else None
    return form, freedom.figures["radial_freedom"] if freedom is not None and form else None


def _encoded(model: OpenModel, texts: str | Path | Sequence[str] | None, how: Reading) -> Material:
    chosen, notes = _texts_of_model(texts, how)
    vectors = model.encoder.encode_candidates(chosen, batch_size=how.batch_size, progress=how.progress)
    material = text_material(model, vectors, chosen)
    return replace(material, notes=(*notes, *model.notes, *material.notes))


def text_material(model: OpenModel, vectors: np.ndarray, texts: Sequence[str]) -> Material:
    """Vectors of texts by a model, with their token counts and what the model's last norm layer says."""
    from normwise.models.structure import token_limit
    from normwise.models.tokens import token_counter

    counts = token_counts(texts, token_counter(model.encoder.model))
    limit = token_limit(model.encoder.model)
    cut = 0 if limit is None else int((counts > limit).sum())
    long = [f"{cut:,} texts are longer than the {limit} tokens that the model reads: their length counts as {limit}"] if cut else []
    form, freedom = closed_form(model.freedom)
    return Material(
        array_input(vectors, name=model.encoder.name),
        texts=tuple(texts),
        tokens=counts if limit is None else np.minimum(counts, limit),
        after=after_normalize(model, vectors),
        closed_form=form,
        closed_freedom=freedom,
        encoder=model.encoder,
        notes=(model.freedom.words, *long),
    )


def after_normalize(model: OpenModel, vectors: np.ndarray) -> np.ndarray | None:
    """The norms behind the model's own Normalize module; None where it has none."""
    return exact_norms(normalize(vectors), name="normalized vectors") if model.normalized else None


def _texts_of_model(texts: str | Path | Sequence[str] | None, how: Reading) -> tuple[list[str], list[str]]:
    if how.limit < 2:
        raise InputError(f"limit is {how.limit}; expected at least 2 texts")
    if texts is None:
        chosen, note = word_list(how.limit, seed=how.seed)
        return chosen, [note]
    given = _read(texts, how)
    if len(given) <= how.limit:
        return given, []
    rows = np.sort(np.random.default_rng(how.seed).choice(len(given), size=how.limit, replace=False))
    return [given[row] for row in rows], [f"{how.limit:,} of {len(given):,} texts encoded, drawn by seed {how.seed}; raise limit for more"]


def _refuse_reading(how: Reading, what: str) -> None:
    for argument in ("column", "table"):
        if (value := getattr(how, argument)) is not None:
            raise InputError(f"{argument} = {value!r} is of a file of vectors, and the source is {what}: leave it out")


def _need_models() -> None:
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", extra="train")
