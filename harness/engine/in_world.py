"""One run in a world: prepares the database, starts the attempts, injects the faults, merges the recorded lines.

Invariant: at the end every fault is healed, every attempt has ended and the recorded lines are merged, also after an
error; an unfinished run is marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pymysql

from harness.clock import monotonic_us
from harness.database.audit import AuditRow, ServerCounter, TableAudit, read_audit
from harness.database.coordinator import coordinated
from harness.database.endpoint import Endpoint
from harness.database.schema import prepare_database, run_database
from harness.defects import variant_of
from harness.engine.findings import findings, outside_events
from harness.engine.level import LevelRunner, RunRecord, RunSite
from harness.engine.refusals import refuse_in_world
from harness.engine.watch import Ending, Watch
from harness.errors import HarnessError, WorldError
from harness.history.event import Event
from harness.history.header import Header
from harness.history.merge import Leftovers, Line, history_text, merge, read_leftovers
from harness.history.read import open_text
from harness.history.recorder import HARNESS_FILE, Recorder
from harness.pitfalls.finding import RunSeen, find_pitfalls
from harness.runs.claims import header_of
from harness.runs.order import Order, planned_crashes, planned_inside
from harness.runs.outcome import FaultRecord
from harness.runs.plan import RunPlan
from harness.scenario.model import Scenario
from harness.scenario_parts.parts import SINK_FORMS
from harness.workloads.keys import keys_of
from harness.workloads.lookups import customer_rows, offered_records
from harness.world.world import DATABASE, World

__all__ = ["record_in_world"]


def record_in_world(
    order: Order,
    site: RunSite,
    *,
    runner: LevelRunner,
    inspect: Callable[[Endpoint], None] = lambda root: None,
) -> RunRecord:
    """Performs `order` in the site's world; leaves raw events and logs in its folder. A `Play` for `runner`.

    `inspect` may read the run's database over a direct connection before it is dropped.
    """
    world, scenario = site.world, order.scenario
    workload = scenario.workload
    assert world is not None, f"level {order.level} needs a world"
    refuse_in_world(_acts(order), world.lacks)
    raw = site.folder / "raw"
    raw.mkdir()
    rows = customer_rows(keys=keys_of(workload), seed=order.seed, fanout=workload.fanout)
    name = f"{DATABASE}_{site.run_id.replace('-', '_')}"
    with run_database(_root(world, ""), name=name):
        root = _root(world, name)
        prepare_database(
            root,
            subtasks=scenario.workload.subtasks,
            rows=rows,
            keyed=SINK_FORMS[scenario.sink].has_output_key and variant_of(order.mutant).has_output_key,
        )
        plan = _plan(order, run_id=site.run_id, world=world, database=name, raw=raw, rows=rows)
        server = ServerCounter(root)
        with Recorder(raw / HARNESS_FILE) as recorder:
            site.observer.phase("run", f"{scenario.scenario} at level {order.level}, seed {order.seed}")
            world.proxy.reseed(order.seed)
            watch = Watch(acts=_acts(order), plan=plan, recorder=recorder, observer=site.observer)
            with _coordinated(scenario, root, recorder):
                ending = watch.over(
                    world=world, runner=runner, logs=site.folder, stop=site.stop, limit_s=site.limit_s
                )
        ran_us, counts = monotonic_us(), server.read()
        site.observer.phase("judge", "merging and judging what was recorded")
        offered = offered_records(_acts(order), seed=order.seed, rows=rows)
        audit = _audit(root, scenario, ending, offered=offered)
        inspect(root)
    leftovers = read_leftovers(raw)
    faults = findings(scenario, leftovers.lines)
    header, events = _history(order, leftovers, faults, audit)
    return RunRecord(
        header=header,
        events=events,
        whole=ending.error is None and not leftovers.missing,
        error=ending.error,
        interrupted=ending.interrupted,
        ran_us=ran_us,
        world=world.description,
        faults=_on_history_clock(faults, leftovers),
        accounting=audit.counts if audit else {},
        threats=(*leftovers.warnings, *(() if audit else ("the database did not answer the audit",))),
        pitfalls=find_pitfalls(RunSeen.of(scenario, leftovers.lines, ended_us=ran_us, server=counts)),
    )


def _coordinated(scenario: Scenario, root: Endpoint, recorder: Recorder) -> AbstractContextManager[None]:
    """The coordinator that completes checkpoints; the atomic sink needs none."""
    return nullcontext() if scenario.sink == "atomic" else coordinated(root, note=recorder.record)


def _audit(root: Endpoint, scenario: Scenario, ending: Ending, *, offered: int) -> TableAudit | None:
    """Reads the run's tables; None if the database does not answer and the run had failed anyway."""
    try:
        return read_audit(root, offered=offered, ordered=scenario.operator.mode == "ordered")
    except (pymysql.MySQLError, OSError) as error:
        if ending.error is not None:
            return None
        message = f"the run is over, but the database does not answer the audit: {error}"
        raise WorldError(message, fix="look at the server's log; run it again with --keep always") from error


