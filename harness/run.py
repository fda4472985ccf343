"""One run: a scenario, at a level, in a world, with a seed; from the plan to the judged history.

Answers to Jepsen's `run!`. Invariant: whatever happens, every fault is healed, every attempt has ended and
what was recorded is merged and judged; a run that could not finish says so and is never a pass.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pymysql

from harness.checkers.judge import judge_file
from harness.clock import Deadline, monotonic_us, pause, utc_now
from harness.database.audit import AuditRow, TableAudit, read_audit
from harness.database.schema import prepare_database, run_database
from harness.errors import HarnessError, WorldError
from harness.execution import Execution, LevelRunner
from harness.faults.fault import Evidence
from harness.faults.findings import fault_events, findings
from harness.faults.schedule import Schedule
from harness.history.follower import AttemptView, Follower, Progress
from harness.history.merge import Leftovers, Line, merge, read_leftovers, write_history
from harness.history.recorder import HARNESS_FILE, Recorder
from harness.outcome import FaultRecord, RunOutcome
from harness.plan import Crash, Endpoint, RunPlan
from harness.reaper import AttemptReaper
from harness.scenario import Call, Fault, Phase, Scenario
from harness.sut.mutants import MUTANTS, Mutant
from harness.sut.registry import REFERENCE
from harness.verdict import Judgement
from harness.versions import versions
from harness.workloads.lookups import customer_rows
from harness.world.world import DATABASE, World

__all__ = ["Observer", "Order", "Stop", "perform"]

_POLL_S = 0.01
_TELL_EVERY = 20
_NO_LIMIT_S = float("inf")


class Stop(threading.Event):
    """Set from outside (Ctrl-C) to end a run early, with all that it owes."""


class Observer:
    """Told how a run goes; the silent one. `harness.cli.progress` has those that speak."""

    def phase(self, name: str, text: str) -> None:
        """A phase begins, a fault is armed or healed: worth a line."""

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        """How it stands now: `faults` are those that act, and whether each bites; a few times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to run."""

    scenario: Scenario
    level: str
    seed: int
    sut: str = REFERENCE
    mutant: str | None = None
    import_path: tuple[str, ...] = ()
    again: str = ""
    """The command that runs exactly this again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How the monitored part of a run ended."""

    error: str | None
    interrupted: bool


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
) -> RunOutcome:
    """Run `order` in `world`; raw events, logs and the merged history are left in `folder`.

    `limit_s` shortens the scenario's own budget. Raises WorldError if the world breaks under the harness.
    """
    started_at, began_us = utc_now().isoformat(timespec="seconds"), monotonic_us()
    raw = folder / "raw"
    raw.mkdir()
    scenario = order.scenario
    rows = customer_rows(keys=scenario.workload.keys, seed=order.seed)
    name = f"{DATABASE}_{run_id.replace('-', '_')}"
    with run_database(_root(world, ""), name=name):
        root = _root(world, name)
        prepare_database(root, subtasks=scenario.workload.subtasks, rows=rows)
        plan = _plan(order, run_id=run_id, world=world, database=name, raw=raw, rows=rows)
        with Recorder(raw / HARNESS_FILE) as recorder:
            watch = _Watch(order=order, plan=plan, recorder=recorder, observer=observer)
            ending = watch.over(world=world, runner=runner, logs=folder, stop=stop, limit_s=limit_s)
        ran_us = monotonic_us()
        observer.phase("judge", "merging and judging what was recorded")
        audit = _audit(root, scenario, ending)
    leftovers = read_leftovers(raw)
    faults = findings(scenario, leftovers.lines)
    history = folder / "history.jsonl"
    _merge(order, leftovers, faults, audit, history)
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
        judgement=_judge(history),
        faults=_on_history_clock(faults, leftovers),
        history=history,
        started_at=started_at,
        duration_s=(monotonic_us() - began_us) / 1e6,
        phases_s={"run": (ran_us - began_us) / 1e6, "judge": (monotonic_us() - ran_us) / 1e6},
        accounting=audit.counts if audit else {},
        again=order.again,
        versions=versions(order.level),
        threats=leftovers.warnings + (() if audit else ("the database did not answer the audit",)),
        error=ending.error,
        interrupted=ending.interrupted,
    )


def _audit(root: Endpoint, scenario: Scenario, ending: _Ending) -> TableAudit | None:
    """What the tables hold; None if the database does not answer and the run was given up anyway."""
    workload = scenario.workload
    offered, ordered = workload.records * workload.subtasks, scenario.operator.mode == "ordered"
    try:
        return read_audit(root, offered=offered, ordered=ordered)
    except (pymysql.MySQLError, OSError) as error:
        if ending.error is not None:
            return None
        message = f"the run is over, but the database does not answer the audit: {error}"
        raise WorldError(message, fix="look at the server's log; run it again with --keep always") from error


def _root(world: World, database: str) -> Endpoint:
    return Endpoint(
        host=world.direct.host,
        port=world.direct.port,
        user=world.root.user,
        password=world.root.password,
        database=database,
    )


def _plan(
    order: Order, *, run_id: str, world: World, database: str, raw: Path, rows: list[list[Any]]
) -> RunPlan:
    mutant = _mutant(order)
    links = {
        name: Endpoint(
            host=address.host,
            port=address.port,
            user=world.app.user,
            password=world.app.password,
            database=database,
        )
        for name, address in world.links.items()
    }
    direct = _root(world, database)
    bypass = Endpoint(
        host=direct.host, port=direct.port, user=world.app.user, password=world.app.password, database=database
    )
    return RunPlan(
        run_id=run_id,
        scenario=order.scenario.model_dump(mode="json", by_alias=True),
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        lookups=bypass if mutant is not None and mutant.bypasses_proxy else links["lookups"],
        sink=links["sink"],
        folder=str(raw),
        path=list(order.import_path),
        table=rows,
        crashes=[] if mutant is not None and mutant.arms_nothing else _crashes(order.scenario),
    )


def _mutant(order: Order) -> Mutant | None:
    return MUTANTS[order.mutant] if order.mutant else None


def _crashes(scenario: Scenario) -> list[Crash]:
    return [_crash(fault) for fault in scenario.faults if fault.do == "kill_worker"]


def _crash(fault: Fault) -> Crash:
    assert fault.subtask is not None, "a scenario's kill_worker names its subtask"
    match fault.when:
        case Phase(phase=phase, hit=hit):
            return Crash(fault=fault.id, subtask=fault.subtask, phase=phase, hit=hit)
        case Call(call=call):
            return Crash(fault=fault.id, subtask=fault.subtask, phase="call", hit=call)
    message = f"fault {fault.id}: a worker cannot be killed at {fault.when!r}"
    raise HarnessError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """The watch over one run's subtasks."""

    order: Order
    plan: RunPlan
    recorder: Recorder
    observer: Observer

    def over(
        self, *, world: World, runner: LevelRunner, logs: Path, stop: Stop, limit_s: float | None
    ) -> _Ending:
        """Start the subtasks, follow them, act out the schedule, until all is done or the budget is over."""
        scenario = self.order.scenario
        follower, reaper = Follower(Path(self.plan.folder)), AttemptReaper(self.recorder)
        budget_s = min(scenario.budget / 1000, _NO_LIMIT_S if limit_s is None else limit_s)
        self.observer.phase("run", f"{scenario.scenario} at level {self.order.level}, seed {self.order.seed}")
        with (
            _started(runner, self.plan, scenario, logs) as execution,
            Schedule(self._acts(), control=world.proxy, note=self._note) as schedule,
        ):
            deadline, turn = Deadline(budget_s), count()
            while True:
                progress = follower.poll()
                state = execution.poll()
                self._tell_dead(reaper.look(progress))
                why = state.error or _why_stop(stop, deadline)
                if why is not None or not state.running:
                    break
                schedule.step(progress, now_us=monotonic_us())
                if next(turn) % _TELL_EVERY == 0:
                    self._tell(progress, schedule, elapsed_s=budget_s - deadline.left_s)
                pause(_POLL_S)
        self._tell_dead(reaper.look(follower.poll()))
        if why is not None:
            self.recorder.record("giveup", why=why)
        return _Ending(error=why, interrupted=stop.is_set())

    def _acts(self) -> Scenario:
        """The scenario as it is acted out: without its faults, if that is the planted defect."""
        mutant = _mutant(self.order)
        scenario = self.order.scenario
        return scenario.model_copy(update={"faults": []}) if mutant and mutant.arms_nothing else scenario

    def _note(self, kind: str, fault: str, evidence: Evidence) -> int:
        self.recorder.record(kind, f=fault)
        if kind == "~armed":
            self.observer.phase("fault", f"{fault} is armed")
        else:
            left = ", ".join(f"{name} {value}" for name, value in evidence.items())
            self.observer.phase("fault", f"{fault} heals; " + (f"it bit: {left}" if left else "no evidence so far"))
        return monotonic_us()

    def _tell_dead(self, views: Sequence[AttemptView]) -> None:
        for view in views:
            text = f"attempt {view.attempt} of subtask {view.subtask} is dead: its process {view.pid} is gone"
            self.observer.phase("fault", text)

    def _tell(self, progress: Progress, schedule: Schedule, *, elapsed_s: float) -> None:
        workload = self.order.scenario.workload
        self.observer.standing(
            in_flight=progress.in_flight,
            lag=max(0, workload.records * workload.subtasks - progress.emitted),
            epoch=progress.epoch,
            faults=schedule.active(now_us=monotonic_us()),
            elapsed_s=elapsed_s,
        )


