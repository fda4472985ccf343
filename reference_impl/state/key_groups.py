"""Keys: their identity and hash, their key groups and the subtasks that own those, and the current key.

Answers to Flink's `KeyGroupRange`, `KeyGroupRangeAssignment`, `MathUtils.murmurHash` and `InternalKeyContext`, and to
Java's `equals` and `hashCode` for the types that Flink keys by. Invariant: at any parallelism from 1 to the maximum,
the ranges of the subtasks cover all key groups without gap or overlap, and the owner of a key group is the subtask
whose range contains it (S8).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

from reference_impl.errors import StateError
from reference_impl.state.serializer import ANY, UNENCODABLE, PlainSerializer, serializer_for

Identity = int | str | bytes
"""An int or a str is its own identity; other plain values have bytes."""

SPREAD_BITS = 16
"""The number of bits that `spread_of` returns."""
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
"""The range of integers that msgpack, in which snapshots are written, encodes as signed."""
_GOLDEN_RATIO = 0x9E37_79B9_7F4A_7C15
"""2^64 divided by the golden ratio; its multiples are evenly spread."""
_NAN = float("nan")

_plain = PlainSerializer()


def identity_of(value: Any) -> Identity:
    """Identifies a key, a namespace or a map key by value and type; TypeError if `value` is not plain.

    Answers to Java's `equals`. In a Python dict 1, 1.0 and True are one key; here they are three. Invariant: two
    identities are equal if and only if the values are equal and have the same type at every depth, in every process.
    """
    kind = type(value)
    if kind is str or (kind is int and _INT_MIN <= value <= _INT_MAX):
        return value  # type: ignore[no-any-return]  # an int or str
    if kind is float and value != value:  # noqa: PLR0124  # true for NaN only; Flink treats all NaN as one
        return _plain.encode(_NAN)
    return _plain.encode(value)


def value_of(identity: Identity) -> Any:
    """The value with that identity."""
    return _plain.decode(identity) if type(identity) is bytes else identity


def spread_of(identity: Identity) -> int:
    """Sixteen bits that differ for most identities and place it within its key group.

    Raises UnicodeEncodeError for a string that a snapshot could not hold.
    """
    if type(identity) is int:
        return identity * _GOLDEN_RATIO >> 48 & 0xFFFF
    data = identity.encode() if type(identity) is str else identity
    return zlib.crc32(data) >> 16  # type: ignore[arg-type]  # bytes


HashableKey = None | bool | int | float | str | bytes | tuple["HashableKey", ...]
"""What a key may consist of."""

_WORD = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_INTEGER_MIN, _INTEGER_MAX = -(2**31), 2**31 - 1
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_TRUE, _FALSE = 1231, 1237
_NAN_BITS = 0x7FF8_0000_0000_0000


def java_hash(key: HashableKey) -> int:
    """The signed 32-bit hash that Flink's Java key has, the same in every process; TypeError for what cannot be a key.

    Answers to `hashCode` of the Java types that Flink keys by. Invariant: it depends only on the key's value and type,
    never on Python's salted `hash`; equal keys of the same type have equal hashes (S8).

    The hash by type:

        None     0, as `Objects.hashCode`; only inside a tuple, since a key itself is never None
        bool     1231 or 1237, as `Boolean`
        int      as `Integer` if it fits, else as `Long`, else as `BigInteger`
        float    as `Double`: 1.0 differs from 1, 0.0 from -0.0, and all NaN are equal
        str      as `String`, over UTF-16 code units
        bytes    as `Arrays.hashCode(byte[])`
        tuple    as Flink's `Tuple2`...: 31 times the hash so far plus the next; named tuples too

    Difference from Flink: a negative int hashes as a Java `Integer`, even where a Flink job would declare it `Long`.
    For other ints both hashes agree, or only `Long` can hold them.
    """
    code = _hash(key) & _WORD
    return code - (1 << 32) if code >= _SIGN else code


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
    return 0 if code == _SIGN else (1 << 32) - code  # `Math.abs`, except for the minimum


def _hash(key: HashableKey) -> int:
    """The hash modulo 2^32."""
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
            bits = struct.unpack(">Q", struct.pack(">d", key))[0]
            return _folded(_NAN_BITS if key != key else bits)  # noqa: PLR0124  # true for NaN only
        case bytes():
            return reduce(lambda code, byte: 31 * code + byte - (byte >> 7 << 8) & _WORD, key, 1)
        case tuple():
            return reduce(lambda code, field: 31 * code + _hash(field) & _WORD, key, 0)
    raise TypeError(
        f"a key contains {type(key).__name__}, whose hash in Python may differ between processes;"
        " use int, str, bytes, bool, float, None and tuples of those",
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


def _folded(bits: int) -> int:
    """Fold 64 bits into 32, as Java does."""
    return (bits ^ bits >> 32) & _WORD


DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
"""The least default for the maximum parallelism, so that small jobs can grow."""
UPPER_BOUND_MAX_PARALLELISM = 1 << 15
"""The highest number of key groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroupRange:
    """The key groups from `start` to `end`, inclusive; empty if `end` is `start` - 1."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start - 1:
            raise ValueError(
                f"the key groups {self.start} to {self.end} are no range; give 0 <= start and start - 1 <= end"
            )

    def __len__(self) -> int:
        return self.end - self.start + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end + 1))

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.start <= key_group <= self.end

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}]"

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange:
        """The common key groups, possibly none."""
        start = max(self.start, other.start)
        return KeyGroupRange(start=start, end=max(min(self.end, other.end), start - 1))


def assign_to_key_group(key: HashableKey, max_parallelism: int) -> int:
    """The key group of `key`."""
    return compute_key_group_for_key_hash(java_hash(key), max_parallelism)


def compute_key_group_for_key_hash(key_hash: int, max_parallelism: int) -> int:
    """The key group of a key with that hash."""
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        check_parallelism(max_parallelism)
    return murmur_hash(key_hash) % max_parallelism


def assign_key_to_parallel_operator(key: HashableKey, max_parallelism: int, parallelism: int) -> int:
    """The index of the subtask that processes the records of `key`."""
    key_group = assign_to_key_group(key, max_parallelism)
    return compute_operator_index_for_key_group(max_parallelism, parallelism, key_group)


def compute_operator_index_for_key_group(max_parallelism: int, parallelism: int, key_group: int) -> int:
    """The index of the subtask that owns `key_group`."""
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= key_group < max_parallelism:
        raise ValueError(f"there is no key group {key_group}; they are 0 to {max_parallelism - 1}")
    return key_group * parallelism // max_parallelism


def compute_key_group_range_for_operator_index(
    max_parallelism: int, parallelism: int, operator_index: int
) -> KeyGroupRange:
    """The key groups of the subtask with that index; never empty, as there are at least as many as subtasks."""
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= operator_index < parallelism:
        raise ValueError(f"there is no subtask {operator_index}; they are 0 to {parallelism - 1}")
    start = (operator_index * max_parallelism + parallelism - 1) // parallelism
    end = ((operator_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start=start, end=end)


def compute_default_max_parallelism(parallelism: int) -> int:
    """The default maximum for that parallelism: 1.5 times as much, rounded up to a power of two, within bounds."""
    check_parallelism(UPPER_BOUND_MAX_PARALLELISM, parallelism)
    half_as_much_again = parallelism + parallelism // 2
    power_of_two = 1 << (half_as_much_again - 1).bit_length()
    return min(max(power_of_two, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def check_parallelism(max_parallelism: int, parallelism: int = 1, *, operator: str | None = None) -> None:
    """Raise ValueError, naming the operator, unless 1 <= parallelism <= max_parallelism <= 32768."""
    whose = "" if operator is None else f"operator {operator!r}: "
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(
            f"{whose}the maximum parallelism is {max_parallelism}; give 1 to {UPPER_BOUND_MAX_PARALLELISM}"
        )
    if not 1 <= parallelism <= max_parallelism:
        raise ValueError(
            f"{whose}the parallelism is {parallelism}; give 1 to {max_parallelism}, the maximum of this operator,"
            " which is fixed for the life of its keyed state",
        )


_REMEMBERED_KEYS = 1 << 17
"""Positions of this many keys are cached, in some 20 MB at most."""


class InternalKeyContext:
    """The current key of one operator and its position. Mutable: each record selects its key.

    Answers to Flink's `InternalKeyContext`. Invariant: the current key is in this subtask's key groups; another
    subtask's key is refused when it is selected, before any state is accessed (S1, S8).
    """

    def __init__(
        self, *, operator: str, key_group_range: KeyGroupRange, max_parallelism: int, key_type: object = Any
    ) -> None:
        check_parallelism(max_parallelism, operator=operator)
        if not len(key_group_range) or key_group_range.end >= max_parallelism:
            raise ValueError(
                f"operator {operator!r}: the key groups {key_group_range} are not among those"
                f" of maximum parallelism {max_parallelism}, which are 0 to {max_parallelism - 1}"
            )
        self.operator = operator
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self.key_serializer = serializer_for(key_type)
        self.current_key: HashableKey = None
        """None if no key is selected."""
        self.identity: Identity = b""
        """Identity of the current key."""
        self.position: int | None = None
        """The key's group, counted from this subtask's first, followed by its spread; None without a key."""
        self.on_key_selected: list[Callable[[], None]] = []
        """Called after each selection of a key, for clean-up that runs with each record (S16)."""
        self._placed = lru_cache(maxsize=_REMEMBERED_KEYS)(self._place)
        """Used for ints and strings only, whose cache keys cannot be confused with other types."""

    def set_current_key(self, key: HashableKey) -> None:
        """Select the key of the following accesses; StateError if it is no key, or another subtask's."""
        kind = type(key)
        self.identity, self.position = (self._placed if kind is int or kind is str else self._place)(key)
        self.current_key = key
        if self.on_key_selected:
            for selected in self.on_key_selected:
                selected()

    def select_none(self) -> None:
        """Select no key; state accesses are then refused (S1)."""
        self.current_key, self.identity, self.position = None, b"", None

    @contextmanager
    def selection_kept(self) -> Iterator[None]:
        """Restore the current selection at the end of the block."""
        before = self.current_key, self.identity, self.position
        try:
            yield
        finally:
            self.current_key, self.identity, self.position = before

    def place(self, key: HashableKey) -> tuple[Identity, int]:
        """The identity and position of a key of this subtask."""
        kind = type(key)
        return self._placed(key) if kind is int or kind is str else self._place(key)

    @property
    def current_key_group(self) -> int:
        if self.position is None:
            raise self.no_key()
        return self.key_group_range.start + (self.position >> SPREAD_BITS)

    def no_key(self, state: str | None = None) -> StateError:
        """The error for a state access without a selected key."""
        return StateError(
            "no key is set, so no state can be accessed; call this method in a keyed context,"
            " after set_current_key(key)",
            operator=self.operator,
            state=state,
        )

    def position_of(self, identity: Identity, key_group: int) -> int:
        """The position of a key in a state's map; positions are ordered by key group."""
        return (key_group - self.key_group_range.start) << SPREAD_BITS | spread_of(identity)

    def _place(self, key: HashableKey) -> tuple[Identity, int]:
        if key is None:
            raise StateError("a key is never None; let the key selector give one", operator=self.operator)
        try:
            key_group = assign_to_key_group(key, self.max_parallelism)
            identity = identity_of(key)
            position = self.position_of(identity, key_group)
            if self.key_serializer.schema != ANY:
                self.key_serializer.encode(key)
        except UNENCODABLE as error:
            raise StateError(f"{key!r} cannot be a key: {error}", operator=self.operator) from None
        if key_group not in self.key_group_range:
            raise StateError(
                f"key {key!r} is of key group {key_group}, and this subtask has {self.key_group_range};"
                " partition the stream by the same key and the same maximum parallelism",
                operator=self.operator,
            )
        return identity, position
