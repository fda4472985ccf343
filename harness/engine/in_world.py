"""One run in a world: prepares the database, starts the attempts, injects the faults, merges the recorded lines.

Invariant: at the end every fault is healed, every attempt has ended and the recorded lines are merged, also after an
error; an unfinished run is marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.database.audit import ServerCounter, ServerCounts
from harness.database.checkpoint_store import checkpoint_folder
from harness.database.coordinator import Coordinator, coordinated
from harness.database.driver import MySqlDriver
from harness.database.endpoint import OWN, Endpoint, KeptConnection, prepare_database, run_database
from harness.database.own_tables import OwnTableRows, fill_own_tables, read_own_tables
from harness.database.probe import OF_PROBE
from harness.database.store_files import FolderFiles
from harness.database.table_editor import SqlTableHand
from harness.engine.accounting import accounting_of, claims_order
from harness.engine.calm_process import CalmProcess, calm_process
from harness.engine.cross_checks import refuse_other_values
from harness.engine.expectation import NO_VALUES, find_expected, given_by, with_versions
from harness.engine.findings import findings, outside_events, refuse_blind_faults, unseen_by_the_client
from harness.engine.level import Execution, ExecutionState, LevelRunner, RunRecord, RunSite, refuse_in_world
from harness.engine.reading import Stored, history_of, read_stored
from harness.engine.rescale import Rescaler
from harness.engine.two_servers import TwoServers, lost_epochs, two_servers, without_lost_epochs
from harness.engine.watch import Ending, Watch, threats_of
from harness.faults.parts.parts import SINK_FORMS
from harness.faults.real.fault_site import Succession
from harness.faults.real.sites import SparkProcesses
from harness.history.event import Event
from harness.history.follower import Follower
from harness.history.merge import Leftovers, read_leftovers
from harness.history.notes import Line, OnHost, Refused
from harness.history.recorder import HARNESS_FILE, Recorder
from harness.judge.checkers.judge import judge
from harness.judge.pitfalls.finding import RunSeen, find_pitfalls
from harness.scenario.claims import header_of
from harness.scenario.model import Scenario, Workload
from harness.scenario.order import Order, planned_crashes, planned_inside
from harness.scenario.outcome import FaultRecord, Pitfall
from harness.scenario.plan import Expected, JudgedValues, RunPlan
from harness.scenario.workloads.lookups import customer_rows, own_records
from harness.scenario.workloads.shape import keys_of
from harness.sut.calm_twin import Questions
from harness.sut.defects import variant_of
from harness.sut.registry import SUTS
from harness.system.clock import monotonic_us
from harness.system.errors import SutError, WorldError
from harness.system.json_types import JsonView
from harness.system.process_identity import ProcessIdentity
from harness.world.world import DATABASE, World


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
    refuse_blind_faults(scenario)
    raw = site.folder / "raw"
    raw.mkdir()
    asks = ":" in order.sut and order.expected != NO_VALUES and given_by(order) is None
    with calm_process(site.folder / "calm-twin.log") if asks else nullcontext() as twin:
        return _record(order, site, world, raw=raw, twin=twin, runner=runner, inspect=inspect)


def _record(
    order: Order,
    site: RunSite,
    world: World,
    *,
    raw: Path,
    twin: CalmProcess | None,
    runner: LevelRunner,
    inspect: Callable[[Endpoint], None],
) -> RunRecord:
    scenario = order.scenario
    rows = _rows(scenario.workload, seed=order.seed)
    name = f"{DATABASE}_{site.run_id.replace('-', '_')}"
    stays = site.keeps_database
    with (
        two_servers(world, scenario, databases=_databases(name), stays=stays) as second,
        run_database(_root(world, ""), name=name, stays=stays),
        _database_of_lookups(order, world, run=name, stays=stays) as lookups,
    ):
        root = _root(world, name)
        _prepare(order, root, rows)
        names = (lookups, name)
        plan = _plan(
            order, run_id=site.run_id, world=world, databases=names, raw=raw, rows=rows, second=second
        )
        expected, values = _expected(order, rows, site, world=world, twin=twin, lookups=lookups)
        plan = msgspec.structs.replace(plan, expected=expected)
        server = ServerCounter(root)
        with nullcontext() if second is None else second.probed(site.folder):
            ending = _watched(order, site, runner=runner, plan=plan, root=root)
        ran_us, root = monotonic_us(), _root(world, name)
        counts = server.read() if second is None else None  # of one server only
        site.observer.phase("judge", "merging and judging what was recorded")
        _let_touch(site, root)
        stored = _stored(scenario, root, plan=plan, may_fail=ending.error is not None)
        inspect(root)
    leftovers = read_leftovers(raw)
    _refuse_broken_rules(leftovers.lines)
    faults, lost = findings(scenario, leftovers.lines), lost_epochs(leftovers.lines)
    leftovers = without_lost_epochs(leftovers, lost)
    header, events = history_of(
        header_of(order, expected=expected), leftovers, outside_events(faults, leftovers.lines), stored
    )
    refuse_other_values(order, header, rows, events, expected=expected)
    return RunRecord(
        header=header,
        events=_with_versions(order, rows, events, values),
        whole=ending.error is None and not leftovers.missing,
        error=ending.error,
        interrupted=ending.interrupted,
        ran_us=ran_us,
        world=world.description,
        faults=_on_history_clock(faults, leftovers),
        accounting=_accounting(order, stored, events, rows=rows, expected=expected),
        threats=_threats(scenario, leftovers, stored, faults),
        pitfalls=_pitfalls(order, leftovers, ended_us=ran_us, server=counts),
        values=values,
        judge=judge if second is None else second.judged(second.verdict(faults, scenario), lost),
        extras=_extras(leftovers.lines),
    )


def _databases(name: str) -> tuple[str, ...]:
    """All that a run may make: its own, that of a user's tables, and the probe's."""
    return (name, f"{name}{OWN}", f"{name}{OF_PROBE}")


def _prepare(order: Order, root: Endpoint, rows: list[list[Any]]) -> None:
    scenario = order.scenario
    prepare_database(
        root,
        subtasks=scenario.workload.subtasks,
        rows=rows,
        keyed=SINK_FORMS[scenario.sink].has_output_key and variant_of(order.mutant).has_output_key,
        by_record=bool(scenario.rescales),
    )


def _extras(lines: Sequence[Line]) -> JsonView:
    """Where each attempt ran, if that was on a cluster; times are on the history's clock."""
    placed = [
        {name: getattr(line, name) for name in ("s", "a", "host", "executor", "driver")}
        | {"at_us": line.t - lines[0].t}
        for line in lines
        if isinstance(line, OnHost)
    ]
    return {"cluster": placed} if placed else {}


