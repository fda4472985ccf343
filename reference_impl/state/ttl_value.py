"""A value with the instant of its last access, and how the two are stored.

Answers to Flink's `TtlValue`. Invariant: the stamp stands in front, in eight bytes, so that whether a value has expired
can be told, and the stamp taken off or put on, without decoding the value (S11, S17).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from reference_impl.state.schema import Schema

__all__ = ["TtlValue", "last_access_of", "stamped", "unstamped"]

_STAMP_BYTES = 8


class TtlValue(Struct, frozen=True):
    """What a state with a time to live holds."""

    value: Any
    last_access_ms: int


def stamped(data: bytes, last_access_ms: int) -> bytes:
    """An encoded value, with its stamp."""
    return last_access_ms.to_bytes(_STAMP_BYTES, "big", signed=True) + data


def last_access_of(data: bytes) -> int:
    """The stamp of a stored value that has one (ms)."""
    return int.from_bytes(data[:_STAMP_BYTES], "big", signed=True)


def unstamped(data: bytes, schema: Schema) -> tuple[bytes, Schema]:
    """A stored value and its schema without the stamp, if it has one."""
    if schema.kind != "ttl":
        return data, schema
    return data[_STAMP_BYTES:], schema.parts[0]
