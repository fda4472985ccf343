"""A simulation: one run's hub, tape, links and database, and who starts again whom.

Answers to Flink's job manager with one region for each subtask. Invariant: after `run` every actor is gone, each
killed attempt has its `kill`, and what the database holds is in the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.choices import Draw
from harness.engine.execution import ATTEMPTS_MAX
from harness.faults.kill_worker import InjectedFailure
from harness.history.event import FaultEvent, GiveUp
from harness.levels.sim.hub import Actor, Hub
from harness.runs.plan import Crash
from harness.sim.attempt import Attempt, Job
from harness.levels.sim.buffer_journal import Tape
from harness.levels.sim.crashes import Crashes
from harness.sim.database import CALM, Database, Troubles
from harness.sim.link import Link
from harness.sim.patience import patience
from harness.sim.variant import HONEST, Variant

__all__ = ["Simulation"]

_STEPS_MAX = 2_000_000
_QUIET_US = 10_000_000
"""With nothing recorded for so long, a run whose budget is over does hang."""
_RESTART_MS = (5, 60)
"""From an attempt's end to its successor's beginning."""


@dataclass(slots=True, kw_only=True)
class _Death:
    """A planned kill that happened, until its successor starts. Mutable."""

    crash: Crash
    attempt: int
    at_ms: int


class Simulation:
    """One run. Mutable. A subclass may restart subtasks otherwise: override `attempt_over`."""

    failing_is_stuck: ClassVar[bool] = False
    """Whether it counts as a wait that was given up if a subtask fails again and again, or the budget is over."""

    def __init__(
        self,
        *,
        seed: int,
        customers: Mapping[Any, Any],
        variant: Variant = HONEST,
        troubles: Troubles = CALM,
        limit_ms: int = 600_000,
        crashes: Iterable[Crash] = (),
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        self.variant = variant
        self.draw = draw = Draw(seed, "sim")
        self.hub = hub = Hub(draw, limit_ms=limit_ms, steps_max=_STEPS_MAX)
        self.tape = Tape(hub)
        self.links = {name: Link(name, hub=hub, draw=draw) for name in ("lookups", "sink")}
        self.direct = Link("direct", hub=hub, draw=draw, is_direct=True)
        """To the database past the proxy: no fault acts on it."""
        self.database = Database(self.tape, draw, customers=customers, troubles=troubles)
        self.shared: dict[str, Any] = {}
        """For planted defects that share between attempts what must not be shared."""
        self.attempts: dict[int, Attempt] = {}
        """The latest of each subtask."""
        self.finished: dict[int, None] = {}
        self.error: str | None = None
        """Why the run was given up, if it was."""
        self.stuck = False
        self.watch: Callable[[int, str], None] | None = None
        """Told of each phase that an attempt reaches."""
        self.closing: Callable[[], None] | None = None
        """Called when no subtask will do anything any more."""
        self._crashes = list(crashes)
        self._crashers: dict[int, Crashes] = {}
        self._attempts_max = attempts_max
        self._tries: dict[int, int] = {}
        self._deaths: dict[int, list[_Death]] = {}

    # --------------------------------------------------------------------------------------------- running

    def run(self, job: Job) -> None:
        """Every subtask from its first attempt to its last."""
        for subtask in range(job.subtasks):
            self._crashers[subtask] = Crashes(self._crashes, subtask=subtask, watch=self.watch)
            self.begin(job, subtask, at_ms=0)
        outer = asyncio._get_running_loop()  # noqa: SLF001 - public by name, as in `SubtaskLoop`
        try:
            with patience(self):
                why = self.hub.run()
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001 - an actor that was thrown away has left its own
        if len(self.finished) < job.subtasks:
            self._close()
        if self.error is not None and self.failing_is_stuck:
            self._give_up(self.error)
        elif why is not None and self.error is None:
            self.error = why
            self._give_up(why)
        self.database.read_audit()

    def _close(self) -> None:
        if self.closing is not None:
            self.closing()

    def _give_up(self, why: str) -> None:
        """Say so, unless the run only had too small a budget (something has happened of late), or broke."""
        if self.hub.broken:
            return
        last_us = self.tape.events[-1].t if self.tape.events else 0
        is_busy = self.tape.t - last_us < _QUIET_US
        if why.startswith("the budget") and is_busy and not self.failing_is_stuck:
            return
        self.stuck = True
        self.tape.add(GiveUp(n=self.tape.n, t=self.tape.t, why=why))

    def begin(self, job: Job, subtask: int, *, at_ms: int) -> Attempt:
        """The next attempt of `subtask`, at that instant."""
        attempt = Attempt(self, job, subtask, self._crashers[subtask])
        self.attempts[subtask] = attempt
        self._tries[subtask] = self._tries.get(subtask, 0) + 1
        attempt.actor = self.hub.spawn(
            attempt.live,
            name=f"subtask {subtask}",
            ended=lambda actor: self._over(attempt, actor),
            at_ms=at_ms,
        )
        return attempt

    def _over(self, attempt: Attempt, actor: Actor) -> None:
        if actor.killed and attempt.journal is not None:
            attempt.journal.killed()
        if not self.hub.over:
            self.attempt_over(attempt, actor)

    def attempt_over(self, attempt: Attempt, actor: Actor) -> None:
        """Start the next one, unless the subtask is done, or fails too often."""
        subtask = attempt.subtask
        if self.attempts[subtask] is not attempt:
            return  # it was superseded: its end is nobody's affair
        if actor.error is None and not actor.killed:
            self.finished[subtask] = None
            if len(self.finished) == attempt.job.subtasks:
                self._close()
        elif self._tries[subtask] >= self._attempts_max:
            self.fail(f"subtask {subtask} has failed {self._attempts_max} times: {actor.error or 'killed'}")
        else:
            self.begin(attempt.job, subtask, at_ms=self.hub.now_ms + self.draw.between(*_RESTART_MS))

    def supersede(self, attempt: Attempt) -> None:
        """It is taken for dead, whatever it is: its successor begins."""
        at_ms = self.hub.now_ms + self.draw.between(*_RESTART_MS)
        self.begin(attempt.job, attempt.subtask, at_ms=at_ms)

    def fail(self, why: str) -> None:
        """The run is over, without a verdict on its end: every attempt is thrown away."""
        if self.error is None:
            self.error = why
        self.hub.over = True
        for attempt in sorted(self.attempts.values(), key=lambda one: one.actor.is_current):
            attempt.actor.kill()  # does not return from the one that is running

    def completed(self, subtask: int) -> frozenset[int]:
        """The checkpoints of `subtask` that count for whoever waits for one."""
        return frozenset(self.database.epochs.get(subtask, {}))

    # --------------------------------------------------------------------------------------------- crashes

    def dies(self, attempt: Attempt, crash: Crash) -> None:
        """For an attempt that is where it is planned to die: does not return."""
        tape = self.tape
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=crash.fault, phase="begin"))
        death = _Death(crash=crash, attempt=attempt.number, at_ms=self.hub.now_ms)
        self._deaths.setdefault(attempt.subtask, []).append(death)
        if crash.how == "exception":
            raise InjectedFailure(f"fault {crash.fault} at {crash.phase} #{crash.hit}")
        attempt.actor.kill()

    def started(self, attempt: Attempt) -> None:
        """An attempt has begun: what killed those before it has its evidence."""
        tape = self.tape
        for death in self._deaths.pop(attempt.subtask, []):
            evidence = {
                "subtask": attempt.subtask,
                "phase": death.crash.phase,
                "hit": death.crash.hit,
                "how": death.crash.how,
                "attempt": death.attempt,
                "next_attempt": attempt.number,
                "restart_ms": self.hub.now_ms - death.at_ms,
            }
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=death.crash.fault, phase="end", evidence=evidence))
