"""From vectors with what is known of them to the report of their norms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.core.inspect_records import InspectReport
from normwise.core.norm_records import RadialEvidence, TrainingEvidence
from normwise.core.usefulness_records import UsefulnessReport
from normwise.data.texts import printable
from normwise.report.recipes import SERVERS
from normwise.theory.norm_geometry import sampled_geometry
from normwise.theory.norm_verdict import judge
from normwise.theory.radial import TESTS, deciding_test
from normwise.theory.regime_evidence import CLOSED_FORM_FREEDOM
from normwise.workflows.inspect_factors import FactorTable, gather_factors
from normwise.workflows.inspect_relations import Relations, relate
from normwise.workflows.inspect_scan import Scanned, distribution, distribution_of, pictures, sample_rows, scan_material, scan_notes
from normwise.workflows.inspect_source import Material

Factors = str | Path | Mapping[str, np.ndarray] | None
_PACKAGES = ("normwise", "numpy", "scipy", "scikit-learn")
_SERVERS_NAMED = ("text-embeddings-inference", "vLLM", "Ollama")


@dataclass(frozen=True)
class Judging:
    """What a report rests on beside the vectors: how they were trained, whose word frequencies, and the seed."""

    training: TrainingEvidence | None = None
    language: str = "en"
    seed: int = 0
    command: str = ""


@dataclass(frozen=True)
class Related:
    """Vectors that were looked at, with their factors and how the norm goes with these."""

    material: Material
    found: Scanned
    sample: np.ndarray
    geometry: Mapping[str, float]
    rows: FactorTable
    relations: Relations


def relate_norms(material: Material, factors: Factors, how: Judging) -> Related:
    """Look at vectors once, measure their geometry on a sample, and relate their norms to every factor.

    Args:
        material: the vectors, with their texts.
        factors: given ones, beside those that the texts have.
        how: the language and the seed.

    Raises:
        InputError: a factor does not fit; the message names it.
    """
    found = scan_material(material)
    usable = found.scan.distinct
    sample = sample_rows(material, usable, seed=how.seed)
    geometry = sampled_geometry(sample, seed=how.seed, norms_vary=found.vary)
    rows = gather_factors(material, factors, usable, language=how.language, seed=how.seed)
    with _naming_factors(factors):
        relations = relate(found.scan.norms, rows, vary=found.vary, seed=how.seed)
    return Related(material, found, sample, geometry, rows, relations)


def report_of(related: Related, how: Judging, *, usefulness: UsefulnessReport | None = None, modality: str = "") -> InspectReport:
    """Judge what was found and put the report together; the time it took is the caller's to add.

    Args:
        related: what `relate_norms` found.
        how: the training evidence, the seed and the command.
        usefulness: what judged data said.
        modality: what the vectors are of, where there are several kinds.
    """
    material, found, relations = related.material, related.found, related.relations
    radial = _radial(related.geometry, material)
    norm = distribution(found.scan, found.figures)
    varied = norm if found.vary else norm.model_copy(update={"cv": 0.0 if norm.cv is not None else None})
    summary = None if usefulness is None else usefulness.summary
    regime, verdict = judge(
        relations.factors, varied, normalized_input=found.normalized, radial=radial, training=how.training, usefulness=summary
    )
    figures = found.figures
    return InspectReport(
        source=printable(material.vectors.name),
        n=material.vectors.rows.shape[0],
        d=material.vectors.rows.shape[1],
        norm=norm,
        normalized_input=found.normalized,
        norm_after_normalize=None if material.after is None else distribution_of(material.after),
        radial_freedom=radial.freedom,
        radial=radial,
        factors=relations.factors,
        regime=regime.regime,
        evidence=regime.evidence,
        verdict=verdict,
        geometry={name: None if np.isnan(value) else value for name, value in related.geometry.items()},
        sample_rows=related.sample.shape[0],
        seed=how.seed,
        notes=(*material.notes, *related.rows.notes, *relations.notes, *scan_notes(material, found)),
        versions={name: version(name) for name in _PACKAGES},
        command=how.command,
        stored=material.vectors.stored,
        part=material.vectors.part,
        skew_log=None if figures is None or np.isnan(figures.skew_log) else figures.skew_log,
        tail_low=None if figures is None else figures.tail_low,
        tail_high=None if figures is None else figures.tail_high,
        nan_rows=found.scan.nan,
        infinite_rows=found.scan.infinite,
        factor_rows=relations.rows,
        raw_norms=raw_norm_recipes(material.vectors.name) if found.normalized else (),
        figures=pictures(found, related.rows, related.sample, seed=how.seed),
        usefulness=usefulness,
        modality=modality,
    )


def raw_norm_recipes(name: str) -> tuple[str, ...]:
    """How to get raw norms where vectors came normalized, one way per line, with the exact call.

    Example:
        >>> raw_norm_recipes("unit.npy")[0]
        'from the vectors themselves, where the model allows it: normwise inspect unit.npy --recover-norms MODEL --out norms.npy'
    """
    kept = {server.name: server.keep for server in SERVERS}
    return (
        f"from the vectors themselves, where the model allows it: normwise inspect {name} --recover-norms MODEL --out norms.npy",
        "normwise: normwise.Encoder.load(MODEL).encode_candidates(texts)",
        "sentence-transformers: model = SentenceTransformer(MODEL); del model[-1] where its last module is Normalize "
        "(normalize_embeddings=False does not switch that module off); model.encode(texts)",
        *(f"{server}: {kept[server]}" for server in _SERVERS_NAMED),
        "OpenAI's own API and servers that only speak it: there is no switch, /v1/embeddings returns unit vectors; "
        "norms need the model itself, or another endpoint of the server",
    )


@contextmanager
def _naming_factors(factors: Factors) -> Iterator[None]:
    """Say in a refusal of factors which file they came from."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{factors}: {error}" if isinstance(factors, str | Path) else str(error)) from None


def _radial(geometry: Mapping[str, float], material: Material) -> RadialEvidence:
    """The closed form of the checkpoint first: a sample of few rows may not show what it says exactly."""
    freedom, exact = geometry["radial_freedom"], material.closed_freedom
    if exact is not None and not freedom < CLOSED_FORM_FREEDOM:
        return RadialEvidence(freedom=exact, test=material.closed_form, closed_form=material.closed_form)
    return RadialEvidence(
        freedom=None if np.isnan(freedom) else freedom,
        test=deciding_test(geometry),
        closed_form=material.closed_form,
        upper_bound=not np.isnan(freedom) and any(np.isnan(geometry[name]) for name in TESTS[:2]),
    )
