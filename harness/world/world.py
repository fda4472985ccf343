"""A world: the database and the proxy of a run, real processes that exist for the duration of a block.

Invariant: clients reach the database through `links` only, whose ports stay the same while the world is open, whatever
happens behind them; `direct` is for set-up, the audit and the check that the world is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.database.endpoint import Endpoint
from harness.faults.real.fault_site import MessageControl
from harness.faults.real.server_control import LostRows, PairControl, ServerControl, ServerRole
from harness.scenario.outcome import WorldDescription
from harness.system.clock import Flag

DATABASE = "floodmark"
"""The name of every world's database, and the prefix (`floodmark_...`) of those that its user may create."""
LINKS = ("lookups", "sink")
"""The link of the operator's lookups, and the link of the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens; `host` is always on loopback."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user and its password. The password never enters an event, a log or a report."""

    user: str
    password: str = field(repr=False)

    def at(self, address: Address, database: str) -> Endpoint:
        """The endpoint for a login with these credentials."""
        return Endpoint(
            host=address.host, port=address.port, user=self.user, password=self.password, database=database
        )


class ProxyControl(MessageControl, Protocol):
    """The proxy's control interface, by link name (`lookups`, `sink`): what faults use, and its state."""

    def toxics(self, link: str) -> Sequence[str]:
        """The names of the toxics on `link`."""

    def enabled(self, link: str) -> bool:
        """Whether `link` listens."""

    def reseed(self, seed: int) -> None:
        """Set the seed of the draws for new connections; only our own proxy can."""

    def identify(self, *, on: bool) -> None:
        """Note which process opens each connection from now on, until the next seed; only our own proxy can."""

    @property
    def own(self) -> bool:
        """Whether it is our own proxy: it understands MySQL packets, cuts live connections and keeps a log."""


class ReplicatedServer(PairControl, Protocol):
    """The database and its replica, as a world lends them to a run; faults see a `PairControl`."""

    @property
    def links(self) -> Mapping[str, Address]:
        """`probe` and `replica`, beside the links of the world."""

    losses: list[LostRows]
    """What faults of the present run found on one server and not on the serving one."""

    @property
    def serving_address(self) -> Address:
        """The direct address of the server that the sink's link leads to."""

    @property
    def replica_address(self) -> Address:
        """The direct address of the replica."""

    def catch_up(self) -> None:
        """Waits until the replica has executed all that the primary's log holds now. Raises WorldError."""

    def reaches_lookups(self, over: Flag) -> bool:
        """See `ServerControl`."""

    def of_run(self, *databases: str, lookups: ServerRole, stays: bool) -> AbstractContextManager[None]:
        """The links as a run wants them while the block lasts; then both servers as before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A database behind a proxy, checked with `SELECT 1` directly and through every link."""

    description: WorldDescription
    links: Mapping[str, Address]
    """By name (`lookups`, `sink`): the proxy's addresses for clients."""
    direct: Address
    """The database itself, for set-up and audit only."""
    app: Credentials
    """May do everything in `floodmark` and any `floodmark_...`, and nothing else."""
    root: Credentials
    proxy: ProxyControl
    folder: Path
    """The run's scratch folder; removed with the world."""
    enrol: Callable[[int], None]
    """Adds a process (its pid) to the ledger, so that it is ended with the run."""
    server: ServerControl
    """Control of the database's process for faults; `server.of_run(database)` gives a run's view."""
    lacks: Mapping[str, str]
    """For each ability that faults may need and this world lacks: what would have it (`a MySQL server: run with
    ...`).
    """
    kept: str | None = None
    """How to open the server's data after the world is closed; None: they are removed with it."""
    pair: ReplicatedServer | None = None
    """The database and its replica; None: there is only one server."""
    look: Callable[[], None] = lambda: None
    """Raises WorldError if the database or the proxy has died and no fault ended it; the default checks nothing."""

    @property
    def serving(self) -> Address:
        """The server that the sink's link leads to, directly; another one after a failover."""
        return self.direct if self.pair is None else self.pair.serving_address
