"""The acts of faults in a simulated run, but for those on links.

An act: one activation of a fault in a simulated run, from its beginning to its evidence.

The counterpart of `OutsideFault.inject`. Invariants: evidence is what the act counted while it was active; a link act
applies to messages already in flight as well as to those sent later.

The acts of faults on simulated attempts: on source elements, checkpoint writes and worker processes.

Invariants: an element changed by a fault counts once, however often attempts replay it; a stopped worker is resumed.

Faults of the simulated server, with the errors that the run's clients got as evidence.

Invariant: only errors that clients of the run got since the fault began count as evidence; the act itself does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.database.simulated.replies import LOST_CONNECTION
from harness.history.event import In, Wm
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.hub import Actor, Due, Hub
    from harness.database.simulated.link import LinkAct, SimulatedLink
    from harness.database.simulated.server import SimulatedServer
    from harness.database.simulated.tape import Tape
    from harness.database.store_files import MemoryFiles
    from harness.system.choices import Draw
    from harness.system.clock import Clock


def nothing(server: SimulatedServer) -> None:
    """The default for `puts_back`: there is nothing to undo."""
    del server


class OnServer:
    """Changes the server by `sets` while it is active, and undoes that by `puts_back`. Mutable.

    `codes`: the errors that clients get from it. `settles_ms`: how long after its end clients may still get them.
    """

    def __init__(
        self,
        run: SimulatedRun,
        *,
        codes: Iterable[int | str],
        sets: Callable[[SimulatedServer], None],
        puts_back: Callable[[SimulatedServer], None] = nothing,
        settles_ms: int = 0,
    ) -> None:
        self.settles_ms = settles_ms
        self.run = run
        self.server = run.server
        self._codes = tuple(codes)
        self._sets = sets
        self._puts_back = puts_back
        self._before: Counter[int | str] = run.errors

    def begins(self) -> None:
        self._before = self.run.errors
        self._sets(self.server)

    def ends(self) -> None:
        self._puts_back(self.server)

    def met(self) -> dict[str, int]:
        """How many of the errors clients got since it began, by code."""
        now = self.run.errors
        counts = {code: now[code] - self._before[code] for code in self._codes}
        return {str(code): count for code, count in counts.items() if count}

    def evidence(self) -> Evidence:
        met = self.met()
        return {"codes": met} if met else {}


class Hunt(OnServer):
    """Calls `kill_one` every `gap_ms`, until it succeeded `count` times (None: no limit). Mutable: counts."""

    def __init__(
        self,
        run: SimulatedRun,
        *,
        codes: Iterable[int | str],
        kill_one: Callable[[SimulatedServer], bool],
        gap_ms: int,
        count: int | None,
        settles_ms: int = 0,
    ) -> None:
        super().__init__(run, codes=codes, sets=lambda _: self._once(), settles_ms=settles_ms)
        self._kill_one = kill_one
        self._gap_ms = gap_ms
        self._count = count
        self._next: Due | None = None
        self.hits = 0

    def _once(self) -> None:
        if self._count is None or self.hits < self._count:
            self.hits += self._kill_one(self.server)
        hub = self.run.hub
        self._next = hub.at(hub.now_ms + self._gap_ms, self._once)

    def ends(self) -> None:
        if self._next is not None:
            self.run.hub.cancel(self._next)

    def evidence(self) -> Evidence:
        met = self.met()
        return {"killed": self.hits, "codes": met} if met and self.hits else {}


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


def losses(codes: Mapping[str, int]) -> Json:
    """The evidence of lost connections: how many, and how many by error code; empty if there are none."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}


def cut_losses(count: int) -> Json:
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


class Shaped:
    """Counts the elements that attempts took because of one shaping fault. Mutable."""

    def __init__(self) -> None:
        self.begun = False
        self.over = False
        self.touched: dict[tuple[int, int], None] = {}

    def accepted(self, taken: In | Wm, place: range, *, subtask: int, quiet_ms: int) -> None:
        """Reports that an attempt took `taken` after `quiet_ms` without a record; `place`: see `ShapingFault`."""
        key = (subtask, taken.pos)
        if not self.over and key not in self.touched:
            self.take(taken, place, key=key, quiet_ms=quiet_ms)

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        """Judges an element that was not counted yet."""
        raise NotImplementedError

    def evidence(self) -> Json:
        """What it counted; empty: nothing."""
        raise NotImplementedError


class OnStore:
    """Acts on checkpoint writes while it is active. Mutable: counts them."""

    settles_ms = 0

    def __init__(self, run: SimulatedRun, subtask: int | None) -> None:
        self._run = run
        self._subtask = subtask
        self.met = 0

    def begins(self) -> None:
        self._run.store_troubles.append(self)

    def ends(self) -> None:
        self._run.store_troubles.remove(self)

    def on_write(self, attempt: RunningAttempt, clock: Clock) -> None:
        """`attempt` is about to write: take its time, or raise the OSError, if it is one that is meant."""
        if self._subtask in {None, attempt.subtask}:
            self.met += 1
            self.act(clock)

    def act(self, clock: Clock) -> None:
        """Delays the write, or raises an OSError."""
        raise NotImplementedError


class StoppedWorker:
    """Pauses the newest attempt of a subtask. Mutable."""

    def __init__(self, run: SimulatedRun, subtask: int) -> None:
        self._run = run
        self._subtask = subtask
        self._attempt: RunningAttempt | None = None
        self._since_ms = 0
        self._paused_ms = 0

    @property
    def settles_ms(self) -> int:
        return 0

    def begins(self) -> None:
        """Pauses the attempt, wherever it is; does nothing if there is none."""
        attempt = self._run.attempts.get(self._subtask)  # None: a subtask that a rescale has yet to begin
        if attempt is None or not attempt.actor.alive or not attempt.number:
            return
        self._attempt, self._since_ms = attempt, self._run.hub.now_ms
        attempt.actor.pause()
        self.stopped(attempt)
        if attempt.actor.is_current:  # it reached the phase of its trigger
            while attempt.actor.paused:
                attempt.wait()

    def stopped(self, attempt: RunningAttempt) -> None:
        """Nobody minds."""

    def ends(self) -> None:
        if self._attempt is not None:
            self._paused_ms = self._run.hub.now_ms - self._since_ms
            self._attempt.actor.resume()
            self._attempt.actor.wake()

    def evidence(self) -> Evidence:
        if self._attempt is None:
            return {}
        paused_ms = self._paused_ms or self._run.hub.now_ms - self._since_ms
        return {"subtask": self._subtask, "attempt": self._attempt.number, "paused_ms": paused_ms}
