"""Emoji as npm packages ship them: OpenMoji's list and drawings, and the icon sets of Twemoji and Fluent emoji."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from normwise.core.errors import InputError
from normwise.data.cache import default_cache
from normwise.data.opening import kind_of, parse_json, read_json_object, reading, user_path

Style = Literal["openmoji", "twemoji", "fluent"]
STYLES: tuple[Style, ...] = get_args(Style)
PACKAGES: dict[Style, str] = {"openmoji": "openmoji", "twemoji": "@iconify-json/twemoji", "fluent": "@iconify-json/fluent-emoji-flat"}
ATTRIBUTION: dict[Style, str] = {
    "openmoji": "OpenMoji (CC BY-SA 4.0)",
    "twemoji": "Twemoji (CC BY 4.0)",
    "fluent": "Fluent emoji (MIT)",
}
HOW_TO_GET = (
    "run npm install openmoji@17.0.0 @iconify-json/twemoji@1.2.5 @iconify-json/fluent-emoji-flat@1.2.6 in the working folder "
    "(or with --prefix ~/.cache/normwise/npm), or name the folder that holds node_modules in data.roots; "
    'drawing them needs pip install "normwise[images]"'
)
EXTRAS = "extras"
_COMPONENT = "component"
_HEXCODE = re.compile(r"[0-9A-F]{2,6}(?:-[0-9A-F]{2,6})*")
_FIELDS = ("hexcode", "annotation", "tags", "group", "subgroups", "skintone_base_hexcode")


@dataclass(frozen=True)
class Concept:
    """One emoji of Unicode: what it is called, where it belongs, and of which other one it is a skin-tone variant.

    Attributes:
        id: OpenMoji's hexcode, such as `1F44B-1F3FF`.
        label: its name.
        tags: words for it, in the order of the list; none for skin-tone variants.
        group: such as `people-body`.
        subgroup: such as `hand-fingers-open`.
        tones: skin tones 1 (light) to 5 (dark), one for each person in it; none for one without.
        base: id of the same without skin tone; its own id where it has none.
    """

    id: str
    label: str
    tags: tuple[str, ...]
    group: str
    subgroup: str
    tones: tuple[int, ...]
    base: str


def usual_places() -> tuple[Path, ...]:
    """Where npm puts packages."""
    roots = (Path(), Path.home(), default_cache() / "npm", Path("/usr/lib"), Path("/usr/local/lib"))
    return tuple(root / "node_modules" for root in roots)


def find_package(style: Style, roots: Sequence[str] | None = None) -> Path | None:
    """The folder of a style's package: below one of `roots` when given (or its node_modules/), else in a usual place."""
    places = (
        usual_places()
        if roots is None
        else [place for root in roots for folder in [user_path(root, what="data.roots")] for place in (folder, folder / "node_modules")]
    )
    for place in places:
        try:
            if (place / PACKAGES[style] / "package.json").is_file():
                return place / PACKAGES[style]
        except OSError:
            continue
    return None


def require_package(style: Style, roots: Sequence[str] | None) -> Path:
    """As `find_package`.

    Raises:
        InputError: not found; the message says how to get it.
    """
    folder = find_package(style, roots)
    if folder is None:
        where = "in the usual places" if roots is None else f"in {', '.join(roots)}"
        raise InputError(f"the npm package {PACKAGES[style]} was not found {where}: {HOW_TO_GET}")
    return folder


def package_version(folder: Path) -> str:
    """The version that a package says it has.

    Raises:
        InputError: its package.json cannot be read or names none.
    """
    version = read_json_object(folder / "package.json").get("version")
    if not isinstance(version, str) or not version:
        raise InputError(f"{folder / 'package.json'} names no version: is the package whole? {HOW_TO_GET}")
    return version


