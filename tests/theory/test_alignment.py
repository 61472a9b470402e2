"""Alignment of embeddings with signatures: oracles, invariances, the rule for equal rows, and exact nulls."""

import itertools

import numpy as np
import pytest
from cyclic_world import circle_rows, cyclic_signature, random_rows, rotation
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from normwise.core.errors import InputError
from normwise.theory.alignment import EmbeddingPairs, SignatureAlignment, cosine_gram


def _cosine(x, y):
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def _signature(count=12, labels=7, seed=0):
    rows = np.random.default_rng([seed, 9]).random((count, labels)) ** 2
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("tokens", [None, np.array([8, 1, 3, 5, 11])])
def test_the_figures_are_correlations_over_pairs(tokens):
    phi, table = _signature(), random_rows(12, seed=3).astype(np.float32)
    used = range(12) if tokens is None else tokens.tolist()
    pairs = list(itertools.combinations(used, 2))
    x = [_cosine(phi[a], phi[b]) for a, b in pairs]
    y = [_cosine(table[a].astype(float), table[b].astype(float)) for a, b in pairs]
    found = SignatureAlignment(phi, tokens=tokens).at(table)
    assert (found.rule, found.tokens) == ("pearson", len(used))
    assert found.figure.value == pytest.approx(pearsonr(x, y).statistic, abs=1e-12)
    assert found.spearman.value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_a_signature_of_order_one_is_compared_by_all_of_its_entries():
    phi = np.random.default_rng(2).random((6, 3, 4))
    table = random_rows(6)
    assert SignatureAlignment(phi).at(table) == SignatureAlignment(phi.reshape(6, 12)).at(table)


def test_the_null_is_that_of_all_permutations_of_the_signature():
    phi, table = _signature(count=6), random_rows(6)
    found = SignatureAlignment(phi).at(table)
    permuted = [SignatureAlignment(phi[list(order)]).at(table) for order in itertools.permutations(range(6))]
    for name in ("figure", "spearman"):
        values = [getattr(each, name).value for each in permuted]
        assert np.mean(values) == pytest.approx(0.0, abs=1e-12)
        assert getattr(found, name).null == 0.0
        assert getattr(found, name).spread == pytest.approx(np.std(values), rel=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([1e-12, 1.0, 1e12]))
def test_rotations_lengths_and_names_of_tokens_change_nothing(seed, scale):
    rng = np.random.default_rng(seed)
    phi, table, order = _signature(seed=seed), random_rows(12, seed=seed), rng.permutation(12)
    turned = (table @ rotation(16, seed=seed)) * rng.uniform(0.1, 9.0, size=(12, 1)) * scale
    one = SignatureAlignment(phi).at(table)
    for other in (SignatureAlignment(phi).at(turned), SignatureAlignment(phi[order]).at(table[order])):
        assert (other.figure.value, other.figure.spread) == pytest.approx((one.figure.value, one.figure.spread), abs=1e-9)
        assert other.spearman.value == pytest.approx(one.spearman.value, abs=1e-9)


def test_equal_rows_are_judged_by_one_minus_mse():
    phi = cyclic_signature(9, vocabulary=14).sum(axis=2)
    table = random_rows(9, width=5)
    aligned = SignatureAlignment(phi)
    found = aligned.at(table)
    errors = [(1.0 - _cosine(table[a], table[b])) ** 2 for a, b in itertools.combinations(range(9), 2)]
    assert (found.rule, found.spearman) == ("one minus mse", None)
    assert found.figure.value == pytest.approx(1.0 - np.mean(errors))
    assert found.figure.null == pytest.approx(-0.2)
    assert found.figure.initial is None
    started = aligned.with_initial(table).at(np.ones((9, 5))).figure
    assert (started.null, started.initial) == (found.figure.value, found.figure.value)
    assert started.above_null == pytest.approx(1.0 - found.figure.value)


