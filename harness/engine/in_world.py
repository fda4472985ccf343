"""One run in a world: prepares the database, starts the attempts, injects the faults, merges the recorded lines.

Invariant: at the end every fault is healed, every attempt has ended and the recorded lines are merged, also after an
error; an unfinished run is marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from harness.clock import monotonic_us
from harness.database.audit import (
    Progress,
    ServerCounter,
    count_rows,
    read_progress,
    read_table,
)
from harness.database.coordinator import Coordinator, coordinated
from harness.database.endpoint import Endpoint
from harness.database.schema import prepare_database, run_database
from harness.database.stored_tables import ROWS_OF, StoredRow, stored_value
from harness.database.table_hand import SqlTableHand
from harness.defects import variant_of
from harness.engine.accounting import claims_order, missing_of
from harness.engine.findings import fault_events, findings
from harness.engine.level import LevelRunner, RunRecord, RunSite
from harness.engine.refusals import refuse_in_world
from harness.engine.watch import Ending, Watch, threats_of
from harness.errors import HarnessError, WorldError
from harness.history.event import Event
from harness.history.header import Header
from harness.history.merge import Leftovers, Line, history_text, merge, read_leftovers
from harness.history.read import open_text
from harness.history.recorder import HARNESS_FILE, Recorder
from harness.pitfalls.finding import RunSeen, find_pitfalls
from harness.runs.claims import AUDIT, DEAD_LETTERS, header_of
from harness.runs.order import Order, planned_crashes, planned_inside
from harness.runs.outcome import FaultRecord
from harness.runs.plan import RunPlan
from harness.scenario.model import Scenario
from harness.scenario_parts.parts import SINK_FORMS
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
    assert world is not None, f"level {order.level} needs a world"
    refuse_in_world(_acts(order), world.lacks)
    raw = site.folder / "raw"
    raw.mkdir()
    rows = customer_rows(keys=scenario.workload.keys, seed=order.seed, fanout=scenario.workload.fanout)
    name = f"{DATABASE}_{site.run_id.replace('-', '_')}"
    with run_database(_root(world, ""), name=name, stays=site.keeps_database):
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
            with _coordinated(order, root, recorder):
                ending = watch.over(
                    world=world, runner=runner, logs=site.folder, stop=site.stop, limit_s=site.limit_s
                )
        ran_us, counts = monotonic_us(), server.read()
        site.observer.phase("judge", "merging and judging what was recorded")
        if site.before_reading is not None:
            site.before_reading(SqlTableHand(root))
        stored = _stored(root, scenario, ending)
        inspect(root)
    leftovers = read_leftovers(raw)
    faults = findings(scenario, leftovers.lines)
    header, events = _history(order, leftovers, faults, stored)
    offered = offered_records(_acts(order), seed=order.seed, rows=rows)
    return RunRecord(
        header=header,
        events=events,
        whole=ending.error is None and not leftovers.missing,
        error=ending.error,
        interrupted=ending.interrupted,
        ran_us=ran_us,
        world=world.description,
        faults=_on_history_clock(faults, leftovers),
        accounting=_accounting(stored.counts, events, offered=offered),
        threats=(*leftovers.warnings, *threats_of(leftovers.lines), *stored.unread),
        pitfalls=find_pitfalls(RunSeen.of(scenario, leftovers.lines, ended_us=ran_us, server=counts)),
    )


def _coordinated(order: Order, root: Endpoint, recorder: Recorder) -> AbstractContextManager[None]:
    """The coordinator that completes checkpoints; the atomic sink needs none."""
    if order.scenario.sink == "atomic":
        return nullcontext()
    kind = variant_of(order.mutant).coordinator(Coordinator)
    return coordinated(root, note=recorder.record, kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What the database holds after the run."""

    tables: Sequence[Line]
    """The rows of its tables as events, and a `read` for each table that was read to its end."""
    unread: Sequence[str]
    """Why tables could not be read, a sentence each."""
    progress: Progress
    counts: Mapping[str, int]


def _stored(root: Endpoint, scenario: Scenario, ending: Ending) -> _Stored:
    """Reads the run's tables; one that cannot be read has no `read`, so what judges it is at best `unknown`.

    Raises WorldError if the database does not say what was committed, and the run had not failed anyway: without it
    the commits of killed attempts are missing, and would count as violations.
    """
    lines: list[Line] = []
    unread: list[str] = []
    for table in ROWS_OF:
        try:
            rows = read_table(root, table, lambda row, table=table: lines.append(_line_of(table, row)))  # type: ignore[misc]
        except (pymysql.MySQLError, OSError) as error:
            unread.append(f"the table {table} could not be read: {error}")
        else:
            lines.append({"k": "read", "table": table, "rows": rows})
    try:
        progress, counts = read_progress(root), count_rows(root, ordered=claims_order(scenario))
    except (pymysql.MySQLError, OSError) as error:
        if ending.error is None:
            message = f"the run is over, but the database does not answer: {error}"
            fix = "look at the server's log; run it again with --keep always"
            raise WorldError(message, fix=fix) from error
        progress, counts = Progress(epochs=(), completed=()), {}
    return _Stored(tables=lines, unread=unread, progress=progress, counts=counts)


def _line_of(table: str, row: StoredRow) -> Line:
    """The event of one row, without `n` and `t`."""
    if table == DEAD_LETTERS:
        names = {"k": "row", "table": table, "id": row.id, "error": row.text}
        return {**names, "seq": row.seq, "token": row.token, "c": row.epoch}
    value = {"id": row.id, "j": row.j, "v": stored_value(row.text)}
    if table == AUDIT:
        return {"k": "effect", "s": row.subtask, **value, "token": row.token, "seq": row.seq}
    return {"k": "row", "table": table, **value, "seq": row.seq, "token": row.token, "c": row.epoch}


def _accounting(counts: Mapping[str, int], events: Sequence[Event], *, offered: int) -> Mapping[str, int]:
    if not counts:
        return {}
    return {"offered": offered, **counts, **missing_of(counts, events, offered=offered)}


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
    order: Order, leftovers: Leftovers, faults: Sequence[FaultRecord], stored: _Stored
) -> tuple[Header, list[Event]]:
    """Merges the recorded lines and reads the result with the reader for history files."""
    lines = merge(
        leftovers,
        faults=fault_events(faults),
        committed={(row.subtask, row.epoch): row.token for row in stored.progress.epochs},
        effects=stored.tables,
        completed=frozenset(stored.progress.completed),
    )
    return _read_own(header_of(order), lines)


def _read_own(header: Mapping[str, Any], lines: Sequence[Line]) -> tuple[Header, list[Event]]:
    """Header and events of our own history. Raises HarnessError if it violates the format."""
    reader = open_text(history_text(header, lines))
    events = list(reader.events())
    if reader.header is None or reader.breaches:
        first = reader.breaches[0]
        message = f"our own history breaks its format: line {first.line}: {first.say}"
        raise HarnessError(message, fix="please report it, with the files in the run's folder `raw`")
    return reader.header, events


def _on_history_clock(faults: Sequence[FaultRecord], leftovers: Leftovers) -> tuple[FaultRecord, ...]:
    origin = leftovers.lines[0]["t"] if leftovers.lines else 0
    moved = ((fault, tuple(time.moved(origin) for time in fault.times)) for fault in faults)
    return tuple(
        FaultRecord(id=fault.id, kind=fault.kind, plan=fault.plan, times=times) for fault, times in moved
    )