def _why_stop(stop: Stop, deadline: Deadline) -> str | None:
    if stop.is_set():
        return "interrupted"
    return f"the budget of {deadline.seconds:.0f} s is over" if deadline.passed else None


@contextmanager
def _started(runner: LevelRunner, plan: RunPlan, scenario: Scenario, logs: Path) -> Iterator[Execution]:
    execution = runner.start(plan, subtasks=scenario.workload.subtasks, logs=logs)
    try:
        yield execution
    finally:
        execution.stop()


def _merge(
    order: Order, leftovers: Leftovers, faults: Sequence[FaultRecord], audit: TableAudit | None, history: Path
) -> None:
    committed = {(row.subtask, row.epoch): row.token for row in audit.epochs} if audit else {}
    effects = [_effect(row) for row in audit.rows] if audit else []
    events = merge(leftovers, faults=fault_events(faults), committed=committed, effects=effects)
    write_history(history, _header(order, audited=audit is not None), events)


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


def _header(order: Order, *, audited: bool) -> Mapping[str, Any]:
    scenario = order.scenario
    operator, expects = scenario.operator, scenario.expects.model_dump(exclude_none=True)
    return {
        "history": 1,
        "operator": {"mode": operator.mode, "capacity": operator.capacity, "timeout_ms": operator.timeout},
        "sink": "atomic",
        **({"effects": "outputs"} if audited else {}),
        "fenced": True,
        "expects": {**expects, "faults": [fault.id for fault in scenario.faults]},
        "decisive": list(scenario.decisive),
        "run": {
            "scenario": scenario.scenario,
            "seed": order.seed,
            "level": order.level,
            "sut": order.sut,
            "mutant": order.mutant,
        },
    }


def _judge(history: Path) -> Judgement:
    judged = judge_file(history)
    if not isinstance(judged, Judgement):
        first = judged.breaches[0]
        message = f"our own history breaks its format: {history}, line {first.line}: {first.say}"
        raise HarnessError(message, fix="please report it, with the file")
    return judged


def _on_history_clock(faults: Sequence[FaultRecord], leftovers: Leftovers) -> tuple[FaultRecord, ...]:
    origin = leftovers.lines[0]["t"] if leftovers.lines else 0

    def moved(at_us: int | None) -> int | None:
        return None if at_us is None else at_us - origin

    return tuple(
        FaultRecord(
            id=fault.id,
            kind=fault.kind,
            plan=fault.plan,
            armed_us=moved(fault.armed_us),
            healed_us=moved(fault.healed_us),
            evidence=fault.evidence,
            bites=fault.bites,
        )
        for fault in faults
    )

