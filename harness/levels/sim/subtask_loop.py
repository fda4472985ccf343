"""The event loop of one attempt at level sim: a virtual loop that waits by suspending its actor.

Answers to the thread of one Flink task. Invariant: its clock is the hub's; instead of jumping to the next timer it
lets the other actors run until then.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from errno import ENETUNREACH
from heapq import heappush
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from harness.database.simulated.hub import Actor, Hub, Killed
from harness.database.simulated.tape import CALLBACK, TASK, MemoryRecorder
from harness.levels.sim.own_modules import ModuleCopy
from reference_impl.mailbox.loops import NS_PER_MS, Handle, VirtualLoop
from reference_impl.mailbox.timers import Timers

_set_running_loop = asyncio._set_running_loop  # noqa: SLF001 - meant for implementers of event loops
_LONG_MS = 25
"""So long a wait outside of the loop is told; what is shorter is within the slack of every limit."""
_ASYNCIO = Path(asyncio.__file__).parent
_PLACES_TOLD = 3
_LAST_TURNS = 20
"""How many turns cancelled tasks get to end."""


_BEHIND_ALL = 1 << 62
"""More than the number of any timer."""
_IN_THE_LOOP = 1 << 62
"""In place of the instant of the last turn: the thread waits for the next one, and any timer ends that."""


def _cannot(what: str) -> NoReturn:
    raise NotImplementedError(f"at level sim no code {what}")


def _nobody_listens(since_ms: int) -> None:
    """The default of `held`."""


@contextmanager
def outer_loop_kept() -> Iterator[None]:
    """Restores asyncio's running loop after a hub has set those of its actors."""
    outer = asyncio._get_running_loop()  # noqa: SLF001 - meant for implementers of event loops
    try:
        yield
    finally:
        _set_running_loop(outer)


def awaiting(task: asyncio.Task[object]) -> Iterator[FrameType]:
    """The frames of the coroutines in which `task` waits, the outermost first."""
    inner: Any = task.get_coro()
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        yield frame
        inner = inner.cr_await


class CallsAtOnce(asyncio.BaseEventLoop):
    """A part of a loop in virtual time, which has one thread: what an executor would call does not overlap."""

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        del executor
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the future's
            future.set_exception(error)
        return future


