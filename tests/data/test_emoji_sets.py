import io
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emoji_material import MAN, WOMAN, WORKER, drawing, write_packages
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from normwise.core.errors import InputError, MissingExtraError
from normwise.data import emoji_composed, emoji_files, emoji_svg, picture_store
from normwise.data.contents import Interleaved, pictures_of, sameness
from normwise.data.emoji import build_captions, build_pictures, build_styles
from normwise.data.emoji_composed import build_composed
from normwise.data.emoji_factors import emoji_factors, write_factors
from normwise.data.emoji_families import direction_form, families, gender_form, split_of, true_of
from normwise.data.emoji_files import Concept, find_package, package_version, read_concepts, require_package
from normwise.data.emoji_svg import Drawer, SvgError, draw_all, svg_problem
from normwise.data.emoji_world import Example, assemble, load_world
from normwise.data.factor_files import read_factors
from normwise.data.picture_store import look_alikes
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus

BUILDERS = (build_captions, build_pictures, build_styles, build_composed)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("emoji")
    write_packages(root)
    return {"roots": [str(root)], "cache_dir": root / "cache"}


@pytest.fixture(scope="module")
def world(place):
    return load_world(("twemoji", "fluent"), **place)


def concept(code, label, group="people-body", tones=(), base=""):
    return Concept(code, label, (), group, "some", tones, base or code)


def judged(data):
    return [part for part in (data.dev, data.test) if part is not None]


def all_queries(data):
    """(split, content, rows, id or None) of every query."""
    rows = [("train", query, (int(row),)) for query, row in zip(data.train.queries, data.train.positives, strict=True)]
    for name, part in (("dev", data.dev), ("test", data.test)):
        rows += [(name, query, tuple(grades)) for query, grades in zip(part.queries, part.relevance, strict=True)]
    return rows


def check_invariants(data, family):
    queries = all_queries(data)
    assert all(rows for _, _, rows in queries)
    seen = {split: set() for split in ("train", "dev", "test")}
    texts = {split: set() for split in seen}
    for split, query, rows in queries:
        seen[split] |= {family[data.train.corpus.ids[row].split()[-1]] for row in rows}
        texts[split].add(sameness(query))
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not seen[one] & seen[other]
        assert not texts[one] & texts[other]
    candidates = [sameness(content) for content in data.train.corpus.contents]
    assert len(set(candidates)) == len(candidates)
    for part in judged(data):
        assert len({sameness(query) for query in part.queries}) == len(part)
    for content in [*(query for _, query, _ in queries), *data.train.corpus.contents]:
        for picture in pictures_of(content):
            with Image.open(io.BytesIO(picture.encoded())) as image:
                assert (image.size, image.mode) == ((128, 128), "RGBA")


@pytest.mark.parametrize("build", BUILDERS)
def test_splits_share_no_concept_and_every_query_has_an_answer(build, place, world):
    data = build(**place)
    check_invariants(data, world.family)
    assert data == build(**place)
    assert {split_of(world.family[data.train.corpus.ids[row].split()[-1]]) for row in data.train.positives} == {"train"}


def test_notes_name_licenses_and_what_was_left_out(place):
    notes = " ".join(build_styles(**place).notes)
    for words in ("OpenMoji (CC BY-SA 4.0) 1.0.0", "Twemoji (CC BY 4.0)", "Fluent emoji (MIT)", "1F300 (cannot be drawn", "extras"):
        assert words in notes
    assert "1F301 (refers to something outside itself)" in notes


def test_captions_are_names_and_tags_that_single_out(place, world):
    data = build_captions(**place)
    found = {}
    for _, query, rows in all_queries(data):
        found.setdefault(query, set()).update(data.train.corpus.ids[row] for row in rows)
    assert found["thing 7"] == {"1F607"}
    assert found["shape, word7, mark7"] == {"1F607"}
    assert "toolbox" in found
    assert not {"mechanic, tools, work", "tools, work, mechanic"} & set(found)  # the toolbox has the tags of the mechanic
    assert "flag, L" not in " ".join(query for query in found if "land" not in query)  # two tags are too few
    assert data.train.corpus.ids.count(MAN) == 0  # looks like the mechanic
    assert not {"an extra", "broken drawing", "light skin tone"} & set(found)


