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
from harness.levels.spark.runners import refuse_of_runner
from harness.runs.order import Order
from harness.runs.plan import Runner
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
        """Raises UsageError if the order's runner cannot perform its scenario."""
        refuse_of_runner(order)

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
                return record_in_world(order, site, runner=runners.of(order.runner))

            yield play


class _Runners:
    """The session, or the drivers, that orders need. Mutable: started when first asked for."""

    def __init__(self, opening: Opening, stack: ExitStack) -> None:
        self._opening = opening
        self._stack = stack
        self._lock = threading.Lock()
        self._found: dict[bool, LevelRunner] = {}

    def of(self, runner: Runner) -> LevelRunner:
        """The one for `runner`: a session of this process for `continuous`, else drivers of their own."""
        is_here = runner == "continuous"
        with self._lock:
            if is_here not in self._found:
                self._found[is_here] = self._session() if is_here else self._drivers()
            return self._found[is_here]

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
