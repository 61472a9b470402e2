"""The contract that travels with the weights: how the vectors were made and how they are to be scored."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from pydantic import Field
from sentence_transformers import SentenceTransformer

from normwise.core.config import ColorName, LoraConfig
from normwise.core.errors import InputError
from normwise.core.records import Record
from normwise.core.similarity import Similarity
from normwise.models.inputs import reads
from normwise.models.origin import base_notes, base_source
from normwise.models.structure import count_layers, pooling_name, token_limit

_PACKAGES = ("normwise", "torch", "transformers", "sentence-transformers", "peft", "numpy")
# The most that other hardware may round away, whatever a contract says: beyond it the model is another one.
_LARGEST_TOLERANCE = 1e-2
_QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


class NormDistribution(Record):
    """Norms of the raw vectors of a set of texts: mean, standard deviation over mean, quantiles."""

    of: str
    count: int
    mean: float
    cv: float
    quantiles: Mapping[str, float]


class Contract(Record):
    """Everything that decides what a vector of this encoder means.

    `similarity` is how it is to be scored; `plain_similarity` how plain sentence-transformers scores it, which ranks
    candidates the same way (a query's own norm never changes its ranking). `text_with_picture` says what the vector of a text
    and a picture together is: the sum of the vectors of both, or that of one pass over them. `background` is the color that
    showed in training where a picture is transparent, and shows ever after; None where nothing was trained on pictures by
    normwise, and data may say it. A contract without the word is from before it, when white was.
    The hashes are those of the weight files, of
    each other file that decides the vectors, and of this contract itself; a format before them has them empty.
    """

    format: int = 1
    similarity: Similarity
    plain_similarity: Similarity
    pooling: str | None
    dimensions: int
    max_tokens: int | None
    layers: int | None
    temperature: float | None = None
    query_prompt: str = ""
    candidate_prompt: str = ""
    base_model: str
    base_revision: str | None = None
    base_notes: tuple[str, ...] = ()
    lora: Mapping[str, Any] | None = None
    norm_freedom: str | None = None
    norms: NormDistribution | None = None
    modalities: tuple[str, ...] = ("text",)
    text_with_picture: str | None = None
    background: ColorName | None = "white"
    probe_tolerance: float = Field(default=1e-3, gt=0, le=_LARGEST_TOLERANCE)
    versions: Mapping[str, str] = Field(default_factory=dict)
    weights_sha256: str = ""
    files_sha256: Mapping[str, str] = Field(default_factory=dict)
    contract_sha256: str = ""

    @property
    def scoring_words(self) -> str:
        """What to do with the vectors, in words."""
        if self.similarity is self.plain_similarity:
            plain = f"plain sentence-transformers scores by {self.plain_similarity.value} too"
        else:
            plain = f"plain sentence-transformers scores by {self.plain_similarity.value}: other numbers, the same ranking"
        keep = (
            "do not normalize candidate vectors"
            if not self.similarity.normalizes_candidate
            else "candidate norms do not change the ranking"
        )
        return f"similarity: {self.similarity.value}; {plain}; {keep}"


def describe_encoder(
    st: SentenceTransformer,
    *,
    similarity: Similarity,
    temperature: float | None = None,
    lora: LoraConfig | None = None,
    norms: NormDistribution | None = None,
    norm_freedom: str | None = None,
    background: ColorName | None = None,
) -> Contract:
    """Write an encoder's contract down.

    Args:
        st: the encoder.
        similarity: how it was trained to be scored.
        temperature: that divides the score, > 0.
        lora: the adapters' recipe, if a stage used them.
        norms: of a set of candidates (`norm_distribution`); None takes the probe texts when it is saved.
        norm_freedom: the words of the gate of that name.
        background: what showed in training where pictures are transparent; None where it was trained on none.
    """
    width = st.get_embedding_dimension()
    if width is None:
        raise InputError("the model does not tell its width: it cannot be described")
    source, revision = base_source(st)
    kind = reads(st)
    return Contract(
        similarity=similarity,
        plain_similarity=similarity.ranking,
        pooling=pooling_name(st),
        dimensions=width,
        max_tokens=token_limit(st),
        layers=count_layers(st),
        temperature=temperature,
        query_prompt=st.prompts.get("query") or "",
        candidate_prompt=st.prompts.get("document") or "",
        base_model=source,
        base_revision=revision,
        base_notes=base_notes(st),
        lora=None if lora is None else lora.model_dump(mode="json"),
        norm_freedom=norm_freedom,
        norms=norms,
        modalities=("text",) if kind == "texts" else ("text", "image"),
        text_with_picture={"texts": None, "towers": "sum", "together": "one pass"}[kind],
        background=background,
        versions={name: version(name) for name in _PACKAGES},
    )


def norm_distribution(norms: np.ndarray, *, of: str) -> NormDistribution:
    """Summarize norms.

    Args:
        norms: (n,), n >= 1, >= 0.
        of: whose norms they are, in words.

    Raises:
        InputError: there are none, or one is not a finite number.

    Example:
        >>> norm_distribution(np.array([1.0, 3.0]), of="two texts").mean
        2.0
    """
    values = np.asarray(norms, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise InputError(f"norms must be a non-empty row of finite numbers, got shape {values.shape}")
    mean = float(values.mean())
    quantiles = {f"{level:g}": float(value) for level, value in zip(_QUANTILES, np.quantile(values, _QUANTILES), strict=True)}
    return NormDistribution(of=of, count=values.size, mean=mean, cv=float(values.std() / mean) if mean > 0 else 0.0, quantiles=quantiles)
