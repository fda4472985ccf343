"""Level `spark`: each subtask is a task of one Spark job, with a real world; one Spark session for all runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from harness.engine.canaries_in_world import refuse_blind_world
from harness.engine.in_world import record_in_world
from harness.engine.level import LevelRunner, Opening, Play, RunRecord, RunSite
from harness.levels.spark.runners import refuse_of_runner, refuse_without_cluster
from harness.scenario.order import Order
from harness.world.world import World

_SUBTASKS_MAX = 16
"""Most subtasks of one run; the session has a slot for each, whatever the machine's cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLevel:
    """Implements `Level`."""

    name: ClassVar[str] = "spark"
    needs_world: ClassVar[bool] = True
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
        """Of the first order; all orders of a campaign have the same."""
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
