"""Training of a small language model on running text, with copies of watched embeddings at chosen steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch

from normwise.core.errors import InputError, WorkError
from normwise.training.staircase_decoder import StairDecoder
from normwise.training.staircase_text import SplitText, bigram_loss, split_text, unigram_loss, windows_of
from normwise.training.staircase_training import check_looks

# Streams of one seed, apart from those of the staircase's other networks.
_WEIGHTS, _WINDOWS = 10, 11
_JUDGED = 8192
_LOOKS = 25
_BETAS = (0.9, 0.95)
_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class LanguageRun:
    """Settings of a run. The defaults were chosen by speed and held-out loss on `installed_text` of 4,096 ids alone.

    Args:
        steps: updates, at least 1.
        checkpoints: steps to look at, rising, in 0..steps; 0 is the init. None = at most 25, dense early: about (k / 24)^2 of the run.
        batch: windows in an update, at least 1.
        length: tokens in a window, at least 2.
        learning_rate: of AdamW (beta .9 and .95, no weight decay), above 0; held after the warm-up.
        gamma: every matrix starts at N(0, d_in^(-2 gamma)); above 1/2 is a small init.
        width: d, even.
        layers: at least 1.
        warmup: updates over which the rate rises in a line, 0..steps.

    Raises:
        InputError: a value outside its range.
    """

    steps: int = 600
    checkpoints: Sequence[int] | None = None
    batch: int = 16
    length: int = 64
    learning_rate: float = 2e-3
    gamma: float = 0.8
    width: int = 64
    layers: int = 2
    warmup: int = 20

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("length", 2), ("layers", 1), ("width", 2)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least {least}")
        if self.width % 2:
            raise InputError(f"width is {self.width}; expected an even number, as positions turn pairs of values")
        if not 0.0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate is {self.learning_rate:g}; expected a finite rate above 0, such as 0.002")
        if not 0.0 <= self.gamma < math.inf:
            raise InputError(f"gamma is {self.gamma:g}; expected a finite exponent of at least 0, such as 0.8")
        if not 0 <= self.warmup <= self.steps:
            raise InputError(f"warmup is {self.warmup}; expected 0 to the {self.steps} steps of the run")
        check_looks(self.looks, self.steps)

    @property
    def looks(self) -> np.ndarray:
        """(T,) the steps to look at."""
        if self.checkpoints is None:
            places = np.unique((self.steps * np.linspace(0.0, 1.0, _LOOKS) ** 2).round().astype(np.int64))
            # Rounding makes some distances fall again, which would look like a step that is missing.
            return np.append(0, np.sort(np.diff(places)).cumsum())
        return np.asarray(self.checkpoints, dtype=np.int64)

    def rate(self, step: int) -> float:
        """The learning rate of the update of a step, from 0 on."""
        return self.learning_rate * min(1.0, (step + 1) / max(1, self.warmup))


@dataclass(frozen=True, eq=False)
class LanguageSeries:
    """What a run showed at T checkpoints, before the update of that step.

    Args:
        seed: of weights and windows.
        steps: (T,).
        loss: (T,) mean cross-entropy of next tokens in held-out documents, in nats.
        accuracy: (T,) share of those tokens that have the largest logit.
        embedding: (T, A, d) copies of the watched rows of E.
        digests: T hashes of all of E.
        frequency: (A,) share of the watched tokens in the training documents.
        unigram: loss on the same held-out tokens by frequencies alone.
        bigram: loss by the token before alone, see `bigram_loss`.
    """

    seed: int
    steps: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    embedding: np.ndarray
    digests: tuple[bytes, ...]
    frequency: np.ndarray
    unigram: float
    bigram: float


def train_language(
    ids: np.ndarray,
    run: LanguageRun,
    *,
    end: int,
    vocabulary: int,
    seed: int,
    watch: np.ndarray,
    told: Callable[[int, float, float], None] | None = None,
) -> LanguageSeries:
    """Train a decoder to tell the next token.

    Documents are packed as language models usually have them: one after the other with the end id between, cut into windows at places
    drawn at random; attention reaches across an end id. The last 5% of the documents by a hash are held out, of which the first 8,192
    tokens are judged at each checkpoint. Gradients longer than 1 are cut to 1.

    Args:
        ids: (T,) ids in [0, vocabulary), documents parted by the end id.
        run: settings; equal ones, seeds and numbers of threads give equal results to the bit.
        end: the end id.
        vocabulary: V.
        seed: of weights and windows, at least 0; torch's own generator is not touched.
        watch: (A,) different ids whose rows are copied.
        told: is called at each checkpoint with step, loss and accuracy.

    Returns:
        The series.

    Raises:
        InputError: ids, end or watch out of range, or a text too short for a window or for holding out; see `split_text`.
        WorkError: a loss that is not finite.
    """
    split = split_text(ids, end=end, vocabulary=vocabulary)
    watch = _checked_watch(watch, vocabulary)
    if seed < 0:
        raise InputError(f"seed is {seed}; expected at least 0")
    if split.train.size <= run.length:
        raise InputError(f"length is {run.length} and {split.train.size} tokens are to train on; expected more of them: shorten length")
    tokens, targets = windows_of(split, length=run.length, tokens=_JUDGED)
    weights = np.random.default_rng([seed, _WEIGHTS])
    model = StairDecoder(vocabulary, width=run.width, layers=run.layers, gamma=run.gamma, random=weights)
    held_out = torch.as_tensor(tokens), torch.as_tensor(targets)
    kept: list[tuple[float, float, np.ndarray, bytes]] = []
    looks = set(run.looks.tolist())
    update = _Updates(model, split, run, np.random.default_rng([seed, _WINDOWS]))
    for step in range(run.steps + 1):
        if step in looks:
            kept.append(_look(model, *held_out, watch=watch))
            _refuse_lost(kept[-1][0], run, step=step, seed=seed)
            if told is not None:
                told(step, *kept[-1][:2])
        if step < run.steps and step < run.looks[-1]:
            _refuse_lost(update(step), run, step=step, seed=seed)
    loss, accuracy, embedding, digests = zip(*kept, strict=True)
    return LanguageSeries(
        seed=seed,
        steps=run.looks,
        loss=np.array(loss),
        accuracy=np.array(accuracy),
        embedding=np.stack(embedding),
        digests=digests,
        frequency=np.bincount(split.train, minlength=vocabulary)[watch] / split.train.size,
        unigram=unigram_loss(split, targets),
        bigram=bigram_loss(split, tokens, targets),
    )


class _Updates:
    """One update after the other, each of windows drawn at random from the training documents."""

    def __init__(self, model: StairDecoder, split: SplitText, run: LanguageRun, random: np.random.Generator) -> None:
        self._model, self._run, self._random = model, run, random
        self._text = torch.as_tensor(split.train)
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=run.learning_rate, betas=_BETAS, weight_decay=0.0, fused=True)

    def __call__(self, step: int) -> float:
        """Make the update of a step, and return the loss before it."""
        run = self._run
        starts = self._random.integers(0, len(self._text) - run.length, size=run.batch)
        windows = self._text[torch.as_tensor(starts[:, None] + np.arange(run.length + 1))]
        self._optimizer.param_groups[0]["lr"] = run.rate(step)
        self._optimizer.zero_grad()
        loss = self._model.loss(windows[:, :-1], windows[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), _LARGEST_GRADIENT)
        self._optimizer.step()
        return float(loss.detach())


def _checked_watch(watch: np.ndarray, vocabulary: int) -> np.ndarray:
    found = np.asarray(watch)
    if found.ndim != 1 or not found.size or not np.issubdtype(found.dtype, np.integer):
        raise InputError(f"watch is {found.dtype} of shape {found.shape}; expected one row of at least 1 id")
    if found.min() < 0 or found.max() >= vocabulary:
        raise InputError(f"watch holds {found.min()} to {found.max()}; expected ids from 0 to {vocabulary - 1}")
    if np.unique(found).size < found.size:
        raise InputError("watch holds an id twice; expected each once")
    return found


def _look(model: StairDecoder, tokens: torch.Tensor, targets: torch.Tensor, *, watch: np.ndarray) -> tuple[float, float, np.ndarray, bytes]:
    losses, right = (np.concatenate(each) for each in zip(*model.judged(tokens, targets), strict=True))
    table = model.embedding.detach().numpy()
    return float(losses.mean()), float(right.mean()), table[watch], blake2b(table.tobytes(), digest_size=16).digest()


def _refuse_lost(loss: float, run: LanguageRun, *, step: int, seed: int) -> None:
    if not math.isfinite(loss):
        raise WorkError(
            f"the loss of seed {seed} is {loss} at step {step}; take a learning_rate below {run.learning_rate:g}, or a longer warmup"
        )
