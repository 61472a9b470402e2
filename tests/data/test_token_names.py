"""What tokens are called, and which token a word is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from normwise.core.errors import InputError
from normwise.data.token_names import token_names, word_ids


def save(folder: Path, strings: list[str], *, kind: str = "WordLevel") -> Path:
    model = {"type": kind, "vocab": {string: number for number, string in enumerate(strings)}, "unk_token": strings[0]}
    path = folder / "tokenizer.json"
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [],
                "normalizer": None,
                "pre_tokenizer": None,
                "post_processor": None,
                "decoder": None,
                "model": model,
            }
        ),
        encoding="utf-8",
    )
    return path


def test_names_are_texts_with_the_space_shown(tmp_path: Path) -> None:
    # A byte-level tokenizer writes a space as U+0120 and each byte of a character as a letter.
    names = token_names(
        save(tmp_path, ["[UNK]", "\u0120the", "the", "\u2581Monday", "##ing", "\u00c3\u00a9", "\u0120\u00c3\u00a9t\u00c3\u00a9", "\u00c3"])
    )
    assert names == {
        0: "[UNK]",
        1: "\u2581the",
        2: "the",
        3: "\u2581Monday",
        4: "##ing",
        5: "\u00e9",
        6: "\u2581\u00e9t\u00e9",
        7: "\u00c3",
    }


def test_a_letter_that_is_no_byte_stays_as_it_is(tmp_path: Path) -> None:
    names = token_names(save(tmp_path, ["[UNK]", "\u00e9", "\u65e5\u672c", "na\u00efve"]))
    assert [names[number] for number in (1, 2, 3)] == ["\u00e9", "\u65e5\u672c", "na\u00efve"]


def test_control_characters_are_not_shown_as_text(tmp_path: Path) -> None:
    # U+010A is the byte of a line feed.
    assert token_names(save(tmp_path, ["[UNK]", "\u010a"]))[1] == "\u010a"


def test_a_word_prefers_its_start_then_its_own_capitals_then_the_lower_id() -> None:
    assert word_ids(["two"], {1: "two", 2: "\u2581Two", 3: "\u2581two"}) == {"two": 3}
    assert word_ids(["Two"], {1: "two", 2: "\u2581Two", 3: "\u2581two"}) == {"Two": 2}
    assert word_ids(["two"], {1: "two", 2: "\u2581Two"}) == {"two": 2}
    assert word_ids(["two"], {4: "TWO", 1: "Two"}) == {"two": 1}
    assert word_ids(["two"], {1: "two</w>", 2: "two"}) == {"two": 1}


def test_parts_of_words_are_no_words() -> None:
    assert word_ids(["two", "gone"], {1: "##two", 2: "twofold"}) == {}


def test_a_broken_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="is not a tokenizer.json"):
        token_names(tmp_path / "tokenizer.json")
