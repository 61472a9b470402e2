"""The prose of a docstring: what is left without examples, tables, headings, signatures and formulas."""

from __future__ import annotations

import re

_MATH = re.compile(r":math:`[^`]*`")
_ROLE = re.compile(r":[a-zA-Z]+(?::[a-zA-Z]+)*:`~?([^`<]*?)\s*(?:<[^`>]*>)?`")
_LETTER = re.compile(r"[^\W\d_]")
# Three of the same mark or more, as under a heading.
_RULE = re.compile(r"\s*([^\w\s])\1{2,}[^\w]*$")
_DIRECTIVE = re.compile(r"\s*\.\. ?[\w:-]*::")
# Their blocks are no prose; those of others, such as notes, are.
_SKIPPED = re.compile(r"\s*\.\. (?:math|plot|code|code-block|ipython|testcode|testsetup|doctest|productionlist|image|figure|table)::")
# `name : type`, as numpydoc heads the description of a parameter.
_HEAD = re.compile(r"\s*\S[^:]{0,80} :(?:\s|$)")
_TABLE = re.compile(r"\s*[|+]")


def prose_of(docstring: str) -> str:
    r"""Return the lines of prose in a docstring.

    Left out are, line by line: a doctest, from >>> to the next blank line; a directive's own line, and the block below it where it is a
    formula, a plot, code or a figure; a heading and the rule under it; a row of a table that begins with | or +; the head of a
    parameter, which has a colon between spaces; and a line without a letter. In the lines that stay, formulas go, and roles and
    backquotes leave their words.

    Example:
        >>> prose_of("Add ``x``.\n\nNotes\n-----\nFast.\n\nx : int\n    A number.\n\n>>> f(1)\n2\n\nSee :func:`~a.g`.")
        'Add x.\nFast.\n    A number.\nSee a.g.'
    """
    lines = docstring.expandtabs().splitlines()
    kept: list[str] = []
    in_doctest = False
    block: int | None = None
    for place, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            in_doctest = False
            continue
        if block is not None and depth > block:
            continue
        block = depth if _SKIPPED.match(line) else None
        in_doctest = in_doctest or line.lstrip().startswith(">>>")
        headed = place + 1 < len(lines) and _RULE.match(lines[place + 1]) is not None
        if not (in_doctest or headed or _is_markup(line)):
            kept.append(_ROLE.sub(r"\1", _MATH.sub(" ", line)).replace("`", "").rstrip())
    return "\n".join(kept)


def _is_markup(line: str) -> bool:
    return any(each.match(line) for each in (_DIRECTIVE, _TABLE, _HEAD)) or _LETTER.search(line) is None
