"""What the page of a norm report shows of several modalities, as plain values for its template."""

from __future__ import annotations

from typing import Any

from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import AcrossModalities, ConformityReport, ModalityGap, NormShare
from normwise.core.norm_records import FactorAssociation
from normwise.core.records import Interval
from normwise.report import norm_plots, words
from normwise.report.cells import markup
from normwise.report.forest import ForestRow, forest
from normwise.report.inspect_words import held_words, p_words, settle, share, signed
from normwise.report.modality_words import between, conformity_words, ellipsoid_rows, freedom_lines, gap_words, norm_words, share_words


def modality_view(report: InspectReport) -> dict[str, Any] | None:
    """Every value of the sections on modalities; None for a report of one kind of vectors."""
    if not report.parts and report.across is None:
        return None
    own = (report, *report.parts)
    return {
        "rows": [_row(part) for part in own],
        "parts": [_part_view(part) for part in report.parts],
        "across": None if report.across is None else _across_view(report.across),
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(part: InspectReport) -> dict[str, str]:
    freedom = words.NOT_MEASURED if part.radial_freedom is None else words.geometry_number(part.radial_freedom)
    return {
        "name": settle(part.modality or part.source),
        "n": f"{part.n:,}",
        "label": part.verdict.label,
        "regime": part.regime,
        "mean": words.number(part.norm.mean),
        "cv": words.number(part.norm.cv, digits=3),
        "freedom": freedom,
        "follows": settle(", ".join(part.verdict.follows)) or "none",
    }


def _part_view(part: InspectReport) -> dict[str, Any]:
    histogram = norm_plots.norm_histogram(part.figures, part.norm.quantiles, after=None)
    return {
        "name": settle(part.modality or part.source),
        "text": settle(part.verdict.text),
        "evidence": [settle(line) for line in part.evidence],
        "histogram": markup(histogram),
        "factors": [_factor(factor, part.factors) for factor in part.factors],
        "notes": [settle(note) for note in part.notes],
    }


def _factor(factor: FactorAssociation, every: tuple[FactorAssociation, ...]) -> dict[str, str]:
    others = tuple(other.name for other in every if other.name != factor.name)
    partial = Interval(mean=factor.partial_spearman, ci_low=factor.ci_low, ci_high=factor.ci_high)
    return {
        "name": settle(factor.name),
        "kind": "" if factor.kind == factor.name else factor.kind,
        "raw": words.geometry_number(factor.spearman) if factor.categorical else signed(factor.spearman),
        "partial": between(partial),
        "p": p_words(factor.p_adjusted),
        "held": settle(held_words(factor.controls, others)),
        "note": settle(factor.note),
    }


def _across_view(across: AcrossModalities) -> dict[str, Any]:
    names = (settle(across.first), settle(across.second))
    gap, ellipsoids = across.gap, across.ellipsoids
    return {
        "title": f"{names[0]} and {names[1]}",
        "lines": _lines(across, names),
        "gap": [] if gap is None else _gap_rows(gap, names),
        "ellipsoids": [] if ellipsoids is None else ellipsoid_rows(ellipsoids, names),
        "ellipsoid_words": "" if ellipsoids is None else _sentence(ellipsoids.words),
        "ellipsoid_outcome": "" if ellipsoids is None else ellipsoids.outcome,
        "conformity": [
            view
            for name, found in zip(names, (across.conformity_first, across.conformity_second), strict=True)
            if (view := _conformity_view(name, found)) is not None
        ],
        "signs": [
            {"factor": settle(sign.factor), "first": between(sign.first), "second": between(sign.second), "agreement": sign.agreement}
            for sign in across.signs
        ],
        "first": names[0],
        "second": names[1],
        "sign_words": _sentence(settle(across.sign_words)),
        "forests": _forests(across, names),
        "shares": [_share_row(found) for found in across.shares],
        "freedom": [settle(line) for line in freedom_lines(across)],
        "notes": [settle(note) for note in across.notes],
        "units": f"{across.clusters:,}",
    }


def _lines(across: AcrossModalities, names: tuple[str, str]) -> list[dict[str, str]]:
    found = []
    if across.gap is not None:
        found.append({"tag": "gap" if across.gap.p_value < 0.05 else "no gap", "text": gap_words(across.gap, names)})
        found.append({"tag": "norms", "text": norm_words(across.gap, names)})
    if across.ellipsoids is not None:
        found.append({"tag": "double ellipsoid", "text": settle(across.ellipsoids.words)})
    found += [
        {"tag": "dot product", "text": f"{settle(one.queries)} → {settle(one.candidates)}: {share_words(one)}"} for one in across.shares
    ]
    return found


def _gap_rows(gap: ModalityGap, names: tuple[str, str]) -> list[dict[str, str]]:
    number = words.number
    rows = [
        (
            "Distance of the mean unit vectors",
            number(gap.gap),
            f"0 where they are equal; chance gives {number(gap.gap_by_chance)}, p {p_words(gap.p_value)} on {gap.tested_rows:,} rows",
        ),
        ("The same, held out", between(gap.held_out), "along a direction that other rows chose: 0 on average without a gap"),
        ("Squared, without what chance adds", number(gap.squared_gap), "within + within − 2 · across, of the cosines below"),
        ("Share of the spread of directions", share(gap.variance_share), "0 without a gap, 100% where each modality is one direction"),
        (f"Mean cosine within {names[0]}", number(gap.within_first, digits=3), "0 where directions go everywhere, 1 where they are one"),
        (f"Mean cosine within {names[1]}", number(gap.within_second, digits=3), "the same"),
        ("Mean cosine across", number(gap.cross, digits=3), "below both: a gap"),
        ("AUC of the direction", between(gap.direction_auc), "held out; 0.5 without a gap"),
        ("AUC of the norm", between(gap.norm_auc), f"0.5 where norms do not tell them apart; above: {names[0]} are longer"),
        ("Difference of mean log norm", between(gap.log_norm_difference), f"{names[0]} minus {names[1]}; 0 where both are as long"),
        ("Distance of the raw means", number(gap.raw_gap), f"{share(gap.raw_gap_norm_share)} of its square is length, the rest angle"),
    ]
    if gap.matched is not None:
        cosines = f"{number(gap.matched_cosine, digits=3)} and {number(gap.random_cosine, digits=3)}"
        rows.append(
            ("Matched minus random pairs", between(gap.matched), f"mean cosines {cosines}, {gap.pairs:,} pairs; 0 where pairs say nothing")
        )
    return [{"name": name, "value": value, "words": said} for name, value, said in rows]


def _conformity_view(name: str, found: ConformityReport | None) -> dict[str, Any] | None:
    if found is None:
        return None
    rows = (found.norm.model_copy(update={"name": "norm", "kind": "norm"}), *found.factors)
    return {
        "name": name,
        "lead": _sentence(conformity_words(found)),
        "rows": [_factor(factor, rows) for factor in rows],
    }


def _forests(across: AcrossModalities, names: tuple[str, str]) -> list[dict[str, Any]]:
    rows = [
        ForestRow(name=sign.factor, interval=interval, mark=name)
        for sign in across.signs
        for name, interval in zip(names, (sign.first, sign.second), strict=True)
        if interval.mean is not None
    ]
    title = "Norm against factors, in both"
    svg = forest(rows, title=title, zero=True)
    caption = "Dot: partial Spearman with the norm, the other factors held. Bar: 95% interval. Dashed: nothing."
    return [{"svg": markup(svg), "title": title, "caption": caption}] if svg else []


def _share_row(found: NormShare) -> dict[str, str]:
    return {
        "name": f"{settle(found.queries)} → {settle(found.candidates)}",
        "share": between(found.share),
        "top": between(found.top_share),
        "positive": share(found.positive),
        "first": share(found.same_first),
        "outcome": found.outcome,
    }
