"""Python code on this machine: which files are read, and what a file says about its functions. Nothing is imported."""

from __future__ import annotations

import ast
import gc
import hashlib
import platform
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from normwise.core.errors import InputError
from normwise.data.opening import kind_of, reading, user_path

# A fixed list, so that machines with the same constraints file see the same set.
DISTRIBUTIONS = (
    "accelerate", "click", "datasets", "filelock", "fsspec", "huggingface_hub", "httpx", "jinja2", "joblib", "networkx",
    "numpy", "packaging", "pandas", "peft", "pillow", "pyarrow", "pydantic", "pygments", "pyyaml", "rich", "safetensors", "scikit-learn",
    "scipy", "sentence-transformers", "sympy", "torch", "tqdm", "transformers", "typer",
)  # fmt: skip
_SKIPPED_FOLDERS = frozenset({
    "__pycache__", "benchmarks", "ensurepip", "idlelib", "lib-dynload", "lib2to3", "site-packages", "dist-packages", "test", "tests",
    "testing", "turtledemo", "_vendor", "vendor", "_vendored", "node_modules", ".git", ".venv", "venv",
})  # fmt: skip
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class SourceFile:
    """One file: where it lies, its dotted module name, and where the module's name comes from."""

    path: Path
    module: str
    is_package: bool
    origin: str

    @property
    def group(self) -> str:
        """The top module or package."""
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class SourceSet:
    """Files in a fixed order, the versions that they come from, and a key that changes when any of them does."""

    files: tuple[SourceFile, ...]
    versions: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    key: str


def installed_sources() -> SourceSet:
    """The standard library and those of `DISTRIBUTIONS` that are installed.

    Left out: tests, vendored copies, files above 1 MB, names that are no module names.
    """
    files = list(_folder_files(Path(sysconfig.get_paths()["stdlib"]), origin="python"))
    versions = [("python", platform.python_version())]
    missing: list[str] = []
    for name in DISTRIBUTIONS:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        versions.append((name, distribution.version))
        for entry in sorted(distribution.files or (), key=str):
            source = _source(Path(str(distribution.locate_file(entry))), PurePosixPath(entry), origin=name)
            if source is not None:
                files.append(source)
    key = hashlib.sha256(repr(versions).encode()).hexdigest()
    return SourceSet(_distinct(files), tuple(versions), tuple(missing), key)


def folder_sources(roots: Sequence[str]) -> SourceSet:
    """The Python files below folders of the user's own.

    Raises:
        InputError: a root is no readable folder, or no root holds a Python file.
    """
    files: list[SourceFile] = []
    stamps: list[str] = []
    for root in roots:
        folder = user_path(root, what="data.roots")
        if kind_of(folder) != "folder":
            raise InputError(f"data.roots: {root} is not a folder: give folders that hold Python files")
        found = list(_folder_files(folder, origin=folder.resolve().name))
        files += found
        for source in found:
            status = source.path.stat()
            stamps.append(f"{source.path.resolve()}:{status.st_size}:{status.st_mtime_ns}")
    if not files:
        raise InputError(f"data.roots: no Python file (tests left out) below {', '.join(roots)}")
    versions = (("python", platform.python_version()),)
    key = hashlib.sha256("\n".join([repr(versions), *stamps]).encode()).hexdigest()
    return SourceSet(_distinct(files), versions, (), key)


def _distinct(files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    by_module: dict[str, SourceFile] = {}
    for source in files:
        by_module.setdefault(source.module, source)
    return tuple(by_module[module] for module in sorted(by_module))


def _folder_files(folder: Path, *, origin: str) -> Iterator[SourceFile]:
    with reading(folder):
        found = sorted(folder.rglob("*.py"))
    for path in found:
        source = _source(path, PurePosixPath(path.relative_to(folder).as_posix()), origin=origin)
        if source is not None:
            yield source


def _source(path: Path, relative: PurePosixPath, *, origin: str) -> SourceFile | None:
    parts = relative.with_suffix("").parts
    if relative.suffix != ".py" or not all(part.isidentifier() for part in parts):
        return None
    if _SKIPPED_FOLDERS.intersection(parts) or parts[-1].startswith("test_") or parts[-1].endswith("_test") or parts[-1] == "conftest":
        return None
    try:
        if not 0 < path.stat().st_size <= _MAX_BYTES:
            return None
    except OSError:
        return None
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    return SourceFile(path, module, is_package, origin) if module else None


@contextmanager
def parsing() -> Iterator[None]:
    """Parse many files: silent, and a third faster without the cycle collector (syntax trees hold no cycles)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was_enabled:
            gc.enable()


def parse(source: SourceFile) -> tuple[str, ast.Module] | None:
    """Read and parse a file; None when it is not UTF-8 or not valid for this interpreter. Call it inside `parsing`."""
    try:
        text = source.path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
        return text, ast.parse(text)
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def documented(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, str]]:
    """Yield (qualified name, node, raw docstring) of module-level functions and classes and the methods of those classes.

    Definitions under `if` and `try` at module level count; functions inside functions do not.
    """
    stack: list[tuple[str, ast.stmt]] = [("", statement) for statement in reversed(tree.body)]
    while stack:
        prefix, node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            docstring = ast.get_docstring(node, clean=True)
            if docstring:
                yield name, node, docstring
            if isinstance(node, ast.ClassDef):
                stack += [(f"{name}.", statement) for statement in reversed(node.body)]
        elif isinstance(node, ast.If | ast.Try):
            inner = [*node.body, *node.orelse]
            if isinstance(node, ast.Try):
                inner += [statement for handler in node.handlers for statement in handler.body]
            stack += [(prefix, statement) for statement in reversed(inner)]


def stable_fraction(text: str) -> float:
    """A number in [0, 1) that depends on the text alone: the same on every machine, for every seed.

    Example:
        >>> round(stable_fraction("json"), 4)
        0.0107
    """
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64
