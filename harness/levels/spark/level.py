"""Level `spark`: each subtask is a task of one Spark job, with a real world; one Spark session for all runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from harness.engine.canaries_in_world import refuse_blind_world
from harness.engine.in_world import record_in_world
from harness.engine.level import LevelRunner, Opening, Play, RunRecord, RunSite
from harness.scenario.model import CheckpointDone, Phase, Scenario
from harness.scenario.order import Order
from harness.scenario.plan import Runner
from harness.sut.defects import find_defect
from harness.sut.variant import HONEST
from harness.system.errors import CannotHere, UsageError
from harness.world.world import World

_SUBTASKS_MAX = 16
"""Most subtasks of one run; the session has a slot for each, whatever the machine's cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLevel:
    """Implements `Level`."""

    name: ClassVar[str] = "spark"
    needs_world: ClassVar[bool] = True
    in_threads: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False

    def refuse(self, order: Order) -> None:
        """Raises UsageError if the order's runner cannot perform its scenario, or its cluster its faults."""
        refuse_of_runner(order)
        refuse_without_cluster(order)

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`: its attempts write the same files and tables as those of level live."""
        assert world is not None, "level spark needs a world"
        refuse_blind_world(world, level=self.name)

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        """A runner for each kind of order, started with the first order of its kind."""
        with ExitStack() as stack:
            runners = _Runners(opening, stack)

            def play(order: Order, site: RunSite) -> RunRecord:
                return record_in_world(order, site, runner=runners.of(order))

            yield play


class _Runners:
    """The session, or the drivers, that orders need. Mutable: started when first asked for."""

    def __init__(self, opening: Opening, stack: ExitStack) -> None:
        self._opening = opening
        self._stack = stack
        self._lock = threading.Lock()
        self._found: dict[bool, LevelRunner] = {}
        self._on_cluster: LevelRunner | None = None

    def of(self, order: Order) -> LevelRunner:
        """A cluster's, if the order has one; else a session of this process for `continuous`, or drivers."""
        is_here = order.runner == "continuous"
        with self._lock:
            if order.cluster or order.master:
                self._on_cluster = self._on_cluster or self._cluster(order)
                return self._on_cluster
            if is_here not in self._found:
                self._found[is_here] = self._session() if is_here else self._drivers()
            return self._found[is_here]

    def _cluster(self, order: Order) -> LevelRunner:
        """The cluster of the first order; all orders of a campaign have the same."""
        from harness.levels.spark.cluster_run import open_cluster_runner  # noqa: PLC0415

        opening = self._opening
        opening.announce("starting a cluster" if order.cluster else f"starting a driver for {order.master}")
        return self._stack.enter_context(
            open_cluster_runner(order, folder=opening.folder, note_process=opening.note_process)
        )

    def _session(self) -> LevelRunner:
        from harness.levels.spark.job import SparkRunner  # noqa: PLC0415 - pulls in pyspark
        from harness.levels.spark.session import ended_workers, spark_session  # noqa: PLC0415

        opening = self._opening
        opening.announce("starting a session")
        session = self._stack.enter_context(
            spark_session(
                slots=_SUBTASKS_MAX * opening.lanes,
                folder=opening.folder,
                note_process=opening.note_process,
            )
        )
        return SparkRunner(session, ended=ended_workers(opening.folder))

    def _drivers(self) -> LevelRunner:
        from harness.levels.spark.driver_process import DriverRunner, DriverSettings  # noqa: PLC0415
        from harness.levels.spark.session import local_master  # noqa: PLC0415

        opening = self._opening
        opening.announce("starting a driver")
        settings = DriverSettings(
            master=local_master(_SUBTASKS_MAX),
            folder=opening.folder,
            note_process=opening.note_process,
        )
        return self._stack.enter_context(DriverRunner(settings).open())


_MASTER = re.compile(r"spark://([^:/]+):\d+")
_HERE = "127.0.0.1"
_OF_DRIVER = frozenset({"commit.pre", "commit.post", "close"})
"""The phases that a batch reaches in the driver."""
_OF_DRIVERS = frozenset({"kill_driver"})
"""Faults of a cluster that batches can have without one: their driver is a process of its own."""
_NOT_IN_BATCHES = MappingProxyType(
    {
        "sink": "the sink of a subtask",
        "has_output_key": "the table of an idempotent sink",
        "store": "the checkpoint store",
        "coordinator": "the coordinator of checkpoints",
        "rescaling": "a rescale",
    }
)
"""The parts of a `Variant` that batches do not use, in words."""
_TOO_LATE = frozenset({"retries-after-timeout"})
"""Planted defects that act just after the moment in which a batch may end."""
_OF_KEPT_SLOTS = frozenset({"lost-completion", "silent-timeout"})
"""Pitfalls that show as records which keep their slots."""


def refuse_of_runner(order: Order) -> None:
    """Raises CannotHere, with all the reasons, if the order's runner cannot perform its scenario."""
    told = [] if order.runner == "continuous" else list(lacks_of_runner(order.scenario))
    if told:
        message = f"scenario {order.scenario.scenario} cannot run here: {'; '.join(told)}"
        raise CannotHere(message, fix=f"leave --runner {order.runner} out")
    unused = list(lacks_of_mutant(order.mutant, order.runner))
    if unused:
        message = (
            f"--mutant {order.mutant} would not show with --runner {order.runner}: it is wrong in"
            f" {' and '.join(unused)}"
        )
        raise UsageError(message, fix=f"leave --runner {order.runner} out")


def lacks_of_mutant(mutant: str | None, runner: Runner) -> Iterator[str]:
    """What `mutant` breaks and `runner` does not have, in words; nothing: it can show."""
    if mutant is None or runner == "continuous":
        return
    defect = find_defect(mutant)
    if defect.runner is not None:
        return
    for name, words in _NOT_IN_BATCHES.items():
        if getattr(defect.variant, name) is not getattr(HONEST, name):
            yield f"{words}, which batches have not"
    if defect.name in _TOO_LATE:
        yield "what follows a record's timeout, and a batch does not wait for that"


def lacks_of_runner(scenario: Scenario) -> Iterator[str]:
    """Why `scenario` cannot run in batches; nothing: it can."""
    if scenario.sink != "atomic":
        yield (
            f"sink {scenario.sink} commits when a coordinator tells each subtask to, and a batch has one transaction"
            " of the driver for all subtasks"
        )
    if scenario.workload.checkpoint_every is None:
        yield "checkpoints by time need a task that outlives them, and a batch ends where its records do"
    if scenario.operator.upstream is not None:
        yield "an operator in front of the lookups holds elements of which a batch's range knows nothing"
    if scenario.rescales:
        yield "a rescale ends subtasks at a checkpoint of their own, and a query is planned for one number of subtasks"
    if scenario.pitfall in _OF_KEPT_SLOTS:
        yield (
            f"pitfall {scenario.pitfall} shows as records that keep their slots, and the next batch calls each record"
            " again that has no outcome"
        )
    for fault in scenario.faults:
        if fault.loses_commits:
            yield (
                f"`{fault.do}` (fault {fault.id}) takes committed batches away, and Spark's own log of batches still"
                " has them, so they never come again"
            )
        if fault.needs_cluster and fault.do not in _OF_DRIVERS:
            yield f"`{fault.do}` (fault {fault.id}) acts on the processes of a cluster, and batches run in one driver"
        when = fault.when
        in_driver = isinstance(when, Phase) and when.phase in _OF_DRIVER and fault.do != "kill_worker"
        if fault.attempts_own and (in_driver or isinstance(when, CheckpointDone)):
            yield f"`{fault.do}` (fault {fault.id}) acts in a worker, and the driver commits"


def refuse_without_cluster(order: Order) -> None:
    """Raises CannotHere if the order's faults need a cluster that it has not, or its runner cannot use its own."""
    scenario = order.scenario
    if order.master:
        _refuse_master(order.master)
    has_cluster = bool(order.cluster or order.master)
    has_driver = order.runner != "continuous"
    needing = [
        fault
        for fault in scenario.faults
        if fault.needs_cluster and not (has_driver and fault.do in _OF_DRIVERS)
    ]
    if needing and not has_cluster:
        told = "; ".join(
            f"`{fault.do}` (fault {fault.id}) acts on the processes of a cluster" for fault in needing
        )
        message = (
            f"scenario {scenario.scenario} cannot run here: {told}, and this run has one process for all"
        )
        raise CannotHere(message, fix="add --cluster 2")
    if has_cluster and order.runner != "continuous":
        message = f"--runner {order.runner} writes its files on one machine, so it does not run on a cluster"
        raise CannotHere(message, fix="leave --runner out, or --cluster and --master")
    ours = [fault.do for fault in scenario.faults if fault.do in {"lose_host", "speculation"}]
    if order.master and ours:
        message = (
            f"scenario {scenario.scenario} cannot run here: `{ours[0]}` needs workers of the harness's own"
        )
        raise CannotHere(message, fix="use --cluster 2 in place of --master")


def _refuse_master(master: str) -> None:
    """Raises UsageError if it is no address, CannotHere if its executors could not reach the world's servers."""
    found = _MASTER.fullmatch(master)
    if found is None:
        raise UsageError(f"--master {master} is no address of a Spark master", fix="write spark://HOST:PORT")
    if found[1] != "localhost" and not found[1].startswith("127."):
        message = f"{master} is on another machine, and the world's database and proxy listen on {_HERE}"
        raise CannotHere(message, fix="start the cluster on this machine, or use --cluster 2")
