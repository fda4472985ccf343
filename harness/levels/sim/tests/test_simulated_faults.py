"""Every kind of fault at level sim: it bites, heals, and does not tell of what it did not do."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, SimulatedTables
from harness.faults.registry import FAULTS
from harness.history.event import FaultEvent
from harness.history.verdict import Outcome
from harness.levels.sim.run import Simulated
from harness.levels.sim.tests.fault_samples import SAMPLES, STORES, sample, simulated
from harness.sut.variant import Variant
from harness.system.choices import Draw
from harness.system.errors import UsageError
from harness.tests.simulated_run import judgement_of
from tools.cases import each, in_sweep_after

OUTSIDE = [
    kind
    for kind in SAMPLES
    if FAULTS[kind].by in {"link", "server"} and kind != "wait_timeout"  # its sample has a silence of its own
]
SINKS = pytest.mark.parametrize("sink", in_sweep_after(1, ["two-phase", "atomic", "idempotent"]))


def told(ran: Simulated) -> list[tuple[str, Any]]:
    """Of the fault itself, not of what a sample needs besides."""
    return [
        (event.phase, event.evidence)
        for event in ran.events
        if isinstance(event, FaultEvent) and event.f == "f0"
    ]


def test_there_is_a_sample_of_each_kind_that_level_sim_can_do() -> None:
    assert set(SAMPLES) == {kind for kind, form in FAULTS.items() if "sim" in form.levels}


@pytest.mark.sweep
@each("kind", SAMPLES)
def test_it_bites_and_heals_and_the_reference_passes(kind: str) -> None:
    ran = simulated(sample(kind))

    begin, end = told(ran)

    assert ran.error is None
    assert (begin[0], end[0]) == ("begin", "end")
    assert end[1]
    assert judgement_of(ran).outcome is Outcome.PASS


@SINKS
@pytest.mark.parametrize(
    "kind", ["lost_commit", "lost_commit_reply", "db_kill", "db_pause", "kill_worker", "zombie", "deadlocks"]
)
@pytest.mark.parametrize("seeds", [1, pytest.param(6, marks=pytest.mark.sweep)])
def test_what_hits_commits_leaves_every_sink_right(kind: str, sink: str, seeds: int) -> None:
    outcomes = {judgement_of(simulated(sample(kind, sink=sink), seed=seed)).outcome for seed in range(seeds)}

    # The rival lies in the gap of the next epoch, and an idempotent sink writes none.
    meets_nobody = (kind, sink) == ("deadlocks", "idempotent")
    assert outcomes == {Outcome.VACUOUS if meets_nobody else Outcome.PASS}


@pytest.mark.parametrize("kind", in_sweep_after(12, SAMPLES))
def test_where_nothing_is_armed_nothing_is_told_and_the_run_is_vacuous(kind: str) -> None:
    scenario, variant = sample(kind), Variant(arms_faults=False)

    ran = simulated(scenario, variant=variant)

    assert told(ran) == []
    assert judgement_of(ran).outcome is Outcome.VACUOUS


def idle_run() -> Any:
    """As much of a simulation as faults of links and servers look at; nobody is connected."""
    draw = Draw(1, "test")
    hub = Hub(draw, limit_ms=10_000, steps_max=100_000)
    tables = SimulatedTables(subtasks=2, customers=Customers([[1, "Ada", "Rome", 1]]))
    server = SimulatedServer(
        hub=hub, tables=tables, on_commit=lambda _session, _effects: None, executor=executor_of
    )
    links = {name: SimulatedLink(name, hub=hub, draw=draw, server=server) for name in ("lookups", "sink")}
    direct = SimulatedLink("direct", hub=hub, draw=draw, server=server, is_direct=True)
    return SimpleNamespace(
        hub=hub,
        draw=draw,
        server=server,
        links=links,
        direct=direct,
        errors=Counter(),
        attempts=[],
        tape=SimpleNamespace(n=0, t=0, add=lambda _event: None),
    )


@each("kind", OUTSIDE)
def test_where_nobody_works_it_has_no_evidence(kind: str) -> None:
    run = idle_run()
    act = sample(kind).faults[0].simulated(run)
    assert act is not None
    run.hub.at(10, act.begins)
    run.hub.at(500, act.ends)

    run.hub.run()

    assert run.hub.now_ms >= 500
    assert act.evidence() == {}


@pytest.mark.parametrize("kind", STORES)
def test_a_fault_of_the_store_that_meets_no_write_has_no_evidence(kind: str) -> None:
    scenario = sample(kind, workload={"checkpoint_every": 1000})
    fault = scenario.faults[0].model_copy(update={"lasts": 1})

    ran = simulated(scenario.model_copy(update={"faults": (fault,)}))

    assert told(ran)[-1] == ("end", {})


@pytest.mark.parametrize("kind", ["server_clock", "pause_executor"])
def test_what_cannot_be_at_this_level_is_refused_before_the_run(kind: str) -> None:
    scenario = sample("latency")
    fault = FAULTS[kind].model_construct(id="f", do=kind, when=scenario.faults[0].when)

    with pytest.raises(UsageError, match=kind):
        simulated(scenario.model_copy(update={"faults": (fault,)}))
