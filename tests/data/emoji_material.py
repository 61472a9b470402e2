"""A small folder in the layout of the npm packages of emoji, with drawings made here: what the emoji sets are tested on."""

import json

GROUPS = ("animals-nature", "objects", "symbols")
TONES = {"1F3FB": 1, "1F3FF": 5}
WORKER, MAN, WOMAN = "1F9D1-200D-1F527", "1F468-200D-1F527", "1F469-200D-1F527"


def entry(code, label, *, tags="", group="objects", subgroup="thing", tone="", base=""):
    return {
        "hexcode": code, "annotation": label, "tags": tags, "group": group, "subgroups": subgroup, "skintone": tone,
        "skintone_base_hexcode": base or code,
    }  # fmt: skip


def drawing(number, *, shade=0):
    """Two rectangles whose places and colors the number decides."""
    left, top, color = 3 * (number % 11), 4 * (number // 11 % 9), f"#{(number * 7919 + 4000) % 4096:03x}"
    marks = f'<rect x="{left}" y="{top}" width="30" height="24" fill="{color}"/><rect x="{60 - left}" y="50" width="9" height="9"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 72 72">{marks}<rect x="30" y="{4 + 9 * shade}" width="40" height="8"/></svg>'
    )


def things(count=60):
    return [
        entry(f"1F{0x600 + n:X}", f"thing {n}", tags=f"shape, word{n}, mark{n}", group=GROUPS[n % 3], subgroup=f"kind-{n % 6}")
        for n in range(count)
    ]


def people():
    walk = "1F6B6"
    rows = [
        entry(WORKER, "mechanic", tags="mechanic, tools, work"),
        entry(MAN, "man mechanic", tags="man, mechanic, tools, work"),
        entry(WOMAN, "woman mechanic", tags="mechanic, tools, woman, work"),
        entry(walk, "person walking", tags="hike, pace, walk"),
        entry(f"{walk}-200D-27A1-FE0F", "person walking: facing right", tags="hike, pace, walk"),
        entry("1F44D", "thumbs up", tags="good, hand, like"),
        entry("1F44E", "thumbs down", tags="bad, hand, dislike"),
        entry("1F9D2", "child", tags="child"),
        entry("1F466", "boy", tags="boy"),
        entry("1F44F", "clapping hands", tags="clap, hand, applause"),
    ]
    rows += [
        entry(code.replace(first, f"{first}-{tone}", 1), f"{label}: tone {number}", tone=number, base=code)
        for code, first, label in ((WORKER, "1F9D1", "mechanic"), (MAN, "1F468", "man mechanic"), ("1F44F", "1F44F", "clapping hands"))
        for tone, number in TONES.items()
    ]
    return [{**row, "group": "people-body", "subgroups": "person-role"} for row in rows]


def flags():
    return [
        entry(f"1F1E6-1F1{n}", f"flag: land {n}", tags=f"flag, L{n}", group="flags", subgroup="country-flag") for n in ("E6", "E7", "E8")
    ]


def icon_set(folder, drawings, *, aliases=None):
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"version": "1.0.0"}))
    icons = {f"icon-{code.lower()}": {"body": svg.partition(">")[2].removesuffix("</svg>")} for code, svg in drawings.items()}
    names = {code.lower(): f"icon-{code.lower()}" for code in drawings} | {code.lower(): f"alias-{code.lower()}" for code in aliases or {}}
    turned = {f"alias-{code.lower()}": alias for code, alias in (aliases or {}).items()}
    (folder / "icons.json").write_text(json.dumps({"icons": icons, "aliases": turned, "width": 72, "height": 72}))
    (folder / "chars.json").write_text(json.dumps(names))


def write_packages(root):
    """Write node_modules below `root`; return the entries of OpenMoji's list.

    The first two flags look the same in OpenMoji, and so do the mechanic and the man; Twemoji draws things 0 and 1 alike and
    the last thing not at all; Fluent's thumbs down is its thumbs up, mirrored; two drawings of OpenMoji are broken.
    """
    rows = [*things(), *people(), *flags()]
    rows += [entry("1F9F0", "toolbox", tags="tools, work, mechanic", group="symbols", subgroup="box")]
    rows += [entry("E001", "an extra", group="extras-openmoji"), entry("1F3FB", "light skin tone", group="component")]
    rows += [entry("1F300", "broken drawing"), entry("1F301", "drawing that reaches out")]
    openmoji = root / "node_modules" / "openmoji"
    (openmoji / "data").mkdir(parents=True)
    (openmoji / "color" / "svg").mkdir(parents=True)
    (openmoji / "package.json").write_text(json.dumps({"version": "1.0.0"}))
    (openmoji / "data" / "openmoji.json").write_text(json.dumps(rows))
    own = {row["hexcode"]: drawing(n) for n, row in enumerate(rows)}
    own["1F1E6-1F1E7"] = own["1F1E6-1F1E6"]
    own[MAN] = own[WORKER]
    own |= {"1F300": "<svg", "1F301": drawing(3).replace("<rect", '<use href="file.svg#a"/><rect', 1)}
    for code, svg in own.items():
        (openmoji / "color" / "svg" / f"{code}.svg").write_text(svg)
    plain = [row["hexcode"] for row in rows if not row["skintone"] and row["hexcode"][:4] not in ("E001", "1F30")]
    twemoji = {code: drawing(n, shade=3) for n, code in enumerate(plain)}
    twemoji["1F601"] = twemoji["1F600"]
    del twemoji["1F63B"]
    fluent = {code: drawing(n, shade=5) for n, code in enumerate(plain) if code != "1F44E"}
    icon_set(root / "node_modules" / "@iconify-json" / "twemoji", twemoji)
    mirrored = {"1F44E": {"parent": "icon-1f44d", "hFlip": True}}
    icon_set(root / "node_modules" / "@iconify-json" / "fluent-emoji-flat", fluent, aliases=mirrored)
    return rows
