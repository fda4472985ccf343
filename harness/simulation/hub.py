"""The hub: one virtual clock for all actors of a run, each a greenlet that waits for an instant or to be woken.

Answers to the scheduler of a deterministic simulator (FoundationDB's, TigerBeetle's); why greenlets: decision 19.
Invariant: who goes on next depends on due instants and on the seed alone. The clock stands while anybody runs;
when nobody is due any more, `run` says so and never hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from traceback import format_exception
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]  # has no stubs

from harness.choices import Draw

__all__ = ["Actor", "Due", "Hub"]

Due = list[Any]
"""[instant in ms, a draw for the tie, number, actor or callback]; `cancel` it by way of the hub."""

_TIE_BITS: Final = 20


class Killed(GreenletExit):  # type: ignore[misc]  # of a module without stubs
    """SIGKILL: the actor is thrown away where it stands."""


class Actor:
    """One line of execution on the hub's clock. Mutable. `ended(actor)` hears that it is over, however."""

    def __init__(
        self, hub: Hub, run: Callable[[Actor], None], *, name: str, ended: Callable[[Actor], None]
    ) -> None:
        self.hub = hub
        self.name = name
        self.alive = True
        self.is_daemon = False
        """Whether it may wait for ever: the run is over when only such are left."""
        self.dying: Callable[[], None] | None = None
        """Called when it is killed, before anything of it sees that."""
        self.killed = False
        self.paused = False
        self.error: Exception | None = None
        """What it ended with, if not well."""
        self._run = run
        self._ended = ended
        self._due: Due | None = None
        self._missed = False
        self._greenlet = greenlet(self._live, parent=hub.main)

    def _live(self) -> None:
        try:
            self._run(self)
        except Killed:
            self.killed = True
        except Exception as error:  # noqa: BLE001 - whoever is told of the end judges it
            self.error = error
        self.alive = False
        self._forget()
        self._ended(self)

    def begins(self, at_ms: int) -> None:
        """For the hub: its first turn."""
        self._due = self.hub.at(at_ms, self)

    @property
    def is_current(self) -> bool:
        """Whether it is the one that runs."""
        return getcurrent() is self._greenlet

    def wait(self, until_ms: int | None) -> None:
        """Let others go on until `until_ms`, or until somebody wakes it (None: only that)."""
        if not self.alive or self.killed:
            raise Killed
        hub = self.hub
        if until_ms is not None:
            if not self.paused and hub.skip_to(until_ms):
                return
            self._due = hub.at(until_ms, self)
        hub.rest()

    def sleep_until(self, instant_ms: int) -> None:
        """As `wait`, and whoever wakes it early is not heard."""
        while self.hub.now_ms < instant_ms:
            self.wait(instant_ms)

    def wake(self) -> None:
        """Let it go on at this instant, if it waits."""
        if self.alive and getcurrent() is not self._greenlet:
            self._forget()
            self._due = self.hub.at(self.hub.now_ms, self)

    def go_on(self) -> None:
        """For the hub: it is this actor's turn."""
        self._due = None
        if self.paused:
            self._missed = True
        elif self.alive and not self.killed:
            self._greenlet.switch()

    def pause(self) -> None:
        """Be not scheduled any more (SIGSTOP, a long stop of the process), until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Go on after a pause, late."""
        self.paused = False
        if self._missed:
            self._missed = False
            self.wake()

    def kill(self) -> None:
        """End it here and now; called from inside, it does not return. Another actor's kill comes at this instant."""
        if not self.alive:
            return
        self.killed = True
        if self.dying is not None:
            self.dying()
        current = getcurrent()
        if current is self._greenlet and not self.hub.in_callback:
            raise Killed
        if current is not self.hub.main:
            self.hub.at(self.hub.now_ms, self.kill)
            return
        self._forget()
        if self._greenlet:
            self._greenlet.throw(Killed)
        else:  # it never began
            self.alive = False
            self._ended(self)

    def _forget(self) -> None:
        if self._due is not None:
            self._due[3] = None
            self._due = None


