"""What the tokens of a vocabulary are called, for people; and which tokens are some words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from normwise.data.token_texts import load_tokenizer

# Marks of a word's start, as tokenizers write them; a space at a word's start is shown by the second.
_STARTS = ("\u0120", "\u2581")
_SHOWN_SPACE = "\u2581"
_BEHIND, _INNER = "</w>", "##"
_UNREADABLE = "\ufffd"


def token_names(tokenizer: Path) -> dict[int, str]:
    """Return by id what each token is called: its text, a space at its start shown as U+2581; of half a character its raw string.

    Args:
        tokenizer: tokenizer.json.

    Raises:
        InputError: as `load_tokenizer`.
    """
    found = load_tokenizer(tokenizer)
    return {number: _name(string) for string, number in found.get_vocab(with_added_tokens=True).items()}


def word_ids(words: Sequence[str], names: Mapping[int, str]) -> dict[str, int]:
    r"""Return for each word the id of the token that is this word, those that have none left out.

    A token at a word's start comes before the same without its mark, the word as it is written before one with other capitals, a lower
    id before a higher one.

    Args:
        words: such as "Monday".
        names: by id, as `token_names`.

    Example:
        >>> word_ids(["Monday", "two"], {3: "monday", 5: "\u2581Monday", 7: "##two", 9: "Two"})
        {'Monday': 5, 'two': 9}
    """
    asked = {word.casefold() for word in words}
    places: dict[str, list[tuple[bool, str, int]]] = {}
    for number, name in names.items():
        if name.startswith(_INNER):
            continue
        bare = name.removeprefix(_SHOWN_SPACE).removesuffix(_BEHIND)
        if bare.casefold() in asked:
            places.setdefault(bare.casefold(), []).append((not name.startswith(_SHOWN_SPACE), bare, number))
    found = {}
    for word in words:
        known = places.get(word.casefold(), [])
        if known:
            found[word] = min(known, key=lambda each: (each[0], each[1] != word, each[2]))[2]
    return found


def _name(string: str) -> str:
    """The text of a token's string; byte-level strings map each byte to a letter."""
    for start in _STARTS:
        if string.startswith(start):
            return _SHOWN_SPACE + _text(string[1:])
    return _text(string)


def _text(string: str) -> str:
    if not any(ord(letter) > 0x7E for letter in string):
        return string
    try:
        text = bytes(_BYTES[letter] for letter in string).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return string
    return text if text.isprintable() and _UNREADABLE not in text else string


def _byte_letters() -> dict[str, int]:
    """The letters of byte-level tokenizers: printable bytes are themselves, the others follow from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    found = {chr(byte): byte for byte in plain}
    for place, byte in enumerate(byte for byte in range(256) if byte not in set(plain)):
        found[chr(256 + place)] = byte
    return found


_BYTES = _byte_letters()
