"""The workshop: what all links of one proxy process share: the held bytes' bound, the dice, and the pump.

`Holdings` bounds all connections together, which Toxiproxy bounds one by one. `Dice` draws from the seed, the
link, the connection's number and the toxic's name, so the same seed and traffic give the same decisions.
`Pump` answers to Netty's epoll event loop below Flink's network stack: it serves a batch of ready sockets in
one callback, and timers and control calls wait for at most `ROUNDS_MAX` rounds of them.
"""

from __future__ import annotations

import asyncio
import resource
import select
from collections.abc import Callable
from typing import IO, Protocol

from harness.choices import Choices

__all__ = [
    "HELD_BYTES_MAX",
    "IN",
    "NOTHING",
    "OUT",
    "Dice",
    "Holdings",
    "Pump",
    "Ready",
    "Workshop",
    "raise_descriptor_limit",
]

HELD_BYTES_MAX = 256 * 1024 * 1024
"""Bytes held by all stages and before all sockets of one proxy process."""


class _Waiting(Protocol):
    def review(self) -> None:
        """Look again whether to read."""


class Holdings:
    """What all connections of a proxy hold back together, as a running sum; mutable.

    While it is above `HELD_BYTES_MAX`, a direction that holds more than its small share is not read.
    """

    __slots__ = ("_held_max", "_waiting", "held")

    def __init__(self, *, held_max: int = HELD_BYTES_MAX) -> None:
        self._held_max = held_max
        self._waiting: dict[_Waiting, None] = {}
        self.held = 0

    @property
    def too_much(self) -> bool:
        """Whether the bound is passed."""
        return self.held > self._held_max

    def move(self, change: int) -> None:
        """So many bytes more, or fewer, are held."""
        self.held += change
        if change < 0 and self._waiting and not self.too_much:
            waiting, self._waiting = self._waiting, {}
            for direction in waiting:
                direction.review()

    def wait(self, direction: _Waiting) -> None:
        """Review it when less than the bound is held."""
        self._waiting[direction] = None


_ONE = 1_000_000


class Dice:
    """The draws of one proxy process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choices(self, link: str, connection: int, toxic: str) -> Choices:
        """What a toxic draws from while it acts on a connection."""
        return Choices(self.seed, f"proxy/{link}/{connection}/{toxic}")

    def share(self, link: str, connection: int, toxic: str) -> float:
        """At least 0, less than 1: the toxic acts on the connection if its toxicity is above this."""
        return Choices(self.seed, f"proxy/{link}/{connection}/{toxic}/toxicity").index(_ONE) / _ONE


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


def raise_descriptor_limit() -> int:
    """As many descriptors as this process may have: two a connection. Answers with their number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Workshop:
    """Made once by whoever runs the proxy, and closed by it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, seed: int, deeds_file: IO[str] | None = None
    ) -> None:
        self.loop = loop
        self.pump = Pump(loop)
        self.dice = Dice(seed)
        self.holdings = Holdings()
        self.deeds_file = deeds_file
        """Where every deed of every link is written too, as a line of JSON."""

    def reseed(self, seed: int) -> None:
        """Connections that come from now on draw from this seed."""
        self.dice = Dice(seed)

    def close(self) -> None:
        """After the links are stopped."""
        self.pump.close()
