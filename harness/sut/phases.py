"""Phases: the named points in the life of an attempt, and the hooks that wait there.

Answers to Jepsen's nemesis inside the process. Invariant: hits are counted over the subtask's whole life, read from
the files of earlier attempts, for a killed attempt remembers nothing; a hook fires once in that life. Where no hook
waits, reaching a phase is one call that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.sut.past import NOT_RECORDED, Past

__all__ = ["PhaseHook", "PhaseHooks", "PhaseJournal", "Phases"]


class Phases(Protocol):
    """Who wants to know where an attempt is, to disturb it there."""

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`; this may not return."""


class PhaseJournal(Protocol):
    """Where a phase is written that no event shows."""

    def reached(self, phase: str) -> None:
        """A later attempt must count it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseHook:
    """What `fault` does at the `hit`-th `phase` of a subtask's life; `act` may not return."""

    fault: str
    phase: str
    hit: int
    act: Callable[[], None]


class PhaseHooks:
    """The hooks of one attempt; a `Phases`. Mutable: counts hits."""

    def __init__(self, hooks: Sequence[PhaseHook], *, past: Past, journal: PhaseJournal) -> None:
        self._journal = journal
        self._hits = dict(past.hits)
        self._waiting: dict[str, list[PhaseHook]] = {}
        for hook in hooks:
            if not past.acted[hook.fault]:
                self._waiting.setdefault(hook.phase, []).append(hook)
        if not self._waiting:  # as in most runs, and there are five phases a record
            self.reach = _nobody_listens  # type: ignore[method-assign]

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`."""
        waiting = self._waiting.get(phase)
        if waiting is None:
            return
        hit = self._hits[phase] = self._hits.get(phase, 0) + 1
        if phase in NOT_RECORDED:
            self._journal.reached(phase)
        for hook in waiting:
            if hook.hit == hit:
                hook.act()


def _nobody_listens(phase: str) -> None:
    """Where no hook waits."""
