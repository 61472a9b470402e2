"""Reading the values of a factor: numbers or categories, checked row by row, and the label that its name stands for."""

from __future__ import annotations

import re

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.rank_design import FactorColumns, categorical_columns, numeric_columns

# Which label a norm gets that follows a factor whose last word is one of these; any other factor lends its own name.
KINDS: dict[str, frozenset[str]] = {
    "length": frozenset({"length", "lengths", "len"}),
    "frequency": frozenset(
        {"frequency", "frequencies", "freq", "freqs", "popularity", "usage", "traffic", "zipf", "occurrences", "visits"}
        | {"views", "pageviews", "clicks", "impressions", "plays", "downloads", "purchases", "interactions", "citations", "mentions"}
    ),
    "specificity": frozenset({"specificity", "idf", "depth", "hyponyms", "senses", "synsets", "kappa", "dispersion"}),
    "uncertainty": frozenset({"uncertainty", "entropy", "perplexity", "spread", "disagreement", "residual", "residuals", "correct"}),
}
# What can be counted, one of each, and the label of the count.
COUNTED: dict[str, frozenset[str]] = {
    "length": frozenset({"token", "subword", "word", "character", "char", "letter", "syllable", "sentence", "byte"}),
    "frequency": frozenset(
        {"occurrence", "visit", "view", "pageview", "click", "impression", "play", "download", "purchase", "interaction", "citation"}
        | {"mention", "hit", "use", "sale", "like", "rating", "review"}
    ),
    "specificity": frozenset({"hyponym", "sense", "synset"}),
}
# Whole names that the rule of words does not reach.
_WHOLE = {
    "inverse_document_frequency": "specificity",
    "ratings_sd": "uncertainty",
    "ratings_std": "uncertainty",
    "rating_sd": "uncertainty",
    "rating_std": "uncertainty",
}
_LOGARITHMS = frozenset({"log", "log2", "log10", "log1p", "ln", "logarithm", "logit"})
_COUNTS = frozenset({"n", "num", "number", "count", "counts"})
# A count beside these only is one in a corpus; and plurals that may be the values of what they name, which are no count.
_CORPORA = frozenset({"corpus", "collection", "document", "doc", "training", "train", "term", "lemma", "unigram", "search", "total", "raw"})
_VALUES = frozenset({"ratings", "reviews", "likes", "sales", "uses"})
# Words that say of what something is measured, and leave open what: beside any other word a name is not recognized.
_BESIDE = frozenset(
    {"text", "texts", "doc", "docs", "document", "documents", "corpus", "collection", "training", "train", "term", "lemma", "item"}
    | {"user", "query", "passage", "paragraph", "chunk", "title", "body", "content", "description", "abstract", "article", "page"}
    | {"product", "question", "answer", "input", "sequence", "seq", "name", "label", "annotator", "wordnet", "search", "total", "mean"}
    | {"average", "avg", "relative", "raw", "is", "zipf", "unigram", "language"}
)
# A category with fewer rows is counted with the other rare ones, and only so many are kept apart.
RARE_ROWS, MOST_CATEGORIES = 5, 50
# Texts that differ in more than this share of the rows are names of rows, not categories of them.
_IDENTIFIER_SHARE = 0.5
_SHOWN = 40


def kind_of(name: str) -> str:
    """Return the label that a norm gets which follows the factor of this name: its kind (see `known_kind`), else the name.

    Example:
        >>> [kind_of(name) for name in ("tokens", "log_frequency", "idf", "ratings_sd", "year")]
        ['length', 'frequency', 'specificity', 'uncertainty', 'year']
    """
    return known_kind(name) or name


