"""Strict dataclass <-> dict <-> JSON: a typo in a config is an error, not a default."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from emorl.errors import UserError, nearest
from emorl.schedules import Schedule

T = TypeVar("T")
MOST_ENTRIES = 100  # of a list, such as the channels of each layer: a file may ask for millions


def to_dict(config: Any) -> dict[str, Any]:
    """Returns `config` as plain JSON values, with every field, defaults included."""

    def plain(value: Any) -> Any:
        if isinstance(value, Schedule):
            return str(value)
        if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return [plain(item) for item in value] if isinstance(value, tuple) else value

    return plain(config)  # type: ignore[no-any-return]


def from_dict(cls: type[T], values: Mapping[str, Any], *, path: str = "") -> T:
    """Builds `cls`; fields left out keep their defaults. Raises UserError with the dotted name of a wrong one."""
    if not isinstance(values, Mapping):
        raise UserError(f"{path or cls.__name__} must be a group of settings, not {values!r}.")
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            raise UserError(f"{join(path, name)} is not a setting of {cls.__name__}{nearest(name, names)}")
    return cls(**{name: convert(hints[name], value, join(path, name)) for name, value in values.items()})


def convert(expected: Any, value: Any, path: str) -> Any:
    """Returns `value` as the type `expected`, or raises UserError."""
    origin, arguments = get_origin(expected), get_args(expected)
    if expected is Schedule:
        return convert_schedule(value, path)
    if is_dataclass(expected) and isinstance(expected, type):
        return from_dict(expected, value, path=path)
    if origin is Literal:
        if value not in arguments:
            raise UserError(f"{path} must be one of {', '.join(map(repr, arguments))}, not {value!r}.")
        return value
    if origin in (Union, types.UnionType):
        return convert_union(arguments, value, path)
    if origin is tuple:
        return convert_tuple(arguments, value, path)
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:  # not isinstance, which takes True for an int
        raise UserError(f"{path} must be of type {expected.__name__}, not {value!r}.")
    return value


def convert_schedule(value: Any, path: str) -> Schedule:
    """Returns the schedule that a text describes, or a constant one for a number."""
    if type(value) not in (str, int, float):
        raise UserError(f"{path} must be a number or the text of a schedule, not {value!r}.")
    try:
        return Schedule.parse(value)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def convert_union(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    """Returns `value` as the first type that accepts it; if none does, raises the UserError of the last."""
    if value is None and type(None) in arguments:
        return None
    *others, last = (argument for argument in arguments if argument is not type(None))
    for alternative in others:
        try:
            return convert(alternative, value, path)
        except UserError:
            continue
    return convert(last, value, path)


def convert_tuple(arguments: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    """Returns a list or tuple as a tuple of converted entries; raises UserError if its length is wrong."""
    if not isinstance(value, list | tuple):
        raise UserError(f"{path} must be a list, not {value!r}.")
    if len(value) > MOST_ENTRIES:
        raise UserError(f"{path} has {len(value)} entries; {MOST_ENTRIES} are the most.")
    kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
    if len(kinds) != len(value):
        raise UserError(f"{path} must have {len(kinds)} entries, not {len(value)}.")
    return tuple(
        convert(kind, item, f"{path}[{index}]")
        for index, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def join(path: str, name: str) -> str:
    """Returns the dotted name of setting `name` in group `path`, such as "train.steps"."""
    return f"{path}.{name}" if path else str(name)
