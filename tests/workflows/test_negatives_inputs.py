"""What people give to `advise_negatives`: wrong types and ranges, rows of zeros, scales and scores that float32 does not hold."""

import warnings

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.workflows.negatives import advise_negatives
from normwise.workflows.negatives_inputs import checked_count, checked_temperature, taken


def world(seed=0, *, queries=60, pool=120, width=8):
    random = np.random.default_rng(seed)
    target = random.normal(size=(queries, width))
    return target + 0.7 * random.normal(size=(queries, width)), target, random.normal(size=(pool, width))


def advise(queries, positives, pool=None, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return advise_negatives(queries, positives, pool=pool, **({"similarity": "cosine", "temperature": 0.3, "temperatures": []} | more))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 1.5}, r"k is 1\.5; expected a whole number of 1 or above"),
        ({"k": "3"}, r"k is '3' \(str\); expected a whole number"),
        ({"k": True}, r"k is True \(bool\); expected a whole number"),
        ({"k": float("nan")}, "k is nan; expected a whole number"),
        ({"k": 2**53 + 1}, r"k is 9007199254740993; expected 9,007,199,254,740,992 at most \(2\^53\)"),
        ({"candidates": 10**21}, "candidates is 1000000000000000000000; expected 9,007,199,254,740,992 at most"),
        ({"k": 10**5000}, "k is a number of more than 40 digits; expected 9,007,199,254,740,992 at most"),
        ({"temperature": 10**5000}, "temperature is a number of more than 40 digits; expected a finite number"),
        ({"candidates": 1e6}, "candidates is 1000000.0; expected a whole number"),
        ({"limit_queries": None}, "limit_queries is None"),
        ({"limit_queries": 2.5}, r"limit_queries is 2\.5; expected a whole number of 2 or above"),
        ({"limit_pool": "9"}, "limit_pool is '9'"),
        ({"seed": -1}, "seed is -1; expected 0 or above"),
        ({"seed": None}, "seed is None"),
        ({"batch_size": 0}, "batch_size is 0; expected 1 or above"),
        ({"progress": 1}, r"progress is 1; expected True or False"),
        ({"overwrite": "yes"}, r"overwrite is 'yes' \(str\); expected True or False"),
        ({"report": 3}, "report is 3; expected a path"),
        ({"model": 3}, "model is 3; expected a path"),
        ({"temperature": "0.05"}, r"temperature is '0\.05' \(str\); expected a number, such as 0\.05"),
        ({"temperature": True}, r"temperature is True \(bool\)"),
        ({"temperature": [0.2]}, r"temperature is \[0\.2\] \(list\)"),
        ({"temperature": 1e-40}, "temperature is 1e-40; expected a finite number above 0, from 1e-06 to 1e[+]06"),
        ({"temperature": 1e39}, "temperature is 1e[+]39; expected"),
        ({"temperature": float("nan")}, "temperature is nan; expected"),
        ({"temperatures": 0.1}, r"temperatures is 0\.1; expected a list of numbers"),
        ({"temperatures": "0.1"}, r"temperatures is '0\.1' \(str\); expected a list of numbers"),
        ({"temperatures": [0.1, "a"]}, r"temperatures\[1\] is 'a' \(str\); expected a number"),
        ({"temperatures": [1e-300]}, r"temperatures\[0\] is 1e-300; expected a finite number"),
        ({"data": "x"}, "data belongs to a model"),
        ({"similarity": 3}, "similarity 3 is unknown"),
    ],
)
def test_an_argument_of_another_type_or_out_of_its_range_is_named(change, words):
    with pytest.raises(InputError, match=words):
        advise(*world(1, queries=12), **change)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda x: x.tolist(), r"queries is of type list; expected a numpy array .*np\.asarray\(queries, dtype=np\.float32\)"),
        (lambda x: np.ma.masked_array(x, mask=x > 2.0), "queries is of type MaskedArray; .*fill what is masked first"),
        (lambda _: b"q.npy", "queries is of type bytes; .*decode the path"),
        (lambda x: x.astype(np.longdouble), "queries have shape .12, 8. of .*; expected rows of float vectors"),
        (lambda x: x.astype(complex), "of complex128; expected rows of float vectors"),
        (lambda x: x.astype(object), "of object; expected rows of float vectors"),
        (lambda x: x[0], r"queries have shape \(8,\)"),
    ],
)
def test_vectors_of_another_type_are_refused_with_a_way_out(given, words):
    queries, positives, _ = world(2, queries=12)
    with pytest.raises(InputError, match=words):
        advise(given(queries), positives)


