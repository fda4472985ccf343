"""A simulation: the hub, tape, links and server of one run; starts the attempts and restarts failed subtasks.

Answers to Flink's job manager with one failover region for each subtask. Invariant: after `run` no actor is left, each
killed attempt has its `kill` event, and each row of the tables is in the history.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from harness.database.coordinator import Coordinator
from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.server import SimulatedServer, SimulatedSession
from harness.database.simulated.table_hand import SimulatedTableHand
from harness.database.simulated.tables import Customers, Effects, SimulatedTables
from harness.database.simulated.tape import Tape
from harness.database.store_files import MemoryFiles
from harness.database.stored_tables import ROWS_OF
from harness.engine.attempt import AttemptParts, run_attempt
from harness.engine.level import ATTEMPTS_MAX
from harness.engine.rescale import Rescaler
from harness.engine.run import Run
from harness.faults.kill_worker import InjectedFailure
from harness.faults.parts.parts import SINK_FORMS
from harness.faults.simulated.acts import RunningAttempt
from harness.history.event import (
    OUTSIDE,
    Commit,
    Done,
    FaultEvent,
    GiveUp,
    Kill,
)
from harness.levels.sim.drivers import HarnessClient, SimulatedDriver
from harness.levels.sim.own_modules import ModulesOfRun
from harness.levels.sim.place import Crashes, SimulatedAttempt, SimulatedClock, SimulatedPlace, read_tables
from harness.levels.sim.subtask_loop import outer_loop_kept
from harness.scenario.claims import AUDIT, RECOVER_MS
from harness.scenario.plan import Crash
from harness.scenario.workloads.lookups import LookupSource
from harness.sut.rescaling import PlannedSubtask
from harness.system.choices import Draw, SparingDraw
from harness.system.errors import SutError

if TYPE_CHECKING:
    from harness.levels.sim.wire import Wire

_STEPS_MAX: Final = 4_000_000
_QUIET_US: Final = 10_000_000
"""A run whose budget is over counts as stuck if nothing was recorded for so long."""
_RESTART_MS: Final = (700, 1_200)
"""The time from the end of an attempt to the start of the next one: what a Python process takes to start."""
_ASK_AGAIN_MS: Final = 20
"""Time until the coordinator polls again after a failed poll."""
_LOOKS_EVERY_S: Final = 2.0
"""CPU seconds between two checks that virtual time advances."""


@dataclass(slots=True, kw_only=True)
class _Death:
    """A planned kill that happened, until its successor starts. Mutable."""

    crash: Crash
    attempt: int
    at_ms: int


class Simulation:
    """The actors, links and tables of one run. Mutable."""

    restarts_used_up = False
    """Whether it was given up because a subtask may not be restarted again."""
    modules: ModulesOfRun | None = None
    """The user's modules; None: the function under test is ours."""
    watched_function: CodeType | None = None
    """The code of the function under test, once an attempt has loaded it."""
    _rescaler: Rescaler | None = None
    """None: the run does not rescale."""
    _coordinates: Coordinator | None = None
    wire: Wire | None = None
    """How the lookup reaches a real server; None: the server is simulated."""
    refusal: SutError | None = None
    """The rule that the function under test breaks; such a run is not judged."""

    def __init__(self, run: Run) -> None:
        self.site = run.site
        self.scenario = scenario = run.acts
        self.plan = plan = run.plan
        self.variant = variant = run.variant
        saved = scenario.choices
        self.draw = draw = (
            Draw(plan.seed, "sim")
            if saved is None or saved.order == "drawn"
            else SparingDraw(plan.seed, "sim", drawn=saved.drawn or ())
        )
        self.hub = hub = Hub(draw, limit_ms=scenario.budget, steps_max=_STEPS_MAX)
        self.tape = tape = Tape(hub)
        hub.recorded = lambda: tape.numbered
        workload = scenario.workload
        self.tables = SimulatedTables(
            subtasks=workload.subtasks,
            customers=Customers(plan.table),
            keyed=SINK_FORMS[scenario.sink].has_output_key and variant.has_output_key,
            by_record=bool(scenario.rescales),
        )
        self.tables.customers.never_changes = not scenario.changing
        self.server = SimulatedServer(
            hub=hub, tables=self.tables, on_commit=self._committed, executor=executor_of
        )
        self.links = {
            name: SimulatedLink(name, hub=hub, draw=draw, server=self.server) for name in ("lookups", "sink")
        }
        self.direct = SimulatedLink("direct", hub=hub, draw=draw, server=self.server, is_direct=True)
        """The link that bypasses the proxy; network faults do not act on it."""
        self.links["lookups"].row_bytes = self.direct.row_bytes = workload.row_bytes
        self.files = [MemoryFiles() for _ in range(scenario.subtask_numbers)]
        """The checkpoint store of each subtask."""
        self.attempts: dict[int, SimulatedAttempt] = {}
        """The latest attempt of each subtask."""
        self.finished: dict[int, None] = {}
        """The subtasks that have ended, or have stopped for a rescale."""
        self.error: str | None = None
        """Why the run was given up, if it was."""
        self.watch: Callable[[int, str], None] | None = None
        """Called with the subtask and each phase that one of its attempts reaches."""
        self.closing: Callable[[], None] | None = None
        """Called when all subtasks have finished or the run was given up."""
        self.unread: list[str] = []
        """Why tables could not be read, a sentence each."""
        self.around_calls: Callable[[Any, Any], Any] = lambda function, _attempt: function
        self._crashers: dict[int, Crashes] = {}
        self._tries: dict[int, int] = {}
        self._deaths: dict[int, list[_Death]] = {}
        self.store_troubles: list[Any] = []
        """Faults of the checkpoint store that act now."""
        self._elements: dict[int, LookupSource] = {}
        self._coordinator: Actor | None = None
        self._is_asked = False
        self._rescaling = HarnessClient()

    # --------------------------------------------------------------------------------------------- running

    def run(self) -> None:
        """Run all subtasks until they finish or the run is given up."""
        if self.scenario.rescales:
            self._rescaler = self._built_rescaler()
        self._begin_all(range(self.scenario.workload.subtasks), at_ms=lambda: 0)
        if self.scenario.sink != "atomic":
            self._coordinator = self.hub.spawn(
                self._coordinate, name="coordinator", ended=lambda _: None, at_ms=0
            )
            self._coordinator.is_daemon = True
        with (
            self._patience(),
            outer_loop_kept(),
            nullcontext() if self.modules is None else closing(self.modules),
        ):
            why = self.hub.run()
        if not self._all_finished:
            self._close()
            if why is not None and self.error is None:
                self.error = why
                self._give_up(why)
        if self.site.before_reading is not None:
            self.site.before_reading(SimulatedTableHand(self.tables))
        # A lookup that writes is judged by its own table, in place of the audit, which is of the sink's.
        names = [table for table in ROWS_OF if table != AUDIT or self.scenario.effects is None]
        self.unread = read_tables(self.tables, self.tape, names=names)

    def _close(self) -> None:
        if self.closing is not None:
            self.closing()

    def _give_up(self, why: str) -> None:
        """Record a `GiveUp`, unless the run broke, was ended from outside, or only had too small a budget.

        If events are recent, the budget was too small.
        """
        if self.hub.broken or self.hub.outside is not None:
            return
        at_the_end = (Kill, FaultEvent)  # recorded as the run ends: attempts are killed, faults healed
        last_us = next((e.t for e in reversed(self.tape.events) if not isinstance(e, at_the_end)), 0)
        if why.startswith("the budget") and self.tape.t - last_us < _QUIET_US:
            return
        self.hub.now_ms += RECOVER_MS  # gives up after a grace period without progress
        self.tape.add(GiveUp(n=self.tape.n, t=self.tape.t, why=why))

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Abort a run that computes for ever at one instant of virtual time; main thread only, which gets signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        seen = (-1, -1)

        def look(*_: object) -> None:
            nonlocal seen
            now = self.hub.now_ms, self.hub.steps  # steps at one instant are counted by the hub
            if now == seen and not (self.modules is not None and self.modules.is_importing):
                why = f"stuck at {now[0]} ms of virtual time: somebody goes on and on, and it never ends"
                self.fail(why)  # does not return when called in an attempt
                raise TimeoutError(why)
            seen = now

        before = signal.signal(signal.SIGVTALRM, look)
        signal.setitimer(signal.ITIMER_VIRTUAL, _LOOKS_EVERY_S, _LOOKS_EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    # -------------------------------------------------------------------------------------------- attempts

    def begin(self, subtask: int, *, at_ms: int) -> SimulatedAttempt:
        """Start the next attempt of `subtask` at that instant."""
        attempt = SimulatedAttempt(subtask=subtask, crashes=self._crashers[subtask])
        self.attempts[subtask] = attempt
        self._tries[subtask] = self._tries.get(subtask, 0) + 1
        parts = AttemptParts(
            plan=self.plan,
            scenario=self.scenario,
            subtask=subtask,
            place=SimulatedPlace(self, attempt),
            variant=self.variant,
        )

        def live(actor: Actor) -> None:
            attempt.actor = actor
            actor.dying = attempt.cut
            run_attempt(parts)

        attempt.actor = self.hub.spawn(
            live,
            name=f"subtask {subtask}",
            ended=lambda actor: self._over(attempt, actor),
            at_ms=at_ms,
        )
        return attempt

    def _begin_all(self, subtasks: Sequence[int], *, at_ms: Callable[[], int]) -> None:
        for subtask in subtasks:
            self._crashers[subtask] = Crashes(
                self.plan.crashes, subtask=subtask, dies=self._dies, watch=self.watch
            )
            self.begin(subtask, at_ms=at_ms())

    @property
    def _all_finished(self) -> bool:
        """Whether the subtasks of this generation have all finished."""
        running = range(self.scenario.workload.subtasks) if self._rescaler is None else self._rescaler.running
        return all(subtask in self.finished for subtask in running)

    def elements(self, subtask: int) -> LookupSource:
        """The elements of the source of `subtask`; drawn once for all attempts."""
        found = self._elements.get(subtask)
        if found is None:
            planned = PlannedSubtask(plan=self.plan, scenario=self.scenario, number=subtask)
            found = self._elements[subtask] = planned.source(self.scenario.faults)
        return found

    def _over(self, attempt: SimulatedAttempt, actor: Actor) -> None:
        if actor.killed and attempt.journal is not None:
            tape = self.tape
            by = attempt.killed_by or (OUTSIDE if self.hub.over else UNSET)  # the end of the run kills, too
            tape.add(Kill(n=tape.n, t=tape.t, s=attempt.subtask, a=attempt.number, by=by))
        if not self.hub.over:
            self._attempt_over(attempt, actor)

    def _attempt_over(self, attempt: SimulatedAttempt, actor: Actor) -> None:
        """Start the next attempt, unless the subtask has finished or has failed too often."""
        subtask = attempt.subtask
        if self.attempts[subtask] is not attempt:
            return  # the attempt was superseded
        if actor.error is None and not actor.killed:
            self.finished[subtask] = None
            if not self._all_finished:
                return
            # All subtasks have ended, or have stopped for a rescale, which now takes place.
            if self._rescaler is None or not self._rescaler.is_due(self._ended):
                self._close()
            else:
                now_ms = self.hub.now_ms
                self.hub.spawn(self._rescale, name="rescale", ended=self._rescale_over, at_ms=now_ms)
        elif isinstance(actor.error, SutError):
            self.refuse(actor.error)
        elif self._tries[subtask] >= ATTEMPTS_MAX:
            self.restarts_used_up = True
            self.fail(f"subtask {subtask} has failed {ATTEMPTS_MAX} times: {actor.error or 'killed'}")
        else:
            self.begin(subtask, at_ms=self.hub.now_ms + self.draw.between(*_RESTART_MS))

    @property
    def _ended(self) -> set[int]:
        """The subtasks whose last attempt has drained; the others have stopped at a checkpoint."""
        return {s for s, attempt in self.attempts.items() if s in self.finished and not attempt.has_stopped}

    def _rescale(self, actor: Actor) -> None:
        """The actor that gives the next subtasks their shares, and begins them."""
        self._rescaling.actor = actor
        assert self._rescaler is not None, "only a run that rescales has such an actor"
        self.plan = self._rescaler.rescale(self.plan, ended=self._ended)
        self._limit_checkpoints()
        self._begin_all(
            self._rescaler.running, at_ms=lambda: self.hub.now_ms + self.draw.between(*_RESTART_MS)
        )

    def _rescale_over(self, actor: Actor) -> None:
        if actor.error is not None and not self.hub.over:
            self.fail(f"the rescale failed: {actor.error}")

    def _built_rescaler(self) -> Rescaler:
        return Rescaler(
            self.scenario,
            variant=self.variant,
            driver=SimulatedDriver(self.direct, self._rescaling, is_root=True),
            files=lambda subtask: self.files[subtask],
            note=self.tape.note,
            clock=SimulatedClock(self.hub, self._rescaling),
        )

    def _limit_checkpoints(self) -> None:
        """The coordinator completes no checkpoint behind the one at which all subtasks stop."""
        if self._coordinates is not None and self._rescaler is not None:
            self._coordinates.until = self._rescaler.stops_at

    def supersede(self, subtask: int) -> None:
        """Start a successor while the present attempt may still run."""
        self.begin(subtask, at_ms=self.hub.now_ms + self.draw.between(*_RESTART_MS))

    def met(self, code: int | str) -> None:
        """A user's own client got this error."""
        self.tape.errors[code] += 1

    def refuse(self, error: SutError) -> None:
        """End the run: the function under test does what cannot be judged here."""
        self.refusal = error
        self.fail(error.what)

    def fail(self, why: str) -> None:
        """End the run with the error `why`, and kill every attempt."""
        if self.error is None:
            self.error = why
        self.hub.over = True
        for attempt in sorted(self.attempts.values(), key=lambda one: one.actor.is_current):
            attempt.actor.kill()  # does not return if the running actor is killed; it is the last

    # ---------------------------------------------------------------------------------------------- commits

    @property
    def errors(self) -> Counter[int | str]:
        """How many database errors and lost connections the attempts have recorded so far, by code."""
        return self.tape.errors.copy()

    def _committed(self, session: SimulatedSession, effects: Effects) -> None:
        """Record a commit: its epochs and completed checkpoints; wake the coordinator."""
        del session
        tape = self.tape
        for subtask, epoch, token in effects.epochs:
            tape.add(Commit(n=tape.n, t=tape.t, s=subtask, c=epoch, a=token))
        for number in effects.completed:
            tape.add(Done(n=tape.n, t=tape.t, c=number))
        # Only a new acknowledgement, or the end of a subtask, can complete a checkpoint.
        if effects.acks or any(ended for *_, ended in effects.fences):
            self._is_asked = True
            if self._coordinator is not None:
                self._coordinator.wake()

    def _coordinate(self, actor: Actor) -> None:
        """The coordinator's actor: completes checkpoints after each acknowledgement."""
        client = HarnessClient()
        client.actor = actor
        driver = SimulatedDriver(self.direct, client, is_root=True)
        coordinator: Coordinator = self.variant.coordinator(Coordinator)(driver, note=self.tape.note)
        self._coordinates = coordinator
        self._limit_checkpoints()
        while True:
            while not self._is_asked:
                actor.wait(None)
            self._is_asked = False
            while not coordinator.poll():
                actor.sleep_until(self.hub.now_ms + _ASK_AGAIN_MS)

    def completed(self, subtask: int) -> frozenset[int]:
        """The checkpoints of `subtask` that are committed (sink `atomic`) or complete (other sinks)."""
        if self.scenario.sink == "atomic":
            return frozenset(epoch for of, epoch in self.tables.epoch.committed() if of == subtask)
        return frozenset(self.tables.completed.committed())

    # --------------------------------------------------------------------------------------------- crashes

    def _dies(self, attempt: RunningAttempt, crash: Crash) -> None:
        """Kill the attempt, or fail it with an exception, at its planned phase; does not return."""
        tape = self.tape
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=crash.fault, phase="begin"))
        death = _Death(crash=crash, attempt=attempt.number, at_ms=self.hub.now_ms)
        self._deaths.setdefault(attempt.subtask, []).append(death)
        if crash.how == "exception":
            raise InjectedFailure(f"fault {crash.fault} at {crash.phase} #{crash.hit}", by=crash.fault)
        attempt.die(crash.fault)

    def started(self, attempt: SimulatedAttempt) -> None:
        """Record the end of the kills of earlier attempts: their evidence is that this attempt has started."""
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
