"""Factors of the contents of emoji sets: how specific a concept is, how long and frequent its name, how full its picture."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.core.files import write_text
from normwise.data.contents import Content, text_of
from normwise.data.emoji_families import true_of
from normwise.data.emoji_files import STYLES, Concept, Style
from normwise.data.emoji_world import EmojiWorld, load_world
from normwise.data.factors import has_wordfreq, inverse_document_frequencies, word_counts, zipf_frequencies
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus

_GROUP_AND_SUBGROUP = 2


def emoji_factors(corpus: Corpus, *, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> dict[str, np.ndarray]:
    """Return factors of the candidates of an emoji set, or of its judged queries given as `Corpus(query_ids, queries)`.

    `group` and `subgroup` (categories of Unicode), `group_size` and `subgroup_size` (concepts in them), `forms` (concepts of
    its family, skin tones counted), `tag_count`, and `depth`: 3 for a concept of a subgroup, one more for each step to a
    narrower one (mechanic 3, woman mechanic 4, with a skin tone 5). Of the text, or of the name where the content has
    none: `text_words` or `label_words`, `idf` among all names and, with wordfreq, `zipf_frequency`, 0 where the list knows
    no word. Of pictures: `ink` (share of the square that is drawn on), `png_bytes`, and `style` where there are several.

    Args:
        corpus: N candidates whose ids end in the id of a concept, as in all emoji sets.
        roots: folders that hold node_modules; None means the usual places.
        cache_dir: where the drawn pictures are kept; None means the default cache.

    Returns:
        name -> (N,) float64, or (N,) str for categories; nothing missing, in the order of the candidates.

    Raises:
        InputError: an id does not end in the id of a concept; or the packages are not found or malformed.
        MissingExtraError: what draws or reads pictures is not installed.
    """
    styles: list[Style] = [_style(name) for name in corpus.ids]
    pictured = bool(corpus.contents) and all(isinstance(content, Picture) for content in corpus.contents)
    others: tuple[Style, ...] = tuple(style for style in STYLES if style != "openmoji" and style in styles) if pictured else ()
    world = load_world(others, roots=roots, cache_dir=cache_dir)
    known = {concept.id: concept for concept in world.concepts}
    concepts = [_concept(name, known) for name in corpus.ids]
    factors = _of_concepts(concepts, world)
    factors |= _of_texts(corpus.contents, concepts, world)
    if pictured:
        factors["ink"] = _numbers(world.stores[style].ink[concept.id] for style, concept in zip(styles, concepts, strict=True))
        factors["png_bytes"] = _numbers(len(content.encoded()) for content in corpus.contents if isinstance(content, Picture))
        factors |= {"style": np.array(styles)} if others else {}
    return factors


def write_factors(path: Path, factors: Mapping[str, np.ndarray]) -> None:
    """Write factors as the csv file that `normwise inspect --factors` reads: a line of names, then a row for each vector.

    Raises:
        InputError: the factors are not of one length; WorkError: the disk refused.
    """
    sizes = {name: len(values) for name, values in factors.items()}
    if len(set(sizes.values())) != 1:
        raise InputError(f"factors must have one length, got {', '.join(f'{name} {size}' for name, size in sizes.items()) or 'none'}")
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    writer.writerow(factors)
    columns = [[repr(float(value)) for value in values] if values.dtype.kind in "biuf" else values.tolist() for values in factors.values()]
    writer.writerows(zip(*columns, strict=True))
    write_text(path, sheet.getvalue())


def _style(name: str) -> Style:
    found: list[Style] = [style for style in STYLES if name.startswith(f"{style} ")]
    return found[0] if found else "openmoji"


def _concept(name: str, known: dict[str, Concept]) -> Concept:
    concept = known.get(name.split()[-1] if name.strip() else "")
    if concept is None:
        raise InputError(f"id {name!r:.60} does not end in the hexcode of an emoji that OpenMoji draws: give the corpus of an emoji set")
    return concept


def _of_concepts(concepts: Sequence[Concept], world: EmojiWorld) -> dict[str, np.ndarray]:
    plain = {concept.id: concept for concept in world.plain}
    groups, subgroups = Counter(concept.group for concept in plain.values()), Counter(concept.subgroup for concept in plain.values())
    forms = Counter(world.family.values())
    depths = _depths(world.plain)
    return {
        "group": np.array([concept.group for concept in concepts]),
        "subgroup": np.array([concept.subgroup for concept in concepts]),
        "group_size": _numbers(groups[concept.group] for concept in concepts),
        "subgroup_size": _numbers(subgroups[concept.subgroup] for concept in concepts),
        "forms": _numbers(forms[world.family[concept.id]] for concept in concepts),
        "tag_count": _numbers(len(plain[concept.base].tags) for concept in concepts),
        "depth": _numbers(depths[concept.base] + bool(concept.tones) for concept in concepts),
    }


def _depths(plain: Sequence[Concept]) -> dict[str, int]:
    above: dict[str, list[str]] = {concept.id: [] for concept in plain}
    for general, below in true_of(plain).items():
        for specific in below[1:]:
            above[specific].append(general)
    depths: dict[str, int] = {}
    # What has fewer above it comes before what is below it.
    for name in sorted(above, key=lambda name: len(above[name])):
        depths[name] = 1 + max((depths[general] for general in above[name]), default=_GROUP_AND_SUBGROUP)
    return depths


def _of_texts(contents: Sequence[Content], concepts: Sequence[Concept], world: EmojiWorld) -> dict[str, np.ndarray]:
    texts = [text_of(content) or concept.label for content, concept in zip(contents, concepts, strict=True)]
    own = all(text_of(content) for content in contents)
    labels = [concept.label for concept in world.plain]
    rarity = inverse_document_frequencies(texts, among=labels)
    factors = {
        "text_words" if own else "label_words": word_counts(texts),
        # A text without words holds none that another has.
        "idf": np.where(np.isnan(rarity), np.log(len(labels)), rarity),
    }
    if has_wordfreq():
        factors["zipf_frequency"] = np.nan_to_num(zipf_frequencies(texts), nan=0.0)
    return factors


def _numbers(values) -> np.ndarray:  # noqa: ANN001 - any iterable of numbers
    return np.array(list(values), dtype=np.float64)
