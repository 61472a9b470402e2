"""Cutting a function out of its file, its docstrings removed exactly; and reading a docstring's summary."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_ROLE = re.compile(r":[a-zA-Z]+(?::[a-zA-Z]+)*:`~?([^`<]*?)\s*(?:<[^`>]*>)?`")
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\betc)(?<!\bcf)[.!?](?=\s+[A-Z\"'(])")
_BOILERPLATE = re.compile(
    r"see\b|deprecated|todo|fixme|same as|alias|inherit|overrid|tests?\b|copied|docstring|return self\b|initiali[sz]e self|\.\. |>>>|@"
    r"|:param|args:|parameters\b|returns?:|note:|warning:|internal method|private method|helper function\.?$|constructor\b|not implemented",
    re.IGNORECASE,
)
_NEEDS_WALK = re.compile(r"\"\"\"|'''|\\$|^.*\b(?:def|class)\b", re.MULTILINE)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def summary_of(docstring: str) -> str | None:
    r"""The first sentence of a docstring's first paragraph, markup simplified; None when it says too little.

    Kept: 3 to 60 words, at most 300 characters, ASCII, four fifths of them letters or spaces, not boilerplate such as
    "See ...", "Deprecated ...", a parameter list or a call signature.

    Example:
        >>> summary_of("Return the :class:`~a.Tensor` of ``x``. More words.\n\nDetails.")
        'Return the a.Tensor of x.'
        >>> summary_of("See foo for the details")
    """
    paragraph = " ".join(docstring.strip().split("\n\n", 1)[0].split())
    paragraph = _ROLE.sub(r"\1", paragraph).replace("`", "").strip(" *")
    end = _SENTENCE_END.search(paragraph)
    summary = paragraph[: end.end()] if end else paragraph
    words = summary.split()
    letters = sum(character.isalpha() or character == " " for character in summary)
    if not 3 <= len(words) <= 60 or len(summary) > 300 or not summary.isascii() or letters < 0.8 * len(summary):
        return None
    if _BOILERPLATE.match(summary) or re.match(r"[\w.]+\(.*\)", summary):
        return None
    return summary


def without_docstrings(lines: Sequence[str], node: _Function) -> str | None:
    """The source of a function, decorators and comments included, without its docstring and those of functions inside.

    Only the docstrings' own characters go (whole lines where nothing else stands on them); the common indentation is
    taken off lines that do not begin inside a string.

    Args:
        lines: of the file that `node` was parsed from.
        node: the function.

    Returns:
        Source that parses to the same tree minus the docstrings; None when nothing but a docstring is in the body or a
        docstring stands in parentheses or is continued by a backslash.
    """
    if len(node.body) < 2 and _docstring(node) is not None:
        return None
    start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    end = node.end_lineno or node.lineno
    entries = [(number, lines[number - 1]) for number in range(start, end + 1)]
    own = _docstring(node)
    rest = "\n".join(lines[(own.end_lineno or own.lineno) if own is not None else start : end])
    parts: Sequence[ast.AST] = list(ast.walk(node)) if _NEEDS_WALK.search(rest) else [node]  # the walk is half of the time
    definitions = [inner for inner in parts if isinstance(inner, _Function | ast.ClassDef)]
    spans = [(found, len(inner.body) == 1) for inner in definitions if (found := _docstring(inner)) is not None]
    inside = _lines_inside_strings(parts)
    for found, alone in sorted(spans, key=lambda span: -span[0].lineno):
        edited = _cut(entries, found, start, alone=alone)
        if edited is None:
            return None
        entries = edited
    indent = node.col_offset
    return "\n".join(
        line[indent:] if number not in inside and not line[:indent].strip() else line for number, line in entries
    )  # fmt: skip


def _docstring(node: _Function | ast.ClassDef) -> ast.Constant | None:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def _lines_inside_strings(parts: Sequence[ast.AST]) -> set[int]:
    inside: set[int] = set()
    for part in parts:
        if isinstance(part, ast.Constant | ast.JoinedStr) and part.end_lineno is not None and part.end_lineno > part.lineno:
            inside.update(range(part.lineno + 1, part.end_lineno + 1))
    return inside


def _column(line: str, offset: int) -> int:
    return offset if line.isascii() else len(line.encode()[:offset].decode())


def _cut(entries: list[tuple[int, str]], found: ast.Constant, start: int, *, alone: bool) -> list[tuple[int, str]] | None:
    first, last = found.lineno - start, (found.end_lineno or found.lineno) - start
    before = entries[first][1][: _column(entries[first][1], found.col_offset)]
    after = entries[last][1][_column(entries[last][1], found.end_col_offset or 0) :].lstrip()
    previous = before.rstrip() or (entries[first - 1][1].rstrip() if first else "")
    if previous.endswith(("(", "\\")) or after.startswith((")", "\\")):
        return None
    number = entries[last][0]
    if alone:
        kept = [(entries[first][0], f"{before}... {after}".rstrip())]
    elif after.startswith(";"):
        kept = [(entries[first][0], before + after[1:].lstrip())]
    elif before.strip():
        return None
    else:
        kept = [(number, before + after)] if after else []
    return entries[:first] + kept + entries[last + 1 :]


def code_lines(code: str) -> int:
    """Lines that are neither blank nor a comment."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in code.splitlines())


def does_nothing(node: _Function) -> bool:
    """Whether a body (docstring aside) is only `pass`, `...` or `raise`."""
    body = node.body[1:] if _docstring(node) is not None else node.body
    return all(
        isinstance(statement, ast.Pass | ast.Raise) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )  # fmt: skip


def signature_of(node: _Function | ast.ClassDef, name: str) -> str:
    """One line: `def name(arguments) -> result`, or `class Name(arguments of __init__)`.

    Example:
        >>> signature_of(ast.parse("def f(a, *, b: int = 1) -> str: ...").body[0], "f")
        'def f(a, *, b: int=1) -> str'
    """
    if isinstance(node, ast.ClassDef):
        makers = (item for item in node.body if isinstance(item, _Function) and item.name in ("__init__", "__new__"))
        maker = next(makers, None)
        arguments = "" if maker is None else re.sub(r"^(self|cls)(, )?", "", ast.unparse(maker.args))
        return f"class {name}({arguments})"
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{word} {name}({ast.unparse(node.args)}){result}"
