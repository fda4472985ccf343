"""Crashes at level sim: kills an attempt at the planned hit of a phase.

The counterpart of the crashes in `harness.sut.inside_faults`. Invariant: hits are counted over all attempts of the
subtask, and each planned kill happens once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from harness.faults.parts.triggers import Phase
from harness.faults.simulated.act import RunningAttempt
from harness.scenario.moments import Awaited, Moments, due
from harness.scenario.plan import Crash


class Crashes:
    """The kills planned for one subtask; `reach` does not return if a kill is due. Mutable: counts hits.

    Calls `watch(subtask, phase)` for each phase that is reached, and `dies` when a kill is due.
    """

    def __init__(
        self,
        planned: Iterable[Crash],
        *,
        subtask: int,
        dies: Callable[[RunningAttempt, Crash], None],
        watch: Callable[[int, str], None] | None = None,
    ) -> None:
        self._dies = dies
        self._subtask = subtask
        self._watch = watch
        self._due = [crash for crash in planned if crash.subtask == subtask]
        self._moments = Moments()
        self._attempt: RunningAttempt | None = None
        if not self._due:  # fast path for most runs: each record reaches five phases
            self.reach = (  # type: ignore[method-assign]
                _nobody_listens if watch is None else partial(watch, subtask)
            )

    def begins(self, attempt: RunningAttempt) -> None:
        """Note the subtask's latest attempt."""
        self._attempt = attempt

    def reach(self, phase: str) -> None:
        """Called by the attempt at `phase`."""
        if self._watch is not None:
            self._watch(self._subtask, phase)
        if not self._due:
            return
        self._moments.reach(self._subtask, phase)
        for crash in self._due:
            if crash.phase == phase and due(_awaited(crash), self._moments):
                self._due.remove(crash)
                assert self._attempt is not None, "an attempt begins before it reaches anything"
                self._dies(self._attempt, crash)


def _nobody_listens(phase: str) -> None:
    """The `reach` of a subtask without planned kills."""


def _awaited(crash: Crash) -> Awaited:
    at = Phase.model_construct(phase=crash.phase, hit=crash.hit)  # valid: the scenario was validated
    return Awaited(fault=crash.fault, when=at, subtask=crash.subtask)