def _root(world: World, database: str) -> Endpoint:
    return world.root.at(world.direct, database)


def _plan(
    order: Order, *, run_id: str, world: World, database: str, raw: Path, rows: list[list[Any]]
) -> RunPlan:
    lookups = world.direct if variant_of(order.mutant).bypasses_proxy else world.links["lookups"]
    return RunPlan(
        run_id=run_id,
        scenario=order.scenario.model_dump(mode="json", by_alias=True),
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        lookups=world.app.at(lookups, database),
        sink=world.app.at(world.links["sink"], database),
        folder=str(raw),
        path=list(order.import_path),
        table=rows,
        crashes=planned_crashes(_acts(order)),
        inside=planned_inside(_acts(order)),
    )


def _acts(order: Order) -> Scenario:
    """The scenario to perform; without its faults if the planted defect is a harness that injects none."""
    if variant_of(order.mutant).arms_faults:
        return order.scenario
    return order.scenario.model_copy(update={"faults": ()})


def _history(
    order: Order, leftovers: Leftovers, faults: Sequence[FaultRecord], audit: TableAudit | None
) -> tuple[Header, list[Event]]:
    """Merges the recorded lines and reads the result with the reader for history files."""
    committed = {(row.subtask, row.epoch): row.token for row in audit.epochs} if audit else {}
    lines = merge(
        leftovers,
        faults=outside_events(faults, leftovers.lines),
        committed=committed,
        effects=[_effect(row) for row in audit.rows] if audit else [],
        completed=frozenset(audit.completed) if audit else frozenset(),
    )
    return _read_own(header_of(order, audited=audit is not None), lines)


def _read_own(header: Mapping[str, Any], lines: Sequence[Line]) -> tuple[Header, list[Event]]:
    """Header and events of our own history. Raises HarnessError if it violates the format."""
    reader = open_text(history_text(header, lines))
    events = list(reader.events())
    if reader.header is None or reader.breaches:
        first = reader.breaches[0]
        message = f"our own history breaks its format: line {first.line}: {first.say}"
        raise HarnessError(message, fix="please report it, with the files in the run's folder `raw`")
    return reader.header, events


def _effect(row: AuditRow) -> Line:
    return {
        "k": "effect",
        "s": row.subtask,
        "id": row.id,
        "j": row.j,
        "v": row.value,
        "token": row.token,
        "seq": row.seq,
    }


def _on_history_clock(faults: Sequence[FaultRecord], leftovers: Leftovers) -> tuple[FaultRecord, ...]:
    origin = leftovers.lines[0]["t"] if leftovers.lines else 0
    moved = ((fault, tuple(time.moved(origin) for time in fault.times)) for fault in faults)
    return tuple(
        FaultRecord(id=fault.id, kind=fault.kind, plan=fault.plan, times=times) for fault, times in moved
    )
