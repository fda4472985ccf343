"""What all links of one proxy process share: the bound of held bytes, the random draws and the socket pump.

`Holdings` bounds the bytes held by all connections together; Toxiproxy bounds each connection by itself. `Dice` draws
from the seed, the link, the connection's number and the toxic's name, so the same seed and traffic repeat the same
decisions. `Pump` answers to Netty's epoll event loop below Flink's network stack: it serves a batch of ready sockets
in one callback; timers and control calls wait for at most `ROUNDS_MAX` rounds.
"""

from __future__ import annotations

import asyncio
import resource
import select
import socket
from collections.abc import Callable
from typing import Protocol

from harness.proxy.link_log import LineSink
from harness.proxy.listener import Accepted, Listener
from harness.system.choices import Choices

HELD_BYTES_MAX = 256 * 1024 * 1024
"""Bytes that one proxy process holds at most, in stages and before sockets."""


class _Waiting(Protocol):
    def review(self) -> None:
        """Check again whether to read."""


class Holdings:
    """The bytes that all connections hold together. Mutable.

    While the sum is above `HELD_BYTES_MAX`, a direction that holds more than its minimum share is not read.
    """

    __slots__ = ("_held_max", "_waiting", "held")

    def __init__(self, *, held_max: int = HELD_BYTES_MAX) -> None:
        self._held_max = held_max
        self._waiting: dict[_Waiting, None] = {}
        self.held = 0

    @property
    def too_much(self) -> bool:
        return self.held > self._held_max

    def move(self, change: int) -> None:
        """Add `change` to the sum, which may be negative."""
        self.held += change
        if change < 0 and self._waiting and not self.too_much:
            waiting, self._waiting = self._waiting, {}
            for direction in waiting:
                direction.review()

    def wait(self, direction: _Waiting) -> None:
        """Review this direction when the sum is below the bound again."""
        self._waiting[direction] = None


_ONE = 1_000_000


class Dice:
    """The random draws of one proxy process."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choices(self, link: str, connection: int, toxic: str) -> Choices:
        """The choices of a toxic on one connection."""
        return Choices(self.seed, f"proxy/{link}/{connection}/{toxic}")

    def share(self, link: str, connection: int, toxic: str) -> float:
        """A number in [0, 1): the toxic acts on the connection if its toxicity is larger."""
        return Choices(self.seed, f"proxy/{link}/{connection}/{toxic}/toxicity").index(_ONE) / _ONE


IN = select.EPOLLIN
OUT = select.EPOLLOUT
NOTHING = 0
"""Only hang-ups and errors, which epoll always reports."""

ROUNDS_MAX = 8
"""How often the pump polls again before timers and control calls are served."""

_EVENTS_MAX = 512
"""Sockets served in one round."""

_CROWD = 2
"""The number of ready sockets in a round from which on more are probably ready after it."""

Ready = Callable[[int], None]
"""Callback with the events of a ready socket."""


class Pump:
    """Watches sockets for the event loop. Mutable: sockets are added and removed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._ready: dict[int, Ready] = {}
        loop.add_reader(self._epoll.fileno(), self._serve)

    def watch(self, descriptor: int, events: int, ready: Ready) -> None:
        """Call `ready` on one of `events`, on a hang-up and on an error."""
        self._epoll.register(descriptor, events)
        self._ready[descriptor] = ready

    def change(self, descriptor: int, events: int) -> None:
        """Watch for other events."""
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Stop watching; call it before the descriptor is closed."""
        del self._ready[descriptor]
        self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching everything."""
        self._loop.remove_reader(self._epoll.fileno())
        self._ready.clear()
        self._epoll.close()

    def _serve(self) -> None:
        find, poll = self._ready.get, self._epoll.poll
        for _ in range(ROUNDS_MAX):
            batch = poll(0, _EVENTS_MAX)
            self._serve_batch(batch, find)
            if len(batch) < _CROWD:  # another poll would cost more than a turn of the loop
                return

    def _serve_batch(self, batch: list[tuple[int, int]], find: Callable[[int], Ready | None]) -> None:
        descriptor = -1
        try:
            for descriptor, events in batch:
                ready = find(descriptor)
                if ready is not None:  # None: an earlier callback of this batch stopped watching it
                    ready(events)
        except BaseException:
            # A bug in a callback: report it once and stop watching, or the ready socket would raise it again and
            # again.
            if descriptor in self._ready:
                self.forget(descriptor)
            raise


def raise_descriptor_limit() -> int:
    """Raise this process's limit of descriptors to its maximum (a connection takes two); returns that maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class ProxyParts:
    """The shared parts of one proxy process; its creator closes it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, seed: int, log_file: LineSink | None = None
    ) -> None:
        self.loop = loop
        self.pump = self.made_pump()
        self.dice = Dice(seed)
        self.identifies = False
        """Whether the process that opens each connection to come is found out."""
        self.holdings = Holdings()
        self.log_file = log_file
        """Gets every log entry of every link, one JSON object a line."""

    def made_pump(self) -> Pump:
        return Pump(self.loop)

    def socket(self, family: socket.AddressFamily) -> socket.socket:
        """A socket that is not connected."""
        return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)

    def listener(self, address: str, accepted: Accepted) -> Listener:
        """Raises OSError if the address cannot be bound."""
        return Listener(address, loop=self.loop, accepted=accepted)

    def opened_by(self, port: int) -> int:
        """The process that opened the connection from this port, where that is known without asking; else 0."""
        del port
        return 0

    def reseed(self, seed: int) -> None:
        """Draw from this seed for new connections."""
        self.dice = Dice(seed)

    def close(self) -> None:
        """Call it after every link is closed."""
        self.pump.close()
