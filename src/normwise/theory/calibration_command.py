"""The command that fits a calibration, as one would type it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

# What `normwise calibrate` takes where nobody says otherwise.
PRECISION, CONFIDENCE = 0.95, 0.9
# In place of an address, which may hold a password.
ADDRESS = "ADDRESS"


def calibrate_command(
    source: Sequence[str],
    *,
    data: str = "",
    index: str | None = None,
    precision: float = PRECISION,
    confidence: float = CONFIDENCE,
    options: Mapping[str, str] | None = None,
) -> str:
    """Return a `normwise calibrate` that can be typed; what nobody knows stands there in capitals.

    Args:
        source: what is calibrated: of `model_source` or `vectors_source`.
        data: judged queries; "" where nobody knows which.
        index: folder of the index that is searched later: what it returns is calibrated on, and the calibration goes to where a
            search of it looks first.
        precision: named where it is not the default, as is `confidence`.
        confidence: see `precision`.
        options: further options with their values, "" for one that takes none; "--url" belongs to a searched index.

    Example:
        >>> calibrate_command(model_source("my model"), data="set", index="idx", precision=0.8)
        "normwise calibrate --model 'my model' --data set --index idx --out idx/calibration.json --precision 0.8"
    """
    parts = ["normwise", "calibrate", *source, "--data", data or "DATA"]
    if index is not None:
        parts += ["--index", index, "--out", f"{index.rstrip('/') or index}/calibration.json"]
    parts += ["--precision", repr(precision)] if precision != PRECISION else []
    parts += ["--confidence", repr(confidence)] if confidence != CONFIDENCE else []
    named = {name: value for name, value in (options or {}).items() if index is not None or name != "--url"}
    given = (part for name, value in named.items() for part in ((name, value) if value else (name,)))
    return shlex.join([*parts, *given])


def model_source(name: str) -> tuple[str, ...]:
    """Name a model to `calibrate_command`.

    Example:
        >>> model_source("")
        ('--model', 'MODEL')
    """
    return "--model", name or "MODEL"


def vectors_source(files: str, similarity: str) -> tuple[str, ...]:
    """Name two files of bare vectors, quoted as in a shell, to `calibrate_command`.

    Example:
        >>> vectors_source("q.npy 'my d.npy'", "dot")
        ('--vectors', 'q.npy', 'my d.npy', '--similarity', 'dot')
        >>> vectors_source("vectors", "dot")[1:3]
        ('QUERIES.npy', 'CORPUS.npy')
    """
    try:
        named = shlex.split(files)
    except ValueError:
        named = []
    return "--vectors", *(named if len(named) == 2 else ("QUERIES.npy", "CORPUS.npy")), "--similarity", similarity
