"""Which factors go into a report, and on which rows: given ones, and those that the texts themselves have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data import factors as derived
from normwise.data.factor_files import read_factors
from normwise.data.texts import printable
from normwise.data.wordnet_files import find_wordnet
from normwise.theory.factor_reading import known_kind
from normwise.theory.near_copies import NEAR, first_of_kind
from normwise.workflows.inspect_source import Material

ROWS = 20_000
_CORPUS = 200_000
# A factor that fewer rows have would cost the others more rows than it is worth.
_COVERAGE = 1 / 3
_LEAST = 30
_SHOWN = 5
_MEND = "missing values are not allowed: fill them, drop the rows from vectors and factors alike, or leave the factor out"
# The rarest factors, those of WordNet, say, are known for the same rows up to this share; without them there have to be so many times
# the rows, or a second set of rows is not worth its words.
_AS_RARE, _GAIN = 0.05, 1.1


@dataclass(frozen=True)
class FactorTable:
    """Factors on some rows: `rows` of the vectors in ascending order, and one value per row for each name.

    All of them are known on `rows`. `wide` holds all but the rarest, on the more rows that have these; None where that is no gain.
    """

    rows: np.ndarray
    values: dict[str, np.ndarray]
    notes: tuple[str, ...]
    wide: FactorTable | None = None


def gather_factors(
    material: Material,
    given: str | Path | Mapping[str, np.ndarray] | None,
    usable: np.ndarray,
    *,
    language: str,
    seed: int,
) -> FactorTable:
    """Collect the factors on a seeded sample of at most 20,000 usable rows.

    From texts: `tokens` as the model counts them, else `words` (or `characters`, where all texts have as many words);
    `frequency`, occurrences per billion words by wordfreq. Of running text `idf` over the given texts, or `corpus_count`
    where wordfreq is missing; of words and short phrases, where they are nouns of WordNet, `depth`, `hyponyms` and `senses`.
    A derived factor that fewer than a third of the rows have is left out. A given factor replaces a derived one of the same
    name. Of rows that are near copies of each other (see `first_of_kind`) only the first is kept: the others are no further
    evidence.

    Args:
        material: the vectors, with their texts.
        given: a csv file of factors, or arrays by name, one value per vector.
        usable: (N,) rows with a positive, finite norm.
        language: of wordfreq's list.
        seed: of the sample.

    Raises:
        InputError: a given factor does not fit; WordNet's files are broken.
    """
    total = usable.shape[0]
    named = _given(given, total)
    has_text = np.ones(total, dtype=bool) if material.texts is None else np.array([text is not None for text in material.texts])
    candidates = np.flatnonzero(usable & has_text)
    rng = np.random.default_rng(seed)
    rows = candidates if candidates.size <= ROWS else np.sort(rng.choice(candidates, size=ROWS, replace=False))
    notes = [] if rows.size == candidates.size else [f"factors rest on {rows.size:,} of {candidates.size:,} rows, drawn by seed {seed}"]
    notes += _of_no_kind(named)
    if named or material.texts is not None:
        rows = _without_copies(material, rows, notes)
    values = {name: value[rows] for name, value in named.items()}
    if material.texts is not None and rows.size:
        found, more = _of_texts(material, rows, language=language)
        values = {**{name: value for name, value in found.items() if name not in values}, **values}
        notes += more
    return _complete(rows, values, set(named), notes)


def _without_copies(material: Material, rows: np.ndarray, notes: list[str]) -> np.ndarray:
    distinct = first_of_kind(material.vectors.rows[rows])
    copies = int(rows.size - distinct.sum())
    if copies:
        notes.append(
            f"{copies:,} of {rows.size:,} rows are copies of another up to {NEAR:.0%} of what separates two rows: they are left out "
            "of the correlations and of the tests of the direction"
        )
    return rows[distinct]


def _complete(rows: np.ndarray, values: dict[str, np.ndarray], given: set[str], notes: list[str]) -> FactorTable:
    """Leave out derived factors that few rows have, then part the rows that have all others from those that have some."""
    kept = np.ones(rows.size, dtype=bool)
    for name in [name for name in values if name not in given]:
        known = np.isfinite(values[name])
        if known.mean() < _COVERAGE or known.sum() < min(_LEAST, rows.size):
            notes.append(f"{name} is known for {int(known.sum()):,} of {rows.size:,} rows only, and was left out")
            del values[name]
        else:
            if not known.all():
                notes.append(f"{name} is known for {int(known.sum()):,} of {rows.size:,} rows")
            kept &= known
    return FactorTable(rows[kept], {name: value[kept] for name, value in values.items()}, tuple(notes), _wide(rows, values, given, kept))


def _wide(rows: np.ndarray, values: dict[str, np.ndarray], given: set[str], kept: np.ndarray) -> FactorTable | None:
    """All factors but the rarest, on the rows that have these; None where that is no more than a tenth of rows more."""
    share = {name: 1.0 if name in given else float(np.isfinite(value).mean()) for name, value in values.items()}
    common = {name: value for name, value in values.items() if share[name] > min(share.values()) + _AS_RARE}
    known = np.ones(rows.size, dtype=bool)
    for value in (value for name, value in common.items() if name not in given):
        known &= np.isfinite(value)
    if not common or known.sum() < _GAIN * kept.sum():
        return None
    return FactorTable(rows[known], {name: value[known] for name, value in common.items()}, ())


def _given(factors: str | Path | Mapping[str, np.ndarray] | None, rows: int) -> dict[str, np.ndarray]:
    if factors is None:
        return {}
    if isinstance(factors, str | Path):
        return read_factors(factors, rows=rows)
    found = {str(name): np.asarray(value) for name, value in factors.items()}
    for name, value in found.items():
        if value.shape != (rows,):
            raise InputError(f"factor {name!r} has shape {value.shape} for {rows:,} vectors: expected one value each")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            row = int(np.argmin(np.isfinite(value)))
            raise InputError(f"factor {name!r}, row {row} is {value[row]}: expected a finite value; {_MEND}")
    return found


def _of_no_kind(named: Mapping[str, np.ndarray]) -> list[str]:
    """One note on the given numbers whose names say no kind; two values can be no length and no frequency."""
    numeric = [name for name, value in named.items() if value.dtype.kind in "iuf" and np.unique(value).size > 2]
    unknown = [printable(name) for name in numeric if known_kind(name) is None]
    if not unknown:
        return []
    shown = ", ".join(unknown[:_SHOWN]) + (f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else "")
    return [
        f"{shown}: of no known kind. Where one is a length, a frequency, a specificity or an uncertainty, name it so (tokens, frequency, "
        "idf, entropy, say; normwise inspect --help lists the names), to have it held as the length or read by the laws"
    ]


def _of_texts(material: Material, rows: np.ndarray, *, language: str) -> tuple[dict[str, np.ndarray], list[str]]:
    texts = [material.texts[row] or "" for row in rows] if material.texts is not None else []
    notes: list[str] = []
    found = _length(material, texts, rows)
    short = _mostly_short(texts)
    if derived.has_wordfreq():
        found["frequency"] = 10.0 ** derived.zipf_frequencies(texts, language=language)
    # In a list of words each stands once or twice: counts of that list say nothing of how frequent a word is.
    if not short and derived.has_wordfreq():
        found["idf"] = derived.inverse_document_frequencies(texts, among=_corpus(material))
    elif not short:
        found["corpus_count"] = np.exp(derived.corpus_frequencies(texts, among=_corpus(material)))
        notes.append("frequency is counted in the given texts, and idf, its mirror there, is left out")
    if not derived.has_wordfreq():
        notes.append('for the frequency of words in the language: pip install "normwise[inspect]"')
    if short and language == "en" and find_wordnet() is not None:
        found |= derived.wordnet_factors(texts)
    return found, notes


def _length(material: Material, texts: Sequence[str], rows: np.ndarray) -> dict[str, np.ndarray]:
    if material.tokens is not None:
        return {"tokens": material.tokens[rows]}
    words = derived.word_counts(texts)
    if words.size and words.min() < words.max():
        return {"words": words}
    return {"characters": np.array([len(text) for text in texts], dtype=np.float64)}


def _corpus(material: Material) -> list[str]:
    return [text for text in (material.texts or ())[:_CORPUS] if text is not None]


def _mostly_short(texts: Sequence[str]) -> bool:
    """Whether most texts could be entries of a dictionary."""
    return float(np.median([len(text.split()) for text in texts])) <= 3.0
