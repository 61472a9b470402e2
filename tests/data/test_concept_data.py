from pathlib import Path

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data.concept_pairs import concept_texts
from normwise.data.human_ratings import read_ratings
from normwise.data.wordnet_files import find_wordnet


def test_ratings_are_read_and_counted(tmp_path: Path):
    path = tmp_path / "lexicon.txt"
    path.write_text(
        ":)\t2.0\t1.0\t[2, 2, 2, 2, 2, 2, 2, 2, 2, 2]\n"
        "good\t1.9\t0.9\t[2, 1, 1, 3, 2, 4, 2, 2, 1, 1]\n"
        "Good\t0\t0\t[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n"
        "odd\t0.0\t4.0\t[4, -4, 4, -4, 4, -4, 4, -4, 4, -4]\n",
        encoding="utf-8",
    )
    found = read_ratings(path)
    assert found.words == ("good", "odd")
    assert found.spreads[1] == 4.0
    assert found.valences.tolist() == [1.9, 0.0]
    assert found.label_shares[1].tolist() == [0.5, 0, 0, 0, 0, 0, 0, 0, 0.5]
    assert found.label_shares.sum(axis=1).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("line", ["good\t1.9", "good\t1\t1\t[1, 2]", "good\t1\t1\t[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]", "good\t1\t1\tten"])
def test_a_broken_line_is_named(tmp_path: Path, line: str):
    path = tmp_path / "lexicon.txt"
    path.write_text("fine\t0\t0\t[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]\n" + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2: expected"):
        read_ratings(path)


def test_a_lexicon_without_words_is_refused(tmp_path: Path):
    path = tmp_path / "lexicon.txt"
    path.write_text(":)\t2.0\t1.0\t[2, 2, 2, 2, 2, 2, 2, 2, 2, 2]\n", encoding="utf-8")
    with pytest.raises(InputError, match="no word with ratings"):
        read_ratings(path)


def test_the_packaged_lexicon_is_read():
    pytest.importorskip("vaderSentiment")
    found = read_ratings()
    assert len(found.words) > 6000
    assert found.ratings.shape == (len(found.words), 10)


@pytest.mark.skipif(find_wordnet() is None, reason="WordNet's files are not here")
def test_concepts_are_spread_from_specific_to_general():
    found = concept_texts(20, instances=8, seed=0)
    assert len(set(found.names)) == 20
    assert found.hyponyms.min() < 10
    assert found.hyponyms.max() > 5000
    assert np.all(np.diff(np.log(found.hyponyms)) > -0.5)
    assert all(6 <= len(texts) + 2 <= 10 for texts in found.instances)
    assert concept_texts(20, instances=8, seed=0).instances == found.instances
    assert concept_texts(20, instances=8, seed=1).names != found.names


@pytest.mark.skipif(find_wordnet() is None, reason="WordNet's files are not here")
def test_more_concepts_than_there_are_is_refused():
    with pytest.raises(InputError, match="ask for fewer"):
        concept_texts(10**6, instances=2, seed=0)
