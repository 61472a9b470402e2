"""Concepts and their instances from WordNet: a noun, and the definitions of nouns below it in the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.opening import reading
from normwise.data.wordnet_files import read_synsets, require_wordnet
from normwise.data.wordnet_tree import noun_tree

_FEWEST_BELOW = 6
_LONGEST_NAME = 3


@dataclass(frozen=True)
class ConceptTexts:
    """Concepts and texts of their instances.

    Attributes:
        names: N different nouns; each stands for its most used sense.
        instances: for each, definitions of nouns below it.
        hyponyms: (N,) nouns below it in all: a general concept has many.
        depths: (N,) steps from the root.
    """

    names: tuple[str, ...]
    instances: tuple[tuple[str, ...], ...]
    hyponyms: np.ndarray
    depths: np.ndarray


def concept_texts(count: int, *, instances: int, seed: int, roots: Sequence[str] | None = None) -> ConceptTexts:
    """Draw concepts evenly over how general they are, each with a sample of its instances.

    Nouns with at least 6 nouns below them are sorted by that number; one is drawn from each of `count` equal slices of its logarithm
    (the nearest that is left where a slice is empty), so that few-and-alike and many-and-unlike are equally present.

    Args:
        count: N concepts, >= 2.
        instances: definitions drawn for each, without replacement; all where it has fewer.
        seed: of the draws.
        roots: folders to look for WordNet's files in; None means the usual places.

    Returns:
        The concepts.

    Raises:
        InputError: the files are not found or malformed, or hold fewer such nouns.
    """
    tree = noun_tree(roots)
    folder = require_wordnet(roots)
    children, definitions = _children(folder / "data.noun"), _definitions(folder)
    usable = {
        lemma: synset
        for lemma, synset in sorted(tree.first.items())
        if tree.hyponyms[synset] >= _FEWEST_BELOW and lemma.replace(" ", "").isalpha() and len(lemma.split()) <= _LONGEST_NAME
    }
    # One name for each meaning, the first in the alphabet.
    names = list({synset: lemma for lemma, synset in reversed(usable.items())}.values())
    if len(names) < count:
        raise InputError(f"count is {count}, but WordNet has {len(names)} nouns with enough below them: ask for fewer")
    random = np.random.default_rng(seed)
    chosen = _spread(np.log([tree.hyponyms[usable[name]] for name in names]), count, random)
    picked = [names[place] for place in chosen]
    texts = []
    for name in picked:
        below = sorted(definitions[synset] for synset in _below(usable[name], children) if synset in definitions)
        texts.append(tuple(below[place] for place in random.permutation(len(below))[:instances]))
    return ConceptTexts(
        tuple(picked),
        tuple(texts),
        np.array([tree.hyponyms[usable[name]] for name in picked]),
        np.array([tree.depth[usable[name]] for name in picked]),
    )


def _spread(values: np.ndarray, count: int, random: np.random.Generator) -> list[int]:
    """Places of `count` different values, spread evenly over their range."""
    order = random.permutation(values.size)
    left = np.ones(values.size, dtype=bool)
    found = []
    for target in np.linspace(values.min(), values.max(), count):
        distance = np.where(left[order], np.abs(values[order] - target), np.inf)
        place = int(order[np.argmin(distance)])
        left[place] = False
        found.append(place)
    return found


@lru_cache(maxsize=2)
def _definitions(folder: Path) -> dict[str, str]:
    return {synset.id[1:]: synset.definition for synset in read_synsets(folder) if synset.id[0] == "n" and synset.definition}


@lru_cache(maxsize=2)
def _children(path: Path) -> dict[str, tuple[str, ...]]:
    """Nouns right below each noun, from the pointers up (@, @i) that `wordnet_tree` reads too, which keeps them to itself."""
    children: dict[str, list[str]] = {}
    with reading(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        if line.startswith("  ") or not line.strip():
            continue
        cells = line.partition("|")[0].split()
        start = 4 + 2 * int(cells[3], 16)
        for place in range(int(cells[start])):
            symbol, target, part, _ = cells[start + 1 + 4 * place : start + 5 + 4 * place]
            if symbol in ("@", "@i") and part == "n":
                children.setdefault(target, []).append(cells[0])
    return {synset: tuple(found) for synset, found in children.items()}


def _below(synset: str, children: dict[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    waiting = list(children.get(synset, ()))
    while waiting:
        child = waiting.pop()
        if child not in found:
            found.add(child)
            waiting += children.get(child, ())
    return found