def test_a_name_is_relevant_to_what_it_is_true_of(world):
    true = true_of(world.plain)
    assert true[WORKER] == (WORKER, MAN, WOMAN)
    assert true[WOMAN] == (WOMAN,)
    assert true["1F6B6"] == ("1F6B6", "1F6B6-200D-27A1-FE0F")
    assert true["1F9D2"] == ("1F9D2", "1F466")
    assert true["1F466"] == ("1F466",)


def test_pictures_that_look_the_same_are_one_query_with_all_names(place):
    data = build_pictures(**place)
    names = {}
    for _, query, rows in all_queries(data):
        names.setdefault(query.digest, set()).update(data.train.corpus.contents[row] for row in rows)
    assert {"flag: land E6", "flag: land E7"} in names.values()
    assert any({"mechanic", "man mechanic"} <= each for each in names.values())
    assert data.train.corpus.contents.count("thing 3") == 1


def test_styles_test_in_a_style_that_is_new(place, world):
    data = build_styles(**place)
    own = {picture.digest for picture in data.train.corpus.contents}
    digests = {style: {Picture.of_bytes(png, name="").digest for png in store.png.values()} for style, store in world.stores.items()}
    assert own <= digests["openmoji"]
    assert {query.digest for query in (*data.train.queries, *data.dev.queries)} <= digests["twemoji"]
    assert {query.digest for query in data.test.queries} <= digests["fluent"]
    ids = {data.train.corpus.ids[row] for _, _, rows in all_queries(data) for row in rows}
    # Twemoji draws things 0 and 1 alike: if they stand in two splits, neither is asked for.
    if split_of(world.family["1F600"]) != split_of(world.family["1F601"]):
        assert not {"1F600", "1F601"} & {data.train.corpus.ids[row] for row in data.train.positives}
        assert "two splits are left out: 1" in " ".join(data.notes)
    assert "1F63B" not in ids or split_of(world.family["1F63B"]) == "test"


def test_composed_changes_are_those_of_unicode(place, world):
    data = build_composed(**place)
    label = {each.id: each.label for each in world.concepts}
    name_of = {
        Picture.of_bytes(png, name="").digest: label[key] for key, png in reversed(world.stores["openmoji"].png.items()) if key in label
    }
    found = set()
    for _, query, rows in all_queries(data):
        assert isinstance(query, Interleaved)
        if "style" not in query.text:
            found |= {(name_of[query.pictures[0].digest], query.text, label[data.train.corpus.ids[row]]) for row in rows}
    assert found == {
        ("mechanic", "as a woman", "woman mechanic"), ("woman mechanic", "as a man", "mechanic"),
        ("woman mechanic", "with no gender stated", "mechanic"),
        ("mechanic", "with light skin tone", "mechanic: tone 1"), ("mechanic", "with dark skin tone", "mechanic: tone 5"),
        ("mechanic", "with light skin tone", "man mechanic: tone 1"), ("mechanic", "with dark skin tone", "man mechanic: tone 5"),
        ("clapping hands", "with light skin tone", "clapping hands: tone 1"),
        ("clapping hands", "with dark skin tone", "clapping hands: tone 5"),
        ("person walking", "facing right", "person walking: facing right"),
        ("person walking: facing right", "facing left", "person walking"),
        ("thumbs up", "turned down", "thumbs down"), ("thumbs down", "turned up", "thumbs up"),
        ("child", "as a boy", "boy"), ("boy", "with no gender stated", "child"),
    }  # fmt: skip
    styled = [data.train.corpus.ids[row] for _, query, rows in all_queries(data) if "style" in query.text for row in rows]
    assert not any("1F1E6" in name or "1F600" in name or "1F63B" in name for name in styled)
    assert {name.startswith("twemoji ") for name in styled} == {True, False}


def test_the_picture_of_every_composed_query_is_a_candidate_that_is_not_ranked(place, monkeypatch):
    loaded = emoji_composed.load_world

    def nearly_alike(*styles, **settings):
        """Pictures that look the same differ in their bytes, as drawings do."""
        world = loaded(*styles, **settings)
        store = world.stores["openmoji"]
        changed = {key: png + str(row).encode() for row, (key, png) in enumerate(store.png.items())}
        return replace(world, stores={**world.stores, "openmoji": replace(store, png=changed)})

    monkeypatch.setattr(emoji_composed, "load_world", nearly_alike)
    data = build_composed(**place)
    rows = {content.digest: row for row, content in enumerate(data.test.corpus.contents)}
    for judged in (data.dev, data.test):
        assert judged is None or judged.not_ranked() == [(rows[query.pictures[0].digest],) for query in judged.queries]
    # Of pictures that look the same, one is a candidate and asks for all: the same holds in training.
    assert all(query.pictures[0].digest in rows for query in data.train.queries)


