"""Defects of a rescale: what is lost, doubled or given to the wrong subtask when state is split.

Answers to bugs of Flink's `StateAssignmentOperation` and of sources that assign partitions. Invariant: each entry is a
`Rescaling` that differs from it in one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from harness.sut.defects.defect import NEVER, Defect
from harness.sut.rescaling import IN_FLIGHT, KEY_GROUPS, KeptState, Rescaling
from harness.sut.variant import Variant
from reference_impl.state.internal_timers import TimersHandle
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.snapshots import Item, OperatorStateHandle

Given = Sequence[OperatorStateHandle | None]
Items = tuple[Item, ...]


def _with_in_flight(given: Given, change: Callable[[list[Items]], list[Items]]) -> Given:
    """The handles with other elements in flight."""
    held = [handle.states[IN_FLIGHT].items if handle else () for handle in given]
    return [
        handle
        and replace(
            handle,
            states={**handle.states, IN_FLIGHT: replace(handle.states[IN_FLIGHT], items=items)},
        )
        for handle, items in zip(given, change(held), strict=True)
    ]


class _LosesOne(Rescaling):
    """The last element of the first share that has any."""

    def redistributed(self, old: Sequence[OperatorStateHandle], to: int) -> Given:
        def change(held: list[Items]) -> list[Items]:
            place = next((place for place, items in enumerate(held) if items), 0)
            held[place] = held[place][:-1]
            return held

        return _with_in_flight(super().redistributed(old, to), change)


class _DoublesOne(Rescaling):
    """The first element of a share is also the last one of the share before; of a single share it is there twice."""

    def redistributed(self, old: Sequence[OperatorStateHandle], to: int) -> Given:
        def change(held: list[Items]) -> list[Items]:
            place = next((place for place, items in reversed(list(enumerate(held))) if items), 0)
            held[place - 1] = (*held[place - 1], *held[place][:1])
            return held

        return _with_in_flight(super().redistributed(old, to), change)


class _Reverses(Rescaling):
    def redistributed(self, old: Sequence[OperatorStateHandle], to: int) -> Given:
        return _with_in_flight(super().redistributed(old, to), lambda held: [items[::-1] for items in held])


class _OwnsOneMore(Rescaling):
    """Each range but the first begins one key group too early."""

    def owned(self, index: int, parallelism: int) -> KeyGroupRange:
        right = super().owned(index, parallelism)
        return KeyGroupRange(start=max(0, right.start - 1), end=right.end)


class _OwnsOneLess(Rescaling):
    """The last range ends one key group too early."""

    def owned(self, index: int, parallelism: int) -> KeyGroupRange:
        right = super().owned(index, parallelism)
        return KeyGroupRange(start=right.start, end=min(right.end, KEY_GROUPS - 2))


class _LeavesTimers(Rescaling):
    def timers(self, old: Sequence[KeptState], owned: KeyGroupRange) -> TimersHandle | None:
        del old, owned
        return None


class _KeepsStateInPlace(Rescaling):
    """A new subtask takes the values of one old subtask alone."""

    def keyed_state(self, old: Sequence[KeptState], owned: KeyGroupRange) -> KeptState:
        return super().keyed_state(old[:1], owned)


class _OneLate(Rescaling):
    def places(self, every: Mapping[int, int], owned: KeyGroupRange) -> dict[int, int]:
        return {part: at + 1 for part, at in super().places(every, owned).items()}


class _OneEarly(Rescaling):
    def places(self, every: Mapping[int, int], owned: KeyGroupRange) -> dict[int, int]:
        return {part: max(0, at - 1) for part, at in super().places(every, owned).items()}


def _defect(
    name: str,
    about: str,
    mirrors: str,
    *,
    wrong: type[Rescaling],
    by: tuple[str, ...],
    scenario: str,
) -> Defect:
    return Defect(
        name=name,
        about=about,
        mirrors=mirrors,
        convicted_by=by,
        variant=Variant(rescaling=wrong),
        where=f"`{scenario}`",
        applies=NEVER,
        scenario=scenario,
    )


OF_RESCALING = (
    _defect(
        "split-loses-one",
        "of the elements in flight one reaches no subtask when they are split",
        "a split whose bounds leave one out",
        wrong=_LosesOne,
        by=("V8", "V11"),
        scenario="rescale-grows",
    ),
    _defect(
        "split-doubles-one",
        "an element in flight is in two shares when they are split",
        "a split whose bounds overlap",
        wrong=_DoublesOne,
        by=("V8", "V11"),
        scenario="rescale-shrinks",
    ),
    _defect(
        "share-restored-in-reverse",
        "each share of the elements in flight is restored from its end",
        "a split that fills its parts like stacks",
        wrong=_Reverses,
        by=("V11",),
        scenario="rescale-crashes",
    ),
    _defect(
        "key-group-owned-twice",
        "after a rescale two subtasks own one key group and read its partition",
        "ranges that are rounded down at both ends",
        wrong=_OwnsOneMore,
        by=("V8", "V11"),
        scenario="rescale-twice",
    ),
    _defect(
        "key-group-owned-by-none",
        "after a rescale no subtask owns the last key group, and its partition is not read",
        "a range that is taken for half open",
        wrong=_OwnsOneLess,
        by=("V23",),
        scenario="rescale-to-one",
    ),
    _defect(
        "timer-left-behind",
        "a rescale moves the values of keys, and not their timers",
        "timers that are restored only by the subtask that set them",
        wrong=_LeavesTimers,
        by=("V8",),
        scenario="rescale-sessions",
    ),
    _defect(
        "state-of-one-subtask",
        "after a rescale each subtask has the values of the first old subtask alone",
        "a restore that reads one handle of several",
        wrong=_KeepsStateInPlace,
        by=("V8",),
        scenario="rescale-sessions-of-one-input",
    ),
    _defect(
        "partition-place-one-late",
        "after a rescale each partition is read from one place too late",
        "an offset that is taken for the last one read",
        wrong=_OneLate,
        by=("V11",),
        scenario="rescale-idempotent",
    ),
    _defect(
        "partition-place-one-early",
        "after a rescale each partition is read from the last place again",
        "an offset that is taken for the next one to read",
        wrong=_OneEarly,
        by=("V8", "V11"),
        scenario="rescale-unordered",
    ),
)
