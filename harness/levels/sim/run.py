"""Runs a scenario at level sim: the attempt, sinks and pool of the other levels, in virtual time.

Invariant: the events depend on the order alone: equal orders give equal bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.database.endpoint import NOWHERE
from harness.database.simulated.tables import SimulatedTables
from harness.database.simulated.tape import untold
from harness.database.table_editor import TableEditor
from harness.engine.level import refuse_at_level
from harness.faults.parts.found_parts import RecordedCall
from harness.history.event import PLANTED, Caused, Event
from harness.history.header import Header, parse_header
from harness.history.notes import LoopHeld, Note
from harness.judge.checkers.judge import uncollected
from harness.levels.sim.fault_schedule import FaultSchedule, Noted
from harness.levels.sim.own_modules import ModulesOfRun
from harness.levels.sim.simulation import Simulation
from harness.scenario.claims import header_of
from harness.scenario.model import Scenario
from harness.scenario.order import Order, planned_crashes
from harness.scenario.plan import Expected, RunPlan
from harness.scenario.workloads.lookups import Lookup, own_records
from harness.scenario.workloads.shape import keys_of, with_values_like
from harness.sut.inside_faults import PassedOn
from harness.sut.loop_watch import HoldWatch
from harness.sut.registry import SUTS
from harness.sut.user_code import set_aside
from harness.sut.variant import HONEST, Variant
from harness.system.choices import Choices
from harness.system.errors import HarnessError
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from reference_impl.operator.result import ResultHandle

if TYPE_CHECKING:
    from harness.database.simulated.hub import Hub
    from harness.levels.sim.place import SimulatedAttempt


_TIERS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A simulated run before its judgement."""

    header: Header
    events: Sequence[Event]
    error: str | None
    """Why the run stopped early; None: it did not."""
    restarts_used_up: bool = False
    """Whether it stopped early because a subtask may not be restarted again."""
    virtual_ms: int
    numbered: int
    """How many events were made; more than `events` holds if the recording has gaps."""
    untold: int = 0
    """How many events the journals made by their own count, and the recording lacks."""
    noted: Mapping[str, Sequence[Noted]] = field(default_factory=dict)
    """The acts of each fault, by its id."""
    tables: SimulatedTables
    misuses: Sequence[Note] = ()
    """Notes of the attempts about how the lookup uses the pool and the loop."""
    unread: Sequence[str] = ()
    """Why tables could not be read, a sentence each."""
    shared_modules: str | None = None
    """Why attempts shared the variables of the user's modules, in a sentence; None: they did not."""
    choices: int = 0
    """How many choices the schedule made, with `order: fifo`; else 0: they are not counted."""

    @property
    def whole(self) -> bool:
        """Whether the run ended normally and no event is missing."""
        return self.error is None and not self.lost

    @property
    def lost(self) -> int:
        """How many events are missing: numbers without an event, or events that a journal counted."""
        return max(self.numbered - len(self.events), self.untold)


def simulate_scenario(
    order: Order,
    *,
    variant: Variant = HONEST,
    ended_by: Callable[[], str | None] | None = None,
    before_reading: Callable[[TableEditor], None] | None = None,
    expected: Expected | None = None,
) -> Simulated:
    """Run `order` at level sim, whatever its level. `expected`: the results of a user's lookup.

    Raises CannotHere for a fault that sim cannot inject, and SutError if the function under test breaks a rule.
    `ended_by` says why the run must end early (None: it goes on); `before_reading` is called after the run, before its
    tables are read.
    """
    refuse_at_level(order.scenario, "sim")
    scenario = order.scenario
    if not variant.arms_faults:
        scenario = scenario.model_copy(update={"faults": ()})
    plan = _plan(order, scenario, expected)
    run = Simulation(scenario, plan=plan, variant=variant, limit_ms=scenario.budget)
    run.hub.ended_by = ended_by
    run.modules = None if order.sut in SUTS else ModulesOfRun(order.sut)
    schedule = FaultSchedule(scenario=scenario, run=run, seed=order.seed)
    run.watch = schedule.reached if schedule.has_any else None
    run.closing = schedule.close
    run.before_reading = before_reading
    run.around_calls = _around_calls(scenario, run, schedule)
    run.tape.hears = schedule.workload.hears
    watch = HoldWatch(function=lambda: run.watched_function)
    # A pending task that nothing refers to fails its attempt when it is collected, so no run collects: the moment would
    # depend on what else the process has done.
    with uncollected(), set_aside(), nullcontext() if order.sut in SUTS else watch.watching():
        run.run()
    if run.refusal is not None:
        raise run.refusal
    header = parse_header(header_of(order, expected=expected))
    if not isinstance(header, Header):
        message = f"our own header breaks its format: {'; '.join(header)}"
        raise HarnessError(message, fix="please report it, with the command")
    held = [LoopHeld(t=run.tape.t, where=where, ms=ms) for where, ms in watch.holds()]
    return Simulated(
        header=header,
        events=run.tape.events,
        error=run.error,
        restarts_used_up=run.restarts_used_up,
        virtual_ms=run.hub.now_ms,
        numbered=run.tape.numbered,
        untold=untold(run.tape),
        noted=schedule.noted,
        tables=run.tables,
        misuses=[*run.tape.misuses, *held],
        unread=run.unread,
        shared_modules=None if run.modules is None else run.modules.shared,
        choices=run.draw.made,
    )


