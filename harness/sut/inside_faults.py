"""The faults that one attempt performs itself, each connected to its trigger; those of calls wrap the function.

Answers to a user function that has a bug for one record, and to a client that loses or repeats a callback. Invariants:
an act on a call is journalled before it is performed; calls that no fault selects are passed through unchanged.

Answers to Jepsen's nemesis, inside the process. Invariants: a fault acts once over all attempts of a subtask (a fault
of calls: `times` times); an attempt without faults has no hooks; faults of the checkpoint store act only on writes
during their time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.database.checkpoint_store import CheckpointStore
from harness.database.store_files import Files
from harness.faults.kill_worker import die
from harness.faults.model.fault import Fault
from harness.faults.model.workload import CallFault, PassOn, ShapingFault, Turn
from harness.faults.parts.triggers import RecordTaken
from harness.faults.real.sites import AttemptSite, WallClock
from harness.faults.registry import fault_of
from harness.history.event import PLANTED, Caused
from harness.history.journal import CallLog, Journal
from harness.history.notes import Acted, Dies, NoteLog
from harness.scenario.model import At, Between, CheckpointDone, Phase, Workload
from harness.scenario.moments import Awaited, awaited, instant_ms
from harness.scenario.plan import Crash, RunPlan
from harness.scenario.workloads.lookups import LookupSource, nth_ids
from harness.scenario.workloads.shape import Lookup
from harness.sut.function_under_test import WrappedFunction, WrappedHandle
from harness.sut.phases import EarlierAttempts, PhaseHook, PhaseHooks, read_past
from harness.sut.positions import SilentSource, SubtaskSource, WatchedSource
from harness.system.clock import monotonic_us
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle, Supplier
from reference_impl.task.input_processor import Source


class Poisoned(Caused):
    """The error of a poisoned record's call."""


class PlannedFailure(Caused):
    """The error of a call that fails because the workload asks for it (`failing_every`)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by=PLANTED)


Act = Callable[[], None]


@dataclass(slots=True, kw_only=True)
class PlannedCalls:
    """The calls on which one fault acts. Mutable: `left` counts down."""

    fault: CallFault
    ids: Sequence[int]
    """The ids of its records."""
    left: int
    """How many calls it will still act on."""


class FaultyCalls(WrappedFunction):
    """Wraps an `AsyncFunction` with the faults of its calls; `die(why, fault)` ends the process.

    `at_timer(turn, act)` performs `act` before or at the mail of the timer of the record that is called now.
    """

    def __init__(
        self,
        function: AsyncFunction,
        planned: Sequence[PlannedCalls],
        *,
        journal: CallLog,
        die: Callable[[str, str], None],
        at_timer: Callable[[Turn, Act], None] | None = None,
    ) -> None:
        """`at_timer`: None where time is real."""
        super().__init__(function)
        self.journal = journal
        self.die = die
        self.at_timer = at_timer
        self.after_timer: dict[object, Act] = {}
        """What is done when a record's timeout has been answered, by its `record_key`."""
        self._by_id: Mapping[int, PlannedCalls] = {id_: calls for calls in planned for id_ in calls.ids}

    def invoke(self, value: Lookup, handle: ResultHandle) -> None:
        planned = self._by_id.get(value.id)
        if planned is None or not planned.left:
            self.function.invoke(value, handle)
            return
        planned.left -= 1
        fault = planned.fault
        self.journal.note(Acted(fault=fault.id, what=fault.does, facts={"id": value.id}))
        fault.act_on_call(_Struck(value, handle, calls=self, fault=fault.id))

    def timeout(self, value: Lookup, handle: ResultHandle) -> None:
        self.function.timeout(value, handle)
        if (act := self.after_timer.pop(handle.record_key, None)) is not None:
            act()


