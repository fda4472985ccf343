"""A world: the database and the proxy that a run talks to, real ones, ours while the block lasts.

Invariant: clients reach the database through `links` only, whose ports stay the same from `open` to
`close` whatever happens behind them; `direct` is for set-up, audit and the proof that a world is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.database.endpoint import Endpoint
from harness.faults.real.fault_site import Control
from harness.faults.real.server_control import ServerControl
from harness.runs.outcome import WorldDescription

__all__ = ["DATABASE", "LINKS", "Address", "Credentials", "ProxyControl", "World", "WorldSource"]

DATABASE = "floodmark"
"""The database that every world has, and the prefix (`floodmark_...`) of any other that its user may make."""
LINKS = ("lookups", "sink")
"""What the operator reads through, and what it writes through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where something listens; `host` is always on loopback."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who a client says it is. The password never enters an event, a log or a report."""

    user: str
    password: str = field(repr=False)

    def at(self, address: Address, database: str) -> Endpoint:
        """Where they log in, and what they use there."""
        return Endpoint(
            host=address.host, port=address.port, user=self.user, password=self.password, database=database
        )


class ProxyControl(Control, Protocol):
    """The proxy's control interface, by link name (`lookups`, `sink`): what faults do, and what it says."""

    def toxics(self, link: str) -> Sequence[str]:
        """The names of the toxics that act on `link` now."""

    def enabled(self, link: str) -> bool:
        """Whether `link` listens."""

    def reseed(self, seed: int) -> None:
        """Let its draws follow from `seed` for the connections to come, where it can: only our own proxy."""

    @property
    def own(self) -> bool:
        """Whether it is our own proxy: it understands MySQL packets, cuts live connections and keeps a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A database behind a proxy, up and proven (`SELECT 1`, directly and through every link)."""

    description: WorldDescription
    links: Mapping[str, Address]
    """`lookups` and `sink`: the proxy's ports that clients use."""
    direct: Address
    """The database itself: set-up and audit only."""
    app: Credentials
    """May do anything to `floodmark` and to any `floodmark_...`, and nothing else."""
    root: Credentials
    proxy: ProxyControl
    folder: Path
    """The run's scratch folder, gone when the world is."""
    enrol: Callable[[int], None]
    """Writes a process of the run (its pid) into the ledger, so that it cannot outlive the run unnoticed."""
    server: ServerControl
    """The database as a process that faults may end, and past every link; `server.of_run(database)` for a run."""
    lacks: Mapping[str, str]
    """For each ability that a fault may need and this world lacks: what has it (`a proxy that ...: run with ...`)."""
    look: Callable[[], None] = lambda: None
    """Raises WorldError if the database or the proxy is gone and no fault ended it; where nobody can tell: nothing."""


WorldSource = AbstractContextManager[World]
"""What `harness.world.setup.opening.open_world(...)` gives: enter it for a `World`, leave it and nothing is left."""
