"""The guide of negatives explains every key of the JSON, and its worked example runs and says what the guide quotes of it."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from normwise import advise_negatives
from normwise.core.negatives_records import NegativesReport
from normwise.data.builtin import BUILTIN
from normwise.training.infonce_meter import InfoNCEMeter

GUIDE = (Path(__file__).parents[2] / "docs/guide/negatives.md").read_text(encoding="utf-8")


def code(having):
    (found,) = [block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if having in block]
    return found


def records(annotation):
    """The records within a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [each for part in getattr(annotation, "__args__", ()) for each in records(part)]


def keys(record, before=""):
    for name, field in record.model_fields.items():
        full = before + (field.serialization_alias or name)
        yield full
        for inner in records(field.annotation):
            yield from keys(inner, f"{full}.")


def test_the_guide_explains_each_key_once_and_no_other():
    section = GUIDE.split("## Machine-readable")[1]
    told = re.findall(r"^\| `([^`]+)` \| .+ \|$", section, re.MULTILINE)
    assert sorted(told) == sorted(keys(NegativesReport))


def test_the_guide_names_the_built_in_sets():
    assert {name for name in BUILTIN if f"`{name}`" in GUIDE} == set(BUILTIN)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(code("draw.standard_normal"), {})
        yield lambda tau, **more: advise_negatives(
            *(folder / f"{name}.npy" for name in ("queries", "positives")),
            pool=folder / "corpus.npy",
            similarity="cosine",
            temperature=tau,
            **more,
        )


def test_the_example_says_what_the_guide_quotes(example):
    found = example(0.1)
    (quoted,) = re.findall(r"^> (.*)$", GUIDE, re.MULTILINE)
    number = re.compile(r"-?\d[\d,]*\.?\d*")
    assert number.sub("#", quoted) == number.sub("#", found.advice)
    figures = [[float(each.replace(",", "")) for each in number.findall(text)] for text in (quoted, found.advice)]
    assert figures[0] == pytest.approx(figures[1], abs=2e-3)
    rows = re.findall(r"^\| ([\d,]+) \| (-[\d.]+) \|(?: (-[\d.]+) ± ([\d.]+))? \|$", GUIDE, re.MULTILINE)
    assert len(rows) == 5
    for k, risk, change, half in rows:
        at = found.k.index(int(k.replace(",", "")))
        assert float(risk) == pytest.approx(found.risk[at], abs=2e-4)
        assert bool(change) == (at < len(found.steps))
        if change:
            step = found.steps[at]
            assert float(change) == pytest.approx(step.change, abs=2e-4)
            assert float(half) == pytest.approx((step.ci_high - step.ci_low) / 2, abs=2e-4)
    limit = found.cross_entropy
    assert f"{limit.estimate:.4f} ({limit.ci_low:.4f} to {limit.ci_high:.4f})" in GUIDE


def test_further_figures_of_the_guide_are_those_of_the_example(example):
    assert "-0.0591 ± 0.0038" in example(0.1, k=1024, temperatures=[0.05]).advice
    assert "-0.7878 ± 0.0281" in example(0.05, temperatures=[0.1]).advice
    for pool, needed in ((1_000, "3,800"), (3_000, "9,600"), (6_000, "16,000")):
        assert f"say {needed}" in example(0.025, temperatures=[0.1], limit_pool=pool).advice
        assert needed in GUIDE


def test_the_loop_of_the_guide_runs(capsys):
    names = {}
    exec(code("meter.observe(queries, positives"), names)
    assert isinstance(names["meter"], InfoNCEMeter)
    assert names["found"].k == 63
    assert capsys.readouterr().out.startswith(f"{names['found'].risk} ")
