"""A scenario at level sim: the same file as at the others, in virtual time, with the database simulated.

Answers to `harness.run`. Invariant: what comes out depends on the order alone: equal orders, equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.claims import header_of
from harness.errors import HarnessError
from harness.history.event import Event
from harness.history.header import Header, parse_header
from harness.order import REFERENCE, Order, planned_crashes
from harness.scenario import Scenario
from harness.sim.atomic_sink import AtomicSink
from harness.sim.attempt import Attempt, Job
from harness.sim.fault_schedule import FaultSchedule
from harness.sim.pool import MemoryTables, SimulatedPool
from harness.sim.prepared_source import DueElement, PreparedSource
from harness.sim.reference_lookup import ReferenceLookup
from harness.sim.simulation import Simulation
from harness.sim.variant import HONEST, Variant
from harness.sut.enrichment import answer_timeouts, enrich
from harness.sut.positions import SubtaskSource
from harness.sut.registry import load_lookup
from harness.workloads.lookups import LookupSource
from reference_impl.async_function import AsyncFunction
from reference_impl.coroutine_function import from_coroutine

__all__ = ["Simulated", "simulate_scenario"]

_TIERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A simulated run, not yet judged."""

    header: Header
    events: Sequence[Event]
    error: str | None
    """Why it stopped early, if it did."""
    virtual_ms: int
    numbered: int
    """Events that were made; more than `events` holds, if recording has gaps."""


def simulate_scenario(order: Order, *, variant: Variant = HONEST) -> Simulated:
    """Run `order`, whatever its level says, at sim."""
    scenario, seed = order.scenario, order.seed
    run = Simulation(
        seed=seed,
        customers=_customers(scenario, seed),
        variant=variant,
        limit_ms=scenario.budget,
        crashes=planned_crashes(scenario) if variant.arms_faults else (),
    )
    if variant.arms_faults:
        schedule = FaultSchedule(scenario=scenario, run=run)
        run.watch = schedule.reached if schedule.has_any else None
        run.closing = schedule.close
    run.run(_job(order, run))
    return Simulated(
        header=_header(order),
        events=run.tape.events,
        error=run.error,
        virtual_ms=run.hub.now_ms,
        numbered=run.tape.numbered,
    )


def _customers(scenario: Scenario, seed: int) -> dict[int, dict[str, Any]]:
    return {
        key: {"name": f"customer {key}", "city": f"city {key % 7}", "tier": 1 + (key + seed) % _TIERS}
        for key in range(scenario.workload.keys)
    }


def _job(order: Order, run: Simulation) -> Job:
    scenario = order.scenario
    operator, workload = scenario.operator, scenario.workload
    customers = run.database.customers
    sources = [_elements(order, subtask) for subtask in range(workload.subtasks)]

    def source(subtask: int, origin_ms: int) -> PreparedSource:
        return PreparedSource(
            sources[subtask], checkpoint_every=workload.checkpoint_every, origin_ms=origin_ms
        )

    is_ours = order.sut == REFERENCE
    function = (
        partial(_reference, scenario)
        if is_ours
        else _users(order, MemoryTables((key, *row.values()) for key, row in customers.items()))
    )
    return Job(
        mode=operator.mode,
        capacity=operator.capacity,
        timeout_ms=operator.timeout,
        subtasks=workload.subtasks,
        source=source,
        sink=AtomicSink,
        function=function,
        expect=(lambda lookup: [customers[lookup.key]]) if is_ours else None,
        nonces=is_ours,
    )


def _elements(order: Order, subtask: int) -> Sequence[DueElement]:
    """What `harness.sut.positions.SubtaskSource` reads, read once for all attempts."""
    workload = order.scenario.workload
    elements = LookupSource(workload=workload, seed=order.seed, subtask=subtask)
    source = SubtaskSource(elements, checkpoint_every=workload.checkpoint_every, origin_ms=0)
    return [(source.read(position), source.due_ms(position)) for position in range(len(elements) + 1)]


def _users(order: Order, tables: MemoryTables) -> Callable[[Attempt], AsyncFunction]:
    """A user's own function, as coroutines of the attempt's loop."""
    lookup, answer = load_lookup(order.sut), order.scenario.operator.on_timeout

    def function(attempt: Attempt) -> AsyncFunction:
        assert attempt.loop is not None, "an attempt has its loop before its function"
        # A pool with the same methods; which one it is, is the level's affair.
        pool = SimulatedPool(attempt.client, tables, loop=attempt.loop)
        return from_coroutine(
            enrich(lookup, pool),
            loop=attempt.loop,
            on_timeout="fail" if answer == "fail" else answer_timeouts(answer),
        )

    return function


def _reference(scenario: Scenario, attempt: Attempt) -> AsyncFunction:
    answer = scenario.operator.on_timeout
    assert attempt.journal is not None, "an attempt has its journal before its function"
    assert attempt.loop is not None, "an attempt has its loop before its function"
    return ReferenceLookup(
        client=attempt.client,
        journal=attempt.journal,
        loop=attempt.loop,
        executor=attempt.executor,
        on_timeout="fail" if answer == "fail" else answer_timeouts(answer),
    )


def _header(order: Order) -> Header:
    header = parse_header(header_of(order, audited=True))
    if not isinstance(header, Header):
        message = f"our own header breaks its format: {'; '.join(header)}"
        raise HarnessError(message, fix="please report it, with the command")
    return header
