"""The encoder that a person uses: texts in, raw vectors out, scored as its contract says."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from normwise.core.errors import InputError, WorkError
from normwise.core.similarity import Similarity, parse_similarity
from normwise.models.arrays import ArrayWriter
from normwise.models.contract import Contract, describe_encoder
from normwise.models.loading import load_plain
from normwise.models.saving import save_encoder
from normwise.models.seal import check_unchanged
from normwise.models.structure import strip_normalize
from normwise.models.tasks import Role, task_of
from normwise.theory.directions import normalize

_CHUNKS = 32


@final
class Encoder:
    """A text encoder with its contract: raw vectors whose norm is kept, and the similarity to score them by.

    Args:
        model: a sentence-transformers model. A `Normalize` module at its end is taken away, in place.
        similarity: how to score; None takes the contract's, else the model's own.
        name: what to call it in results.
        contract: what is known about it.

    Raises:
        InputError: similarity or dimensions contradict the contract, or the model's own similarity is none of the four.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        similarity: Similarity | str | None = None,
        name: str = "model",
        contract: Contract | None = None,
    ) -> None:
        normalized = strip_normalize(model)
        chosen = None if similarity is None else parse_similarity(similarity)
        if contract is not None and chosen not in (None, contract.similarity):
            raise InputError(f"similarity {chosen} contradicts the model's contract, which says {contract.similarity.value}: leave it out")
        width = model.get_embedding_dimension()
        if contract is not None and contract.dimensions != width:
            raise InputError(f"the contract says {contract.dimensions} dimensions, but the model has {width}: leave contract out")
        self.model = model
        self.name = name
        self.similarity = chosen or (contract.similarity if contract is not None else _own_similarity(model, normalized=normalized))
        self.contract = contract or describe_encoder(model, similarity=self.similarity)

    @classmethod
    def load(cls, path_or_id: str | Path, *, device: str | None = None, trust_remote_code: bool = False) -> Encoder:
        """Open an encoder from a folder or the hub.

        A model that normwise saved is compared with its stored hashes and probe vectors first. Any other
        sentence-transformers model works too; norms are then those before its `Normalize` module, and a warning says so.

        Args:
            path_or_id: the folder or hub id.
            device: None chooses.
            trust_remote_code: run program code that the model brings along, which can do whatever you can.

        Raises:
            InputError: not found, no text encoder, code of its own that was not allowed, or changed since normwise saved it.
            WorkError: the files are those that were saved, but the model answers the probe texts differently here.
        """
        name = str(path_or_id)
        loaded = load_plain(name, device=device, trust_remote_code=trust_remote_code)
        contract = check_unchanged(name, loaded.target, loaded.model, revision=None, normalized=loaded.normalized)
        if contract is not None:
            return cls(loaded.model, name=name, contract=contract)
        for note in loaded.notes:
            warnings.warn(f"{name}: {note}", UserWarning, stacklevel=2)
        own = _own_similarity(loaded.model, normalized=loaded.normalized)
        described = describe_encoder(loaded.model, similarity=own)
        known = {"base_model": loaded.source, "base_revision": loaded.revision, "base_notes": loaded.notes}
        return cls(loaded.model, name=name, contract=described.model_copy(update=known))

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, similarity={self.similarity.value}, dimensions={self.dimensions}, raw norms kept)"

    @property
    def dimensions(self) -> int:
        """The width D of a vector."""
        return self.contract.dimensions

    def encode_queries(self, texts: Sequence[str], *, batch_size: int = 64, progress: bool | None = None) -> np.ndarray:
        """Encode queries, the query prompt put before each.

        Args:
            texts: n texts, each a str; n may be 0.
            batch_size: texts per forward pass.
            progress: show a bar; None shows it on a terminal only.

        Returns:
            Raw float32 vectors (n, D) in the order of the texts.

        Raises:
            InputError: a text is None, NaN, another non-str, or has a lone surrogate; the message names its index.
            WorkError: a vector is not finite.
        """
        return self._encode(texts, "query", batch_size=batch_size, progress=progress)

    def encode_candidates(self, texts: Sequence[str], *, batch_size: int = 64, progress: bool | None = None) -> np.ndarray:
        """Encode candidates (documents), the document prompt put before each; see `encode_queries`."""
        return self._encode(texts, "document", batch_size=batch_size, progress=progress)

    def encode_images(self, images: Sequence[Any], *, batch_size: int = 64, progress: bool | None = None) -> np.ndarray:
        """Encode images with the image tower of a model that has one (CLIP); no prompt is put before them.

        Args:
            images: n PIL images; n may be 0.
            batch_size: images per forward pass.
            progress: as in `encode_queries`.

        Returns:
            Raw float32 vectors (n, D) in the order of the images.

        Raises:
            InputError: the model reads no images, or something else than a PIL image is among them.
            WorkError: a vector is not finite.
        """
        if "image" not in self.model.modalities:
            raise InputError(f"{self.name} reads {', '.join(map(str, self.model.modalities))}, not images: choose a model such as CLIP")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        for index, image in enumerate(images):
            if not type(image).__module__.startswith("PIL."):
                raise InputError(f"images[{index}] must be a PIL image, got {type(image).__name__}: open it with PIL.Image.open(path)")
        if not len(images):
            return np.zeros((0, self.dimensions), dtype=np.float32)
        return self._vectors(list(images), "image", batch_size, progress, prompt="")

    def encode_to_memmap(self, texts: Iterable[str], out: Path | str, *, role: Role = "document", batch_size: int = 64) -> np.ndarray:
        """Encode a stream of any length into a .npy file, a few batches in memory at a time.

        Args:
            texts: an iterable of str, read once.
            out: the .npy file; appears whole at the end, and replaces one that is there.
            role: whose prompt to use.
            batch_size: texts per forward pass.

        Returns:
            The file as a read-only memory map (n, D), float32.

        Raises:
            InputError: as `encode_queries`, the index counted from the start of the stream.
            WorkError: the disk refused.
        """
        with ArrayWriter(Path(out), width=self.dimensions) as writer:
            for chunk in _chunks(texts, batch_size * _CHUNKS):
                writer.append(self._encode(chunk, role, batch_size=batch_size, progress=False, first=writer.rows))
        return np.load(out, mmap_mode="r")

    def score(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Score every query against every candidate under this encoder's similarity.

        Args:
            queries: raw vectors (B, D).
            candidates: raw vectors (N, D).

        Returns:
            (B, N) scores; a zero vector scores 0.
        """
        left = normalize(queries) if self.similarity.normalizes_query else queries
        right = normalize(candidates) if self.similarity.normalizes_candidate else candidates
        return left @ right.T

    def save(self, out: Path | str, *, card_text: str | None = None, overwrite: bool = False) -> None:
        """Write the encoder so that plain sentence-transformers loads it; see `save_encoder`."""
        save_encoder(self.model, out, contract=self.contract, card_text=card_text or self._card(), overwrite=overwrite)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, card_text: str | None = None) -> str:
        """Save to a temporary folder and upload it with the library's own call.

        Args:
            repo_id: owner/name.
            private: as the hub's default when None.
            token: None takes the one that is logged in.
            card_text: the README.md; None writes a short one.

        Returns:
            The address of the commit.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "model", card_text=card_text)
            return self.model.push_to_hub(
                repo_id, token=token, private=private, local_model_path=str(Path(folder) / "model"), exist_ok=True
            )

    def _card(self) -> str:
        front = (
            "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\ntags:\n- sentence-transformers\n- normwise\n---\n"
        )
        return f"{front}\n# {Path(self.name).name}\n\n{self.contract.scoring_words}.\n"

    def _encode(self, texts: Sequence[str], role: Role, *, batch_size: int, progress: bool | None, first: int = 0) -> np.ndarray:
        checked = _check_texts(texts, first)
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        if not checked:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        prompt_name = role if role in self.model.prompts else None
        task = task_of(self.model, role)
        return self._vectors(checked, "text", batch_size, progress, first=first, task=task, prompt_name=prompt_name)

    def _vectors(
        self, inputs: list[Any], what: str, batch_size: int, progress: bool | None, *, first: int = 0, **settings: Any
    ) -> np.ndarray:
        bar = sys.stderr.isatty() if progress is None else progress
        vectors: Any = self.model.encode(inputs, batch_size=batch_size, show_progress_bar=bar, convert_to_numpy=True, **settings)
        vectors = np.asarray(vectors.float().cpu() if isinstance(vectors, torch.Tensor) else vectors, dtype=np.float32)
        if vectors.shape != (len(inputs), self.dimensions):
            raise WorkError(f"the model gave vectors of shape {vectors.shape} for {len(inputs)} {what}s of width {self.dimensions}")
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if bad.size:
            raise WorkError(f"the vector of {what} {first + int(bad[0])} is not finite ({bad.size} in all): use float32, or another model")
        return vectors


def _own_similarity(model: SentenceTransformer, *, normalized: bool) -> Similarity:
    own = model.similarity_fn_name
    if normalized:
        # Behind a Normalize module the dot product is the cosine; before it, it is not.
        return Similarity.COSINE
    if own not in (Similarity.COSINE.value, Similarity.DOT.value):
        raise InputError(
            f"the model scores by {own}, which is none of {[s.value for s in Similarity]}: pass Encoder(model, similarity=...)"
        )
    return Similarity(own)


def _check_texts(texts: Sequence[str], first: int) -> list[str]:
    if isinstance(texts, str | bytes):
        raise InputError("texts must be a list of str, got one str: put it into a list")
    checked = list(texts)
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise InputError(f"texts[{first + index}] must be a str, got {text!r:.60} ({type(text).__name__}): drop or fill that row")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                f"texts[{first + index}] has a lone surrogate, which no tokenizer reads: {text[:40]!r}; clean that row"
            ) from None
    return checked


def _chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    if isinstance(texts, str | bytes):
        raise InputError("texts must be an iterable of str, got one str: put it into a list")
    stream = iter(texts)
    while chunk := list(islice(stream, size)):
        yield chunk