class _Struck:
    """One call that a fault acts on; a `StruckCall`."""

    def __init__(self, value: Lookup, handle: ResultHandle, *, calls: FaultyCalls, fault: str) -> None:
        self.id = value.id
        self.journal: NoteLog = calls.journal
        self._value = value
        self._handle = handle
        self._calls = calls
        self._fault = fault

    def invoke(self, pass_on: PassOn) -> None:
        self._calls.function.invoke(self._value, PassedOn(self._handle, pass_on))

    def at_timeout(self, turn: Turn, act: Callable[[], None]) -> None:
        if turn == "after":
            self._calls.after_timer[self._handle.record_key] = act
            return
        assert self._calls.at_timer is not None, "other levels refuse the fault"
        self._calls.at_timer(turn, act)

    def fail(self, why: str) -> None:
        error = Poisoned(why, by=self._fault)
        self._calls.journal.raised(self.id, error)
        self._handle.fail(error)

    def die(self, why: str) -> None:
        self._calls.die(why, self._fault)


class PassedOn(WrappedHandle):
    """Wraps a result handle so that each use goes through the fault."""

    def __init__(self, handle: ResultHandle, pass_on: PassOn) -> None:
        super().__init__(handle)
        self._pass_on = pass_on

    def complete(self, results: Sequence[object]) -> None:
        self._pass_on("complete", lambda: self.handle.complete(results))

    def fail(self, error: BaseException) -> None:
        self._pass_on("fail", lambda: self.handle.fail(error))

    def supply(self, supplier: Supplier) -> None:
        self._pass_on("supply", lambda: self.handle.supply(supplier))


def with_planned_failures(function: AsyncFunction, workload: Workload, *, journal: CallLog) -> AsyncFunction:
    """`function`, or a wrapper whose first calls of every `failing_every`-th record fail."""
    return _FailingCalls(function, workload, journal) if workload.failing_every else function


class _FailingCalls(WrappedFunction):
    """Fails the first `failing_calls` calls of a failing record. Mutable: counts the calls of one attempt."""

    def __init__(self, function: AsyncFunction, workload: Workload, journal: CallLog) -> None:
        super().__init__(function)
        self._journal = journal
        self._every = workload.failing_every
        self._calls = workload.failing_calls
        self._step = workload.subtasks
        self._made: Counter[int] = Counter()

    def invoke(self, value: Lookup, handle: ResultHandle) -> None:
        number = value.id // self._step + 1
        if number % self._every or self._made[value.id] >= self._calls:
            self.function.invoke(value, handle)
            return
        self._made[value.id] += 1
        error = PlannedFailure(f"call {self._made[value.id]} of record {value.id} fails as planned")
        self._journal.raised(value.id, error)
        handle.fail(error)


