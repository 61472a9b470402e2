"""From what a trainer hands over to vectors in a fixed order of columns: positives, explicit negatives, shared pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from normwise.core.errors import InputError
from normwise.core.shapes import Float, Int
from normwise.objectives.candidates import embedding_rows, stack_rows, token_rows

Features = Mapping[str, Any]
_TEXT_KEYS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_LABEL_KEYS = frozenset({"negative_counts", "uniform_count", "log_g", "groups", "contents"})


@dataclass(frozen=True, eq=False)
class Columns:
    """One batch of this process, embedded; the N columns are positives, then explicit negatives, then the shared pool.

    Attributes:
        queries: (B, D) raw query vectors.
        candidates: (N, D) raw candidate vectors; column i < B is the positive of query i.
        owners: (N,) query a column came with, -1 for the pool.
        query_rows: (B, L) content of each query for exact comparison (`candidates.token_rows`).
        candidate_rows: (N, L) content of each candidate.
        log_g: (N,) log sampling probability of each candidate, or None.
        pool_size: number of columns in the shared pool.
    """

    queries: Float[Tensor, "B D"]
    candidates: Float[Tensor, "N D"]
    owners: Int[Tensor, " N"]
    query_rows: Int[Tensor, "B L"]
    candidate_rows: Int[Tensor, "N M"]
    log_g: Float[Tensor, " N"] | None
    pool_size: int


def embed_columns(model: nn.Module, sentence_features: Sequence[Features], labels: Any) -> Columns:
    """Run the model over every column and arrange the result.

    Args:
        model: maps a dict of features to a dict that holds `sentence_embedding`.
        sentence_features: [anchor, positive, further columns ...].
        labels: None, when every further column is one aligned negative per query; or a dict with `negative_counts`
            (int64 (B,): the third column is the flat list of all explicit negatives), `uniform_count` (the last column
            is a pool that all queries share) and `log_g` (float32 (N,)), each where it applies. Where a column mixes
            modalities, `groups` lists for every column one int64 tensor (m,) for each of its groups of features, in their
            order: the row of the column that each input is a part of; a row's vector is the sum of its parts'. With it
            comes `contents` (int64 (B + N,)): equal numbers are equal contents, queries first.

    Raises:
        InputError: columns or labels that do not fit together.
    """
    features = list(sentence_features)
    groups = None if not isinstance(labels, Mapping) else labels.get("groups")
    if (len(features) if groups is None else len(groups)) < 2:
        raise InputError(f"at least two columns (anchor, positive) were expected, got {len(features)}: add the positives")
    embeddings = _embed(model, features) if groups is None else _embed_groups(model, features, groups)
    counts, pool = _read_labels(labels, device=embeddings[0].device)
    owners = _owners(embeddings, counts, pool)
    candidates = torch.cat(embeddings[1:])
    log_g = None if labels is None else labels.get("log_g")
    if log_g is not None and log_g.numel() != candidates.shape[0]:
        raise InputError(f"log_g: {candidates.shape[0]} values were expected (positives, negatives, pool), got {log_g.numel()}")
    if groups is None:
        rows = [_content(f, e) for f, e in zip(features, embeddings, strict=True)]
    else:
        rows = _told_contents(None if labels is None else labels.get("contents"), embeddings)
    return Columns(
        queries=embeddings[0],
        candidates=candidates,
        owners=owners,
        query_rows=rows[0],
        candidate_rows=stack_rows(rows[1:]),
        log_g=None if log_g is None else log_g.to(candidates.device),
        pool_size=pool,
    )


def _read_labels(labels: Any, *, device: torch.device) -> tuple[Tensor | None, int]:
    if labels is None:
        return None, 0
    if not isinstance(labels, Mapping):
        raise InputError(
            f"labels: None or a dict of {sorted(_LABEL_KEYS)} was expected, got {type(labels).__name__}: drop the label column"
        )
    if unknown := sorted(set(labels) - _LABEL_KEYS):
        raise InputError(f"labels: unknown keys {unknown}, known are {sorted(_LABEL_KEYS)}")
    counts = labels.get("negative_counts")
    if counts is None:
        raise InputError("labels: negative_counts is missing; give zeros where there are no explicit negatives")
    return counts.to(device), int(labels.get("uniform_count", 0))


def _owners(embeddings: list[Tensor], counts: Tensor | None, pool: int) -> Tensor:
    queries, positives, *rest = embeddings
    size = queries.shape[0]
    each = torch.arange(size, device=queries.device)
    if positives.shape[0] != size:
        raise InputError(f"positive column: {size} rows were expected (one for each query), got {positives.shape[0]}")
    if counts is None:
        for number, block in enumerate(rest):
            if block.shape[0] != size:
                raise InputError(f"negative column {number + 1}: {size} rows were expected (one for each query), got {block.shape[0]}")
        return each.repeat(1 + len(rest))
    if counts.shape[0] != size:
        raise InputError(f"negative_counts: {size} values were expected, got {counts.shape[0]}")
    expected = [rows for rows in (int(counts.sum()), pool) if rows]
    came = [block.shape[0] for block in rest]
    if came != expected:
        raise InputError(f"columns after the positives: {expected} rows were expected by negative_counts and uniform_count, got {came}")
    return torch.cat([each, torch.repeat_interleave(each, counts), each.new_full((pool,), -1)])


def _content(features: Features, embeddings: Tensor) -> Tensor:
    ids = features.get("input_ids")
    if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.shape[0] != embeddings.shape[0]:
        return embedding_rows(embeddings)
    mask = features.get("attention_mask")
    return token_rows(ids, mask if isinstance(mask, Tensor) and mask.shape == ids.shape else None)


def _told_contents(contents: Tensor | None, embeddings: list[Tensor]) -> list[Tensor]:
    sizes = [embedding.shape[0] for embedding in embeddings]
    if contents is None or contents.numel() != sum(sizes):
        came = "none" if contents is None else contents.numel()
        raise InputError(f"contents: {sum(sizes)} numbers were expected beside groups (queries, then candidates), got {came}")
    return list(contents.to(embeddings[0].device).reshape(-1, 1).split(sizes))


def _embed_groups(model: nn.Module, features: list[Features], groups: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The vectors of columns that mix modalities: each group of features in a pass of its own, parts summed by row."""
    if sum(map(len, groups)) != len(features):
        raise InputError(f"groups: {len(features)} groups of features were expected, got {sum(map(len, groups))}")
    waiting = iter(features)
    columns = []
    for owners in groups:
        vectors = torch.cat([model(dict(next(waiting)))["sentence_embedding"] for _ in owners])
        rows = torch.cat(list(owners)).to(vectors.device)
        if rows.numel() != vectors.shape[0]:
            raise InputError(f"groups: {rows.numel()} rows were named for {vectors.shape[0]} inputs of a column")
        columns.append(vectors.new_zeros(int(rows.max()) + 1, vectors.shape[1]).index_add(0, rows, vectors))
    return columns


def _embed(model: nn.Module, features: list[Features]) -> list[Tensor]:
    # Queries are often much shorter than documents, so only the candidate columns share a forward pass.
    merged = _merge(features[1:]) if len(features) > 2 else None
    if merged is None:
        return [model(dict(f))["sentence_embedding"] for f in features]
    sizes = [f["input_ids"].shape[0] for f in features[1:]]
    queries = model(dict(features[0]))["sentence_embedding"]
    return [queries, *model(merged)["sentence_embedding"].split(sizes)]


def _merge(features: list[Features]) -> dict[str, Tensor] | None:
    keys = set(features[0])
    if not {"input_ids", "attention_mask"} <= keys <= _TEXT_KEYS or any(set(f) != keys for f in features):
        return None
    shapes_agree = all(f[key].ndim == 2 and f[key].shape == f["input_ids"].shape for f in features for key in keys)
    if not shapes_agree:
        return None
    width = max(f["input_ids"].shape[1] for f in features)
    return {key: torch.cat([nn.functional.pad(f[key], (0, width - f[key].shape[1])) for f in features]) for key in keys}