class Hub:
    """Runs actors and callbacks in the order of their instants. Mutable. Has no thread of its own."""

    def __init__(self, draw: Draw, *, limit_ms: int, steps_max: int) -> None:
        self.now_ms = 0
        self.wall_offset_ms = 0
        """What a clock that people set shows beyond `now_ms`; jumps."""
        self.steps = 0
        self._bits = draw.bits
        self._limit_ms = limit_ms
        self._steps_max = steps_max
        self._heap: list[Due] = []
        self._numbers = 0
        self._actors: list[Actor] = []
        self.main = getcurrent()
        self.rest: Callable[[], None] = self.main.switch
        """For actors: back to the hub."""
        self.broken = False
        """A callback raised: what is there says nothing about who waits for what."""
        self.over = False
        """Nobody begins any more."""
        self.running: Any = None
        """The actor's loop of which asyncio was told last that it runs."""
        self.in_callback = False
        """An actor runs what is a callback's work: nobody may be killed in the midst of it."""

    def spawn(
        self, run: Callable[[Actor], None], *, name: str, ended: Callable[[Actor], None], at_ms: int
    ) -> Actor:
        """An actor that begins at `at_ms`."""
        actor = Actor(self, run, name=name, ended=ended)
        self._actors.append(actor)
        actor.begins(at_ms)
        return actor

    def at(self, instant_ms: int, target: Actor | Callable[[], None]) -> Due:
        """An actor's turn at that instant; or a callback, in nobody's name: it must not wait."""
        self._numbers = number = self._numbers + 1
        if instant_ms < self.now_ms:  # noqa: PLR1730 - `max` is a call, and this is done at each step
            instant_ms = self.now_ms
        due = [instant_ms, self._bits(_TIE_BITS), number, target]
        heappush(self._heap, due)
        return due

    def cancel(self, due: Due) -> None:
        """Let it not happen."""
        due[3] = None

    def skip_to(self, instant_ms: int) -> bool:
        """Let the clock stand at `instant_ms`, if nobody else is due until then; whether it does."""
        heap = self._heap
        while heap and heap[0][3] is None:
            heappop(heap)
        if (heap and heap[0][0] <= instant_ms) or instant_ms > self._limit_ms:
            return False
        self.steps += 1
        if self.steps > self._steps_max:
            return False
        self.now_ms = max(self.now_ms, instant_ms)
        return True

    def run(self) -> str | None:
        """Until nobody is left, or nobody is due; why it ended early, if it did. Throws the rest away."""
        try:
            return self._run()
        finally:
            self.running = None

    def _run(self) -> str | None:
        heap = self._heap
        why: str | None = None
        while heap:
            due = heappop(heap)
            target = due[3]
            if target is None:
                continue
            self.steps += 1
            if due[0] > self._limit_ms or self.steps > self._steps_max:
                why = self._exhausted(due[0])
                break
            self.now_ms = due[0]
            if type(target) is Actor:
                target.go_on()
                continue
            try:
                target()
            except Exception as error:  # noqa: BLE001 - a planted defect may raise anywhere; the run is over
                self.broken = True
                why = f"a callback raised at {self.now_ms} ms of virtual time: {''.join(format_exception(error))}"
                break
        living = [actor for actor in self._actors if actor.alive]
        waiting = [actor for actor in living if not actor.is_daemon]
        if waiting and why is None:
            names = ", ".join(actor.name for actor in waiting)
            why = f"stuck at {self.now_ms} ms of virtual time: nothing is due any more, and {names} wait"
        self.over = True
        for actor in living:
            actor.kill()
        return why

    def _exhausted(self, instant_ms: int) -> str:
        if instant_ms > self._limit_ms:
            return f"the budget of {self._limit_ms} ms of virtual time is over"
        return f"after {self._steps_max} steps, at {self.now_ms} ms of virtual time, there is no end in sight"
