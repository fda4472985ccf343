"""Moments: counts of what has happened in a run, and which fault triggers they satisfy; the same at every level.

At real levels the harness counts the lines of a run's files and an attempt counts its own phases; a simulated run
counts all its attempts. Invariants: these counts alone decide whether a trigger has come; the drawn time of a fault
depends only on the seed and the fault's id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from harness.faults.model.fault import Fault
from harness.faults.parts.triggers import (
    At,
    Between,
    CallMade,
    CheckpointDone,
    MomentOfJob,
    Phase,
    RecordTaken,
    When,
)
from harness.history.follower import Progress
from harness.system.choices import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The trigger of one fault."""

    fault: str
    when: When
    subtask: int | None
    """The fault's own subtask."""


def awaited(fault: Fault) -> Awaited:
    return Awaited(fault=fault.id, when=fault.when, subtask=fault.of_subtask)


@dataclass(slots=True, kw_only=True)
class Moments:
    """Counts by subtask. Mutable."""

    begun_us: int | None = None
    """The moment from which triggers count their time: at level sim the first record; else see `of`."""
    calls: Counter[int] = field(default_factory=Counter)
    taken: Counter[int] = field(default_factory=Counter)
    """Records sent by the source; replayed records count again."""
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The commits of each subtask and checkpoint."""
    hits: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How often each subtask reached each phase, over all its attempts."""
    stopped: Mapping[str, int] = field(default_factory=dict)
    """The faults for which an attempt has stopped itself at a phase."""

    @classmethod
    def of(cls, progress: Progress, *, subtasks: int) -> Self:
        """Shares the counts of `progress`, so they grow with it.

        Times count from when each of the `subtasks` is at work: on a busy machine one starts seconds after another,
        and a fault before that would find nothing to meet.
        """
        began_us = progress.began_us.values()
        return cls(
            begun_us=max(began_us) if len(began_us) >= subtasks else None,
            calls=progress.calls,
            taken=progress.taken,
            commits=progress.commits,
            stopped=progress.stopped,
        )

    def reach(self, subtask: int, phase: str) -> int:
        """Counts that an attempt of `subtask` reached `phase`; returns the new count."""
        if phase == "call":
            self.calls[subtask] += 1
        self.hits[subtask, phase] += 1
        return self.hits[subtask, phase]


def shown_by(when: When) -> str:
    """The phase at which an attempt can check whether `when` has come."""
    match when:
        case Phase(phase=phase):
            return phase
        case CallMade():
            return "call"
        case CheckpointDone():
            return "commit.post"
        case _:
            return "accept"


def due(waits: Awaited, moments: Moments) -> bool:
    """Whether the trigger has come; never true for a time trigger, which `due_us` handles.

    A moment of a job has always come: who waits for it must be there from the beginning.
    """
    match waits.when:
        case CheckpointDone(checkpoint=checkpoint, subtask=subtask):
            return any(c == checkpoint and subtask in {None, s} for s, c in moments.commits)
        case CallMade(call=call, subtask=subtask):
            return _count(moments.calls, subtask, whole=True) >= call
        case RecordTaken(record=record, subtask=subtask):
            of = waits.subtask if subtask is None else subtask
            return _count(moments.taken, of, whole=False) >= record
        case MomentOfJob():
            return True  # the fault itself waits for it, from before the job's first start
        case Phase(phase=phase, hit=hit):
            return waits.fault in moments.stopped or _hits(moments, phase, waits.subtask, hit)
        case _:
            return False


def _count(counts: Mapping[int, int], subtask: int | None, *, whole: bool) -> int:
    """The count of `subtask`; if None, the sum over all subtasks (`whole`) or the highest."""
    if subtask is not None:
        return counts.get(subtask, 0)
    return sum(counts.values()) if whole else max(counts.values(), default=0)


def _hits(moments: Moments, phase: str, subtask: int | None, hit: int) -> bool:
    """Whether `subtask` (None: any) is at `phase` for the `hit`-th time."""
    if subtask is not None:
        return moments.hits[subtask, phase] == hit
    return any(count == hit and at == phase for (_, at), count in moments.hits.items())


def due_us(waits: Awaited, moments: Moments, *, after_ms: int | None, now_us: int) -> int | None:
    """The time at which a fault is due first, by its trigger and `instant_ms`; None: its trigger has not come."""
    if after_ms is None:
        return now_us if due(waits, moments) else None
    return None if moments.begun_us is None else moments.begun_us + after_ms * 1000


def instant_ms(fault: Fault, *, seed: int) -> int | None:
    """Milliseconds from the beginning of the run to that of `fault`; None: it has no time trigger."""
    match fault.when:
        case At(at=at):
            return at
        case Between(between=(earliest, latest)):
            return Choices(seed, f"begin of fault {fault.id}").between(earliest, latest)
        case _:
            return None
