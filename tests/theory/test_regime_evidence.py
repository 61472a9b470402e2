"""Which row of the law table is told for which settings, and what is said where the settings leave it open."""

import pytest

from normwise.core.norm_records import FactorAssociation, TrainingEvidence
from normwise.theory.regime_evidence import judge_regime, law_of

VISITS = FactorAssociation(name="visits", kind="frequency", rows=500, spearman=0.6, partial_spearman=0.64)
ADAMW = TrainingEvidence(optimizer="adamw", learning_rate=1e-5, weight_decay=0.01, lazy=False, steps=10)
GROWTH, BALANCE = "(Adam, dense updates):", "(AdamW, dense updates, equilibrium):"


def told(training):
    return judge_regime([VISITS], {"visits": 0.64}, degenerate=False, radial=None, training=training)


def test_ten_steps_are_no_equilibrium():
    found = told(ADAMW)
    assert found.regime == "adam"
    words = "; ".join(found.evidence)
    assert GROWTH in words
    assert "equilibrium)" not in words
    assert "10 steps are 2e-06 times the 5,000,000 steps" in words


def test_adamw_at_equilibrium_is_said_to_be():
    words = "; ".join(told(ADAMW.model_copy(update={"steps": 5_000_001})).evidence)
    assert BALANCE in words
    assert GROWTH not in words


@pytest.mark.parametrize("missing", ["learning_rate", "steps", "weight_decay"])
def test_where_it_cannot_be_told_both_rows_and_what_is_missing_are_named(missing):
    training = ADAMW.model_copy(update={missing: None})
    words = "; ".join(told(training).evidence)
    assert f"{missing.replace('_', ' ')} not given: whether weight decay had balanced growth cannot be told" in words
    assert law_of("adam", training).startswith(f"the law is one of two: {GROWTH}")
    assert f"; or {BALANCE}" in words


@pytest.mark.parametrize(
    ("stage", "wanted", "unwanted"),
    [
        ({"steps": 10}, ["(Adam, lazy updates): frequency +, exponent 0.5"], ["AdamW"]),
        ({"steps": 10**8}, ["(AdamW, lazy updates, equilibrium): frequency 0"], ["exponent"]),
        ({"steps": None}, ["(Adam, lazy updates): frequency +, exponent 0.5", "(AdamW, lazy updates, equilibrium): frequency 0"], []),
    ],
)
def test_lazy_updates_have_rows_of_their_own(stage, wanted, unwanted):
    words = law_of("adam", ADAMW.model_copy(update={"lazy": True, **stage}))
    assert all(part in words for part in wanted)
    assert not any(part in words for part in unwanted)


def test_the_knee_is_told_with_its_number_and_what_was_assumed():
    words = "; ".join(told(ADAMW).evidence)
    assert "frequency can be written only below visit rates of about 1 - beta2 = 0.001 (beta2 0.999 assumed)" in words
    assert "above, the law does not give it" in words
    known = "; ".join(told(ADAMW.model_copy(update={"beta2": 0.98})).evidence)
    assert "1 - beta2 = 0.02: above" in known
    assert "assumed" not in known
    assert "dense updates are assumed" in "; ".join(told(ADAMW.model_copy(update={"lazy": None})).evidence)


def test_no_row_is_told_where_there_is_no_law():
    coupled = TrainingEvidence(optimizer="adam", weight_decay=0.1, learning_rate=1e-3, steps=10**6)
    found = told(coupled)
    assert (found.regime, law_of("adam", coupled)) == ("adam", "")
    assert any("no law is known for that" in line for line in found.evidence)
    assert not any("the law" in line for line in found.evidence)


def test_sgd_says_why_it_is_not_known_to_be_at_equilibrium():
    open_stage = TrainingEvidence(optimizer="sgd", weight_decay=0.1)
    assert told(open_stage).regime == "undetermined"
    assert any("learning rate, steps not given" in line for line in told(open_stage).evidence)
    assert any("not known to be at a weight-decay equilibrium" in line for line in told(open_stage).evidence)
    short = open_stage.model_copy(update={"learning_rate": 0.1, "steps": 20})
    assert any("0.8 times the 25 steps" in line for line in told(short).evidence)
    assert any("short of a weight-decay equilibrium" in line for line in told(short).evidence)
    noise = open_stage.model_copy(update={"signal_share": 0.1, "lazy": True})
    assert "(SGD, no decay, noise-dominated): frequency +, exponent 0.25" in law_of("noise", noise)
    assert "(SGD, lazy decay, equilibrium): frequency 0" in law_of("noise", noise)
