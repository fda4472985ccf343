"""Level `sim`: runs in virtual time, in one thread, with a simulated database.

Invariant: equal orders give equal bytes. A run writes no file: its events are a tape in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from harness.database.driver import AsyncMySqlDriver
from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, SimulatedTables
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.engine.expectation import find_expected
from harness.engine.findings import fault_record
from harness.engine.level import Opening, Play, RunRecord, RunSite, asks_a_server, refuse_at_level
from harness.engine.run import recorded
from harness.history.event import FaultEvent
from harness.judge.checkers.judge import uncollected
from harness.levels.sim.canaries import refuse_blind_simulation
from harness.levels.sim.drivers import AT, AsyncSimulatedDriver
from harness.levels.sim.fault_schedule import ActingHere
from harness.levels.sim.place import count_tables
from harness.levels.sim.run import Simulated, customers, simulate_scenario
from harness.levels.sim.subtask_loop import SubtaskLoop, outer_loop_kept
from harness.scenario.order import Order
from harness.scenario.outcome import SIMULATED_SERVER, FaultTime, WorldDescription
from harness.sut.calm_twin import CalmTwin, Questions
from harness.sut.registry import REFERENCE_EMITTER, load_lookup, needs_threads
from harness.sut.variant import HONEST, Variant
from harness.system.choices import Draw
from harness.system.errors import SutError, UsageError
from harness.system.forked import in_child
from harness.system.json_types import JsonView

if TYPE_CHECKING:
    from harness.levels.sim.real_tables import RealTables
    from harness.levels.sim.wire import Wire
    from harness.world.world import World


SIMULATED_WORLD = WorldDescription(
    kind="simulated",
    why="--level sim needs no other",
    server=SIMULATED_SERVER,
    proxy="simulated proxy",
    ready_s=0.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLevel:
    """The `Level` of simulated runs."""

    name: ClassVar[str] = "sim"
    needs_world: ClassVar[bool] = False
    in_threads: ClassVar[bool] = False
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
        if needs_threads(order.sut):
            message = f"--sut {order.sut} blocks, so its calls run on threads, and level sim has one"
            fix = "run it with --level live, or write `async def __call__(self, record)`"
            raise UsageError(message, fix=fix)

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`; `world` is None."""
        del world
        refuse_blind_simulation()

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        """Opens a world's server if a run asks one; else nothing."""
        if not opening.has_server:
            yield self.play
            return
        from harness.levels.sim.real_tables import real_tables  # noqa: PLC0415 - pulls in a database's client

        with real_tables(opening) as server:
            yield partial(self.play, server=server)

    def play(self, order: Order, site: RunSite, *, server: RealTables | None = None) -> RunRecord:
        variant = self.variant or HONEST
        if self.variant is None and order.mutant is not None:
            from harness.sut.defects import variant_of  # noqa: PLC0415 - most runs plant no defect

            variant = variant_of(order.mutant)
        play = partial(simulate_scenario, order, site=site, variant=variant)
        if ":" not in order.sut:
            return record_of(play())
        refuse_at_level(order.scenario, self.name)
        rows, row_bytes = customers(order.scenario, order.seed), order.scenario.workload.row_bytes
        server = server if asks_a_server(order) else None
        ask = partial(ask_in_child, rows=rows, row_bytes=row_bytes, server=server)
        if server is None:
            expected, values = find_expected(order, rows, ask=ask)
        else:
            server.fill(order.scenario, rows)
            with server.own_rows() if order.scenario.own_schema is not None else nullcontext() as own:
                expected, values = find_expected(order, rows, ask=ask, own=own)
            server.fill(order.scenario, rows)  # the calls may have written to them
        return in_child(
            lambda: record_of(play(expected=expected, values=values, server=server), server=server),
            what=f"--sut {order.sut}",
            stop=site.stop,
        )


def record_of(ran: Simulated, *, server: RealTables | None = None) -> RunRecord:
    """The record of a simulated run, with the server of its lookups if that is real.

    Raises HarnessError if its expected results are not those of its rows.
    """
    acted = [event for event in ran.events if type(event) is FaultEvent]
    ran.counts = count_tables(ran.tables, ordered=ran.order.scenario.claims_order)
    ran.faults = [
        fault_record(
            fault,
            _times([event for event in acted if event.f == fault.id], ran.noted.get(fault.id, ())),
        )
        for fault in ran.order.scenario.faults
    ]
    world = SIMULATED_WORLD
    if server is not None:
        real = server.description
        world = replace(world, why=real.why, server=real.server)
    return recorded(ran, world=world)


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
    questions: Questions,
    *,
    rows: Sequence[Sequence[object]],
    row_bytes: int,
    server: RealTables | None = None,
) -> Sequence[JsonView]:
    """Call `ask_simulated` in a process of its own."""
    ask = partial(ask_simulated, questions, rows=rows, row_bytes=row_bytes, server=server)
    return in_child(ask, what=f"--sut {questions.sut}, called alone without any fault,", limit_s=_CHILD_S)


def ask_simulated(
    questions: Questions,
    *,
    rows: Sequence[Sequence[object]],
    row_bytes: int,
    server: RealTables | None = None,
) -> Sequence[JsonView]:
    """The lines of the twin."""
    draw = Draw(questions.seed, "calm twin")
    hub = Hub(draw, limit_ms=_LIMIT_MS, steps_max=_STEPS_MAX)
    tables = SimulatedTables(subtasks=1, customers=Customers(rows))
    simulated = SimulatedServer(hub=hub, tables=tables, on_commit=lambda *_: None, executor=executor_of)
    link = SimulatedLink("lookups", hub=hub, draw=draw, server=simulated, row_bytes=row_bytes)
    if server is not None:
        questions = msgspec.structs.replace(questions, lookups=AT)
    lines: list[Mapping[str, Any]] = []
    refusals: list[SutError] = []

    def live(actor: Actor, *, wire: Wire | None) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(hub)))
        with nullcontext() if wire is None else wire.dialing(loop, actor, link):
            ask(loop)

    def ask(loop: SubtaskLoop) -> None:
        try:
            twin = CalmTwin(
                questions,
                lookup=load_lookup(questions.sut),
                driver=AsyncSimulatedDriver(link, loop=loop) if server is None else AsyncMySqlDriver(AT),
                tell=lines.append,
            )
            asking = loop.create_task(twin.ask())
            asking.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        finally:
            loop.wind_up()

    with (
        uncollected(),
        redirect_stdout(sys.stderr),  # standard output is for results
        outer_loop_kept(),
        nullcontext() if server is None else server.wired(hub, refuse=refusals.append) as wire,
    ):
        actor = hub.spawn(partial(live, wire=wire), name="calm twin", ended=lambda _: None, at_ms=0)
        why = hub.run()
    if refusals:
        raise refusals[0]
    if wire is not None:
        wire.raise_failure()
    if actor.error is not None:
        raise actor.error
    if not lines or lines[-1]["k"] != "end":
        lines.append({"k": "gone", "why": why or "it ended its event loop"})
    return lines
