"""Human ratings of words: the VADER lexicon, in which ten people rated each token from -4 to 4."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.opening import reading

LOWEST, HIGHEST = -4, 4
RATERS = 10
_PACKAGE, _FILE = "vaderSentiment", "vader_lexicon.txt"


@dataclass(frozen=True)
class HumanRatings:
    """Words and what people said of them.

    Attributes:
        words: N different words.
        ratings: (N, 10) whole numbers from -4 to 4.
    """

    words: tuple[str, ...]
    ratings: np.ndarray

    @property
    def spreads(self) -> np.ndarray:
        """(N,) standard deviation over the raters: how much people disagree."""
        return self.ratings.std(axis=1)

    @property
    def valences(self) -> np.ndarray:
        """(N,) absolute mean rating: how strong the feeling is."""
        return np.abs(self.ratings.mean(axis=1))

    @property
    def label_shares(self) -> np.ndarray:
        """(N, 9) share of the raters that chose each of -4 .. 4."""
        return (self.ratings[:, :, None] == np.arange(LOWEST, HIGHEST + 1)).mean(axis=1)


def read_ratings(path: Path | None = None) -> HumanRatings:
    """Read the lexicon's words of letters, emoticons left out.

    Args:
        path: a file in the lexicon's format (token, mean, deviation, list of ratings, tab between them); None takes the one that the
            package vaderSentiment ships.

    Returns:
        Words in the file's order; a word that stands twice keeps its first row.

    Raises:
        MissingExtraError: the package is not installed and no path was given.
        InputError: the file is missing or malformed; the message names the line.
    """
    file = _packaged() if path is None else path
    with reading(file):
        lines = file.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.split("\t")
        try:
            ratings = [int(value) for value in ast.literal_eval(cells[3].strip())]
        except (IndexError, ValueError, SyntaxError, TypeError):
            raise InputError(f"{file}, line {number}: expected token, mean, deviation and a list of ratings, got {line!r:.60}") from None
        if len(ratings) != RATERS or not all(LOWEST <= value <= HIGHEST for value in ratings):
            raise InputError(f"{file}, line {number}: expected {RATERS} ratings from {LOWEST} to {HIGHEST}, got {ratings}")
        word = cells[0].strip()
        if word.isalpha():
            found.setdefault(word.lower(), ratings)
    if not found:
        raise InputError(f"{file} has no word with ratings")
    return HumanRatings(tuple(found), np.array(list(found.values()), dtype=np.int64))


def _packaged() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(_PACKAGE, extra="inspect")
    return Path(next(iter(spec.submodule_search_locations))) / _FILE
