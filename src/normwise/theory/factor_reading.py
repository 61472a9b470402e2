"""Reading the values of a factor: numbers or categories, checked row by row, and the label that its name stands for."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.rank_design import FactorColumns, categorical_columns, numeric_columns

# Which label a norm gets that follows a factor of this name; any other factor lends its own name.
KINDS: dict[str, frozenset[str]] = {
    "length": frozenset({"length", "tokens", "n_tokens", "token_count", "characters", "n_characters", "words", "word_count", "letters"}),
    "frequency": frozenset({"frequency", "corpus_count", "count", "visits", "word_frequency", "zipf_frequency", "document_frequency"}),
    "specificity": frozenset({"specificity", "idf", "depth", "wordnet_depth", "hyponyms", "senses", "kappa", "dispersion"}),
    "uncertainty": frozenset({"uncertainty", "entropy", "label_entropy", "spread", "ratings_sd", "residual", "correct"}),
}
# A category with fewer rows is counted with the other rare ones, and only so many are kept apart.
RARE_ROWS, MOST_CATEGORIES = 5, 50
# Texts that differ in more than this share of the rows are names of rows, not categories of them.
_IDENTIFIER_SHARE = 0.5


def kind_of(name: str) -> str:
    """Return the label that a norm gets which follows the factor of this name; a leading `log_` is not looked at.

    Example:
        >>> [kind_of(name) for name in ("tokens", "log_frequency", "idf", "ratings_sd", "year")]
        ['length', 'frequency', 'specificity', 'uncertainty', 'year']
    """
    plain = name.strip().lower().replace(" ", "_").replace("-", "_").removeprefix("log_")
    return next((kind for kind, names in KINDS.items() if plain in names), name)


def is_logarithm(name: str) -> bool:
    """Return whether a factor of this name is a logarithm already: a power of it would be no exponent that a law speaks of.

    Example:
        >>> [is_logarithm(name) for name in ("log_frequency", "zipf_frequency", "idf", "frequency")]
        [True, True, True, False]
    """
    plain = name.strip().lower()
    return plain.startswith(("log", "zipf")) or plain == "idf"


def checked_values(name: str, values: np.ndarray, rows: int) -> np.ndarray:
    """Return a factor as float64 numbers or as an array of texts, every row defined.

    Args:
        name: of the factor, for messages.
        values: (N,) numbers, booleans, or texts; object arrays may hold either.
        rows: N that is expected.

    Returns:
        (N,) float64, or texts (categories).

    Raises:
        InputError: wrong shape or length; a NaN, infinite, missing or empty value, with its row; mixed types.

    Example:
        >>> checked_values("tokens", np.array([1, 2]), 2).tolist()
        [1.0, 2.0]
    """
    if values.ndim != 1 or values.shape[0] != rows:
        came = f"shape {values.shape}" if values.ndim != 1 else f"{values.shape[0]} values"
        raise InputError(f"factor '{name}' has {came} for {rows} norms: give one value per vector, in the order of the vectors")
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    elif values.dtype.kind == "O" and not all(isinstance(value, str) for value in values):
        numbers = _numbers(name, values)
    elif values.dtype.kind in "OU":
        empty = next((row for row, value in enumerate(values) if not value.strip()), None)
        if empty is not None:
            raise InputError(f"factor '{name}': row {empty} is empty; {_mend(name)}")
        return values.astype(str)
    else:
        raise InputError(f"factor '{name}' has values of type {values.dtype}; expected numbers or texts: convert it first")
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        others = f" (and {bad.size - 1} more rows)" if bad.size > 1 else ""
        raise InputError(f"factor '{name}': row {bad[0]} is {numbers[bad[0]]}{others}; {_mend(name)}")
    return numbers


def untestable(values: np.ndarray) -> str:
    """Return why checked values cannot be tested, or "": they do not vary, or in too few rows for any bound to hold.

    A category needs two levels of at least 5 rows, all smaller levels together counting as one; a number has to differ from
    its most common value in at least 5 rows.

    Example:
        >>> untestable(np.ones(30)), untestable(np.arange(30.0))
        ('constant: a factor that does not vary cannot go with anything', '')
        >>> untestable(np.array(["a"] * 28 + ["b", "c"]))
        'levels too small: 1 of 3 has the 5 rows that each level needs: merge levels, or give more rows'
    """
    counts = np.unique(values, return_counts=True)[1]
    if counts.size == 1:
        return "constant: a factor that does not vary cannot go with anything"
    rest = values.size - int(counts.max())
    if values.dtype.kind == "f":
        few = f"nearly constant: only {rest} of {values.size:,} rows differ from the most common value, and at least {RARE_ROWS} have to"
        return few if rest < RARE_ROWS else ""
    large = counts >= RARE_ROWS
    if int(large.sum()) + (int(counts[~large].sum()) >= RARE_ROWS) >= 2:
        return ""
    how_many = f"{int(large.sum())} of {counts.size} has" if large.any() else f"none of {counts.size} has"
    return f"levels too small: {how_many} the {RARE_ROWS} rows that each level needs: merge levels, or give more rows"


def factor_columns(name: str, values: np.ndarray) -> FactorColumns | None:
    """Return the regression columns of checked values, or None where they cannot be tested (see `untestable`).

    Categories with fewer than 5 rows are pooled, and the 50 most frequent are kept apart.

    Args:
        name: of the factor, for messages.
        values: (N,) what `checked_values` returned.

    Returns:
        The columns, or None for a constant or levels too small.

    Raises:
        InputError: texts that name rows instead of sorting them into categories.

    Example:
        >>> factor_columns("constant", np.ones(3)) is None
        True
    """
    if values.dtype.kind == "f":
        return None if untestable(values) else numeric_columns(values)
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if counts.size > _IDENTIFIER_SHARE * values.shape[0]:
        raise InputError(
            f"factor '{name}' holds {counts.size} different texts in {values.shape[0]} rows; expected categories that repeat: "
            "leave the column out, or give numbers if it was meant to be numeric"
        )
    if untestable(values):
        return None
    order = np.argsort(-counts, kind="stable")
    kept = [level for level in order[:MOST_CATEGORIES] if counts[level] >= RARE_ROWS]
    renamed = np.full(counts.size, len(kept))
    renamed[kept] = np.arange(len(kept))
    pooled = np.unique(renamed[codes], return_inverse=True)[1]
    return categorical_columns(pooled)


def _numbers(name: str, values: np.ndarray) -> np.ndarray:
    numbers = np.empty(values.shape[0])
    for row, value in enumerate(values):
        if value is None or isinstance(value, str):
            what = "missing" if value is None else f"the text {value[:40]!r} among numbers"
            raise InputError(f"factor '{name}': row {row} is {what}; {_mend(name)}")
        try:
            numbers[row] = float(value)
        except (TypeError, ValueError):
            raise InputError(f"factor '{name}': row {row} is of type {type(value).__name__}; expected a number or a text") from None
    return numbers


def _mend(name: str) -> str:
    return f"expected a value in every row: fill it, drop the row from vectors and factors alike, or leave '{name}' out"