class SubtaskLoop(CallsAtOnce, VirtualLoop):
    """Run by the attempt's mailbox; marks events recorded in callbacks as outside of mail. Mutable."""

    def __init__(self, actor: Actor, recorder: MemoryRecorder, *, modules: ModuleCopy | None = None) -> None:
        """`modules`: what the attempt has of the user's modules; None: there are none, or it is alone with them."""
        super().__init__(start_ms=actor.hub.now_ms)
        self._actor = actor
        actor.timer = self._named_timer
        actor.waits = self._named_waits
        self._recorder = recorder
        self._modules = modules
        self._turned_ms = self._idle_ms = actor.hub.now_ms
        self.held: Callable[[int], None] = _nobody_listens
        """Called with the instant since when the thread has waited outside of the loop."""
        self.dial: Callable[..., Coroutine[Any, Any, Any]] | None = None
        """Opens the connections of a user's own client; None: only the pool reaches the database."""
        self.leaves: Callable[[str], NoReturn] = _cannot
        """Called with what would lead out of the simulation; does not return."""

    def _named_timer(self) -> str:
        """The next timer; of a task's `Timers` the first one that is in there."""
        timers = [handle.callback for _, _, handle in self._timers if not handle.gone]
        callback: object = timers[0] if timers else None
        owner = getattr(callback, "__self__", None)
        name = getattr(callback, "__qualname__", repr(callback))
        pending = owner.next_callback() if isinstance(owner, Timers) else None
        return name if pending is None else f"{name} (for {getattr(pending, '__qualname__', repr(pending))})"

    def _named_waits(self) -> str:
        """The lines at which tasks wait that a user's code began or that call it, the most frequent first."""
        if self._modules is None:
            return ""
        places: Counter[str] = Counter()
        for task in self.unfinished_tasks():
            own = inner = ""
            for frame in awaiting(task):
                file = Path(frame.f_code.co_filename)
                if self._modules.has(frame):
                    own, inner = f"{os.path.relpath(file)}:{frame.f_lineno}", ""
                elif own and file.parent != _ASYNCIO:
                    inner = f", in {file.parent.name}/{file.name}:{frame.f_lineno}"
            if own:
                places[f"at {own}{inner}"] += 1
        told = [
            f"{count} task{'s wait' if count > 1 else ' waits'} {place}"
            for place, count in places.most_common(_PLACES_TOLD)
        ]
        return ", ".join(told)

    def tell_wait(self) -> None:
        """Calls `held` if the thread has waited for long since the loop's last turn."""
        now_ms, since_ms = self._actor.hub.now_ms, self._turned_ms
        if now_ms - since_ms >= _LONG_MS:
            self._turned_ms = now_ms
            self.held(since_ms)

    def tell_busy(self) -> None:
        """Calls `held` if time has passed since the loop last had to wait for something to do.

        A retry's mail that was put before its record's timeout, behind mail that waits, runs after it and is right.
        """
        now_ms, since_ms = self._actor.hub.now_ms, self._idle_ms
        if now_ms > since_ms:
            self._idle_ms = self._turned_ms = now_ms
            self.held(since_ms)

    def wall_ns(self) -> int:
        """The wall clock: virtual time plus the offset that clock faults set."""
        hub = self._actor.hub
        return (hub.now_ms + hub.wall_offset_ms) * NS_PER_MS

    def sleep_until(self, instant_ms: int) -> None:
        """Block the whole attempt until then, as a blocking database call blocks the task's thread."""
        self._actor.sleep_until(instant_ms)
        self.catch_up()

    def catch_up(self) -> None:
        """After the actor waited outside of the loop, or in one of its callbacks: take the hub's time and the turn."""
        hub = self._actor.hub
        self._now_ms = hub.now_ms
        if hub.running is not self:
            self._take_turn(hub)

    def _take_turn(self, hub: Hub) -> None:
        """Be asyncio's running loop, which was another actor's while this one waited."""
        hub.running = self
        _set_running_loop(self)
        if self._modules is not None:
            self._modules.enter()

    def at(self, instant_ms: int, callback: Callable[[], None], /) -> Handle:
        """Call back at an instant. Also wakes the loop, which may wait for a later timer."""
        handle = self._schedule(instant_ms, Handle(callback, (), None))
        self._actor.wake()
        return handle

    def at_edge(self, instant_ms: int, callback: Callable[[], None], *, is_last: bool) -> None:
        """Call back before all timers of an instant, or after them, also those that are set later than this one."""
        self._numbers += 1
        number = self._numbers + (_BEHIND_ALL if is_last else -_BEHIND_ALL)
        heappush(self._timers, (instant_ms, number, Handle(callback, (), None, instant_ms)))

    def cancel(self, due: Handle, /) -> None:
        due.gone = True

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Handle:
        """Like `call_soon`, and wakes the attempt; for calls from the hub."""
        handle = self.call_soon(callback, *args, context=context)
        self._actor.wake()
        return handle

    async def create_connection(  # sockets, TLS and addresses are not simulated
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: object = None,
        port: object = None,
        **options: object,
    ) -> Any:
        """A connection to the run's database over its simulated link."""
        del options
        if self.dial is None:
            message = "level sim has no network: a lookup with a client of its own gets it in `open(self, database)`"
            raise OSError(ENETUNREACH, message)
        return await self.dial(protocol_factory, host, port)

    async def create_unix_connection(self, *_: object, **__: object) -> Any:
        """Refused, as what leads out of the simulation is."""
        self.leaves("connects to a Unix socket")

    async def start_tls(self, *_: object, **__: object) -> Any:
        """Refused: the server of level sim offers no TLS."""
        self.leaves("asks for TLS")

    async def subprocess_exec(self, *_: object, **__: object) -> Any:
        """Refused: a process has the real time."""
        self.leaves("starts a process")

    subprocess_shell = subprocess_exec

    def wind_up(self) -> None:
        """Cancel the remaining tasks, give them some turns at the present instant, and close the loop.

        Every task that has not begun ends, so that the coroutine of no user's function is left without an await.
        """
        try:
            if tasks := self.unfinished_tasks():
                self._end_tasks(tasks)
        finally:  # a callback of an operator under test may raise
            self.close()

    def _end_tasks(self, tasks: Iterable[asyncio.Task[object]]) -> None:
        for task in tasks:
            task.cancel()
        self.catch_up()
        self._recorder.thread = CALLBACK
        try:
            for _ in range(_LAST_TURNS + len(self._ready)):
                if not self._ready:
                    break
                with suppress(Killed):  # a callback that waits in a killed attempt ends, and the turn with it
                    self.run_ready()
        finally:
            self._recorder.thread = TASK

    def close(self) -> None:
        """Also closes a loop whose actor was killed inside a turn."""
        self._running = False
        super().close()

    def run_forever(self) -> None:
        """Does not set asyncio's running loop, which is a system call; `_turn` does, if it has changed."""
        self._recorder.thread = CALLBACK
        try:
            self._turn_until_stopped()
        finally:
            self._recorder.thread = TASK

    def _turn(self) -> None:
        hub, timers = self._actor.hub, self._timers
        self.tell_wait()
        if not self._ready and not self._stopping:
            self._turned_ms = _IN_THE_LOOP
            due_ms = self.next_due_ms()
            self._actor.wait(due_ms)
            self._idle_ms = hub.now_ms if due_ms is None else min(due_ms, hub.now_ms)
        self._now_ms = self._turned_ms = hub.now_ms
        if timers and timers[0][0] <= hub.now_ms:
            self.advance(hub.now_ms)
        if self._ready:
            if hub.running is not self:
                self._take_turn(hub)
            self.run_ready()
