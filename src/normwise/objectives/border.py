"""What the loss refuses, and how it says so: settings that contradict each other, batches that cannot teach."""

from __future__ import annotations

import math
import warnings
from numbers import Real

import torch
from torch import Tensor, nn

from normwise.core.config import FocalConfig, NegativeSource, TemperatureConfig, Weighting
from normwise.core.errors import InputError, near_names
from normwise.core.similarity import Similarity
from normwise.objectives.columns import Columns
from normwise.objectives.directions import Direction
from normwise.objectives.scores import norms

DEFAULT_COSINE_TEMPERATURE = 0.05


def parse_negatives(name: str | NegativeSource) -> NegativeSource:
    """Read a source of negatives by its one name."""
    try:
        return NegativeSource(name)
    except ValueError:
        raise InputError(f"negatives {name!r} is unknown: {near_names(str(name), [source.value for source in NegativeSource])}") from None


def read_temperature(
    temperature: Real | float | TemperatureConfig | None, scale: Real | float | None, similarity: Similarity
) -> TemperatureConfig:
    """One temperature from the two ways of giving it; a default under cosine only."""
    if temperature is not None and scale is not None:
        raise InputError(f"temperature {temperature!r} and scale {scale!r} both came: scale is 1/temperature, give one of them")
    if isinstance(temperature, TemperatureConfig):
        return temperature
    if temperature is None and scale is None:
        if similarity is not Similarity.COSINE:
            raise InputError(
                f"temperature is needed with similarity {similarity.value}: its scores grow with the norms, so no default fits; "
                "measure one with matched_temperature"
            )
        return TemperatureConfig(value=DEFAULT_COSINE_TEMPERATURE)
    name, value = ("temperature", temperature) if scale is None else ("scale", scale)
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name} must be a finite number > 0, got {value!r} (temperature 0.05 is scale 20)")
    return TemperatureConfig(value=float(value) if name == "temperature" else 1.0 / float(value))


def refuse_missing_confidence(focal: FocalConfig | None, similarity: Similarity) -> None:
    """The cosine confidence has a temperature of its own, which only a cosine loss can lend it."""
    if focal is None or focal.temperature is not None or similarity is Similarity.COSINE:
        return
    if focal.weighting in (Weighting.FOCAL, Weighting.RANDOM):
        raise InputError(
            f"focal.temperature (tau_w of the cosine confidence) is needed with similarity {similarity.value}: its own temperature "
            "divides scores of another size; give the temperature of the cosine stage"
        )


def refuse_normalized(model: nn.Module, similarity: Similarity) -> None:
    """A model that ends in `Normalize` has no norms to learn from."""
    last = model
    while isinstance(last, nn.Sequential) and len(last):
        last = last[-1]
    # By name, since the class belongs to a library that this room does not import.
    if similarity is not Similarity.COSINE and type(last).__name__ == "Normalize":
        raise InputError(
            f"model ends in a Normalize module, so every norm is 1 and similarity {similarity.value} is cosine in disguise: "
            "take the module off (SentenceTransformer(modules=list(model)[:-1])) or use similarity cosine"
        )


def warn_of_unit_norms(batch: Columns, similarity: Similarity) -> None:
    """Norms that are all 1 under a similarity that reads them: something normalizes in silence."""
    raw = ([] if similarity.normalizes_query else [batch.queries]) + ([] if similarity.normalizes_candidate else [batch.candidates])
    if raw and all(bool(((norms(side.detach()) - 1).abs() < 1e-3).all()) for side in raw):
        warnings.warn(
            f"all norms of the first batch are 1 although similarity {similarity.value} is to learn from them: something normalizes "
            "the embeddings (a module, or a wrapper such as MatryoshkaLoss)",
            stacklevel=4,
        )


