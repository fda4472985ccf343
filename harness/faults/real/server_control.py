"""The database server as its faults see it: ended, started, stopped, asked past the proxy.

Answers to Jepsen's `db/Process` and `db/Pause`. Invariants: every act has a limit and may be repeated; whatever
is done, the server has the same ports and the same data for ever; a fact of it comes past the proxy, so that no
other fault can colour it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["ServerClock", "ServerControl", "ServerProcess", "ServerState", "SmallDisk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What is known of the server at one moment, out-of-band."""

    start: str | None
    """Names one start of the server for ever (process and moment); None: it does not run."""
    paused: bool
    """Whether it is there and may not act."""
    pid: int | None
    """Its process on this machine; None: it does not run."""
    uptime_s: int | None
    """By its own word, past the proxy; None: it did not answer."""


class ServerProcess(Protocol):
    """The server as a process."""

    def kill(self) -> None:
        """End it as SIGKILL does, at once; returns when it is gone. One that is gone already is no error."""

    def shut_down(self) -> None:
        """Let it end in order, within a limit; returns when it is gone."""

    def start(self) -> None:
        """Start it on the same port and data; returns when it answers `SELECT 1`. One that runs is left alone."""

    def pause(self) -> None:
        """Stop all of it (SIGSTOP); returns when it has stopped. The kernel goes on accepting for it."""

    def resume(self) -> None:
        """Let it go on (SIGCONT); one that was not stopped is left alone."""


class SmallDisk(Protocol):
    """The server's disk, where it is small enough to be filled; else the world lacks `small-disk`."""

    def fill_disk(self) -> int:
        """Take all that is free; returns how many bytes that was."""

    def free_disk(self) -> None:
        """Give back what `fill_disk` took."""


class ServerClock(Protocol):
    """The server's clock, where it can be shifted; else the world lacks `server-clock`."""

    def shift_clock(self, shift_ms: int) -> None:
        """Let the server's calendar be so far from ours (0: the same), from its next look on."""


class ServerControl(ServerProcess, SmallDisk, ServerClock, Protocol):
    """The server of a run: its process, what it says past the proxy, and what must be put back in it."""

    @property
    def flavour(self) -> str:
        """`mysql` or `mariadb`."""

    @property
    def database(self) -> str:
        """The run's database."""

    @property
    def user(self) -> str:
        """Who the run's clients say they are."""

    def root(
        self, database: str = "", *, limit_s: float = 3.0, wait_s: float = 20.0
    ) -> AbstractContextManager[Any]:
        """A pymysql connection as root, past the proxy, on which every wait has a limit; it commits by itself.

        A server that is down or paused is waited for, for another fault may hold it so; after `wait_s` pymysql's
        errors rise.
        """

    def state(self) -> ServerState:
        """How it stands now; never waits longer than a second for an answer."""

    def counters(self) -> Mapping[str, int]:
        """Its status counters, as `SHOW GLOBAL STATUS` has them; a server that does not answer has none."""

    def put_back(self, act: Callable[[Any], None]) -> None:
        """Undo a change: `act` gets a root connection, now, or as soon as a server that is down or paused answers.

        A fault that heals while another one has the server down is healed all the same. `act` looks first whether
        there is anything to undo, for a restart may have undone it.
        """

    def of_run(self, database: str) -> ServerControl:
        """The same server, for a run with this database."""
