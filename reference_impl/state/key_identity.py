"""What tells a key, a namespace or a key of a map from every other: by value and by type.

Answers to what Java's `equals` gives Flink for nothing. To Python 1, 1.0 and True are one key of a dict; here they are
three. Invariant: two identities are equal if and only if the values are equal and of the same type at every depth, and
then so in every process.
"""

from __future__ import annotations

import zlib
from typing import Any

from reference_impl.state.plain_serializer import PlainSerializer

__all__ = ["SPREAD_BITS", "Identity", "identity_of", "spread_of", "value_of"]

Identity = int | str | bytes
"""An int or a string stands for itself, and bytes for any other plain value."""

SPREAD_BITS = 16
"""Of what `spread_of` gives."""
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
"""Ints beyond are no plain ones to msgpack, in which snapshots are written."""
_GOLDEN_RATIO = 0x9E37_79B9_7F4A_7C15
"""Of 2^64: multiples of it lie evenly spread."""
_NAN = float("nan")

_plain = PlainSerializer()


def identity_of(value: Any) -> Identity:
    """The identity of `value`; TypeError if it is no plain value."""
    kind = type(value)
    if kind is str or (kind is int and _INT_MIN <= value <= _INT_MAX):
        return value  # type: ignore[no-any-return]  # looked at just now
    if kind is float and value != value:  # noqa: PLR0124  # what a NaN is known by; to Flink all are one
        return _plain.encode(_NAN)
    return _plain.encode(value)


def value_of(identity: Identity) -> Any:
    """The value whose identity it is."""
    return _plain.decode(identity) if type(identity) is bytes else identity


def spread_of(identity: Identity) -> int:
    """Sixteen bits that differ for most identities: which part of its key group it lies in.

    UnicodeEncodeError for a string that no snapshot could hold.
    """
    if type(identity) is int:
        return identity * _GOLDEN_RATIO >> 48 & 0xFFFF
    data = identity.encode() if type(identity) is str else identity
    return zlib.crc32(data) >> 16  # type: ignore[arg-type]  # bytes by now