def known_kind(name: str) -> str | None:
    """Return which kind a name stands for: "length", "frequency", "specificity" or "uncertainty"; None where it is not said.

    A name is read in whole words, cut at `_`, `-`, spaces, other marks and capitals inside (camelCase); words for logarithms are
    not looked at. Its last word is in `KINDS`, or it counts something in `COUNTED`: as a plural (`tokens`), with `n`, `num` or
    `number (of)` before it, or with `count` after it; ratings, reviews, likes, sales and uses, whose plural may be their
    values, only in the latter ways. All other words have to be such that say of what (`doc_length`), so that `discount` is no count and
    `sepal_length`, `frequency_rank` or `rare_words` are of no known kind. A `count` by itself, or in a corpus, is a frequency.

    Example:
        >>> [known_kind(name) for name in ("numTokens", "doc-length", "Click count", "log10_freq", "number of views")]
        ['length', 'length', 'frequency', 'frequency', 'frequency']
        >>> [known_kind(name) for name in ("discount", "frequency_rank", "sepal_length", "log")]
        [None, None, None, None]
    """
    words = [word for word in _words(name) if word not in _LOGARITHMS]
    if words[-2:-1] == ["per"] and words[-1] in ("thousand", "million", "billion"):
        words = words[:-2]
    if "_".join(words) in _WHOLE:
        return _WHOLE["_".join(words)]
    if words[:1] and words[0] in _COUNTS:
        return _counted(words[2:] if words[1:2] == ["of"] else words[1:]) if words[1:] else _alone(words[0])
    if not words:
        return None
    *before, last = words
    if any(word not in _BESIDE and _of_one(word) is None for word in before):
        return None
    if last in ("count", "counts"):
        return _counted(before, plural=False) or (_alone(last) if all(word in _CORPORA for word in before) else None)
    kind = next((kind for kind, names in KINDS.items() if last in names), None)
    # A plural counts by itself, unless it may be the values of what it names.
    return kind or (None if last in _VALUES else _counted(words, plural=True))


def is_logarithm(name: str) -> bool:
    """Return whether a factor of this name is a logarithm already: a power of it would be no exponent that a law speaks of.

    Example:
        >>> [is_logarithm(name) for name in ("log_frequency", "zipf_frequency", "idf", "frequency", "logins")]
        [True, True, True, False, False]
    """
    words = _words(name)
    return any(word in _LOGARITHMS or word == "zipf" for word in words) or words == ["idf"]


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
        shown = str(values[0]) if len(values[0]) <= _SHOWN else f"{values[0][:_SHOWN]}…"
        raise InputError(
            f"factor '{name}' holds {counts.size:,} different texts in {values.shape[0]:,} rows; expected categories that repeat, and the "
            f"first text is {shown!r}: leave the column out, or give numbers if it was meant to be numeric"
        )
    if untestable(values):
        return None
    order = np.argsort(-counts, kind="stable")
    kept = [level for level in order[:MOST_CATEGORIES] if counts[level] >= RARE_ROWS]
    renamed = np.full(counts.size, len(kept))
    renamed[kept] = np.arange(len(kept))
    pooled = np.unique(renamed[codes], return_inverse=True)[1]
    return categorical_columns(pooled)


def _words(name: str) -> list[str]:
    """The words of a name in lower case; `log` grown together with a word of a kind (`logfreq`) is two."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.strip())
    found: list[str] = []
    for word in re.split(r"[\W_]+", parted.lower()):
        rest = word.removeprefix("log")
        joined = rest != word and (any(rest in names for names in KINDS.values()) or rest in _COUNTS or _of_one(rest) is not None)
        found += ["log", rest] if joined else [word] if word else []
    return found


def _of_one(word: str) -> str | None:
    """The label of a count of this thing, whether it is named once or as a plural."""
    return next((kind for kind, names in COUNTED.items() if word in names or word.removesuffix("s") in names), None)


def _counted(words: list[str], *, plural: bool = False) -> str | None:
    """The label of a count of what these words name; the last of them says it."""
    if not words or any(word not in _BESIDE and _of_one(word) is None for word in words[:-1]):
        return None
    return None if plural and not words[-1].endswith("s") else _of_one(words[-1])


def _alone(word: str) -> str | None:
    return "frequency" if word in ("count", "counts") else None


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
