"""The modality gap: slow loops from the definitions, identities, what chance gives, and false alarms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modality_worlds import isotropic
from scipy.stats import mannwhitneyu

from normwise.core.errors import InputError
from normwise.core.modality_records import ModalityGap
from normwise.theory.directions import normalize
from normwise.theory.modality_gap import (
    TwoModalities,
    centroid_distance,
    comparable_rows,
    explained_share,
    length_and_angle,
    matched_minus_random,
    mean_cosines,
    modality_gap,
    relabelings,
    separating_scores,
)
from normwise.theory.set_intervals import auc_interval, mean_difference_interval


def clouds(rows=80, width=12, *, seed=0, apart=0.0, longer=1.0):
    x, y = isotropic(rows, width, seed=seed), isotropic(rows, width, seed=seed + 1000)
    return x + apart, (y - apart) * longer


def test_every_figure_is_that_of_a_slow_loop():
    x, y = clouds(20, 5, apart=0.3, longer=2.0)
    pairs = np.array([[0, 3], [4, 4], [9, 1]])
    found = modality_gap(TwoModalities(x, y, pairs=pairs), seed=0)
    a, b = [v / np.linalg.norm(v) for v in x], [v / np.linalg.norm(v) for v in y]
    within = [np.mean([s[i] @ s[j] for i in range(20) for j in range(20) if i != j]) for s in (a, b)]
    cross = np.mean([u @ v for u in a for v in b])
    assert found.gap == pytest.approx(np.sqrt(sum((np.mean([v[k] for v in a]) - np.mean([v[k] for v in b])) ** 2 for k in range(5))))
    assert (found.within_first, found.within_second, found.cross) == pytest.approx((*within, cross))
    assert found.squared_gap == pytest.approx(sum(within) - 2 * cross)
    logs = [[np.log(np.linalg.norm(v)) for v in s] for s in (x, y)]
    assert found.log_norm_difference.mean == pytest.approx(np.mean(logs[0]) - np.mean(logs[1]))
    assert (found.log_norm_first, found.log_norm_second) == pytest.approx((np.mean(logs[0]), np.mean(logs[1])))
    assert found.norm_auc.mean == pytest.approx(np.mean([p > q for p in logs[0] for q in logs[1]]))
    assert found.raw_gap == pytest.approx(np.linalg.norm(x.mean(axis=0) - y.mean(axis=0)))
    matched = np.mean([a[i] @ b[j] for i, j in pairs])
    random = np.mean([a[i] @ b[j] for p, (i, _) in enumerate(pairs) for q, (_, j) in enumerate(pairs) if p != q])
    assert (found.matched_cosine, found.random_cosine, found.matched.mean) == pytest.approx((matched, random, matched - random))
    assert ModalityGap.from_json(found.to_json()) == found


def test_the_relabeled_gap_is_that_of_a_slow_loop():
    x, y = clouds(15, 4, apart=0.4)
    given_sets = TwoModalities(x, y)
    found = modality_gap(given_sets, seed=3)
    unit = normalize(np.concatenate([x, y]))
    dealt = relabelings(given_sets.units, given_sets.is_first, seed=3, draws=found.relabelings)
    gaps = [centroid_distance(unit[each], unit[~each]) for each in dealt]
    assert found.gap_by_chance == pytest.approx(np.mean(gaps))
    assert found.p_value == pytest.approx((1 + sum(gap >= found.gap for gap in gaps)) / (1 + len(gaps)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(2, 30), width=st.integers(1, 8), apart=st.floats(0, 3))
def test_identities_hold_for_any_two_sets(seed, rows, width, apart):
    x, y = clouds(rows, width, seed=seed, apart=apart)
    a, b = normalize(x), normalize(y)
    gap = centroid_distance(a, b)
    within_a, within_b, cross = mean_cosines(a, b)
    # The plug-in square is the unbiased one plus each vector's cosine with itself, 1, in place of its mean with others.
    assert gap**2 == pytest.approx(within_a + within_b - 2 * cross + (2 - within_a - within_b) / rows, abs=1e-9)
    assert 0.0 <= gap <= 2.0 + 1e-12
    assert 0.0 <= explained_share(a, b) <= 1.0
    length, angle = length_and_angle(x.mean(axis=0), y.mean(axis=0))
    assert length >= 0.0
    assert angle >= 0.0
    assert length + angle == pytest.approx(centroid_distance(x, y) ** 2, rel=1e-9, abs=1e-9)


def test_the_explained_share_is_that_of_the_sums_of_squares():
    x, y = clouds(40, 6, apart=0.5)
    a, b = normalize(x), normalize(y)
    center = (a.mean(axis=0) + b.mean(axis=0)) / 2
    total = np.mean([np.sum((v - center) ** 2) for v in (*a, *b)])
    between = np.mean([np.sum((m - center) ** 2) for m in (a.mean(axis=0), b.mean(axis=0))])
    assert explained_share(a, b) == pytest.approx(between / total)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(0.01, 100))
def test_the_gap_ignores_scale_and_rotation_and_the_norms_ignore_rotation(seed, scale):
    x, y = clouds(12, 4, seed=seed, apart=0.4)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    one, two = modality_gap(TwoModalities(x, y), seed=0), modality_gap(TwoModalities(x @ turn * scale, y @ turn * scale), seed=0)
    assert two.gap == pytest.approx(one.gap)
    assert two.p_value == one.p_value
    assert two.direction_auc.mean == pytest.approx(one.direction_auc.mean)
    assert two.log_norm_difference.mean == pytest.approx(one.log_norm_difference.mean)
    assert two.raw_gap == pytest.approx(scale * one.raw_gap)


def test_without_a_gap_alarms_are_as_rare_as_promised():
    found = [modality_gap(TwoModalities(*clouds(40, 8, seed=2 * seed)), seed=seed) for seed in range(30)]
    assert sum(each.p_value < 0.05 for each in found) <= 6
    assert sum((each.held_out.ci_low or 0) > 0 for each in found) <= 4
    assert np.mean([each.squared_gap for each in found]) == pytest.approx(0.0, abs=0.01)
    assert np.mean([each.direction_auc.mean for each in found]) == pytest.approx(0.5, abs=0.04)


def test_a_gap_is_found_and_its_held_out_size_is_right():
    x, y = clouds(400, 12, apart=0.5)
    found = modality_gap(TwoModalities(x, y), seed=0)
    far = modality_gap(TwoModalities(*clouds(4000, 12, seed=7, apart=0.5)), seed=0).gap
    assert found.p_value == 1 / (1 + found.relabelings)
    assert found.held_out.ci_low <= far <= found.held_out.ci_high
    assert found.direction_auc.ci_low > 0.9


def test_a_difference_of_length_alone_is_no_gap_of_directions():
    found = modality_gap(TwoModalities(*clouds(300, 12, longer=3.0)), seed=0)
    assert found.p_value > 0.05
    assert found.log_norm_difference.ci_high < -1.0
    assert found.norm_auc.mean < 0.05
    x = isotropic(50, 6, seed=1) + 4.0
    assert modality_gap(TwoModalities(x, 2.0 * x), seed=0).raw_gap_norm_share == pytest.approx(1.0)


def test_rows_of_one_unit_are_no_further_evidence():
    # Ten concepts, each in 12 near copies: as rows they look apart, as units they do not.
    alarms = {"rows": 0, "units": 0}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y = (np.repeat(rng.normal(size=(10, 6)), 12, axis=0) + 0.01 * rng.normal(size=(120, 6)) for _ in range(2))
        units = np.concatenate([np.repeat(np.arange(10), 12), np.repeat(np.arange(10, 20), 12)])
        alarms["rows"] += modality_gap(TwoModalities(x, y), seed=seed).p_value < 0.05
        alarms["units"] += modality_gap(TwoModalities(x, y, units), seed=seed).p_value < 0.05
    assert alarms["rows"] >= 7
    assert alarms["units"] <= 4


def test_relabeling_swaps_within_units_and_shuffles_lone_ones():
    clusters = np.array([0, 1, 2, 0, 1, 3, 3])
    first = np.array([True, True, True, False, False, False, False])
    dealt = relabelings(clusters, first, seed=0, draws=400)
    assert np.all(dealt[:, 0] != dealt[:, 3])
    assert np.all(dealt[:, 1] != dealt[:, 4])
    assert np.all(dealt[:, 5] == dealt[:, 6])
    assert np.all(dealt[:, 2] != dealt[:, 5])
    assert dealt.mean(axis=0) == pytest.approx(np.full(7, 0.5), abs=0.1)


def test_units_of_one_set_are_not_compared_with_units_of_both():
    # Captions of 40 concepts; pictures of these and of 60 others that lie elsewhere, whatever their modality.
    rng = np.random.default_rng(0)
    concepts = rng.normal(size=(100, 6)) + np.where(np.arange(100) < 40, 0.0, 2.0)[:, None]
    x, y = (concepts[:count] + 0.3 * rng.normal(size=(count, 6)) for count in (40, 100))
    units = np.concatenate([np.arange(40), np.arange(100)])
    found = modality_gap(TwoModalities(x, y, units), seed=0)
    assert (found.tested_rows, found.p_value > 0.05) == (80, True)
    assert found.gap > 2 * found.gap_by_chance
    assert modality_gap(TwoModalities(x + 1.0, y, units), seed=0).p_value < 0.05
    labels = np.arange(140) < 40
    assert comparable_rows(units, labels).tolist() == [True] * 80 + [False] * 60
    # Lone units of both sets can be shuffled among each other.
    assert comparable_rows(np.arange(140), labels).all()
    assert comparable_rows(np.array([0, 0, 1, 1, 2, 3]), np.array([1, 0, 1, 0, 1, 0], dtype=bool)).all()


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.integers(0, 6), min_size=4, max_size=30), seed=st.integers(0, 100))
def test_the_auc_is_that_of_mann_and_whitney_ties_counted_half(values, seed):
    scores = np.array(values, dtype=float)
    first = np.arange(scores.size) % 2 == 0
    found = auc_interval(scores, first, np.arange(scores.size), seed=seed)
    expected = mannwhitneyu(scores[first], scores[~first]).statistic / (first.sum() * (~first).sum())
    assert found.mean == pytest.approx(expected)
    assert 0.0 <= found.ci_low <= found.ci_high <= 1.0


def test_the_interval_of_a_difference_has_the_textbook_width():
    rng = np.random.default_rng(0)
    values, first = rng.normal(size=800), np.arange(800) < 300
    found = mean_difference_interval(values, first, np.arange(800), seed=0)
    assert found.ci_high - found.ci_low == pytest.approx(2 * 1.96 * np.sqrt(1 / 300 + 1 / 500), rel=0.1)
    # Every row twice, as one unit: no narrower.
    twice = mean_difference_interval(np.repeat(values, 2), np.repeat(first, 2), np.repeat(np.arange(800), 2), seed=0)
    assert twice.ci_high - twice.ci_low == pytest.approx(found.ci_high - found.ci_low, rel=0.1)


def test_a_score_owes_nothing_to_its_own_row():
    x, y = clouds(30, 6, apart=0.2)
    moved = x.copy()
    moved[4] += 100.0
    one, two = separating_scores(TwoModalities(x, y), seed=0), separating_scores(TwoModalities(moved, y), seed=0)
    unit = normalize(np.concatenate([x, y]))
    units = np.arange(60)
    from normwise.theory.folds import cluster_folds

    fold = cluster_folds(units, folds=5, seed=0)
    known, held = fold != fold[4], fold == fold[4]
    labels = units < 30
    first, second = unit[known & labels].mean(axis=0), unit[known & ~labels].mean(axis=0)
    assert one[held] == pytest.approx((unit[held] - (first + second) / 2) @ (first - second) / np.linalg.norm(first - second))
    same = held & (units != 4)
    assert two[same] == pytest.approx(one[same])


def test_pairs_of_one_unit_are_no_random_pairs():
    x, y = clouds(6, 4)
    units = np.array([0, 0, 1, 2, 3, 4] * 2)
    pairs = np.stack([np.arange(6)] * 2, axis=1)
    a, b = normalize(x), normalize(y)
    _, random, _ = matched_minus_random(TwoModalities(x, y, units, pairs), seed=0)
    per_pair = [
        (
            np.mean([a[p] @ b[q] for q in range(6) if units[q] != units[p]])
            + np.mean([a[q] @ b[p] for q in range(6) if units[q] != units[p]])
        )
        / 2
        for p in range(6)
    ]
    assert random == pytest.approx(np.mean(per_pair))
    assert matched_minus_random(TwoModalities(x, y), seed=0) is None
    assert matched_minus_random(TwoModalities(x, y, np.repeat([0, 1], 6), pairs), seed=0) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.ones((4, 3))}, "expected vectors of one width"),
        ({"x": np.ones((1, 2))}, "at least two of each"),
        ({"x": np.array([[1.0, 0.0], [0.0, 0.0]])}, r"first: row 1 is zero"),
        ({"y": np.array([[1.0, np.nan], [0.0, 1.0]])}, r"second: row 0, column 1 is nan"),
        ({"clusters": np.arange(3)}, r"expected \(4,\)"),
        ({"clusters": np.zeros(4, dtype=int)}, "all rows are of one"),
        ({"pairs": np.array([0, 1])}, r"expected \(P, 2\)"),
        ({"pairs": np.array([[0, 2]])}, "outside 0..1 of the first or 0..1 of the second"),
    ],
)
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        TwoModalities(**{"x": np.eye(2), "y": np.eye(2), **changes})
