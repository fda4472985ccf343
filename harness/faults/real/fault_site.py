"""What a real fault acts on from outside: the links with their toxics, the server, and the workers of a run.

Answers to Jepsen's nemesis and Toxiproxy's toxics. Invariants: a process is identified by pid and start time, so no
signal reaches a process that got the pid later; a stopped process is resumed or ended with the run; a toxic added for
a block is removed when the block ends, even if adding a second one failed. A field that a scenario leaves out has the
default of the fault's kind, never one of the proxy.

Global variables of the server that a fault sets and restores, even if the server was restarted or paused meanwhile.

Invariant: the previous value is restored; sessions that began during the fault and would keep its value are ended when
it heals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from harness.database.endpoint import MySqlConnection
from harness.faults.real.evidence import LogPage
from harness.faults.real.server_control import (
    RootLine,
    ServerControl,
    Session,
    close_tables,
    end_all_sessions,
    repeating,
    sessions_of_run,
)
from harness.faults.real.sites import JobProcesses, SparkProcesses
from harness.system.choices import Choices
from harness.system.clock import Flag, monotonic_us
from harness.system.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from harness.faults.real.held_message import HeldMessage


class Succession(Protocol):
    """A live worker that was replaced, and its successor."""

    def successor_commits(self) -> int:
        """How many epochs of the subtask became visible since the replacement."""

    def old_one_is_over(self) -> bool:
        """Whether the replaced process has ended by itself."""


class Workers(Protocol):
    """The processes of a run; every method may be called from any thread."""

    def process(self, subtask: int) -> ProcessIdentity | None:
        """The process of the subtask's newest attempt; None while there is none."""

    def supersede(self, subtask: int) -> Succession:
        """Starts a successor although the old process is alive; the old one is ended with the run at the latest."""

    def executor(self) -> ProcessIdentity | None:
        """The process that runs all workers; None where each worker has its own process."""

    def spark(self) -> SparkProcesses | None:
        """The drivers, executors and hosts of a run on a Spark cluster; None: the run is on none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicRequest:
    """One toxic, as Toxiproxy takes it; `stream` is `upstream` (to the server) or `downstream`."""

    name: str
    type: str
    stream: str
    attributes: Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConnection:
    """A live connection through the proxy."""

    id: int
    peer: int
    """The client's port."""
    session: int | None = None
    """The server's number of the session; None: it has not greeted, or the proxy does not read its packets."""


class Control(Protocol):
    """Controls the links of the proxy. Every call has a time limit and may come from any thread."""

    def add_toxic(self, link: str, toxic: ToxicRequest) -> None:
        """Adds `toxic` to `link`; live connections are affected at once."""

    def remove_toxic(self, link: str, name: str) -> None:
        """Removes a toxic; one that is already gone is no error. Never deadlocks (infrastructure 3.4)."""

    def disable(self, link: str) -> None:
        """Stops listening and closes every live connection."""

    def enable(self, link: str) -> None:
        """Listens again on the same port."""

    def cut(self, link: str, how: str) -> Sequence[int]:
        """Ends every live connection by `rst` or `fin` and goes on listening; returns their ids, if the proxy has ids.

        A proxy that cannot send RST refuses `rst`; its world lacks the ability `packets`.
        """

    def link_log(self, link: str, after: int = 0) -> LogPage | None:
        """The proxy's log of `link` after event `after`; None: it keeps no log."""


class MessageControl(Control, Protocol):
    """Controls our own proxy, which knows connections and messages."""

    def connections(self, link: str) -> Sequence[ProxyConnection]:
        """The live connections of `link`."""

    def cut_one(self, link: str, connection: int) -> None:
        """Resets one connection (RST); what is held of it is lost."""

    def release(self, link: str, toxic: str, connection: int) -> None:
        """Sends what a holding toxic holds of one connection; the toxic stays. No error if it is gone."""

    def hold_no_more(self, link: str, toxic: str) -> None:
        """A holding toxic lets later messages pass; what it holds stays held. No error if it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a fault may use while it is active."""

    control: Control
    server: ServerControl
    workers: Workers
    note_fact: Callable[..., None]
    """Records facts that the fault itself observed; they come back in `Seen.facts`."""
    seed: int
    """The run's seed."""
    over: Flag
    """Set when the fault is to heal."""
    job: JobProcesses | None = None
    """The processes of a user's job; None: the run is not one of a job."""
    spark: SparkProcesses | None = None
    """The drivers, executors and hosts of a run on a Spark cluster; None: the run is on none."""
    sink_table: str = ""
    """The table that the job writes to; empty: its statements do not name it, or no run of a job."""
    held: HeldMessage | None = None
    """The message of the job's sink link at which the fault begins; None: it begins at another trigger."""


