"""The founding experiment on a small deep encoder trained from scratch, with the kernel drift measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from normwise.core.concept_records import ConceptCell
from normwise.core.track_records import OptimizerSettings
from normwise.theory.concept_claims import CellItems
from normwise.theory.concept_world import concept_gradients, concept_tree, stationary_second_moments
from normwise.theory.tracked_norms import fit_of, predicted_norms_along
from normwise.workflows.concept_cells import NEGATIVES, TEMPERATURE, WIDTH, ConceptConfig, Setting, base_figures, cell_of, held_out_figures

STEPS, QUICK_STEPS = 600, 80
PER_LEVEL, QUICK_PER_LEVEL = 60, 12
SETTINGS = {
    "sgd": Setting("sgd", learning_rate=0.5, weight_decay=0.0, temperature=TEMPERATURE),
    "sgd-decay": Setting("sgd-decay", learning_rate=0.5, weight_decay=0.01, temperature=TEMPERATURE),
    "adamw": Setting("adamw", learning_rate=1e-3, weight_decay=0.1, temperature=TEMPERATURE),
}


def deep_cells(config: ConceptConfig, *, optimizer: str, seed: int) -> Iterator[ConceptCell]:
    """Train the encoder on the concept tree: the base setting, and each setting doubled."""
    from normwise.training.concept_training import ConceptRun, train_concepts

    world = concept_tree(per_level=QUICK_PER_LEVEL if config.quick else PER_LEVEL, width=WIDTH, seed=seed)
    names = tuple(f"level {level} concept {place}" for place, level in enumerate(world.levels))
    base, steps = SETTINGS[optimizer], QUICK_STEPS if config.quick else STEPS
    still: dict[float, np.ndarray] = {}
    base_moments: np.ndarray | None = None
    for setting in (base, *base.changed("learning_rate", "weight_decay", "temperature")):
        if setting.temperature not in still:
            source = concept_gradients(world, temperature=setting.temperature, negatives=NEGATIVES)
            still[setting.temperature] = stationary_second_moments(source, start=world.centers, seed=seed)
        run = ConceptRun(
            optimizer=setting.name,
            learning_rate=setting.learning_rate,
            weight_decay=setting.weight_decay,
            temperature=setting.temperature,
            steps=steps,
            seed=seed,
        )
        left = train_concepts(world, run)
        stream = left.ledger.stream
        law = Law(left.initial_norms, stream.visits, np.array(left.ledger.learning_rates), left.settings, WIDTH)
        moments = left.moments
        items = CellItems(
            norms=left.norms,
            predicted=law(moments),
            visits=stream.visits.astype(np.float64),
            dispersions=world.dispersions,
            initial=left.initial_norms,
        )
        shares = stream.signal_shares
        paths = {name: left.drift.path(name) for name in ("drift", "displacement")}
        more: dict[str, float | None] = {
            "signal_share": float(np.nanmedian(shares)) if np.isfinite(shares).any() else None,
            "radial_share": left.ledger.radial_share,
            "loss_drop": left.loss_drop,
            **{f"path_r2_{name}": _path_fit(left.initial_norms, left.norms, path) for name, path in paths.items()},
        }
        more |= left.drift.figures()
        if base_moments is None:
            base_moments = moments
            more |= held_out_figures(items, moments, law, seed=seed)
        else:
            carried = base_moments * still[setting.temperature] / still[base.temperature]
            more |= base_figures(left.norms, law(carried), stream.visits)
        settings = {"steps": steps, "items": world.visit_rates.size, "width": WIDTH}
        keep = names if seed == 0 and setting.variant == "base" else None
        yield cell_of("deep", setting, items, seed=seed, more=more, names=keep, moments=moments, settings=settings)


class Law:
    """The free vector's law with a run's starts, visits and schedule: second moments in, norms out."""

    def __init__(
        self, initial: np.ndarray, visits: np.ndarray, learning_rates: np.ndarray, settings: OptimizerSettings, width: int
    ) -> None:
        self._initial, self._rates, self._schedule = initial, visits / learning_rates.size, learning_rates
        self._settings, self._width = settings, width

    def __call__(self, moments: np.ndarray) -> np.ndarray:
        """(N,) predicted norms; an item without a second moment counts as never visited."""
        filled = np.where(np.isfinite(moments), moments, 0.0)
        return predicted_norms_along(
            self._initial, self._rates, filled, learning_rates=self._schedule, settings=self._settings, width=self._width
        )


def _path_fit(initial: np.ndarray, norms: np.ndarray, path: np.ndarray | None) -> float | None:
    return None if path is None else fit_of(norms, initial * np.exp(path)).r2
