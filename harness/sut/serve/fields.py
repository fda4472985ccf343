"""The fields of a JSON object, taken one by one, each with what it must be.

Invariant: every field is accounted for: one that is missing, that is not asked for, or that is of another type is
refused by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from harness.sut.serve.refusal import Code, Refusal

__all__ = ["Fields", "a_bool", "a_list", "a_text", "a_whole", "anything", "canonical", "one_of"]

_T = TypeVar("_T")
_SHOWN_MAX = 60
"""Characters of a wrong value that an error repeats."""


class Fields:
    """The fields of one object. Mutable: what was taken is gone."""

    def __init__(self, where: str, fields: Mapping[str, Any]) -> None:
        self._where = where
        self._left = dict(fields)

    def take(self, name: str, check: Callable[[str, Any], _T]) -> _T:
        """The value of a field that must be there."""
        if name not in self._left:
            raise Refusal(Code.BAD_ARGUMENT, f"{self._where} lacks the field {name!r}")
        return check(f"{self._where}: {name}", self._left.pop(name))

    def take_or(self, name: str, default: _T, check: Callable[[str, Any], _T]) -> _T:
        """The value of a field that may be left out."""
        return self.take(name, check) if name in self._left else default

    def end(self) -> None:
        """No other field may be there."""
        for name in self._left:
            raise Refusal(Code.BAD_ARGUMENT, f"{self._where} has no field {name!r}")


def anything(where: str, value: Any) -> Any:
    """Any JSON value."""
    del where
    return value


def a_bool(where: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(where, "true or false", value)
    return value


def a_text(where: str, value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise _wrong(where, "a string", value)
    return value


def a_list(where: str, value: Any) -> list[Any]:
    """An array."""
    if not isinstance(value, list):
        raise _wrong(where, "an array", value)
    return value


def a_whole(*, at_least: int | None = None, or_null: bool = False) -> Callable[[str, Any], Any]:
    """A whole number, of at least so much; perhaps null."""

    def check(where: str, value: Any) -> int | None:
        if value is None and or_null:
            return None
        if type(value) is not int or (at_least is not None and value < at_least):
            limit = "" if at_least is None else f" of at least {at_least}"
            raise _wrong(where, f"a whole number{limit}" + (" or null" if or_null else ""), value)
        return value

    return check


def one_of(*choices: str) -> Callable[[str, Any], str]:
    """One of these words."""

    def check(where: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(where, " or ".join(map(repr, choices)), value)
        return value

    return check


def canonical(value: Any) -> str:
    """Equal for equal JSON values, and for no others: 1, 1.0 and true are three."""
    return json.dumps(value, sort_keys=True)


def _wrong(where: str, wanted: str, value: Any) -> Refusal:
    shown = repr(value)
    if len(shown) > _SHOWN_MAX:
        shown = shown[:_SHOWN_MAX] + "..."
    return Refusal(Code.BAD_ARGUMENT, f"{where} must be {wanted}, not {shown}")
