"""Norm records: the keys that a result must have, frozen, and the same after a trip through JSON."""

import json

import pytest
from pydantic import ValidationError

from normwise.core.norm_records import (
    FactorAssociation,
    NormDistribution,
    NormReport,
    NormVerdict,
    RadialEvidence,
    RegimeEvidence,
    TrainingEvidence,
    Usefulness,
)
from normwise.core.records import Interval

TOKENS = FactorAssociation(
    name="tokens",
    kind="length",
    rows=100,
    controls=("frequency",),
    spearman=-0.5,
    partial_spearman=-0.4,
    ci_low=-0.5,
    ci_high=-0.3,
    p_value=0.001,
    p_adjusted=0.002,
    exponent=Interval(mean=-0.2, ci_low=-0.3, ci_high=-0.1),
)
REPORT = NormReport(
    source="vectors.npy",
    n=100,
    d=8,
    norm=NormDistribution(mean=1.5, cv=0.1, quantiles={"0.5": 1.4}),
    normalized_input=False,
    radial_freedom=0.9,
    radial=RadialEvidence(freedom=0.9, test="e3_knn", upper_bound=True),
    factors=(TOKENS,),
    regime="undetermined",
    evidence=("no settings",),
    verdict=NormVerdict(label="length", text="Länge.", next_step="cosine", follows=("tokens",), effect=0.4),
)


def test_the_result_has_its_keys():
    found = json.loads(REPORT.to_json())
    assert {"n", "d", "norm", "normalized_input", "radial_freedom", "factors", "regime", "verdict"} <= set(found)
    assert {"mean", "cv", "quantiles"} <= set(found["norm"])
    assert {"name", "spearman", "partial_spearman", "ci_low", "ci_high", "p_adjusted"} <= set(found["factors"][0])
    assert {"label", "usable_for", "text"} <= set(found["verdict"])
    assert found["verdict"]["usable_for"] == []
    assert found["factors"][0]["exponent"] == {"mean": -0.2, "ci_low": -0.3, "ci_high": -0.1}


@pytest.mark.parametrize(
    "record",
    [
        REPORT,
        TOKENS,
        RegimeEvidence(regime="adam", evidence=("a", "b")),
        TrainingEvidence(optimizer="sgd", learning_rate=0.1, signal_share=0.5),
        Usefulness(ranking=Interval(mean=0.1, ci_low=0.0, ci_high=0.2)),
    ],
)
def test_round_trip(record):
    assert type(record).from_json(record.to_json()) == record


def test_not_a_number_becomes_null():
    found = NormDistribution.from_json(NormDistribution(mean=float("nan"), cv=float("inf")).to_json())
    assert (found.mean, found.cv) == (None, None)


def test_records_are_frozen_and_strict():
    with pytest.raises(ValidationError, match="frozen"):
        REPORT.regime = "adam"
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        NormVerdict.model_validate({"label": "length", "text": "", "next_step": "cosine", "sign": 1})
    with pytest.raises(ValidationError, match="plane-bound"):
        RegimeEvidence.model_validate({"regime": "equilibrium", "evidence": []})
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        TrainingEvidence(signal_share=1.5)
    with pytest.raises(ValidationError, match="ranking"):
        NormVerdict.model_validate({"label": "length", "text": "", "next_step": "cosine", "usable_for": ["search"]})
