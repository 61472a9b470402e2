"""From training to verdict: tables whose law is known are simulated, and the report has to name what their norms follow."""

import numpy as np
import pytest

from normwise.core.norm_records import TrainingEvidence
from normwise.theory.simulated_gradients import specificity_source
from normwise.theory.simulated_table import predicted_norms
from normwise.theory.simulated_updates import Optimizer, UpdateRule
from normwise.theory.simulator import Start, simulate_table, start_vectors
from normwise.theory.vmf_draws import zipf_rates
from normwise.workflows.inspect import inspect

ITEMS = 600


def trained(rule, *, rates, kappas, steps, start=Start.RANDOM):
    """A free table trained with InfoNCE on items whose visits and specificity are drawn apart from each other."""
    source = specificity_source(kappas, np.random.default_rng(1), width=32)
    first = start_vectors(ITEMS, np.random.default_rng(2), width=32, norm=1.0, start=start, means=source.means)
    return simulate_table(source, rule, start=first, visit_rates=rates, steps=steps, seed=3)


def told(table, kappas, *, training=None):
    factors = {
        "visits": np.maximum(table.visits, 0.5),
        "kappa": kappas,
        "tokens": np.random.default_rng(4).integers(1, 30, size=ITEMS),
    }
    return inspect(table.vectors, factors=factors, training=training)


def factor(report, name):
    return next(found for found in report.factors if found.name == name)


def test_a_zipf_table_under_sgd_is_named_frequency_with_its_exponent():
    kappas = np.full(ITEMS, 50.0) * np.random.default_rng(0).uniform(0.9, 1.1, ITEMS)
    rates = np.random.default_rng(5).permutation(zipf_rates(ITEMS, exponent=1.0))
    rule = UpdateRule(Optimizer.SGD, learning_rate=0.5)
    table = trained(rule, rates=rates, kappas=kappas, steps=3000, start=Start.ALIGNED)
    report = told(table, kappas)
    assert report.verdict.label == "frequency"
    assert report.verdict.follows[0] == "visits"
    # r^4 - r_0^4 is linear in visits: 1/4 where growth outweighs the start, below it for the rarest items, as the law says too.
    seen = table.visits > 0
    law = np.polyfit(np.log(table.visits[seen]), np.log(predicted_norms(table, rule, steps=3000)[seen]), 1)[0]
    assert 0.15 < law < 0.25
    assert factor(report, "visits").exponent.mean == pytest.approx(law, abs=0.02)
    assert report.regime == "undetermined", "nobody said how it was trained"
    sure = told(table, kappas, training=TrainingEvidence(optimizer="sgd", learning_rate=0.5, signal_share=0.05))
    assert (sure.regime, sure.verdict.label) == ("noise", "frequency")


def test_a_table_under_adamw_visited_often_says_nothing():
    kappas = np.random.default_rng(0).uniform(9.0, 11.0, ITEMS)
    rates = 10.0 ** np.random.default_rng(5).uniform(-1.0, 0.0, ITEMS)
    table = trained(UpdateRule(Optimizer.ADAMW, learning_rate=0.01, weight_decay=0.5), rates=rates, kappas=kappas, steps=1500)
    report = told(table, kappas)
    assert report.verdict.label == "uninformative"


def test_specificity_shortens_at_equilibrium_and_lengthens_where_signal_rules():
    kappas = 10.0 ** np.random.default_rng(0).uniform(0.7, 3.1, ITEMS)
    rates = np.ones(ITEMS)
    settled = trained(UpdateRule(Optimizer.SGD, learning_rate=0.1, weight_decay=0.02), rates=rates, kappas=kappas, steps=800)
    report = told(settled, kappas, training=TrainingEvidence(optimizer="sgd", weight_decay=0.02, lazy=False, signal_share=0.1))
    assert report.verdict.label == "specificity"
    assert factor(report, "kappa").partial_spearman < -0.8
    assert report.regime == "noise"


@pytest.mark.parametrize("strength", [0.6, 0.9, 0.97])
def test_a_length_only_truth_is_named_length_whatever_goes_with_it(strength):
    rng = np.random.default_rng(6)
    z = rng.normal(size=(2, ITEMS))
    tokens = np.round(np.exp(2.5 + 0.7 * z[0])) + 1
    frequency = np.exp(3 - 1.5 * (strength * z[0] + np.sqrt(1 - strength**2) * z[1]))
    directions = rng.normal(size=(ITEMS, 16))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = (1.0 + 3.0 / tokens) * np.exp(0.05 * rng.normal(size=ITEMS))
    report = inspect(norms[:, None] * directions, factors={"tokens": tokens, "frequency": frequency})
    assert report.verdict.label == "length"
    assert abs(factor(report, "frequency").spearman) > 0.4


def test_copies_of_rows_are_no_further_evidence():
    """Five copies of everything change no correlation and no test of the direction."""
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(200, 16))
    factors = {name: rng.normal(size=200) for name in ("year", "price")}
    once = inspect(vectors, factors=factors)
    often = inspect(np.repeat(vectors, 5, axis=0), factors={name: np.repeat(values, 5) for name, values in factors.items()})
    assert often.norm.duplicates == 800
    assert often.factors == once.factors
    assert often.radial_freedom == once.radial_freedom
    assert (often.verdict.label, often.regime) == (once.verdict.label, once.regime)


def test_near_copies_are_no_further_evidence_either():
    """Rows that a little noise moved are the same rows: taken for five times as many, their intervals would be half as wide."""
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(200, 16))
    factors = {name: rng.normal(size=200) for name in ("year", "price")}
    once = inspect(vectors, factors=factors)
    often = np.repeat(vectors, 5, axis=0)
    often *= 1.0 + 1e-4 * rng.normal(size=(1000, 1))
    often += 1e-4 * rng.normal(size=often.shape)
    report = inspect(often, factors={name: np.repeat(values, 5) for name, values in factors.items()})
    assert report.norm.duplicates == 0
    assert any("800 of 1,000 rows are copies of another up to 1%" in note for note in report.notes)
    assert (report.verdict.label, report.regime) == (once.verdict.label, once.regime)
    for found, alone in zip(report.factors, once.factors, strict=True):
        assert found.rows == 200
        # Noise moved some ranks by a place.
        assert (found.partial_spearman, found.ci_low, found.ci_high) == pytest.approx(
            (alone.partial_spearman, alone.ci_low, alone.ci_high), abs=0.01
        )
    assert report.radial_freedom == pytest.approx(once.radial_freedom, abs=0.05)
