"""The surroundings of an attempt on a host of a Spark cluster, which shares no folder with the harness.

Invariant: it differs from the attempt beside the harness only in where its lines, its checkpoint parts and the marks of
its faults go (`harness.history.sent`, `harness.database.shared_tables`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.database.shared_tables import MarkTable, TableFiles
from harness.engine.attempt import AttemptParts
from harness.faults.registry import fault_of
from harness.history.journal import Journal
from harness.history.notes import OnHost
from harness.history.recorder import attempt_file
from harness.history.sent import SentRecorder
from harness.levels.live.place import RealPlace
from harness.scenario.model import Scenario
from harness.scenario.moments import shown_by
from harness.scenario.plan import RunPlan
from harness.sut.phases import EarlierAttempts, kinds_that_count, past_of
from harness.sut.variant import Variant

_HISTORY = Path("history")
"""Where an executor keeps its copy, below the working folder that Spark gave it."""


def remote_parts(plan: RunPlan, subtask: int, *, variant: Variant) -> AttemptParts:
    """The parts of the next attempt of `subtask`, in a Python worker of an executor."""
    scenario = Scenario.model_validate(plan.scenario)
    place = RemotePlace(plan, scenario, subtask, variant)
    return AttemptParts(plan=plan, scenario=scenario, subtask=subtask, place=place, variant=variant)


class RemotePlace(RealPlace):
    """Implements `harness.engine.attempt.AttemptPlace`."""

    def __init__(
        self,
        plan: RunPlan,
        scenario: Scenario,
        subtask: int,
        variant: Variant,
    ) -> None:
        super().__init__(plan, scenario, subtask, variant)
        assert plan.shared is not None, "a plan for other hosts names the database"
        assert plan.sent_to is not None, "a plan for other hosts says where events go"
        self._sent_to = plan.sent_to
        # The address that a standalone worker was given, which its executors inherit; else the machine's name.
        self._host = os.environ.get("SPARK_LOCAL_IP") or socket.gethostname()  # noqa: TID251 - only Spark knows it
        self.files = TableFiles(plan.shared, subtask=subtask)
        self._marks = MarkTable(plan.shared, subtask=subtask, kinds=_marked(plan, subtask))

    @contextmanager
    def journal(self, attempt: int) -> Iterator[Journal]:
        """See `AttemptPlace`; the lines also go to the harness, and say where the attempt runs."""
        path = attempt_file(_HISTORY / self._plan.run_id, subtask=self._subtask, attempt=attempt)
        made = self._variant.recorder(SentRecorder)
        with made(path, to=self._sent_to, mark=self._marks) as recorder:
            journal = Journal(recorder, subtask=self._subtask, attempt=attempt)
            journal.note(OnHost(host=self._host, executor=Path.cwd().name, driver=self._plan.generation))
            yield journal

    def past_before(self, attempt: int) -> Callable[[], EarlierAttempts]:
        """See `RealPlace`; the marks of earlier attempts are rows in the run's database."""
        return lambda: past_of(self._marks.lines(before=attempt))


def _marked(plan: RunPlan, subtask: int) -> frozenset[str]:
    """The kinds of lines of which later attempts of the subtask must know; none if no fault acts inside them."""
    faults = [fault for fault in map(fault_of, plan.inside) if fault.of_subtask in {None, subtask}]
    crashes = [crash for crash in plan.crashes if crash.subtask == subtask]
    if not faults and not crashes:
        return frozenset()
    return kinds_that_count([crash.phase for crash in crashes] + [shown_by(fault.when) for fault in faults])
