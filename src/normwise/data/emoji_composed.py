"""`emoji-composed`: a picture and a change in words, to the picture with that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from normwise.data.contents import Content, Interleaved, pictures_of
from normwise.data.emoji_families import direction_form, gender_form
from normwise.data.emoji_files import Concept, Style, plain_code
from normwise.data.emoji_world import EmojiWorld, Example, assemble, load_world, picture_corpus, split_examples
from normwise.data.sets import Corpus, RetrievalData
from normwise.data.sources import stable_fraction

COMPOSED = "emoji-composed"
KIND = "text + image to image: a picture and a change of skin tone, gender, direction or style"
TONES = ("", "light", "medium-light", "medium", "medium-dark", "dark")
_GENDERS = {"man": "as a man", "woman": "as a woman", "person": "with no gender stated"}
_CHILDREN = {"boy": "as a boy", "girl": "as a girl"}
_MANY = {"man": "as men", "woman": "as women", "person": "with no gender stated"}
_NAMES: dict[Style, str] = {"openmoji": "OpenMoji", "twemoji": "Twemoji"}
# Flags look nearly the same in every style.
_SAME_IN_STYLES = "flags"
Change = tuple[str, Concept, str, Concept]


def build_composed(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (picture and change, picture): other skin tone, gender, direction or style of drawing, as Unicode and the styles have them.

    Skin tones: from the picture without one to each, and from each to the one two steps on. Genders: between the forms of one
    concept. Directions: `facing right` and left, and pairs such as thumbs up and down. Styles: concepts without such forms,
    from OpenMoji to Twemoji or back (a hash says which). A change that shows nothing new is left out. Candidates are all
    pictures of OpenMoji with skin-tone variants, those that look the same as one, and Twemoji's of the concepts of the last
    kind; the picture of a query is one of them, and is not ranked for that query (`Judged.not_ranked`).
    Splits are by family, as in the other emoji sets.

    Args:
        roots: folders that hold node_modules; None means the usual places.
        cache_dir: where the drawn pictures are kept; None means the default cache.

    Raises:
        InputError: the packages are not found or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    world = load_world(("twemoji",), roots=roots, cache_dir=cache_dir)
    own, rows = picture_corpus(world, world.concepts)
    styled = _style_concepts(world)
    other = {concept.id: len(own) + place for place, concept in enumerate(styled)}
    corpus = Corpus(
        (*own.ids, *(f"twemoji {concept.id}" for concept in styled)),
        (*own.contents, *(world.picture("twemoji", concept) for concept in styled)),
    )
    examples = [
        _example(world, f"{kind} {source.id} {target.id}", source, (corpus.contents[rows[source.id]], words), rows[target.id])
        for kind, source, words, target in _changes(world.concepts)
        if rows[source.id] != rows[target.id]
    ]
    for concept in styled:
        there: tuple[Style, Style] = ("openmoji", "twemoji") if stable_fraction(f"style {concept.id}") < 0.5 else ("twemoji", "openmoji")
        places = {"openmoji": rows[concept.id], "twemoji": other[concept.id]}
        query = (corpus.contents[places[there[0]]], f"drawn in the style of {_NAMES[there[1]]}")
        examples.append(_example(world, f"style {concept.id}", concept, query, places[there[1]]))
    notes = (
        *world.notes(),
        f"{len(world.concepts) - len(own):,} pictures that look like another are one candidate with it",
        "changes that show nothing new are left out",
        "flags are not asked for in another style, which hardly changes them",
    )
    return assemble(COMPOSED, KIND, corpus, split_examples(examples), notes=notes)


def _example(world: EmojiWorld, name: str, source: Concept, query: tuple[Content, str], row: int) -> Example:
    """Of pictures that look the same the candidate asks for all, so that a query's own picture is found among the candidates."""
    shown, words = query
    (picture,) = pictures_of(shown)
    return Example(name, Interleaved((picture, words)), f"{picture.digest} {words}", row, (), world.family[source.id])


def _changes(concepts: Sequence[Concept]) -> Iterator[Change]:
    by_id = {concept.id: concept for concept in concepts}
    yield from _tones(concepts, by_id)
    yield from _genders([concept for concept in concepts if not concept.tones])
    yield from _directions(concepts)


def _tones(concepts: Sequence[Concept], by_id: dict[str, Concept]) -> Iterator[Change]:
    single = {(concept.base, concept.tones[0]): concept for concept in concepts if len(concept.tones) == 1}
    for concept in concepts:
        if concept.tones:
            words = "with " + " and ".join(f"{TONES[tone]} skin tone" for tone in concept.tones)
            yield "tone", by_id[concept.base], words, concept
        if len(concept.tones) == 1:
            source = single.get((concept.base, (concept.tones[0] + 2) % 5 + 1))
            if source is not None:
                yield "tone", source, f"with {TONES[concept.tones[0]]} skin tone", concept


def _genders(plain: Sequence[Concept]) -> Iterator[Change]:
    forms: dict[str, dict[str, Concept]] = {}
    for concept in plain:
        form, gender = gender_form(concept)
        if form and gender in _GENDERS:
            forms.setdefault(form, {})[gender] = concept
    for mine in forms.values():
        for source in mine.values():
            for gender, target in mine.items():
                if source is not target:
                    many = any(label.label.partition(" ")[0] in ("men", "women") for label in mine.values())
                    words = _CHILDREN.get(target.label, (_MANY if many else _GENDERS)[gender])
                    yield "gender", source, words, target


def _directions(concepts: Sequence[Concept]) -> Iterator[Change]:
    by_code = {plain_code(concept.id): concept for concept in concepts}
    turned: dict[str, list[tuple[str, Concept]]] = {}
    for concept in concepts:
        form, direction = direction_form(concept)
        if direction == "facing right" and form in by_code:
            yield "direction", by_code[form], "facing right", concept
            yield "direction", concept, "facing left", by_code[form]
        elif form and not concept.tones:
            turned.setdefault(form, []).append((direction, concept))
    for mine in turned.values():
        for _, source in mine:
            for direction, target in mine:
                if source is not target:
                    yield "direction", source, f"turned {direction}", target


def _style_concepts(world: EmojiWorld) -> list[Concept]:
    """Concepts that are alone in their family, no flags, drawn by both styles and by Twemoji like no other."""
    sizes: dict[str, int] = {}
    for family in world.family.values():
        sizes[family] = sizes.get(family, 0) + 1
    look = world.stores["twemoji"].look
    alike: dict[int, int] = {}
    for number in look.values():
        alike[number] = alike.get(number, 0) + 1
    return [
        concept
        for concept in world.plain
        if sizes[world.family[concept.id]] == 1 and concept.group != _SAME_IN_STYLES and concept.id in look and alike[look[concept.id]] == 1
    ]
