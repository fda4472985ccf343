"""What faults act on beside links and servers: a user's job, a Spark cluster, an attempt from inside.

What a fault may do to a user's job: find its processes, kill them, start it again beside itself.

Invariant: a process is identified by pid and start time, and only processes of the job's own starts are signalled; the
exit of a start that a fault has ended is recorded with that fault's name.

What a fault inside an attempt acts on: the attempt's journal, event loop, wall clock, checkpoint store and process.

Invariant: a fault journals each act before it performs it, because a killed attempt can record nothing afterwards.

What a fault may do to the processes of a run on a Spark cluster: its driver, its executors, its hosts.

Invariant: a process is identified by pid and start time, and only processes of this run's drivers and of the harness's
own cluster are signalled.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.history.follower import Progress
from harness.history.notes import NoteLog, Stops
from harness.system.clock import monotonic_us, utc_now
from harness.system.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from harness.database.store_files import Files


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


Shift = Callable[[int], int]
"""Maps an instant of the monotonic clock (ns) to the offset of the wall clock (ns)."""


class SiteLoop(Protocol):
    """The methods of the attempt's event loop that faults use."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> object: ...


class SiteStore(Protocol):
    """The attempt's checkpoint store."""

    @property
    def files(self) -> Files:
        """The checkpoint files of its subtask, the newest last."""

    def before_writes(self, meet: Callable[[], None], *, lasts_ms: int) -> None:
        """For `lasts_ms`, calls `meet` before each write; it may block, or raise an OSError."""


_NS_PER_US = 1000
_NS_PER_MS = 1_000_000


class WallClock:
    """The wall clock of an attempt, which faults may set, stop or make drift.

    Answers to `System.currentTimeMillis`; a correct operator never reads it (T1). The evidence of a clock fault is
    measured through it too. Mutable: faults replace `shift`.
    """

    def __init__(self) -> None:
        self._origin_ns = round(utc_now().timestamp() * 1_000_000_000) - monotonic_us() * _NS_PER_US
        self.set_right()

    def now_ns(self) -> int:
        """The shifted time of day."""
        now_ns = monotonic_us() * _NS_PER_US
        return self._origin_ns + now_ns + self.shift(now_ns)

    def offset_ms(self) -> float:
        """Its offset to the monotonic clock, relative to the offset at its creation."""
        now_ns = monotonic_us() * _NS_PER_US
        return round((self.now_ns() - self._origin_ns - now_ns) / _NS_PER_MS, 1)

    def set_right(self) -> None:
        """Removes the shift."""
        self.shift: Shift = lambda at_ns: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSite:
    """What a fault may use inside one attempt."""

    journal: NoteLog
    loop: SiteLoop
    clock: WallClock
    store: SiteStore


def stop(fault: str, attempt: AttemptSite) -> None:
    """Stops this process (SIGSTOP) and returns when another process has sent SIGCONT.

    The harness reads the journal line that precedes it and resumes the process.
    """
    attempt.journal.note(Stops(fault=fault))
    os.kill(os.getpid(), signal.SIGSTOP)


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

    def owner(self, link: str, port: int) -> ProcessIdentity | None:
        """The process of the job that talks from `port` to a link of the proxy; None: none that can be found."""

    def standing_still(self) -> AbstractContextManager[int]:
        """Stops the `family` of the newest start (SIGSTOP) while the block lasts; gives since when all of it stands."""

    def executors(self) -> Sequence[ProcessIdentity]:
        """The executors of the newest start, also those of a standalone cluster, which are not its descendants."""

    def is_alive(self, process: ProcessIdentity) -> bool:
        """Whether it still runs."""

    def kill(self, process: ProcessIdentity, *, fault: str) -> bool:
        """Sends SIGKILL; False if the process was gone. If a start ends by it, its exit is recorded `by` the fault."""

    def expect_death(self, start: LiveStart, *, fault: str) -> None:
        """Says that the next exit of `start` is the doing of `fault`, which does not send the signal itself."""

    def suspended(self, process: ProcessIdentity, found: Callable[..., None]) -> AbstractContextManager[None]:
        """Stops it (SIGSTOP) while the block lasts; `found` gets the facts `stopped` and `resumed`."""

    def ports(self, family: Sequence[ProcessIdentity]) -> set[int]:
        """The ports from which these processes talk over TCP."""

    def start_beside(self, *, fault: str) -> AbstractContextManager[LiveStart]:
        """Freeze the newest start and start the job once more beside it; the freeze lasts as long as the block.

        It becomes the newest; the older one is not restarted.
        """

    def wait_for_exit(self, start: LiveStart, *, limit_s: float) -> bool:
        """Waits until the main process of `start` was reaped; False: it was not within `limit_s`."""

    def broker(self) -> SourceBroker | None:
        """The broker of the job's source; None: a source of this kind has none."""

    def seen_commits(self) -> int:
        """How many transactions that changed the sink's table the database's log has shown so far."""
