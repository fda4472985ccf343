"""Runs a scenario at level sim: the attempt, sinks and pool of the other levels, in virtual time.

Invariant: the events depend on the order alone: equal orders give equal bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from harness.database.simulated.tables import SimulatedTables
from harness.database.simulated.tape import Tape, missing_of
from harness.engine.level import RunSite, refuse_at_level
from harness.engine.run import Run, plan_of
from harness.faults.parts.found_parts import RecordedCall
from harness.history.event import PLANTED, Call, Caused, Failed, Res, Start
from harness.history.header import Header, parse_header
from harness.history.notes import Line, LoopHeld
from harness.judge.checkers.judge import judge, uncollected
from harness.levels.sim.drivers import AT
from harness.levels.sim.fault_schedule import ActingHere, FaultSchedule
from harness.levels.sim.own_modules import ModulesOfRun
from harness.levels.sim.simulation import Simulation
from harness.scenario.claims import header_of
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.plan import Expected, JudgedValues
from harness.scenario.workloads.lookups import Lookup
from harness.scenario.workloads.shape import keys_of, with_values_like
from harness.sut.function_under_test import WrappedFunction
from harness.sut.inside_faults import PassedOn
from harness.sut.loop_watch import HoldWatch
from harness.sut.registry import SUTS
from harness.sut.user_code import set_aside
from harness.sut.variant import HONEST, Variant
from harness.system.choices import Choices
from harness.system.clock import Deadline
from harness.system.errors import HarnessError
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle

if TYPE_CHECKING:
    from harness.database.simulated.hub import Hub
    from harness.levels.sim.place import SimulatedAttempt
    from harness.levels.sim.real_tables import RealTables


_TIERS: Final = 5


@dataclass(slots=True, kw_only=True)
class Simulated(Run):
    """A simulated run. Mutable."""

    restarts_used_up: bool = False
    """Whether it stopped early because a subtask may not be restarted again."""
    virtual_ms: int = 0
    noted: Mapping[str, Sequence[ActingHere]] = field(default_factory=dict)
    """The acts of each fault, by its id."""
    tape: Tape = field(init=False)
    tables: SimulatedTables = field(init=False)
    shared_modules: str | None = None
    """Why attempts shared the variables of the user's modules, in a sentence; None: they did not."""


UNWATCHED: Final = RunSite(run_id="", folder=Path())
"""The site of a run that nobody watches or ends."""


def simulate_scenario(
    order: Order,
    *,
    site: RunSite = UNWATCHED,
    variant: Variant = HONEST,
    expected: Expected | None = None,
    values: JudgedValues | None = None,
    server: RealTables | None = None,
) -> Simulated:
    """Run `order` at level sim, whatever its level. `expected`: the results of a user's lookup.

    `server`: the real server that the lookup asks; the process is then this run's alone.

    Raises CannotHere for a fault that sim cannot inject, and SutError if the function under test breaks a rule.
    """
    refuse_at_level(order.scenario, "sim")
    rows = customers(order.scenario, order.seed)
    ran = Simulated(order=order, site=site, variant=variant, rows=rows, expected=expected, values=values)
    is_users = order.sut not in SUTS
    ran.plan = plan_of(ran) if server is None else msgspec.structs.replace(plan_of(ran), lookups=AT)
    run = Simulation(ran)
    ran.tape, ran.tables = run.tape, run.tables
    run.hub.ended_by = _ended_by(site)
    run.modules = ModulesOfRun(order.sut) if is_users else None
    schedule = FaultSchedule(run=run)
    run.watch = schedule.reached if schedule.has_any else None
    run.closing = schedule.close
    run.around_calls = _around_calls(run, schedule)
    run.tape.hears = schedule.workload.hears
    watch = HoldWatch(function=lambda: run.watched_function)
    # A pending task that nothing refers to fails its attempt when it is collected, so no run collects: the moment would
    # depend on what else the process has done.
    with (
        uncollected(),
        set_aside(),
        watch.watching() if is_users else nullcontext(),
        nullcontext() if server is None else server.serving(run, rows),
    ):
        run.run()
    if run.refusal is not None:
        raise run.refusal
    ran.header = _header_of(order, expected)
    ran.events, ran.missing = run.tape.events, missing_of(run.tape)
    ran.error, ran.restarts_used_up = run.error, run.restarts_used_up
    ran.interrupted = run.error is not None and site.stop.is_set()
    ran.virtual_ms, ran.lines_end_us = run.hub.now_ms, run.hub.now_ms * 1000
    ran.noted = schedule.noted
    ran.shared_modules = None if run.modules is None else run.modules.shared
    ran.threats = (
        *run.unread,
        *([ran.shared_modules] if ran.shared_modules else []),
        *([] if run.wire is None else run.wire.threats()),
        *([f"the recording has gaps: {ran.missing} events are missing"] if ran.missing else []),
    )
    if is_users:  # clients of our own with mistakes are not simulated
        ran.lines = _lines_of_pitfalls(run.tape, watch)
    # How many choices the schedule made, with `order: fifo`; else they are not counted.
    ran.extras = {"choices": run.draw.made} if run.draw.made else {}
    ran.judge = variant.judge(judge)
    return ran


