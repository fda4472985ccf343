"""A scenario at level sim: the same file as at the others, in virtual time, with the database simulated.

Answers to `harness.engine.perform`. Invariant: what comes out depends on the order alone: equal orders, equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypedDict

from harness.choices import Choices
from harness.claims import header_of
from harness.engine.refusals import refuse_at_level
from harness.errors import HarnessError
from harness.history.event import Event
from harness.history.header import Header, parse_header
from harness.runs.claims import header_of
from harness.runs.order import REFERENCE, Order, planned_crashes
from harness.runs.plan import Crash
from harness.scenario import Operator, Scenario, Sink, Workload
from harness.sim.atomic_sink import AtomicSink
from harness.sim.attempt import Attempt, Job
from harness.sim.coordinated_run import RegionalRun
from harness.levels.sim.fault_schedule import FaultSchedule, Noted
from harness.sim.global_coordination import GlobalCoordination
from harness.sim.pool import MemoryTables, SimulatedPool
from harness.sim.prepared_source import DueElement, PreparedSource
from harness.sim.reference_lookup import ReferenceLookup
from harness.sim.simulation import Simulation
from harness.sim.sinks.idempotent import IdempotentSink
from harness.sim.sinks.two_phase import TwoPhaseSink
from harness.sim.variant import HONEST, Variant
from harness.sut.coordination import Coordination
from harness.sut.dead_letter import DeadLetterFunction, is_dead_letter
from harness.sut.enrichment import answer_timeouts, enrich
from harness.sut.keyed_task.keyed_task import KeyedTask
from harness.sut.positions import SubtaskSource
from harness.sut.registry import load_lookup
from harness.workloads.inputs import Inputs
from harness.workloads.lookups import Lookup, LookupSource
from harness.workloads.sessions import Stamp, expect_stamped, session_stamps
from reference_impl.async_function import AsyncFunction
from reference_impl.coroutine_function import from_coroutine
from reference_impl.retry import NO_RETRY, FixedDelay, RetryStrategy, any_error

__all__ = ["Simulated", "simulate_scenario"]

_TIERS = 5
_PARTS_KEPT: Final = 3
"""Completed checkpoints that may still be restored, as `harness.database.coordinated_sink` has it."""


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
    noted: Mapping[str, Sequence[Noted]] = field(default_factory=dict)
    """What the events do not tell of each time that a fault acted."""

    @property
    def whole(self) -> bool:
        """Whether it ran to its end, and no event that was made is missing."""
        return self.error is None and self.numbered == len(self.events)


def simulate_scenario(order: Order, *, variant: Variant = HONEST) -> Simulated:
    """Run `order`, whatever its level says, at sim. Raises UsageError for a fault that cannot be here."""
    refuse_at_level(order.scenario, "sim")
    scenario, seed = order.scenario, order.seed
    if not variant.arms_faults:
        scenario = scenario.model_copy(update={"faults": ()})
    run = _run(scenario, seed, variant)
    run.links["lookups"].row_bytes = run.direct.row_bytes = scenario.workload.row_bytes
    schedule = FaultSchedule(scenario=scenario, run=run, seed=seed)
    run.watch = schedule.reached if schedule.has_any else None
    run.closing = schedule.close
    run.tape.hears = schedule.workload.hears
    run.run(_job(order, scenario, run, schedule))
    return Simulated(
        header=_header(order),
        events=run.tape.events,
        error=run.error,
        virtual_ms=run.hub.now_ms,
        numbered=run.tape.numbered,
        noted=schedule.noted,
    )


def _run(scenario: Scenario, seed: int, variant: Variant) -> Simulation:
    parts = _Parts(
        seed=seed,
        customers=_customers(scenario, seed),
        variant=variant,
        limit_ms=scenario.budget,
        crashes=planned_crashes(scenario),
    )
    if scenario.sink == "atomic":
        return Simulation(**parts)
    return RegionalRun(subtasks=scenario.workload.subtasks, recounts=True, keeps=_PARTS_KEPT, **parts)


class _Parts(TypedDict):
    """What every run has."""

    seed: int
    customers: Mapping[int, Any]
    variant: Variant
    limit_ms: int
    crashes: Sequence[Crash]


_SINKS: Final[Mapping[Sink, type[Any]]] = {
    "atomic": AtomicSink,
    "two-phase": TwoPhaseSink,
    "idempotent": IdempotentSink,
}


def _customers(scenario: Scenario, seed: int) -> dict[int, list[dict[str, Any]]]:
    """The rows of each key: one, or none up to as many as `fanout` says."""
    workload, counts = scenario.workload, Choices(seed, "rows of a key")
    return {
        key: [
            {"name": f"customer {key}", "city": f"city {key % 7}", "tier": 1 + (key + seed + row) % _TIERS}
            for row in range(1 if workload.fanout == 1 else counts.between(0, workload.fanout))
        ]
        for key in range(workload.keys)
    }


def _job(order: Order, scenario: Scenario, run: Simulation, schedule: FaultSchedule) -> Job:
    operator, workload = scenario.operator, scenario.workload
    customers = run.database.customers
    read = [_source(scenario, order.seed, subtask) for subtask in range(workload.subtasks)]
    sources = [_elements(workload, elements) for elements in read]
    keyed = _keyed(scenario, order.seed, read, run.variant)

    def source(subtask: int, origin_ms: int) -> PreparedSource:
        return PreparedSource(
            sources[subtask], checkpoint_every=workload.checkpoint_every, origin_ms=origin_ms
        )

    is_ours = order.sut == REFERENCE
    rows = ((key, *row.values()) for key, rows in customers.items() for row in rows)
    lookup = partial(_reference, scenario) if is_ours else _users(order, MemoryTables(rows))

    def function(attempt: Attempt) -> AsyncFunction:
        faulty = schedule.workload.around_calls(lookup(attempt), attempt)
        return DeadLetterFunction(faulty) if operator.on_error == "dead-letter" else faulty

    return Job(
        mode=operator.mode,
        capacity=operator.capacity,
        timeout_ms=operator.timeout,
        subtasks=workload.subtasks,
        source=source,
        sink=_SINKS[scenario.sink],
        function=function,
        expect=_expectation(customers, keyed, read) if is_ours else None,
        retry=_retry(operator),
        nonces=is_ours,
        breaks_circuit=True,
        coordination=Coordination if scenario.sink == "atomic" else GlobalCoordination,
        keyed=None if keyed is None else keyed.__getitem__,
    )


def _keyed(
    scenario: Scenario, seed: int, read: Sequence[LookupSource], variant: Variant
) -> list[KeyedTask] | None:
    """What the scenario's `task:` puts in front of the lookups of each subtask."""
    task = scenario.task
    if task is None:
        return None
    return [
        KeyedTask(
            inputs=Inputs(task, source, seed=seed, subtask=subtask), gap_ms=task.gap, parts=variant.keyed
        )
        for subtask, source in enumerate(read)
    ]


