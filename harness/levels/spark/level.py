"""Level `spark`: each subtask is a task of one Spark job, with a real world; one Spark session for all runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from harness.engine.canaries_in_world import refuse_blind_world
from harness.engine.in_world import record_in_world
from harness.engine.level import Opening, Play
from harness.runs.order import Order
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
        """Accepts every scenario that lists this level."""

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`: its attempts write the same files and tables as those of level live."""
        assert world is not None, "level spark needs a world"
        refuse_blind_world(world, level=self.name)

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        """A runner in a new Spark session."""
        from harness.levels.spark.job import SparkRunner  # noqa: PLC0415 - pulls in pyspark
        from harness.levels.spark.session import ended_workers, spark_session  # noqa: PLC0415

        opening.announce("starting a session")
        with spark_session(
            slots=_SUBTASKS_MAX * opening.lanes, folder=opening.folder, note_process=opening.note_process
        ) as session:
            yield partial(record_in_world, runner=SparkRunner(session, ended=ended_workers(opening.folder)))
