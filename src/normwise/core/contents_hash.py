"""A hash of a collection that does not depend on order, and follows additions and deletions one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from normwise.core.errors import InputError

_SIZE = 1 << 256


def contents_hash(pairs: Iterable[tuple[str, bytes]], *, start: str | None = None, take_away: bool = False) -> str:
    """Return the hash of (id, content) pairs, or that of a collection after pairs came or went.

    Equation: sum over pairs of SHA-256(len(id) || id || content) mod 2^256, as 64 hexadecimal digits.

    Args:
        pairs: ids and the bytes of their content (UTF-8 text, or a float32 vector, little-endian).
        start: the hash of what is there already; None for an empty collection.
        take_away: whether the pairs leave.

    Raises:
        InputError: `start` is no such hash.

    Example:
        >>> one = contents_hash([("a", b"x")])
        >>> both = contents_hash([("b", b"y"), ("a", b"x")])
        >>> contents_hash([("b", b"y")], start=both, take_away=True) == one
        True
    """
    if start is not None and (len(start) != 64 or set(start) - set("0123456789abcdef")):
        raise InputError(f"start is {start!r:.80}; expected 64 hexadecimal digits")
    total = sum(int.from_bytes(pair_hash(name, content), "little") for name, content in pairs)
    before = 0 if start is None else int(start, 16)
    return f"{(before - total if take_away else before + total) % _SIZE:064x}"


def pair_hash(name: str, content: bytes | memoryview) -> bytes:
    """Return one pair's term of that sum, SHA-256(len(id) || id || content), as 32 bytes, the lowest first.

    Example:
        >>> contents_hash([("a", b"x")]) == pair_hash("a", b"x")[::-1].hex()
        True
    """
    key = name.encode("utf-8", "surrogatepass")
    hasher = hashlib.sha256(len(key).to_bytes(8, "little") + key)
    hasher.update(content)
    return hasher.digest()
