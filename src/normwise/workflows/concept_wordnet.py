"""The founding experiment on the packaged encoder: WordNet concepts and instances, tracker on; and what people disagree about."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from normwise.core.concept_records import ConceptCell
from normwise.core.track_records import TrackedItem
from normwise.data.concept_pairs import ConceptTexts, concept_texts
from normwise.data.factors import zipf_frequencies
from normwise.data.human_ratings import HumanRatings, read_ratings
from normwise.theory.concept_claims import CellItems, partial_signs
from normwise.theory.concept_world import spread_rates
from normwise.workflows.concept_cells import ConceptConfig, Setting, base_figures, cell_of, held_out_figures
from normwise.workflows.concept_deep import Law

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from normwise.training.encoder_tracking import TrackedTraining

CONCEPTS, QUICK_CONCEPTS = 160, 40
INSTANCES = 24
STEPS, QUICK_STEPS = 80, 4
BATCH, QUICK_BATCH = 48, 16
LAYERS, HEAD, TOKENS, QUICK_TOKENS = 2, 256, 24, 12
MEASURED = 5
RATED, QUICK_RATED = 1500, 200
SETTINGS = {
    "sgd": Setting("sgd", learning_rate=0.05, weight_decay=0.0, temperature=0.05),
    "sgd-decay": Setting("sgd-decay", learning_rate=0.05, weight_decay=0.05, temperature=0.05),
    "adamw": Setting("adamw", learning_rate=1e-4, weight_decay=0.1, temperature=0.05),
}


def wordnet_cells(config: ConceptConfig, *, optimizer: str, seed: int) -> Iterator[ConceptCell]:
    """Fine-tune on concept -> definition pairs: the base setting, and the learning rate doubled.

    The fine-tuned encoder of the base setting is then asked for the norms of rated words where the part human-encoder is wanted too.
    """
    texts = concept_texts(QUICK_CONCEPTS if config.quick else CONCEPTS, instances=INSTANCES, seed=seed)
    base, moments = SETTINGS[optimizer], None
    for setting in (base, *base.changed("learning_rate")):
        model = open_encoder(config, seed=seed)
        dispersions = text_dispersions(model, texts)
        left = _train(model, texts, setting, config, seed=seed)
        track = left.track
        lengths = np.array([item.length for item in track.items], dtype=np.float64)
        visits = np.array([item.visits for item in track.items])
        norms = np.array([item.norm for item in track.items])
        found = np.array([_moment(item) for item in track.items])
        initial = np.array([item.initial_norm for item in track.items])
        law = Law(initial, visits, left.learning_rates, track.optimizer, track.width)
        items = CellItems(
            norms=norms, predicted=law(found), visits=visits.astype(np.float64), dispersions=dispersions, lengths=lengths, initial=initial
        )
        more: dict[str, float | None] = {"signal_share": track.signal_share, "radial_share": track.radial_share, **left.drift}
        change = partial_signs(
            np.log(norms / initial), {"dispersion": dispersions, "frequency": np.log1p(visits), "length": lengths}, seed=seed
        )
        more["dispersion_of_change"] = change["dispersion"]
        if moments is None:
            moments = found
            more |= held_out_figures(items, found, law, seed=seed)
        else:
            more |= base_figures(norms, law(moments), visits)
        settings = {"steps": track.steps, "items": norms.size, "width": track.width, "layers": LAYERS, "head": HEAD}
        keep = texts.names if seed == 0 and setting.variant == "base" else None
        yield cell_of("wordnet", setting, items, seed=seed, more=more, names=keep, moments=found, settings=settings)
        if setting.variant == "base" and "human-encoder" in config.parts:
            yield _human_cell(model, setting, config, seed=seed)


def human_encoder_cells(config: ConceptConfig, *, optimizer: str, seed: int) -> Iterator[ConceptCell]:
    """Ask the packaged encoder, as it is shipped, for the norms of rated words; the draw of words is the seed's."""
    from normwise.core.config import ModelConfig
    from normwise.models.loading import load_base

    setting = Setting("as shipped", learning_rate=0.0, weight_decay=0.0, temperature=0.05)
    yield _human_cell(load_base(ModelConfig(max_tokens=QUICK_TOKENS), device="cpu"), setting, config, seed=seed)


