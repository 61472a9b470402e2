import numpy as np
import pytest

from normwise.core.concept_records import FIGURES, ConceptCell, ConceptResult
from normwise.theory.concept_claims import CellItems, cell_figures, claims_of, judged, partial_signs, regime_of


def _cells(values, *, figure="law_r2", optimizer="sgd", variant="base", **more):
    return [
        ConceptCell(part="table", optimizer=optimizer, variant=variant, seed=seed, figures={figure: value}, **more)
        for seed, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.90, 0.91, 0.92, 0.93, 0.94], "reproduced"),
        ([0.60, 0.61, 0.62, 0.63, 0.64], "not reproduced"),
        ([0.60, 0.99, 0.62, 0.99, 0.80], "undecided at this size"),
        ([0.90, 0.91, 0.92, 0.93], "undecided at this size"),
    ],
)
def test_outcomes_follow_the_interval_and_the_number_of_seeds(values, outcome):
    (claim,) = claims_of(_cells(values))
    assert claim.outcome == outcome
    assert claim.by_seed == tuple(values)
    assert judged(values, threshold=0.8)[1] == outcome


@pytest.mark.parametrize(
    ("sign", "values", "outcome"),
    [
        (1, [0.3, 0.4, 0.5, 0.4, 0.3], "reproduced"),
        (-1, [0.3, 0.4, 0.5, 0.4, 0.3], "not reproduced"),
        (0, [0.05, -0.05, 0.1, -0.1, 0.0], "reproduced"),
        (0, [0.5, -0.5, 0.6, -0.6, 0.5], "not reproduced"),
    ],
)
def test_the_sign_is_judged_against_the_regime(sign, values, outcome):
    (claim,) = claims_of(_cells(values, figure="dispersion", expected_dispersion=sign))
    assert claim.outcome == outcome


def test_no_sign_is_claimed_where_seeds_fall_into_different_regimes():
    cells = _cells([0.3] * 3, figure="dispersion", expected_dispersion=1) + _cells([0.3] * 3, figure="dispersion", expected_dispersion=-1)
    assert claims_of(cells) == ()


def test_adam_is_judged_by_the_error_as_its_law_makes_norms_alike():
    (claim,) = claims_of(_cells([0.05] * 5, figure="law_rmse", optimizer="adamw"))
    assert (claim.figure, claim.outcome) == ("minus law_rmse", "reproduced")
    assert claims_of(_cells([0.9] * 5, figure="law_r2", optimizer="adamw")) == ()


def test_a_law_that_only_repeats_the_start_is_found_out():
    rng = np.random.default_rng(0)
    initial = np.exp(rng.normal(size=60))
    norms = initial * np.exp(0.01 * rng.normal(size=60))
    found = cell_figures(CellItems(norms, initial, np.ones(60), rng.random(60), initial=initial), seed=0)
    assert found["law_r2"] is not None
    assert found["law_r2"] > 0.9
    assert found["gain_over_start"] == 0.0
    for optimizer in ("sgd", "adamw"):
        (claim,) = claims_of(_cells([-0.1] * 5, figure="gain_over_start", optimizer=optimizer))
        assert claim.outcome == "not reproduced"


def test_changed_settings_are_judged_by_the_base_run():
    (claim,) = claims_of(_cells([0.9] * 5, figure="base_r2", variant="temperature x 2"))
    assert (claim.variant, claim.outcome) == ("temperature x 2", "reproduced")


def test_regimes_are_rows_of_the_statement_table():
    assert regime_of(optimizer="sgd", weight_decay=0.0, signal_share=0.7) == ("SGD, no decay, signal-dominated", -1)
    assert regime_of(optimizer="sgd", weight_decay=0.0, signal_share=0.2) == ("SGD, no decay, noise-dominated", 1)
    assert regime_of(optimizer="adamw", weight_decay=0.1, signal_share=0.9)[1] == 0
    name, sign = regime_of(optimizer="sgd", weight_decay=0.1, signal_share=0.9)
    assert sign is None
    assert "no statement" in name


def test_figures_leave_unvisited_items_out_and_are_all_explained():
    rng = np.random.default_rng(0)
    visits = np.concatenate([[0.0], rng.integers(1, 100, 79).astype(float)])
    dispersions, lengths = rng.random(80), rng.integers(1, 6, 80).astype(float)
    norms = np.exp(0.5 * dispersions) * (1 + visits) ** 0.25
    predicted = norms.copy()
    predicted[0] = 1e6
    found = cell_figures(CellItems(norms, predicted, visits, dispersions, lengths), seed=0)
    assert found["law_r2"] == 1.0
    assert found["law_rmse"] == 0.0
    assert found["dispersion"] is not None
    assert found["dispersion"] > 0.5
    assert set(found) <= set(FIGURES)
    assert found["length_r2"] is not None
    assert found["length_r2"] < 0.1


def test_partial_signs_hold_the_others_still():
    rng = np.random.default_rng(0)
    frequency = rng.normal(size=300)
    follower = frequency + 0.3 * rng.normal(size=300)
    found = partial_signs(frequency + 0.01 * rng.normal(size=300), {"dispersion": follower, "frequency": frequency}, seed=0)
    assert abs(found["dispersion"] or 0) < 0.2
    assert (found["frequency"] or 0) > 0.9


def test_a_result_round_trips():
    cells = tuple(_cells([0.9] * 5))
    result = ConceptResult(settings={"seeds": 5}, cells=cells, claims=claims_of(cells))
    assert ConceptResult.from_json(result.to_json()) == result