def _with_versions(
    order: Order, rows: list[list[Any]], events: Sequence[Event], values: JudgedValues | None
) -> Sequence[Event]:
    """The events; the answers of a user's lookup with the versions that they show."""
    if values is None:
        return events
    return with_versions(events, scenario=order.scenario, rows=rows, keys=values.rows_of)


def _pitfalls(
    order: Order, leftovers: Leftovers, *, ended_us: int, server: ServerCounts | None
) -> tuple[Pitfall, ...]:
    return find_pitfalls(
        RunSeen(
            scenario=order.scenario,
            lines=leftovers.lines,
            ended_us=ended_us,
            server=server,
            is_users=order.sut not in SUTS,
        )
    )


def _expected(
    order: Order,
    rows: list[list[Any]],
    site: RunSite,
    *,
    world: World,
    twin: CalmProcess | None,
    lookups: str,
) -> tuple[Expected | None, JudgedValues | None]:
    """What the records of a user's lookup must yield; None for our own. `lookups`: their database."""
    if ":" not in order.sut:
        return None, None

    own = order.scenario.own_schema is not None  # the calls may write to these tables, so they get a copy
    with (
        _database_of_lookups(order, world, run=f"{lookups}_calm", stays=False)
        if own
        else nullcontext(lookups)
    ) as calm:

        def ask(questions: Questions) -> Iterator[JsonView]:
            assert twin is not None, "a twin that is asked was started"
            site.observer.phase("twin", f"{order.sut} is called without faults, one call at a time")
            return twin.ask(msgspec.structs.replace(questions, lookups=world.app.at(world.direct, calm)))

        if not own:
            return find_expected(order, rows, ask=ask)
        with KeptConnection(_root(world, calm)) as kept:
            return find_expected(order, rows, ask=ask, own=OwnTableRows(kept.opened()))


