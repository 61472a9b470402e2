"""Frequencies of a cyclic task: their Grams, planted circles, the non-negative fit, its null, and a network that learns the task."""

import numpy as np
import pytest
from cyclic_world import circle_rows, cyclic_signature, random_rows, rotation, trained
from scipy.optimize import nnls

from normwise.core.errors import InputError
from normwise.theory.alignment import cosine_gram
from normwise.theory.fourier_probes import FourierProbe, fourier_grams
from normwise.theory.token_pairs import TokenFold, token_folds, token_pairs


def test_grams_by_brute_force():
    phi, cycle = np.random.default_rng(0).random((5, 3, 9)), np.array([4, 0, 7, 2, 8, 1])
    grams = fourier_grams(phi, cycle=cycle)
    assert grams.shape == (4, 5, 5)
    for k in range(4):
        heads = np.zeros((5, 3), dtype=complex)
        for j, column in enumerate(cycle):
            heads += phi[:, :, column] * np.exp(2j * np.pi * k * j / 6)
        sizes = np.linalg.norm(heads, axis=1)
        assert grams[k] == pytest.approx((heads @ heads.conj().T).real / np.outer(sizes, sizes))
    assert grams[0] == pytest.approx(cosine_gram(phi[:, :, cycle].sum(axis=2)))


