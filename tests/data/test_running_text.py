"""Prose out of docstrings, words out of prose, the vocabulary by frequency, the user's own files."""

import gzip
import re
import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError
from normwise.data import running_text
from normwise.data.prose import prose_of
from normwise.data.running_text import END_WORD, UNKNOWN_WORD, RunningText, installed_text, running_text_from, words_of
from normwise.data.sources import SourceFile, SourceSet

TOPICS = "topics = {'with': 'A with statement names\\n'\n 'the monday of a week.', 'assert': 'Assert that one of ten is two words.'}\n"
MODULE = '''"""The river bends slowly past one quiet village."""
raise RuntimeError("imported")

def first(x):
    """Return the river bank of a table.

    Parameters
    ----------
    x : int
        The number of banks that it has.

    >>> first(3)
    gibberish output
    """

class Table:
    """the RIVER bends slowly past   one quiet village."""

    def again(self):
        """Too short."""

    def lone(self):
        "A lone surrogate \\ud800 is nothing that files can hold."
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An installation of three files, and how often it was read."""
    files, reads = [], []
    for name, text in (
        ("aa.mod", MODULE),
        ("broken", "def ("),
        ("pydoc_data.topics", TOPICS),
        ("zz", '"""Of another distribution, so not read."""'),
    ):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        files.append(SourceFile(path, name, is_package=False, origin="torch" if name == "zz" else "python"))

    def found():
        reads.append(1)
        return SourceSet(tuple(files), (), (), "key")

    monkeypatch.setattr(running_text, "installed_sources", found)
    monkeypatch.setattr(running_text, "LEAST_TOKENS", 20)
    return reads


def _read(text: RunningText) -> list[str]:
    return [text.words[at] for at in text.ids]


def _save(path, *, words=4000, known=200, seed=0):
    """Paragraphs of Zipf words in a file, and their words."""
    random = np.random.default_rng(seed)
    letters = np.array(list(string.ascii_lowercase))
    names = ["".join(letters[[at // 676, at // 26 % 26, at % 26]]) for at in range(known)]
    lines, size = [], 0
    while size < words:
        count = int(random.integers(5, 30))
        lines.append(" ".join(names[at] for at in np.minimum(random.zipf(1.5, size=count) - 1, known - 1)) + ".")
        size += count + 2
    path.write_text("\n\n".join(lines))
    return [line[:-1].split(" ") + ["."] for line in lines]


def test_docstrings_and_topics_are_read_and_never_imported(installed, tmp_path):
    text = installed_text(vocabulary=500, cache_dir=tmp_path)
    documents = " ".join(_read(text)).split(f" {END_WORD}")
    assert [each.strip() for each in documents] == [
        "the river bends slowly past one quiet village .",
        "return the river bank of a table . the number of banks that it has .",
        "a lone surrogate is nothing that files can hold .",
        "assert that one of ten is two words .",
        "a with statement names the monday of a week .",
        "",
    ]
    assert text.documents == 5 == text.stream.bounds.size - 1
    assert "left out: 1 there already, 1 too short, 1 files that do not parse" in text.notes[0]
    assert not (text.ids == text.unknown).any()
    assert text.notes[-1] == f"{text.ids.size} tokens of 5 documents; 0.00% unknown among {len(text.words)} ids"


def test_the_second_reading_comes_from_the_cache_whatever_the_vocabulary(installed, tmp_path):
    first = installed_text(vocabulary=500, cache_dir=tmp_path)
    again, small = (installed_text(vocabulary=size, cache_dir=tmp_path) for size in (500, 12))
    assert len(installed) == 1
    assert first.words == again.words
    assert np.array_equal(first.ids, again.ids)
    assert first.key == again.key != small.key
    assert small.words == first.words[:12]
    assert np.array_equal(small.ids, np.where(first.ids < 12, first.ids, small.unknown))


def test_an_installation_without_topics_is_told(installed, tmp_path, monkeypatch):
    whole = running_text.installed_sources()
    monkeypatch.setattr(running_text, "installed_sources", lambda: SourceSet(whole.files[:2], (), (), "other"))
    assert "topics, as Python's are not installed" in installed_text(vocabulary=500, cache_dir=tmp_path).notes[0]
    monkeypatch.setattr(running_text, "LEAST_TOKENS", 20_000)
    with pytest.raises(InputError, match=r"installed docstrings: 3\d tokens; expected at least 20,000"):
        installed_text(vocabulary=500, cache_dir=tmp_path)


def test_what_stays_of_a_docstring():
    docstring = """Fit :class:`~a.Model` to ``y``.

    Title
    =====
    Kept, with an r``a`` value :math:`x^2` and
    ------------------------------ a rule inside.

    alpha, *args : array of shape (n, )
        Described: here.
    .. versionadded:: 1.2
    .. math::

        \\\\frac{a}{b}

    .. note::
        A note is prose.

    +-----+
    | row |
    1.5 2.5

    >>> f(1)
    output words
    ... more

    After the example."""
    assert [line.split() for line in prose_of(docstring).splitlines()] == [
        "Fit a.Model to y.".split(),
        "Kept, with an ra value and".split(),
        "------------------------------ a rule inside.".split(),
        "Described: here.".split(),
        "A note is prose.".split(),
        "After the example.".split(),
    ]


@given(st.text(max_size=60))
def test_words_are_lower_case_without_spaces_and_cutting_them_again_changes_nothing(text):
    words = words_of(text)
    assert all(word and not re.search(r"[\s_]", word) for word in words)
    assert words_of(" ".join(words)) == words
    assert "".join(words) == re.sub(r"[\s_]", "", text.lower().replace("’", "'"))


def test_the_vocabulary_is_the_most_frequent_words_ties_by_the_word(tmp_path):
    paragraphs = _save(tmp_path / "a.txt", words=21_000)
    text = running_text_from(tmp_path / "a.txt", vocabulary=40)
    counts = Counter(word for each in paragraphs for word in each)
    assert text.words == (END_WORD, UNKNOWN_WORD, *sorted(counts, key=lambda word: (-counts[word], word))[:38])
    expected = [word if word in text.words else UNKNOWN_WORD for each in paragraphs for word in [*each, END_WORD]]
    assert _read(text) == expected
    assert text.documents == len(paragraphs)
    assert text.unknown_share == pytest.approx(sum(counts[word] for word in counts if word not in text.words) / counts.total())
    assert text.ids_of([".", text.words[7]]).tolist() == [text.words.index("."), 7]
    with pytest.raises(InputError, match="'wednesday' is not among the 40 of the text"):
        text.ids_of([".", "wednesday"])


def test_files_folders_and_packed_files_are_the_same_text(tmp_path):
    _save(tmp_path / "a.md", words=11_000)
    _save(tmp_path / "b.TXT", words=11_000, seed=1)
    (tmp_path / "notes.rst").write_text("not read")
    whole = running_text_from([tmp_path / "a.md", str(tmp_path / "b.TXT")], vocabulary=100)
    assert running_text_from(tmp_path, vocabulary=100).key == whole.key
    packed = tmp_path / "a.md.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.md").read_bytes().replace(b"\n", b"\r\n")))
    assert running_text_from([packed, tmp_path / "b.TXT"], vocabulary=100).key == whole.key


def test_texts_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nth\xe9e\n")
    with pytest.raises(InputError, match=r"a\.txt, line 3: not UTF-8 \(byte 0xe9\): save the file as UTF-8"):
        running_text_from(path)
    _save(path, words=15_000)
    with pytest.raises(InputError, match=r"a\.txt: 1\d,\d{3} tokens; expected at least 20,000 of running text: give more"):
        running_text_from(path)
    path.write_text(
        "\n\n".join(f"w{'x' * (at % 90)}{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}{chr(97 + at // 676)}" for at in range(12_000))
    )
    with pytest.raises(InputError, match=r"a\.txt: \d\d% of the tokens are not among the 98 most frequent; .* enlarge vocabulary"):
        running_text_from(path, vocabulary=100)
    with pytest.raises(InputError, match=r"gone\.txt does not exist"):
        running_text_from(tmp_path / "gone.txt")
    with pytest.raises(InputError, match="no text was given"):
        running_text_from([])
    with pytest.raises(InputError, match=r"gone\.pdf is no \.txt or \.md file"):
        running_text_from([path, tmp_path / "gone.pdf"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no \.txt or \.md file"):
        running_text_from(tmp_path / "empty")
    with pytest.raises(InputError, match="vocabulary is 3; expected at least 4 ids"):
        running_text_from(path, vocabulary=3)