def _expectation(
    customers: Mapping[int, list[dict[str, Any]]],
    keyed: Sequence[KeyedTask] | None,
    read: Sequence[LookupSource],
) -> Callable[[Lookup], Sequence[Any]]:
    """What our own lookup answers, with the stamp of its record if there is one."""

    def answers(lookup: Lookup) -> Sequence[Any]:
        return customers[lookup.key]

    if keyed is None:
        return answers
    stamps: dict[int, Stamp] = {}
    for task, source in zip(keyed, read, strict=True):
        stamps |= session_stamps(source, task.inputs, gap_ms=task.gap_ms)
    return expect_stamped(answers, stamps)


def _retry(operator: Operator) -> RetryStrategy:
    """How often a record is asked for, at most; a dead letter is a failure that came as a result."""
    if operator.tries == 1:
        return NO_RETRY
    dead_letters = operator.on_error == "dead-letter"
    return FixedDelay(
        max_retries=operator.tries - 1,
        delay_ms=max(1, operator.retry_delay),
        on_result=is_dead_letter if dead_letters else None,
        on_error=None if dead_letters else any_error,
    )


def _source(scenario: Scenario, seed: int, subtask: int) -> LookupSource:
    return LookupSource(workload=scenario.workload, seed=seed, subtask=subtask, faults=scenario.faults)


def _elements(workload: Workload, elements: LookupSource) -> Sequence[DueElement]:
    """What `harness.sut.positions.SubtaskSource` reads, read once for all attempts."""
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
            on_timeout=answer_timeouts(answer) if isinstance(answer, list) else "fail",
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
        on_timeout=answer_timeouts(answer) if isinstance(answer, list) else "fail",
        results=lambda rows: rows or [],
    )


def _header(order: Order) -> Header:
    header = parse_header(header_of(order, audited=True))
    if not isinstance(header, Header):
        message = f"our own header breaks its format: {'; '.join(header)}"
        raise HarnessError(message, fix="please report it, with the command")
    return header
