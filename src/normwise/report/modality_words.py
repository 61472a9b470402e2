"""What a norm report says of several modalities, in lines that page and terminal share."""

from __future__ import annotations

from normwise.core.inspect_records import InspectReport
from normwise.core.modality_records import AcrossModalities, ConformityReport, DoubleEllipsoid, ModalityGap, NormShare
from normwise.core.records import Interval
from normwise.report import words
from normwise.report.inspect_words import p_words, settle, share, signed

# Some properties have no state of chance to compare with.
_NO_NULL = "no null"


def modality_lines(report: InspectReport) -> list[str]:
    """One line for each modality and each finding between them; none for a report of one kind of vectors.

    Args:
        report: any report.

    Returns:
        Lines without markup.
    """
    lines = [f"{part.modality}: {part.n:,} vectors, verdict {part.verdict.label}. {part.verdict.text}" for part in report.parts]
    across = report.across
    if across is None:
        return lines
    names = (across.first, across.second)
    if across.gap is not None:
        lines += [f"across modalities, gap: {gap_words(across.gap, names)}", f"across modalities, norms: {norm_words(across.gap, names)}"]
    if across.ellipsoids is not None:
        lines.append(f"across modalities, double ellipsoid: {across.ellipsoids.words}")
    for name, found in zip(names, (across.conformity_first, across.conformity_second), strict=True):
        if found is not None:
            lines.append(f"across modalities, conformity of {name}: {conformity_words(found)}")
    lines += [f"across modalities, dot product {one.queries} → {one.candidates}: {share_words(one)}" for one in across.shares]
    if across.sign_words:
        lines.append(f"across modalities, signs: {across.sign_words}")
    lines += [f"across modalities, {freedom}" for freedom in freedom_lines(across)]
    return lines + [f"across modalities, note: {note}" for note in across.notes]


def gap_words(gap: ModalityGap, names: tuple[str, str]) -> str:
    """The gap beside what chance gives, and what it is worth."""
    apart = "lie apart" if gap.p_value < 0.05 else "cannot be told from one cloud by their mean directions"
    return (
        f"{names[0]} and {names[1]} {apart}: {words.number(gap.gap)} between their mean unit vectors (by chance "
        f"{words.number(gap.gap_by_chance)}, p {p_words(gap.p_value)}), {share(gap.variance_share)} of the spread of directions; a "
        f"held-out direction tells them apart with AUC {between(gap.direction_auc)}"
    )


def norm_words(gap: ModalityGap, names: tuple[str, str]) -> str:
    """Whose vectors are longer, and how much of the raw gap is length."""
    found = gap.log_norm_difference
    told = found.ci_low is not None and found.ci_high is not None and (found.ci_low > 0.0 or found.ci_high < 0.0)
    longer = names[0] if (found.mean or 0.0) > 0.0 else names[1]
    said = f"{longer} are longer" if told else "neither is certainly longer"
    return (
        f"{said}: mean log norm of the {names[0]} minus that of the {names[1]} {between(found)}; the norm alone tells them apart with AUC "
        f"{between(gap.norm_auc)}; {share(gap.raw_gap_norm_share)} of the squared distance of the raw means is a difference of length"
    )


def conformity_words(found: ConformityReport) -> str:
    """The mean, and how it goes with the norm."""
    norm = found.norm
    with_norm = f"Spearman with the norm {signed(norm.spearman)}"
    if norm.controls:
        held = Interval(mean=norm.partial_spearman, ci_low=norm.ci_low, ci_high=norm.ci_high)
        with_norm += f", with {', '.join(settle(name) for name in norm.controls)} held {between(held)}"
    return f"mean cosine to the others {words.number(found.mean, digits=3)} on {found.rows:,} rows; {with_norm}"


def share_words(found: NormShare) -> str:
    """Whose work the scores are."""
    said = "undecided whether norm or direction dominates" if found.outcome == "undecided" else f"dominated {found.outcome}"
    return (
        f"{said}: among the tenth of the {found.candidates} with the highest cosine, norms make {between(found.top_share)} of the "
        f"variance of log scores, over all {between(found.share)} ({share(found.positive)} of scores are above 0); the first place is "
        f"cosine’s for {share(found.same_first)} of {found.query_rows:,} queries"
    )


def freedom_lines(across: AcrossModalities) -> list[str]:
    """What the last norm layer of each tower says of its norms."""
    pairs = ((across.first, across.freedom_first), (across.second, across.freedom_second))
    return [f"norm freedom of {name}: {gate.words}" for name, gate in pairs if gate is not None]


def ellipsoid_rows(found: DoubleEllipsoid, names: tuple[str, str]) -> list[dict[str, str]]:
    """A row for each property of each cloud, and one for their separability."""
    rows = []
    for name, cloud in zip(names, (found.first, found.second), strict=True):
        expected, times = words.number(cloud.gaussian_shell), words.number(cloud.shell_ratio)
        ratio = f"spread of distances over their mean; a Gaussian has {expected}, the variance of the square is {times} times its"
        for what, each, detail in (
            ("Thin shell", cloud.shell, ratio if cloud.gaussian_shell is not None else cloud.note),
            ("Off the origin", cloud.offset, "squared length of the mean over the mean squared length"),
            ("Tilted", cloud.tilt, "squared correlations off the diagonal, beyond chance"),
        ):
            sign = ">" if each.above else "<"
            rows.append(
                {
                    "name": f"{what}: {settle(name)}",
                    "figure": between(each.figure),
                    "rule": f"{sign} {each.threshold:g}",
                    "p": _NO_NULL if each.p_value is None else p_words(each.p_value),
                    "outcome": each.outcome,
                    "detail": detail,
                }
            )
    apart = found.separability
    rows.append(
        {
            "name": "Told apart",
            "figure": between(apart.figure),
            "rule": f"> {apart.threshold:g}",
            "p": _NO_NULL,
            "outcome": apart.outcome,
            "detail": "held-out AUC of the direction between the mean unit vectors",
        }
    )
    return rows


def between(interval: Interval) -> str:
    """A figure with its interval, three decimals.

    Example:
        >>> between(Interval(mean=0.5, ci_low=-0.25, ci_high=0.75)), between(Interval(mean=None, ci_low=None, ci_high=None))
        ('0.500 [−0.250, 0.750]', 'not measured')
    """
    if interval.mean is None or interval.mean != interval.mean:
        return words.NOT_MEASURED
    shown = [f"{value:.3f}".replace("-", "−") for value in (interval.mean, interval.ci_low, interval.ci_high) if value is not None]
    return shown[0] if len(shown) < 3 else f"{shown[0]} [{shown[1]}, {shown[2]}]"
