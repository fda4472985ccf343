"""What goes into a lookup and what comes out of it: records that note what is read of them, and results as a list.

Invariant: an observing record is an instance of its kind and equal in every attribute. What is read of it by other
means (C code of a serializer) is not noticed; a second call with another record of the key makes up for that.
"""

from __future__ import annotations

from typing import Any, Final

from harness.scenario.workloads.shape import Lookup

OF_KEY: Final = frozenset({"key", "service_ms", "row_bytes", "__class__"})
"""What a function may read of a record and still depend on its key alone: how long the database takes, and how much it
pads, decides no result."""


def observing(kind: type[Lookup], read: set[str]) -> type[Lookup]:
    """A kind of record that adds to `read` the name of each attribute that is read of it."""

    class Observed(kind, frozen=True, kw_only=True):  # type: ignore[call-arg,misc,valid-type]  # mypy knows no such base
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            read.add("__repr__")
            return str(super().__repr__())

    Observed.__name__ = Observed.__qualname__ = kind.__name__
    return Observed


def as_list(answer: object) -> list[Any]:
    """The results of a lookup: None is no result, any other single value one result."""
    if answer is None:
        return []
    return list(answer) if isinstance(answer, list | tuple) else [answer]
