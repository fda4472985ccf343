"""Any plain value as bytes, and back with its very type: for states that declare none.

Answers to Flink's `KryoSerializer`, the one for whatever has no other. Invariant: a value comes back equal and of the
same type at every depth, a tuple a tuple, True not 1; equal sets are equal bytes in every process. Nothing is ever
executed in reading it, as pickle would.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import msgpack

from reference_impl.state.schema import ANY, Compatibility, Schema, compatibility
from reference_impl.state.ttl_value import unstamped

__all__ = ["PlainSerializer"]

_TUPLE, _SET, _FROZENSET, _BIG_INT, _DICT = range(1, 6)
"""The kinds that msgpack has no form of its own for."""
_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
"""What msgpack has a form for."""


class PlainSerializer:
    """None, bool, int of any size, float, str, bytes, and list, tuple, dict, set, frozenset of them."""

    def __init__(self, schema: Schema = ANY) -> None:
        self.schema = schema

    def encode(self, value: Any) -> bytes:
        """TypeError for what is not plain."""
        return _encode(_packed(value))

    def decode(self, data: bytes) -> Any:
        """What was encoded."""
        return _decode(data)

    def compatibility_with(self, old: Schema) -> Compatibility:
        """How it could read what was stored as `old`."""
        return compatibility(new=self.schema, old=old)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """What was stored as `old`, in our form."""
        value, _ = unstamped(data, old)
        return value


def _packed(value: Any) -> Any:
    """The value in msgpack's own kinds."""
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
        return msgpack.Ext(_SET if kind is set else _FROZENSET, _encode(sorted(map(_encoded, value))))
    raise TypeError(
        f"a {kind.__name__} is no plain value; declare the state's type, so that it can be stored and read back"
    )


def _encoded(value: Any) -> bytes:
    return _encode(_packed(value))


def _extended(code: int, items: Iterable[Any]) -> msgpack.Ext:
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
