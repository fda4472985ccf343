"""One run: a scenario, at a level, in a world, with a seed; from the plan to the judged history.

Answers to Jepsen's `run!`. Invariant: whatever happens, every fault is healed, every attempt has ended and
what was recorded is merged and judged; a run that could not finish says so and is never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql

from harness.checkers.judge import judge_file
from harness.claims import header_of
from harness.clock import monotonic_us, utc_now
from harness.database.audit import AuditRow, TableAudit, read_audit
from harness.database.coordinator import coordinated
from harness.database.schema import prepare_database, run_database
from harness.database.server_counts import ServerCounter, ServerCounts
from harness.engine.findings import fault_events, findings
from harness.engine.refusals import refuse_in_world
from harness.errors import HarnessError, WorldError
from harness.execution import LevelRunner
from harness.history.merge import Leftovers, Line, merge, read_leftovers, write_history
from harness.history.recorder import HARNESS_FILE, Recorder
from harness.observer import Observer, Stop
from harness.order import Order, planned_crashes, planned_inside
from harness.outcome import FaultRecord, Pitfall, RunOutcome
from harness.pitfalls.finding import find_pitfalls
from harness.pitfalls.seen import RunSeen
from harness.plan import Endpoint, RunPlan
from harness.scenario import Scenario
from harness.sut.mutants import MUTANTS, Mutant
from harness.verdict import Judgement, Outcome, worst
from harness.versions import versions
from harness.watch import Ending, Watch
from harness.workloads.lookups import customer_rows, offered_records
from harness.world.world import DATABASE, World

__all__ = ["perform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A run that is over and not yet judged."""

    started_at: str
    began_us: int
    ran_us: int
    ending: Ending
    audit: TableAudit | None
    server: ServerCounts | None


def perform(
    order: Order,
    *,
    run_id: str,
    world: World,
    runner: LevelRunner,
    folder: Path,
    observer: Observer,
    stop: Stop,
    limit_s: float | None = None,
    inspect: Callable[[Endpoint], None] = lambda root: None,
) -> RunOutcome:
    """Run `order` in `world`; raw events, logs and the merged history are left in `folder`.

    `limit_s` shortens the scenario's own budget. `inspect` may look at the run's database, past the proxy,
    before it is dropped. Raises CannotHere, before anything is done, if the world has no means for a fault; WorldError
    if it breaks under the harness.
    """
    refuse_in_world(_acts(order), world.lacks)
    started_at, began_us = utc_now().isoformat(timespec="seconds"), monotonic_us()
    raw = folder / "raw"
    raw.mkdir()
    scenario = order.scenario
    rows = customer_rows(keys=scenario.workload.keys, seed=order.seed, fanout=scenario.workload.fanout)
    name = f"{DATABASE}_{run_id.replace('-', '_')}"
    with run_database(_root(world, ""), name=name):
        root = _root(world, name)
        prepare_database(
            root,
            subtasks=scenario.workload.subtasks,
            rows=rows,
            keyed=scenario.sink == "idempotent",
        )
        plan = _plan(order, run_id=run_id, world=world, database=name, raw=raw, rows=rows)
        server = ServerCounter(root)
        with Recorder(raw / HARNESS_FILE) as recorder:
            observer.phase("run", f"{scenario.scenario} at level {order.level}, seed {order.seed}")
            world.proxy.reseed(order.seed)
            watch = Watch(acts=_acts(order), plan=plan, recorder=recorder, observer=observer)
            with _coordinated(scenario, root, recorder):
                ending = watch.over(world=world, runner=runner, logs=folder, stop=stop, limit_s=limit_s)
        ran_us, counts = monotonic_us(), server.read()
        observer.phase("judge", "merging and judging what was recorded")
        offered = offered_records(_acts(order), seed=order.seed, rows=rows)
        audit = _audit(root, scenario, ending, offered=offered)
        inspect(root)
    ran = _Ran(
        started_at=started_at,
        began_us=began_us,
        ran_us=ran_us,
        ending=ending,
        audit=audit,
        server=counts,
    )
    return _outcome(order, run_id=run_id, world=world, folder=folder, ran=ran)


def _coordinated(scenario: Scenario, root: Endpoint, recorder: Recorder) -> AbstractContextManager[None]:
    """Who decides that a checkpoint is complete; the atomic sink's own transaction does."""
    return nullcontext() if scenario.sink == "atomic" else coordinated(root, note=recorder.record)


