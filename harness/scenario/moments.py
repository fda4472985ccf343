"""Moments: what has happened so far in a run, and which triggers have come by it; the same at every level.

The watch counts what it reads from the files of a run, an attempt what it reaches itself, a simulated run what any of
its attempts reaches. Invariant: whether a trigger has come follows from these counts alone; equal seed and fault give
the same drawn time at every level, and the draw of one fault moves no other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from harness.choices import Choices
from harness.faults.model.fault import Fault
from harness.history.follower import Progress
from harness.scenario_parts.triggers import At, Between, Call, CheckpointDone, Phase, RecordTaken, When

__all__ = ["Awaited", "Moments", "awaited", "due", "due_us", "instant_ms", "shown_by"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """What one fault waits for."""

    fault: str
    when: When
    subtask: int | None
    """The fault's own."""


def awaited(fault: Fault) -> Awaited:
    """What `fault` waits for."""
    return Awaited(fault=fault.id, when=fault.when, subtask=fault.of_subtask)


@dataclass(slots=True, kw_only=True)
class Moments:
    """Counts by subtask. Mutable: counts."""

    first_record_us: int | None = None
    """When the first record was taken."""
    calls: Counter[int] = field(default_factory=Counter)
    taken: Counter[int] = field(default_factory=Counter)
    """Records that the source has sent; one that it sends again after a restore counts again."""
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By subtask and checkpoint."""
    hits: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By subtask and phase, over the subtask's whole life."""
    stopped: Mapping[str, int] = field(default_factory=dict)
    """The faults for which an attempt has stopped itself at its phase."""

    @classmethod
    def of(cls, progress: Progress) -> Self:
        """The same counts as `progress`, for as long as it grows."""
        return cls(
            first_record_us=progress.first_record_us,
            calls=progress.calls,
            taken=progress.taken,
            commits=progress.commits,
            stopped=progress.stopped,
        )

    def reach(self, subtask: int, phase: str) -> int:
        """An attempt of `subtask` is at `phase`; for which time."""
        if phase == "call":
            self.calls[subtask] += 1
        self.hits[subtask, phase] += 1
        return self.hits[subtask, phase]


def shown_by(when: When) -> str:
    """The phase at which an attempt can see that `when` has come."""
    match when:
        case Phase(phase=phase):
            return phase
        case Call():
            return "call"
        case CheckpointDone():
            return "commit.post"
        case _:
            return "accept"


def due(waits: Awaited, moments: Moments) -> bool:
    """Whether the trigger has come; one that waits for a time comes by `due_us`."""
    match waits.when:
        case CheckpointDone(checkpoint=checkpoint, subtask=subtask):
            return any(c == checkpoint and subtask in {None, s} for s, c in moments.commits)
        case Call(call=call, subtask=subtask):
            return _count(moments.calls, subtask, whole=True) >= call
        case RecordTaken(record=record, subtask=subtask):
            of = waits.subtask if subtask is None else subtask
            return _count(moments.taken, of, whole=False) >= record
        case Phase(phase=phase, hit=hit):
            return waits.fault in moments.stopped or _hits(moments, phase, waits.subtask, hit)
        case _:
            return False


def _count(counts: Mapping[int, int], subtask: int | None, *, whole: bool) -> int:
    """That of `subtask`; of none named: that of all together, or the highest."""
    if subtask is not None:
        return counts.get(subtask, 0)
    return sum(counts.values()) if whole else max(counts.values(), default=0)


def _hits(moments: Moments, phase: str, subtask: int | None, hit: int) -> bool:
    """Whether `subtask`, or any if none is named, is at `phase` for the `hit`-th time."""
    if subtask is not None:
        return moments.hits[subtask, phase] == hit
    return any(count == hit and at == phase for (_, at), count in moments.hits.items())


def due_us(fault: Fault, moments: Moments, *, seed: int, now_us: int) -> int | None:
    """When `fault` is due for the first time; None: its trigger has not come."""
    after_ms = instant_ms(fault, seed=seed)
    if after_ms is None:
        return now_us if due(awaited(fault), moments) else None
    return None if moments.first_record_us is None else moments.first_record_us + after_ms * 1000


def instant_ms(fault: Fault, *, seed: int) -> int | None:
    """Milliseconds from the first record to the beginning of `fault`; None: it waits for no time."""
    match fault.when:
        case At(at=at):
            return at
        case Between(between=(earliest, latest)):
            return Choices(seed, f"begin of fault {fault.id}").between(earliest, latest)
        case _:
            return None
