"""What the emoji sets share: concepts with their pictures and families, and the cutting of examples into splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.clusters import components
from normwise.data.contents import Content
from normwise.data.emoji_families import families, split_of
from normwise.data.emoji_files import ATTRIBUTION, HOW_TO_GET, Concept, Style, package_version, read_concepts, require_package
from normwise.data.picture_store import StoredPictures, stored_pictures
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs, is_skewed

SPLITS = ("train", "dev", "test")
_NAMED = 5


@dataclass(frozen=True)
class EmojiWorld:
    """Concepts that OpenMoji draws, their families, and the pictures of the styles that were asked for.

    Attributes:
        concepts: with a picture in OpenMoji, in the order of its list.
        family: id -> id of the first concept of its family.
        stores: the pictures by style.
        versions: of the packages, by style.
    """

    concepts: tuple[Concept, ...]
    family: dict[str, str]
    stores: dict[Style, StoredPictures]
    versions: dict[Style, str]

    @property
    def plain(self) -> tuple[Concept, ...]:
        """The concepts without a skin tone."""
        return tuple(concept for concept in self.concepts if not concept.tones)

    def picture(self, style: Style, concept: Concept) -> Picture:
        """The picture of a concept, which the style has."""
        return Picture.of_bytes(self.stores[style].png[concept.id], name=f"{style} {concept.id} ({concept.label})")

    def notes(self) -> tuple[str, ...]:
        """Whose drawings these are, and what is left out of all sets."""
        credit = ", ".join(f"{ATTRIBUTION[style]} {version}" for style, version in self.versions.items())
        left_out = "OpenMoji's extras, which are no emoji of Unicode, and bare skin tones and hair styles are left out"
        lost = [f"{style} {name} ({why})" for style, store in self.stores.items() for name, why in store.left_out.items()]
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        failed = (f"drawings left out: {', '.join(lost[:_NAMED])}{more}",) if lost else ()
        remarks = tuple(f"cache {store.remark}" for store in self.stores.values() if store.remark)
        return (f"pictures: {credit}", left_out, *failed, *remarks)


@dataclass(frozen=True)
class Example:
    """A query and what is relevant to it.

    Attributes:
        id: its last word is the id of the concept meant.
        query: the content.
        same: examples with the same value are one query.
        row: of the corpus, the positive in training.
        relevant: rows that are right answers too.
        family: of the concept.
    """

    id: str
    query: Content
    same: str
    row: int
    relevant: tuple[int, ...]
    family: str


def load_world(styles: Sequence[Style], *, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> EmojiWorld:
    """Read the list and the pictures of OpenMoji and of the other styles.

    Args:
        styles: beside OpenMoji; their skin-tone variants are not drawn.
        roots: folders that hold node_modules; None means the usual places.
        cache_dir: None means the default cache.

    Raises:
        InputError: a package is not found or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    wanted: tuple[Style, ...] = ("openmoji", *styles)
    folders: dict[Style, Path] = {style: require_package(style, roots) for style in wanted}
    listed = read_concepts(folders["openmoji"])
    stores: dict[Style, StoredPictures] = {}
    for style, folder in folders.items():
        drawn_by = listed if style == "openmoji" else [concept for concept in listed if not concept.tones]
        stores[style] = stored_pictures(style, folder, drawn_by, cache_dir=cache_dir)
    own = stores["openmoji"]
    drawn = tuple(concept for concept in listed if concept.id in own.png and concept.base in own.png)
    versions: dict[Style, str] = {style: package_version(folder) for style, folder in folders.items()}
    return EmojiWorld(drawn, families(drawn, own.look), stores, versions)


def picture_corpus(world: EmojiWorld, concepts: Sequence[Concept]) -> tuple[Corpus, dict[str, int]]:
    """OpenMoji's pictures as candidates, one for all that look the same, and the row of each concept's."""
    look = world.stores["openmoji"].look
    rows: dict[int, int] = {}
    first: list[Concept] = []
    places: dict[str, int] = {}
    for concept in concepts:
        row = rows.setdefault(look[concept.id], len(rows))
        if row == len(first):
            first.append(concept)
        places[concept.id] = row
    return Corpus(tuple(concept.id for concept in first), tuple(world.picture("openmoji", concept) for concept in first)), places


def assemble(name: str, kind: str, corpus: Corpus, examples: dict[str, list[Example]], *, notes: tuple[str, ...]) -> RetrievalData:
    """Examples by split as a set; those that are the same query are judged once, with all that is relevant to any of them.

    A query that stands in two splits is left out of both, since what it asks for would be known from training.

    Raises:
        InputError: too few examples for training.
    """
    where: dict[str, set[str]] = {}
    for split, mine in examples.items():
        for example in mine:
            where.setdefault(example.same, set()).add(split)
    shared = {same for same, splits in where.items() if len(splits) > 1}
    kept = {split: [example for example in mine if example.same not in shared] for split, mine in examples.items()}
    if len(kept["train"]) < 2:
        raise InputError(f"{name}: {len(kept['train'])} training pairs found: at least 2 are needed; are the packages whole? {HOW_TO_GET}")
    if shared:
        notes = (*notes, f"queries that would stand in two splits are left out: {len(shared):,}")
    train = kept["train"]
    positives = np.asarray([example.row for example in train], dtype=np.int64)
    pairs = TrainingPairs(
        tuple(example.query for example in train), positives, ((),) * len(train), corpus,
        components([[("family", example.family), ("query", example.same)] for example in train]),
    )  # fmt: skip
    judged = {split: _judged(kept[split], corpus) for split in ("dev", "test")}
    return RetrievalData(name, kind, pairs, judged["dev"], judged["test"], skewed=is_skewed(positives), notes=notes)


def split_examples(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """Examples by the split of their families."""
    parts: dict[str, list[Example]] = {split: [] for split in SPLITS}
    for example in examples:
        parts[split_of(example.family)].append(example)
    return parts


def _judged(examples: Sequence[Example], corpus: Corpus) -> Judged | None:
    if not examples:
        return None
    grouped: dict[str, list[Example]] = {}
    for example in examples:
        grouped.setdefault(example.same, []).append(example)
    groups = list(grouped.values())
    relevance = tuple({row: 1.0 for example in group for row in (example.row, *example.relevant)} for group in groups)
    clusters = components([[("family", example.family) for example in group] for group in groups])
    return Judged(tuple(group[0].id for group in groups), tuple(group[0].query for group in groups), relevance, corpus, clusters)