@contextmanager
def _database_of_lookups(order: Order, world: World, *, run: str, stays: bool) -> Iterator[str]:
    """The database that the lookup reads: the `run`'s, or one beside it with the user's own tables.

    Raises UsageError if the server refuses something of their files.
    """
    scenario, name = order.scenario, f"{run}{OWN}"
    if scenario.own_schema is None:
        yield run
        return
    tables = read_own_tables(scenario.own_schema, scenario.data or ())
    with run_database(_root(world, ""), name=name, stays=stays):
        fill_own_tables(_root(world, name), tables)
        yield name


def _stored(scenario: Scenario, root: Endpoint, *, plan: RunPlan, may_fail: bool) -> Stored:
    effects = scenario.effects
    own = None if effects is None else (plan.lookups.database, effects)
    return read_stored(
        root,
        ordered=claims_order(scenario),
        may_fail=may_fail,
        own=own,
        audit=plan.runner != "stateful",
    )


def _accounting(
    order: Order,
    stored: Stored,
    events: Sequence[Event],
    *,
    rows: list[list[Any]],
    expected: Expected | None,
) -> dict[str, int]:
    known = None if order.scenario.own_schema is not None else rows
    return accounting_of(
        stored.counts, events, scenario=_acts(order), seed=order.seed, rows=known, expected=expected
    )


def _threats(
    scenario: Scenario, leftovers: Leftovers, stored: Stored, faults: Sequence[FaultRecord]
) -> tuple[str, ...]:
    return (
        *leftovers.warnings,
        *threats_of(leftovers.lines),
        *stored.unread,
        *unseen_by_the_client(scenario, faults, leftovers.lines),
    )


def _watched(order: Order, site: RunSite, *, runner: LevelRunner, plan: RunPlan, root: Endpoint) -> Ending:
    """Starts the attempts and watches over them to their end."""
    world = site.world
    assert world is not None, f"level {order.level} needs a world"
    with Recorder(Path(plan.folder) / HARNESS_FILE) as recorder:
        site.observer.phase("run", f"{order.scenario.scenario} at level {order.level}, seed {order.seed}")
        world.proxy.reseed(order.seed)
        with _coordinated(order, root, recorder) as coordinator:
            watch = Watch(
                acts=_acts(order),
                plan=plan,
                recorder=recorder,
                observer=site.observer,
                start=_generations(order, runner, root, recorder, coordinator),
            )
            return watch.over(
                world=world, runner=runner, logs=site.folder, stop=site.stop, limit_s=site.limit_s
            )


def _refuse_broken_rules(lines: Sequence[Line]) -> None:
    """Raises SutError if an attempt found that the function under test breaks a rule."""
    for line in lines:
        if isinstance(line, Refused):
            raise SutError(line.what, fix=line.fix)


def _rows(workload: Workload, *, seed: int) -> list[list[Any]]:
    """The rows of the looked-up table."""
    return customer_rows(keys=keys_of(workload), seed=seed, fanout=workload.fanout, like=workload.rows_like)


def _let_touch(site: RunSite, root: Endpoint) -> None:
    if site.before_reading is not None:
        with KeptConnection(root) as kept:
            site.before_reading(SqlTableHand(kept))


def _coordinated(
    order: Order, root: Endpoint, recorder: Recorder
) -> AbstractContextManager[Coordinator | None]:
    """The coordinator that completes checkpoints; the atomic sink needs none."""
    if order.scenario.sink == "atomic":
        return nullcontext()
    kind = variant_of(order.mutant).coordinator(Coordinator)
    rescales = order.scenario.rescales
    until = rescales[0].at.checkpoint if rescales else None
    return coordinated(root, note=recorder.event, kind=kind, until=until)


def _generations(
    order: Order, runner: LevelRunner, root: Endpoint, recorder: Recorder, coordinator: Coordinator | None
) -> Callable[..., Execution] | None:
    """What starts a run that rescales; None: the run does not."""
    if not order.scenario.rescales:
        return None

    def start(plan: RunPlan, *, subtasks: int, logs: Path) -> Execution:
        del subtasks
        rescaler = Rescaler(
            order.scenario,
            variant=variant_of(order.mutant),
            driver=MySqlDriver(root),
            files=lambda subtask: FolderFiles(checkpoint_folder(Path(plan.folder), subtask=subtask)),
            note=recorder.event,
        )
        return Generations(runner, plan, rescaler=rescaler, logs=logs, coordinator=coordinator)

    return start


