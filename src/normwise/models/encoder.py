"""The encoder that a person uses: texts and pictures in, raw vectors out, scored as its contract says."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import load_file_path

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity, parse_similarity
from normwise.data.contents import Content
from normwise.data.pictures import Picture
from normwise.models.arrays import ArrayWriter
from normwise.models.backgrounds import as_trained
from normwise.models.contract import Contract, describe_encoder
from normwise.models.encoding import encode_contents
from normwise.models.inputs import Input, as_contents, reads
from normwise.models.loading import Loaded, load_plain
from normwise.models.saving import save_encoder
from normwise.models.seal import CONTRACT_FILE, check_unchanged, read_contract
from normwise.models.skipping import OnError, Skipped, collector
from normwise.models.structure import strip_normalize
from normwise.models.tasks import Role, task_of
from normwise.models.zero_vectors import ZeroVectors
from normwise.theory.directions import normalize

_CHUNKS = 32


@final
class Encoder:
    """An encoder with its contract: raw vectors whose norm is kept, and the similarity to score them by.

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

    @classmethod
    def of_plain(cls, loaded: Loaded, *, name: str) -> Encoder:
        """An encoder of a model that `load_plain` opened, as the model is now: of its contract the background alone is taken.

        Raises:
            InputError: there is a contract, and it cannot be read.
        """
        encoder = cls(loaded.model, name=name)
        found = load_file_path(loaded.target, CONTRACT_FILE, revision=loaded.revision)
        if found is not None:
            background = read_contract(Path(found)).background
            encoder.contract = encoder.contract.model_copy(update={"background": background})
        return encoder

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, similarity={self.similarity.value}, dimensions={self.dimensions}, raw norms kept)"

    @property
    def dimensions(self) -> int:
        """The width D of a vector."""
        return self.contract.dimensions

    def encode_queries(
        self, contents: Sequence[Input], *, batch_size: int = 64, progress: bool | None = None, on_error: OnError = "raise"
    ) -> np.ndarray:
        """Encode queries, the query prompt put before each text.

        Args:
            contents: n contents in any mixture; n may be 0. A str is a text, never the path of a picture; a picture is a
                `pathlib.Path`, an open PIL image or a `Picture`; text and picture together are a tuple or list of these
                in the order in which they are read, or an `Interleaved`.
            batch_size: contents per forward pass.
            progress: show a bar; None shows it on a terminal only.
            on_error: what a picture that cannot be opened does: "raise", or "skip", which gives its content the zero
                vector and warns with the count and the names.

        Returns:
            Raw float32 vectors (n, D) in the order of the contents.

        Raises:
            InputError: a content is None, NaN or another thing, a text has a lone surrogate, a picture cannot be opened,
                or the model reads no pictures; the message names its index.
            WorkError: a vector is not finite.

        Example:
            `encoder.encode_queries(["a red car", Path("car.png"), (Path("car.png"), "the same in blue")])`
        """
        return self._encode_all(contents, "query", batch_size=batch_size, progress=progress, on_error=on_error)

    def encode_candidates(
        self, contents: Sequence[Input], *, batch_size: int = 64, progress: bool | None = None, on_error: OnError = "raise"
    ) -> np.ndarray:
        """Encode candidates (documents), the document prompt put before each text; see `encode_queries`."""
        return self._encode_all(contents, "document", batch_size=batch_size, progress=progress, on_error=on_error)

    def encode_images(
        self, images: Sequence[Any], *, batch_size: int = 64, progress: bool | None = None, on_error: OnError = "raise"
    ) -> np.ndarray:
        """Encode pictures with a model that reads them (CLIP, SigLIP, a dual encoder, Qwen-VL); no prompt is put before them.

        Args:
            images: n open PIL images, paths or `Picture`s; n may be 0.
            batch_size: images per forward pass.
            progress: as in `encode_queries`.
            on_error: as in `encode_queries`.

        Returns:
            Raw float32 vectors (n, D) in the order of the images.

        Raises:
            InputError: the model reads no images, or something else than a picture is among them.
            WorkError: a vector is not finite.
        """
        if reads(self.model) == "texts":
            raise InputError(f"{self.name} reads {', '.join(map(str, self.model.modalities))}, not images: choose a model such as CLIP")
        skipped = collector(on_error, "images")
        contents = self._as_trained(as_contents(images, what="images", skipped=skipped), what="images")
        for index, content in enumerate(contents):
            if not isinstance(content, Picture) and not (skipped and index in skipped.problems):
                raise InputError(
                    f"images[{index}] must be a PIL image, a path or a Picture, got {type(images[index]).__name__}: "
                    "open it with PIL.Image.open(path), or give pathlib.Path(path)"
                )
        bar = sys.stderr.isatty() if progress is None else progress
        vectors = encode_contents(self.model, contents, batch_size=batch_size, progress=bar, skipped=skipped, what="images")
        zeros = ZeroVectors("images")
        zeros.add(vectors, contents, without=_rows_of(skipped, 0, len(contents)))
        _tell(skipped, zeros)
        return vectors

    def encode_to_memmap(
        self, contents: Iterable[Input], out: Path | str, *, role: Role = "document", batch_size: int = 64, on_error: OnError = "raise"
    ) -> np.ndarray:
        """Encode a stream of any length into a .npy file, a few batches in memory at a time.

        Args:
            contents: an iterable of contents as `encode_queries` takes them, read once.
            out: the .npy file; appears whole at the end, and replaces one that is there.
            role: whose prompt to use.
            batch_size: contents per forward pass.
            on_error: as in `encode_queries`; one warning at the end.

        Returns:
            The file as a read-only memory map (n, D), float32.

        Raises:
            InputError: as `encode_queries`, the index counted from the start of the stream.
            WorkError: the disk refused.
        """
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        skipped, zeros = collector(on_error, "contents"), ZeroVectors("contents")
        with ArrayWriter(Path(out), width=self.dimensions) as writer:
            for chunk in _chunks(contents, batch_size * _CHUNKS):
                first = writer.rows
                writer.append(self._encode(chunk, role, batch_size=batch_size, progress=False, first=first, skipped=skipped, zeros=zeros))
        _tell(skipped, zeros)
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

    def _encode_all(
        self, contents: Sequence[Input], role: Role, *, batch_size: int, progress: bool | None, on_error: OnError
    ) -> np.ndarray:
        skipped, zeros = collector(on_error, "contents"), ZeroVectors("contents")
        bar = sys.stderr.isatty() if progress is None else progress
        vectors = self._encode(contents, role, batch_size=batch_size, progress=bar, skipped=skipped, zeros=zeros)
        _tell(skipped, zeros, stacklevel=4)
        return vectors

    def _as_trained(self, contents: list[Content], *, what: str, first: int = 0) -> list[Content]:
        return as_trained(contents, self.contract.background, model=self.name, what=what, first=first)

    def _encode(
        self,
        contents: Sequence[Input],
        role: Role,
        *,
        batch_size: int,
        progress: bool,
        skipped: Skipped | None,
        zeros: ZeroVectors,
        first: int = 0,
    ) -> np.ndarray:
        known = self._as_trained(as_contents(contents, what="contents", first=first, skipped=skipped), what="contents", first=first)
        vectors = encode_contents(
            self.model,
            known,
            prompt=self.model.prompts.get(role) or None,
            task=task_of(self.model, role),
            batch_size=batch_size,
            progress=progress,
            skipped=skipped,
            what="contents",
            first=first,
        )
        zeros.add(vectors, known, first=first, without=_rows_of(skipped, first, len(known)))
        return vectors


def _rows_of(skipped: Skipped | None, first: int, count: int) -> list[int]:
    return [] if skipped is None else skipped.rows(first, count).tolist()


def _tell(skipped: Skipped | None, zeros: ZeroVectors, *, stacklevel: int = 3) -> None:
    if skipped is not None:
        skipped.warn(stacklevel=stacklevel)
    zeros.warn(stacklevel=stacklevel)


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


def _chunks(contents: Iterable[Input], size: int) -> Iterator[list[Input]]:
    if isinstance(contents, str | bytes):
        raise InputError("contents must be an iterable of texts and pictures, got one str: put it into a list")
    stream = iter(contents)
    while chunk := list(islice(stream, size)):
        yield chunk
