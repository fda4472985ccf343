"""Level `sim`: runs in virtual time, in one thread, with a simulated database.

Invariant: equal orders give equal bytes. A run writes no file: its events are a tape in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, SimulatedTables
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.engine.expectation import find_expected
from harness.engine.findings import fault_record
from harness.engine.level import Opening, Play, RunRecord, RunSite, refuse_at_level
from harness.engine.run import recorded
from harness.history.event import FaultEvent
from harness.judge.checkers.judge import uncollected
from harness.levels.sim.canaries import refuse_blind_simulation
from harness.levels.sim.drivers import AsyncSimulatedDriver
from harness.levels.sim.fault_schedule import ActingHere
from harness.levels.sim.place import count_tables
from harness.levels.sim.run import Simulated, customers, simulate_scenario
from harness.levels.sim.subtask_loop import SubtaskLoop, outer_loop_kept
from harness.scenario.order import Order
from harness.scenario.outcome import FaultTime, WorldDescription
from harness.sut.calm_twin import CalmTwin, Questions
from harness.sut.registry import REFERENCE_EMITTER, load_lookup, needs_a_server
from harness.sut.variant import HONEST, Variant
from harness.system.choices import Draw
from harness.system.errors import UsageError
from harness.system.forked import in_child
from harness.system.json_types import JsonView

if TYPE_CHECKING:
    from harness.world.world import World


SIMULATED_WORLD = WorldDescription(
    kind="simulated",
    why="--level sim needs no other",
    server="simulated database",
    proxy="simulated proxy",
    ready_s=0.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLevel:
    """The `Level` of simulated runs."""

    name: ClassVar[str] = "sim"
    needs_world: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True
    variant: Variant | None = None
    """Replaces the variant that the order's mutant names."""

    def refuse(self, order: Order) -> None:
        """Refuses the emitter, which needs a second thread."""
        if order.sut == REFERENCE_EMITTER:
            message = (
                f"--sut {REFERENCE_EMITTER} emits from a thread of its own, and virtual time has only one"
            )
            raise UsageError(message, fix="run it with --level live")
        if needs_a_server(order.sut):
            message = (
                f"--sut {order.sut} blocks or has a client of its own, and level sim has neither threads nor a "
                "server to connect to"
            )
            fix = "run it with --level live, or use the pool: `async def __call__(self, record, pool)`"
            raise UsageError(message, fix=fix)

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`; `world` is None."""
        del world
        refuse_blind_simulation()

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        """Opens no world."""
        del opening
        yield self._play

    def _play(self, order: Order, site: RunSite) -> RunRecord:
        variant = self.variant or HONEST
        if self.variant is None and order.mutant is not None:
            from harness.sut.defects import variant_of  # noqa: PLC0415 - most runs plant no defect

            variant = variant_of(order.mutant)
        play = partial(simulate_scenario, order, site=site, variant=variant)
        if ":" not in order.sut:
            return record_of(play())
        refuse_at_level(order.scenario, self.name)
        rows, row_bytes = customers(order.scenario, order.seed), order.scenario.workload.row_bytes
        expected, values = find_expected(
            order, rows, ask=partial(ask_in_child, rows=rows, row_bytes=row_bytes)
        )
        return in_child(
            lambda: record_of(play(expected=expected, values=values)),
            what=f"--sut {order.sut}",
            stop=site.stop,
        )


def record_of(ran: Simulated) -> RunRecord:
    """The record of a simulated run. Raises HarnessError if its expected results are not those of its rows."""
    acted = [event for event in ran.events if type(event) is FaultEvent]
    ran.counts = count_tables(ran.tables, ordered=ran.order.scenario.claims_order)
    ran.faults = [
        fault_record(
            fault,
            _times([event for event in acted if event.f == fault.id], ran.noted.get(fault.id, ())),
        )
        for fault in ran.order.scenario.faults
    ]
    return recorded(ran, world=SIMULATED_WORLD)


def _times(acted: Sequence[FaultEvent], noted: Sequence[ActingHere]) -> Iterator[FaultTime]:
    """The acts of one fault; one that an attempt performed itself has no planned or measured time."""
    begins = [event.t for event in acted if event.phase == "begin"]
    ends = [event for event in acted if event.phase == "end"]
    for begun_us, end, note in zip_longest(begins, ends, noted):
        yield FaultTime(
            planned_us=note.planned_us if note else None,
            armed_us=begun_us,
            measured_us=note.measured_us if note else None,
            healed_us=end.t if end else None,
            evidence=end.evidence if end and isinstance(end.evidence, dict) else {},
        )


_LIMIT_MS: Final = 3_600_000
_STEPS_MAX: Final = 4_000_000
_CHILD_S: Final = 120.0
"""How long all calls may take in real time: virtual time has its own, much shorter limit."""


def ask_in_child(
    questions: Questions, *, rows: Sequence[Sequence[object]], row_bytes: int
) -> Sequence[JsonView]:
    """Call `ask_simulated` in a process of its own."""
    ask = partial(ask_simulated, questions, rows=rows, row_bytes=row_bytes)
    return in_child(ask, what=f"--sut {questions.sut}, called alone without any fault,", limit_s=_CHILD_S)


def ask_simulated(
    questions: Questions, *, rows: Sequence[Sequence[object]], row_bytes: int
) -> Sequence[JsonView]:
    """The lines of the twin."""
    draw = Draw(questions.seed, "calm twin")
    hub = Hub(draw, limit_ms=_LIMIT_MS, steps_max=_STEPS_MAX)
    tables = SimulatedTables(subtasks=1, customers=Customers(rows))
    server = SimulatedServer(hub=hub, tables=tables, on_commit=lambda *_: None, executor=executor_of)
    link = SimulatedLink("lookups", hub=hub, draw=draw, server=server, row_bytes=row_bytes)
    lines: list[Mapping[str, Any]] = []

    def live(actor: Actor) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(hub)))
        try:
            twin = CalmTwin(
                questions,
                lookup=load_lookup(questions.sut),
                driver=AsyncSimulatedDriver(link, loop=loop),
                tell=lines.append,
            )
            asking = loop.create_task(twin.ask())
            asking.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        finally:
            loop.wind_up()

    actor = hub.spawn(live, name="calm twin", ended=lambda _: None, at_ms=0)
    with uncollected(), redirect_stdout(sys.stderr), outer_loop_kept():  # standard output is for results
        why = hub.run()
    if actor.error is not None:
        raise actor.error
    if not lines or lines[-1]["k"] != "end":
        lines.append({"k": "gone", "why": why or "it ended its event loop"})
    return lines
