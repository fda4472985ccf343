"""Key groups: the unit in which keyed state moves between subtasks.

Answers to Flink's `KeyGroupRange` and `KeyGroupRangeAssignment`. Invariant: at any parallelism from 1 to the maximum
the ranges of the subtasks follow each other without gap or overlap, and the owner of a key group is the one subtask
whose range has it (S8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reference_impl.state.key_hash import HashableKey, java_hash, murmur_hash

__all__ = [
    "DEFAULT_LOWER_BOUND_MAX_PARALLELISM",
    "UPPER_BOUND_MAX_PARALLELISM",
    "KeyGroupRange",
    "assign_key_to_parallel_operator",
    "assign_to_key_group",
    "check_parallelism",
    "compute_default_max_parallelism",
    "compute_key_group_for_key_hash",
    "compute_key_group_range_for_operator_index",
    "compute_operator_index_for_key_group",
]

DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
"""What small jobs have as their maximum, so that they can grow."""
UPPER_BOUND_MAX_PARALLELISM = 1 << 15
"""No job has more key groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroupRange:
    """The key groups from `start` to `end`, both among them; none if `end` is `start` - 1."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start - 1:
            raise ValueError(
                f"the key groups {self.start} to {self.end} are no range; give 0 <= start <= end"
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
        """What both have; it may be none."""
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
    """The index of the subtask that gets the records of `key`."""
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
    """The key groups that the subtask with that index owns; never none, for there are as many as subtasks."""
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= operator_index < parallelism:
        raise ValueError(f"there is no subtask {operator_index}; they are 0 to {parallelism - 1}")
    start = (operator_index * max_parallelism + parallelism - 1) // parallelism
    end = ((operator_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start=start, end=end)


def compute_default_max_parallelism(parallelism: int) -> int:
    """The maximum of an operator that names none: half as much again as it has, as a power of two, within bounds."""
    check_parallelism(UPPER_BOUND_MAX_PARALLELISM, parallelism)
    half_as_much_again = parallelism + parallelism // 2
    power_of_two = 1 << (half_as_much_again - 1).bit_length()
    return min(max(power_of_two, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def check_parallelism(max_parallelism: int, parallelism: int = 1, *, operator: str | None = None) -> None:
    """ValueError, naming the operator, unless 1 <= parallelism <= max_parallelism <= 32768."""
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