def test_forms_of_one_concept_are_one_family():
    looks = {}
    several = [
        concept("1F48F", "kiss"), concept("1F469-200D-2764-FE0F-200D-1F48B-200D-1F468", "kiss: woman, man"),
        concept("1F46C", "men holding hands"), concept("1F46B", "woman and man holding hands"),
        concept("1F385", "Santa Claus"), concept("1F936", "Mrs. Claus"), concept("1F618", "kissing face", "smileys-emotion"),
        concept("1F1F3", "flag: one", "flags"), concept("1F1F4", "flag: two", "flags"),
    ]  # fmt: skip
    found = families(several, looks)
    assert len(set(found.values())) == 6
    assert found["1F46B"] == "1F46C"
    assert len(set(families(several, {"1F1F3": 4, "1F1F4": 4}).values())) == 5
    toned = concept("1F64D-1F3FB-200D-2642-FE0F", "man frowning: light skin tone", tones=(1,), base="1F64D-200D-2642-FE0F")
    assert gender_form(toned) == ("1F64D", "man")
    apart = [concept("1F91D", "handshake", "hands"), concept("1FAF1-1F3FB", "two hands", "hands", tones=(1,), base="1F91D")]
    assert set(families(apart, looks).values()) == {"1F91D"}
    turned = [concept("1F6B6", "person walking"), concept("1F6B6-200D-2640-200D-27A1", "strider")]
    assert set(families(turned, looks).values()) == {"1F6B6"}
    assert gender_form(concept("1F469-200D-2764-FE0F-200D-1F468", "couple with heart: woman, man")) == ("", "")
    assert gender_form(concept("1F600", "grinning face", "smileys-emotion")) == ("", "")
    assert direction_form(concept("27A1", "right arrow", "symbols")) == ("* arrow", "to the right")
    assert direction_form(concept("2935", "right arrow curving down", "symbols")) == ("", "")


def test_a_query_in_two_splits_is_left_out_and_answers_are_joined():
    corpus = Corpus(("A", "B", "C", "D"), ("a", "b", "c", "d"))

    def example(same, row, *relevant):
        return Example(f"x {corpus.ids[row]}", same, same, row, relevant, corpus.ids[row])

    parts = {
        "train": [example("p", 0), example("q", 1), example("both", 0)],
        "dev": [example("both", 2), example("r", 2, 3), example("r", 1)],
        "test": [],
    }
    data = assemble("some", "kind", corpus, parts, notes=("first",))
    assert data.train.queries == ("p", "q")
    assert data.dev.queries == ("r",)
    assert data.dev.relevance == ({2: 1.0, 3: 1.0, 1: 1.0},)
    assert data.test is None
    assert data.notes == ("first", "queries that would stand in two splits are left out: 1")


def test_splits_hold_about_their_shares():
    counts = {split: sum(split_of(f"{n:X}") == split for n in range(4000)) for split in ("train", "dev", "test")}
    assert abs(counts["dev"] - 600) < 90
    assert abs(counts["test"] - 600) < 90


@given(st.lists(arrays(np.float64, 3, elements=st.sampled_from([0.0, 0.004, 0.5, 0.52, 1.0])), max_size=9))
def test_look_alikes_are_the_components_of_close_pairs(pictures):
    found = look_alikes(pictures)
    groups = list(range(len(pictures)))
    for _ in pictures:
        for one, left in enumerate(pictures):
            for other, right in enumerate(pictures):
                if np.sqrt(np.mean((left - right) ** 2)) < 0.01:
                    groups[one] = groups[other] = min(groups[one], groups[other])
    assert [[a == b for b in found] for a in found] == [[a == b for b in groups] for a in groups]


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ('<image href="a.png"/>', "holds a script, a picture or a style"),
        ("<script>1</script>", "holds a script"),
        ("<text>a</text>", "depends on the fonts"),
        ('<use xlink:href = "http://there/a"/>', "outside itself"),
        ('<use href="&#104;ttp://there/a"/>', "outside itself"),
        ('<rect fill="url(a.svg#b)"/>', "outside itself"),
        ("<!ENTITY a 'b'>", "entities"),
        (" " * emoji_svg.LONGEST, "characters"),
    ],
)
def test_drawings_that_reach_out_are_refused(inside, problem):
    assert problem in svg_problem(f"<svg>{inside}</svg>")
    with Drawer() as drawer, pytest.raises(SvgError, match=problem):
        drawer.draw(f"<svg>{inside}</svg>")


