"""A value with the time of its last access, and how the two are stored.

Answers to Flink's `TtlValue`. Invariant: the timestamp is the first eight bytes, so it can be read, added and removed
without decoding the value (S11, S17).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from reference_impl.state.schema import Schema

_STAMP_BYTES = 8


class TtlValue(Struct, frozen=True):
    """A value of a state with a time to live."""

    value: Any
    last_access_ms: int


def stamped(data: bytes, last_access_ms: int) -> bytes:
    """Put the timestamp in front of an encoded value."""
    return last_access_ms.to_bytes(_STAMP_BYTES, "big", signed=True) + data


def last_access_of(data: bytes) -> int:
    """The timestamp of a stored value (ms)."""
    return int.from_bytes(data[:_STAMP_BYTES], "big", signed=True)


def unstamped(data: bytes, schema: Schema) -> tuple[bytes, Schema]:
    """The value and schema without timestamp, if they have one."""
    if schema.kind != "ttl":
        return data, schema
    return data[_STAMP_BYTES:], schema.parts[0]