def _outcome(order: Order, *, run_id: str, world: World, folder: Path, ran: _Ran) -> RunOutcome:
    """Merge what was recorded, judge it, and put the two beside each other."""
    scenario, audit = order.scenario, ran.audit
    leftovers = read_leftovers(folder / "raw")
    faults = findings(scenario, leftovers.lines)
    history = folder / "history.jsonl"
    _merge(order, leftovers, faults, audit, history)
    judgement = _judge(history, whole=ran.ending.error is None and not leftovers.missing)
    pitfalls = find_pitfalls(RunSeen.of(scenario, leftovers.lines, ended_us=ran.ran_us, server=ran.server))
    unnamed = _unnamed(scenario, pitfalls)
    judged_us = monotonic_us()
    return RunOutcome(
        run_id=run_id,
        scenario=scenario.scenario,
        about=scenario.about,
        plan=scenario.model_dump(mode="json", by_alias=True),
        level=order.level,
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        convicts=MUTANTS[order.mutant].convicted_by if order.mutant else (),
        world=world.description,
        judgement=replace(judgement, outcome=worst([judgement.outcome, Outcome.VACUOUS]))
        if unnamed
        else judgement,
        faults=_on_history_clock(faults, leftovers),
        history=history,
        started_at=ran.started_at,
        duration_s=(judged_us - ran.began_us) / 1e6,
        phases_s={"run": (ran.ran_us - ran.began_us) / 1e6, "judge": (judged_us - ran.ran_us) / 1e6},
        accounting=audit.counts if audit else {},
        again=order.again,
        versions=versions(order.level),
        threats=(
            *unnamed,
            *leftovers.warnings,
            *(() if audit else ("the database did not answer the audit",)),
        ),
        error=ran.ending.error,
        interrupted=ran.ending.interrupted,
        pitfalls=pitfalls,
    )


def _unnamed(scenario: Scenario, pitfalls: Sequence[Pitfall]) -> tuple[str, ...]:
    """What is to be said of a run that was to show a pitfall, and did not."""
    if scenario.pitfall is None or any(pitfall.name == scenario.pitfall for pitfall in pitfalls):
        return ()
    return (f"The pitfall {scenario.pitfall} was to be named, and the run did not show it: that is no pass.",)


def _audit(root: Endpoint, scenario: Scenario, ending: Ending, *, offered: int) -> TableAudit | None:
    """What the tables hold; None if the database does not answer and the run was given up anyway."""
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
    mutant = _mutant(order)
    lookups = world.direct if mutant is not None and mutant.bypasses_proxy else world.links["lookups"]
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


def _mutant(order: Order) -> Mutant | None:
    return MUTANTS[order.mutant] if order.mutant else None


def _acts(order: Order) -> Scenario:
    """The scenario as it is acted out: without its faults, if that is the planted defect."""
    mutant = _mutant(order)
    return (
        order.scenario.model_copy(update={"faults": ()}) if mutant and mutant.arms_nothing else order.scenario
    )


def _merge(
    order: Order, leftovers: Leftovers, faults: Sequence[FaultRecord], audit: TableAudit | None, history: Path
) -> None:
    committed = {(row.subtask, row.epoch): row.token for row in audit.epochs} if audit else {}
    effects = [_effect(row) for row in audit.rows] if audit else []
    events = merge(
        leftovers,
        faults=fault_events(faults),
        committed=committed,
        effects=effects,
        completed=frozenset(audit.completed) if audit else frozenset(),
    )
    write_history(history, header_of(order, audited=audit is not None), events)


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


def _judge(history: Path, *, whole: bool) -> Judgement:
    """The verdict; of a run that was given up, or whose recording has gaps, never better than `unknown`."""
    judged = judge_file(history)
    if not isinstance(judged, Judgement):
        first = judged.breaches[0]
        message = f"our own history breaks its format: {history}, line {first.line}: {first.say}"
        raise HarnessError(message, fix="please report it, with the file")
    # What is not there may be what would have convicted; nothing left open, by chance, is no pass either.
    return judged if whole else replace(judged, outcome=worst([judged.outcome, Outcome.UNKNOWN]))


def _on_history_clock(faults: Sequence[FaultRecord], leftovers: Leftovers) -> tuple[FaultRecord, ...]:
    origin = leftovers.lines[0]["t"] if leftovers.lines else 0
    moved = ((fault, tuple(time.moved(origin) for time in fault.times)) for fault in faults)
    return tuple(
        FaultRecord(id=fault.id, kind=fault.kind, plan=fault.plan, times=times) for fault, times in moved
    )
