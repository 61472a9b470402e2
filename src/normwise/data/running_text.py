"""English running text that every installation has, the docstrings of Python and of what normwise needs, and texts of the user's own."""

from __future__ import annotations

import ast
import hashlib
import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from itertools import chain
from pathlib import Path

import numpy as np

from normwise.core.errors import InputError
from normwise.data.cache import BuiltTables, cached_tables
from normwise.data.lines import read_lines
from normwise.data.opening import kind_of, reading, user_path
from normwise.data.prose import prose_of
from normwise.data.sources import documented, installed_sources, parse, parsing
from normwise.theory.token_stream import TokenStream

NAME = "running-text"
# Needed by normwise itself, so that they are always there.
TEXT_DISTRIBUTIONS = ("numpy", "scipy", "scikit-learn")
END_WORD, UNKNOWN_WORD = "<end>", "<unknown>"
LEAST_TOKENS = 20_000
_BUILD = 1  # raise whenever the rules here or in prose.py change, so that caches are built anew
_TOPICS = "pydoc_data.topics"
_SUFFIXES = (".txt", ".md")
_LEAST_VOCABULARY = 4
_LEAST_IN_DOCUMENT = 5
_MOST_UNKNOWN = 0.5
_END, _UNKNOWN, _SPECIAL = 0, 1, 2
_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[^\w\s]")


@dataclass(frozen=True, eq=False)
class RunningText:
    """Documents one after the other as ids of words, each document with the end-of-text id behind it.

    Args:
        words: (V,) what each id stands for: the end, the unknown word, and then words, from the most frequent on.
        ids: (T,) int32.
        end: id behind each document.
        unknown: id of every word that is not among the most frequent ones.
        documents: D.
        notes: sentences on what was read.
    """

    words: tuple[str, ...]
    ids: np.ndarray
    end: int
    unknown: int
    documents: int
    notes: tuple[str, ...]

    @property
    def stream(self) -> TokenStream:
        """The text as a stream of V ids whose documents the end id parts."""
        return TokenStream(self.ids, vocabulary=len(self.words), end=self.end)

    @cached_property
    def key(self) -> str:
        """A hash of words and ids: equal for equal texts of equal vocabularies."""
        found = hashlib.sha256("\n".join(self.words).encode())
        found.update(self.ids.astype("<i8").tobytes())
        return found.hexdigest()

    @cached_property
    def unknown_share(self) -> float:
        """Share of the tokens, ends of text left out, that the vocabulary does not know."""
        return float((self.ids == self.unknown).sum() / (self.ids != self.end).sum())

    def ids_of(self, words: Sequence[str]) -> np.ndarray:
        """Return the ids (A,) of words.

        Raises:
            InputError: a word that the vocabulary does not hold.
        """
        missing = [word for word in words if word not in self._places]
        if missing:
            raise InputError(f"words: {missing[0]!r} is not among the {len(self.words):,} of the text; leave it out, or enlarge vocabulary")
        return np.array([self._places[word] for word in words], dtype=np.int64)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}


def words_of(text: str) -> list[str]:
    """Cut a text into lower-case words, numbers and punctuation marks; an underscore parts words as a space does.

    A word is letters, with apostrophes between them; a number is digits; any other character is a token of its own.

    Example:
        >>> words_of("It isn't n_samples=10, or 1.5 times that.")
        ['it', "isn't", 'n', 'samples', '=', '10', ',', 'or', '1', '.', '5', 'times', 'that', '.']
    """
    return _TOKEN.findall(text.lower().replace("’", "'"))


def installed_text(*, vocabulary: int = 4096, cache_dir: Path | None = None) -> RunningText:
    """Docstrings of the standard library, numpy, scipy and scikit-learn, and Python's own reference topics: parsed, never imported.

    A document is a docstring of a module, class, function or method, or a topic, as `prose_of` cuts it. Documents that are the same
    but for white space and case count once; those of fewer than 5 tokens are left out. Documents stand in the order of modules, and the
    vocabulary is that of all of them.

    Args:
        vocabulary: ids that there are, V: the end of text, the unknown word, and the V - 2 most frequent words, ties by the word.
        cache_dir: where the text is kept, keyed by all versions.

    Returns:
        The text, the same on machines with the same versions.

    Raises:
        InputError: a vocabulary below 4, or an installation without docstrings.

    Example:
        >>> installed_text(vocabulary=1)
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: vocabulary is 1; expected at least 4 ids: the end of text, the unknown word, and words
    """
    _check_vocabulary(vocabulary)
    versions = [("python", platform.python_version())] + [(name, metadata.version(name)) for name in TEXT_DISTRIBUTIONS]
    tables, facts = cached_tables(NAME, key=f"{NAME} {_BUILD} {versions!r}", cache_dir=cache_dir, build=_build)
    read = ", ".join(f"{name} {version}" for name, version in versions)
    notes = [f"docstrings and reference topics of {read}; {facts['left_out']}"]
    if "cache" in facts:
        notes.append(f"cache {facts['cache']}")
    ranks = np.asarray(tables["text"]["rank"], dtype=np.int32)
    return _text(tables["words"]["word"], ranks, vocabulary, notes=notes, what="installed docstrings")


