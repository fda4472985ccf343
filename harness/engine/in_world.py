"""The steps of one run in a world: databases, expected results, plan, attempts and faults, reading, merging.

Invariant: at the end every fault is healed, every attempt has ended and the recorded lines are merged, also after an
error; an unfinished run is marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from harness.database.audit import ServerCounter
from harness.database.checkpoint_store import checkpoint_folder
from harness.database.coordinator import Coordinator, coordinated
from harness.database.driver import MySqlDriver
from harness.database.endpoint import OWN, Endpoint, KeptConnection
from harness.database.own_tables import OwnTableRows, fill_own_tables, read_own_tables
from harness.database.probe import OF_PROBE
from harness.database.schema import prepare_database, run_database
from harness.database.store_files import FolderFiles
from harness.database.table_editor import SqlTableHand
from harness.engine.calm_process import calm_process
from harness.engine.expectation import NO_VALUES, find_expected, given_by
from harness.engine.findings import findings, outside_events, refuse_blind_faults, unseen_by_the_client
from harness.engine.level import ExecutionState, LevelRunner, RunRecord, RunSite, refuse_in_world
from harness.engine.reading import history_of, read_stored
from harness.engine.rescale import Rescaler
from harness.engine.run import RunInWorld, plan_of, recorded
from harness.engine.two_servers import lost_epochs, two_servers, without_lost_epochs
from harness.engine.watch import Watch, threats_of
from harness.faults.parts.parts import SINK_FORMS
from harness.faults.real.fault_site import Succession
from harness.faults.real.sites import SparkProcesses
from harness.history.follower import Follower
from harness.history.merge import read_leftovers
from harness.history.notes import OnHost, Refused
from harness.history.recorder import HARNESS_FILE, Recorder
from harness.scenario.claims import header_of
from harness.scenario.order import Order
from harness.scenario.workloads.lookups import customer_rows
from harness.scenario.workloads.shape import keys_of
from harness.sut.calm_twin import Questions
from harness.sut.defects import variant_of
from harness.system.clock import monotonic_us
from harness.system.errors import SutError, WorldError
from harness.system.json_types import JsonView
from harness.system.process_identity import ProcessIdentity
from harness.world.world import DATABASE


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
    world, workload = site.world, order.scenario.workload
    assert world is not None, f"level {order.level} needs a world"
    run = RunInWorld(
        order=order,
        site=site,
        variant=variant_of(order.mutant),
        rows=customer_rows(
            keys=keys_of(workload), seed=order.seed, fanout=workload.fanout, like=workload.rows_like
        ),
        world=world,
        runner=runner,
        database=f"{DATABASE}_{site.run_id.replace('-', '_')}",
    )
    refuse_in_world(run.acts, world.lacks)
    refuse_blind_faults(order.scenario)
    with run.stack:
        for step in _STEPS:
            step(run)
        inspect(run.root())
    _merge(run)
    return recorded(run, world=world.description)


def _open(run: RunInWorld) -> None:
    """The twin's process, which takes a while to start, and the databases, with their tables and rows."""
    order, name, opened = run.order, run.database, run.stack.enter_context
    scenario, stays = order.scenario, run.site.keeps_database
    run.raw.mkdir()
    if ":" in order.sut and order.expected != NO_VALUES and given_by(order) is None:
        run.twin = opened(calm_process(run.site.folder / "calm-twin.log"))
    every = (name, f"{name}{OWN}", f"{name}{OF_PROBE}")
    run.second = opened(two_servers(run.world, scenario, databases=every, stays=stays))
    opened(run_database(run.root(""), name=name, stays=stays))
    run.lookups = opened(_database_of_lookups(run, name, stays=stays))
    prepare_database(
        run.root(),
        subtasks=scenario.workload.subtasks,
        rows=run.rows,
        keyed=SINK_FORMS[scenario.sink].has_output_key and run.variant.has_output_key,
        by_record=bool(scenario.rescales),
    )


@contextmanager
def _database_of_lookups(run: RunInWorld, of: str, *, stays: bool) -> Iterator[str]:
    """The database that the lookup reads: `of`, or one beside it with the user's own tables.

    Raises UsageError if the server refuses something of their files.
    """
    scenario, name = run.order.scenario, f"{of}{OWN}"
    if scenario.own_schema is None:
        yield of
        return
    tables = read_own_tables(scenario.own_schema, scenario.data or ())
    with run_database(run.root(""), name=name, stays=stays):
        fill_own_tables(run.root(name), tables)
        yield name


def _plan(run: RunInWorld) -> None:
    world, variant, database = run.world, run.variant, run.database
    replica = None if run.second is None else run.second.replica
    asked = world.app.at(world.direct if variant.bypasses_proxy else world.links["lookups"], run.lookups)
    if variant.lookups_from_replica and replica is not None:
        asked = msgspec.structs.replace(replica, database=run.lookups)
    run.plan = msgspec.structs.replace(
        plan_of(run),
        scenario=run.order.scenario.model_dump(mode="json", by_alias=True),
        lookups=asked,
        sink=world.app.at(world.direct if variant.sink_past_proxy else world.links["sink"], database),
        shared=world.app.at(world.direct, database),
        folder=str(run.raw),
        inside=run.acts.planned_inside,
        replica=replica,
    )


