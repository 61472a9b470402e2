import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.data import contents
from normwise.data.contents import (
    Interleaved,
    compose,
    content_digest,
    content_problem,
    content_words,
    count_modalities,
    iter_pictures,
    modality_of,
    parts_of,
    pictures_of,
    sameness,
    text_of,
    texts_only,
)
from normwise.data.pictures import Picture

CAT, DOG = Picture.of_bytes(b"cat", name="cat.png"), Picture.of_bytes(b"dog", name="dog.png")
BOTH = Interleaved((CAT, "in red"))
PAIR = Interleaved((CAT, DOG))


@pytest.mark.parametrize(
    ("text", "pictures", "parts"),
    [
        ("a cat", (), ("a cat",)),
        ("", (), ("",)),
        (None, (CAT,), (CAT,)),
        ("  ", (CAT,), (CAT,)),
        ("in red", (CAT,), (CAT, "in red")),
        (" in red ", (CAT, DOG), (CAT, DOG, "in red")),
        (None, (CAT, DOG), (CAT, DOG)),
        ("<image>", (CAT,), (CAT,)),
        ("as <image> but red", (CAT,), ("as", CAT, "but red")),
        ("<image> beside <image>", (CAT, DOG), (CAT, "beside", DOG)),
        ("<image><image>", (DOG, CAT), (DOG, CAT)),
        ("which? <image>", (CAT,), ("which?", CAT)),
    ],
)
def test_pictures_stand_where_the_text_says_else_before_it(text, pictures, parts):
    found = compose(text, pictures)
    assert parts_of(found) == parts
    assert isinstance(found, Interleaved) == (len(parts) > 1)


def test_places_and_pictures_are_as_many():
    with pytest.raises(InputError, match=r"the text has 2 <image> for 1 picture\(s\): give one for each, or none"):
        compose("<image> or <image>", (CAT,))
    with pytest.raises(InputError, match=r"the text has 1 <image> for 2 picture\(s\)"):
        compose("<image>", (CAT, DOG))
    with pytest.raises(InputError, match="neither text nor picture: give one of them"):
        compose(None, ())


@pytest.mark.parametrize("parts", [(), ("a",), (CAT,), ("a", "b")])
def test_a_lone_part_is_not_interleaved(parts):
    with pytest.raises(InputError, match="Interleaved holds a picture and a text, or several pictures: give a lone"):
        Interleaved(parts)


def test_modalities_are_told_and_counted():
    assert [modality_of(one) for one in ("a", CAT, BOTH, PAIR)] == ["text", "image", "text+image", "image"]
    assert count_modalities(("a", CAT, BOTH, PAIR, "b")) == {"text": 2, "image": 2, "text+image": 1}
    assert list(count_modalities((BOTH, "a"))) == ["text", "text+image"]
    assert count_modalities(()) == {}


def test_parts_texts_and_pictures():
    assert (pictures_of("a"), pictures_of(CAT), pictures_of(PAIR)) == ((), (CAT,), (CAT, DOG))
    assert (text_of("a"), text_of(CAT), text_of(Interleaved(("as", CAT, "but red")))) == ("a", "", "as but red")
    assert content_words(Interleaved(("as", CAT, "but red"))) == "as [cat.png] but red"
    assert list(iter_pictures(("a", DOG, BOTH, PAIR, CAT))) == [DOG, CAT]


def test_problems_are_those_of_the_texts():
    assert content_problem(CAT) is content_problem(BOTH) is content_problem(PAIR) is None
    assert content_problem(Interleaved((CAT, " "))) == "is empty or whitespace"
    assert content_problem(Interleaved((CAT, "x\ud800"))).startswith("holds a lone surrogate")
    assert content_problem(7) == "is int, not text"
    assert content_problem(None) == "is None"


def test_the_same_is_up_to_case_in_texts_and_to_the_byte_in_pictures():
    copy = Picture.of_bytes(b"cat", name="other.png")
    assert sameness(BOTH) == sameness(Interleaved((copy, "In  RED")))
    red = Picture.of_bytes(b"cat", name="cat.png", background=(255, 0, 0))
    distinct = ["cat", CAT, red, DOG, BOTH, Interleaved(("in red", CAT)), PAIR, Interleaved((DOG, CAT)), Interleaved((CAT, "in", "red"))]
    assert len({sameness(one) for one in distinct}) == len(distinct)
    assert len({content_digest(one) for one in distinct}) == len(distinct)
    assert content_digest(BOTH) == content_digest(Interleaved((copy, "in red")))
    assert content_digest(Interleaved((CAT, "at", "b"))) != content_digest(Interleaved((CAT, "a", "tb")))  # where a part ends
    assert content_digest("Cat") != content_digest("cat")
    assert content_digest("x\ud800") != content_digest("x")


TEXTS = st.text("ab <\0\1é", min_size=1, max_size=4)
PARTS = st.lists(TEXTS | st.sampled_from([CAT, DOG]), min_size=2, max_size=5).filter(
    lambda parts: any(isinstance(p, Picture) for p in parts)
)


@given(PARTS, PARTS)
def test_a_digest_is_of_exactly_one_content(one, other):
    assert (content_digest(Interleaved(tuple(one))) == content_digest(Interleaved(tuple(other)))) == (one == other)


def test_texts_only_names_the_first_that_is_not():
    assert texts_only(("a", "b"), what="queries") == ("a", "b")
    with pytest.raises(InputError, match=r"queries: row 1 \(from 0\) is text\+image \(\[cat\.png\] in red\), and texts are read here only"):
        texts_only(("a", BOTH, CAT), what="queries")


def test_the_order_of_modalities_is_fixed():
    assert contents.MODALITIES == ("text", "image", "text+image")
