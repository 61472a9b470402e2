"""A text cut into documents to train on and documents held out, and what counts alone say of the latter."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.token_stream import TokenStream

HELD_OUT = 0.05


@dataclass(frozen=True, eq=False)
class SplitText:
    """Documents in the order of a hash of their ids, the last 5% of them held out.

    The order depends on nothing but the text, so that all seeds hold out the same. Equal documents stand on one side.

    Args:
        train: (T,) ids, with the end id behind each document.
        held_out: as train.
        end: the end id.
        vocabulary: V.
    """

    train: np.ndarray
    held_out: np.ndarray
    end: int
    vocabulary: int


def split_text(ids: np.ndarray, *, end: int, vocabulary: int) -> SplitText:
    """Put documents into an order that mixes them, and hold out the last 5%.

    Args:
        ids: (T,) ids in [0, vocabulary), documents parted by the end id.
        end: its id.
        vocabulary: V.

    Raises:
        InputError: as `TokenStream`, or fewer than 20 documents that differ.

    Example:
        >>> split = split_text(np.arange(1, 81) % 4 * (np.arange(80) // 4 + 1), end=0, vocabulary=61)
        >>> split.train.size, split.held_out.size
        (76, 4)
    """
    stream = TokenStream(ids, vocabulary=vocabulary, end=end)
    documents = [ids[low:high].astype("<i8") for low, high in zip(stream.bounds[:-1], stream.bounds[1:], strict=True)]
    if documents[-1][-1] != end:
        documents[-1] = np.append(documents[-1], end)
    marks = [blake2b(each.tobytes(), digest_size=16).digest() for each in documents]
    least = round(1.0 / HELD_OUT)
    if len(set(marks)) < least:
        raise InputError(
            f"ids hold {len(set(marks))} documents that differ, parted by {end}; expected at least {least}, as some are held out: "
            "check end, or give more text"
        )
    order = sorted(range(len(marks)), key=marks.__getitem__)
    first = marks[order[-max(1, round(HELD_OUT * len(order)))]]
    train, held_out = ([documents[at] for at in order if (marks[at] >= first) == held] for held in (False, True))
    if not train:
        raise InputError("ids are one document again and again; expected documents that differ: give other text")
    return SplitText(np.concatenate(train), np.concatenate(held_out), end, vocabulary)


def windows_of(split: SplitText, *, length: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens (N, L) and their next ones (N, L) from the start of what is held out, side by side, of about so many tokens.

    Raises:
        InputError: less is held out than one window and its next token.
    """
    count = min(max(1, tokens // length), (split.held_out.size - 1) // length)
    if count < 1:
        raise InputError(f"length is {length} and {split.held_out.size} tokens are held out; expected more of them: shorten length")
    taken = split.held_out[: count * length + 1]
    return taken[:-1].reshape(count, length), taken[1:].reshape(count, length)


def unigram_loss(split: SplitText, targets: np.ndarray) -> float:
    """Return the mean cross-entropy of targets by the frequencies of the training documents, in nats.

    Equation: p(v) = (n_v + 1) / (n + V).
    """
    return float(-np.log(_unigram(split)[targets]).mean())


def bigram_loss(split: SplitText, tokens: np.ndarray, targets: np.ndarray) -> float:
    """Return the mean cross-entropy of targets by the token before, from the training documents, in nats.

    Equation: p(v | a) = (n_av + t_a p(v)) / (n_a + t_a), t_a the number of different tokens seen behind a; p(v) where a was never seen.

    Reference: Witten, Bell (1991), The zero-frequency problem.
    """
    size = split.vocabulary
    pairs, counts = np.unique(split.train[:-1] * size + split.train[1:], return_counts=True)
    before = pairs // size
    seen, kinds = np.bincount(before, weights=counts, minlength=size), np.bincount(before, minlength=size)
    wanted = tokens * size + targets
    places = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    found = np.where(pairs[places] == wanted, counts[places], 0)
    plain = _unigram(split)[targets]
    total = (seen + kinds)[tokens]
    chances = np.divide(found + kinds[tokens] * plain, total, out=plain.copy(), where=total > 0.0)
    return float(-np.log(chances).mean())


def _unigram(split: SplitText) -> np.ndarray:
    counts = np.bincount(split.train, minlength=split.vocabulary) + 1.0
    return counts / counts.sum()