def open_encoder(config: ConceptConfig, *, seed: int) -> SentenceTransformer:
    """The packaged encoder, cut to two layers, with a radial head that frees the norm."""
    from normwise.core.config import ModelConfig, RadialHeadConfig
    from normwise.models.loading import load_base

    tokens = QUICK_TOKENS if config.quick else TOKENS
    return load_base(ModelConfig(layers=LAYERS, max_tokens=tokens, head=RadialHeadConfig(dimensions=HEAD)), seed=seed, device="cpu")


def text_dispersions(model: SentenceTransformer, texts: ConceptTexts) -> np.ndarray:
    """Return for each concept the mean 1 - cosine of two different instances, under the encoder before training."""
    flat = [text for group in texts.instances for text in group]
    vectors = np.asarray(model.encode(flat, convert_to_numpy=True, show_progress_bar=False), dtype=np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    edges = np.cumsum([len(group) for group in texts.instances])[:-1]
    found = []
    for group in np.split(vectors, edges):
        count = len(group)
        total = group.sum(axis=0)
        found.append(1.0 - (total @ total - count) / (count * (count - 1)))
    return np.array(found)


def _moment(item: TrackedItem) -> float:
    """G as the law of the optimizer needs it."""
    moment = item.second_moment if item.driving_moment is None else item.driving_moment
    return np.nan if moment is None else moment


def _train(model: SentenceTransformer, texts: ConceptTexts, setting: Setting, config: ConceptConfig, *, seed: int) -> TrackedTraining:
    from normwise.training.encoder_tracking import TrackedTrainingSettings, train_tracked

    random = np.random.default_rng([seed, 5])
    rates = spread_rates(len(texts.names), random)
    steps, batch = (QUICK_STEPS, QUICK_BATCH) if config.quick else (STEPS, BATCH)
    rows = random.choice(rates.size, size=steps * batch, p=rates / rates.sum())
    pairs = [(texts.names[row], texts.instances[row][random.integers(len(texts.instances[row]))]) for row in rows]
    settings = TrackedTrainingSettings(
        optimizer=setting.name,
        learning_rate=setting.learning_rate,
        weight_decay=setting.weight_decay,
        temperature=setting.temperature,
        batch_size=batch,
        seed=seed,
        measure_every=2 if config.quick else MEASURED,
    )
    with tempfile.TemporaryDirectory() as folder:
        return train_tracked(model, pairs, texts.names, settings, Path(folder))


def _human_cell(model: SentenceTransformer, setting: Setting, config: ConceptConfig, *, seed: int) -> ConceptCell:
    from normwise.models.tokens import token_counter

    ratings = read_ratings()
    picked = np.random.default_rng([seed, 6]).permutation(len(ratings.words))[: QUICK_RATED if config.quick else RATED]
    words = [ratings.words[place] for place in picked]
    frequency = zipf_frequencies(words)
    known = np.isfinite(frequency)
    chosen = HumanRatings(tuple(np.array(words)[known]), ratings.ratings[picked][known])
    vectors = np.asarray(model.encode(list(chosen.words), convert_to_numpy=True, show_progress_bar=False), dtype=np.float64)
    factors = {
        "spread": chosen.spreads,
        "valence": chosen.valences,
        "frequency": frequency[known],
        "tokens": token_counter(model)(chosen.words).astype(np.float64),
        "letters": np.array([len(word) for word in chosen.words], dtype=np.float64),
    }
    signs = partial_signs(np.log(np.linalg.norm(vectors, axis=1)), factors, seed=seed)
    return ConceptCell(
        part="human-encoder",
        optimizer=setting.optimizer,
        seed=seed,
        settings={"words": int(known.sum())},
        figures={"spread_of_ratings": signs["spread"], "frequency": signs["frequency"]},
        notes=("the spread of ten ratings is a stand-in for the human labels of CIFAR-10H, which is not packaged",),
    )
