"""The hash of a key: typed, the same in every process, the one that Flink's Java keys have.

Answers to `hashCode` of the Java types that Flink keys by, and to Flink's `MathUtils.murmurHash`. Invariant: it depends
on the key's value and type alone, never on Python's own salted `hash`; equal typed keys have equal hashes (S8).

What the hash of each type is:

    None     0, as `Objects.hashCode`; only inside a tuple, for a key itself is never None
    bool     1231 or 1237, as `Boolean`
    int      as `Integer` where it fits one, else as `Long`, else as `BigInteger`
    float    as `Double`: 1.0 is another key than 1, 0.0 another than -0.0, and all NaN are one
    str      as `String`, over UTF-16 code units
    bytes    as `Arrays.hashCode(byte[])`
    tuple    as Flink's `Tuple2`...: 31 times what came before plus the next; a named tuple is a tuple

Deviation: a negative int of Python hashes as a Java `Integer`, although a Flink job may have declared it a `Long`;
of those that are not negative both hashes agree, and so do those that no `Integer` holds.
"""

from __future__ import annotations

import struct
from functools import reduce

__all__ = ["HashableKey", "java_hash", "murmur_hash"]

HashableKey = None | bool | int | float | str | bytes | tuple["HashableKey", ...]
"""What a key may be made of."""

_WORD = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_INTEGER_MIN, _INTEGER_MAX = -(2**31), 2**31 - 1
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_TRUE, _FALSE = 1231, 1237
_NAN_BITS = 0x7FF8_0000_0000_0000


def java_hash(key: HashableKey) -> int:
    """The signed 32-bit hash of `key`; TypeError for what cannot be a key."""
    return _signed(_hash(key))


def murmur_hash(code: int) -> int:
    """Spread the 32-bit hash `code` over 0..2^31-1: one round of Murmur3 with seed 0, made non-negative (S8)."""
    code = code * 0xCC9E2D51 & _WORD
    code = (code << 15 | code >> 17) & _WORD
    code = code * 0x1B873593 & _WORD
    code = (code << 13 | code >> 19) & _WORD
    code = code * 5 + 0xE6546B64 & _WORD
    code ^= 4  # the number of bytes hashed
    code ^= code >> 16
    code = code * 0x85EBCA6B & _WORD
    code ^= code >> 13
    code = code * 0xC2B2AE35 & _WORD
    code ^= code >> 16
    if code < _SIGN:
        return code
    return (
        0 if code == _SIGN else (1 << 32) - code
    )  # as Math.abs, but for the one number that has no negative


def _hash(key: HashableKey) -> int:
    """Any representative, modulo 2^32, of the hash."""
    match key:
        case None:
            return 0
        case bool():
            return _TRUE if key else _FALSE
        case int():
            return _hash_of_int(key)
        case str():
            return _hash_of_str(key)
        case float():
            return _folded(_NAN_BITS if key != key else _bits(key))  # noqa: PLR0124  # what a NaN is known by
        case bytes():
            return reduce(lambda code, byte: 31 * code + byte - (byte >> 7 << 8) & _WORD, key, 1)
        case tuple():
            return reduce(lambda code, field: 31 * code + _hash(field) & _WORD, key, 0)
    raise TypeError(
        f"a key is made of {type(key).__name__}, whose hash Python does not promise to be the same in the next process;"
        " make it of int, str, bytes, bool, float, None and tuples of those",
    )


def _hash_of_int(key: int) -> int:
    if _INTEGER_MIN <= key <= _INTEGER_MAX:
        return key
    if _LONG_MIN <= key <= _LONG_MAX:
        return _folded(key & (1 << 64) - 1)
    code, magnitude = 0, abs(key)
    for shift in range((magnitude.bit_length() - 1) // 32 * 32, -1, -32):
        code = 31 * code + (magnitude >> shift & _WORD) & _WORD
    return code if key > 0 else -code


def _hash_of_str(key: str) -> int:
    code = 0
    if key.isascii():
        for unit in key.encode("ascii"):
            code = 31 * code + unit & _WORD
    else:
        for unit in memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H"):
            code = 31 * code + unit & _WORD
    return code


def _bits(number: float) -> int:
    return int(struct.unpack(">Q", struct.pack(">d", number))[0])


def _folded(bits: int) -> int:
    """64 bits in 32."""
    return (bits ^ bits >> 32) & _WORD


def _signed(code: int) -> int:
    code &= _WORD
    return code - (1 << 32) if code >= _SIGN else code
