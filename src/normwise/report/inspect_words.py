"""What a norm report says on its page: headline, uses, regimes, tests and the next command, in plain words."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from normwise.core.inspect_records import InspectReport
from normwise.core.norm_records import NextStep, Regime
from normwise.report.svg import shorten
from normwise.report.words import NOT_MEASURED, counted

_NAMED = 3
# Below this share of its variance that the direction leaves open, the verdict takes the norm for a function of the direction.
_TIED = 0.01
_VECTOR_FILES = (".npy", ".parquet")
# Marks that turn the direction of whatever follows them: in a sentence they would reach beyond the name that holds them.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")

REGIMES: dict[Regime, str] = {
    "signal": "SGD whose gradients mostly agree: a norm pays for the loss it removed, so what can be learned well becomes long.",
    "noise": "SGD whose gradients mostly disagree: norms grow with the scatter of an item’s positives, so what is broad becomes long.",
    "adam": "Adam divides the size of the gradient out: specificity leaves hardly a trace, frequency only where visits are rare.",
    "ellipsoid-bound": "A last RMSNorm ties the norm to the direction: the vectors lie on an ellipsoid.",
    "plane-bound": "A last LayerNorm ties the norm to the direction: the vectors lie in one hyperplane.",
    "length-bound": "The length of the text decides most of the norm, as pooling over tokens makes it.",
    "undetermined": "What moved these norms is not known, so no sign has a meaning beyond these vectors.",
}

STEPS: dict[NextStep, tuple[str, str]] = {
    "cosine": ("Rank by cosine.", "Nothing that was measured speaks for letting the length count in a ranking."),
    "dot": ("Rank by the dot product.", "Keep the raw vectors: an index that normalizes them loses what helps."),
    "one-sided": ("Score with the query normalized: q̂ · c.", "It ranks as dot does, and its scores compare between queries."),
    "calibrate": ("Fit a confidence with the norm as a feature.", "Held-out queries then say whether it helps."),
    "evaluate": ("Measure it on judged queries.", "Only judgements say whether longer vectors belong higher."),
    "recover": ("Get the raw norms first.", "The ways are listed under “Raw norms”."),
    "more data": ("Give what is missing.", "Rows or factors: the verdict says which, and how."),
}

TESTS = {
    "e3_affine": (
        "Plane",
        "1/norm as a linear function of the direction: exact behind a LayerNorm with bias, with the first token or the mean as pooling.",
    ),
    "e3_ellipsoid": ("Ellipsoid", "1/norm² as a linear function of the squared direction: exact behind an RMSNorm."),
    "e3_knn": ("Nearest directions", "Log norm as the mean over the 10 nearest directions: a general test, and a weak one."),
    "e3_ridge": ("Ridge", "Log norm by ridge regression on the direction and its squares: a general test, and a weak one."),
}


def settle(text: str) -> str:
    """A sentence in which no name turns the direction of the words after it: such marks become U+FFFD.

    Example:
        >>> settle("a" + chr(0x202E) + "b")
        'a\ufffdb'
    """
    return _TURNING.sub("\ufffd", text)


def headline(report: InspectReport) -> str:
    """The verdict as one sentence."""
    verdict = report.verdict
    if verdict.label == "degenerate":
        return _degenerate(report)
    names = _names(verdict.follows)
    if verdict.label == "direction":
        return "The norm is a function of the direction" + (f", and follows {names}." if names else ".")
    if verdict.label == "mixed":
        return f"The norm follows several things: {names}." if names else "The norm follows several things."
    if verdict.label == "uninformative":
        return "The norm follows none of the given factors."
    if verdict.label == "undetermined":
        if not report.factors:
            return "No factor was given: what the norm follows is open."
        return "What the norm follows cannot be told from these data."
    kinds = {factor.name: factor.kind for factor in report.factors}
    main = _names(tuple(name for name in verdict.follows if kinds.get(name) == verdict.label))
    size = f", a {verdict.strength} effect" if verdict.strength else ""
    if main in ("", _names((verdict.label,))):
        return f"The norm follows {_names((verdict.label,))}{size}."
    return f"The norm follows {settle(shorten(verdict.label, limit=48))}: {main}{size}."


def uses(report: InspectReport) -> str:
    """What the norm may be used for; only what is backed."""
    return " and ".join(report.verdict.usable_for) or "neither ranking nor confidence"


def regime_words(report: InspectReport) -> str:
    """What the regime means, in one line."""
    if report.verdict.label == "degenerate":
        return "Norms that do not vary have no regime."
    return REGIMES[report.regime]


def radial_words(report: InspectReport) -> str:
    """What the radial freedom says, and which test decided it."""
    radial, freedom = report.radial, report.radial_freedom
    form = radial.closed_form if radial is not None else None
    layer = f" The last norm layer of the checkpoint says so: {form}." if form else ""
    if freedom is None and not form:
        return "Radial freedom is not measured: it takes norms that vary, in at least 14 rows."
    test = TESTS[decided][0].lower() if (decided := deciding_test(report)) else ""
    by = f" The test that decided it: {test}." if test else ""
    bound = " Too few rows for the two closed forms, so it may be lower." if radial is not None and radial.upper_bound else ""
    if form or (freedom is not None and freedom < _TIED):
        said = (
            "The norm is a function of the direction. That is not the same as uninformative: whoever has the direction has the norm too, "
            "and both may follow something."
        )
        return said + layer + by + bound
    if freedom == 1.0:
        return "No test predicts the norm from the direction any better than its mean does." + bound
    return f"The direction leaves {share(freedom)} of the norm’s variance open." + by + bound


def deciding_test(report: InspectReport) -> str | None:
    """The test that decided the radial freedom; None where none explains anything, or where it is not on the page."""
    test = report.radial.test if report.radial else None
    found = report.geometry.get(test or "")
    return test if test in TESTS and found is not None and found > 0.0 else None


def next_command(report: InspectReport) -> str:
    """The command of the next step with the report's own source, or "" where no command does it."""
    step, source = report.verdict.next_step, _typed_source(report)
    suffix = PurePath(report.source).suffix.lower()
    if not source:
        return ""
    if step == "recover" and suffix in _VECTOR_FILES:
        column = f" --column {shlex.quote(report.part)}" if suffix == ".parquet" and report.part else ""
        return f"normwise inspect {source} --recover-norms MODEL{column} --out norms.npy"
    if step == "more data" and not report.factors and report.verdict.label != "degenerate":
        return f"normwise inspect {source} --factors factors.csv"
    if step == "evaluate" and suffix == ".npy":
        return f"normwise evaluate --vectors queries.npy {source} --qrels qrels.tsv --similarity all"
    if step == "evaluate" and report.part is None and suffix not in _VECTOR_FILES:
        return f"normwise evaluate --model {source} --data DATA --similarity all"
    return ""


