"""Phases: the named points of an attempt, the hooks of faults that act there, and the hits of earlier attempts.

Invariant: it counts only recorded lines; of a killed attempt all lines up to the last complete one. Attempts that share
no folder leave marks in the run's database: the lines that count here, each before its effect.

Answers to Jepsen's nemesis, inside the process. Invariants: hits of a phase are counted over all attempts of the
subtask, from the files of earlier attempts; a hook acts once over all attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.faults.parts.triggers import NOT_RECORDED, PHASE_SHOWN
from harness.history.event import In
from harness.history.notes import Acted, Dies, Line, NoteLog, Reached, Stops
from harness.history.recorder import attempt_file, decode_lines
from harness.scenario.moments import Awaited, Moments, due, shown_by


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempts:
    """Counts over the earlier attempts of one subtask."""

    hits: Mapping[str, int] = field(default_factory=dict)
    """How often each phase was reached."""
    acted: Counter[str] = field(default_factory=Counter)
    """How often each fault has acted."""
    first_record_us: int | None = None
    """When its first record was taken."""


def read_past(folder: Path, *, subtask: int, attempt: int) -> EarlierAttempts:
    """Reads what the attempts before `attempt` recorded; one without a file died before its first line."""
    paths = [attempt_file(folder, subtask=subtask, attempt=earlier) for earlier in range(1, attempt)]
    return past_of(line for path in paths if path.exists() for line in decode_lines(path.read_bytes()))


def past_of(lines: Iterable[Line]) -> EarlierAttempts:
    """The counts over these lines, of one subtask and in their order."""
    hits: Counter[str] = Counter()
    acted: Counter[str] = Counter()
    first_us: int | None = None
    for line in lines:
        if first_us is None and isinstance(line, In):
            first_us = line.t
        match line:
            case Reached(phase=phase):
                hits[phase] += 1
            case Dies(fault=fault) | Acted(fault=fault) | Stops(fault=fault):
                acted[fault] += 1
            case _ if (shown := PHASE_SHOWN.get(str(line.__struct_config__.tag))) is not None:
                hits[shown] += 1
    return EarlierAttempts(hits=hits, acted=acted, first_record_us=first_us)


def kinds_that_count(phases: Iterable[str]) -> frozenset[str]:
    """The kinds of lines of which a past is made, if only the hits of these phases matter."""
    shown = {kind for kind, phase in PHASE_SHOWN.items() if phase in set(phases)}
    notes = {str(kind.__struct_config__.tag) for kind in (Reached, Dies, Acted, Stops)}
    return frozenset({"in", *notes, *shown})


class Phases(Protocol):
    """Called at each phase that an attempt reaches."""

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`; a fault may act here, so this may not return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseHook:
    """A fault's trigger and its act, which may not return."""

    waits: Awaited
    act: Callable[[], None]


class PhaseHooks:
    """The hooks of one attempt; a `Phases`. Mutable: counts phases."""

    def __init__(
        self, hooks: Sequence[PhaseHook], *, past: EarlierAttempts, journal: NoteLog, subtask: int = 0
    ) -> None:
        self._journal = journal
        self._subtask = subtask
        hits = Counter({(subtask, phase): count for phase, count in past.hits.items()})
        self._moments = Moments(hits=hits, calls=Counter({subtask: past.hits.get("call", 0)}))
        self._waiting: dict[str, list[PhaseHook]] = {}
        for hook in hooks:
            if not past.acted[hook.waits.fault]:
                self._waiting.setdefault(shown_by(hook.waits.when), []).append(hook)
        if not self._waiting:  # the usual case, made fast because each record reaches five phases
            self.reach = _ignore_phase  # type: ignore[method-assign]

    def reach(self, phase: str) -> None:
        waiting = self._waiting.get(phase)
        if waiting is None:
            return
        hit = self._moments.reach(self._subtask, phase)
        if phase == "commit.post":  # checkpoints are committed once and in order, so the hit is the number
            self._moments.commits = Counter({(self._subtask, hit): 1})
        if phase in NOT_RECORDED:
            self._journal.note(Reached(phase=phase))
        for hook in waiting:
            if due(hook.waits, self._moments):
                hook.act()


def _ignore_phase(phase: str) -> None:
    """The `reach` of an attempt without hooks."""
