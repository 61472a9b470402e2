"""What the config classes share: plain types that take nothing else for their own, and mistakes told in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Strict, ValidationError

from normwise.core.errors import InputError, near_names
from normwise.core.problem_words import causes_of, words_of

_SHOWN = 80
_LONGEST_SHOWN_BITS = 256


def _check_prose(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("holds half a character, which no UTF-8 file can hold: write it again")
    return text


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: give a name or a path, or leave the key out")
    if "\0" in text:
        raise ValueError("holds a NUL character, which no name or path may")
    return text


Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Switch = Annotated[bool, Strict()]
Prose = Annotated[str, AfterValidator(_check_prose)]
Text = Annotated[Prose, AfterValidator(_check_text)]


if TYPE_CHECKING:  # a type checker would take our __call__ for the signature of every config class
    from pydantic._internal._model_construction import ModelMetaclass as _Told
else:

    class _Told(type(BaseModel)):
        """Tells the mistakes of a direct construction as `StrictConfig.read` does.

        Validation builds inner values without this call, so that it keeps its own errors and their places.
        """

        def __call__(cls, *args: Any, **values: Any) -> Any:
            try:
                return super().__call__(*args, **values)
            except ValidationError as error:
                raise _told(cls, error, source=cls.__name__) from None


class StrictConfig(BaseModel, metaclass=_Told):
    """A frozen config value that refuses unknown keys.

    Raises:
        InputError: at construction, lists every bad key, with near names for unknown ones.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls, values: Mapping[str, Any], *, source: str = "config") -> Self:
        """Validate plain values; every problem is reported at once, with its dotted key.

        Args:
            values: nested plain data, as TOML, JSON or YAML gives it.
            source: where the values came from, for the message.

        Raises:
            InputError: lists every bad key, with near names for unknown ones.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise _told(cls, error, source=source) from None


def _told(model: Any, error: ValidationError, *, source: str) -> InputError:
    return InputError(f"{source}: " + "; ".join(_explain(model, problem) for problem in causes_of(error.errors())))


def _explain(model: type[BaseModel], problem: Any) -> str:
    path = [str(part) for part in problem["loc"] if part not in ("", "[key]") and not str(part).startswith("function-")]
    key, kind, value = ".".join(path), problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return f"unknown key {key!r}: {_advice(_model_at(model, path[:-1]), path[-1], value)}"
    if kind == "missing":
        return f"key {key!r} is missing"
    if kind == "model_type":
        words = f"expected a table with any of the keys {', '.join(_names(_model_at(model, path)))}"
    else:
        words = words_of(problem)
    # Our own checks of a whole table name what is wrong in it.
    came = "" if kind == "value_error" and not _is_scalar(value) else f" (got {shown(value)})"
    return f"{key}: {words}{came}" if key else f"{words}{came}"


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def shown(value: Any) -> str:
    """Say what came in at most a line: scalars as they are, all else by kind, however large it is.

    Example:
        >>> shown("0.05"), shown({"name": "x"}), shown([1, 2])
        ("'0.05'", 'a table', 'a list of 2')
    """
    if isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN_BITS:
        return "a whole number far too large"
    if _is_scalar(value):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, Sequence):
        return f"a list of {len(value)}" if len(value) else "an empty list"
    return f"a {type(value).__name__}"


def _advice(model: type[BaseModel] | None, key: str, value: Any) -> str:
    """Name the inner table that has such a key, or else near names."""
    if model is None:
        return "no key stands here"
    homes = [name for name, field in model.model_fields.items() if key in _names(_own_table(field.annotation))]
    if not homes:
        return near_names(key, _names(model))
    example = json.dumps(value) if _is_scalar(value) and len(shown(value)) <= _SHOWN else "..."
    return "it belongs to " + " or ".join(f"{home}: write {home} = {{ {key} = {example} }}" for home in homes)


def _names(model: type[BaseModel] | None) -> list[str]:
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel] | None:
    parts = iter(path)
    for part in parts:
        field = model.model_fields.get(part)
        if field is None:  # the number of an item
            continue
        inner = _inner_model(field.annotation)
        if inner is None:
            return None
        if get_origin(field.annotation) is dict:
            next(parts, None)  # a name that the user chose
        model = inner
    return model


def _own_table(annotation: Any) -> type[BaseModel] | None:
    """The class of a field that is one table, not a list or a dict of them."""
    return None if get_origin(annotation) in (dict, tuple) else _inner_model(annotation)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (inner := _inner_model(argument)) is not None:
            return inner
    return None
