"""Tables of the tasks against loops over all sequences, draws against the law, and what a sum of tokens cannot see."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.theory.sequence_law import SequenceLaw, token_frequency
from normwise.theory.signatures import label_signature
from normwise.training.staircase_tasks import (
    addition_task,
    difference_task,
    drawn_task,
    extreme_task,
    label_law_task,
    modular_task,
    parity_task,
    product_task,
    without_order,
)

LABELS = {
    "mod": (lambda n, length: modular_task(n, vocabulary=n + 3, length=length, shift=2), lambda x, n: (sum(x) + 2) % n),
    "add": (lambda n, length: addition_task(n, vocabulary=99, length=length), lambda x, n: sum(x)),
    "difference": (lambda n, length: difference_task(n, vocabulary=n), lambda x, n: abs(x[0] - x[1])),
    "product": (lambda n, length: product_task(n, vocabulary=n, length=length), lambda x, n: math.prod(x)),
    "min": (lambda n, length: extreme_task("min", n, length=length), lambda x, n: min(x)),
    "max": (lambda n, length: extreme_task("max", n, length=length), lambda x, n: max(x)),
}


@pytest.mark.parametrize(
    ("name", "length"), [(name, length) for name in LABELS for length in (2, 3) if name != "difference" or length == 2]
)
def test_a_table_holds_every_sequence_once_with_its_label(name, length):
    make, label = LABELS[name]
    law = make(4, length).law
    found = {tuple(row): y for row, y in zip(law.tokens.tolist(), law.labels.tolist(), strict=True)}
    assert len(law.tokens) == len(found) == 4**length
    assert found == {x: label(x, 4) for x in itertools.product(range(4), repeat=length)}
    assert law.labels_known > max(found.values())


def test_labels_are_tokens_unless_outputs_are_named():
    assert modular_task(5, vocabulary=30).law.labels_known == 30
    assert modular_task(5, vocabulary=30, outputs=5).law.labels_known == 5
    assert product_task(20, vocabulary=81).law.labels_known == 19 * 19 + 1
    assert product_task(20, vocabulary=500).law.labels_known == 500


def test_the_modulus_need_not_be_the_number_of_tokens():
    task = modular_task(7, tokens=20, vocabulary=81)
    assert (task.seen.tolist(), int(task.law.labels.max())) == (list(range(20)), 6)
    assert task.cycle.tolist() == list(range(20))
    assert extreme_task("max").cycle is None


def test_signatures_of_the_maximum_are_those_of_the_closed_form():
    n = 6
    found = label_signature(extreme_task("max", n, vocabulary=n).law, order=0).values
    for x, y in itertools.product(range(n), repeat=2):
        assert found[x, y] == pytest.approx((x + 1) / n if y == x else (y > x) / n)


@pytest.mark.parametrize("anchors", [1, 2, 8])
def test_parity_is_that_of_the_anchors(anchors):
    task = parity_task(samples=3000, seed=3, anchors=anchors)
    is_anchor = (task.law.tokens >= 11) & (task.law.tokens <= 20)
    assert (is_anchor.sum(axis=1) == anchors).all()
    assert task.law.tokens[~is_anchor].size == 0 or set(task.law.tokens[~is_anchor]) == set(range(21, 61))
    assert (np.where(is_anchor, task.law.tokens, 0).sum(axis=1) % 2 == task.law.labels).all()
    # Every place and every anchor is as likely: 3000 draws, 5 standard deviations.
    share = is_anchor.mean(axis=0)
    assert np.abs(share - anchors / 8).max() <= 5 * np.sqrt(anchors / 8 * (1 - anchors / 8) / 3000)
    counts = np.bincount(task.law.tokens[is_anchor], minlength=21)[11:]
    assert np.abs(counts / counts.sum() - 0.1).max() <= 5 * np.sqrt(0.09 / (3000 * anchors))


def test_draws_are_those_of_their_seed():
    first, again, other = (parity_task(samples=50, seed=seed).law.tokens for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_label_laws_are_the_laws_of_their_names():
    task = label_law_task(("uniform", "normal", "poisson", "exponential"))
    found = label_signature(task.law, order=0, of=task.anchors).values[:, :51]
    v = np.arange(51)

    def share(low, high, mean):
        return 0.5 * (math.erf((high - mean) / math.sqrt(2)) - math.erf((low - mean) / math.sqrt(2)))

    expected = [
        np.ones(51),
        np.array([share(x - 0.5, x + 0.5, 25.0) for x in v]),
        np.array([math.exp(-10.0) * 10.0**x / math.factorial(x) for x in v.tolist()]),
        np.exp(-v / 5.0) - np.exp(-(v + 1) / 5.0),
    ]
    for row, law in zip(found, expected, strict=True):
        np.testing.assert_allclose(row, law / law.sum(), atol=1e-12)
    # Contexts say nothing of the label: all have the mixture.
    contexts = label_signature(task.law, order=0, of=np.arange(51)).values[:, :51]
    np.testing.assert_allclose(contexts, np.tile(found.mean(axis=0), (51, 1)), atol=1e-12)


def test_a_drawn_task_follows_the_weights():
    task = label_law_task(("poisson",))
    drawn = drawn_task(task, 20_000, seed=5)
    found, expected = (label_signature(each.law, order=0, of=task.anchors).values for each in (drawn, task))
    assert np.abs(found - expected).max() <= 5 * np.sqrt(0.25 / 20_000)
    assert drawn.anchors.tolist() == [100]


@given(st.integers(0, 10**6), st.integers(2, 4))
def test_joined_rows_keep_every_signature(seed, length):
    random = np.random.default_rng(seed)
    law = SequenceLaw(random.integers(0, 3, (30, length)), random.integers(0, 2, 30), 4, weights=random.random(30) + 0.01)
    joined = without_order(law)
    assert len(joined.tokens) <= 30
    assert (np.diff(joined.tokens, axis=1) >= 0).all()
    np.testing.assert_allclose(token_frequency(joined), token_frequency(law), atol=1e-12)
    for order in range(length):
        found, expected = (label_signature(each, order=order).values for each in (joined, law))
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: modular_task(1), "modulus is 1; expected at least 2"),
        (lambda: modular_task(20, vocabulary=19), "vocabulary is 19; expected at least 20"),
        (lambda: modular_task(20, vocabulary=20, outputs=19), "labels go up to 19 and there are 19 outputs; expected at least 20"),
        (lambda: addition_task(20, vocabulary=38), "labels go up to 38 and there are 38 outputs"),
        (lambda: addition_task(1), "1 values"),
        (lambda: addition_task(20, length=5), r"20\^5 sequences are above 400,000"),
        (lambda: parity_task(seed=0, anchors=9), "anchors 9, length 8"),
        (lambda: parity_task(seed=0, vocabulary=60), "vocabulary is 60; expected at least 61"),
        (lambda: label_law_task(()), "0 laws"),
        (lambda: label_law_task(("cauchy",)), "laws holds 'cauchy'; expected uniform, normal, poisson, exponential"),
        (lambda: drawn_task(modular_task(), 0, seed=0), "samples is 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
