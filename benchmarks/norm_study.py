"""What the norms of real models say: reports of `inspect` with length and frequency held, written to docs/norm_results.md.

Run: python benchmarks/norm_study.py [--only words ...] [--docs docs]; `--table` only rewrites the page from docs/results/norms-*.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from packaged_models import MAKERS

from normwise.core.inspect_records import InspectReport, NormPictures
from normwise.core.records import Interval
from normwise.data.human_ratings import read_ratings
from normwise.workflows.inspect import inspect

MODEL = "all-MiniLM-L6-v2"
LIMITS = {"limit_queries": 400, "limit_candidates": 1_500}
HEAD = """# What norms say in real models

`python benchmarks/norm_study.py` writes this page. Each section is one report of `normwise inspect`: what the norm goes with once
length, frequency and the other factors are held (partial Spearman on splines of ranks, 95% bootstrap interval, p-values after
Holm's correction over the factors of the section). A sign is this model's: without the optimizer's history no regime of training
can be named, and an encoder's norm may be a function of its direction whatever it goes with ([how to read it](guide/norms.md)).
Where the other models come from and how they were opened: [Models](guide/models.md#models-that-packages-ship).
"""


def human() -> InspectReport:
    """The spread of ten people's ratings of a word, its mean rating held: a stand-in for human uncertainty about pictures."""
    found = read_ratings()
    ratings = found.ratings.astype(np.float64)
    factors = {"ratings_sd": ratings.std(axis=1, ddof=1), "absolute_rating": np.abs(ratings.mean(axis=1))}
    return inspect(MODEL, texts=list(found.words), factors=factors, limit=len(found.words))


def packaged(name: str, title: str, *, source: str = "", texts: str | None = None, rank: bool = False, **how: Any) -> InspectReport:
    """A model that a package ships, made into files by the recipe `name`; `source` and `texts` are files of its folder."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        MAKERS[name](folder)
        if rank:
            rows = np.load(folder / source, mmap_mode="r").shape[0]
            how |= {"factors": {"rank_in_its_corpus": np.arange(1.0, rows + 1.0)}}
        found = inspect(folder / source, texts=None if texts is None else folder / texts, **how)
    return found.model_copy(update={"source": title})


def running_text() -> InspectReport:
    """Docstrings of the standard library, of one word to some hundred."""
    with tempfile.TemporaryDirectory() as folder:
        MAKERS["docstrings"](Path(folder))
        return inspect(MODEL, texts=Path(folder) / "docstrings.jsonl", limit=2_000)


STUDIES: dict[str, tuple[str, Callable[[], InspectReport]]] = {
    "words": ("Words, and judged queries of python-docs", lambda: inspect(MODEL, data="python-docs", **LIMITS)),
    "calls": ("The same words, and judged queries of python-calls", lambda: inspect(MODEL, data="python-calls", **LIMITS)),
    "tokens": ("The token table", lambda: inspect(MODEL, table="auto")),
    "human": ("Words that ten people rated (VADER lexicon)", human),
    "text": ("Running text: docstrings of the standard library", running_text),
    "paraphrase": ("paraphrase-MiniLM-L3-v2: words", partial(packaged, "paraphrase", "paraphrase-MiniLM-L3-v2")),
    "smollm2": ("SmolLM2-135M-Instruct: words", partial(packaged, "smollm2", "SmolLM2-135M-Instruct, its last token", limit=1_500)),
    "smollm2-tokens": ("SmolLM2-135M-Instruct: the token table", partial(packaged, "smollm2_table", "token_embd.weight", table="auto")),
    "wordllama": ("WordLlama: the token table", partial(packaged, "wordllama", "l2_supercat_256", table="auto")),
    "glove": ("GloVe 6B 50d", partial(packaged, "glove", "glove.6B.50d", source="glove.npy", texts="words.txt")),
    "glove-rank": (
        "GloVe 6B 50d and the order of its own list, most frequent first",
        partial(packaged, "glove", "glove.6B.50d", source="glove.npy", rank=True),
    ),
}


def interval(value: Interval | None) -> str:
    if value is None or value.mean is None or value.ci_low is None or value.ci_high is None:
        return "not measured"
    return f"{value.mean:+.4f} [{value.ci_low:+.4f}, {value.ci_high:+.4f}]"


def rows(header: list[str], body: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *body])


def number(value: float | None, form: str = "{:+.3f}") -> str:
    return "—" if value is None else form.format(value)


def said(words: str) -> str:
    """The words of an outcome without the outcome, which stands before them."""
    return words.partition(": ")[2] or words


def section(name: str, report: InspectReport) -> str:
    norm = report.norm
    facts = (
        f"{report.source}, {report.n:,} vectors of {report.d} dimensions. Norm: mean {number(norm.mean, '{:.3f}')}, CV "
        f"{number(norm.cv, '{:.3f}')}. Radial freedom {number(report.radial_freedom, '{:.2g}')}. Regime: {report.regime}."
    )
    factors = rows(
        ["factor", "Spearman", "partial Spearman", "adjusted p", "held"],
        [
            [
                factor.name,
                number(factor.spearman),
                f"{number(factor.partial_spearman)} [{number(factor.ci_low)}, {number(factor.ci_high)}]",
                number(factor.p_adjusted, "{:.2g}"),
                ", ".join(factor.controls) or "nothing",
            ]
            for factor in report.factors
        ],
    )
    parts = [f"## {STUDIES[name][0]}", facts, factors, f"**Verdict: {report.verdict.label}.** {report.verdict.text}"]
    if (found := report.usefulness) is not None:
        ranking, trust = found.reranking, found.confidence
        table = rows(
            ["prior", "chosen β", f"{ranking.metric} − cosine"],
            [
                [name, ", ".join(f"{beta:.3g}" for beta in one.chosen_betas), interval(one.difference)]
                for name, one in ranking.priors.items()
            ],
        )
        against = ", ".join(f"norm − {name} {interval(one)}" for name, one in ranking.norm_minus.items())
        parts += [
            f"Re-ranking by cos · w^β on {found.data} ({ranking.queries} queries, {ranking.candidates:,} candidates; β chosen by "
            f"{ranking.chosen_on}; {ranking.level:.1%} intervals): **{ranking.outcome}**: {said(ranking.words)}.",
            table,
            f"Paired: {against}.",
            f"Confidence in the top hit: **{trust.outcome}**: {said(trust.words)}. Beyond all controls: "
            + ", ".join(f"{figure} {interval(gain)}" for figure, gain in trust.gains_beyond.items())
            + ".",
        ]
    return "\n\n".join(parts)


def write_page(docs: Path) -> None:
    found = {name: docs / "results" / f"norms-{name}.json" for name in STUDIES}
    sections = [section(name, InspectReport.from_json(path.read_text())) for name, path in found.items() if path.is_file()]
    (docs / "norm_results.md").write_text("\n\n".join([HEAD.rstrip(), *sections]) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--table", action="store_true", help="only rewrite the page")
    options = parser.parse_args()
    for name in [] if options.table else options.only:
        report = STUDIES[name][1]().model_copy(update={"figures": NormPictures(), "command": "python benchmarks/norm_study.py"})
        target = options.docs / "results" / f"norms-{name}.json"
        target.write_text(json.dumps(report.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
        print(f"{target}: {report.verdict.label}, {report.seconds:.0f} s", flush=True)
    write_page(options.docs)


if __name__ == "__main__":
    main()