def test_drawings_that_point_inside_are_drawn():
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><defs><g id="a"><rect width="8" height="8" fill="url(#b)"/></g></defs>'
    assert svg_problem(f"{svg}<use href='#a'/></svg>") is None
    slow = '<filter id="f"><feTurbulence numOctaves="90000000"/></filter><rect width="8" height="8" filter="url(#f)"/>'
    start = time.monotonic()
    results = draw_all([drawing(1), f"{svg}{slow}</svg>", "<svg", drawing(1), drawing(2)], side=32, seconds=3.0)
    assert time.monotonic() - start < 30.0
    assert results[0] == results[3] != results[4]
    with Image.open(io.BytesIO(results[0])) as image:
        assert image.size == (32, 32)
    assert "longer than 3 seconds" in results[1]
    assert "cannot be drawn" in results[2]


def test_drawings_that_are_not_square_are_refused():
    with Drawer(side=16) as drawer, pytest.raises(SvgError, match="not square: 16 x 8"):
        drawer.draw('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 4"><rect width="8" height="4"/></svg>')


def test_an_icon_may_be_another_one_mirrored(world):
    def seen(code):
        with Image.open(io.BytesIO(world.stores["fluent"].png[code])) as image:
            return np.asarray(image).astype(int)

    assert np.abs(seen("1F44E") - seen("1F44D")[:, ::-1]).max() <= 2
    assert np.abs(seen("1F44E") - seen("1F44D")).max() > 100


def test_pictures_come_from_the_cache(place, monkeypatch):
    before = build_captions(**place)
    monkeypatch.setattr(picture_store, "draw_all", lambda texts: pytest.fail("drawn again"))
    assert build_captions(**place) == before


def test_what_is_missing_is_named(tmp_path, place, monkeypatch):
    with pytest.raises(InputError, match=r"npm package openmoji was not found in .*: run npm install openmoji@17"):
        build_captions(roots=[str(tmp_path)])
    monkeypatch.setattr(emoji_files, "usual_places", lambda: (tmp_path,))
    with pytest.raises(InputError, match="not found in the usual places"):
        require_package("twemoji", None)
    root = Path(place["roots"][0])
    monkeypatch.setattr(emoji_files, "usual_places", lambda: (root / "node_modules",))
    assert find_package("fluent") == root / "node_modules" / "@iconify-json" / "fluent-emoji-flat"
    assert find_package("openmoji", [str(root / "node_modules")]) == root / "node_modules" / "openmoji"
    monkeypatch.setattr(emoji_svg, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"resvg_py is not installed; run: pip install \"normwise\[images\]\""):
        draw_all([drawing(1)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hexcode": "../../secret"}, r"entry 0 \(from 0\): expected a hexcode such as .* got '../../secret'"),
        ({"annotation": " "}, "and a label"),
        ({"skintone": "7"}, "expected skin tones 1 to 5, got '7'"),
        ({"tags": 3}, "expected texts under hexcode, annotation"),
    ],
)
def test_malformed_lists_are_named_by_entry(tmp_path, change, message):
    rows = write_packages(tmp_path)
    folder = tmp_path / "node_modules" / "openmoji"
    (folder / "data" / "openmoji.json").write_text(json.dumps([{**rows[0], **change}, *rows[1:]]))
    with pytest.raises(InputError, match=message):
        read_concepts(folder)