def _header_of(order: Order, expected: Expected | None) -> Header:
    header = parse_header(header_of(order, expected=expected))
    if not isinstance(header, Header):
        message = f"our own header breaks its format: {'; '.join(header)}"
        raise HarnessError(message, fix="please report it, with the command")
    return header


def _lines_of_pitfalls(tape: Tape, watch: HoldWatch) -> Sequence[Line]:
    calls = [event for event in tape.events if isinstance(event, Start | Call | Res | Failed)]
    held = [LoopHeld(t=tape.t, where=where, ms=ms) for where, ms in watch.holds()]
    return sorted([*calls, *tape.misuses, *held], key=lambda line: line.t)


def _ended_by(site: RunSite) -> Callable[[], str | None] | None:
    """Why a run at this site must end before its own end: Ctrl-C, or the command's budget, in real time."""
    if site is UNWATCHED:
        return None
    limit_s = site.limit_s
    deadline = None if limit_s is None else Deadline(limit_s)

    def why() -> str | None:
        if site.stop.is_set():
            return "the run was interrupted"
        if deadline is not None and deadline.passed:
            return f"the budget of the command is over, {limit_s:.3g} s after the run began"
        return None

    return why


def _around_calls(
    run: Simulation, schedule: FaultSchedule
) -> Callable[[AsyncFunction, SimulatedAttempt], AsyncFunction]:
    """The faults of calls, around the recorded calls if there are any."""
    choices = run.scenario.choices
    calls = None if choices is None else choices.calls
    if not calls:
        return schedule.workload.around_calls
    recorded = RecordedCalls(calls, hub=run.hub)
    return lambda function, attempt: schedule.workload.around_calls(
        recorded.around(function, attempt), attempt
    )


def customers(scenario: Scenario, seed: int) -> list[list[object]]:
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


class _Recorded(WrappedFunction):
    """Wraps the function of one attempt."""

    def __init__(self, function: AsyncFunction, attempt: SimulatedAttempt, *, calls: RecordedCalls) -> None:
        super().__init__(function)
        self._attempt = attempt
        self._calls = calls

    def invoke(self, value: Lookup, handle: ResultHandle) -> None:
        recorded = self._calls.next_of(value.id)
        if recorded is None:
            self.function.invoke(value, handle)
            return
        due_ms = self._calls.hub.now_ms + recorded.takes
        if recorded.ends == "error":
            error = RecordedFailure(f"call {recorded.call} of record {value.id} failed in the recorded run")
            self._at(due_ms, lambda: handle.fail(error))
            return

        def pass_on(_what: str, act: Callable[[], None]) -> None:
            self._at(due_ms, act)

        # The server takes the time, so that the connection is in use meanwhile.
        value = msgspec.structs.replace(value, service_ms=max(0, recorded.takes - 1))
        self.function.invoke(value, PassedOn(handle, pass_on))

    def _at(self, due_ms: int, act: Callable[[], None]) -> None:
        loop, left_ms = self._attempt.loop, due_ms - self._calls.hub.now_ms
        assert loop is not None, "an attempt has its loop before its function"
        if left_ms > 0:
            loop.call_later(left_ms / _MS_PER_S, act)
        else:
            act()
