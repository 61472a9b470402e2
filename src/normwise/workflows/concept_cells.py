"""What the parts of the founding experiment share: settings, optimizers, changed settings, and a cell from arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from normwise.core.concept_records import ConceptCell, ConceptItem, Part
from normwise.core.strict import StrictConfig, Switch, Whole
from normwise.theory.concept_claims import CellItems, cell_figures, regime_of
from normwise.theory.tracked_norms import fit_of

OptimizerName = Literal["sgd", "sgd-decay", "adamw"]
PARTS: tuple[Part, ...] = get_args(Part)
TABLE_PARTS: tuple[Part, ...] = ("table", "human-table")
DEEP_PARTS: tuple[Part, ...] = ("deep", "wordnet", "human-encoder")
WIDTH = 32
TEMPERATURE = 0.2
NEGATIVES = 16
FACTOR = 2.0

Seeds = Annotated[Whole, Field(ge=1, le=100)]


class ConceptConfig(StrictConfig):
    """The founding experiment: which parts, optimizers and seeds.

    Example:
        >>> ConceptConfig(seeds=2).optimizers
        ('sgd', 'sgd-decay', 'adamw')
    """

    parts: tuple[Part, ...] = Field(default=PARTS, min_length=1)
    optimizers: tuple[OptimizerName, ...] = Field(default=get_args(OptimizerName), min_length=1)
    seeds: Seeds = 5
    quick: Switch = False


@dataclass(frozen=True)
class Setting:
    """One optimizer's settings in one part; `variant` says what was changed from the base."""

    optimizer: str
    learning_rate: float
    weight_decay: float
    temperature: float
    variant: str = "base"

    @property
    def name(self) -> str:
        """Sgd or adamw, as torch and the laws call it."""
        return self.optimizer.partition("-")[0]

    def changed(self, *names: str) -> Iterator[Setting]:
        """The settings in which one of these is doubled; a decay of 0 stays out."""
        for name in names:
            value = getattr(self, name)
            if value > 0:
                yield replace(self, **{name: FACTOR * value}, variant=f"{name.replace('_', ' ')} x {FACTOR:g}")

    def as_values(self, **more: Any) -> dict[str, Any]:
        """For a cell's record."""
        own = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay, "temperature": self.temperature}
        return own | more


def cell_of(
    part: Part,
    setting: Setting,
    items: CellItems,
    *,
    seed: int,
    more: Mapping[str, float | None],
    names: tuple[str, ...] | None = None,
    moments: np.ndarray | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ConceptCell:
    """Return the record of one run.

    Args:
        part: which part.
        setting: of the run.
        items: norms, predictions, visits, dispersions.
        seed: of the run.
        more: figures beside those that every cell has; `signal_share` decides the regime.
        names: of the items; given for the runs whose items are kept.
        moments: (N,) measured G, kept with the items.
        settings: what else was set.
    """
    regime, expected = regime_of(optimizer=setting.name, weight_decay=setting.weight_decay, signal_share=more.get("signal_share"))
    return ConceptCell(
        part=part,
        optimizer=setting.optimizer,
        variant=setting.variant,
        seed=seed,
        settings=setting.as_values(**(settings or {})),
        regime=regime,
        expected_dispersion=expected,
        figures=cell_figures(items, seed=seed) | dict(more),
        items=() if names is None else tuple(_items(items, names, moments)),
    )


def held_out_figures(
    items: CellItems, moments: np.ndarray, law: Callable[[np.ndarray], np.ndarray], *, seed: int
) -> dict[str, float | None]:
    """Return how well the law gives norms of items whose own gradients were not looked at.

    Half of the visited items (drawn) teach log G ~ quadratic in dispersion and log visits (and log length); the law then takes that G
    for the other half. The norms themselves are never fitted.

    Args:
        items: of the run; predictions are not used.
        moments: (N,) measured G.
        law: (N,) second moments -> (N,) predicted norms.
        seed: of the halves.
    """
    usable = np.flatnonzero((items.visits > 0) & np.isfinite(moments) & (moments > 0))
    columns = [items.dispersions, np.log1p(items.visits)]
    if items.lengths is not None:
        columns.append(np.log1p(items.lengths))
    scaled = [(x - x[usable].mean()) / (x[usable].std() or 1.0) for x in columns]
    design = np.column_stack([np.ones(items.norms.size), *scaled, *(x**2 for x in scaled)])
    order = np.random.default_rng([seed, 2]).permutation(usable)
    half = order.size // 2
    taught, held = order[:half], order[half:]
    if taught.size < 2 * design.shape[1]:
        return {"held_out_items_r2": None, "held_out_items_spearman": None}
    weights = np.linalg.lstsq(design[taught], np.log(moments[taught]), rcond=None)[0]
    fit = fit_of(items.norms[held], law(np.exp(design @ weights))[held])
    return {"held_out_items_r2": fit.r2, "held_out_items_spearman": fit.spearman}


def base_figures(norms: np.ndarray, predicted: np.ndarray, visits: np.ndarray) -> dict[str, float | None]:
    """Return how well norms under a changed setting follow from the base run's second moments."""
    seen = visits > 0
    fit = fit_of(norms[seen], predicted[seen])
    return {"base_r2": fit.r2, "base_spearman": fit.spearman}


def _items(items: CellItems, names: tuple[str, ...], moments: np.ndarray | None) -> Iterator[ConceptItem]:
    for place, name in enumerate(names):
        predicted = float(items.predicted[place])
        moment = np.nan if moments is None else float(moments[place])
        yield ConceptItem(
            name=name,
            visits=int(items.visits[place]),
            dispersion=float(items.dispersions[place]),
            length=None if items.lengths is None else float(items.lengths[place]),
            norm=float(items.norms[place]),
            predicted_norm=predicted if np.isfinite(predicted) else None,
            second_moment=moment if np.isfinite(moment) else None,
        )
