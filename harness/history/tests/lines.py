"""Lines of a run's files, made with the fields that a test is about."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

L = TypeVar("L", bound=msgspec.Struct)


def line(kind: type[L], t: int = 0, /, **fields: Any) -> L:
    """A line of attempt 1 of subtask 1; the required fields that are not given are None."""
    known = msgspec.structs.fields(kind)
    given = {"n": t, "t": t, "s": 1, "a": 1, **fields}
    required = {field.name: None for field in known if field.required}
    return kind(**required | {field.name: given[field.name] for field in known if field.name in given})
