"""Factors of texts: what a norm might follow. Length, frequency, IDF, and WordNet's depth, hyponyms and senses.

A factor is an array of one value per text; NaN where the text has none (a word that no list knows).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.wordnet_files import find_wordnet
from normwise.data.wordnet_tree import noun_tree

Counting = Callable[[Sequence[str]], np.ndarray]

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*", re.UNICODE)
_BLOCK = 1_024


def words_of(text: str) -> list[str]:
    """Return the words of a text, case folded: runs of letters, digits and inner apostrophes.

    Example:
        >>> words_of("The cat's 2nd bed.")
        ['the', "cat's", '2nd', 'bed']
    """
    return _WORD.findall(text.casefold())


def word_counts(texts: Sequence[str]) -> np.ndarray:
    """Return the number of words of each text, as `words_of` finds them.

    Example:
        >>> word_counts(["a cat", "..."]).tolist()
        [2.0, 0.0]
    """
    return np.array([len(words_of(text)) for text in texts], dtype=np.float64)


def token_counts(texts: Sequence[str], counter: Counting) -> np.ndarray:
    """Return the number of tokens of each text, counted in blocks.

    Args:
        texts: n texts.
        counter: from texts to (n,) whole counts, such as `models.tokens.token_counter` makes.

    Returns:
        (n,) float64.

    Raises:
        InputError: the counter gives another number of counts.

    Example:
        >>> token_counts(["a cat", "dog"], lambda some: np.array([len(text.split()) for text in some])).tolist()
        [2.0, 1.0]
    """
    parts = []
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        counts = np.asarray(counter(block))
        if counts.shape != (len(block),):
            raise InputError(f"counter gave {counts.shape} counts for {len(block)} texts; expected one each")
        parts.append(counts.astype(np.float64))
    return np.concatenate(parts) if parts else np.empty(0)


def zipf_frequencies(texts: Sequence[str], *, language: str = "en") -> np.ndarray:
    """Return the mean Zipf frequency of the known words of each text: log10 of occurrences per billion words.

    The mean, not wordfreq's own figure for phrases: that one falls with the number of words, and would be a length.

    Args:
        texts: n texts.
        language: of wordfreq's list, such as "en" or "de".

    Returns:
        (n,) about 0 to 8; NaN for a text none of whose words the list knows.

    Raises:
        MissingExtraError: wordfreq is not installed; the message holds the command.
        InputError: wordfreq has no list of that language.
    """
    wordfreq = _wordfreq()
    if language not in wordfreq.available_languages():
        raise InputError(f"language {language!r} is not among wordfreq's: {', '.join(sorted(wordfreq.available_languages()))}")
    table = wordfreq.get_frequency_dict(language)
    known: dict[str, float] = {}

    def zipf(word: str) -> float:
        if word not in known:
            frequency = table.get(word, 0.0) or wordfreq.word_frequency(word, language)
            known[word] = 9.0 + np.log10(frequency) if frequency > 0.0 else np.nan
        return known[word]

    return np.array([_mean([zipf(word) for word in words_of(text)]) for text in texts], dtype=np.float64)


def has_wordfreq() -> bool:
    """Whether wordfreq is installed."""
    return find_spec("wordfreq") is not None


def corpus_frequencies(texts: Sequence[str], *, among: Sequence[str] | None = None) -> np.ndarray:
    """Return the mean log count of each text's words, counted over a corpus; NaN for a text without words.

    Equation: mean over words w of text i of log c(w), c the number of times w stands in the corpus (at least 1).

    Args:
        texts: n texts.
        among: the corpus; None takes the texts themselves.

    Example:
        >>> corpus_frequencies(["a b", "a", "..."]).round(3).tolist()
        [0.347, 0.693, nan]
    """
    words = [words_of(text) for text in texts]
    corpus = words if among is None else [words_of(text) for text in among]
    counts = Counter(word for mine in corpus for word in mine)
    return np.array([_mean([math.log(max(1, counts[word])) for word in mine]) for mine in words], dtype=np.float64)


def inverse_document_frequencies(texts: Sequence[str], *, among: Sequence[str] | None = None) -> np.ndarray:
    """Return the mean inverse document frequency of each text's words over a corpus; NaN for a text without words.

    Equation: mean over words w of text i of log(n / df(w)), df the number of the corpus' n texts that hold w (at least
    1). Where every text is one word of its own, it is the same for all and says nothing.

    Args:
        texts: the texts.
        among: the corpus; None takes the texts themselves.

    Example:
        >>> inverse_document_frequencies(["a b", "a"]).round(3).tolist()
        [0.347, 0.0]
    """
    words = [words_of(text) for text in texts]
    corpus = words if among is None else [words_of(text) for text in among]
    held = Counter(word for mine in corpus for word in set(mine))
    return np.array([_mean([math.log(len(corpus) / max(1, held[word])) for word in mine]) for mine in words], dtype=np.float64)


def wordnet_factors(texts: Sequence[str], *, roots: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return depth, number of hyponyms and number of senses of texts that are nouns of WordNet.

    depth: steps from the word's first noun sense to the root along the shortest way (specific is deep); hyponyms:
    number of synsets below that sense; senses: number of the word's senses in all parts of speech.

    Args:
        texts: n texts; each is looked up whole, lower-cased, "ice cream" as such.
        roots: folders to look for WordNet's files in; None means the usual places.

    Returns:
        "depth", "hyponyms" and "senses", (n,) each; NaN for a text that is no noun of WordNet.

    Raises:
        InputError: the files are not found; the message says how to get them.
    """
    tree = noun_tree(roots)
    values = np.full((3, len(texts)), np.nan)
    for place, text in enumerate(texts):
        lemma = " ".join(text.lower().split())
        synset = tree.first.get(lemma)
        if synset is not None:
            values[:, place] = tree.depth[synset], tree.hyponyms[synset], tree.senses[lemma]
    return dict(zip(("depth", "hyponyms", "senses"), values, strict=True))


def word_list(count: int, *, seed: int = 0, roots: Sequence[str] | None = None) -> tuple[list[str], str]:
    """Return real English words: half the most frequent ones of wordfreq, half nouns drawn from WordNet.

    Args:
        count: how many at most, >= 2.
        seed: of the draw.
        roots: folders to look for WordNet's files in; None means the usual places.

    Returns:
        Distinct words, and a note that says what they are. With only one of the two sources, all come from it.

    Raises:
        InputError: neither source is at hand; the message says how to get one.
    """
    nouns = [] if find_wordnet(roots) is None else sorted(noun_tree(roots).first)
    if not has_wordfreq() and not nouns:
        raise InputError('no word list is at hand: run pip install "normwise[inspect]" (wordfreq), or give texts')
    common: list[str] = []
    if has_wordfreq():
        wanted = count // 2 if nouns else count
        common = [word for word in _wordfreq().top_n_list("en", 2 * wanted) if word.isalpha()][:wanted]
    taken = set(common)
    rest = [noun for noun in nouns if noun not in taken and noun.replace(" ", "").isalpha()]
    drawn = np.random.default_rng(seed).permutation(len(rest))[: count - len(common)]
    parts = [f"the {len(common):,} most frequent words of wordfreq"] if common else []
    parts += [f"{len(drawn):,} nouns drawn from WordNet (seed {seed})"] if len(drawn) else []
    return [*common, *(rest[place] for place in np.sort(drawn))], f"built-in texts: {' and '.join(parts)}"


def _mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _wordfreq():  # noqa: ANN202 - a module of an optional package
    try:
        import wordfreq
    except ImportError:
        raise MissingExtraError("wordfreq", extra="inspect") from None
    return wordfreq
