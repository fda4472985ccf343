"""What a fault may do to the processes of a run on a Spark cluster: its driver, its executors, its hosts.

Invariant: a process is identified by pid and start time, and only processes of this run's drivers and of the harness's
own cluster are signalled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from harness.history.follower import Progress
from harness.system.process_identity import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDriver:
    """A driver that lives."""

    number: int
    """1, 2, ...: its generation."""
    processes: Sequence[ProcessIdentity]
    """Its Python process first, and its virtual machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveExecutor:
    """An executor that lives, and what it runs."""

    process: ProcessIdentity
    host: str
    supervisor: ProcessIdentity | None
    """The process of the cluster that has started it and would end it; None: it is not ours."""
    workers: Mapping[int, ProcessIdentity]
    """The Python worker that runs a subtask's newest attempt, by subtask."""


class SparkProcesses(Protocol):
    """The processes of a run on a cluster; every method may be called from any thread."""

    def live_driver(self) -> LiveDriver | None:
        """The newest driver; None: it has died, and no other was started yet."""

    def executors(self) -> Sequence[LiveExecutor]:
        """The executors of the newest driver on this machine."""

    def progress(self) -> Progress:
        """What the attempts have recorded so far."""

    def lost_host(self, host: str) -> AbstractContextManager[Sequence[ProcessIdentity]]:
        """Kills the worker and the executors of an address, and yields them; when the block ends the worker is back."""
