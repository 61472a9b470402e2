"""Which emoji are one concept in several forms (gender, direction, skin tone, look), and the split that a concept belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from normwise.data.clusters import components
from normwise.data.emoji_files import Concept, plain_code
from normwise.data.sources import stable_fraction

HELD_OUT = 0.15
_TONES = frozenset({"1F3FB", "1F3FC", "1F3FD", "1F3FE", "1F3FF"})
_MAN, _WOMAN, _PERSON = "1F468", "1F469", "1F9D1"
_SIGNS = {"2642": "man", "2640": "woman"}
_RIGHT = "27A1"
_JOINER = "200D"
# Unicode gave some forms of one concept codes of their own: the person, the man and the woman of each.
_TRIPLES = (
    ("1F9D2", "1F466", "1F467"),  # child
    ("1F9D3", "1F474", "1F475"),  # older person
    ("1FAC5", "1F934", "1F478"),  # person with crown, prince, princess
    ("1FAC4", "1FAC3", "1F930"),  # pregnant person
    ("1F9D1-200D-1F384", "1F385", "1F936"),  # Mx, Santa and Mrs. Claus
    ("", "1F57A", "1F483"),  # dancing
    ("1F9D1-200D-1F91D-200D-1F9D1", "1F46C", "1F46D"),  # holding hands
)
# Couples and families: who is in them is no gender of theirs.
_SEVERAL = ("family", "kiss", "couple with heart")
_BOTH = {"1F46B": "1F46C"}  # woman and man holding hands, a form of holding hands
_OWN_NAME = "Mx Claus"
_DIRECTIONS = {
    "left": "to the left", "leftwards": "to the left", "left-facing": "to the left",
    "right": "to the right", "rightwards": "to the right", "right-facing": "to the right",
    "up": "up", "upwards": "up", "down": "down", "downwards": "down",
}  # fmt: skip
# `right arrow curving left` has two directions, and `left luggage` has none.
_TURNED = (
    re.compile(r"(?P<to>leftwards|rightwards)(?: pushing)? hand"),
    re.compile(r"palm (?P<to>up|down) hand"),
    re.compile(r"backhand index pointing (?P<to>left|right|up|down)"),
    re.compile(r"thumbs (?P<to>up|down)"),
    re.compile(r"(?P<to>left-facing|right-facing) fist"),
    re.compile(r"magnifying glass tilted (?P<to>left|right)"),
    re.compile(r"(?P<to>up|down|left|right) arrow"),
    re.compile(r"(?:fast )?(?P<to>upwards|downwards|up|down) button"),
    re.compile(r"red triangle pointed (?P<to>up|down)"),
)


def gender_form(concept: Concept) -> tuple[str, str]:
    """What an emoji shows without its gender, and the gender: "person" (none stated), "man", "woman" or "both".

    Returns:
        A key that the forms share, and the gender; ("", "") for one that has no gender.

    Example:
        >>> gender_form(Concept("1F3C3-200D-2640-FE0F", "woman running", (), "people-body", "person-activity", (), ""))
        ('1F3C3', 'woman')
    """
    parts = [part for part in plain_code(concept.id).split("-") if part not in _TONES]
    code = "-".join(parts)
    for triple in _TRIPLES:
        if code in triple:
            return triple[1], ("person", "man", "woman")[triple.index(code)]
    if code in _BOTH:
        return _BOTH[code], "both"
    adults = [part for part in parts if part in (_MAN, _WOMAN, _PERSON)]
    if len(adults) > 1 or concept.group != "people-body" or concept.label.startswith(_SEVERAL):
        return "", ""
    if adults:
        gender = {_MAN: "man", _WOMAN: "woman", _PERSON: "person"}[adults[0]]
        return "-".join(_PERSON if part == adults[0] else part for part in parts), gender
    signs = [_SIGNS[part] for part in parts if part in _SIGNS]
    rest = "-".join(part for part in parts if part not in _SIGNS).replace(f"{_JOINER}-{_JOINER}", _JOINER)
    return rest.removesuffix(f"-{_JOINER}"), signs[0] if signs else "person"


def direction_form(concept: Concept) -> tuple[str, str]:
    """What an emoji shows without its direction, and the direction in words; ("", "") for one that has none.

    People who walk, run, kneel or roll face left unless their label says `facing right`.

    Example:
        >>> direction_form(Concept("1F44D", "thumbs up", (), "people-body", "hand-fingers-closed", (), ""))
        ('thumbs *', 'up')
    """
    parts = plain_code(concept.id).split("-")
    if len(parts) > 2 and parts[-1] == _RIGHT:
        return "-".join(parts[:-2]), "facing right"
    label = concept.label.partition(":")[0]
    for pattern in _TURNED:
        found = pattern.fullmatch(label)
        if found is not None:
            word = found["to"]
            return label.replace(word, "*"), _DIRECTIONS[word]
    return "", ""


def families(concepts: Sequence[Concept], look: Mapping[str, int]) -> dict[str, str]:
    """Join the forms of one concept: skin tones, genders, directions, and pictures that look the same.

    Args:
        concepts: all of them.
        look: id -> group of pictures that look the same in OpenMoji.

    Returns:
        id -> id of the first concept of its family.
    """
    keys: list[list[tuple[str, object]]] = []
    for concept in concepts:
        code = plain_code(concept.id)
        mine: list[tuple[str, object]] = [("code", code), ("code", plain_code(concept.base))]
        gender, direction = gender_form(concept)[0], direction_form(concept)[0]
        mine += [("direction", direction)] if direction else []
        # Facing right or not, without signs of gender.
        mine += [("gender", gender.removesuffix(f"-{_JOINER}-{_RIGHT}"))] if gender else []
        mine += [("label", concept.label.partition(":")[0])] if concept.group == "people-body" else []
        mine += [("look", look[concept.id])] if concept.id in look else []
        keys.append(mine)
    first: dict[int, str] = {}
    return {concept.id: first.setdefault(int(number), concept.id) for concept, number in zip(concepts, components(keys), strict=True)}


def true_of(concepts: Sequence[Concept]) -> dict[str, tuple[str, ...]]:
    """Which labels are true of which pictures: `mechanic` of the man and the woman, `person walking` also of one who faces right.

    Args:
        concepts: without skin-tone variants.

    Returns:
        id -> ids of all concepts of which its label is true, itself first.
    """
    by_gender: dict[str, list[str]] = {}
    by_head: dict[str, list[str]] = {}
    for concept in concepts:
        form, gender = gender_form(concept)
        if form and gender != "person":
            by_gender.setdefault(form, []).append(concept.id)
        head, colon, _ = concept.label.partition(":")
        if colon and concept.group == "people-body":
            by_head.setdefault(head, []).append(concept.id)
    known = {concept.id: concept for concept in concepts}

    def below(concept: Concept) -> list[str]:
        form, gender = gender_form(concept)
        found = by_gender.get(form, []) if form and gender == "person" and concept.label != _OWN_NAME else []
        return [*found, *(by_head.get(concept.label, []) if concept.group == "people-body" else [])]

    result: dict[str, tuple[str, ...]] = {}
    for concept in concepts:
        reached, waiting = {concept.id: None}, [concept.id]
        while waiting:
            new = [name for name in below(known[waiting.pop()]) if name not in reached]
            reached.update(dict.fromkeys(new))
            waiting += new
        result[concept.id] = tuple(reached)
    return result


def split_of(family: str) -> str:
    """The split of a family, by a hash of its name: the same on every machine, for every seed and in every set.

    Example:
        >>> split_of("1F600")
        'test'
    """
    fraction = stable_fraction(f"emoji {family}")
    return "test" if fraction < HELD_OUT else "dev" if fraction < 2 * HELD_OUT else "train"
