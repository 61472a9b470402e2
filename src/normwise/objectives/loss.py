"""The one loss module: similarity, temperature, candidates and weights put together for a trainer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from normwise.core.config import FocalConfig, NegativeSource, TemperatureConfig, Weighting
from normwise.core.errors import InputError, near_names
from normwise.core.shapes import Float, Int
from normwise.core.similarity import Similarity, parse_similarity
from normwise.objectives.bigbatch import rank, world_size
from normwise.objectives.border import (
    NegativesWatch,
    parse_negatives,
    read_temperature,
    refuse_missing_confidence,
    refuse_non_finite,
    refuse_normalized,
    refuse_overflow,
    refuse_wrong_source,
    warn_of_unit_norms,
)
from normwise.objectives.columns import Columns, embed_columns
from normwise.objectives.directions import Direction, backward_direction, forward_direction
from normwise.objectives.focal import QueryWeights, query_weights, unit_mean_weights, weighted_mean
from normwise.objectives.infonce import InfoNCE, correct_sampling, dcl, infonce
from normwise.objectives.scores import normalize, norms, score_matrix, transposed, without_autocast
from normwise.objectives.temperature import build_temperature

_LOSSES = {"infonce": infonce, "dcl": dcl}
_DEFAULT_FOCAL = FocalConfig()

LogitsHook = Callable[[Tensor, Tensor, Tensor], None]


@dataclass(frozen=True, eq=False)
class LossObservation:
    """What the last batch of this process looked like; detached, on the device of the batch.

    With the symmetric loss, probability, residuals and weights are those of the direction query -> candidate.

    Attributes:
        positive_probability: (B,) softmax probability of the positive under the trained logits.
        residual: (B,) 1 - that probability, computed stably.
        confidence_residual: (B,) residual of the cosine confidence that the focal weights use; None without tau_w.
        weights: (B,) weight of each query.
        mean_weight: () mean weight over all processes; below 1 where the cap was met.
        effective_sample_size: () (sum w)^2 / sum w^2 over all processes.
        query_norms: (B,) norms of the raw query vectors.
        positive_norms: (B,) norms of the raw positives.
        candidate_norms: (N,) norms of all candidate columns of this process.
        positive_cosine: (B,) cosine of each query with its positive.
        random_cosine: () mean cosine of a query with the other candidate columns of this process (anisotropy A1).
        loss_per_query: (B,) unweighted loss, in nats.
        temperature: () tau.
        n_duplicates_masked: () entries of the score matrix that were left out as duplicates.
    """

    positive_probability: Float[Tensor, " B"]
    residual: Float[Tensor, " B"]
    confidence_residual: Float[Tensor, " B"] | None
    weights: Float[Tensor, " B"]
    mean_weight: Float[Tensor, ""]
    effective_sample_size: Float[Tensor, ""]
    query_norms: Float[Tensor, " B"]
    positive_norms: Float[Tensor, " B"]
    candidate_norms: Float[Tensor, " N"]
    positive_cosine: Float[Tensor, " B"]
    random_cosine: Float[Tensor, ""]
    loss_per_query: Float[Tensor, " B"]
    temperature: Float[Tensor, ""]
    n_duplicates_masked: Int[Tensor, ""]


class FocalEmbeddingLoss(nn.Module):
    r"""Contrastive loss with focal weights, for `SentenceTransformerTrainer` or any loop.

        z_ij = s(q_i, c_j) / tau,    l_i = -log softmax(z_i)[positive],    L = (1/N) sum_i w_i l_i,
        w_i = N rho_i^gamma / sum rho^gamma,    rho_i = 1 - softmax(cos(q_i, .) / tau_w)[positive]

    The weights are constants for the gradient, dL/dz_i = (w_i/N)(p_i - e_+), and N counts the queries of the micro-batch of
    all processes (under gradient accumulation: per micro-batch). gamma = 0, or `focal=None`, is plain InfoNCE. Scores,
    softmax and norms are computed in float32 whatever autocast says.

    Columns are [anchor, positive, negatives ...]; every column is a candidate for every query (with
    `negatives="uniform"`: the query's own columns and the shared pool only, so that the law of the negatives stays
    uniform). Columns with the same tokens as a query's positive are left out of its row; inputs without token ids are
    compared by their embeddings, bit for bit.

    Args:
        model: maps a dict of features to a dict with `sentence_embedding`, e.g. a `SentenceTransformer`.
        similarity: one of the four names; see `normwise.core.similarity.Similarity`.
        temperature: tau > 0, or a `TemperatureConfig` (fixed or learnable). Cosine has a default of 0.05 (scale 20);
            every other similarity needs one, since the right value depends on the norms (`matched_temperature`).
        scale: 1/tau, in place of temperature; never both.
        focal: weighting, gamma, tau_w and cap, or None. tau_w falls back on tau when the similarity is cosine.
        loss: "infonce" or "dcl" (positive left out of the denominator; without focal weights).
        symmetric: average with the direction candidate -> query, which has its own probabilities and weights.
        negatives: "in_batch"; "corrected" (logit - log g for every candidate; the labels carry `log_g`); "uniform" (the
            last column is a shared pool; the labels carry `uniform_count`).
        gather_across_devices: whether all processes' candidates are candidates for every query.
        seed: of the permutations of weighting random.

    Attributes:
        last: `LossObservation` of the last batch, or None.
        temperature: module with `.current()`. A learnable one keeps its parameter on the model.

    Raises:
        InputError: settings that contradict each other, a model that ends in `Normalize` under a similarity that needs
            norms; at a batch: no negative at all in the first batch of training or of evaluation (a later one gets loss 0
            and one warning), embeddings or logits that are not finite, columns that do not fit.

    Reference:
        PACE (arXiv 2609.15152), focal embedding loss. Duplicates, the fallback for tau_w, DCL, the symmetric form and
        the sampling correction are ours.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        similarity: str | Similarity = Similarity.COSINE,
        temperature: Real | float | TemperatureConfig | None = None,
        scale: Real | float | None = None,
        focal: FocalConfig | None = _DEFAULT_FOCAL,
        loss: str = "infonce",
        symmetric: bool = False,
        negatives: str | NegativeSource = NegativeSource.IN_BATCH,
        gather_across_devices: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.similarity = parse_similarity(similarity)
        self.negatives = parse_negatives(negatives)
        if loss not in _LOSSES:
            raise InputError(f"loss {loss!r} is unknown: {near_names(str(loss), _LOSSES)}")
        if loss == "dcl" and focal is not None:
            raise InputError("focal weights are defined for the infonce loss: pass focal=None with loss dcl")
        if symmetric and self.negatives is not NegativeSource.IN_BATCH:
            raise InputError(
                f"symmetric needs negatives in_batch, got {self.negatives.value!r}: the other direction's candidates are queries"
            )
        config = read_temperature(temperature, scale, self.similarity)
        refuse_normalized(model, self.similarity)
        refuse_missing_confidence(focal, self.similarity)
        self.model = model
        self.focal = focal
        self.loss = loss
        self.symmetric = symmetric
        self.gather_across_devices = gather_across_devices
        self.seed = seed
        self.draws = 0
        self.last: LossObservation | None = None
        self._logits_hooks: OrderedDict[int, LogitsHook] = OrderedDict()
        self.temperature = build_temperature(model, config)
        self._looked_at_norms = False
        self._negatives_watch = NegativesWatch()

    @property
    def confidence_temperature(self) -> float | None:
        """tau_w of the cosine confidence: `focal.temperature`, else the loss's own temperature under cosine, else None."""
        if self.focal is not None and self.focal.temperature is not None:
            return self.focal.temperature
        return float(self.temperature.current()) if self.similarity is Similarity.COSINE else None

    def forward(self, sentence_features: Iterable[Mapping[str, Any]], labels: Any = None) -> Tensor:
        """Loss of one batch; the details stay in `last`.

        Args:
            sentence_features: [anchor, positive, further columns ...], see `columns.embed_columns`.
            labels: None, or the dict described there.

        Returns:
            () scalar, float32: this process's share, whose mean over processes is L.

        Raises:
            InputError: see the class.
        """
        batch = embed_columns(self.model, list(sentence_features), labels)
        self._check_batch(batch)
        with without_autocast(batch.queries):
            directions = [forward_direction(batch, gather=self.gather_across_devices, own_only=self.negatives is NegativeSource.UNIFORM)]
            self._negatives_watch.look(directions[0], training=self.model.training)
            if self.symmetric:
                directions.append(backward_direction(batch, gather=self.gather_across_devices))
            solved = [self._solve(direction) for direction in directions]
            self.last = self._observe(batch, directions, solved)
            return torch.stack([weighted_mean(result.loss, weights.weights) for result, weights in solved]).mean()

    def register_logits_hook(self, hook: LogitsHook) -> RemovableHandle:
        """Show every batch's logits to an observer, which must not write to them.

        Args:
            hook: called with (B, N) logits of the direction query -> candidate, detached, as they are trained (sampling correction
                included), (B,) the column of each positive, and (B, N) True where a column is no candidate of that row.

        Returns:
            A handle; its `remove()` ends the calls.
        """
        handle = RemovableHandle(self._logits_hooks)
        self._logits_hooks[handle.id] = hook
        return handle

    def _solve(self, direction: Direction) -> tuple[InfoNCE, QueryWeights]:
        similarity = transposed(self.similarity) if direction.reverse else self.similarity
        scores = score_matrix(direction.rows, direction.columns, similarity)
        logits = self.temperature.divide(scores)
        if direction.log_g is not None:
            logits = correct_sampling(logits, direction.log_g)
        result = _LOSSES[self.loss](logits, direction.positive, excluded=direction.excluded)
        refuse_overflow(direction, logits, result.loss, similarity=self.similarity, temperature=self.temperature.current())
        if not direction.reverse:
            for hook in self._logits_hooks.values():
                hook(logits.detach(), direction.positive, direction.excluded)
        if self.focal is None:
            return result, unit_mean_weights(torch.zeros_like(result.loss))
        with torch.no_grad():
            cosines = scores if self.similarity is Similarity.COSINE else score_matrix(direction.rows, direction.columns, Similarity.COSINE)
        own = self.temperature.current().to(scores.device) if self.similarity is Similarity.COSINE else None
        weights = query_weights(
            cosines.detach(),
            direction.positive,
            focal=self.focal,
            temperature=own if self.focal.temperature is None else self.focal.temperature,
            excluded=direction.excluded,
            generator=self._generator(),
        )
        return result, weights

    def _generator(self) -> torch.Generator | None:
        if self.focal is None or self.focal.weighting is not Weighting.RANDOM:
            return None
        # A fresh seed for each draw, so that resuming needs the number of draws only.
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.draws) * world_size() + rank())
        self.draws += int(self.model.training)
        return generator

    def _check_batch(self, batch: Columns) -> None:
        refuse_wrong_source(batch, self.negatives)
        refuse_non_finite(batch)
        if not self._looked_at_norms:
            self._looked_at_norms = True
            warn_of_unit_norms(batch, self.similarity)

    @torch.no_grad()
    def _observe(self, batch: Columns, directions: list[Direction], solved: list[tuple[InfoNCE, QueryWeights]]) -> LossObservation:
        size = batch.queries.shape[0]
        result, weights = solved[0]
        candidate_norms = norms(batch.candidates)
        queries, candidates = normalize(batch.queries), normalize(batch.candidates)
        cosine = (queries * candidates[:size]).sum(dim=1)
        # The product of the summed directions is the sum over all pairs.
        pairs = (queries.sum(dim=0) * candidates.sum(dim=0)).sum() - cosine.sum()
        return LossObservation(
            positive_probability=result.positive_probability.detach(),
            residual=result.residual.detach(),
            confidence_residual=weights.confidence_residual,
            weights=weights.weights,
            mean_weight=weights.mean,
            effective_sample_size=weights.effective_sample_size,
            query_norms=norms(batch.queries),
            positive_norms=candidate_norms[:size],
            candidate_norms=candidate_norms,
            positive_cosine=cosine,
            random_cosine=pairs / max(1, size * (candidates.shape[0] - 1)),
            loss_per_query=torch.stack([r.loss.detach() for r, _ in solved]).mean(dim=0),
            temperature=self.temperature.current(),
            n_duplicates_masked=torch.stack([d.n_duplicates for d in directions]).sum(),
        )

    def get_config_dict(self) -> dict[str, Any]:
        """The settings as plain values, for sentence-transformers' model card."""
        return {
            "similarity": self.similarity.value,
            "temperature": float(self.temperature.current()),
            "temperature_mode": self.temperature.mode,
            "focal": None if self.focal is None else self.focal.model_dump(mode="json"),
            "confidence_temperature": self.confidence_temperature,
            "loss": self.loss,
            "symmetric": self.symmetric,
            "negatives": self.negatives.value,
            "gather_across_devices": self.gather_across_devices,
            "seed": self.seed,
        }

    @property
    def citation(self) -> str:
        """The paper of the focal embedding loss, as BibTeX."""
        return """
@misc{pace2026,
      title={PACE: Progressive Angular-to-Norm Contrastive Embedding},
      year={2026},
      eprint={2609.15152},
      archivePrefix={arXiv},
}
"""

    def extra_repr(self) -> str:
        """What is normalized, what divides the scores, and how queries are weighted."""
        sides = {"query": self.similarity.normalizes_query, "candidate": self.similarity.normalizes_candidate}
        normalized = "+".join(side for side, yes in sides.items() if yes) or "neither side"
        tau = float(self.temperature.current())
        weighting = "none"
        if self.focal is not None:
            weighting = f"{self.focal.weighting.value}(gamma={self.focal.gamma:g}, tau_w={self.confidence_temperature})"
        return (
            f"similarity={self.similarity.value}, normalized={normalized}, temperature={tau:g}, scale={1 / tau:g}, "
            f"temperature_mode={self.temperature.mode}, loss={self.loss}, weighting={weighting}, symmetric={self.symmetric}, "
            f"negatives={self.negatives.value}, gather_across_devices={self.gather_across_devices}"
        )
