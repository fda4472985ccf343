"""The surroundings of an attempt at level sim, and the tables that it leaves.

What an attempt runs on at level sim: its actor, virtual time, simulated connections, files in memory.

A killed attempt records no event and sends no statement any more. The clock of blocking code is the hub's virtual
time; a pause suspends the actor.

The tables of a simulated server, read after the run: their rows as events, and what SQL counts in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from harness.database.driver import AsyncDriver, AsyncMySqlDriver
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.statements import select
from harness.database.simulated.tables import SimulatedTables, StatementFailed
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.database.store_files import MemoryFiles
from harness.database.stored_tables import COUNT_OF, ROWS_OF, counting, stored_value
from harness.faults.parts.triggers import Phase
from harness.faults.simulated.acts import RunningAttempt, SimulatedRun
from harness.history.event import Effect, Row, TableRead, cause_of
from harness.history.journal import Journal
from harness.levels.sim.drivers import AT, AsyncSimulatedDriver, BlockingClient, SimulatedDriver
from harness.levels.sim.own_modules import ModulesOfRun
from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.scenario.claims import AUDIT, DEAD_LETTERS
from harness.scenario.moments import Awaited, Moments, due
from harness.scenario.plan import Crash
from harness.scenario.workloads.lookups import LookupSource
from harness.sut.loop_watch import code_of
from harness.sut.phases import Phases
from harness.sut.positions import SubtaskSource
from harness.system.errors import HarnessError
from harness.system.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from harness.levels.sim.wire import Wire
    from harness.scenario.model import Fault, Scenario
    from harness.sut.inside_faults import BegunAttempt
    from harness.sut.variant import Variant
    from reference_impl.operator.functions import AsyncFunction
    from reference_impl.task.input_processor import Source


def read_tables(tables: SimulatedTables, tape: Tape, *, names: Collection[str] = ROWS_OF) -> list[str]:
    """The rows of these tables become events of `tape`; a table that cannot be read gets no `read`.

    Returns why tables could not be read, a sentence each.
    """
    values: dict[str, object] = {}
    """What is stored as a text: the audit and the outputs hold the same."""
    unread: list[str] = []
    for table, query in ROWS_OF.items():
        if table not in names:
            continue
        try:
            rows = select(tables, query)
            ((count,),) = select(tables, COUNT_OF[table])
        except StatementFailed as error:
            unread.append(f"the table {table} could not be read: {error.message}")
            continue
        t = tape.t
        for n, (seq, subtask, id_, token, epoch, j, text) in enumerate(rows, tape.numbered + 1):
            if table == DEAD_LETTERS:
                row = Row(n=n, t=t, table=table, id=id_, seq=seq, token=token, c=epoch, error=text)
                tape.events.append(row)
                continue
            if text not in values:
                values[text] = stored_value(text)
            v = values[text]
            tape.events.append(
                Effect(n=n, t=t, s=subtask, id=id_, token=token, seq=seq, j=j, v=v)
                if table == AUDIT
                else Row(n=n, t=t, table=table, id=id_, seq=seq, token=token, c=epoch, j=j, v=v)
            )
        tape.numbered += len(rows)
        tape.add(TableRead(n=tape.n, t=tape.t, table=table, rows=count))
    return unread


def count_tables(tables: SimulatedTables, *, ordered: bool) -> Mapping[str, int]:
    """What SQL counts in the tables; a count whose table cannot be read is left out."""
    counts: dict[str, int] = {}
    for name, query in counting(ordered=ordered).items():
        with suppress(StatementFailed):
            ((counts[name],),) = select(tables, query)
    return counts


class SimulatedClock:
    """A `Clock` of virtual time for the blocking code of one client."""

    def __init__(self, hub: Hub, client: BlockingClient) -> None:
        self._hub = hub
        self._client = client

    def now_us(self) -> int:
        return self._hub.now_ms * 1000

    def pause(self, seconds: float) -> None:
        """Rounded to whole milliseconds, at least one."""
        self._client.actor.sleep_until(self._hub.now_ms + max(1, round(seconds * 1000)))
        self._client.catch_up()


_NO_PROCESS: Final = ProcessIdentity(pid=0, started=0)


class SimulatedAttempt:
    """One attempt, as the simulation and its faults see it. Mutable: gets its parts when it starts."""

    def __init__(self, *, subtask: int, crashes: Crashes) -> None:
        self.subtask = subtask
        self.crashes = crashes
        self.number = 0
        """The fencing token; 0 before the attempt has taken over."""
        self.actor: Actor
        self.journal: Journal | None = None
        self.recorder: MemoryRecorder | None = None
        self.loop: SubtaskLoop | None = None
        self.has_stopped = False
        """Whether it has stopped for a rescale."""
        self.killed_by: str | None = None
        """The fault that killed it."""

    def stop(self) -> None:
        """Called when it stops for a rescale."""
        self.has_stopped = True

    def die(self, fault: str) -> None:
        """Kill it for that fault; does not return if called by the attempt itself."""
        self.killed_by = fault
        self.actor.kill()

    def wait(self) -> None:
        """Suspend the attempt until it is woken."""
        self.actor.wait(None)
        self.catch_up()

    def sleep_until(self, instant_ms: int) -> None:
        """Suspend the attempt until that instant."""
        self.actor.sleep_until(instant_ms)
        self.catch_up()

    def catch_up(self) -> None:
        """Called after the actor waited outside of the loop; `loop` replaces it by its own."""

    def cut(self) -> None:
        """Stop recording its events, for it was killed. Its wait for the sink is recorded first, as nobody else can."""
        if self.journal is not None:
            self.journal.ends()
        if self.recorder is not None:
            self.recorder.cut()


class _HostingRun(SimulatedRun, Protocol):
    """What an attempt's place needs of the simulation."""

    scenario: Scenario
    variant: Variant
    modules: ModulesOfRun | None
    """The user's modules; None: the function under test is ours."""
    watched_function: CodeType | None
    """The code of the function under test."""
    around_calls: Callable[[AsyncFunction, SimulatedAttempt], AsyncFunction]
    """(function under test, attempt) -> the function with the faults of calls around it."""

    wire: Wire | None
    """How the lookup reaches a real server; None: the server is simulated."""

    def started(self, attempt: SimulatedAttempt) -> None:
        """Called when the attempt has its journal, loop and store."""

    def elements(self, subtask: int) -> LookupSource:
        """The elements of the source of `subtask`."""


