"""What the page of a norm report shows, as plain values for its template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from normwise.core.inspect_records import InspectReport
from normwise.core.norm_records import FactorAssociation, NormDistribution
from normwise.core.records import Interval
from normwise.report import glossary, inspect_words, norm_plots, words
from normwise.report.cells import markup
from normwise.report.examples_view import examples_view
from normwise.report.forest import ForestRow, forest, interval_words
from normwise.report.inspect_words import TESTS, held_words, p_words, settle, share, signed
from normwise.report.modality_view import modality_view
from normwise.report.thumbnails import inlined_words
from normwise.report.usefulness_view import usefulness_view
from normwise.theory.norm_findings import BENT

_DISTRIBUTION = (
    ("mean", "Mean", ""),
    ("std", "Standard deviation", ""),
    ("cv", "Spread (CV)", "Standard deviation over mean. Near 0, length can carry nothing."),
    ("std_log", "Spread of log norm", "What the correlations and the laws of training speak of."),
    ("minimum", "Shortest", ""),
    ("maximum", "Longest", ""),
    ("tail_ratio", "Tail ratio", "99% quantile over 1% quantile: how many times longer the long ones are."),
)
_TAILS = (
    ("skew_log", "Skewness of log norm", "Above 0 a tail of long vectors, below 0 one of short ones."),
    ("tail_low", "Low tail", "Median over 1% quantile."),
    ("tail_high", "High tail", "99% quantile over median."),
)
_ROWS = ("pair_rows", "search_rows", "search_queries", "radial_rows")


def inspect_view(report: InspectReport) -> dict[str, Any]:
    """Every value that `inspect.html` reads."""
    step, why = inspect_words.STEPS[report.verdict.next_step]
    figures, varies = report.figures, report.verdict.label != "degenerate"
    examples = examples_view(report)
    after = report.norm_after_normalize
    histogram = norm_plots.norm_histogram(figures, report.norm.quantiles, after=after.mean if after else None)
    return {
        "title": f"normwise: norms of {report.source}",
        "source": report.source,
        "headline": inspect_words.headline(report),
        "text": settle(report.verdict.text),
        "facts": _facts(report),
        "step": step,
        "step_words": why,
        "next_command": inspect_words.next_command(report),
        "regime": report.regime,
        "regime_words": inspect_words.regime_words(report),
        "evidence": [settle(line) for line in report.evidence],
        "varies": varies,
        "histogram": markup(histogram),
        "histogram_words": _histogram_words(report),
        "distribution": _distribution(report),
        "quantiles": _quantiles(report.norm, after),
        "has_after": after is not None,
        "counts": _counts(report),
        "factors": [_factor_view(factor, report) for factor in report.factors],
        "has_notes": any(factor.note for factor in report.factors),
        "has_exponents": any(factor.exponent is not None for factor in report.factors),
        "factors_lead": _factors_lead(report),
        "forests": _forests(report),
        "scatters": _scatters(report) if varies else [],
        "scatter_rows": f"{len(figures.scatter_norms):,}",
        "freedom": "" if report.radial_freedom is None else words.geometry_number(report.radial_freedom),
        "radial": inspect_words.radial_words(report),
        "tests": _tests(report),
        "geometry": _geometry(report),
        "geometry_lead": _geometry_lead(report.geometry, report),
        "plane": markup(norm_plots.direction_plane(figures, colored=varies)),
        "modalities": modality_view(report),
        "examples": examples,
        "inlined": inlined_words(examples, left_out=sum(part.examples.left_out for part in (report, *report.parts) if part.examples)),
        "usefulness": usefulness_view(report.usefulness),
        "notes": [settle(note) for note in report.notes],
        "raw_norms": [dict(zip(("what", "how"), _split(line), strict=True)) for line in report.raw_norms],
        "settings": _settings(report),
        "command": report.command,
        "versions": list(report.versions.items()),
    }


def _facts(report: InspectReport) -> list[dict[str, str]]:
    verdict, norm = report.verdict, report.norm
    strength = "" if verdict.effect is None else f"strength {verdict.effect:.2f} of at most 1"
    spread = "" if norm.cv is None else f"CV {words.number(norm.cv, digits=3)}, median {words.number(norm.quantiles.get('0.5'))}"
    kind = [words.counted(report.d, "dimension"), *(part for part in (report.stored, report.part) if part)]
    return [
        {"name": "Verdict", "value": verdict.label, "detail": strength},
        {"name": "Usable for", "value": inspect_words.uses(report), "detail": "as far as it was measured"},
        {"name": "Regime", "value": report.regime, "detail": inspect_words.regime_words(report)},
        {"name": "Mean norm", "value": words.number(norm.mean), "detail": spread},
        {"name": "Vectors", "value": f"{report.n:,}", "detail": f"of {' · '.join(kind)}"},
    ]


def _histogram_words(report: InspectReport) -> str:
    figures, after = report.figures, report.norm_after_normalize
    outside = figures.below + figures.above
    parts = ["Shares of the raw norms; dotted: quantiles."]
    if outside:
        parts.append(f"{words.counted(outside, 'norm')} beyond the ends of the axis.")
    if after is not None and after.mean is not None:
        parts.append(f"After the model’s Normalize module they are all {words.number(after.mean)}.")
    return " ".join(parts)


def _distribution(report: InspectReport) -> list[dict[str, str]]:
    after = report.norm_after_normalize
    # The ends stand among the quantiles already.
    known = {"minimum", "maximum"} if {"0", "1"} <= set(report.norm.quantiles) else set()
    rows = [
        {
            "name": name,
            "raw": words.number(getattr(report.norm, key)),
            "after": words.number(getattr(after, key)) if after else "",
            "words": said,
        }
        for key, name, said in _DISTRIBUTION
        if key not in known
    ]
    return rows + [{"name": name, "raw": words.number(getattr(report, key)), "after": "", "words": said} for key, name, said in _TAILS]


def _quantiles(norm: NormDistribution, after: NormDistribution | None) -> list[dict[str, str]]:
    return [
        {
            "level": {"0": "shortest", "0.5": "median", "1": "longest"}.get(level, f"{100 * float(level):g}%"),
            "raw": words.number(norm.quantiles[level]),
            "after": words.number(after.quantiles.get(level)) if after else "",
        }
        for level in sorted(norm.quantiles, key=float)
    ]


def _counts(report: InspectReport) -> list[tuple[str, str]]:
    norm = report.norm
    duplicates = words.NOT_MEASURED if norm.duplicates is None else f"{norm.duplicates:,}"
    broken = f"{norm.nonfinite:,}" + (f": {report.nan_rows:,} with NaN, {report.infinite_rows:,} infinite" if norm.nonfinite else "")
    return [
        ("Zero vectors", f"{norm.zero:,}"),
        ("Rows with NaN or infinity", broken),
        ("Repeated rows", duplicates),
        ("Came normalized", "yes" if report.normalized_input else "no"),
    ]


def _factors_lead(report: InspectReport) -> str:
    if report.verdict.label == "degenerate":
        return "The norms do not vary, so nothing can go with them."
    sign = (
        " The regime is undetermined: a sign below belongs to these vectors and says nothing of how they came about."
        if report.regime == "undetermined"
        else ""
    )
    counts = [factor.rows for factor in report.factors] or [report.factor_rows]
    on = words.counted(max(counts), "row") if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,} rows"
    return (
        f"Rank correlations with the norm, on {on}. Partial: both sides lost what the held "
        f"factors explain. Intervals are 95%, p-values corrected for the number of factors.{sign}"
    )


def _factor_view(factor: FactorAssociation, report: InspectReport) -> dict[str, Any]:
    others = tuple(other.name for other in report.factors if other.name != factor.name)
    partial = Interval(mean=factor.partial_spearman, ci_low=factor.ci_low, ci_high=factor.ci_high)
    plain = not factor.categorical
    note = settle(factor.note)
    if factor.shared is not None:
        note += f" (as a group: {interval_words(factor.shared, signed=plain)})"
    return {
        "name": factor.name,
        "kind": "" if factor.kind == factor.name else factor.kind,
        "categorical": factor.categorical,
        "followed": factor.name in report.verdict.follows,
        "raw": signed(factor.spearman) if plain else words.geometry_number(factor.spearman),
        **_interval_parts("partial", partial, signs=plain),
        "bent": _bent(factor, report),
        "p": p_words(factor.p_adjusted),
        "p_raw": p_words(factor.p_value),
        "held": settle(held_words(factor.controls, others)),
        "note": note,
        **_interval_parts("exponent", factor.exponent or Interval(mean=None, ci_low=None, ci_high=None), signs=True),
        "curve": words.geometry_number(factor.curve),
        "curve_p": p_words(factor.curve_p_adjusted),
        "alone": share(factor.alone),
        "own": share(factor.own_share),
        "rows": f"{factor.rows:,}",
    }


def _bent(factor: FactorAssociation, report: InspectReport) -> str:
    """The figure that a followed factor was named by, where that is a curve and not the correlation."""
    curve = factor.curve
    if factor.name not in report.verdict.follows or curve is None or curve <= BENT * abs(factor.partial_spearman or 0.0):
        return ""
    return f"not monotone: correlation ratio {words.geometry_number(curve)}"


def _interval_parts(name: str, interval: Interval, *, signs: bool) -> dict[str, str]:
    """Mean and range as separate texts of a cell."""
    said = interval_words(interval, signed=signs)
    if said == words.NOT_MEASURED:
        return {name: said, f"{name}_range": ""}
    mean, _, rest = said.partition(" ")
    return {name: mean, f"{name}_range": rest.strip("[]").replace(", ", " to ")}


def _forests(report: InspectReport) -> list[dict[str, Any]]:
    drawn = []
    for title, caption, categorical in (
        ("Partial Spearman", "Dot: correlation with the norm, the other factors held. Bar: 95% interval. Dashed: nothing.", False),
        ("Correlation ratio of categories", "It has no sign: 0 is nothing, 1 is all. Bar: 95% interval.", True),
    ):
        rows = []
        for factor in report.factors:
            own = Interval(mean=factor.partial_spearman, ci_low=factor.ci_low, ci_high=factor.ci_high)
            group = own.mean is None and factor.shared is not None
            mark = "as a group" if group else "followed" if factor.name in report.verdict.follows else ""
            interval = factor.shared if group and factor.shared is not None else own
            if factor.categorical is categorical and interval.mean is not None:
                rows.append(ForestRow(name=factor.name, interval=interval, mark=mark))
        if svg := forest(rows, title=title, zero=not categorical):
            drawn.append({"svg": markup(svg), "title": title, "caption": caption})
    return drawn


def _scatters(report: InspectReport) -> list[dict[str, Any]]:
    figures = report.figures
    categories = {factor.name: factor.categorical for factor in report.factors}
    drawn = []
    for name, values in figures.scatter_factors.items():
        svg = norm_plots.factor_figure(figures.scatter_norms, values, name=name)
        categorical = categories.get(name, False)
        caption = "Bar: median of the category." if categorical else "Line: median norm."
        if svg:
            drawn.append(
                {
                    "svg": markup(svg),
                    "title": settle(name),
                    "caption": caption if len(figures.scatter_norms) >= norm_plots.LEAST_FOR_LINE or categorical else "",
                }
            )
    return drawn


def _tests(report: InspectReport) -> list[dict[str, Any]]:
    decided = inspect_words.deciding_test(report)
    return [
        {"name": name, "key": key, "value": words.geometry_number(report.geometry.get(key)), "words": said, "decided": key == decided}
        for key, (name, said) in TESTS.items()
        if key in report.geometry
    ]


def _geometry(report: InspectReport) -> list[dict[str, str]]:
    """The figures of the sample with their standard errors; the radial tests have their own table."""
    shown = [key for key in report.geometry if not key.endswith("_error") and key not in (*_ROWS, *TESTS, "radial_freedom")]
    rows = []
    for key in shown:
        value, error = report.geometry[key], report.geometry.get(f"{key}_error")
        percent = key.startswith(("norm_hubs", "hub_share"))
        rows.append(
            {
                "key": key,
                "value": share(value) if percent else words.geometry_number(value),
                "error": "" if value is None or error is None else f"± {share(error) if percent else words.number(error, digits=2)}",
                "words": glossary.geometry_words(key),
            }
        )
    return rows


def _geometry_lead(geometry: Mapping[str, float | None], report: InspectReport) -> str:
    if not report.sample_rows:
        return "There was no row to measure."
    rows = {key: f"{int(value):,}" for key in _ROWS if (value := geometry.get(key)) is not None}
    parts = [f"Measured on a sample of {report.sample_rows or 0:,} rows, drawn by seed {report.seed}, with standard errors."]
    if "pair_rows" in rows:
        parts.append(f"Cosines, ranks and hubness rest on {rows['pair_rows']} of them;")
    if "search_queries" in rows and "search_rows" in rows:
        parts.append(f"first places on {rows['search_queries']} queries to {rows['search_rows']} rows;")
    if "radial_rows" in rows:
        parts.append(f"the tests above on {rows['radial_rows']}.")
    return " ".join(parts)


def _settings(report: InspectReport) -> list[tuple[str, str]]:
    return [
        ("Source", report.source),
        ("Part", report.part or "all of it"),
        ("Stored as", report.stored or "not recorded"),
        ("Rows behind the factors", f"{report.factor_rows:,}"),
        ("Rows of the sample", words.NOT_MEASURED if report.sample_rows is None else f"{report.sample_rows:,}"),
        ("Seed", str(report.seed)),
        ("Time", words.NOT_MEASURED if report.seconds is None else words.duration(report.seconds)),
    ]


def _split(line: str) -> tuple[str, str]:
    """A way to raw norms and its call: what stands before and after the first colon."""
    what, colon, how = line.partition(": ")
    return (what, how) if colon else ("", line)