@pytest.mark.parametrize("p", [9, 10])
def test_on_a_whole_cycle_cosines_alone_give_the_same(p):
    """c_k(j) = cos(2 pi k j / p) as in the paper; elsewhere it depends on where the cycle begins, and cosine with sine does not."""
    phi = cyclic_signature(p, vocabulary=p + 4)
    grams = fourier_grams(phi, cycle=np.arange(p))
    turns = np.arange(p)[:, None] - np.arange(p)
    for k in range(p // 2 + 1):
        cosine = np.concatenate([np.cos(2.0 * np.pi * k * np.arange(p) / p), np.zeros(4)])
        assert grams[k] == pytest.approx(np.cos(2.0 * np.pi * k * turns / p), abs=1e-9)
        assert cosine_gram(phi @ cosine) == pytest.approx(grams[k], abs=1e-9)
    other = np.random.default_rng(0).random((6, 3, p))
    assert fourier_grams(other, cycle=np.roll(np.arange(p), 3)) == pytest.approx(fourier_grams(other), abs=1e-9)
    cosine = np.cos(2.0 * np.pi * np.arange(p) / p)
    assert np.abs(cosine_gram(other @ cosine) - cosine_gram(other @ np.roll(cosine, 3))).max() > 0.05


def test_a_frequency_that_a_token_lacks_is_not_made_of_rounding():
    """y = x_1 + x_2 mod 5 on 10 tokens sees contexts mod 5: odd frequencies of the cycle of 10 are empty."""
    phi = np.zeros((10, 5, 10))
    for a in range(10):
        for b in range(10):
            phi[a, (a + b) % 5, b] = 0.1
    grams = fourier_grams(phi)
    assert [bool(gram.any()) for gram in grams] == [True, False, True, False, True, False]


@pytest.mark.parametrize("frequency", [1, 3, 7, 10])
def test_the_probe_finds_the_planted_frequency(frequency):
    probe = FourierProbe(cyclic_signature(20))
    found = probe.at(circle_rows(20, frequency, noise=0.1))
    assert found.frequency == frequency
    assert found.by_frequency[frequency] > 0.9
    assert found.figure.value > 0.9
    assert abs(found.figure.null) < 0.2
    assert int(np.argmax(found.weights)) == frequency
    assert found.weights[0] == 0.0


def test_mixed_frequencies_that_none_tells_alone_are_told_together():
    table = np.concatenate([circle_rows(20, k, noise=0.05, seed=k) for k in (2, 5, 9)], axis=1)
    found = FourierProbe(cyclic_signature(20)).at(table)
    assert np.nanmax(found.by_frequency) < 0.7
    assert found.figure.value > 0.9


def test_random_embeddings_are_at_the_null():
    probe = FourierProbe(cyclic_signature(24), permutations=20)
    found = [probe.at(random_rows(24, seed=seed)).figure for seed in range(20)]
    above = np.array([figure.above_null for figure in found])
    assert abs(above.mean()) < 4.0 * above.std(ddof=1) / np.sqrt(20)
    # The spread over permutations of one embedding is that of the figure over embeddings.
    assert np.median([figure.spread for figure in found]) == pytest.approx(above.std(ddof=1), rel=0.5)


def test_the_figure_by_brute_force():
    phi, table = np.random.default_rng(3).random((18, 4, 7)), random_rows(18)
    folds = token_folds(18, folds=3, seed=2)
    grams, cosines = fourier_grams(phi), cosine_gram(table)
    cross = own = target = 0.0
    for fold in folds:
        a, b = token_pairs(fold.train)
        x = np.stack([gram[a, b] - gram[a, b].mean() for gram in grams[1:]], axis=1)
        weights, _ = nnls(x, cosines[a, b] - cosines[a, b].mean())
        a, b = token_pairs(fold.held)
        said, true = sum(w * gram[a, b] for w, gram in zip(weights, grams[1:], strict=True)), cosines[a, b]
        cross += ((said - said.mean()) * (true - true.mean())).sum()
        own, target = own + ((said - said.mean()) ** 2).sum(), target + ((true - true.mean()) ** 2).sum()
    assert FourierProbe(phi, folds=folds).at(table).figure.value == pytest.approx(cross / np.sqrt(own * target), abs=1e-8)


def test_the_null_is_the_same_fit_to_permuted_rows():
    phi, table = cyclic_signature(15), circle_rows(15, 2, noise=0.2)
    folds, rng = token_folds(15, folds=3), np.random.default_rng(4)
    orders = [rng.permutation(15) for _ in range(6)]
    found = FourierProbe(phi, folds=folds, permutations=6, seed=4).at(table).figure
    again = [FourierProbe(phi, folds=folds).at(table[order]).figure.value for order in orders]
    assert (found.null, found.spread) == pytest.approx((np.mean(again), np.std(again, ddof=1)))


@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_rotations_lengths_and_names_of_tokens_change_nothing(scale):
    phi, table, order = cyclic_signature(16), circle_rows(16, 3, noise=0.3), np.random.default_rng(0).permutation(16)
    folds = token_folds(16, folds=4)
    place = np.argsort(order)
    renamed = [TokenFold(place[fold.train], place[fold.held]) for fold in folds]
    one = FourierProbe(phi, folds=folds).at(table)
    turned = scale * np.linspace(0.1, 3.0, 16)[:, None] * (table @ rotation(8, seed=1))
    other = FourierProbe(phi, folds=folds).at(turned)
    assert (other.figure.value, other.figure.null) == pytest.approx((one.figure.value, one.figure.null), abs=1e-7)
    other = FourierProbe(phi[order], folds=renamed).at(table[order])
    assert other.figure.value == pytest.approx(one.figure.value, abs=1e-7)
    assert other.by_frequency[1:] == pytest.approx(one.by_frequency[1:], abs=1e-9)
    assert other.frequency_spread[1:] == pytest.approx(one.frequency_spread[1:], abs=1e-9)


def test_each_frequency_alone_is_plain_pearson_and_the_frequency_zero_of_equal_rows_is_undefined():
    table = circle_rows(12, 2, noise=0.4)
    found = FourierProbe(cyclic_signature(12), folds=token_folds(12, folds=3)).at(table)
    a, b = token_pairs(np.arange(12))
    grams, cosines = fourier_grams(cyclic_signature(12)), cosine_gram(table)
    assert np.isnan(found.by_frequency[0])
    for k in range(1, 7):
        assert found.by_frequency[k] == pytest.approx(np.corrcoef(grams[k][a, b], cosines[a, b])[0, 1])


def test_tokens_never_seen_are_left_out_and_the_start_stands_beside():
    phi, table, start = cyclic_signature(20), circle_rows(20, 4, noise=0.1), random_rows(20)
    phi[[3, 11]] = 0.0
    probe = FourierProbe(phi)
    kept = np.delete(np.arange(20), [3, 11])
    assert np.array_equal(probe.tokens, kept)
    same = FourierProbe(cyclic_signature(20), tokens=kept)
    assert probe.at(table).figure == same.at(table).figure
    assert probe.with_initial(start).at(table).figure.initial == probe.at(start).figure.value


def test_an_embedding_of_one_direction_has_no_figure():
    found = FourierProbe(cyclic_signature(15)).at(np.ones((15, 3)))
    assert np.isnan(found.figure.value)
    assert found.frequency is None


def test_bad_input_is_refused():
    phi, table = cyclic_signature(15), random_rows(15)
    with pytest.raises(InputError, match="cycle holds 3 columns, 2 of them different; expected three or more different ones"):
        fourier_grams(phi, cycle=np.array([1, 2, 2]))
    with pytest.raises(InputError, match=r"different ones in 0\.\.14"):
        fourier_grams(phi, cycle=np.array([1, 2, 15]))
    with pytest.raises(InputError, match="permutations is 1; expected at least 2"):
        FourierProbe(phi, permutations=1)
    with pytest.raises(InputError, match="5 folds of 9 tokens"):
        FourierProbe(phi, tokens=np.arange(9))
    with pytest.raises(InputError, match="embedding has 14 rows and the signature 15"):
        FourierProbe(phi).at(table[:14])
    table[6] = 0.0
    with pytest.raises(InputError, match="embedding: row 6 is a zero vector and has no direction; leave that token out"):
        FourierProbe(phi).at(table)
    wide = np.broadcast_to(np.float64(0.5), (20_000, 1, 3))
    with pytest.raises(InputError, match="2 frequencies of 20000 tokens: similarities would not fit in memory; give fewer tokens"):
        fourier_grams(wide)


def test_a_network_that_learns_the_task_rises_above_the_null():
    """Seed 0: the frequency 10 leads while the task is learned; at the start there is nothing."""
    steps, accuracy, tables = trained(0, epochs=240, every=240)
    probe = FourierProbe(cyclic_signature(20, vocabulary=81), cycle=np.arange(20)).with_initial(tables[0])
    found = probe.at(tables[-1])
    assert steps.tolist() == [0, 240]
    assert accuracy[-1] > 0.3
    assert found.frequency == 10
    assert found.figure.above_null > 0.6
    assert found.figure.value > found.figure.initial + 0.5
