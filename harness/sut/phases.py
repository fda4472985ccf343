"""Phases: the named points in the life of an attempt, and the hooks that wait there.

Answers to Jepsen's nemesis inside the process. Invariant: hits are counted over the subtask's whole life, read from
the files of earlier attempts, for a killed attempt remembers nothing; a hook fires once in that life. Where no hook
waits, reaching a phase is one call that does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.scenario.moments import Awaited, Moments, due, shown_by
from harness.scenario_parts.triggers import NOT_RECORDED
from harness.sut.past import Past

__all__ = ["PhaseHook", "PhaseHooks", "PhaseJournal", "Phases"]


class Phases(Protocol):
    """Hears where an attempt is, to disturb it there."""

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`; this may not return."""


class PhaseJournal(Protocol):
    """Where a phase is written that no event shows."""

    def reached(self, phase: str) -> None:
        """A later attempt must count it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseHook:
    """What a fault does when its trigger has come; `act` may not return."""

    waits: Awaited
    act: Callable[[], None]


class PhaseHooks:
    """The hooks of one attempt; a `Phases`. Mutable: counts what it reaches."""

    def __init__(
        self, hooks: Sequence[PhaseHook], *, past: Past, journal: PhaseJournal, subtask: int = 0
    ) -> None:
        self._journal = journal
        self._subtask = subtask
        hits = Counter({(subtask, phase): count for phase, count in past.hits.items()})
        self._moments = Moments(hits=hits, calls=Counter({subtask: past.hits.get("call", 0)}))
        self._waiting: dict[str, list[PhaseHook]] = {}
        for hook in hooks:
            if not past.acted[hook.waits.fault]:
                self._waiting.setdefault(shown_by(hook.waits.when), []).append(hook)
        if not self._waiting:  # as in most runs, and there are five phases a record
            self.reach = _nobody_listens  # type: ignore[method-assign]

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`."""
        waiting = self._waiting.get(phase)
        if waiting is None:
            return
        hit = self._moments.reach(self._subtask, phase)
        if phase == "commit.post":  # each checkpoint is committed once, in their order
            self._moments.commits = Counter({(self._subtask, hit): 1})
        if phase in NOT_RECORDED:
            self._journal.reached(phase)
        for hook in waiting:
            if due(hook.waits, self._moments):
                hook.act()


def _nobody_listens(phase: str) -> None:
    """Where no hook waits."""