class StoreTrouble:
    """The checkpoint store of one attempt, for faults; a `SiteStore`. Mutable: holds the active acts and their ends."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._acting: list[tuple[int, Callable[[], None]]] = []
        store.trouble = self.before_write

    def before_write(self) -> None:
        """Called by the store before each write: runs the active acts, which may block or raise an OSError."""
        for until_us, meet in self._acting:
            if monotonic_us() < until_us:
                meet()

    def before_writes(self, meet: Callable[[], None], *, lasts_ms: int) -> None:
        self._acting.append((monotonic_us() + lasts_ms * 1000, meet))

    @property
    def files(self) -> Files:
        return self._store.files


_FIRST_RECORD = Phase(phase="accept", hit=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunAttempt:
    """What an attempt has when it gets its inside faults."""

    number: int
    journal: Journal
    loop: asyncio.AbstractEventLoop
    store: CheckpointStore


class InsideFaults:
    """The faults of one attempt of `subtask`. Mutable: faults of calls count down."""

    def __init__(
        self,
        plan: RunPlan,
        begun: BegunAttempt,
        *,
        workload: Workload,
        subtask: int,
        past: Callable[[], EarlierAttempts] | None = None,
    ) -> None:
        """`past`: reads what earlier attempts did; None: from their files."""
        self._plan = plan
        self._workload = workload
        self._subtask = subtask
        self._journal = journal = begun.journal
        self._loop = begun.loop
        self._crashes = [crash for crash in plan.crashes if crash.subtask == subtask]
        faults = [fault_of(fault) for fault in plan.inside]
        self._faults = [fault for fault in faults if fault.of_subtask in {None, subtask}]
        has_any = bool(self._crashes or self._faults)
        read = past or partial(read_past, Path(plan.folder), subtask=subtask, attempt=begun.number)
        self._past = read() if has_any else EarlierAttempts()
        self.wall_clock = WallClock()
        self._site = AttemptSite(
            journal=journal, loop=begun.loop, clock=self.wall_clock, store=StoreTrouble(begun.store)
        )
        self.phases = PhaseHooks(tuple(self._hooks()), past=self._past, journal=journal, subtask=subtask)

    def wall_ns(self) -> int:
        return self.wall_clock.now_ns()

    @property
    def shaping(self) -> list[Fault]:
        """The faults that change what the source sends."""
        return [fault for fault in self._faults if isinstance(fault, ShapingFault)]

    def _hooks(self) -> Iterator[PhaseHook]:
        for fault in self._faults:
            act_of_fault = self._act_of(fault)
            if act_of_fault is not None:
                yield from self._hook(fault, self._repeated(fault, act_of_fault))
        for crash in self._crashes:  # after all other hooks of its phase, because the process ends there
            act = partial(self._crash, crash)
            at = Phase.model_validate({"phase": crash.phase, "hit": crash.hit})
            yield PhaseHook(waits=Awaited(fault=crash.fault, when=at, subtask=crash.subtask), act=act)

    def _hook(self, fault: Fault, act: Act) -> Iterator[PhaseHook]:
        match fault.when:
            case Phase() | CheckpointDone():
                yield PhaseHook(waits=awaited(fault), act=act)
            case At() | Between() if self._past.first_record_us is None:
                first = Awaited(fault=fault.id, when=_FIRST_RECORD, subtask=self._subtask)
                yield PhaseHook(waits=first, act=partial(self._at, fault, act))
            case At() | Between() if not self._past.acted[fault.id]:
                self._at(fault, act)
            case _:
                """A record trigger: see `around_source`."""

    def _at(self, fault: Fault, act: Act) -> None:
        """Schedules the act at its time, counted from the subtask's first record."""
        after_ms = instant_ms(fault, seed=self._plan.seed)
        assert after_ms is not None, "it waits for a time"
        now_us = monotonic_us()
        due_us = (self._past.first_record_us or now_us) + after_ms * 1000
        self._loop.call_later(max(0, due_us - now_us) / 1e6, act)

    def _repeated(self, fault: Fault, act: Act) -> Act:
        if fault.comes == 1:
            return act
        every_ms, times = fault.every_ms, fault.comes

        def repeatedly() -> None:
            for cycle in range(1, times):
                self._loop.call_later(cycle * every_ms / 1000, act)
            act()

        return repeatedly

    def _act_of(self, fault: Fault) -> Act | None:
        """The act at its trigger; None: it changes the source or the calls instead."""
        return partial(fault.act_in_attempt, self._site) if fault.attempts_own else None

    def _crash(self, crash: Crash) -> None:
        self._journal.note(Dies(fault=crash.fault, phase=crash.phase, hit=crash.hit, how=crash.how))
        die(crash.how, why=f"fault {crash.fault} at {crash.phase} #{crash.hit}", by=crash.fault)

    def around_source(self, source: SubtaskSource, elements: LookupSource) -> Source:
        """Wraps `source` so that it performs the acts with a record trigger, and is silent when a fault asks for it."""
        silences = {} if self._past.first_record_us is not None else elements.silences
        paced = SilentSource(source, silences) if silences else source
        acts: dict[int, Act] = {}
        for fault in self._faults:
            act = self._act_of(fault)
            if isinstance(fault.when, RecordTaken) and act is not None and not self._past.acted[fault.id]:
                acts[elements.position_of(fault.when.record)] = self._repeated(fault, act)
        return WatchedSource(paced, acts) if acts else paced

    def around_calls(self, function: AsyncFunction) -> AsyncFunction:
        """Wraps `function` with the faults of calls."""
        planned = [self._planned(fault) for fault in self._faults if isinstance(fault, CallFault)]
        if not planned:
            return function

        def kill(why: str, fault: str) -> None:
            die("sigkill", why=why, by=fault)

        return FaultyCalls(function, planned, journal=self._journal, die=kill)

    def _planned(self, fault: CallFault) -> PlannedCalls:
        ids = nth_ids(
            self._workload,
            subtask=self._subtask,
            first=fault.first_record,
            count=fault.records,
            own=self._plan.own,
        )
        return PlannedCalls(fault=fault, ids=ids, left=max(0, fault.times - self._past.acted[fault.id]))
