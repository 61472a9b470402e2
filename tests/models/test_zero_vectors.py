"""Zero vectors that nobody asked for: found by their rows, told with the way out, not told twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.config import ModelConfig, VisionConfig
from normwise.core.errors import InputError
from normwise.models.zero_vectors import zero_numbers, zero_words


@given(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1e-30, -2.0]), st.booleans()), max_size=12), st.integers(0, 100))
def test_the_numbers_are_those_of_a_loop(rows, first):
    vectors = np.array([[value, 0.0] for value, _ in rows], dtype=np.float32).reshape(len(rows), 2)
    skipped = [row for row, (_, on_purpose) in enumerate(rows) if on_purpose]
    wanted = [first + row for row, (value, on_purpose) in enumerate(rows) if value == 0.0 and not on_purpose]
    found = zero_numbers(vectors, first=first, without=skipped)
    assert found.tolist() == wanted
    assert found.dtype == np.int64


def test_nothing_was_encoded():
    assert zero_numbers(np.zeros((0, 3))).tolist() == []


def test_the_vectors_are_left_as_they_are():
    vectors = np.zeros((2, 2))
    zero_numbers(vectors, without=np.array([1]))
    assert not vectors.any()


def test_one_and_many_are_told_with_the_first_numbers():
    one = zero_words(np.array([7]), count=1200, what="queries", modalities={"image"})
    assert one.startswith("1 of 1,200 queries (number 7) has a zero vector, which scores 0 against everything: the vision tower answers")
    assert "train with a greater model.vision.image_size (64 or more for efficientnet-lite0)" in one
    many = zero_words(list(range(9)), count=10, what="contents", modalities={"image"})
    assert many.startswith("9 of 10 contents (numbers 0, 1, 2, 3, 4, ...) have zero vectors, which score 0")
    assert "(numbers 1, 2) have" in zero_words([1, 2], count=3, what="contents", modalities={"image"})


@pytest.mark.parametrize(
    ("modalities", "words"),
    [
        ({"text"}, "knows nothing in such texts"),
        ({"image"}, "vision tower"),
        ({"text+image"}, "vision tower"),
        ({"text", "image"}, "more pixels"),
    ],
)
def test_the_way_out_is_that_of_the_modality(modalities, words):
    assert words in zero_words([1], count=2, what="contents", modalities=modalities)


def test_no_zero_vector_is_no_word():
    assert zero_words(np.array([], dtype=np.int64), count=5, what="contents", modalities=()) == ""


def test_a_size_that_the_packaged_tower_cannot_read_is_refused_before_any_work():
    with pytest.raises(InputError, match="vision: image_size is 100, and efficientnet-lite0 takes multiples of 32: such as 64 or 96"):
        ModelConfig.read({"vision": {"image_size": 100}}, source="run.toml")
    assert VisionConfig(name="google/vit", image_size=100).image_size == 100


@pytest.mark.parametrize(("settings", "told"), [({"image_size": 32}, True), ({"image_size": 64}, False), ({}, False)])
def test_a_size_at_which_the_packaged_tower_says_little_is_told(settings, told):
    assert bool(VisionConfig(**settings).caution) is told
    if told:
        assert VisionConfig(**settings).caution.endswith("whose vectors are zero then: give 64 or more")


def test_other_towers_have_their_own_sizes():
    assert VisionConfig(name="google/vit", image_size=32).caution == ""
