"""R^2 order by order on held-out tokens: a slow loop, what is nested, and nulls."""

import numpy as np
import pytest
from cyclic_world import circle_rows, cyclic_signature, random_rows

from normwise.core.errors import InputError
from normwise.theory.alignment import cosine_gram
from normwise.theory.fourier_probes import fourier_grams
from normwise.theory.incremental_alignment import incremental_r2
from normwise.theory.token_pairs import token_folds, token_pairs


def _orders(count=18):
    rng = np.random.default_rng(0)
    return [cosine_gram(rng.random((count, 4))), cosine_gram(rng.normal(size=(count, 9)))]


def test_the_figures_by_least_squares_fold_by_fold():
    grams, target, folds = (
        [*_orders(), cosine_gram(random_rows(18, seed=1))],
        cosine_gram(random_rows(18, width=3)),
        token_folds(18, folds=3),
    )
    for order, share in enumerate(incremental_r2(target, grams, folds=folds)):
        left = total = 0.0
        for fold in folds:
            a, b = token_pairs(fold.train)
            design = np.column_stack([np.ones(a.size)] + [gram[a, b] for gram in grams[: order + 1]])
            weights = np.linalg.lstsq(design, target[a, b], rcond=None)[0]
            level = target[a, b].mean()
            a, b = token_pairs(fold.held)
            design = np.column_stack([np.ones(a.size)] + [gram[a, b] for gram in grams[: order + 1]])
            left += ((target[a, b] - design @ weights) ** 2).sum()
            total += ((target[a, b] - level) ** 2).sum()
        assert share.order == order
        assert share.r2 == pytest.approx(1.0 - left / total)


def test_gains_add_up_and_each_order_tells_its_own_part():
    zero, one = _orders(40)
    shares = incremental_r2(zero + 0.5 * one, [zero, one], folds=token_folds(40), permutations=10)
    assert sum(share.gain.value for share in shares) == pytest.approx(shares[-1].r2)
    assert shares[-1].r2 == pytest.approx(1.0)
    assert shares[0].r2 < 0.9
    for share in shares:
        assert share.gain.value > share.gain.null + 5.0 * share.gain.spread
    swapped = incremental_r2(one, [zero, one], folds=token_folds(40))
    assert swapped[0].r2 < 0.1


def test_an_order_that_repeats_the_lower_one_gains_nothing():
    zero = _orders()[0]
    shares = incremental_r2(zero + 0.1 * cosine_gram(random_rows(18)), [zero, 3.0 * zero + 1.0], folds=token_folds(18))
    assert shares[1].gain.value == pytest.approx(0.0, abs=1e-9)


def test_an_order_of_several_similarities_and_one_that_is_constant():
    """Order 0 of the cyclic task is the same for all pairs and explains nothing; its frequencies, linearly dependent, explain circles."""
    grams = fourier_grams(cyclic_signature(20))
    shares = incremental_r2(cosine_gram(circle_rows(20, 3, noise=0.05)), [grams[0], grams[1:]], folds=token_folds(20))
    assert shares[0].r2 == pytest.approx(0.0, abs=1e-9)
    assert shares[1].gain.value > 0.9
    assert shares[1].gain.null < 0.1


def test_the_null_permutes_the_last_order_only():
    grams, target, folds = _orders(), cosine_gram(random_rows(18, width=3)), token_folds(18, folds=3)
    rng = np.random.default_rng(7)
    orders = [rng.permutation(18) for _ in range(3)]
    found = incremental_r2(target, grams, folds=folds, permutations=3, seed=7)[1].gain
    again = [incremental_r2(target, [grams[0], grams[1][np.ix_(order, order)]], folds=folds)[1].gain.value for order in orders]
    assert (found.null, found.spread) == pytest.approx((np.mean(again), np.std(again, ddof=1)))


def test_an_embedding_without_variation_has_no_share():
    assert np.isnan(incremental_r2(np.ones((18, 18)), _orders(), folds=token_folds(18))[0].r2)


def test_bad_input_is_refused():
    folds = token_folds(18)
    with pytest.raises(InputError, match=r"signature_grams: order 1 is of \(17, 17\) tokens; expected \(18, 18\)"):
        incremental_r2(np.eye(18), [np.eye(18), np.eye(17)], folds=folds)
    with pytest.raises(InputError, match="order 0 holds values that are not finite"):
        incremental_r2(np.eye(18), [np.full((18, 18), np.nan)], folds=folds)
    with pytest.raises(InputError, match="permutations is 1; expected at least 2"):
        incremental_r2(np.eye(18), _orders(), folds=folds, permutations=1)
