"""Serializers for the values of a state: of declared types, and of any plain value.

Answers to Flink's `TypeSerializer` and `KryoSerializer`. Invariant: whatever is encoded can be decoded, so a value of
the wrong type is refused when it is written, not when it is read after a restore; decoding creates a new value each
time, so no caller shares an object with the state (S3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec
from msgspec import msgpack

from reference_impl.state.schema import ANY, Schema, schema_of
from reference_impl.state.ttl_value import unstamped

UNENCODABLE = (TypeError, OverflowError, UnicodeEncodeError)
"""What `encode` may raise: for a wrong type, an int beyond 64 bits, or a string with half a surrogate pair."""


class TypeSerializer(Protocol):
    """Serializes one declared type."""

    @property
    def schema(self) -> Schema: ...

    def encode(self, value: Any) -> bytes:
        """Raises one of `UNENCODABLE` for a value of another type."""

    def decode(self, data: bytes) -> Any:
        """A new value, equal to the encoded one."""

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Rewrite what was stored as `old`, which must be compatible after migration."""


_SCALARS = {"bool": bool, "int": int, "str": str, "bytes": bytes}
_RECORDS = frozenset({"record", "array record"})


def serializer_for(declared: object) -> TypeSerializer:
    """The serializer for a type annotation; `PlainSerializer` if it contains Any but no user-defined type."""
    schema = schema_of(declared)
    kinds = schema.kinds
    if "any" in kinds and _RECORDS.isdisjoint(kinds):
        return PlainSerializer(schema)
    if schema.kind in _SCALARS:
        return ScalarSerializer(_SCALARS[schema.kind], schema)
    return TypedSerializer(declared, schema)


class TypedSerializer:
    """Any composed type, through msgspec.

    A part declared as Any is decoded as msgpack does: a tuple becomes a list.
    """

    def __init__(self, declared: object, schema: Schema) -> None:
        self.schema = schema
        has_sets = not {"set", "frozenset"}.isdisjoint(schema.kinds)
        self._encode = msgpack.Encoder(order="deterministic" if has_sets else None).encode
        self.decode: Callable[[bytes], Any] = msgpack.Decoder(declared).decode

    def encode(self, value: object) -> bytes:
        """Decodes at once what it has encoded, since msgspec's encoder does not check types."""
        data = self._encode(value)
        try:
            self.decode(data)
        except msgspec.ValidationError as error:
            raise TypeError(f"{value!r} is no {self.schema}: {error}") from None
        return data

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Decode as the new type and encode again."""
        value, _ = unstamped(data, old)
        return self._encode(self.decode(value))


class ScalarSerializer:
    """A type whose values all have exactly one class, so an encoded value need not be decoded to be checked."""

    def __init__(self, kind: type, schema: Schema) -> None:
        self.schema = schema
        self._kind = kind
        self._encode = msgpack.Encoder().encode
        self.decode: Callable[[bytes], Any] = msgpack.Decoder(kind).decode

    def encode(self, value: object) -> bytes:
        """Raises TypeError also for a bool where an int was declared."""
        if type(value) is not self._kind:
            raise TypeError(f"{value!r} is no {self.schema}")
        return self._encode(value)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Only removes the timestamp: no other type can become one of these."""
        value, _ = unstamped(data, old)
        return value


_TUPLE, _SET, _FROZENSET, _BIG_INT, _DICT = range(1, 6)
"""Extension codes for the types that msgpack does not have."""
_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
"""The range of msgpack's integers."""


class PlainSerializer:
    """Any plain value, with its exact type restored: for states that declare no type.

    Plain values are None, bool, int of any size, float, str, bytes, and list, tuple, dict, set, frozenset of them.

    Answers to Flink's `KryoSerializer`, which serves types without a serializer of their own. Invariant: a decoded
    value is equal and has the same type at every depth, a tuple stays a tuple and True is not 1; equal sets have equal
    bytes in every process. Reading executes no code, unlike pickle.
    """

    def __init__(self, schema: Schema = ANY) -> None:
        self.schema = schema

    def encode(self, value: object) -> bytes:
        """Raises TypeError for anything but plain values."""
        return _encode(_packed(value))

    def decode(self, data: bytes) -> Any:
        return _decode(data)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        value, _ = unstamped(data, old)
        return value


def _packed(value: Any) -> Any:
    """The value in types that msgpack has."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if _INT_MIN <= value <= _INT_MAX else msgpack.Ext(_BIG_INT, str(value).encode())
    if kind is list:
        return [_packed(item) for item in value]
    if kind is tuple:
        return _extended(_TUPLE, map(_packed, value))
    if kind is dict:
        return _extended(_DICT, (_packed(part) for item in value.items() for part in item))
    if kind is set or kind is frozenset:
        items = sorted(_encode(_packed(item)) for item in value)
        return msgpack.Ext(_SET if kind is set else _FROZENSET, _encode(items))
    raise TypeError(
        f"a {kind.__name__} is no plain value; declare the state's type, so that it can be stored and read back"
    )


def _extended(code: int, items: Iterable[object]) -> msgpack.Ext:
    return msgpack.Ext(code, _encode(list(items)))


def _unpacked(code: int, data: memoryview) -> Any:
    match code:
        case 1:
            return tuple(_decode(data))
        case 2:
            return set(map(_decode, _decode(data)))
        case 3:
            return frozenset(map(_decode, _decode(data)))
        case 4:
            return int(bytes(data))
        case 5:
            parts = iter(_decode(data))
            return dict(zip(parts, parts, strict=True))
    raise ValueError(f"a stored value has a part of kind {code}, which this version does not know")


_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(ext_hook=_unpacked).decode
