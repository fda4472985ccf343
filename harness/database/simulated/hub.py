"""The hub: virtual clock and scheduler of a run's actors, greenlets that wait for an instant or for `wake`.

Answers to a deterministic simulator's scheduler (FoundationDB's, TigerBeetle's); why greenlets: decision 19.
Invariant: the next actor depends on due instants and on the seed alone. Virtual time advances only while all
actors wait; when nothing is due, `run` returns (with the reason if actors still wait) and never hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from traceback import format_exception
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]  # has no stubs

from harness.system.choices import Draw

Due = list[Any]
"""[instant in ms, random tiebreak, sequence number, actor or callback (None: cancelled by `Hub.cancel`)]."""

_TIE_BITS: Final = 20
_ASK_EVERY: Final = 1 << 12
"""Steps between two questions whether the run is ended from outside: some milliseconds of real time."""
_STEPS_OF_A_LOOP: Final = 10 * _ASK_EVERY
"""So many steps without a new event or a later instant are a loop: a run of thousands of records makes some dozens."""


class Killed(GreenletExit):  # type: ignore[misc]  # greenlet has no stubs
    """SIGKILL: raised in the actor's greenlet at the point where it waits or runs."""


class Actor:
    """One greenlet on the hub's clock. Mutable. `ended(actor)` is called after its return, error or kill."""

    def __init__(
        self, hub: Hub, run: Callable[[Actor], None], *, name: str, ended: Callable[[Actor], None]
    ) -> None:
        self.hub = hub
        self.name = name
        self.alive = True
        self.is_daemon = False
        """May wait for ever: a run in which only daemons still wait is not stuck."""
        self.dying: Callable[[], None] | None = None
        """Called by `kill`, before `Killed` is raised in the actor's code."""
        self.timer: Callable[[], str] = lambda: "unknown"
        """Names what the actor's event loop has to call next."""
        self.waits: Callable[[], str] = lambda: ""
        """Where the user's code in it waits, in a clause; empty: there is none."""
        self.killed = False
        self.paused = False
        self.error: Exception | None = None
        """The exception that ended the actor, if any."""
        self._run = run
        self._ended = ended
        # The hub's own.
        self.due: Due | None = None
        self.missed = False
        """A turn came while it was paused."""
        self.greenlet = greenlet(self._live, parent=hub.main)

    def _live(self) -> None:
        try:
            self._run(self)
        except Killed:
            self.killed = True
        except Exception as error:  # noqa: BLE001 - the `ended` callback judges `error`
            self.error = error
        self.alive = False
        self._forget()
        self._ended(self)

    @property
    def is_current(self) -> bool:
        return self.hub.current is self

    def wait(self, until_ms: int | None) -> None:
        """Suspend the actor until `until_ms` or `wake` (None: only `wake`). Raises `Killed` after a kill."""
        if not self.alive or self.killed:
            raise Killed
        hub = self.hub
        if until_ms is not None:
            if not self.paused and hub.skip_to(until_ms):
                return
            self.due = hub.at(until_ms, self)
        hub.rest()

    def sleep_until(self, instant_ms: int) -> None:
        """Like `wait`, but ignores early wakes."""
        while self.hub.now_ms < instant_ms:
            self.wait(instant_ms)

    def wake(self) -> None:
        """Schedule the actor's next turn at this instant, if it waits."""
        hub = self.hub
        if self.alive and hub.current is not self:
            if self.due is not None:
                self.due[3] = None
            self.due = hub.at(hub.now_ms, self)

    def pause(self) -> None:
        """Give the actor no turns until `resume` (SIGSTOP, a long stop of the process)."""
        self.paused = True

    def resume(self) -> None:
        """End a pause; a turn missed during the pause takes place now."""
        self.paused = False
        if self.missed:
            self.missed = False
            self.wake()

    def kill(self) -> None:
        """Kill at this instant. Raises `Killed` if this actor calls; a call by another actor is queued."""
        if not self.alive:
            return
        self.killed = True
        if self.dying is not None:
            self.dying()
        hub = self.hub
        if hub.current is self and not hub.in_callback:
            raise Killed
        if hub.current is not None:
            hub.at(hub.now_ms, self.kill)
            return
        self._forget()
        if self.greenlet:
            hub.current = self
            self.greenlet.throw(Killed)
            hub.current = None
        else:  # the greenlet has not started
            self.alive = False
            self._ended(self)

    def _forget(self) -> None:
        if self.due is not None:
            self.due[3] = None
            self.due = None


