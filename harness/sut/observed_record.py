"""Records that note which of their attributes a user's function reads.

Invariant: such a record is an instance of its kind and equal in every attribute; a function that reads it by other
means (C code of a serializer) is not noticed, which a second call with another record of the key makes up for.
"""

from __future__ import annotations

from typing import Any, Final

from harness.workloads.shape import Lookup

__all__ = ["OF_KEY", "observing"]

OF_KEY: Final = frozenset({"key", "service_ms", "row_bytes", "__class__"})
"""What a function may read of a record and still depend on its key alone: how long the database takes, and how much it
pads, decides no result."""


def observing(kind: type[Lookup], read: set[str]) -> type[Lookup]:
    """A kind of record that adds to `read` the name of each attribute that is read of it."""

    class Observed(kind, frozen=True, kw_only=True):  # type: ignore[misc,valid-type]  # mypy knows no such base
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            read.add("__repr__")
            return super().__repr__()

    Observed.__name__ = Observed.__qualname__ = kind.__name__
    return Observed
