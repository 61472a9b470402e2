"""The founding experiment on a free table: a concept tree, and words with human labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from normwise.core.concept_records import ConceptCell, Part
from normwise.data.human_ratings import HumanRatings, read_ratings
from normwise.theory.concept_claims import CellItems, partial_signs
from normwise.theory.concept_world import ConceptGradients, ConceptWorld, concept_gradients, concept_tree, labelled_world
from normwise.theory.concept_world import stationary_second_moments as stationary
from normwise.theory.simulated_table import SimulatedTable, driving_moments, predicted_norms
from normwise.theory.simulated_updates import Optimizer, UpdateRule
from normwise.theory.simulator import simulate_table, start_vectors
from normwise.theory.tracked_norms import fit_of
from normwise.workflows.concept_cells import NEGATIVES, TEMPERATURE, WIDTH, ConceptConfig, Setting, base_figures, cell_of

STEPS, QUICK_STEPS = 1500, 300
PER_LEVEL, QUICK_PER_LEVEL = 60, 12
WORDS, QUICK_WORDS = 400, 80
SETTINGS = {
    "sgd": Setting("sgd", learning_rate=0.1, weight_decay=0.0, temperature=TEMPERATURE),
    "sgd-decay": Setting("sgd-decay", learning_rate=0.1, weight_decay=0.02, temperature=TEMPERATURE),
    "adamw": Setting("adamw", learning_rate=0.01, weight_decay=0.1, temperature=TEMPERATURE),
}


def table_cells(config: ConceptConfig, *, optimizer: str, seed: int) -> Iterator[ConceptCell]:
    """Run the concept tree on a free table: the base setting, and each setting doubled."""
    world = concept_tree(per_level=QUICK_PER_LEVEL if config.quick else PER_LEVEL, width=WIDTH, seed=seed)
    names = tuple(f"level {level} concept {place}" for place, level in enumerate(world.levels))
    yield from _cells("table", world, config, SETTINGS[optimizer], seed=seed, names=names, own_as_negatives=False)


def human_table_cells(config: ConceptConfig, *, optimizer: str, seed: int) -> Iterator[ConceptCell]:
    """Train words on the labels that ten people gave them; `spread_of_ratings` is judged with the strength of the mean controlled."""
    ratings = read_ratings()
    count = QUICK_WORDS if config.quick else WORDS
    picked = np.sort(np.random.default_rng([seed, 3]).permutation(len(ratings.words))[:count])
    chosen = HumanRatings(tuple(ratings.words[place] for place in picked), ratings.ratings[picked])
    world = labelled_world(chosen.label_shares, width=WIDTH, seed=seed)
    for cell in _cells("human-table", world, config, SETTINGS[optimizer], seed=seed, names=chosen.words, own_as_negatives=True):
        if not cell.items:
            yield cell
            continue
        norms = np.array([item.norm for item in cell.items])
        visits = np.array([float(item.visits) for item in cell.items])
        lengths = np.array([len(word) for word in chosen.words], dtype=np.float64)
        factors = {"spread": chosen.spreads, "valence": chosen.valences, "frequency": np.log1p(visits), "letters": lengths}
        signs = partial_signs(np.log(norms), factors, seed=seed)
        kept = {} if seed == 0 else {"items": ()}
        yield cell.model_copy(update={"figures": {**cell.figures, "spread_of_ratings": signs["spread"]}, **kept})


def _cells(
    part: Part,
    world: ConceptWorld,
    config: ConceptConfig,
    base: Setting,
    *,
    seed: int,
    names: tuple[str, ...],
    own_as_negatives: bool,
) -> Iterator[ConceptCell]:
    steps = QUICK_STEPS if config.quick else STEPS
    still: dict[float, np.ndarray] = {}
    base_moments: np.ndarray | None = None
    for setting in (base, *base.changed("learning_rate", "weight_decay", "temperature")):
        source = concept_gradients(world, temperature=setting.temperature, negatives=NEGATIVES, own_as_negatives=own_as_negatives)
        if setting.temperature not in still:
            still[setting.temperature] = stationary(source, start=world.centers, seed=seed)
        table, rule = _run(source, world, setting, steps=steps, seed=seed)
        items = _items(table, world, predicted_norms(table, rule, steps=steps))
        shares = np.maximum(table.signals, 0.0) / table.second_moments
        more: dict[str, float | None] = {
            "signal_share": float(np.nanmedian(shares)) if np.isfinite(shares).any() else None,
            "loss_drop": float(np.nanmean(table.initial_losses - table.final_losses)),
        }
        if base_moments is None:
            base_moments = driving_moments(table, rule, steps=steps)
            fit = fit_of(table.norms, _with_moments(table, rule, still[setting.temperature], steps=steps))
            # From the world alone: every item is held out.
            more |= {"held_out_items_r2": fit.r2, "held_out_items_spearman": fit.spearman}
        else:
            carried = base_moments * still[setting.temperature] / still[base.temperature]
            more |= base_figures(table.norms, _with_moments(table, rule, carried, steps=steps), table.visits)
        keep = setting.variant == "base" and (seed == 0 or part == "human-table")
        settings = {"steps": steps, "items": world.visit_rates.size, "width": WIDTH, "negatives": NEGATIVES}
        yield cell_of(
            part, setting, items, seed=seed, more=more, names=names if keep else None, moments=table.second_moments, settings=settings
        )


def _run(source: ConceptGradients, world: ConceptWorld, setting: Setting, *, steps: int, seed: int) -> tuple[SimulatedTable, UpdateRule]:
    rule = UpdateRule(Optimizer(setting.name), learning_rate=setting.learning_rate, weight_decay=setting.weight_decay)
    start = start_vectors(source.items, np.random.default_rng([seed, 4]), width=source.width)
    return simulate_table(source, rule, start=start, visit_rates=world.visit_rates, steps=steps, seed=seed), rule


def _with_moments(table: SimulatedTable, rule: UpdateRule, moments: np.ndarray, *, steps: int) -> np.ndarray:
    """The law's norms with these second moments in place of the measured ones."""
    filled = np.where(np.isfinite(moments), moments, 0.0)
    return predicted_norms(table, rule, steps=steps, second_moments=filled)


def _items(table: SimulatedTable, world: ConceptWorld, predicted: np.ndarray) -> CellItems:
    return CellItems(norms=table.norms, predicted=predicted, visits=table.visits.astype(np.float64), dispersions=world.dispersions)
