"""WordNet's tree of nouns: how deep a word's first sense lies, how many kinds of it there are, how many senses the word has."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from normwise.core.errors import InputError
from normwise.data.opening import reading
from normwise.data.wordnet_files import require_wordnet

_PARTS = ("noun", "verb", "adj", "adv")
# "@" is a kind of, "@i" an instance of.
_UP = ("@", "@i")


@dataclass(frozen=True)
class NounTree:
    """Noun synsets and lemmas.

    `first` gives a lemma's first (most used) noun synset, `senses` its number of synsets in all parts of speech; `depth`
    and `hyponyms` are of synsets: steps to the root along the shortest way, and how many synsets lie below.
    """

    first: dict[str, str]
    senses: dict[str, int]
    depth: dict[str, int]
    hyponyms: dict[str, int]


def noun_tree(roots: Sequence[str] | None = None) -> NounTree:
    """Read WordNet's index and noun files, once per folder and process.

    Args:
        roots: folders to look in; None means the usual places.

    Raises:
        InputError: not found (the message says how to get them) or malformed.
    """
    return _read(require_wordnet(roots))


@lru_cache(maxsize=2)
def _read(folder: Path) -> NounTree:
    first: dict[str, str] = {}
    senses: dict[str, int] = {}
    for part in _PARTS:
        for lemma, offsets in _index(folder / f"index.{part}"):
            senses[lemma] = senses.get(lemma, 0) + len(offsets)
            if part == "noun":
                first[lemma] = offsets[0]
    parents = _parents(folder / "data.noun")
    return NounTree(first, senses, _depths(parents), _hyponyms(parents))


def _index(path: Path) -> list[tuple[str, list[str]]]:
    """Lemmas with their synsets, most used first: lemma pos count p symbols... count tagged offsets..."""
    found: list[tuple[str, list[str]]] = []
    for number, line in enumerate(_lines(path), start=1):
        cells = line.split()
        try:
            offsets = cells[-int(cells[2]) :]
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {number}: not a line of WordNet's index format: {line!r:.60}") from None
        found.append((cells[0].replace("_", " "), offsets))
    return found


def _parents(path: Path) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(path), start=1):
        cells = line.partition("|")[0].split()
        try:
            start = 4 + 2 * int(cells[3], 16)
            pointers = [cells[start + 1 + 4 * place : start + 5 + 4 * place] for place in range(int(cells[start]))]
            parents[cells[0]] = [target for symbol, target, part, _ in pointers if symbol in _UP and part == "n"]
        except (ValueError, IndexError):
            raise InputError(f"{path}, line {number}: not a line of WordNet's database format: {line!r:.60}") from None
    lost = next((target for targets in parents.values() for target in targets if target not in parents), None)
    if lost is not None:
        raise InputError(f"{path}: synset {lost} is pointed to and missing: is the file whole?")
    return parents


def _lines(path: Path) -> list[str]:
    """Lines of a WordNet file without its license, which stands in lines that begin with two blanks."""
    with reading(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("  ")]


def _depths(parents: dict[str, list[str]]) -> dict[str, int]:
    children: dict[str, list[str]] = {}
    for synset, targets in parents.items():
        for target in targets:
            children.setdefault(target, []).append(synset)
    depth = {synset: 0 for synset, targets in parents.items() if not targets}
    waiting = deque(depth)
    while waiting:
        synset = waiting.popleft()
        for child in children.get(synset, ()):
            if child not in depth:
                depth[child] = depth[synset] + 1
                waiting.append(child)
    return depth


def _hyponyms(parents: dict[str, list[str]]) -> dict[str, int]:
    """Each synset counts once for everything above it, however many ways lead there."""
    below = dict.fromkeys(parents, 0)
    for synset in parents:
        seen: set[str] = set()
        waiting = list(parents[synset])
        while waiting:
            above = waiting.pop()
            if above not in seen:
                seen.add(above)
                below[above] += 1
                waiting += parents[above]
    return below
