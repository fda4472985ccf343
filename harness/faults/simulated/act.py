"""An act: one time that a fault of a scenario acts in a simulated run, from its beginning to its evidence.

The counterpart of `OutsideFault.inject`. What `evidence` tells was counted by the act while it lasted; an act
that met nothing has none. When a fault of a link begins, it applies to what is under way as to what is sent
later; the alarm of each flight that it met is set anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from harness.choices import Draw
    from harness.database.store_files import MemoryFiles
    from harness.simulation.hub import Actor, Hub
    from harness.simulation.link import Link, LinkAct
    from harness.simulation.server import SimulatedServer
    from harness.simulation.tape import Tape

__all__ = [
    "Act",
    "Evidence",
    "OnLinks",
    "RunningAttempt",
    "SimulatedRun",
    "losses",
    "meet_all",
    "meet_requests",
    "meet_unarrived",
]


Evidence = dict[str, Any]


class Act(Protocol):
    """Begun once and ended once; the hub's time passes in between."""

    @property
    def settles_ms(self) -> int:
        """How long after its end there may be more to tell; 0: nothing comes after."""

    def begins(self) -> None:
        """From now on. Where an attempt does it to itself, this may return only when it is over."""

    def ends(self) -> None:
        """It is healed."""

    def evidence(self) -> Evidence:
        """What it did so far; empty: nothing."""


class _RunningLoop(Protocol):
    """The event loop of a simulated attempt."""

    def is_closed(self) -> bool:
        """Whether the attempt is over with it."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...


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

    def wait(self) -> None:
        """Block until somebody wakes the attempt."""

    def sleep_until(self, instant_ms: int) -> None:
        """Block until then."""


class SimulatedRun(Protocol):
    """A simulated run, as an act gets hold of it; `harness.levels.sim.simulation` has the one there is."""

    hub: Hub
    server: SimulatedServer
    links: dict[str, Link]
    direct: Link
    """To the database past the proxy."""
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
    """A link act on several links."""

    settles_ms = 0

    def __init__(self, act: LinkAct, links: Sequence[Link]) -> None:
        self._act = act
        self._links = links

    def begins(self) -> None:
        """On each in turn."""
        for link in self._links:
            link.begin(self._act)

    def ends(self) -> None:
        """In the reverse order."""
        for link in reversed(self._links):
            link.heal(self._act)

    def evidence(self) -> Evidence:
        """Of all of them."""
        return self._act.evidence()


def losses(codes: Counter[str]) -> dict[str, Any]:
    """How many in all, and how many by each error code; empty if there are none."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}


def meet_all(act: LinkAct, link: Link) -> None:
    """Everything on its way, there or back."""
    for flight in link.flights:
        act.meets(link, flight)
        link.aim(flight)


def meet_requests(act: LinkAct, link: Link) -> None:
    """Requests that the server has not got yet."""
    for flight in link.flights:
        if flight.is_asking(link.hub.now_ms):
            act.meets(link, flight)
            link.aim(flight)


def meet_unarrived(act: LinkAct, link: Link) -> None:
    """Requests that are still on their way; the server may have begun to work for one."""
    for flight in link.flights:
        if flight.arrive_ms > link.hub.now_ms:
            act.meets(link, flight)
            link.aim(flight)