def test_random_directions_have_the_null_of_equal_rows_on_average():
    aligned = SignatureAlignment(np.ones((40, 2)))
    values = [aligned.at(random_rows(40, width=4, seed=seed)).figure.value for seed in range(40)]
    assert np.mean(values) == pytest.approx(-0.25, abs=4.0 * np.std(values) / np.sqrt(40))
    assert aligned.at(random_rows(40, width=4)).figure.null == -0.25


def test_whole_signatures_of_a_deterministic_task_say_nothing():
    """No two tokens share an entry: their Gram is the identity whatever the embedding is."""
    phi = cyclic_signature(8)
    assert cosine_gram(phi.reshape(8, -1)) == pytest.approx(np.eye(8))
    found = SignatureAlignment(phi).at(circle_rows(8, 1))
    assert found.rule == "undefined"
    assert np.isnan(found.figure.value)


def test_signatures_counted_in_a_sample_are_equal_within_their_noise():
    counts = np.random.default_rng(0).multinomial(100_000, np.full(5, 0.2), size=8) / 100_000
    assert SignatureAlignment(counts).rule == "pearson"
    assert SignatureAlignment(counts, same_within=1e-3).rule == "one minus mse"


def test_zero_rows_leave_their_tokens_out():
    phi, table = _signature(), random_rows(12)
    phi[4], table[[7, 9]] = 0.0, 0.0
    aligned = SignatureAlignment(phi)
    found = aligned.with_initial(random_rows(12, seed=5)).at(table)
    kept = np.array([0, 1, 2, 3, 5, 6, 8, 10, 11])
    plain = SignatureAlignment(phi[kept]).at(table[kept])
    assert 4 not in aligned.tokens
    assert found.tokens == 9
    assert (found.figure.value, found.figure.spread) == pytest.approx((plain.figure.value, plain.figure.spread))
    gram = cosine_gram(table)
    assert not gram[7].any()
    assert not gram[:, 9].any()


def test_an_embedding_of_one_direction_has_no_correlation():
    found = SignatureAlignment(_signature()).at(np.outer(np.arange(1.0, 13.0), np.ones(4)))
    assert np.isnan(found.figure.value)
    assert np.isnan(found.spearman.value)


def test_the_initial_embedding_stands_beside_every_figure():
    phi, start, table = _signature(), random_rows(12, seed=1), random_rows(12, seed=2)
    plain = SignatureAlignment(phi)
    found, before = plain.with_initial(start).at(table), plain.at(start)
    assert (found.figure.initial, found.spearman.initial) == (before.figure.value, before.spearman.value)
    assert plain.at(table).figure.initial is None


def test_orders_share_the_pairs_of_an_embedding():
    zero, one = SignatureAlignment(_signature()), SignatureAlignment(_signature(seed=8))
    pairs = EmbeddingPairs.of(random_rows(12), tokens=zero.tokens)
    assert (zero.of(pairs), one.of(pairs)) == (zero.at(random_rows(12)), one.at(random_rows(12)))
    with pytest.raises(InputError, match="pairs of 12 tokens, and the signature those of 5, not all the same; make them with tokens="):
        SignatureAlignment(_signature(), tokens=np.arange(5)).of(pairs)


def test_bad_input_is_refused():
    phi, table = _signature(), random_rows(12)
    with pytest.raises(InputError, match=r"tokens holds 12; expected rows of the signature, 0\.\.11"):
        SignatureAlignment(phi, tokens=np.array([0, 1, 12]))
    with pytest.raises(InputError, match="2 tokens with a signature .* expected at least 3"):
        SignatureAlignment(phi, tokens=np.array([0, 1]))
    with pytest.raises(InputError, match="embedding has 11 rows and the signature 12; expected one row each"):
        SignatureAlignment(phi).at(table[:11])
    with pytest.raises(InputError, match="2 of 12 tokens have a row that is not zero; expected at least 3"):
        SignatureAlignment(phi).at(table * (np.arange(12) < 2)[:, None])
    table[3, 1] = np.nan
    with pytest.raises(InputError, match="row 3"):
        SignatureAlignment(phi).at(table)