def _expect(run: RunInWorld) -> None:
    """What the records of a user's lookup must yield."""
    order, world, twin = run.order, run.world, run.twin
    if ":" not in order.sut:
        return
    own = order.scenario.own_schema is not None  # the calls may write to these tables, so they get a copy
    with (
        _database_of_lookups(run, f"{run.lookups}_calm", stays=False) if own else nullcontext(run.lookups)
    ) as calm:

        def ask(questions: Questions) -> Iterator[JsonView]:
            assert twin is not None, "a twin that is asked was started"
            run.site.observer.phase("twin", f"{order.sut} is called without faults, one call at a time")
            return twin.ask(msgspec.structs.replace(questions, lookups=world.app.at(world.direct, calm)))

        if not own:
            run.expected, run.values = find_expected(order, run.rows, ask=ask)
            return
        with KeptConnection(run.root(calm)) as kept:
            rows = OwnTableRows(kept.opened())
            run.expected, run.values = find_expected(order, run.rows, ask=ask, own=rows)


def _perform(run: RunInWorld) -> None:
    """Starts the attempts and watches over them to their end."""
    order, site, world, counter = run.order, run.site, run.world, ServerCounter(run.root())
    with (
        nullcontext() if run.second is None else run.second.probed(site.folder),
        Recorder(run.raw / HARNESS_FILE) as recorder,
    ):
        site.observer.phase("run", f"{order.scenario.scenario} at level {order.level}, seed {order.seed}")
        world.proxy.reseed(order.seed)
        with _coordinated(run, recorder) as coordinator:
            start = partial(Generations, run, recorder=recorder, coordinator=coordinator)
            Watch(run=run, recorder=recorder, start=start if order.scenario.rescales else None).over()
    run.ran_us = run.lines_end_us = monotonic_us()
    run.server = counter.read() if run.second is None else None  # of one server only


def _coordinated(run: RunInWorld, recorder: Recorder) -> AbstractContextManager[Coordinator | None]:
    """The coordinator that completes checkpoints; the atomic sink needs none."""
    scenario = run.order.scenario
    if scenario.sink == "atomic":
        return nullcontext()
    until = scenario.rescales[0].at.checkpoint if scenario.rescales else None
    return coordinated(
        run.root(), note=recorder.event, kind=run.variant.coordinator(Coordinator), until=until
    )


def _read(run: RunInWorld) -> None:
    """Reads the tables, which a canary or a test may change before."""
    site, scenario = run.site, run.order.scenario
    site.observer.phase("judge", "merging and judging what was recorded")
    if site.before_reading is not None:
        with KeptConnection(run.root()) as kept:
            site.before_reading(SqlTableHand(kept))
    run.stored = read_stored(
        run.root(),
        ordered=scenario.claims_order,
        may_fail=run.error is not None,
        own=None if scenario.effects is None else (run.plan.lookups.database, scenario.effects),
        audit=run.order.runner != "stateful",
    )


_STEPS: Final[Sequence[Callable[[RunInWorld], None]]] = (_open, _expect, _plan, _perform, _read)
"""What is done while the run's databases are there."""


def _merge(run: RunInWorld) -> None:
    """The history and the findings. Raises SutError if an attempt found that the function under test breaks a rule."""
    scenario, leftovers, stored = run.order.scenario, read_leftovers(run.raw), run.stored
    for line in leftovers.lines:
        if isinstance(line, Refused):
            raise SutError(line.what, fix=line.fix)
    faults, lost = findings(scenario, leftovers.lines), lost_epochs(leftovers.lines)
    if run.second is not None:
        run.judge = run.second.judged(faults, lost)
    leftovers = without_lost_epochs(leftovers, lost)
    run.header, run.events = history_of(
        header_of(run.order, expected=run.expected),
        leftovers,
        outside_events(faults, leftovers.lines),
        stored,
    )
    origin = leftovers.lines[0].t if leftovers.lines else 0
    run.lines, run.missing, run.counts = leftovers.lines, leftovers.missing, stored.counts
    run.faults = [replace(fault, times=tuple(time.moved(origin) for time in fault.times)) for fault in faults]
    run.threats = (
        *leftovers.warnings,
        *threats_of(leftovers.lines),
        *stored.unread,
        *unseen_by_the_client(scenario, faults, leftovers.lines),
    )
    placed = [
        {name: getattr(line, name) for name in ("s", "a", "host", "executor", "driver")}
        | {"at_us": line.t - origin}
        for line in leftovers.lines
        if isinstance(line, OnHost)
    ]
    run.extras = {"cluster": placed} if placed else {}


class Generations:
    """The execution of a run that rescales. Mutable: replaces the plan of the run.

    Invariant: the next generation starts only after every subtask of the one before has stopped or ended.
    """

    def __init__(self, run: RunInWorld, *, recorder: Recorder, coordinator: Coordinator | None) -> None:
        self._run = run
        self._coordinator = coordinator
        self._rescaler = Rescaler(
            run.order.scenario,
            variant=run.variant,
            driver=MySqlDriver(run.root()),
            files=lambda subtask: FolderFiles(checkpoint_folder(run.raw, subtask=subtask)),
            note=recorder.event,
        )
        self._killed: list[int] = []
        self._current = run.start(len(self._rescaler.running))

    def poll(self) -> ExecutionState:
        """The state of the run; carries out a rescale that is due, which takes as long as its transaction."""
        state = self._current.poll()
        if state.running or state.error is not None:
            return state
        # The subtasks of this generation whose newest attempt has drained have ended; the others have stopped.
        attempts = Follower(self._run.raw).poll().attempts
        newest = {view.subtask: view for _, view in sorted(attempts.items())}
        ended = {s for s in self._rescaler.running if s in newest and newest[s].drained}
        if not self._rescaler.is_due(ended):
            return state
        self._killed += self._current.stop()
        try:
            self._run.plan = self._rescaler.rescale(self._run.plan, ended=ended)
        except WorldError as error:
            return ExecutionState(running=False, error=str(error), ends=state.ends)
        if self._coordinator is not None:
            self._coordinator.until = self._rescaler.stops_at
        self._current = self._run.start(len(self._rescaler.running))
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
