"""The pump: tells sockets that they are ready, past the event loop's own bookkeeping.

Answers to Netty's epoll event loop below Flink's network stack. A batch of ready sockets is served in one go, so a
hundred busy connections cost the event loop one callback instead of a hundred. Invariant: timers and control calls
wait for at most `ROUNDS_MAX` rounds of the sockets that are ready.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

__all__ = ["IN", "NOTHING", "OUT", "Pump", "Ready"]

IN = select.EPOLLIN
OUT = select.EPOLLOUT
NOTHING = 0
"""Only hang-ups and errors, which always come."""

ROUNDS_MAX = 8
"""How often the pump asks again for ready sockets before timers and control calls have their turn."""

_EVENTS_MAX = 512
"""Sockets served in a round."""

_CROWD = 2
"""From so many ready sockets on, more will be ready once these were served."""

Ready = Callable[[int], None]
"""What is called with the events of a socket that is ready."""


class Pump:
    """Watches sockets for the loop that it was given; mutable: the sockets come and go."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        loop.add_reader(self._epoll.fileno(), self._serve)

    def watch(self, descriptor: int, events: int, ready: Ready) -> None:
        """Call `ready` whenever one of `events`, a hang-up or an error is there."""
        self._epoll.register(descriptor, events)
        self._ready[descriptor] = ready

    def change(self, descriptor: int, events: int) -> None:
        """Other events from now on."""
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Watch it no more; before it is closed."""
        del self._ready[descriptor]
        self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        self._loop.remove_reader(self._epoll.fileno())
        self._ready.clear()
        self._epoll.close()

    def _serve(self) -> None:
        find, poll = self._ready.get, self._epoll.poll
        for _ in range(ROUNDS_MAX):
            batch = poll(0, _EVENTS_MAX)
            self._serve_batch(batch, find)
            if len(batch) < _CROWD:  # asking again would cost more than the loop does
                return

    def _serve_batch(self, batch: list[tuple[int, int]], find: Callable[[int], Ready | None]) -> None:
        descriptor = -1
        try:
            for descriptor, events in batch:
                ready = find(descriptor)
                if ready is not None:  # None: forgotten earlier in this batch
                    ready(events)
        except BaseException:
            # A defect of ours: the loop tells of it once, and not for as long as the socket rings.
            if descriptor in self._ready:
                self.forget(descriptor)
            raise
