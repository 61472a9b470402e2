"""Before training: when order 0 of a corpus will have grown into an embedding, by the statistics of the corpus alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path

from normwise.core.errors import InputError
from normwise.core.staircase_records import PredictedStair, StairForecast
from normwise.core.strict import shown
from normwise.data.texts import printable
from normwise.workflows.staircase_track import CorpusReading, Told, count_signatures

_RATES = 5
_MOST_STEPS = 1e15


def staircase_predict(
    corpus: str | Path | Sequence[str | Path],
    settings: CorpusReading | None = None,
    *,
    init_scale: float = 0.02,
    learning_rate: float = 1.0,
    told: Told | None = None,
) -> StairForecast:
    """Predict the stair of order 0 of a corpus: how fast its directions grow, and in how many steps.

    Equation: steps_i = log(1 / init scale) / (sigma_i learning rate), sigma_i the singular values of diag(r) (Phi_0 - 1/V).

    Args:
        corpus: as `count_signatures`.
        settings: how it is read; orders and words are not asked for. The 200 most frequent tokens are enough: on English docstrings
            they give rates .1 to 1% below those of 3,000 tokens.
        init_scale: standard deviation of the entries of embedding and unembedding at init, in (0, 1).
        learning_rate: of plain gradient descent on the mean loss of a token, above 0. Adaptive optimizers have no such number.
        told: gets lines on the progress.

    Returns:
        The forecast. Attention and feed-forward layers come on top of the path that it knows, and only make it faster.

    Raises:
        InputError: a number out of its range, or as `count_signatures`.

    Reference: the direct path of Yao, Hang, Xu (2026), arXiv 2608.30315; the closed form is ours.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/ids.npy", np.arange(400, dtype=np.uint16) ** 2 % 23)
        ...     found = staircase_predict(f"{folder}/ids.npy", CorpusReading(vocabulary=23, workers=1), learning_rate=0.5)
        >>> found.predicted.exists, len(found.growth_rates), found.steps[0] < found.steps[1]
        (True, 5, True)
    """
    scale, rate = _number("init_scale", init_scale, below=1.0), _number("learning_rate", learning_rate, below=math.inf)
    settings = replace(settings or CorpusReading(), orders=(0,), words=())
    counted = count_signatures(corpus, settings, told=told)
    signatures = counted.signatures
    rates = tuple(float(value) for value in signatures.growth_rates[:_RATES])
    steps = tuple(_steps(value * rate, scale) for value in rates)
    exists = signatures.why_no_stair is None
    reason = signatures.why_no_stair or "next tokens differ from the uniform law, which is what the softmax says at init"
    return StairForecast(
        predicted=PredictedStair(exists=exists, reason=reason, growth_rate=rates[0], steps=steps[0] if exists else None),
        growth_rates=rates,
        steps=steps if exists else (None,) * len(rates),
        init_scale=scale,
        learning_rate=rate,
        tokens=signatures.judged.size,
        next_tokens=counted.next_tokens,
        vocabulary=signatures.vocabulary,
        corpus_tokens=counted.positions,
        text=_words(rates, steps) if exists else f"Order 0 has nothing to learn here: {reason}.",
        source=printable(", ".join([str(corpus)] if isinstance(corpus, str | Path) else [str(each) for each in corpus])),
        notes=counted.notes,
    )


def _steps(speed: float, scale: float) -> float | None:
    """Steps to 1; None where there are too many to count."""
    found = math.log(1.0 / scale) / speed if speed > 0.0 else math.inf
    return found if found < _MOST_STEPS else None


def _words(rates: Sequence[float], steps: Sequence[float | None]) -> str:
    when = "not within any number of steps" if steps[0] is None else f"at step {steps[0]:,.0f}"
    told = f"sigma_1 = {rates[0]:.4g} predicts order 0 {when}, with plain gradient descent"
    if len(steps) > 1 and steps[1] is not None:
        told += f"; its next direction (sigma_2 = {rates[1]:.4g}) at step {steps[1]:,.0f}"
    return f"{told}. Higher orders come later: from a small init their drive is smaller by a power of its scale for each order."


def _number(name: str, value: object, *, below: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < below:
        told = "a finite number above 0" if below == math.inf else f"a number above 0 and below {below:g}"
        raise InputError(f"{name} is {shown(value)}; expected {told}")
    return float(value)