def _root(world: World, database: str) -> Endpoint:
    """A root connection to the server that serves now."""
    return world.root.at(world.serving, database)


def _plan(
    order: Order,
    *,
    run_id: str,
    world: World,
    databases: tuple[str, str],
    raw: Path,
    rows: list[list[Any]],
    second: TwoServers | None,
) -> RunPlan:
    """`databases`: those of the lookups and of the sink."""
    lookups, database = databases
    own, variant = own_records(order.scenario), variant_of(order.mutant)
    link = world.direct if variant.bypasses_proxy else world.links["lookups"]
    replica = None if second is None else second.replica
    asked = world.app.at(link, lookups)
    if variant.lookups_from_replica and replica is not None:
        asked = msgspec.structs.replace(replica, database=lookups)
    return RunPlan(
        run_id=run_id,
        scenario=order.scenario.model_dump(mode="json", by_alias=True),
        seed=order.seed,
        sut=order.sut,
        mutant=order.mutant,
        lookups=asked,
        sink=world.app.at(world.direct if variant.sink_past_proxy else world.links["sink"], database),
        shared=world.app.at(world.direct, database),
        folder=str(raw),
        path=list(order.import_path),
        table=rows,
        crashes=planned_crashes(_acts(order)),
        own=None if own is None else list(own),
        inside=planned_inside(_acts(order)),
        replica=replica,
        runner=order.runner,
    )


def _acts(order: Order) -> Scenario:
    """The scenario to perform; without its faults if the planted defect is a harness that injects none."""
    if variant_of(order.mutant).arms_faults:
        return order.scenario
    return order.scenario.model_copy(update={"faults": ()})


def _on_history_clock(faults: Sequence[FaultRecord], leftovers: Leftovers) -> tuple[FaultRecord, ...]:
    origin = leftovers.lines[0].t if leftovers.lines else 0
    return tuple(replace(fault, times=tuple(time.moved(origin) for time in fault.times)) for fault in faults)


class Generations:
    """One run that rescales. Mutable: its execution, and the plan of its subtasks.

    Invariant: the next generation starts only after every subtask of the one before has stopped or ended.
    """

    def __init__(
        self,
        runner: LevelRunner,
        plan: RunPlan,
        *,
        rescaler: Rescaler,
        logs: Path,
        coordinator: Coordinator | None,
    ) -> None:
        self._coordinator = coordinator
        self._runner = runner
        self._plan = plan
        self._rescaler = rescaler
        self._logs = logs
        self._killed: list[int] = []
        self._current = self._started()

    def _started(self) -> Execution:
        return self._runner.start(self._plan, subtasks=len(self._rescaler.running), logs=self._logs)

    def poll(self) -> ExecutionState:
        """The state of the run; carries out a rescale that is due, which takes as long as its transaction."""
        state = self._current.poll()
        if state.running or state.error is not None:
            return state
        # The subtasks of this generation whose newest attempt has drained have ended; the others have stopped.
        attempts = Follower(Path(self._plan.folder)).poll().attempts
        newest = {view.subtask: view for _, view in sorted(attempts.items())}
        ended = {s for s in self._rescaler.running if s in newest and newest[s].drained}
        if not self._rescaler.is_due(ended):
            return state
        self._killed += self._current.stop()
        try:
            self._plan = self._rescaler.rescale(self._plan, ended=ended)
        except WorldError as error:
            return ExecutionState(running=False, error=str(error), ends=state.ends)
        if self._coordinator is not None:
            self._coordinator.until = self._rescaler.stops_at
        self._current = self._started()
        return ExecutionState(running=True, ends=state.ends)

    def process(self, subtask: int) -> ProcessIdentity | None:
        """See `Workers`; None for a subtask of another generation."""
        return self._current.process(subtask) if subtask in self._rescaler.running else None

    def supersede(self, subtask: int) -> Succession:
        """See `Workers`."""
        return self._current.supersede(subtask)

    def executor(self) -> ProcessIdentity | None:
        """See `Workers`."""
        return self._current.executor()

    def spark(self) -> SparkProcesses | None:
        """See `Workers`."""
        return self._current.spark()

    def stop(self) -> Collection[int]:
        """See `Execution`."""
        return [*self._killed, *self._current.stop()]