class Toxic(NamedTuple):
    """What the proxy does to a link, in each of `streams`."""

    type: str
    streams: Sequence[str]
    attributes: Mapping[str, int | str]


@contextmanager
def toxics_on(control: Control, link: str, toxic: Toxic, *, name: str) -> Iterator[None]:
    """Adds one toxic for each of the streams while the block lasts; live connections are affected at once."""
    toxics = [
        ToxicRequest(name=f"{name}.{stream}", type=toxic.type, stream=stream, attributes=toxic.attributes)
        for stream in toxic.streams
    ]
    try:
        for one in toxics:
            control.add_toxic(link, one)
        yield
    finally:
        for one in reversed(toxics):
            control.remove_toxic(link, one.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Selects messages of a link: by command and statement, and by their number since the fault began."""

    command: str
    statement: str = ""
    nth: int = 1
    times: int = 1
    """0: every matching message from the `nth` on."""

    def toxic(self, stream: str, do: str, **attributes: int | str) -> Toxic:
        """The toxic of our own proxy that does `do` to the selected messages."""
        picked: dict[str, int | str] = {
            "on": self.command,
            "statement": self.statement,
            "nth": self.nth,
            "times": self.times,
        }
        return Toxic("packet", (stream,), {**picked, "do": do, **attributes})


def note_rises(site: Site, name: str) -> Callable[[int], None]:
    """Records a number as the fact `name` each time that it is higher than before, and than 0."""
    most = 0

    def note(number: int) -> None:
        nonlocal most
        if number > most:
            most = number
            site.note_fact(**{name: number})

    return note


@contextmanager
def repeated_kills(
    site: Site,
    fault: str,
    *,
    find: Callable[[MySqlConnection], list[Session]],
    kill: Callable[[MySqlConnection, Sequence[Session]], int],
    gap_ms: int,
    count: int | None,
) -> Iterator[None]:
    """Every `gap_ms` draws one session that `find` gives and does `kill` to it, at most `count` times (None: no limit).

    When the block ends, it closes the server's tables.
    """
    choices, killed = Choices(site.seed, f"fault {fault}"), 0

    def once(root: MySqlConnection) -> None:
        nonlocal killed
        if count is not None and killed >= count:
            return
        sessions = find(root)
        hit = kill(root, [sessions[choices.index(len(sessions))]]) if sessions else 0
        if hit:
            killed += hit
            site.note_fact(killed=killed)

    try:
        with RootLine(site.server) as line:
            site.note_fact(began_us=monotonic_us())
            with repeating(lambda: line(once), gap_ms / 1000):
                yield
    finally:
        site.server.put_back(lambda root: close_tables(root, site.server))


STATEMENT_S = 10.0
"""Time limit; SET GLOBAL may wait for transactions that are committing."""


@contextmanager
def global_variables(site: Site, values: Mapping[str, int]) -> Iterator[None]:
    """Sets these global variables while the block lasts."""
    with site.server.root(limit_s=STATEMENT_S) as connection:
        before = {}
        with connection.cursor() as cursor:
            for name in values:
                cursor.execute(f"SELECT @@GLOBAL.{name}")
                before[name] = int(cursor.fetchone()[0])
        try:
            site.note_fact(began_us=monotonic_us(), set=dict(values), stood=before)
            _set_all(connection, values)
            yield
        finally:
            site.server.put_back(lambda root: _set_all(root, before))


@contextmanager
def variables_of_new_sessions(site: Site, values: Mapping[str, int]) -> Iterator[None]:
    """The same for variables that a session copies when it begins: the run's sessions are ended at both ends."""
    try:
        with global_variables(site, values):
            with site.server.root() as connection:
                sessions = sessions_of_run(connection, site.server)
                end_all_sessions(connection, site.server)
                site.note_fact(ended=len(sessions), ended_us=monotonic_us())
            yield
    finally:
        site.server.put_back(lambda root: end_all_sessions(root, site.server))


def _set_all(connection: MySqlConnection, values: Mapping[str, int]) -> None:
    with connection.cursor() as cursor:
        for name, value in values.items():
            cursor.execute(f"SET GLOBAL {name} = {value:d}")