class Hub:
    """Runs actors and callbacks in the order of their instants. Mutable. Has no thread of its own."""

    def __init__(self, draw: Draw, *, limit_ms: int, steps_max: int) -> None:
        self.now_ms = 0
        self.wall_offset_ms = 0
        """Wall clock minus `now_ms`; a clock fault makes it jump."""
        self.steps = 0
        self._bits = draw.bits
        self._limit_ms = limit_ms
        self._steps_max = steps_max
        self._heap: list[Due] = []
        self._numbers = 0
        self._actors: list[Actor] = []
        self.main = getcurrent()
        self.current: Actor | None = None
        """The actor whose greenlet runs; None: the hub's."""
        self.ended_by: Callable[[], str | None] | None = None
        """Asked now and then: why the run is ended from outside (Ctrl-C, the command's budget); None: it goes on."""
        self.outside: str | None = None
        """Why the run was ended from outside."""
        self.recorded: Callable[[], int] = lambda: 0
        """How many events the run has recorded."""
        self.loops = False
        """Somebody goes on and on at one instant, and nothing is recorded."""
        self._ask_at = _ASK_EVERY
        self._progress = (0, 0, 0)
        """The instant and the number of events when one of them last changed, and the step of that look."""
        self.rest: Callable[[], None] = self.main.switch
        """Called by an actor: switches to the hub's greenlet."""
        self.broken = False
        """A callback raised: the run stopped at an arbitrary point, so waiting actors are no evidence."""
        self.over = False
        """The run has ended: no actor may be started any more."""
        self.running: Any = None
        """The event loop last set as asyncio's running loop; saves setting the same loop again each turn."""
        self.in_callback = False
        """The current actor executes a callback's work, during which `kill` is postponed to a callback."""

    def spawn(
        self, run: Callable[[Actor], None], *, name: str, ended: Callable[[Actor], None], at_ms: int
    ) -> Actor:
        """Create an actor whose first turn is at `at_ms`."""
        actor = Actor(self, run, name=name, ended=ended)
        self._actors.append(actor)
        actor.due = self.at(at_ms, actor)
        return actor

    def at(self, instant_ms: int, target: Actor | Callable[[], None]) -> Due:
        """Schedule an actor's turn, or a callback, which runs in the hub's greenlet and must not wait."""
        self._numbers = number = self._numbers + 1
        if instant_ms < self.now_ms:  # noqa: PLR1730 - hot path: saves the call of `max`
            instant_ms = self.now_ms
        due = [instant_ms, self._bits(_TIE_BITS), number, target]
        heappush(self._heap, due)
        return due

    def cancel(self, due: Due) -> None:
        due[3] = None

    def skip_to(self, instant_ms: int) -> bool:
        """Advance to `instant_ms` if nothing is due until then and the budgets allow it; whether it did."""
        heap = self._heap
        while heap and heap[0][3] is None:
            heappop(heap)
        if (heap and heap[0][0] <= instant_ms) or instant_ms > self._limit_ms:
            return False
        self.steps += 1
        if self.steps > self._steps_max or (self.steps >= self._ask_at and self._is_ended()):
            return False
        if instant_ms > self.now_ms:  # noqa: PLR1730 - as in `at`
            self.now_ms = instant_ms
        return True

    def run(self) -> str | None:
        """Run until nothing is due; the reason of an early end, or None. Kills the remaining actors."""
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
            if self.steps >= self._ask_at and self._is_ended():
                why = self.outside or self._named_loop(target)
                break
            if due[0] > self._limit_ms or self.steps > self._steps_max:
                if due[0] > self._limit_ms:
                    self.now_ms = max(self.now_ms, self._limit_ms)  # nothing is due in the rest of the budget
                    why = f"the budget of {self._limit_ms} ms of virtual time is over"
                else:
                    at = f"at {self.now_ms} ms of virtual time"
                    why = f"after {self._steps_max} steps, {at}, there is no end in sight"
                break
            self.now_ms = due[0]
            if type(target) is Actor:
                target.due = None
                if target.paused:
                    target.missed = True
                elif target.alive and not target.killed:
                    self.current = target
                    target.greenlet.switch()
                    self.current = None
                continue
            try:
                target()
            except Exception as error:  # noqa: BLE001 - a planted defect may raise anywhere; the run is over
                self.broken = True
                why = f"a callback raised at {self.now_ms} ms of virtual time: {''.join(format_exception(error))}"
                break
        return self._ended(why)

    def _ended(self, why: str | None) -> str | None:
        """Kills the actors that are left; the reason of an early end, with where they wait."""
        living = [actor for actor in self._actors if actor.alive]
        waiting = [actor for actor in living if not actor.is_daemon]
        if waiting and why is None:
            names = ", ".join(actor.name for actor in waiting)
            why = f"stuck at {self.now_ms} ms of virtual time: nothing is due any more, and {names} wait"
        if why is not None and not self.broken:
            why += "".join(f"; {told}" for actor in waiting if (told := actor.waits()))
        self.over = True
        for actor in living:
            actor.kill()
        return why

    def _named_loop(self, target: Actor | Callable[[], None]) -> str:
        timer = f"{target.timer()} of {target.name}" if isinstance(target, Actor) else f"{target}"
        at = f"stuck at {self.now_ms} ms of virtual time"
        return f"{at}, which does not pass: a timer is due again and again, {timer}"

    def _is_ended(self) -> bool:
        if self.outside is None and self.ended_by is not None:
            self.outside = self.ended_by()
        instant, events, since = self._progress
        if (instant, events) != (now := (self.now_ms, self.recorded())):
            self._progress = (*now, self.steps)
        elif self.steps - since > _STEPS_OF_A_LOOP:
            self.loops = True
        if self.outside is None and not self.loops:
            self._ask_at = self.steps + _ASK_EVERY
        return self.outside is not None or self.loops