def refuse_wrong_source(batch: Columns, negatives: NegativeSource) -> None:
    """What the labels carry has to be what the source of negatives needs."""
    if negatives is NegativeSource.CORRECTED and batch.log_g is None:
        raise InputError("negatives corrected needs labels with log_g, the log sampling probability of every column, and none came")
    if negatives is not NegativeSource.CORRECTED and batch.log_g is not None:
        raise InputError(f"labels hold log_g, but negatives is {negatives.value!r}: set negatives='corrected' or leave log_g out")
    if (batch.pool_size > 0) != (negatives is NegativeSource.UNIFORM):
        came = f"a pool of {batch.pool_size} came" if batch.pool_size else "no pool came (uniform_count in the labels)"
        raise InputError(f"negatives is {negatives.value!r}, but {came}: a shared pool belongs to negatives='uniform'")


def refuse_non_finite(batch: Columns) -> None:
    """Name the side and the row of the first vector, or the first log g, that is not finite."""
    for side, vectors in (("query", batch.queries), ("candidate", batch.candidates)):
        finite = torch.isfinite(vectors.detach()).all(dim=1)
        if not bool(finite.all()):
            row, size = int((~finite).nonzero()[0]), batch.queries.shape[0]
            name = side if side == "query" else "positive" if row < size else "negative"
            row = row if name != "negative" else row - size
            raise InputError(
                f"{name} embeddings, row {row}: finite numbers were expected, got NaN or infinity: lower the learning rate, "
                "or train in bf16 or fp32 rather than fp16"
            )
    if batch.log_g is not None and not bool(torch.isfinite(batch.log_g).all()):
        column = int((~torch.isfinite(batch.log_g)).nonzero()[0])
        raise InputError(f"log_g, column {column}: a finite number was expected, got {float(batch.log_g[column])}: smooth the counts")


class NegativesWatch:
    """What to do about a batch in which no query has a negative: its loss is 0 whatever the model does.

    The first batch of training, or of evaluation, is refused, since the ones to come will be no better. A later one is
    the row that is left at the end of an epoch: it keeps its loss of 0, and the first of them is warned of.
    """

    def __init__(self) -> None:
        self._fine: set[bool] = set()
        self._warned = False

    def look(self, direction: Direction, *, training: bool) -> None:
        """Look at the next batch."""
        rows, columns = direction.excluded.shape
        if columns > 1 and bool((direction.excluded.sum(dim=1) < columns - 1).any()):
            self._fine.add(training)
            return
        why = "there is nothing but the positive" if columns <= 1 else "every other candidate equals the positive"
        found = f"zero negatives in a batch of {rows} with {columns} candidates: {why}"
        if training not in self._fine:
            raise InputError(
                f"{found}, so the loss is 0 whatever the model does; "
                "use larger or mixed batches, hard negatives, or dataloader_drop_last=True"
            )
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{found}; this batch and any like it are left out (loss 0 and no gradient, and a 0 in the mean loss): "
                "dataloader_drop_last=True drops the rest of an epoch",
                stacklevel=4,
            )


def refuse_overflow(direction: Direction, logits: Tensor, loss: Tensor, *, similarity: Similarity, temperature: Tensor) -> None:
    """Finite vectors whose scores, logits or loss are beyond the largest float: the gradient would be NaN."""
    finite = torch.isfinite(logits.detach())
    rows = finite.all(dim=1) & torch.isfinite(loss.detach())
    if bool(rows.all()):
        return
    row = int((~rows).nonzero()[0])
    wrong = (~finite[row]).nonzero()
    column = int(wrong[0]) if len(wrong) else int(logits[row].detach().abs().argmax())
    asks, answers = ("candidate", "query") if direction.reverse else ("query", "candidate")
    sizes = [float(norms(side.detach()[at : at + 1])) for side, at in ((direction.rows, row), (direction.columns, column))]
    dtype = str(logits.dtype).removeprefix("torch.")
    raise InputError(
        f"{asks} row {row} (norm {sizes[0]:.3g}) with {answers} column {column} (norm {sizes[1]:.3g}): a finite logit was expected, but "
        f"similarity {similarity.value} divided by temperature {float(temperature):g} overflows {dtype}: the norms diverged or were never "
        "in range; lower the learning rate, raise the temperature, or use similarity cosine"
    )
