"""The surroundings of an attempt at levels live and spark: this process, real clocks, a real database, files.

Invariant: everything that attempts share is named in the plan, so a process started after a crash finds the same
things.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from harness.database import transactions
from harness.database.checkpoint_store import checkpoint_folder
from harness.database.driver import AsyncMySqlDriver, MySqlDriver
from harness.database.store_files import Files, FolderFiles
from harness.database.watched_call import watch_connects
from harness.engine.attempt import AttemptParts
from harness.history.event import cause_of
from harness.history.journal import Journal
from harness.history.recorder import Recorder, attempt_file
from harness.scenario.model import Fault, Scenario
from harness.scenario.plan import RunPlan
from harness.scenario.workloads.lookups import LookupSource
from harness.sut.clients import CLIENTS
from harness.sut.function_under_test import Client
from harness.sut.inside_faults import BegunAttempt, InsideFaults
from harness.sut.loop_watch import LoopWatch, code_of
from harness.sut.phases import EarlierAttempts
from harness.sut.rescaling import PlannedSubtask
from harness.sut.user_lookup import UserLookup
from harness.sut.variant import Variant
from harness.system.clock import REAL_CLOCK, Clock
from harness.system.process_identity import ProcessIdentity, this_process
from reference_impl.mailbox.loops import real_loop


def real_parts(plan: RunPlan, subtask: int, *, variant: Variant) -> AttemptParts:
    """The parts of the next attempt of `subtask`, in this process."""
    scenario = Scenario.model_validate(plan.scenario)
    place = RealPlace(plan, scenario, subtask, variant)
    return AttemptParts(plan=plan, scenario=scenario, subtask=subtask, place=place, variant=variant)


class RealPlace:
    """Implements `harness.engine.attempt.AttemptPlace`."""

    clock: Clock = REAL_CLOCK

    def __init__(self, plan: RunPlan, scenario: Scenario, subtask: int, variant: Variant) -> None:
        self._plan = plan
        self._scenario = scenario
        self._subtask = subtask
        self._variant = variant
        self.sink = MySqlDriver(plan.sink)
        self.files: Files = FolderFiles(checkpoint_folder(Path(plan.folder), subtask=subtask))

    @property
    def process(self) -> ProcessIdentity:
        return this_process()

    @contextmanager
    def journal(self, attempt: int) -> Iterator[Journal]:
        """See `Place`; each attempt writes its own file."""
        path = attempt_file(Path(self._plan.folder), subtask=self._subtask, attempt=attempt)
        with self._variant.recorder(Recorder)(path) as recorder:
            yield Journal(recorder, subtask=self._subtask, attempt=attempt)

    def loop(self) -> AbstractContextManager[asyncio.AbstractEventLoop]:
        return real_loop()

    def lookups(self, loop: asyncio.AbstractEventLoop) -> AsyncMySqlDriver:
        del loop
        return AsyncMySqlDriver(self._plan.lookups)

    def client(self, name: str) -> Client:
        return CLIENTS[name](self._plan.lookups)

    def inside(self, begun: BegunAttempt) -> InsideFaults:
        return InsideFaults(
            self._plan,
            begun,
            workload=self._scenario.workload,
            subtask=self._subtask,
            past=self.past_before(begun.number),
        )

    def past_before(self, attempt: int) -> Callable[[], EarlierAttempts] | None:  # noqa: ARG002 - for places without these files
        """Reads what earlier attempts did; None: their files in the run's folder tell."""
        return None

    def watching(
        self, loop: asyncio.AbstractEventLoop, journal: Journal, lookup: object
    ) -> AbstractContextManager[None]:
        if isinstance(lookup, UserLookup):
            watch_connects(self._plan.lookups.port)
        return LoopWatch(loop, journal, function=code_of(lookup)).watching()

    def cause_of(self, error: BaseException) -> str | None:
        return cause_of(error, is_outside=self._is_outside)

    def _is_outside(self, error: BaseException) -> bool:
        """An error of the server or the network; a run with faults on either may have caused it itself."""
        faults = self._scenario.faults
        if any(fault.by in {"link", "server"} for fault in faults):
            return False
        if any(fault.stalls for fault in faults) and transactions.code_of(error) == _LOCK_WAIT:
            return False  # a worker that stands still may hold the lock
        # A driver raised it because the server could not serve, now, what it usually serves.
        return (
            isinstance(error, (*self.sink.errors, *AsyncMySqlDriver(self._plan.lookups).errors))
            and not isinstance(error, TimeoutError)
            and transactions.class_of(transactions.code_of(error)) in _OF_SERVICE
        )

    def elements(self, subtask: int, shaping: Iterable[Fault]) -> LookupSource:
        return PlannedSubtask(plan=self._plan, scenario=self._scenario, number=subtask).source(shaping)

    def run_loop_after_close(self, loop: asyncio.AbstractEventLoop, ms: int) -> None:
        loop.run_until_complete(asyncio.sleep(ms / 1000))


_LOCK_WAIT = 1205
_OF_SERVICE = frozenset(
    {
        transactions.ErrorClass.RECONNECT,
        transactions.ErrorClass.RETRY,
        transactions.ErrorClass.BACK_OFF,
    }
)
