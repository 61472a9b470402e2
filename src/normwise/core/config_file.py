"""Config files and overrides: plain nested data from TOML, JSON or YAML, with errors that name file and line.

What the values mean is `normwise.core.config`'s business; nothing is checked here beyond the file's own syntax.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from normwise.core.errors import InputError, MissingExtraError
from normwise.core.strict import shown

_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")
_KEY_PART = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^."\']+)')
_SHOWN = 60
_DEEPEST = 16
_TOO_DEEP = f"tables and lists stand in each other more than {_DEEPEST} deep: no setting does"


def read_config_file(path: Path) -> dict[str, Any]:
    """Read a config file; its extension decides the format.

    Args:
        path: a `.toml`, `.json`, `.yaml` or `.yml` file, UTF-8.

    Returns:
        The file's table, as nested plain data.

    Raises:
        InputError: the file is missing, unreadable, of another kind, or not well formed (line and column are named).
        MissingExtraError: the file is YAML and PyYAML is not installed.
    """
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise InputError(f"{path}: a config file ends in {', '.join(_PARSERS)} (got {path.suffix or 'no extension'!r})")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"config file {path} does not exist") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"config file {path} cannot be read: {error.strerror}") from None
    values = _parsed(lambda: parse(text, path), str(path))
    if not isinstance(values, dict):
        raise InputError(f"{path}: a config is a table of settings at its top level, but this file holds a {type(values).__name__}")
    return values


def _parsed(parse: Callable[[], Any], where: str) -> Any:
    """Run a parser; what its own errors leave out is told too: endless nesting, and integers of thousands of digits."""
    try:
        values = parse()
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{where}: {_TOO_DEEP}") from None
    except ValueError as error:
        raise InputError(f"{where}: a value cannot be read: {str(error).partition(';')[0]}") from None
    _check_depth(values, where)
    return values


def _check_depth(values: Any, where: str) -> None:
    level = [values]
    for _ in range(_DEEPEST):
        inner = [item for outer in level for item in _items(outer)]
        # A YAML alias is one object that stands in many places, which would multiply on every level.
        level = list({id(item): item for item in inner}.values())
        if not level:
            return
    raise InputError(f"{where}: {_TOO_DEEP}")


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _parse_toml(text: str, path: Path) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _TOML_PLACE.search(message)
        line = place.group(1) if place and place.group(1) else str(text.count("\n") + 1)
        column = f", column {place.group(2)}" if place and place.group(2) else ""
        raise InputError(f"{path}, line {line}{column}: not valid TOML: {_TOML_PLACE.sub('', message)}") from None


def _parse_json(text: str, path: Path) -> Any:
    def refuse_constant(name: str) -> Any:
        raise InputError(f"{path}: {name} is not valid JSON: give a finite number")

    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{path}: key {repeated!r} stands twice in one table: keep one")
        return table

    try:
        return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=refuse_repeats)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}") from None


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", extra="train") from None

    class Loader(yaml.SafeLoader):
        """YAML's safe subset, without repeated keys, and with `2e-5` a number as in YAML 1.2 (PyYAML reads text)."""

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep=deep)
            except (ValueError, LookupError, AttributeError):
                # PyYAML lets these out where a scalar is not what its tag says, such as `!!bool maybe` or month 13.
                if not isinstance(node, yaml.ScalarNode):
                    raise
                kind = node.tag.rpartition(":")[2]
                problem = f"{node.value[:_SHOWN]!r} cannot be read as {kind}"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, Hashable) and key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key!r} stands twice in one table: keep one", key_node.start_mark
                    )
                if isinstance(key, Hashable):
                    seen.add(key)
            return super().construct_mapping(node, deep=deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))
    try:
        values = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: not valid YAML: {getattr(error, 'problem', None) or error}") from None
    return {} if values is None else values


_PARSERS: dict[str, Callable[[str, Path], Any]] = {".toml": _parse_toml, ".json": _parse_json, ".yaml": _parse_yaml, ".yml": _parse_yaml}


def apply_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Set single values by dotted key, as `--set` does; the input is left as it was.

    A value is read as TOML; what is not TOML is text, so that `model.name=all-MiniLM-L6-v2` needs no quotes. A number
    in a key picks an item of a list. A key part with a dot in it is quoted. Missing tables are made, and whether the
    key exists is decided where the config is validated.

    Args:
        values: a nested config, as `read_config_file` gives it.
        overrides: texts `a.b=c`.

    Returns:
        A changed copy.

    Raises:
        InputError: an override has no `=`, an empty key, broken TOML, an index outside its list, or goes through a
            value that is not a table.

    Example:
        >>> apply_overrides({"arms": {"pace": [{"steps": 9}]}}, ["arms.pace.0.steps=5", "data.name=python-docs"])
        {'arms': {'pace': [{'steps': 5}]}, 'data': {'name': 'python-docs'}}
    """
    changed = copy.deepcopy(dict(values))
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise InputError(f"--set {override!r}: expected KEY=VALUE, as in --set seeds=[0,1,2]")
        _set(changed, _split_key(key.strip(), override), _parse_value(text.strip(), override), override)
    return changed


def _split_key(key: str, override: str) -> list[str]:
    parts: list[str] = []
    position = 0
    while match := _KEY_PART.match(key, position):
        parts.append(next(group for group in match.groups() if group is not None).strip())
        position = match.end()
        if position == len(key):
            break
        if key[position] != ".":
            break
        position += 1
    if position != len(key) or key.endswith(".") or not parts or not all(parts):
        raise InputError(
            f'--set {override!r}: the key is dotted names, as in arms.pace.0.steps (quote a name with a dot: arms."v1.2".0.steps)'
        )
    return parts


def _parse_value(text: str, override: str) -> Any:
    def parse() -> Any:
        try:
            parsed = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError as error:
            if text[:1] in ("[", "{", '"', "'"):
                reason = _TOML_PLACE.sub("", str(error))
                raise InputError(f"--set {override!r}: the value starts like TOML but is not valid: {reason}") from None
            return text
        return parsed["value"] if set(parsed) == {"value"} else text

    return _parsed(parse, f"--set {override[:_SHOWN]!r}")


def _set(table: dict[str, Any], parts: list[str], value: Any, override: str) -> None:
    here: Any = table
    for depth, part in enumerate(parts):
        where = ".".join(parts[:depth]) or "the config"
        last = depth == len(parts) - 1
        if isinstance(here, list):
            if not part.isdecimal() or len(part) > len(str(len(here))) or int(part) >= len(here):
                raise InputError(
                    f"--set {override!r}: {where} is a list of {len(here)} (0 to {len(here) - 1}), so {part!r} picks nothing in it"
                )
            slot: Any = int(part)
        elif isinstance(here, dict):
            slot = part
            if not last:
                here.setdefault(part, {})
        else:
            raise InputError(f"--set {override!r}: {where} is {shown(here)}, not a table: set {where} as a whole")
        if last:
            here[slot] = value
        else:
            here = here[slot]
