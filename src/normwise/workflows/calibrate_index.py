"""What a calibration of an index is made from: the judged queries, asked of the index as it answers in use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.calibration_records import Fingerprint
from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.data.contents import Content
from normwise.data.texts import printable
from normwise.index.row_hashes import vectors_hash
from normwise.workflows.calibrate_data import Asked
from normwise.workflows.calibrate_hits import Searched, judge_hits, search_index
from normwise.workflows.calibrate_material import VECTORS, WORDS_COUNTED, AskHow, Describe, Material, given_vectors, name_of, word_counts
from normwise.workflows.text_lengths import text_lengths

if TYPE_CHECKING:
    from normwise.index.protocol import Index
    from normwise.models.encoder import Encoder


def ask_index(encoder: Encoder, index: Index, asked: Asked, how: AskHow) -> Material:
    """Encode queries, and search an index of the vectors of their model.

    Raises:
        InputError: the index holds vectors of another model, or scores by another similarity.
    """
    from normwise.models.fingerprint import model_fingerprint

    manifest, own, notes = index.manifest, model_fingerprint(encoder), []
    if manifest.similarity != encoder.similarity.value:
        raise InputError(
            f"the index scores by {manifest.similarity}, and {encoder.name} by {encoder.similarity.value}: build the index again with the "
            "model, or name the one it was built with"
        )
    if manifest.model == VECTORS:
        notes.append("the index does not tell which model its vectors are of, so nothing checked that they are of this one")
    elif manifest.model != own:
        called = f" ({manifest.model_name})" if manifest.model_name else ""
        raise InputError(
            f"the index holds vectors of another model{called} than {encoder.name}: build it again with this model, or name that one"
        )
    judged = asked.judged
    queries = encoder.encode_queries(judged.queries, batch_size=how.batch_size, progress=how.progress)
    lengths = text_lengths(encoder, judged.queries), text_lengths(encoder, judged.corpus.contents)
    names = printable(encoder.name), own
    return _asked(queries, index, asked, how, names=names, lengths=lengths, notes=notes)


def ask_index_vectors(
    files: tuple[str | Path, str | Path], index: Index, asked: Asked, data: str | Path, similarity: Similarity, how: AskHow
) -> Material:
    """Search an index of bare vectors with bare vectors; rows of both files are those of queries.jsonl and corpus.jsonl of the data.

    Raises:
        InputError: as `ask_vectors`; an index that a model made, that scores by another similarity, or that holds other vectors.
    """
    manifest = index.manifest
    if manifest.model != VECTORS:
        called = f": {manifest.model_name}" if manifest.model_name else ""
        raise InputError(f"the index was built with a model{called}; name it in place of vectors, so that its texts are judged too")
    if manifest.similarity != similarity.value:
        raise InputError(f"the index scores by {manifest.similarity}, and {similarity.value} came: give the similarity of the index")
    queries, candidates = given_vectors(files, asked, data)
    corpus = vectors_hash(asked.judged.corpus.ids, candidates)
    if len(index) != len(candidates):
        raise InputError(
            f"the index holds {len(index):,} candidates, and {files[1]} has {len(candidates):,}: bring corpus.jsonl, its qrels and "
            f"{files[1]} up to date with the index"
        )
    if manifest.corpus_vectors and manifest.corpus_vectors != corpus:
        built = ("--similarity", similarity.value, "--method", manifest.method, "--out", "NEW-INDEX")
        command = shlex.join(["normwise", "index", "build", "--vectors", str(files[1]), "--data", str(data), *built])
        raise InputError(
            f"the index holds other vectors, or other ids, than {files[1]} with the ids of corpus.jsonl: give the files of what it holds "
            f"now, or build one from these: {command}"
        )
    lengths = word_counts(asked.judged.queries), word_counts(asked.judged.corpus.contents)
    return _asked(queries, index, asked, how, names=(name_of(files), VECTORS), lengths=lengths, notes=[WORDS_COUNTED])


def _asked(
    queries: np.ndarray,
    index: Index,
    asked: Asked,
    how: AskHow,
    *,
    names: tuple[str, str],
    lengths: tuple[np.ndarray, np.ndarray],
    notes: list[str],
) -> Material:
    """Ask an index; `names` are that of what made the queries, and its hash."""
    manifest = index.manifest
    found, more = search_index(queries, index, asked, depth=how.depth)
    unknown = int(np.count_nonzero(found.rows[:, 0] < 0))
    if unknown == len(asked.judged):
        raise InputError(
            "no first hit of the index is in the corpus of the data: their ids must be the same; build the index from these data"
        )
    if unknown:
        notes = [*notes, f"{unknown:,} of {len(asked.judged):,} first hits are not in the corpus of the data, and count as wrong"]
    hits = judge_hits(
        found,
        asked,
        similarity=Similarity(manifest.similarity),
        query_lengths=lengths[0],
        candidate_lengths=lengths[1],
        seed=how.seed,
    )
    return Material(
        name=names[0],
        judged=hits,
        found=found,
        similarity=Similarity(manifest.similarity),
        temperature=how.temperature,
        fingerprint=Fingerprint(
            model=names[1],
            similarity=manifest.similarity,
            search=manifest.search_kind,
            candidates=found.candidates,
            corpus_texts=manifest.corpus_texts,
            corpus_vectors=manifest.corpus_vectors,
            depth=found.depth,
        ),
        lengths_at_search=found.lengths is not None and names[1] != VECTORS,
        describe=_describer(found, index, asked),
        vectors=None,
        lengths=lengths,
        notes=(*notes, *more),
    )


def _describer(found: Searched, index: Index, asked: Asked) -> Describe:
    corpus = asked.judged.corpus

    def describe(row: int, place: int) -> tuple[str, Content]:
        name = str(found.names[row, place]) if found.names is not None else ""
        at = int(found.rows[row, place])
        # What only the index knows comes as it keeps it: of a picture that is words.
        return name, corpus.contents[at] if at >= 0 else index.texts([name])[0] or ""

    return describe
