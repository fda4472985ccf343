"""Phases: the named points of an attempt, and the hooks of faults that act there.

Answers to Jepsen's nemesis, inside the process. Invariants: hits of a phase are counted over all attempts of the
subtask, from the files of earlier attempts; a hook acts once over all attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.faults.parts.triggers import NOT_RECORDED
from harness.history.notes import NoteLog, Reached
from harness.scenario.moments import Awaited, Moments, due, shown_by
from harness.sut.earlier_attempts import EarlierAttempts


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
