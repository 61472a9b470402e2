"""Which documented function a call means: names resolved through a file's imports and through re-exports, by text alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from normwise.data.sources import SourceFile

_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.Break, ast.Continue, ast.Import, ast.ImportFrom, ast.alias}
)
_DEPTH = 12


@dataclass(frozen=True)
class CallSite:
    """A call of an imported name: where it stands, what was written, and the dotted name it stands for."""

    line: int
    end_line: int
    written: str
    dotted: str


@dataclass
class ModuleNames:
    """What a module defines and what it passes on.

    `defined` are the qualified names of documented functions and classes, `passed_on` maps a name to the dotted name that
    it was imported from, `stars` are modules imported with `*`.
    """

    defined: set[str] = field(default_factory=set)
    passed_on: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


def imports_of(tree: ast.AST, source: SourceFile, *, everywhere: bool) -> ModuleNames:
    r"""Read the imports of a file: all of them, or those at module level (inside `if` and `try` too).

    Example:
        >>> from pathlib import Path
        >>> source = SourceFile(Path("b.py"), "a.b", False, "a")
        >>> tree = ast.parse("import numpy as np\nfrom .c import f as g\nfrom . import d")
        >>> imports_of(tree, source, everywhere=True).passed_on
        {'np': 'numpy', 'g': 'a.c.f', 'd': 'a.d'}
    """
    names = ModuleNames()
    for node in _imports(tree, everywhere=everywhere):
        if isinstance(node, ast.Import):
            for item in node.names:
                top = item.name if item.asname else item.name.partition(".")[0]
                names.passed_on[item.asname or top] = top
        else:
            base = _base(node, source)
            for item in node.names:
                if item.name == "*":
                    names.stars.append(base)
                else:
                    names.passed_on[item.asname or item.name] = f"{base}.{item.name}"
    return names


def _imports(tree: ast.AST, *, everywhere: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
            continue
        if not everywhere and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("finalbody", "orelse", "handlers", "body"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                stack += reversed(block)


def _base(node: ast.ImportFrom, source: SourceFile) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".") if source.is_package else source.module.split(".")[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def call_sites(tree: ast.AST, imported: ModuleNames) -> Iterator[CallSite]:
    """Yield the calls whose first name was imported by this file, in no particular order."""
    known = imported.passed_on
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            dotted = _dotted(node.func)
            if dotted is not None and (origin := known.get(dotted.partition(".")[0])) is not None:
                rest = dotted.partition(".")[2]
                yield CallSite(node.lineno, node.end_lineno or node.lineno, dotted, f"{origin}.{rest}" if rest else origin)
        for value in vars(node).values():
            if isinstance(value, list):
                stack += [item for item in value if isinstance(item, ast.AST) and type(item) not in _LEAVES]
            elif isinstance(value, ast.AST) and type(value) not in _LEAVES:
                stack.append(value)


def _dotted(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


class Resolver:
    """Finds the documented definition behind a dotted name, through `from a import b`, `import a as b` and `import *`."""

    def __init__(self, modules: dict[str, ModuleNames]) -> None:
        self._modules = modules
        self._known: dict[str, str | None] = {}

    def resolve(self, dotted: str) -> str | None:
        """The definition as `module:qualified.name`, or None where it is not documented in the files that were read.

        Example:
            >>> modules = {"a": ModuleNames(passed_on={"f": "a.b.f"}), "a.b": ModuleNames(defined={"f"})}
            >>> Resolver(modules).resolve("a.f"), Resolver(modules).resolve("a.g")
            ('a.b:f', None)
        """
        if dotted not in self._known:
            self._known[dotted] = self._resolve(dotted, _DEPTH)
        return self._known[dotted]

    def _resolve(self, dotted: str, depth: int) -> str | None:
        if depth == 0:
            return None
        parts = dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:cut])
            if module in self._modules:
                return self._lookup(module, parts[cut:], depth - 1)
        return None

    def _lookup(self, module: str, rest: list[str], depth: int) -> str | None:
        names = self._modules.get(module)
        if names is None or depth == 0:
            return None
        name = ".".join(rest)
        if name in names.defined:
            return f"{module}:{name}"
        if rest[0] in names.passed_on:
            target = ".".join([names.passed_on[rest[0]], *rest[1:]])
            return self._resolve(target, depth - 1) if target != f"{module}.{name}" else None
        for star in names.stars:
            if (found := self._lookup(star, rest, depth - 1)) is not None:
                return found
        return None