def read_concepts(folder: Path) -> tuple[Concept, ...]:
    """Read OpenMoji's list of emoji, in its order, without its own extras and without bare skin tones and hair styles.

    Args:
        folder: of the package `openmoji`.

    Raises:
        InputError: the list is missing or not in OpenMoji's format; the message names file and entry.
    """
    path = folder / "data" / "openmoji.json"
    entries = parse_json(_text(path), where=str(path), wanted="expected OpenMoji's list of emoji")
    if not isinstance(entries, list):
        raise InputError(f"{path}: expected a list of emoji, got {type(entries).__name__}")
    found = [_concept(path, number, entry) for number, entry in enumerate(entries)]
    kept = [concept for concept in found if not concept.group.startswith(EXTRAS) and concept.group != _COMPONENT]
    known = {concept.id for concept in kept}
    return tuple(concept for concept in kept if concept.base in known)


def drawings(style: Style, folder: Path, concepts: Sequence[Concept]) -> Iterator[tuple[str, str]]:
    """Yield (id of the concept, its drawing as SVG text) for every concept that the style draws.

    Args:
        style: whose drawings.
        folder: of its package.
        concepts: which of them.

    Raises:
        InputError: a file of the package is missing or malformed.
    """
    if style == "openmoji":
        for concept in concepts:
            path = folder / "color" / "svg" / f"{concept.id}.svg"
            if kind_of(path) == "file":
                yield concept.id, _text(path)
        return
    icons, names = read_json_object(folder / "icons.json"), read_json_object(folder / "chars.json")
    by_code = {plain_code(code): name for code, name in names.items()}
    for concept in concepts:
        svg = _icon(icons, by_code.get(plain_code(concept.id)), where=f"{folder / 'icons.json'}, {concept.id}")
        if svg is not None:
            yield concept.id, svg


def plain_code(code: str) -> str:
    """A hexcode without variation selectors, which packages write or leave out as they like.

    Example:
        >>> plain_code("2764-fe0f")
        '2764'
    """
    return "-".join(part for part in code.upper().split("-") if part != "FE0F")


def _concept(path: Path, number: int, entry: Any) -> Concept:
    where = f"{path}, entry {number} (from 0)"
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in _FIELDS):
        raise InputError(f"{where}: expected texts under {', '.join(_FIELDS)}; is the package whole? {HOW_TO_GET}")
    code, label, tags, group, subgroup, base = (entry[name] for name in _FIELDS)
    # The code becomes the name of a file.
    if not _HEXCODE.fullmatch(code) or not label.strip():
        raise InputError(f"{where}: expected a hexcode such as 1F44B-1F3FF and a label, got {code!r:.40} and {label!r:.40}")
    tones = [tone.strip() for tone in str(entry.get("skintone", "")).split(",") if tone.strip()]
    if not all(tone in "12345" and len(tone) == 1 for tone in tones):
        raise InputError(f"{where}: expected skin tones 1 to 5, got {entry['skintone']!r:.40}")
    words = tuple(dict.fromkeys(tag.strip() for tag in tags.split(",") if tag.strip()))
    return Concept(code, label, words, group, subgroup, tuple(int(tone) for tone in tones), base if tones and base else code)


def _icon(icons: dict[str, Any], name: str | None, *, where: str) -> str | None:
    """An icon of the IconifyJSON format as SVG text; None where the set has none of that name."""
    try:
        flips: list[str] = []
        seen: set[str] = set()
        while name is not None and name not in icons["icons"]:
            alias = icons.get("aliases", {}).get(name)
            if alias is None or name in seen or alias.get("rotate"):
                return None
            seen.add(name)
            flips += [side for side in ("hFlip", "vFlip") if alias.get(side)]
            name = alias["parent"]
        if name is None:
            return None
        icon = icons["icons"][name]
        width, height = (float(icon.get(side, icons.get(side, 16))) for side in ("width", "height"))
        body = str(icon["body"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{where}: not in the format of icon sets: is the package whole? {HOW_TO_GET}") from None
    for flip in flips:
        turn = f"translate({width:g} 0) scale(-1 1)" if flip == "hFlip" else f"translate(0 {height:g}) scale(1 -1)"
        body = f'<g transform="{turn}">{body}</g>'
    # Some icons are a little wider than high: centered in a square they keep their shape.
    side = max(width, height)
    box = f"{(width - side) / 2:g} {(height - side) / 2:g} {side:g} {side:g}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}">{body}</svg>'


def _text(path: Path) -> str:
    try:
        with reading(path):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 (byte 0x{error.object[error.start]:02x}): is the package whole? {HOW_TO_GET}") from None
