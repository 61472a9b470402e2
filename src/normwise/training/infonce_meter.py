"""The InfoNCE meter: a callback that puts trainings of different batch sizes on one axis while they run."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from normwise.core.errors import InputError
from normwise.core.meter_records import InfoNCEReading
from normwise.core.similarity import Similarity, parse_similarity
from normwise.core.strict import shown
from normwise.objectives.scores import full_precision, score_matrix
from normwise.theory.infonce_batch import QueryReadings, join_readings, mean_over_steps, read_scores, regime_of_readings
from normwise.training.infonce_sources import attach, read_embeddings
from normwise.training.infonce_vectors import copies_of_positives, read_count, read_temperature, read_vectors, why_unreadable

logger = logging.getLogger(__name__)

_QUANTILES = {"residual_p10": 0.1, "residual_p50": 0.5, "residual_p90": 0.9}
_NAMED = 20


class _Step:
    """The batches of one optimizer step."""

    def __init__(self) -> None:
        self.parts: list[QueryReadings] = []
        self.masked = self.lonely = 0


@final
class InfoNCEMeter(TrainerCallback):
    """Measures InfoNCE less log k, and its limit for k to infinity, so that runs of different batch sizes compare.

    In a trainer, whose reporters (TensorBoard, W&B) get the figures as `infonce/risk`, `infonce/limit`, `infonce/k`, ...:

        meter = InfoNCEMeter(loss)
        trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss)
        meter.join(trainer)
        trainer.train()

    Passed as `callbacks=[meter]` it works too, but a trainer's reporters come before such callbacks: the figures are then in the
    trainer's log history, and not in theirs. In a loop of your own:

        meter = InfoNCEMeter()
        for batch in batches:
            ...
            meter.observe(query_vectors, candidate_vectors, 0.05, "cosine")
            optimizer.step()
            meter.end_step()
        print(meter.result().to_json())

    What is measured. Negatives in a batch are positives of other queries: their law is the marginal of the positive kernel M over
    the training pairs as they are batched, explicit negatives mixed in, and not the law pi of the documents that will be searched,
    so that risk and limit are relative to that. They collide: copies of a query's own positive are left out, but others that answer
    the query just as well count as negatives, at every k. Copies are what `FocalEmbeddingLoss` leaves out itself: equal tokens, or
    without token ids bit-equal vectors. Sentence-transformers' losses leave out none, so that they are higher where batches hold
    copies; of them the meter leaves out equal tokens, and without token ids, as `observe` does, vectors that are equal up to what
    half precision moves. Dropout moves vectors by more: in a loop of your own, give each text once to a batch. Two runs compare
    where their pairs, temperature and explicit negatives per query are the same. Under sampling correction the limit is the
    cross-entropy over all candidates plus the mean log g of the positives. Scores are those of training, dropout included.

    It reads detached values only and draws no random number: weights are bit-equal with and without it. With several processes
    each reads its own queries, and the first one's are logged. Under gradient accumulation k is that of a micro-batch.

    Args:
        loss: what the trainer trains, see `infonce_sources.attach`; None for `observe` alone.
        window: how many observed steps the figures average.
        every: observe every so many steps, and the first.
        most_queries: of a larger batch so many queries are read, evenly spaced, each with all of its candidates.
        prefix: of the logged names; give each meter of a trainer its own.

    Raises:
        InputError: counts that are no whole numbers of at least 1, an empty prefix; at the start of training: a loss that cannot be
            read; at `result`: no step was seen. Once training runs nothing is raised: a batch that cannot be read is warned of and
            counted in `skipped`.
    """

    def __init__(
        self, loss: nn.Module | None = None, *, window: int = 50, every: int = 1, most_queries: int = 1024, prefix: str = "infonce"
    ) -> None:
        if not isinstance(prefix, str) or not prefix.strip():
            raise InputError(f"prefix is {shown(prefix)}; expected a name, which the logged figures begin with")
        self._loss, self._prefix = loss, prefix
        self._every, self._most = read_count(every, name="every"), read_count(most_queries, name="most_queries")
        self._steps: deque[_Step] = deque(maxlen=read_count(window, name="window"))
        self._end: Any = None
        self._begin_anew()

    def start(self) -> None:
        """Begin to watch the loss; a second start begins anew."""
        self.stop()
        self._begin_anew()
        if self._loss is not None:
            self._end = attach(self._loss, self)

    def stop(self) -> None:
        """Stop watching; what was seen stays."""
        if self._end is not None:
            self._end()
            self._end = None

    @contextmanager
    def watching(self) -> Iterator[InfoNCEMeter]:
        """Watch the loss inside a with block of a loop of your own; call `end_step` after each optimizer step."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def join(self, trainer: Trainer) -> InfoNCEMeter:
        """Become the first of a trainer's callbacks, so that its reporters log the figures."""
        callbacks = trainer.callback_handler.callbacks
        callbacks[:] = [self, *(each for each in callbacks if each is not self)]
        return self

    def observe(
        self,
        query_vectors: Tensor | np.ndarray,
        candidate_vectors: Tensor | np.ndarray,
        temperature: float | Tensor,
        similarity: str | Similarity = Similarity.COSINE,
    ) -> None:
        """Read one batch of vectors; several before `end_step` are micro-batches of one step.

        An empty batch, a vector of zeros that is to be normalized, and scores that are not finite are warned of and skipped.

        Args:
            query_vectors: (B, D) raw vectors of any float type, read as float32 (float64 stays).
            candidate_vectors: (N, D), N >= B; row i < B is the positive of query i. Copies of it among the other rows are left out,
                see `infonce_vectors.copies_of_positives`: under a similarity that normalizes candidates, multiples of it, too.
            temperature: tau > 0, which divides the scores; a learned one is detached.
            similarity: one of the four names.

        Raises:
            InputError: no matrices of real numbers, shapes that do not fit, or a temperature that is no finite number above 0.
        """
        queries, candidates = read_vectors(query_vectors, name="query_vectors"), read_vectors(candidate_vectors, name="candidate_vectors")
        shapes = tuple(queries.shape), tuple(candidates.shape)
        if queries.shape[1] != candidates.shape[1] or len(candidates) < len(queries):
            raise InputError(
                f"query_vectors have shape {shapes[0]}, candidate_vectors {shapes[1]}; expected (B, D) and (N, D), the first B rows "
                "of the candidates being the positives"
            )
        tau, chosen = read_temperature(temperature), parse_similarity(similarity)
        if not self._looks:
            return
        candidates = candidates.to(queries.device)
        if reason := why_unreadable(queries, candidates, chosen):
            self.skip(reason)
            return
        read_embeddings(
            [queries, candidates],
            lambda c, rows: copies_of_positives(c, rows, normalized=chosen.normalizes_candidate),
            lambda q, c: score_matrix(q, c, chosen) / tau,
            self,
        )

    def end_step(self) -> None:
        """Count one optimizer step: call it once for each, after the batches that went into it."""
        if self._open.parts or self._open.lonely:
            self._steps.append(self._open)
            self._fresh = True
        self._open = _Step()
        self._number += 1

    def result(self) -> InfoNCEReading:
        """Return the figures of the last `window` observed steps.

        Raises:
            InputError: no step was seen.
        """
        if not self._steps and not self._skipped:
            waiting = "batches were observed, but no step has ended: call end_step after optimizer.step()"
            unseen = "no batch was seen: give the meter the loss that is trained, or call observe in your loop"
            raise InputError(waiting if self._open.parts or self._open.lonely else unseen)
        return _reading(list(self._steps)).model_copy(update={"skipped": self._skipped, "skipped_steps": tuple(self._skipped_steps)})

    def rows(self, size: int) -> Tensor | None:
        """Which queries of a batch are read, (R,); None in a step that is not observed."""
        if not size or not self._looks:
            return None
        return torch.arange(size) if size <= self._most else torch.linspace(0, size - 1, self._most, dtype=torch.float64).long()

    @torch.no_grad()
    def take(self, logits: Tensor, positive: Tensor, excluded: Tensor) -> None:
        """Read (R, N) logits with (R,) the columns of positives and (R, N) which columns are no candidates."""
        logits, column = full_precision(logits), positive.long().unsqueeze(1)
        own = logits.gather(1, column).squeeze(1).cpu().numpy()
        masked = excluded.scatter(1, column, True)
        negatives = logits.masked_fill(masked, -torch.inf).cpu().numpy()
        there = ~(negatives == -np.inf).all(axis=1)
        if there.any():
            try:
                self._open.parts.append(read_scores(own[there], negatives[there]))
            except InputError as error:
                self.skip(str(error))
                return
        self._open.lonely += int((~there).sum())
        self._open.masked += int(masked.sum()) - len(own)

    def skip(self, reason: str) -> None:
        """Pass over a batch that cannot be read, since an observer must not stop a training; the first one is warned of."""
        self._skipped += 1
        self._fresh = True
        if not self._skipped_steps:
            logger.warning("step %d is left out of %s: %s; later ones are counted in its `skipped`", self._number, self._prefix, reason)
        if len(self._skipped_steps) < _NAMED and self._number not in self._skipped_steps:
            self._skipped_steps.append(self._number)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Start with the training; a resumed one is measured from where it resumes."""
        self.start()

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Know which step it is."""
        self._number = state.global_step + 1

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Close the step."""
        self.end_step()

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Add the figures to a log of the training loss: for the callbacks to come, and in the trainer's history."""
        if logs is None or "loss" not in logs or not self._fresh:
            return
        self._fresh = False
        figures = self.result().figures(prefix=self._prefix)
        logs.update(figures)
        if state.log_history:
            state.log_history[-1].update(figures)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Stop with the training."""
        self.stop()
        if not self._steps and not self._skipped:
            logger.warning("%s saw no batch: is it the trained loss that it was given?", self._prefix)

    @property
    def _looks(self) -> bool:
        """Whether this step is observed."""
        return self._number == 1 or self._number % self._every == 0

    def _begin_anew(self) -> None:
        self._steps.clear()
        self._open, self._number, self._fresh = _Step(), 1, False
        self._skipped, self._skipped_steps = 0, list[int]()


def _reading(steps: list[_Step]) -> InfoNCEReading:
    lonely = sum(step.lonely for step in steps)
    read = [(step, join_readings(step.parts)) for step in steps if step.parts]
    if not read:
        return InfoNCEReading(steps=0, queries=0, lonely=lonely)
    sizes = np.array([len(each.risk) for _, each in read])
    whole = join_readings([each for _, each in read])
    regime = regime_of_readings(whole)
    figures: dict[str, Any] = {name: float(np.quantile(whole.residual, at)) for name, at in _QUANTILES.items()}
    for name, field in (("risk", "risk"), ("dcl", "decoupled"), ("limit", "limit")):
        found = mean_over_steps(np.array([float(getattr(each, field).mean()) for _, each in read]), sizes)
        figures |= {name: found.value, f"{name}_error": found.error if np.isfinite(found.error) else None}
    k = float(whole.negatives.mean())
    return InfoNCEReading(
        steps=len(read),
        queries=int(sizes.sum()),
        k=k,
        k_min=int(whole.negatives.min()),
        k_max=int(whole.negatives.max()),
        effective_negatives=float(np.median(whole.effective_negatives)),
        effective_negatives_mean=k / (1.0 + regime.cv2_mean),
        cv2=regime.cv2_mean,
        needed_k=regime.decoupled_start,
        extrapolates=regime.extrapolates,
        masked=sum(step.masked for step in steps) / (int(sizes.sum()) + lonely),
        lonely=lonely,
        **figures,
    )