def _plan(order: Order, scenario: Scenario, expected: Expected | None) -> RunPlan:
    own = own_records(scenario)
    return RunPlan(
        run_id="",
        scenario={},
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        lookups=NOWHERE,
        sink=NOWHERE,
        folder="",
        path=list(order.import_path),
        table=customers(scenario, order.seed),
        crashes=planned_crashes(scenario),
        expected=expected,
        own=None if own is None else list(own),
    )


def _around_calls(scenario: Scenario, run: Simulation, schedule: FaultSchedule) -> Callable[[Any, Any], Any]:
    """The faults of calls, around the recorded calls if there are any."""
    calls = None if scenario.choices is None else scenario.choices.calls
    if not calls:
        return schedule.workload.around_calls
    recorded = RecordedCalls(calls, hub=run.hub)
    return lambda function, attempt: schedule.workload.around_calls(
        recorded.around(function, attempt), attempt
    )


def customers(scenario: Scenario, seed: int) -> list[list[Any]]:
    """The rows (key, name, city, tier) of table `customer`: one for each key, or 0 to `fanout`.

    Simpler than the rows of the other levels, which take longer to draw than a simulated run.
    """
    workload, counts = scenario.workload, Choices(seed, "rows of a key")
    rows = [
        [key, f"customer {key}", f"city {index % 7}", 1 + (index + seed + row) % _TIERS]
        for index, key in enumerate(keys_of(workload))
        for row in range(1 if workload.fanout == 1 else counts.between(0, workload.fanout))
    ]
    return with_values_like(rows, workload.rows_like)


_MS_PER_S: Final = 1000


class RecordedFailure(Caused):
    """The error of a call that failed in the recorded run, too."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by=PLANTED)


class RecordedCalls:
    """The calls of one run. Mutable: counts the calls of each record, over all attempts.

    Invariant: a call ends at its recorded time or, if the simulated answer comes later, with that answer.
    """

    def __init__(self, calls: Sequence[RecordedCall], *, hub: Hub) -> None:
        self.hub = hub
        self._calls = {(call.id, call.call): call for call in calls}
        self._made: Counter[int | str] = Counter()

    def around(self, function: AsyncFunction, attempt: SimulatedAttempt) -> AsyncFunction:
        """`function` with the recorded outcomes of its calls; unchanged if none is recorded."""
        return _Recorded(function, attempt, calls=self) if self._calls else function

    def next_of(self, record: int | str) -> RecordedCall | None:
        """What is recorded of the next call of `record`; None: nothing."""
        self._made[record] += 1
        return self._calls.get((record, self._made[record]))


class _Recorded:
    """Wraps the function of one attempt."""

    def __init__(self, function: AsyncFunction, attempt: SimulatedAttempt, *, calls: RecordedCalls) -> None:
        self._function = function
        self._attempt = attempt
        self._calls = calls

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)

    def timeout(self, value: object, handle: ResultHandle) -> None:
        self._function.timeout(value, handle)

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        recorded = self._calls.next_of(value.id)
        if recorded is None:
            self._function.invoke(value, handle)
            return
        due_ms = self._calls.hub.now_ms + recorded.takes
        if recorded.ends == "error":
            error = RecordedFailure(f"call {recorded.call} of record {value.id} failed in the recorded run")
            self._at(due_ms, lambda: handle.fail(error))
            return

        def pass_on(_what: str, act: Callable[[], None]) -> None:
            self._at(due_ms, act)

        if isinstance(value, Lookup):  # the server takes the time, so that the connection is in use meanwhile
            value = msgspec.structs.replace(value, service_ms=max(0, recorded.takes - 1))
        self._function.invoke(value, PassedOn(handle, pass_on))

    def _at(self, due_ms: int, act: Callable[[], None]) -> None:
        loop, left_ms = self._attempt.loop, due_ms - self._calls.hub.now_ms
        assert loop is not None, "an attempt has its loop before its function"
        if left_ms > 0:
            loop.call_later(left_ms / _MS_PER_S, act)
        else:
            act()
