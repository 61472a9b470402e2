"""`emoji-captions`, `emoji-pictures` and `emoji-styles`, where the npm packages of emoji are found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from normwise.data.contents import sameness
from normwise.data.emoji_families import true_of
from normwise.data.emoji_files import Concept, Style
from normwise.data.emoji_world import EmojiWorld, Example, assemble, load_world, picture_corpus, split_examples
from normwise.data.sets import Corpus, RetrievalData
from normwise.data.texts import normalize_text

CAPTIONS, PICTURES, STYLED = "emoji-captions", "emoji-pictures", "emoji-styles"
KINDS = {
    CAPTIONS: "text to image: name or tags to picture",
    PICTURES: "image to text: picture to its name",
    STYLED: "image to image: the same concept in another style of drawing, test in a style that is new",
}
_FEWEST_TAGS = 3
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")


def build_captions(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (name, picture) and (tags, picture) of the emoji of Unicode without skin tones, drawn by OpenMoji.

    Candidates are the pictures; those that look the same are one. A name is relevant to every picture of which it is true:
    `mechanic` to the man and the woman. Tags are a query where there are at least 3 and they single out one family of
    concepts; they are relevant to every picture whose name and tags hold them all. Splits are by family (see
    `emoji_families`; 15 % of them each for dev and test), the same in all emoji sets.

    Args:
        roots: folders that hold node_modules; None means the usual places.
        cache_dir: where the drawn pictures are kept; None means the default cache.

    Raises:
        InputError: the packages are not found or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    world = load_world((), roots=roots, cache_dir=cache_dir)
    plain = world.plain
    corpus, rows = picture_corpus(world, plain)
    true = true_of(plain)
    named = [
        _text(world, f"name {concept.id}", concept.label, concept, tuple(rows[name] for name in true[concept.id]), rows)
        for concept in plain
    ]
    tagged: list[Example] = []
    vague = 0
    holders = _holders(plain)
    for concept in plain:
        if len(concept.tags) < _FEWEST_TAGS:
            continue
        found = _holding_all(concept, holders)
        if any(world.family[name] != world.family[concept.id] for name in found):
            vague += 1
            continue
        tagged.append(
            _text(world, f"tags {concept.id}", ", ".join(concept.tags), concept, tuple(rows[name] for name in sorted(found)), rows)
        )
    notes = (
        *world.notes(),
        f"skin-tone variants are left out; {len(plain) - len(corpus):,} pictures that look like another are one candidate with it",
        f"tags that other concepts have too ({vague:,} concepts) are no query",
    )
    return assemble(CAPTIONS, KINDS[CAPTIONS], corpus, split_examples([*named, *tagged]), notes=notes)


def build_pictures(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (picture, name) of the emoji of Unicode without skin tones, drawn by OpenMoji.

    Candidates are the names. Every name that is true of a picture is relevant: a man who is a mechanic is a `mechanic` too, and
    pictures that look the same are one query with the names of all. Splits as in `build_captions`.

    Args:
        roots: folders that hold node_modules; None means the usual places.
        cache_dir: where the drawn pictures are kept; None means the default cache.

    Raises:
        InputError: the packages are not found or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    world = load_world((), roots=roots, cache_dir=cache_dir)
    plain, look = world.plain, world.stores["openmoji"].look
    numbers: dict[str, int] = {}
    first: list[Concept] = []
    rows: dict[str, int] = {}
    for concept in plain:
        rows[concept.id] = numbers.setdefault(normalize_text(concept.label), len(numbers))
        if rows[concept.id] == len(first):
            first.append(concept)
    corpus = Corpus(tuple(concept.id for concept in first), tuple(concept.label for concept in first))
    names: dict[str, list[int]] = {concept.id: [] for concept in plain}
    for general, below in true_of(plain).items():
        for specific in below:
            names[specific].append(rows[general])
    shown = {look[concept.id]: concept for concept in reversed(plain)}
    examples = [
        Example(
            f"picture {concept.id}", world.picture("openmoji", shown[look[concept.id]]), f"look {look[concept.id]}", rows[concept.id],
            tuple(names[concept.id]), world.family[concept.id],
        )
        for concept in plain
    ]  # fmt: skip
    notes = (*world.notes(), "skin-tone variants are left out; pictures that look the same are one query with the names of all")
    return assemble(PICTURES, KINDS[PICTURES], corpus, split_examples(examples), notes=notes)


def build_styles(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (picture, picture) of one concept: drawn by Twemoji in training and dev and by Fluent emoji in test, to OpenMoji's.

    Concepts and style are both new in test. Pictures of a style that look the same are one query. Splits as in `build_captions`.

    Args:
        roots: folders that hold node_modules; None means the usual places.
        cache_dir: where the drawn pictures are kept; None means the default cache.

    Raises:
        InputError: the packages are not found or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    world = load_world(("twemoji", "fluent"), roots=roots, cache_dir=cache_dir)
    plain = world.plain
    corpus, rows = picture_corpus(world, plain)
    styles: tuple[Style, ...] = ("twemoji", "fluent")
    parts: dict[Style, dict[str, list[Example]]] = {style: split_examples(_styled(world, style, plain, rows)) for style in styles}
    straddling = _straddling(parts)
    examples = {"train": parts["twemoji"]["train"], "dev": parts["twemoji"]["dev"], "test": parts["fluent"]["test"]}
    # A drawing that stands for concepts of two splits is left out wherever it is, also where the other split does not show it.
    examples = {split: [example for example in mine if example.same not in straddling] for split, mine in examples.items()}
    notes = (
        *world.notes(),
        "test queries are drawn by Fluent emoji, a style that training and dev do not show",
        "skin-tone variants are left out; concepts that a style does not draw have no query in it",
        f"drawings that stand for concepts of two splits are left out: {len(straddling):,}",
    )
    return assemble(STYLED, KINDS[STYLED], corpus, examples, notes=notes)


def _straddling(parts: dict[Style, dict[str, list[Example]]]) -> set[str]:
    places: dict[str, set[str]] = {}
    for splits in parts.values():
        for split, mine in splits.items():
            for example in mine:
                places.setdefault(example.same, set()).add(split)
    return {same for same, found in places.items() if len(found) > 1}


def _styled(world: EmojiWorld, style: Style, concepts: Sequence[Concept], rows: dict[str, int]) -> list[Example]:
    store = world.stores[style]
    shown = {store.look[concept.id]: concept for concept in reversed(concepts) if concept.id in store.png}
    return [
        Example(
            f"{style} {concept.id}", world.picture(style, shown[store.look[concept.id]]), f"{style} {store.look[concept.id]}",
            rows[concept.id], (), world.family[concept.id],
        )
        for concept in concepts
        if concept.id in store.png
    ]  # fmt: skip


def _text(world: EmojiWorld, name: str, query: str, concept: Concept, relevant: tuple[int, ...], rows: dict[str, int]) -> Example:
    return Example(name, query, sameness(query), rows[concept.id], relevant, world.family[concept.id])


def _words(concept: Concept) -> set[str]:
    return {*(normalize_text(tag) for tag in concept.tags), *_WORD.findall(concept.label.casefold())}


def _holders(concepts: Sequence[Concept]) -> dict[str, set[str]]:
    holders: dict[str, set[str]] = {}
    for concept in concepts:
        for word in _words(concept):
            holders.setdefault(word, set()).add(concept.id)
    return holders


def _holding_all(concept: Concept, holders: dict[str, set[str]]) -> set[str]:
    """Ids of the concepts whose name and tags hold every tag of this one."""
    return set.intersection(*(holders[normalize_text(tag)] for tag in concept.tags))
