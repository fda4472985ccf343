"""How the values of a state become bytes and values again.

Answers to Flink's `TypeSerializer`. Invariant: what is encoded can be decoded, so a value of another type than was
declared is refused when it is written, not when it is read after a restore; decoding makes a new value each time, so
nobody shares one with the state (S3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from msgspec import msgpack

from reference_impl.state.plain_serializer import PlainSerializer
from reference_impl.state.schema import Compatibility, Schema, compatibility, schema_of
from reference_impl.state.ttl_value import unstamped

__all__ = ["UNENCODABLE", "ScalarSerializer", "TypeSerializer", "TypedSerializer", "serializer_for"]


UNENCODABLE = (TypeError, OverflowError, UnicodeEncodeError)
"""What `encode` may raise: for another type, an int beyond 64 bits where one is declared, half a surrogate pair."""


class TypeSerializer(Protocol):
    """One declared type."""

    @property
    def schema(self) -> Schema:
        """What it is, for the snapshot."""

    def encode(self, value: Any) -> bytes:
        """The value as bytes; one of `UNENCODABLE` if it is of another type."""

    def decode(self, data: bytes) -> Any:
        """A new value, equal to the one encoded."""

    def compatibility_with(self, old: Schema) -> Compatibility:
        """How it could read what was stored as `old`."""

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """What was stored as `old` in our form, where they are compatible after migration."""


_SCALARS = {"bool": bool, "int": int, "str": str, "bytes": bytes}
_RECORDS = frozenset({"record", "array record"})


def serializer_for(declared: Any) -> TypeSerializer:
    """The serializer of a type annotation; of plain values where it says Any, and nothing of a user's own types."""
    schema = schema_of(declared)
    kinds = schema.kinds
    if "any" in kinds and _RECORDS.isdisjoint(kinds):
        return PlainSerializer(schema)
    if schema.kind in _SCALARS:
        return ScalarSerializer(_SCALARS[schema.kind], schema)
    return TypedSerializer(declared, schema)


class TypedSerializer:
    """A composed type, by msgspec. What a record declares as Any comes back as msgpack has it: a tuple as a list."""

    def __init__(self, declared: Any, schema: Schema) -> None:
        self.schema = schema
        has_sets = not {"set", "frozenset"}.isdisjoint(schema.kinds)
        self._encode = msgpack.Encoder(order="deterministic" if has_sets else None).encode
        self.decode: Callable[[bytes], Any] = msgpack.Decoder(declared).decode

    def encode(self, value: Any) -> bytes:
        """Read back at once: an encoder writes whatever it is given."""
        data = self._encode(value)
        try:
            self.decode(data)
        except msgspec.ValidationError as error:
            raise TypeError(f"{value!r} is no {self.schema}: {error}") from None
        return data

    def compatibility_with(self, old: Schema) -> Compatibility:
        """How it could read what was stored as `old`."""
        return compatibility(new=self.schema, old=old)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Read as the new type, which `compatibility` has found possible, and written again."""
        value, _ = unstamped(data, old)
        return self._encode(self.decode(value))


class ScalarSerializer:
    """A type whose values are of exactly one class, so that there is nothing to read back."""

    def __init__(self, kind: type, schema: Schema) -> None:
        self.schema = schema
        self._kind = kind
        self._encode = msgpack.Encoder().encode
        self.decode: Callable[[bytes], Any] = msgpack.Decoder(kind).decode

    def encode(self, value: Any) -> bytes:
        """TypeError also for a bool where an int was declared."""
        if type(value) is not self._kind:
            raise TypeError(f"{value!r} is no {self.schema}")
        return self._encode(value)

    def compatibility_with(self, old: Schema) -> Compatibility:
        """How it could read what was stored as `old`."""
        return compatibility(new=self.schema, old=old)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Nothing widens to one of these but itself."""
        value, _ = unstamped(data, old)
        return value
