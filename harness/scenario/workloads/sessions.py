"""The stamps that a keyed task must give to records, computed from the source alone.

Answers to the expected state in Elle. Invariant: no code of the task is used here, so a state update or timer that the
task loses, repeats or applies to a wrong key shows as a wrong stamp (V8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.scenario.model import Task
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.partitions import PartitionedSource
from harness.scenario.workloads.shape import Key, Lookup, MarkOfTime

Stamp = Mapping[str, int | bool]
"""The stamp of a record: the `nth` of its key, the `of_input`-th of its key on its input, the `place`-th in the
`session`-th session of its key. With a `ttl`, the first two count what has not expired. With a task behind that is
`joined`: whether it is `late` there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBefore:
    """What a subtask read that a rescale ended: the state of its keys went to the subtasks that follow."""

    source: LookupSource
    inputs: Inputs
    first: int
    """The first position that it read."""
    cut: int
    """The position at which it was cut."""
    before: Sequence[SourceBefore] = ()


def session_stamps(
    source: LookupSource, inputs: Inputs, *, task: Task, before: Sequence[SourceBefore] = ()
) -> dict[int, Stamp]:
    """The stamp that a keyed task must give each record, by record id; `before`: what others read before a rescale.

    The model has no checkpoints and no crashes.
    """
    first = (
        source.inherited if isinstance(source, PartitionedSource) else 0
    )  # those went through the task before
    return _stamped(source, inputs, task=task, before=before, first=first, cut=len(source))[0]


def _stamped(
    source: LookupSource,
    inputs: Inputs,
    *,
    task: Task,
    before: Sequence[SourceBefore],
    first: int,
    cut: int,
) -> tuple[dict[int, Stamp], _Counts, _Sessions]:
    """The stamps of the elements from position `first` to before `cut`, and the state after them."""
    stamps: dict[int, Stamp] = {}
    counts, sessions = _Counts(task.ttl), _Sessions(task.gap)
    inherited = {lookup.key for lookup, _ in source.records} if before else set()
    for old in before:
        _, their_counts, their_sessions = _stamped(
            old.source, old.inputs, task=task, before=old.before, first=old.first, cut=old.cut
        )
        counts.inherit(their_counts, inherited)
        sessions.inherit(their_sessions, inherited)
    by_clock = task.timers == "processing-time"
    # The watermark of the task behind, which has a second input: that says the next step above each of our watermarks.
    # While we are idle it counts alone, and we count again once we have caught up with it (W2).
    joined_ms = -1
    for position in range(first, cut):
        clock_ms = inputs.clock_ms(position)
        if by_clock:
            sessions.end_until(clock_ms)
        match source[position]:
            case MarkOfTime(timestamp=mark):
                if not by_clock:
                    sessions.end_until(inputs.combined(mark))
                if task.joined:
                    reached_ms = inputs.combined(mark)
                    if inputs.all_fall_idle(position):
                        reached_ms = (reached_ms // task.joined + 1) * task.joined
                    joined_ms = max(joined_ms, reached_ms)
            case (lookup, ts):
                assert ts is not None, "each record of a keyed task has an event time"
                stamps[lookup.id] = {
                    **counts.add(lookup.key, inputs.of_record(lookup), clock_ms=clock_ms),
                    **sessions.add(lookup.key, at_ms=clock_ms if by_clock else ts),
                    **({"late": ts <= joined_ms} if task.joined else {}),
                }
    return stamps, counts, sessions


class _Counts:
    """The expected counts of each key on each input. Mutable."""

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._counted: dict[Key, dict[int, tuple[int, int]]] = {}
        """By key and input: the count, and when it changed."""

    def inherit(self, other: _Counts, keys: Collection[Key]) -> None:
        """Take over the counts of `keys`."""
        self._counted.update({key: dict(of) for key, of in other._counted.items() if key in keys})

    def add(self, key: Key, number: int, *, clock_ms: int) -> Stamp:
        living = {
            of: (count, changed_ms)
            for of, (count, changed_ms) in self._counted.get(key, {}).items()
            if not self._ttl_ms or clock_ms < changed_ms + self._ttl_ms
        }
        before, _ = living.get(number, (0, 0))
        living[number] = (before + 1, clock_ms)
        self._counted[key] = living
        return {"nth": sum(count for count, _ in living.values()), "of_input": before + 1}


class _Sessions:
    """The expected sessions of each key. Mutable."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms
        self._ended, self._place = Counter[Key](), Counter[Key]()
        self._ends_ms: dict[Key, int] = {}
        """The end of each key's open session."""

    def inherit(self, other: _Sessions, keys: Collection[Key]) -> None:
        """Take over the sessions of `keys`."""
        for mine, theirs in (
            (self._ended, other._ended),
            (self._place, other._place),
            (self._ends_ms, other._ends_ms),
        ):
            mine.update({key: of for key, of in theirs.items() if key in keys})

    def end_until(self, now_ms: int) -> None:
        for key in [key for key, end_ms in self._ends_ms.items() if end_ms <= now_ms]:
            del self._ends_ms[key], self._place[key]
            self._ended[key] += 1

    def add(self, key: Key, *, at_ms: int) -> Stamp:
        self._place[key] += 1
        self._ends_ms[key] = max(self._ends_ms.get(key, at_ms), at_ms + self._gap_ms)
        return {"session": self._ended[key] + 1, "place": self._place[key]}


def expect_stamped(
    answers: Callable[[Lookup], Sequence[object] | None], stamps: Mapping[int, Stamp]
) -> Callable[[Lookup], Sequence[object] | None]:
    """The results of a lookup with the stamp added in front; None: they are not known."""

    def stamped(lookup: Lookup) -> Sequence[object] | None:
        known = answers(lookup)
        return (
            None
            if known is None
            else [
                {**stamps[lookup.id], **(answer if isinstance(answer, dict) else {"value": answer})}
                for answer in known
            ]
        )

    return stamped
