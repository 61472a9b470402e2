"""The model card: the metric contract, the norms and what to do with them, as Markdown with a header for the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from normwise.core.errors import InputError
from normwise.core.records import Comparison, Interval
from normwise.core.similarity import Similarity, parse_similarity
from normwise.report import recipes, words
from normwise.report.card_facts import QUANTILES, CardFacts, NormSummary, saved_run, summarize_norms
from normwise.report.card_header import card_header
from normwise.report.forest import interval_words
from normwise.report.svg import clean

__all__ = ["CardFacts", "NormSummary", "render_card", "summarize_norms"]


def render_card(facts: CardFacts) -> str:
    """Write the model card.

    Args:
        facts: everything the card says.

    Returns:
        Markdown with a YAML header (`library_name`, `pipeline_tag`, `similarity_fn_name`, `tags`, `base_model`,
        results of the saved run). No training text is in it.

    Raises:
        InputError: the similarity is unknown, or the name is empty.

    Example:
        >>> print(render_card(CardFacts(name="demo", similarity="dot")).splitlines()[0])
        ---
    """
    if not facts.name.strip():
        raise InputError("name of the model card is empty: pass what people will call the model")
    similarity = parse_similarity(facts.similarity)
    sections = [
        card_header(facts, similarity),
        f"# {_inline(facts.name)}",
        _contract(facts, similarity),
        _usage(facts, similarity),
        _norms(facts, similarity),
        _results(facts),
        _serving(facts, similarity),
        _indexing(facts, similarity),
        _training(facts),
        _limits(facts, similarity),
    ]
    return clean("\n\n".join(section for section in sections if section)) + "\n"


def _inline(text: str) -> str:
    """Free text as one line of Markdown: no markup, no HTML, no table or heading in it takes effect."""
    line = " ".join(clean(text).split())
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", line)


def _code(text: str) -> str:
    """Free text inside a fenced block: a run of backticks cannot close the fence."""
    return clean(text).replace("```", "'''")


def _fence(language: str, code: str) -> str:
    return f"```{language}\n{code}\n```"


def _quoted(text: str) -> str:
    """Free text as inline code."""
    return "`" + " ".join(clean(text).split()).replace("`", "'") + "`"


def _contract(facts: CardFacts, similarity: Similarity) -> str:
    plain = similarity.ranking.value
    said = f"- Plain sentence-transformers (`model.similarity`) scores with `{plain}`."
    if plain != similarity.value:
        said += f" It has no name for `{similarity.value}`; both rank a query’s candidates alike, and scores differ by its norm."
    if similarity.normalizes_candidate:
        rule = (
            "- Normalizing is harmless to the ranking. `encode` returns raw vectors, so their dot product is **not** this model’s metric."
        )
    else:
        rule = (
            "- **Do not normalize.** No `Normalize` module, no `normalize_embeddings=True`, no cosine index: "
            "each would throw away what the ranking uses."
        )
    tau = f"- Temperature at the end of training: {words.number(facts.temperature)} (a score divided by it is a logit)."
    lead = f"**Score with `{similarity.value}`** ({words.score_words(similarity.value)}). {words.length_words(similarity.value)}"
    return "\n\n".join(["## The metric", lead, "\n".join([said, rule, tau])])


def _usage(facts: CardFacts, similarity: Similarity) -> str:
    name = json.dumps(_code(facts.load_from), ensure_ascii=False)
    code = f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer({name})
queries = model.encode_query(["..."])
candidates = model.encode_document(["..."])
scores = model.similarity(queries, candidates)"""
    lead = (
        f"`model.similarity` is `{similarity.ranking.value}` here. "
        "`normwise.Encoder.load` also checks the stored probe vectors and refuses a changed model."
    )
    notes = []
    for who, prompt in (("Queries", facts.query_prompt), ("Candidates", facts.candidate_prompt)):
        notes.append(f"- {who}: prompt {_quoted(json.dumps(prompt, ensure_ascii=False))}" if prompt else f"- {who}: no prompt")
    if facts.dimensions:
        notes.append(f"- Dimensions: {facts.dimensions:,}")
    if facts.max_tokens:
        notes.append(f"- Longest input: {facts.max_tokens:,} tokens; the rest is cut off")
    return "\n\n".join(["## Load it", _fence("python", code), lead, "\n".join(notes)])


