"""Maps of tokens: one scale on both axes, a point for each token, names that touch nothing."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from staircase_material import ring

from normwise.core.staircase_records import TokenMap
from normwise.report.token_map_plots import map_figure, place_names

INNER = (40.0, 16.0, 310.0, 286.0)


def spots(svg):
    return [tuple(map(float, found)) for found in re.findall(r'<circle class="mean s1" cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_a_ring_is_round_and_all_its_names_are_there():
    svg, words = map_figure(ring(20))
    found = spots(svg)
    assert len(found) == 20
    middle = [sum(axis) / 20 for axis in zip(*found, strict=True)]
    radii = [((x - middle[0]) ** 2 + (y - middle[1]) ** 2) ** 0.5 for x, y in found]
    assert radii == pytest.approx([radii[0]] * 20, abs=0.15)
    assert words == "20 tokens, each with its name"
    assert set(re.findall(r'<text class="name"[^>]*>(\d+)</text>', svg)) == {str(i) for i in range(20)}


def test_one_unit_is_as_long_across_as_up_however_the_points_lie():
    flat = TokenMap(step=0, names=tuple("abc"), points=((0.0, 0.0), (10.0, 0.0), (0.0, 1.0)), shares=(0.9, 0.1))
    zero, across, up = spots(map_figure(flat)[0])
    assert across[0] - zero[0] == pytest.approx(10 * (zero[1] - up[1]), abs=1.1)


def test_shares_are_told_and_a_lone_or_equal_point_has_a_map():
    svg, words = map_figure(TokenMap(step=3, names=("a",), points=((2.0, 2.0),), shares=(0.0, 0.0)))
    assert "component 1: 0% of the variance" in svg
    assert words == "1 token, each with its name"
    assert len(spots(map_figure(TokenMap(step=3, names=("a", "b"), points=((0.0, 0.0),) * 2, shares=(0.0, 0.0)))[0])) == 2
    assert map_figure(TokenMap(step=3, names=(), points=(), shares=(0.0, 0.0))) == ("", "no token")
    assert "component 1: 62.5% of" in map_figure(ring(3).model_copy(update={"shares": (0.625, 0.1)}))[0]


def test_of_very_many_tokens_a_part_is_drawn_and_counted():
    many = TokenMap(step=0, names=("x",) * 5000, points=tuple((float(i), 0.0) for i in range(5000)), shares=(1.0, 0.0))
    svg, words = map_figure(many)
    assert len(spots(svg)) == 1000
    assert words.startswith("1,000 of 5,000 tokens, ")


@given(
    st.lists(st.tuples(st.floats(INNER[0], INNER[2]), st.floats(INNER[1], INNER[3])), min_size=1, max_size=40),
    st.lists(st.text("ab漢 ", min_size=1, max_size=12), min_size=40, max_size=40),
)
def test_names_touch_no_other_name_no_other_point_and_no_edge(points, names):
    check_names([(name, x, y) for name, (x, y) in zip(names, points, strict=False)])


def test_names_in_a_crowd_touch_nothing_and_some_are_there():
    random = Random(0)
    crowd = [("ab", 100 + 120 * random.random(), 100 + 120 * random.random()) for _ in range(60)]
    assert len(check_names(crowd)) > 10
    assert len(check_names(crowd[::-1])) > 10


def check_names(given_spots):
    placed = place_names(given_spots)
    boxes = [box for _, box in placed]
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for left, top, right, floor in boxes:
        assert INNER[0] <= left
        assert INNER[1] <= top
        assert floor <= INNER[3]
        assert right <= 321.0
        assert not any(left < x < right and top < y < floor for _, x, y in given_spots)
    return placed


def test_a_name_takes_another_side_where_the_first_is_taken():
    (_, first), (_, second) = place_names([("aaaa", 150.0, 150.0), ("b", 156.0, 150.0)])
    assert first[2] < 150.0
    assert second[0] > 156.0