def running_text_from(paths: str | Path | Sequence[str | Path], *, vocabulary: int = 4096) -> RunningText:
    """Read text of the user's own: a document is a paragraph, as blank lines part them.

    Args:
        paths: .txt or .md files in UTF-8 (`.gz` allowed), or folders, whose .txt and .md files are read in the order of their names.
        vocabulary: as in `installed_text`.

    Raises:
        InputError: a file is missing, of another kind, or not UTF-8 (the message names the line); there is no file; the texts have
            fewer than 20,000 tokens; or more than half of the tokens are unknown.

    Example:
        >>> running_text_from("letters.pdf")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: letters.pdf is no .txt or .md file; save its text as one, in UTF-8
    """
    _check_vocabulary(vocabulary)
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files = [file for path in given for file in _text_files(user_path(path, what="text"))]
    if not files:
        raise InputError("no text was given; expected at least one .txt or .md file")
    words, ranks = _ranked([words_of(paragraph) for file in files for paragraph in _paragraphs(file)])
    name = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    return _text(words, ranks, vocabulary, notes=[f"paragraphs of {name}"], what=name)


def _check_vocabulary(vocabulary: int) -> None:
    if vocabulary < _LEAST_VOCABULARY:
        raise InputError(
            f"vocabulary is {vocabulary}; expected at least {_LEAST_VOCABULARY} ids: the end of text, the unknown word, and words"
        )


def _build() -> BuiltTables:
    left_out: Counter[str] = Counter()
    found: list[list[str]] = []
    seen: set[str] = set()
    for docstring in _docstrings(left_out):
        # What stands in a docstring for lone surrogates has no UTF-8.
        words = words_of(prose_of(docstring.encode("utf-8", "ignore").decode()))
        normal = " ".join(words)
        if len(words) < _LEAST_IN_DOCUMENT:
            left_out["too short"] += 1
        elif normal in seen:
            left_out["there already"] += 1
        else:
            seen.add(normal)
            found.append(words)
    words, ranks = _ranked(found)
    counted = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    return {"words": {"word": words}, "text": {"rank": ranks.tolist()}}, {"left_out": f"left out: {counted}"}


def _docstrings(left_out: Counter[str]) -> Iterator[str]:
    """The docstrings in the order of modules, and the topics."""
    topics = False
    with parsing():
        for source in installed_sources().files:
            if source.origin not in ("python", *TEXT_DISTRIBUTIONS):
                continue
            parsed = parse(source)
            if parsed is None:
                left_out["files that do not parse"] += 1
                continue
            if source.module == _TOPICS:
                topics = True
                yield from _topics(parsed[1])
                continue
            own = ast.get_docstring(parsed[1])
            yield from chain([own] if own else (), (docstring for _, _, docstring in documented(parsed[1])))
    if not topics:
        left_out["topics, as Python's are not installed"] += 1


def _topics(tree: ast.Module) -> Iterator[str]:
    """Values of the dictionary that the module holds, in the order of their names."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            found = ast.literal_eval(statement.value)
            yield from (found[name] for name in sorted(found))


def _ranked(documents: Sequence[list[str]]) -> tuple[list[str], np.ndarray]:
    """All words from the most frequent on, ties by the word, and the text as their ranks with -1 behind each document."""
    counts = Counter(chain.from_iterable(documents))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: place for place, word in enumerate(words)}
    return words, np.array([place for each in documents if each for place in [*map(rank.__getitem__, each), -1]], dtype=np.int32)


def _text(words: Sequence[str], ranks: np.ndarray, vocabulary: int, *, notes: Sequence[str], what: str) -> RunningText:
    """The text in a vocabulary of the most frequent words.

    Raises:
        InputError: too short, or most of it is unknown.
    """
    if ranks.size < LEAST_TOKENS:
        raise InputError(f"{what}: {ranks.size:,} tokens; expected at least {LEAST_TOKENS:,} of running text: give more of it")
    kept = vocabulary - _SPECIAL
    ids = np.where(ranks < 0, _END, np.where(ranks < kept, ranks + _SPECIAL, _UNKNOWN)).astype(np.int32)
    documents = int((ids == _END).sum())
    made = RunningText((END_WORD, UNKNOWN_WORD, *words[:kept]), ids, _END, _UNKNOWN, documents, ())
    if made.unknown_share > _MOST_UNKNOWN:
        raise InputError(
            f"{what}: {made.unknown_share:.0%} of the tokens are not among the {kept:,} most frequent; expected a language that writes "
            "words with spaces, and most of them known: enlarge vocabulary"
        )
    facts = f"{ids.size:,} tokens of {documents:,} documents; {made.unknown_share:.2%} unknown among {len(made.words):,} ids"
    return RunningText(made.words, ids, _END, _UNKNOWN, documents, (*notes, facts))


def _text_files(path: Path) -> list[Path]:
    if kind_of(path) == "folder":
        with reading(path):
            found = sorted(each for each in path.rglob("*") if _is_text(each) and each.is_file())
        if not found:
            raise InputError(f"{path} holds no .txt or .md file; expected one")
        return found
    if not _is_text(path):
        raise InputError(f"{path} is no .txt or .md file; save its text as one, in UTF-8")
    return [path]


def _is_text(path: Path) -> bool:
    return Path(path.name.lower().removesuffix(".gz")).suffix in _SUFFIXES


def _paragraphs(path: Path) -> Iterator[str]:
    lines: list[str] = []
    for _, line in read_lines(path):
        if line.strip():
            lines.append(line)
        elif lines:
            yield "".join(lines)
            lines = []
    if lines:
        yield "".join(lines)
