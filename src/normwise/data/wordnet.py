"""`wordnet-senses`, `wordnet-glosses` and `wordnet-examples`, where WordNet's files are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.clusters import components
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs, is_skewed
from normwise.data.sources import stable_fraction
from normwise.data.wordnet_files import Synset, read_counts, read_synsets, require_wordnet

SENSES, GLOSSES, EXAMPLES = "wordnet-senses", "wordnet-glosses", "wordnet-examples"
KINDS = {
    SENSES: "word to sense, skewed popularity, ambiguous",
    GLOSSES: "known-item: word to definition",
    EXAMPLES: "symmetric: definition and example sentence",
}
_DRAWS = {"train": 40_000, "dev": 1_000, "test": 2_000}
_LARGEST_WORD = 0.005


def build_senses(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (word, definition of the sense meant), drawn in proportion to WordNet's usage counts.

    Every occurrence that cntlist.rev counts is a pair; 40,000 are drawn for training, 2,000 for test and 1,000 for dev,
    without replacement and the same on every machine. Splits are by word (hash; about a tenth of the words each for test
    and dev; words with more than 0.5 % of all occurrences stay in training), so a held-out word is new while its senses
    may be known from synonyms. Candidates are the definitions of all senses of all counted words.

    Args:
        roots: folders to look for WordNet's files in; None means the usual places.
        cache_dir: not used; the files are read in seconds.

    Raises:
        InputError: the files are not found or malformed.
    """
    folder = require_wordnet(roots)
    synsets, counts = read_synsets(folder), read_counts(folder)
    occurrences: dict[str, dict[int, int]] = defaultdict(dict)
    for row, synset in enumerate(synsets):
        for word, key in zip(synset.words, synset.keys, strict=True):
            if counts.get(key, 0) > 0:
                mine = occurrences[word.lower()]
                mine[row] = mine.get(row, 0) + counts[key]
    defined = [row for row, synset in enumerate(synsets) if synset.definition]
    used = [row for row in defined if any(word.lower() in occurrences for word in synsets[row].words)]
    corpus, places = _definitions(synsets, used)
    pairs: list[tuple[str, int, int]] = []
    for word in sorted(occurrences):
        pairs += [(word, places[row], count) for row, count in sorted(occurrences[word].items()) if row in places]
    total = sum(count for _, _, count in pairs)
    of_word = {word: sum(rows.values()) for word, rows in occurrences.items()}
    by_split: dict[str, list[tuple[str, int, int]]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        by_split[_split(pair[0], 0.1) if of_word[pair[0]] <= _LARGEST_WORD * total else "train"].append(pair)
    drawn = {split: _draw(mine, _DRAWS[split], seed) for seed, (split, mine) in enumerate(by_split.items())}
    lost = sum(counts.values()) - total
    notes = (
        f"usage counts of {total:,} occurrences of {len(occurrences):,} words ({lost:,} of senses that these files do not hold left out)",
        "a word's senses are separate candidates; one is relevant per query",
    )
    return _assemble(SENSES, corpus, drawn, notes)


def _draw(pairs: Sequence[tuple[str, int, int]], wanted: int, seed: int) -> list[tuple[str, int]]:
    counts = np.asarray([count for _, _, count in pairs], dtype=np.int64)
    rows = np.repeat(np.arange(len(pairs)), counts)
    rng = np.random.default_rng([seed, 17])
    chosen = rng.permutation(rows)[:wanted]
    return [(pairs[row][0], pairs[row][1]) for row in chosen]


def build_glosses(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (word, definition), each word with all its definitions; split by word (a fiftieth each for test and dev).

    Args:
        roots: folders to look for WordNet's files in; None means the usual places.
        cache_dir: not used; the files are read in seconds.

    Raises:
        InputError: the files are not found or malformed.
    """
    synsets = read_synsets(require_wordnet(roots))
    corpus, places = _definitions(synsets, [row for row, synset in enumerate(synsets) if synset.definition])
    drawn: dict[str, list[tuple[str, int]]] = {"train": [], "dev": [], "test": []}
    seen: set[tuple[str, int]] = set()
    for row, place in places.items():
        for word in synsets[row].words:
            pair = (word.lower(), place)
            if pair not in seen:
                seen.add(pair)
                drawn[_split(pair[0], 0.02)].append(pair)
    notes = ("synonyms share a definition, so a test word's definition may be known from training; the pair is not",)
    return _assemble(GLOSSES, corpus, drawn, notes)


def build_examples(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (definition, example sentence) of one synset; either side may query the other.

    The first example of at least three words is taken; repeated definitions and examples are left out. Split by synset
    (a tenth each for test and dev).

    Args:
        roots: folders to look for WordNet's files in; None means the usual places.
        cache_dir: not used; the files are read in seconds.

    Raises:
        InputError: the files are not found or malformed.
    """
    texts: dict[str, str] = {}
    ids: list[str] = []
    drawn: dict[str, list[tuple[str, int]]] = {"train": [], "dev": [], "test": []}
    definitions: set[str] = set()
    for synset in read_synsets(require_wordnet(roots)):
        example = next((text for text in synset.examples if len(text.split()) >= 3), None)
        if example is None or len(synset.definition.split()) < 3:
            continue
        if synset.definition.casefold() in definitions or example.casefold() in texts:
            continue
        definitions.add(synset.definition.casefold())
        texts[example.casefold()] = example
        drawn[_split(synset.id, 0.1)].append((synset.definition, len(ids)))
        ids.append(synset.id)
    notes = ("a symmetric task: the loss in both directions (symmetric = true) fits it",)
    return _assemble(EXAMPLES, Corpus(tuple(ids), tuple(texts.values())), drawn, notes)


def _split(name: str, share: float) -> str:
    fraction = stable_fraction(f"wordnet {name}")
    return "test" if fraction < share else "dev" if fraction < 2 * share else "train"


def _definitions(synsets: Sequence[Synset], rows: Sequence[int]) -> tuple[Corpus, dict[int, int]]:
    """Distinct definitions as candidates, and the place of each synset's."""
    numbers: dict[str, int] = {}
    ids: list[str] = []
    places: dict[int, int] = {}
    for row in rows:
        definition = synsets[row].definition
        if numbers.setdefault(definition, len(numbers)) == len(ids):
            ids.append(synsets[row].id)
        places[row] = numbers[definition]
    return Corpus(tuple(ids), tuple(numbers)), places


def _assemble(name: str, corpus: Corpus, drawn: dict[str, list[tuple[str, int]]], notes: tuple[str, ...]) -> RetrievalData:
    if len(drawn["train"]) < 2:
        raise InputError(
            f"{name}: {len(drawn['train'])} training pairs found in WordNet's files: at least 2 are needed; are the files whole?"
        )
    clusters = {split: components([[("query", query), ("target", row)] for query, row in pairs]) for split, pairs in drawn.items()}
    train = TrainingPairs(
        queries=tuple(query for query, _ in drawn["train"]),
        positives=np.asarray([row for _, row in drawn["train"]], dtype=np.int64),
        negatives=((),) * len(drawn["train"]),
        corpus=corpus,
        clusters=clusters["train"],
    )
    judged = {split: _judged(split, drawn[split], corpus, grouped=name == GLOSSES) for split in ("dev", "test")}
    return RetrievalData(
        name, KINDS[name], train, judged["dev"], judged["test"], skewed=is_skewed(train.positives),
        notes=("WordNet (Princeton University)", *notes),
    )  # fmt: skip


def _judged(split: str, pairs: Sequence[tuple[str, int]], corpus: Corpus, *, grouped: bool) -> Judged | None:
    if not pairs:
        return None
    relevance: dict[tuple[str, int], dict[int, float]] = {}
    for number, (query, row) in enumerate(pairs):
        relevance.setdefault((query, 0 if grouped else number), {})[row] = 1.0
    keys = list(relevance)
    return Judged(
        query_ids=tuple(f"{split}-{number}" for number in range(len(keys))),
        queries=tuple(query for query, _ in keys),
        relevance=tuple(relevance.values()),
        corpus=corpus,
        clusters=components([[("query", query), *(("target", row) for row in relevance[query, number])] for query, number in keys]),
    )