def signed(value: float | None) -> str:
    """A correlation with its sign and three decimals.

    Example:
        >>> signed(-0.25), signed(None)
        ('−0.250', 'not measured')
    """
    return NOT_MEASURED if value is None or value != value else f"{value:+.3f}".replace("-", "−")


def p_words(value: float | None) -> str:
    """A p-value to three decimals.

    Example:
        >>> p_words(0.04), p_words(1e-9), p_words(None)
        ('0.040', '< 0.001', 'not measured')
    """
    if value is None or value != value:
        return NOT_MEASURED
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def share(value: float | None) -> str:
    """A share in percent.

    Example:
        >>> share(0.123), share(None)
        ('12.3%', 'not measured')
    """
    return NOT_MEASURED if value is None or value != value else f"{100 * value:.1f}%"


def held_words(controls: tuple[str, ...], others: tuple[str, ...]) -> str:
    """Which factors were held, by what was not where that is shorter.

    Example:
        >>> held_words(("a",), ("a", "b")), held_words((), ("a",)), held_words(tuple("abcde"), tuple("abcdef"))
        ('a', 'none', 'all others but f')
    """
    if not controls:
        return "none"
    left = tuple(name for name in others if name not in controls)
    if len(controls) <= _NAMED or len(left) > _NAMED:
        return ", ".join(controls)
    return f"all {len(controls)} others" if not left else f"all others but {', '.join(left)}"


def _names(names: tuple[str, ...]) -> str:
    shown = [f"“{settle(shorten(name, limit=48))}”" for name in names[:_NAMED]]
    more = len(names) - _NAMED
    if more > 0:
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""


def _degenerate(report: InspectReport) -> str:
    left = report.n - report.norm.zero - report.norm.nonfinite
    if report.normalized_input:
        return "These vectors were normalized: their norms are gone."
    if left < 1:
        return f"None of {counted(report.n, 'vector')} has a usable norm."
    if left == 1:
        return "There is one norm only: nothing to compare it with."
    return "All norms are equal: there is nothing to read."


def _typed_source(report: InspectReport) -> str:
    """The source as it was typed, which may hold a folder that the record's name lacks; "" where nothing was typed."""
    try:
        typed = shlex.split(report.command)
    except ValueError:
        typed = []
    same = [part for part in typed if part == report.source or PurePath(part).name == report.source]
    return shlex.quote(same[0]) if same else ""
