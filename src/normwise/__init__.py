"""normwise: train, explain and use embeddings by their length as well as their direction.

Importing this package is light: every name below loads its room on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_DOOR = {
    "CorpusReading": "normwise.workflows.staircase_track",
    "Encoder": "normwise.models.encoder",
    "FocalConfig": "normwise.core.config",
    "FocalEmbeddingLoss": "normwise.objectives.loss",
    "InfoNCEMeter": "normwise.training.infonce_meter",
    "InputError": "normwise.core.errors",
    "NormwiseError": "normwise.core.errors",
    "PaceConfig": "normwise.core.config",
    "Searcher": "normwise.workflows.search",
    "Similarity": "normwise.core.similarity",
    "StageConfig": "normwise.core.config",
    "StairTrack": "normwise.training.stair_track",
    "StaircaseCallback": "normwise.training.staircase_callback",
    "TemperatureConfig": "normwise.core.config",
    "advise_negatives": "normwise.workflows.negatives",
    "build_index": "normwise.workflows.build_index",
    "calibrate": "normwise.workflows.calibrate",
    "count_signatures": "normwise.workflows.staircase_track",
    "evaluate": "normwise.workflows.evaluate",
    "inspect": "normwise.workflows.inspect",
    "staircase_demo": "normwise.workflows.staircase_demo",
    "staircase_predict": "normwise.workflows.staircase_predict",
    "staircase_track": "normwise.workflows.staircase_track",
    "train": "normwise.workflows.train",
}

if TYPE_CHECKING:
    from normwise.core.config import FocalConfig, PaceConfig, StageConfig, TemperatureConfig
    from normwise.core.errors import InputError, NormwiseError
    from normwise.core.similarity import Similarity
    from normwise.models.encoder import Encoder
    from normwise.objectives.loss import FocalEmbeddingLoss
    from normwise.training.infonce_meter import InfoNCEMeter
    from normwise.training.stair_track import StairTrack
    from normwise.training.staircase_callback import StaircaseCallback
    from normwise.workflows.build_index import build_index
    from normwise.workflows.calibrate import calibrate
    from normwise.workflows.evaluate import evaluate
    from normwise.workflows.inspect import inspect
    from normwise.workflows.negatives import advise_negatives
    from normwise.workflows.search import Searcher
    from normwise.workflows.staircase_demo import staircase_demo
    from normwise.workflows.staircase_predict import staircase_predict
    from normwise.workflows.staircase_track import CorpusReading, count_signatures, staircase_track
    from normwise.workflows.train import train

__all__ = [
    "CorpusReading",
    "Encoder",
    "FocalConfig",
    "FocalEmbeddingLoss",
    "InfoNCEMeter",
    "InputError",
    "NormwiseError",
    "PaceConfig",
    "Searcher",
    "Similarity",
    "StageConfig",
    "StairTrack",
    "StaircaseCallback",
    "TemperatureConfig",
    "advise_negatives",
    "build_index",
    "calibrate",
    "count_signatures",
    "evaluate",
    "inspect",
    "staircase_demo",
    "staircase_predict",
    "staircase_track",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        value = getattr(import_module(_DOOR[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'normwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DOOR])
