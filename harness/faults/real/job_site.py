"""What a fault may do to a user's job: find its processes, kill them, start it again beside itself.

Invariant: a process is identified by pid and start time, and only processes of the job's own starts are signalled; the
exit of a start that a fault has ended is recorded with that fault's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from harness.system.process_identity import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStart:
    """A start of the job whose main process lives."""

    number: int
    """1, 2, ..."""
    main: ProcessIdentity


class SourceBroker(Protocol):
    """The server that holds a job's source: a Kafka broker. What it has taken outlives its death."""

    @property
    def pid(self) -> int | None:
        """The process that runs, or ran last."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    def kill(self) -> None:
        """SIGKILL; nothing if it does not run."""

    def start(self) -> None:
        """Starts it on the same port and data, and waits until it serves."""


class JobProcesses(Protocol):
    """The processes of a job's run; every method may be called from any thread."""

    @property
    def failed_us(self) -> Sequence[int]:
        """When each start that ended by itself with an error was reaped."""

    def newest(self) -> LiveStart | None:
        """The start with the highest number, if its main process lives."""

    def family(self, start: LiveStart) -> Sequence[ProcessIdentity]:
        """The main process and all its descendants that live, also those whose parent has died."""

    def owner(self, link: str, connection: int) -> ProcessIdentity | None:
        """The process that holds the client's end of a connection of the proxy; None: none that can be found."""

    def executors(self) -> Sequence[ProcessIdentity]:
        """The executors of the newest start, also those of a standalone cluster, which are not its descendants."""

    def kill(self, process: ProcessIdentity, *, fault: str) -> bool:
        """Sends SIGKILL; False if the process was gone. If a start ends by it, its exit is recorded `by` the fault."""

    def expect_death(self, start: LiveStart, *, fault: str) -> None:
        """Says that the next exit of `start` is the doing of `fault`, which does not send the signal itself."""

    def start_beside(self, *, fault: str) -> AbstractContextManager[LiveStart]:
        """Freeze the newest start and start the job once more beside it; the freeze lasts as long as the block.

        It becomes the newest; the older one is not restarted.
        """

    def wait_for_start(self, *, after: int, limit_s: float) -> LiveStart | None:
        """Waits until a start with a number above `after` lives; None: none did within `limit_s`."""

    def wait_for_exit(self, start: LiveStart, *, limit_s: float) -> bool:
        """Waits until the main process of `start` was reaped; False: it was not within `limit_s`."""

    def broker(self) -> SourceBroker | None:
        """The broker of the job's source; None: a source of this kind has none."""

    def seen_commits(self) -> int:
        """How many transactions that changed the sink's table the database's log has shown so far."""
