"""The YAML header of a model card, as the hub reads it."""

from __future__ import annotations

import json
import math
import re

from normwise.core.similarity import Similarity
from normwise.report import words
from normwise.report.card_facts import CardFacts, saved_run
from normwise.report.svg import clean

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def _scalar(text: str) -> str:
    """A YAML string in JSON quotes; what YAML alone would take for a line break or a byte order mark is written as an escape."""
    quoted = json.dumps(clean(text), ensure_ascii=False)
    return re.sub("[\u2028\u2029\ufeff]", lambda match: f"\\u{ord(match.group()):04x}", quoted)


def card_header(facts: CardFacts, similarity: Similarity) -> str:
    """Everything between and with the two lines of dashes."""
    tags = dict.fromkeys(
        ("sentence-transformers", "sentence-similarity", "feature-extraction", "normwise", f"similarity:{similarity.value}", *facts.tags)
    )
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        f"similarity_fn_name: {similarity.ranking.value}",
    ]
    if facts.license:
        lines.append(f"license: {_scalar(facts.license)}")
    if facts.languages:
        lines += ["language:", *(f"- {_scalar(language)}" for language in facts.languages)]
    if facts.base_model and _HUB_ID.fullmatch(facts.base_model):
        lines.append(f"base_model: {_scalar(facts.base_model)}")
    lines += ["tags:", *(f"- {_scalar(tag)}" for tag in tags)]
    return "\n".join([*lines, *_model_index(facts), "---"])


def _model_index(facts: CardFacts) -> list[str]:
    run = saved_run(facts)
    measured = {name: row.mean for name, row in run.metrics.items() if row.mean is not None and math.isfinite(row.mean)} if run else {}
    if not measured:
        return []
    data = _scalar(facts.data or "not recorded")
    lines = [
        "model-index:",
        f"- name: {_scalar(facts.name)}",
        "  results:",
        "  - task:",
        "      type: information-retrieval",
        "      name: Information Retrieval",
    ]
    lines += ["    dataset:", f"      name: {data}", f"      type: {data}", "      split: test", "    metrics:"]
    for name in words.metric_order([measured]):
        lines += [f"    - type: {_scalar(name)}", f"      value: {measured[name]:.4f}", f"      name: {_scalar(words.metric_name(name))}"]
    return lines
