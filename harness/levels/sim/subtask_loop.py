"""The event loop of one attempt at level sim: a virtual loop whose waiting is the actor's.

Answers to the thread of one Flink task. Invariant: its clock is the hub's; where it would jump to the next timer
it lets the other actors go on until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

from harness.simulation.hub import Actor
from harness.simulation.tape import CALLBACK, TASK, MemoryRecorder
from reference_impl.mailbox.loops import NS_PER_MS, Handle, VirtualLoop

__all__ = ["SubtaskLoop", "outer_loop_kept"]

_set_running_loop = asyncio._set_running_loop  # noqa: SLF001 - public by name, for whoever writes a loop
_LAST_TURNS = 20
"""A task that was cancelled has so many steps to end."""


@contextmanager
def outer_loop_kept() -> Iterator[None]:
    """While a hub runs, asyncio is told of its actors' loops; afterwards, again of the loop that ran before."""
    outer = asyncio._get_running_loop()  # noqa: SLF001 - public by name, for whoever writes a loop
    try:
        yield
    finally:
        _set_running_loop(outer)


class SubtaskLoop(VirtualLoop):
    """Turned by the attempt's mailbox. Mutable. Tells `recorder` while callbacks run, which is outside of mail."""

    def __init__(self, actor: Actor, recorder: MemoryRecorder) -> None:
        super().__init__(start_ms=actor.hub.now_ms)
        self._actor = actor
        self._recorder = recorder

    def wall_ns(self) -> int:
        """A clock that somebody may set: virtual time, and what it was set forward or back by."""
        hub = self._actor.hub
        return (hub.now_ms + hub.wall_offset_ms) * NS_PER_MS

    def sleep_until(self, instant_ms: int) -> None:
        """Block, as a call to a database blocks the task's thread: nothing of this attempt runs meanwhile."""
        self._actor.sleep_until(instant_ms)
        self.catch_up()

    def catch_up(self) -> None:
        """The actor went on in other ways than by this loop's turns: now is now."""
        self._now_ms = self._actor.hub.now_ms

    def look_again(self) -> None:
        """Something of the loop was changed from outside: do not wait for what was next before."""
        self._actor.wake()

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Handle:
        """From outside, as from the hub: the attempt may be waiting and is woken."""
        handle = self.call_soon(callback, *args, context=context)
        self._actor.wake()
        return handle

    def turn_until(self, instant_ms: int) -> None:
        """Run callbacks, and let time pass, until then."""
        self.call_at_ms(instant_ms, self.stop)
        self.run_forever()

    def wind_up(self) -> None:
        """Cancel what tasks are left and let them hear of it; no time passes any more."""
        if self.had_tasks:
            for task in asyncio.all_tasks(self):
                task.cancel()
            for _ in range(_LAST_TURNS):
                if not self._ready:
                    break
                self.run_ready()
        self.close()

    def close(self) -> None:
        """As the parent's, also where an actor is thrown away amid a turn."""
        self._running = False
        super().close()

    def run_forever(self) -> None:
        """As the parent's; asyncio is told which loop runs when callbacks do, for telling it is a system call."""
        self._turn_until_stopped()

    def _turn(self) -> None:
        if not self._ready and not self._stopping:
            self._actor.wait(self.next_due_ms())
        self.advance(self._actor.hub.now_ms)
        if self._ready:
            self.run_ready()

    def run_ready(self) -> None:
        """As the parent's; what is written meanwhile is written outside of mail."""
        hub = self._actor.hub
        if hub.running is not self:
            hub.running = self
            _set_running_loop(self)
        recorder = self._recorder
        recorder.thread = CALLBACK
        try:
            VirtualLoop.run_ready(self)  # spelt out: for each turn of each attempt
        finally:
            recorder.thread = TASK
