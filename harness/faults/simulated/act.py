"""An act: one activation of a fault in a simulated run, from its beginning to its evidence.

The counterpart of `OutsideFault.inject`. Invariants: evidence is what the act counted while it was active; a link act
applies to messages already in flight as well as to those sent later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.database.simulated.replies import LOST_CONNECTION

if TYPE_CHECKING:
    from harness.database.simulated.hub import Actor, Hub
    from harness.database.simulated.link import LinkAct, SimulatedLink
    from harness.database.simulated.server import SimulatedServer
    from harness.database.simulated.tape import Tape
    from harness.database.store_files import MemoryFiles
    from harness.system.choices import Draw

Evidence = dict[str, Any]


class Act(Protocol):
    """Begins once and ends once; simulated time passes in between."""

    @property
    def settles_ms(self) -> int:
        """How long after its end more evidence may come; 0: none comes."""

    def begins(self) -> None:
        """Activates it. If the attempt does it to itself, this may return only when the act is over."""

    def ends(self) -> None:
        """Heals it."""

    def evidence(self) -> Evidence:
        """What it counted so far; empty: nothing."""


class _RunningLoop(Protocol):
    """The event loop of a simulated attempt."""

    def is_closed(self) -> bool:
        """Whether the attempt is over with it."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object: ...


class RunningAttempt(Protocol):
    """One attempt in a simulated run, as an act gets hold of it."""

    actor: Actor

    @property
    def subtask(self) -> int:
        """Whose attempt it is."""

    @property
    def number(self) -> int:
        """Its fencing token; 0: it has not taken over yet."""

    @property
    def loop(self) -> _RunningLoop | None:
        """None: it has not got so far."""

    def die(self, fault: str) -> None:
        """Kill it for that fault."""

    def wait(self) -> None:
        """Block until somebody wakes the attempt."""

    def sleep_until(self, instant_ms: int) -> None:
        """Block until then."""


class SimulatedRun(Protocol):
    """A simulated run, as an act gets hold of it; `harness.levels.sim.simulation` has the one there is."""

    hub: Hub
    server: SimulatedServer
    links: dict[str, SimulatedLink]
    direct: SimulatedLink
    """The link to the database that bypasses the proxy."""
    tape: Tape
    draw: Draw
    files: list[MemoryFiles]
    """The checkpoint store of each subtask."""
    store_troubles: list[Any]
    """Acts on the checkpoint store (`OnStore`) that last now."""

    @property
    def attempts(self) -> Mapping[int, RunningAttempt]:
        """The latest of each subtask."""

    @property
    def errors(self) -> Counter[int | str]:
        """The database's errors and lost connections that attempts have recorded so far, by their codes."""

    def supersede(self, subtask: int) -> None:
        """Start a successor of the subtask's attempt, which may still live."""


class OnLinks:
    """One link act applied to several links."""

    settles_ms = 0

    def __init__(self, act: LinkAct, links: Sequence[SimulatedLink]) -> None:
        self._act = act
        self._links = links

    def begins(self) -> None:
        for link in self._links:
            link.begin(self._act)

    def ends(self) -> None:
        for link in reversed(self._links):
            link.heal(self._act)

    def evidence(self) -> Evidence:
        return self._act.evidence()


def losses(codes: Mapping[str, int]) -> dict[str, Any]:
    """The evidence of lost connections: how many, and how many by error code; empty if there are none."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}


def cut_losses(count: int) -> dict[str, Any]:
    """The evidence of so many connections that were cut."""
    return losses({str(LOST_CONNECTION): count})


def meet_all(act: LinkAct, link: SimulatedLink) -> None:
    """Applies `act` to every message in flight, in both directions."""
    for flight in link.flights:
        act.on_message(link, flight)
        link.aim(flight)


def meet_requests(act: LinkAct, link: SimulatedLink) -> None:
    """Applies `act` to requests that have not reached the server."""
    for flight in link.flights:
        if flight.is_asking(link.hub.now_ms):
            act.on_message(link, flight)
            link.aim(flight)


def meet_unarrived(act: LinkAct, link: SimulatedLink) -> None:
    """Applies `act` to requests before their arrival time, even if the server has begun to work on one."""
    for flight in link.flights:
        if flight.arrive_ms > link.hub.now_ms:
            act.on_message(link, flight)
            link.aim(flight)