class SimulatedPlace:
    """The `harness.engine.attempt.AttemptPlace` of level sim."""

    def __init__(self, run: _HostingRun, attempt: SimulatedAttempt) -> None:
        self._run = run
        self._attempt = attempt
        self.clock = SimulatedClock(run.hub, attempt)
        self.process = _NO_PROCESS
        self.sink = SimulatedDriver(run.links["sink"], attempt)
        self.files: MemoryFiles = run.files[attempt.subtask]

    @contextmanager
    def journal(self, attempt: int) -> Iterator[Journal]:
        run, mine = self._run, self._attempt
        mine.number = attempt
        recorder = mine.recorder = run.variant.recorder(MemoryRecorder)(run.tape)
        recorder.stopped = mine.stop
        mine.journal = Journal(recorder, subtask=mine.subtask, attempt=attempt)
        mine.crashes.begins(mine)
        yield mine.journal

    @contextmanager
    def loop(self) -> Iterator[SubtaskLoop]:
        run, mine = self._run, self._attempt
        assert mine.recorder is not None, "an attempt has its journal before its loop"
        copy = None if run.modules is None else run.modules.copy()
        loop = mine.loop = SubtaskLoop(mine.actor, mine.recorder, modules=copy)
        mine.catch_up = loop.catch_up  # type: ignore[method-assign]
        assert mine.journal is not None, "an attempt has its journal before its loop"
        journal = mine.journal
        loop.held = lambda since_ms: journal.held(since_ms * 1000)
        journal.ends, journal.calls_again = loop.tell_wait, loop.tell_busy
        loop.catch_up()  # the function is loaded before the loop runs, with other attempts in between
        with nullcontext() if run.wire is None else run.wire.dialing(loop, mine.actor, self._link):
            try:
                yield loop
            finally:
                loop.wind_up()

    def lookups(self, loop: asyncio.AbstractEventLoop) -> AsyncDriver:
        assert isinstance(loop, SubtaskLoop), "an attempt of level sim has a loop of level sim"
        if self._run.wire is not None:
            return AsyncMySqlDriver(AT)
        return AsyncSimulatedDriver(self._link, loop=loop)

    @property
    def _link(self) -> SimulatedLink:
        """The link of the lookups."""
        return self._run.direct if self._run.variant.bypasses_proxy else self._run.links["lookups"]

    def client(self, name: str) -> NoReturn:
        message = f"`client: {name}` is a mistake that only a real client can make; level sim has none"
        raise HarnessError(message, fix="please report it: the scenario should have been refused")

    def inside(self, begun: BegunAttempt) -> SimulatedPlace:
        begun.store.trouble = self._meet_store
        self._run.started(self._attempt)
        return self

    def _meet_store(self) -> None:
        """Apply the faults of the checkpoint store to a write."""
        for trouble in list(self._run.store_troubles):
            trouble.on_write(self._attempt, self.clock)

    def watching(
        self, loop: asyncio.AbstractEventLoop, journal: Journal, lookup: object
    ) -> AbstractContextManager[None]:
        """Tells the run's own watch the function; virtual time does not advance while code runs."""
        del loop, journal
        self._run.watched_function = code_of(lookup)
        return nullcontext()

    def cause_of(self, error: BaseException) -> str | None:
        """Never `outside`: nothing reaches a simulated run from there."""
        return cause_of(error)

    def elements(self, subtask: int, shaping: Iterable[Fault]) -> LookupSource:
        del shaping
        return self._run.elements(subtask)

    def run_loop_after_close(self, loop: asyncio.AbstractEventLoop, ms: int) -> None:
        assert isinstance(loop, SubtaskLoop), "an attempt of level sim has a loop of level sim"
        loop.call_at_ms(self._run.hub.now_ms + ms, loop.stop)
        loop.run_forever()

    @property
    def phases(self) -> Phases:
        return self._attempt.crashes

    @property
    def shaping(self) -> Iterable[Fault]:
        return self._run.scenario.faults

    def wall_ns(self) -> int:
        assert self._attempt.loop is not None, "an attempt has its loop before its timers"
        return self._attempt.loop.wall_ns()

    def around_source(self, source: SubtaskSource, elements: LookupSource) -> Source:
        """`source` unchanged: the schedule listens to the phase `accept`."""
        del elements
        return source

    def around_calls(self, function: AsyncFunction) -> AsyncFunction:
        return self._run.around_calls(function, self._attempt)


class Crashes:
    """The kills planned for one subtask, each of which happens once; `reach` does not return if a kill is due.

    The counterpart of the crashes in `harness.sut.inside_faults`. Mutable: counts hits over all its attempts.
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
            if crash.phase != phase:
                continue
            at = Phase.model_construct(phase=phase, hit=crash.hit)  # valid: the scenario was validated
            if due(Awaited(fault=crash.fault, when=at, subtask=crash.subtask), self._moments):
                self._due.remove(crash)
                assert self._attempt is not None, "an attempt begins before it reaches anything"
                self._dies(self._attempt, crash)


def _nobody_listens(phase: str) -> None:
    """The `reach` of a subtask without planned kills."""
