"""Factors of texts against slow loops, small files of WordNet's format, and the installed lists."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normwise.core.errors import InputError, MissingExtraError
from normwise.data.factors import (
    corpus_frequencies,
    inverse_document_frequencies,
    token_counts,
    word_counts,
    word_list,
    wordnet_factors,
    words_of,
    zipf_frequencies,
)
from normwise.data.wordnet_tree import noun_tree

TEXTS = st.lists(st.lists(st.sampled_from(["a", "bb", "ccc", "Dd"]), max_size=5).map(" ".join), min_size=1, max_size=8)


@given(TEXTS)
def test_idf_and_counts_are_those_of_a_slow_loop(texts):
    idf, counts = inverse_document_frequencies(texts), corpus_frequencies(texts)
    for place, text in enumerate(texts):
        words = text.lower().split()
        if not words:
            assert math.isnan(idf[place])
            assert math.isnan(counts[place])
            continue
        documents = [sum(word in other.lower().split() for other in texts) for word in words]
        total = [sum(other.lower().split().count(word) for other in texts) for word in words]
        assert idf[place] == pytest.approx(np.mean([math.log(len(texts) / count) for count in documents]), abs=1e-12)
        assert counts[place] == pytest.approx(np.mean([math.log(count) for count in total]))


@given(TEXTS, st.randoms())
def test_factors_do_not_depend_on_the_order_of_texts(texts, random):
    order = list(range(len(texts)))
    random.shuffle(order)
    shuffled = inverse_document_frequencies([texts[place] for place in order])
    np.testing.assert_allclose(shuffled, inverse_document_frequencies(texts)[order], atol=1e-12)


def test_counts_can_be_taken_over_another_corpus():
    corpus = ["a b", "a", "a a", "c"]
    assert inverse_document_frequencies(["a", "x"], among=corpus) == pytest.approx([math.log(4 / 3), math.log(4)])
    assert corpus_frequencies(["a", "x"], among=corpus) == pytest.approx([math.log(4), 0.0])


def test_words_are_found_in_any_script():
    assert words_of("Köln's ЗАВТРА, 東京!") == ["köln's", "завтра", "東京"]
    assert word_counts(["one two", "", "one"]).tolist() == [2.0, 0.0, 1.0]


def test_tokens_are_counted_in_blocks(monkeypatch):
    monkeypatch.setattr("normwise.data.factors._BLOCK", 2)
    seen = []

    def count(texts):
        seen.append(len(texts))
        return np.array([len(text) for text in texts])

    assert token_counts(["a", "bb", "ccc"], count).tolist() == [1.0, 2.0, 3.0]
    assert seen == [2, 1]
    with pytest.raises(InputError, match=r"counter gave \(1,\) counts for 2 texts"):
        token_counts(["a", "b"], lambda texts: np.ones(1))


def test_zipf_is_wordfreqs_for_a_word_and_no_length_for_a_phrase():
    wordfreq = pytest.importorskip("wordfreq")
    found = zipf_frequencies(["cat", "The", "the cat", "qqzzqx", "cat qqzzqx", "."])
    cat, the = wordfreq.zipf_frequency("cat", "en"), wordfreq.zipf_frequency("the", "en")
    assert found[:3] == pytest.approx([cat, the, (cat + the) / 2], abs=0.006)
    assert math.isnan(found[3])
    assert found[4] == pytest.approx(cat, abs=0.006)
    assert math.isnan(found[5])
    with pytest.raises(InputError, match="language 'xx' is not among wordfreq's: .*de, "):
        zipf_frequencies(["a"], language="xx")


def test_without_wordfreq_the_message_holds_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(MissingExtraError, match=r'wordfreq is not installed; run: pip install "normwise\[inspect\]"'):
        zipf_frequencies(["cat"])


@pytest.fixture
def small_wordnet(tmp_path):
    """thing > animal > (cat, dog); pet > dog, so that dog has two ways up; Rex is an instance of dog."""
    license_line = "  1 a license\n"
    rows = [
        ("00000001", "thing", []),
        ("00000002", "animal", [("@", "00000001")]),
        ("00000003", "cat", [("@", "00000002")]),
        ("00000004", "pet", [("@", "00000001")]),
        ("00000005", "ice_dog", [("@", "00000002"), ("@", "00000004")]),
        ("00000006", "Rex", [("@i", "00000005")]),
        ("00000007", "scan", [("+", "00000003")]),
    ]
    lines = [
        f"{offset} 03 n 01 {word} 0 {len(ups):03d} {' '.join(f'{symbol} {up} n 0000' for symbol, up in ups)} | gloss\n"
        for offset, word, ups in rows
    ]
    (tmp_path / "data.noun").write_text(license_line + "".join(lines))
    for part in ("verb", "adj", "adv"):
        (tmp_path / f"data.{part}").write_text(license_line)
        (tmp_path / f"index.{part}").write_text(license_line)
    index = ["thing n 1 0 1 0 00000001", "animal n 1 1 @ 1 0 00000002", "cat n 2 1 @ 2 1 00000003 00000007", "pet n 1 1 @ 1 0 00000004"]
    index += ["ice_dog n 1 1 @ 1 0 00000005", "rex n 1 1 @i 1 0 00000006"]
    (tmp_path / "index.noun").write_text(license_line + "\n".join(f"{line}  " for line in index) + "\n")
    (tmp_path / "index.verb").write_text("cat v 1 1 + 1 0 00000009\n")
    return tmp_path


def test_depth_hyponyms_and_senses_of_a_small_tree(small_wordnet):
    found = wordnet_factors(["thing", "Animal", "cat", "ice dog", "rex", "scam"], roots=[str(small_wordnet)])
    assert found["depth"][:5].tolist() == [0.0, 1.0, 1.0 + 1.0, 2.0, 3.0]
    # Everything below counts once, although ice dog has two ways up.
    assert found["hyponyms"][:5].tolist() == [5.0, 3.0, 0.0, 1.0, 0.0]
    assert found["senses"][:5].tolist() == [1.0, 1.0, 3.0, 1.0, 1.0]
    assert all(math.isnan(values[5]) for values in found.values())


def test_broken_files_are_named(small_wordnet):
    (small_wordnet / "index.noun").write_text("cat n two\n")
    with pytest.raises(InputError, match="index.noun, line 1: not a line of WordNet's index format"):
        noun_tree([str(small_wordnet)])
    with pytest.raises(InputError, match="WordNet's files were not found"):
        noun_tree(["/nowhere"])


def test_the_installed_wordnet_has_its_known_shape():
    tree = noun_tree()
    entity = tree.first["entity"]
    assert (tree.depth[entity], tree.hyponyms[entity]) == (0, len(tree.depth) - 1)
    assert max(tree.depth.values()) == 18
    found = wordnet_factors(["entity", "dog", "poodle"])
    assert found["depth"][0] < found["depth"][1] < found["depth"][2]
    assert found["hyponyms"][0] > found["hyponyms"][1] > found["hyponyms"][2]


def test_the_word_list_is_real_distinct_and_seeded():
    pytest.importorskip("wordfreq")
    words, note = word_list(400, seed=3)
    assert len(set(words)) == len(words) == 400
    assert words[0] == "the"
    assert "200 most frequent words of wordfreq and 200 nouns drawn from WordNet (seed 3)" in note
    assert word_list(400, seed=3)[0] == words
    assert word_list(400, seed=4)[0][:200] == words[:200]
    assert word_list(400, seed=4)[0] != words
    alone, note = word_list(50, roots=["/nowhere"])
    assert len(alone) == 50
    assert "WordNet" not in note


def test_without_any_list_the_way_to_one_is_told(monkeypatch):
    monkeypatch.setattr("normwise.data.factors.has_wordfreq", lambda: False)
    with pytest.raises(InputError, match=r"no word list is at hand: run pip install .normwise\[inspect\]"):
        word_list(10, roots=["/nowhere"])
