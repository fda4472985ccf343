"""What a fault is: something that is armed, acts, heals, and must have left evidence.

Answers to Jepsen's nemesis and to Toxiproxy's toxics. Invariant: evidence is what the run recorded while the
fault was on, never that the fault was asked for; no evidence means that nothing was shown (V23).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.faults.real.deed import Deed, DeedsRead
from harness.faults.real.seen import Evidence
from harness.faults.real.server_control import ServerControl
from harness.faults.real.workers import Workers

__all__ = ["Control", "Deed", "DeedsRead", "Evidence", "Site", "Toxic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic, as Toxiproxy takes it; `stream` is `upstream` (to the server) or `downstream`."""

    name: str
    type: str
    stream: str
    attributes: Mapping[str, int | str]


class Control(Protocol):
    """What a fault does to a link of the world's proxy; every call has a limit, from several threads."""

    def add_toxic(self, link: str, toxic: Toxic) -> None:
        """Put `toxic` on `link`; live connections are affected at once."""

    def remove_toxic(self, link: str, name: str) -> None:
        """Take it away; one that is gone already is no error. Never deadlocks (infrastructure 3.4)."""

    def disable(self, link: str) -> None:
        """Stop listening and cut every live connection."""

    def enable(self, link: str) -> None:
        """Listen again on the same port."""

    def cut(self, link: str, how: str) -> Sequence[int]:
        """End every live connection now, by `rst` or `fin`, and go on listening; their ids, where ids are known.

        A proxy that cannot reset does what it can by `fin`, and refuses `rst` (its world lacks `packets`).
        """

    def deeds(self, link: str, after: int = 0) -> DeedsRead | None:
        """What the proxy has done to connections of `link` since deed `after`; None: it keeps no log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a fault acts: what it may get hold of while it is on."""

    control: Control
    server: ServerControl
    workers: Workers
    found: Callable[..., None]
    """`found(**facts)`: record what the fault itself saw; it comes back in `Seen.found`."""
    seed: int
    """The run's."""
    over: threading.Event
    """Set when the fault shall heal."""