def test_malformed_packages_are_named(tmp_path):
    write_packages(tmp_path)
    modules = tmp_path / "node_modules"
    (modules / "openmoji" / "data" / "openmoji.json").write_text("{}")
    with pytest.raises(InputError, match=r"openmoji\.json: expected a list of emoji, got dict"):
        read_concepts(modules / "openmoji")
    (modules / "openmoji" / "package.json").write_text("{}")
    with pytest.raises(InputError, match="names no version"):
        package_version(modules / "openmoji")
    (modules / "@iconify-json" / "twemoji" / "icons.json").write_text('{"icons": {"icon-1f600": {"no": "body"}}}')
    with pytest.raises(InputError, match=r"icons\.json, 1F600: not in the format of icon sets"):
        list(emoji_files.drawings("twemoji", modules / "@iconify-json" / "twemoji", [concept("1F600", "thing 0")]))


def test_too_few_examples_are_refused(tmp_path):
    rows = write_packages(tmp_path)
    few = [row for row in rows if row["hexcode"] == "1F600"]
    (tmp_path / "node_modules" / "openmoji" / "data" / "openmoji.json").write_text(json.dumps(few))
    with pytest.raises(InputError, match="emoji-pictures: . training pairs found: at least 2"):
        build_pictures(roots=[str(tmp_path)], cache_dir=tmp_path / "cache")


def test_factors_stand_in_the_order_of_the_candidates(place, tmp_path):
    data = build_captions(**place)
    factors = emoji_factors(data.train.corpus, **place)
    rows = {name: row for row, name in enumerate(data.train.corpus.ids)}
    assert factors["group"][rows["1F607"]] == "objects"
    assert factors["subgroup"][rows["1F607"]] == "kind-1"
    assert factors["group_size"][rows["1F607"]] == 20
    assert factors["subgroup_size"][rows["1F607"]] == 10
    assert [factors["depth"][rows[name]] for name in ("1F607", WORKER, WOMAN, "1F6B6-200D-27A1-FE0F")] == [3, 3, 4, 4]
    assert [factors["forms"][rows[name]] for name in ("1F607", WORKER, "1F44F")] == [1, 7, 3]
    assert factors["tag_count"][rows[WOMAN]] == 4
    assert factors["label_words"][rows[WOMAN]] == 2
    for row, picture in enumerate(data.train.corpus.contents):
        with Image.open(io.BytesIO(picture.encoded())) as image:
            assert factors["ink"][row] == pytest.approx(np.asarray(image)[:, :, 3].mean() / 255)
        assert factors["png_bytes"][row] == len(picture.encoded())
    assert "style" not in factors
    write_factors(tmp_path / "factors.csv", factors)
    read = read_factors(tmp_path / "factors.csv", rows=len(data.train.corpus))
    assert list(read) == list(factors)
    assert all(np.array_equal(read[name], values) for name, values in factors.items())


def test_factors_of_captions_and_of_queries(place):
    captions = emoji_factors(build_pictures(**place).train.corpus, **place)
    assert "text_words" in captions
    assert not {"ink", "label_words"} & set(captions)
    assert all(np.isfinite(values).all() for values in captions.values() if values.dtype.kind == "f")
    test = build_captions(**place).test
    queries = emoji_factors(Corpus(test.query_ids, test.queries), **place)
    tags = [row for row, name in enumerate(test.query_ids) if name.startswith("tags")]
    assert tags
    assert queries["text_words"][tags].tolist() == [len(test.queries[row].split(", ")) for row in tags]
    composed = emoji_factors(build_composed(**place).train.corpus, **place)
    assert set(composed["style"]) == {"openmoji", "twemoji"}
    assert composed["depth"].max() == 5  # the man mechanic with a skin tone
    with pytest.raises(InputError, match="id 'gone' does not end in the hexcode"):
        emoji_factors(Corpus(("gone",), ("x",)), **place)
    with pytest.raises(InputError, match="one length, got a 1, b 2"):
        write_factors(Path("x.csv"), {"a": np.ones(1), "b": np.ones(2)})


@pytest.mark.slow
@pytest.mark.skipif(
    any(find_package(style) is None for style in emoji_files.STYLES), reason=f"the npm packages are not here: {emoji_files.HOW_TO_GET}"
)
@pytest.mark.parametrize(
    ("build", "fewest"), [(build_captions, 2900), (build_pictures, 1700), (build_styles, 1600), (build_composed, 5000)]
)
def test_real_packages_keep_the_promises(build, fewest):
    data = build()
    check_invariants(data, load_world(()).family)
    assert fewest < len(data.train) + len(data.dev) + len(data.test) < 1.5 * fewest
    assert not any("drawings left out" in note for note in data.notes)