def _norms(facts: CardFacts, similarity: Similarity) -> str:
    lines = ["## Norms"]
    measured = [(who, summary) for who, summary in (("queries", facts.query_norms), ("candidates", facts.candidate_norms)) if summary]
    if measured:
        heads = " | ".join(f"{100 * level:g}%" for level in QUANTILES)
        table = [f"| vectors | count | mean | CV | {heads} |", "|---|" + "---:|" * (len(QUANTILES) + 3)]
        for who, s in measured:
            cells = " | ".join(words.number(s.quantiles.get(level)) for level in QUANTILES)
            table.append(f"| {who} | {s.count:,} | {words.number(s.mean)} | {words.number(s.cv, digits=3)} | {cells} |")
        lines += ["Length of the raw vectors, before any normalization; percentages are quantiles.", "\n".join(table)]
    else:
        lines.append("The distribution of the norms was not measured.")
    if facts.norm_freedom:
        lines.append(_inline(facts.norm_freedom))
    if not similarity.normalizes_candidate:
        lines.append(
            "Short texts get longer vectors under mean pooling, and truncation and prompts move norms: "
            "encode candidates the way they were encoded here."
        )
    return "\n\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _results(facts: CardFacts) -> str:
    lines = ["## Evaluation"]
    if facts.decision:
        run = f"run {_quoted(facts.decision.run)}, " if facts.decision.run else ""
        where = f"{run}{_quoted(facts.decision.similarity)}, on {_inline(facts.decision.split)}"
        lines.append(f"**Decision** ({where}): {_inline(facts.decision.reason)}")
    metrics = words.metric_order([run.metrics for run in facts.runs])
    if metrics:
        data = f"{_quoted(facts.data)}, " if facts.data else ""
        seeds = words.counted(len({seed for run in facts.runs for seed in run.seeds}), "seed")
        lines += [f"{data}test, {seeds}: mean [interval].", _result_table(facts, metrics)]
    else:
        lines.append("Not measured.")
    if facts.comparisons:
        said = "\n".join(_comparison(row) for row in facts.comparisons)
        lines += ["Paired comparisons, intervals corrected for the number of candidates:", said]
    return "\n\n".join(lines)


def _result_table(facts: CardFacts, metrics: Sequence[str]) -> str:
    saved = saved_run(facts)
    missing = Interval(mean=None, ci_low=None, ci_high=None)
    table = [_row(["run", "similarity", *map(words.metric_name, metrics)]), "|---|---|" + "---:|" * len(metrics)]
    for run in facts.runs:
        name = _inline(run.name) + (" (saved)" if run is saved else "")
        table.append(_row([name, _inline(run.similarity), *(interval_words(run.metrics.get(metric, missing)) for metric in metrics)]))
    return "\n".join(table)


def _comparison(row: Comparison) -> str:
    pair = f"{_inline(row.candidate)} − {_inline(row.baseline)}, {words.metric_name(row.metric)} on {_inline(row.split)}"
    return f"- {pair}: {interval_words(row.difference, signed=True)} ({words.level_words(row.level)}): {_inline(row.words)}"


def _serving(facts: CardFacts, similarity: Similarity) -> str:
    if similarity.normalizes_candidate:
        lead = "The ranking does not need the norm, so any of these serves it. To read norms as well, keep them as said here."
    else:
        lead = (
            "The ranking needs the candidates’ norms: a server that normalizes breaks it in silence. Where that cannot be switched off, "
            "store the norm in a field (payload) beside the vector and multiply the served score by it."
        )
    check = _fence("python", _code(recipes.deploy_check(facts.load_from)))
    note = "Versions change this. Check each deployment and each endpoint once:"
    return "\n\n".join(["## Serve it", lead, "\n".join(recipes.server_table()), note, check])


def _indexing(facts: CardFacts, similarity: Similarity) -> str:
    if similarity.normalizes_candidate:
        lead = "Use cosine."
    else:
        lead = "Use the dot product (inner product). `<#>` of pgvector is the **negative** inner product."
    lead += (
        " FAISS’s flat index defaults to L2: name `IndexFlatIP`. An approximate index can lose recall on vectors of mixed norm: "
        "compare it with exact search on real queries."
    )
    parts = [
        "## Index it",
        lead,
        "FAISS:",
        _fence("python", recipes.faiss_recipe(similarity)),
        "pgvector:",
        _fence("sql", recipes.pgvector_recipe(similarity, dimensions=facts.dimensions)),
        "Qdrant (`Cosine` collections normalize at upload, `Dot` ones do not; the norm is kept as a payload):",
        _fence("python", recipes.qdrant_recipe(similarity, dimensions=facts.dimensions)),
    ]
    return "\n\n".join(parts)


def _training(facts: CardFacts) -> str:
    known = [f"- Base model: {_inline(facts.base_model)}"] if facts.base_model else []
    known += [f"- Data: {_inline(facts.data)}"] if facts.data else []
    known += [f"- {_inline(note)}" for note in facts.data_notes]
    for stage in facts.stages:
        how = (
            f"{_inline(stage.similarity)}, {_inline(stage.trainable)}, {stage.steps:,} steps, temperature {words.number(stage.temperature)}"
        )
        known.append(f"- Stage {_inline(stage.name)}: {how}")
    known += [f"- {_inline(name)} {_inline(version)}" for name, version in facts.versions.items()]
    return "\n\n".join(["## Training", "\n".join(known) or "Not recorded."])


def _limits(facts: CardFacts, similarity: Similarity) -> str:
    said = [f"- {_inline(limit)}" for limit in facts.limits]
    said.append("- Scores are not probabilities: a threshold needs calibration on queries of your own.")
    if not similarity.normalizes_candidate:
        said.append("- A candidate with a very long vector can win many queries: watch how often the most frequent first hit comes up.")
    said.append("- The figures above hold for the data they were measured on.")
    return "\n\n".join(["## Limits", "\n".join(said)])