def test_torch_tensors_are_refused_with_a_way_out():
    torch = pytest.importorskip("torch")
    queries, positives, _ = world(2, queries=12)
    with pytest.raises(InputError, match=r"queries is of type Tensor; .*np\.asarray\(queries"):
        advise(torch.tensor(queries), positives)


def test_numbers_of_numpy_are_numbers():
    queries, positives, pool = world(3)
    seen = advise(queries, positives, pool, k=np.int64(4), temperature=np.float64(0.3), temperatures=np.array([0.2]), seed=np.int32(0))
    assert (seen.at, [each.temperature for each in seen.temperatures]) == (4, [0.2, 0.3])
    assert checked_count("k", np.uint8(3)) == 3
    assert checked_temperature(1) == 1.0


@pytest.mark.parametrize("scale", [1e-200, 1e-60, 1e-45, 1e-38, 1e39, 1e200])
def test_a_cosine_does_not_depend_on_the_scale_of_vectors(scale):
    queries, positives, pool = world(4)
    found, scaled = advise(queries, positives, pool), advise(scale * queries, scale * positives, scale * pool)
    assert scaled.risk == pytest.approx(found.risk)
    assert scaled.temperatures[0].recall_at_1 == found.temperatures[0].recall_at_1


@pytest.mark.parametrize(("scale", "words"), [(1e39, "a value beyond float32"), (1e-45, "nothing that float32 can tell from 0")])
def test_rows_that_float32_does_not_hold_are_named_by_file_and_row(tmp_path, scale, words):
    queries, positives, pool = world(5)
    pool[7] *= scale
    np.save(tmp_path / "n.npy", pool)
    with pytest.raises(InputError, match=rf"n\.npy: row 7 holds {words}"):
        advise(queries, positives, tmp_path / "n.npy", similarity="dot")
    assert advise(queries, positives, tmp_path / "n.npy").queries == 60


@pytest.mark.parametrize(
    ("similarity", "which"),
    [("cosine", 0), ("cosine", 1), ("cosine", 2), ("query_normalized", 0), ("candidate_normalized", 1), ("candidate_normalized", 2)],
)
def test_rows_of_zeros_have_no_direction(tmp_path, similarity, which):
    sides = list(world(6))
    sides[which][5] = 0.0
    for name, vectors in zip("qpn", sides, strict=True):
        np.save(tmp_path / f"{name}.npy", vectors)
    paths = [tmp_path / f"{name}.npy" for name in "qpn"]
    with pytest.raises(InputError, match=rf"{'qpn'[which]}\.npy: row 5 is all zeros, which has no direction: leave that row out"):
        advise(*paths, similarity=similarity)
    assert advise(*paths, similarity="dot").queries == 60


def test_scores_beyond_the_digits_of_float32_are_refused():
    queries, positives, pool = world(7)
    queries[9] *= 1e30
    with pytest.raises(InputError, match=r"queries, row 9: the score of its positive .* expected 100000 at most.*raise the temperature"):
        advise(queries, positives, pool, similarity="dot", temperature=1.0)
    with pytest.raises(InputError, match=r"queries, row \d+: the score of its positive"):
        advise(*world(7), temperature=1e-6)
    with pytest.raises(InputError, match="temperatures: at 1e-06 the score of a positive is .*leave that temperature out"):
        advise(*world(7), temperatures=[1e-6])
    with pytest.raises(InputError, match="vectors of these lengths have scores up to .*scale the vectors down"):
        advise(np.eye(3), np.eye(3), 1e38 * np.eye(3)[::-1], similarity="dot", temperature=1e-3)


def test_the_sweep_stays_where_scores_are_held():
    queries, positives, pool = world(8)
    seen = advise(queries, positives, pool, temperature=1.2e-5, temperatures=None)
    assert min(each.temperature for each in seen.temperatures) >= 0.9e-5
    warm = advise(queries, positives, pool, temperature=1e6, temperatures=None)
    assert max(each.temperature for each in warm.temperatures) == 1e6


def test_rows_are_taken_in_any_order_with_their_lengths():
    vectors = np.random.default_rng(9).normal(size=(50, 4))
    rows = np.array([7, 3, 49, 3])
    found, lengths = taken(vectors, rows, name="x", normalized=False)
    np.testing.assert_array_equal(found, vectors[rows].astype(np.float32))
    np.testing.assert_allclose(lengths, np.linalg.norm(vectors[rows], axis=1))
    np.testing.assert_allclose(taken(vectors, rows, name="x", normalized=True)[0], vectors[rows] / lengths[:, None], atol=1e-6)
