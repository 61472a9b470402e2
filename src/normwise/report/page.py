"""One self-contained HTML file from a saved result: no script, no external address, every text escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from normwise.core.calibration_records import CalibrationReport
from normwise.core.errors import MissingExtraError
from normwise.core.inspect_records import InspectReport
from normwise.core.mmeb_records import MmebComparison, MmebEvaluation
from normwise.core.negatives_records import NegativesReport
from normwise.core.records import Evaluation, TrainResult
from normwise.core.staircase_records import StaircaseReport, TrackReport
from normwise.report.calibration_view import calibration_view
from normwise.report.evaluation_view import evaluation_view
from normwise.report.hits_view import DirectionsReport
from normwise.report.inspect_view import inspect_view
from normwise.report.mmeb_view import mmeb_view
from normwise.report.negatives_view import negatives_view
from normwise.report.staircase_view import staircase_view
from normwise.report.svg import clean
from normwise.report.train_view import train_view


def render_page(result: TrainResult) -> str:
    """Draw the page of a training run from its saved result.

    Only what the record holds is shown; what it lacks is called not measured.

    Args:
        result: any `TrainResult`, also one without curves, figures, intervals or comparisons.

    Returns:
        A complete HTML document that loads nothing and runs nothing.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("train.html", lambda: train_view(result))


def render_evaluation(evaluation: Evaluation) -> str:
    """Draw the page of an evaluation from its saved result.

    Args:
        evaluation: any `Evaluation`, also one without geometry, intervals or a decision.

    Returns:
        A complete HTML document that loads nothing and runs nothing.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("evaluation.html", lambda: evaluation_view(evaluation))


def render_mmeb(found: MmebEvaluation | MmebComparison) -> str:
    """Draw the page of an evaluation in MMEB's protocol, or of two of them compared, from the saved result.

    Args:
        found: any of the two, also one without tasks, means or intervals.

    Returns:
        A complete HTML document that loads nothing and runs nothing; names of models, data and tasks are escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("mmeb.html", lambda: mmeb_view(found))


def render_inspection(report: InspectReport) -> str:
    """Draw the page of a norm report from its saved result.

    Args:
        report: any `InspectReport`, also one without factors, figures, geometry or a usable norm.

    Returns:
        A complete HTML document that loads nothing and runs nothing.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("inspect.html", lambda: inspect_view(report))


def render_calibration(report: CalibrationReport | DirectionsReport) -> str:
    """Draw the page of a calibration from its saved result.

    Args:
        report: any `CalibrationReport`, also one without a threshold, figures, intervals or examples; or one of several directions.

    Returns:
        A complete HTML document that loads nothing and runs nothing; texts of queries and hits are escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("calibration.html", lambda: calibration_view(report))


def render_negatives(report: NegativesReport) -> str:
    """Draw the page of a report on negatives from its saved result.

    Args:
        report: any `NegativesReport`, also one whose limit, intervals or bounds cannot be told.

    Returns:
        A complete HTML document that loads nothing and runs nothing; source, similarity and notes are escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("negatives.html", lambda: negatives_view(report))


def render_staircase(report: StaircaseReport | TrackReport) -> str:
    """Draw the page of a staircase from its saved result, that of the demo or that of a training's checkpoints.

    Args:
        report: any of the two, also one without orders, figures, stairs, seeds or maps.

    Returns:
        A complete HTML document that loads nothing and runs nothing; tokens, source, notes and all other texts are escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return _render("staircase.html", lambda: staircase_view(report))


def _render(template: str, view: Callable[[], Mapping[str, Any]]) -> str:
    if find_spec("jinja2") is None:
        raise MissingExtraError("jinja2", extra="report")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("normwise.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breaks"] = _breaks
    return clean(environment.get_template(template).render(page=view())).strip() + "\n"


def _breaks(text: str) -> Any:
    """Escape a name and let it break after the signs that join its parts."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[_/.-])(?=[^\W_])", text))
