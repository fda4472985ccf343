"""A small simulation to test its parts with: a few records, one subtask, whatever is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.sim.atomic_sink import AtomicSink
from harness.sim.attempt import Attempt, Job
from harness.sim.prepared_source import PreparedSource
from harness.sim.reference_lookup import ReferenceLookup
from harness.sim.simulation import Simulation
from harness.workloads.lookups import Lookup
from reference_impl.async_function import AsyncFunction
from reference_impl.elements import EndOfInput, Record, Watermark

__all__ = ["SmallRun", "small_run"]


@dataclass(frozen=True, kw_only=True)
class SmallRun:
    """A simulation and its job."""

    run: Simulation
    job: Job

    def go(self) -> Simulation:
        """To the end."""
        self.run.run(self.job)
        return self.run

    def kinds(self) -> list[str]:
        """Of the events, in their order."""
        return [str(event.__struct_config__.tag) for event in self.run.tape.events]


def small_run(
    *,
    seed: int = 1,
    records: int = 6,
    checkpoint_every: int = 3,
    service_ms: Sequence[int] = (10,),
    sink: type[Any] = AtomicSink,
    function: Callable[[Attempt], AsyncFunction] | None = None,
    capacity: int = 4,
    timeout_ms: int = 0,
    subtasks: int = 1,
    **options: Any,
) -> SmallRun:
    """`records` records, one each millisecond, a watermark after every second; record n asks for key n."""
    customers = {key: f"customer {key}" for key in range(records)}
    run = Simulation(seed=seed, customers=customers, **options)

    def elements(subtask: int) -> list[Any]:
        made: list[Any] = []
        for number in range(records):
            service = service_ms[number % len(service_ms)]
            lookup = Lookup(id=subtask * 1000 + number, key=number, service_ms=service)
            made.append((Record(value=lookup, timestamp=number, position=len(made)), number))
            if number % 2:
                made.append((Watermark(timestamp=number, position=len(made)), number))
        return [*made, (EndOfInput(), records)]

    def source(subtask: int, origin_ms: int) -> PreparedSource:
        return PreparedSource(elements(subtask), checkpoint_every=checkpoint_every, origin_ms=origin_ms)

    job = Job(
        mode="ordered",
        capacity=capacity,
        timeout_ms=timeout_ms,
        subtasks=subtasks,
        source=source,
        sink=sink,
        function=function or _reference,
        expect=lambda lookup: [customers[lookup.key]],
        nonces=True,
    )
    return SmallRun(run=run, job=job)


def _reference(attempt: Attempt) -> AsyncFunction:
    assert attempt.journal is not None
    assert attempt.loop is not None
    return ReferenceLookup(
        client=attempt.client,
        journal=attempt.journal,
        loop=attempt.loop,
        executor=attempt.executor,
        on_timeout="fail",
    )
