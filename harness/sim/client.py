"""An attempt's pool of simulated connections: requests, answers by callback, cancellation.

Answers to `harness.database.pool.ConnectionPool`. Invariant: at most `size` requests are on their way, each alone
on its connection; a connection that saw a loss or a cancellation is never used again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any, ClassVar

from msgspec import Struct

from harness.database.circuit import Circuit
from harness.sim.database import Database
from harness.sim.link import LOST_CONNECTION, Alarm, Connection, Flight, Link

__all__ = ["CIRCUIT_OPEN", "Client", "Done", "Request", "Work"]

CIRCUIT_OPEN = "circuit open"
_MS = 1000
"""The error of a request for which no connection was made."""
Done = Callable[[Any, int | str | None, Any], None]
"""Told of an answer: its value, its error code (None: well), and the nonce that it echoes."""
Work = Callable[[], tuple[Any, int | None, int]]
"""What the server does when the request arrives: value, error code, further ms."""


class Request(Struct, eq=False):
    """One request of a client. Mutable: `flight` while it is on its way."""

    key: Any
    service_ms: int
    done: Done | None
    nonce: int | None
    work: Work | None
    flight: Flight | None = None
    connects: bool = False
    """Whether its connection is a new one."""


class Client:
    """Mutable."""

    compares_nonces: ClassVar[bool] = True
    """Whether the reference lookup looks whether an answer is its own."""
    gives_up: ClassVar[bool] = True
    """Whether the reference lookup cancels a request whose record has timed out."""

    def __init__(
        self,
        link: Link,
        database: Database,
        *,
        alarm: Alarm,
        size: int,
        circuit: Circuit | None = None,
    ) -> None:
        self.link = link
        self.database = database
        self._alarm = alarm
        self._size = size
        self._circuit = circuit
        self.free: list[Connection] = []
        """Idle, the last used at the end; some may have died meanwhile."""
        self._flying: dict[Flight, None] = {}
        self._waiting: deque[Request] = deque()

    def ask(
        self, key: Any, *, service_ms: int, done: Done, nonce: int | None = None, work: Work | None = None
    ) -> Request:
        """Ask for the customer of `key`, or have `work` done; `done` is called once, unless it is cancelled."""
        request = Request(key, service_ms, done, nonce, work)
        if len(self._flying) < self._size:
            self._send(request)
        else:
            self._waiting.append(request)
        return request

    def _send(self, request: Request) -> None:
        connection = self._idle()
        if connection is None:
            if self._circuit is not None and not self._circuit.admits():
                until_ms = self.link.hub.now_ms + ceil(self._circuit.wait_s * _MS)
                self._alarm.set(until_ms, partial(self._refuse, request))
                return
            connection, request.connects = self.link.connect(), True
        flight = Flight(connection, self._alarm, self._landed, request.work, request.nonce, request)
        request.flight = flight
        self._flying[flight] = None
        self.link.send(flight, service_ms=request.service_ms)
        database = self.database
        if not flight.over and flight.doom is None:
            if request.work is None and flight.code is None:
                flight.code = database.trouble()
            if database.loses_reply():
                flight.doom = LOST_CONNECTION

    def _idle(self) -> Connection | None:
        while self.free:
            connection = self.free.pop()
            if connection.alive:
                return connection
        return None

    def _refuse(self, request: Request) -> None:
        """Nobody connects just now; in the client's own time, as an answer would come."""
        done, request.done = request.done, None
        request.work = None
        if done is not None:
            self.tell(done, request, None, CIRCUIT_OPEN, None)

    def _landed(self, flight: Flight) -> None:
        del self._flying[flight]
        request: Request = flight.request
        done, request.done = request.done, None
        if request.connects and self._circuit is not None:
            if flight.connection.fresh:
                self._circuit.failed()
            else:
                self._circuit.succeeded()
        if flight.connection.alive:
            self.free.append(flight.connection)
            value, nonce = self.answer(flight)
        else:
            value = nonce = None
        self._send_next()
        if done is not None:
            self.tell(done, request, value, flight.code, nonce)
        # Both hold the request: cycles, which only the collector would end.
        request.flight = request.work = None

    def tell(self, done: Done, request: Request, value: Any, code: int | str | None, nonce: Any) -> None:
        """Whoever asked hears how it ended."""
        del request
        done(value, code, nonce)

    def answer(self, flight: Flight) -> tuple[Any, Any]:
        """What is read from the connection: the value and the nonce that it echoes."""
        if flight.work is None:
            flight.value = self.database.customers.get(flight.request.key)
        return flight.value, flight.nonce

    def _send_next(self) -> None:
        while self._waiting and len(self._flying) < self._size:
            request = self._waiting.popleft()
            if request.done is not None:
                self._send(request)

    def cancel(self, request: Request) -> None:
        """Nobody waits for its answer any more: its connection is given up, whatever the server does."""
        if request.done is None:
            return
        request.done = request.work = None
        if request.flight is not None:
            del self._flying[request.flight]
            self.discard(request.flight)
            self._send_next()

    def discard(self, flight: Flight) -> None:
        """Of a cancelled request: its answer would be the next one's (what asyncmy's pool once did)."""
        self._hang_up(flight)

    def _hang_up(self, flight: Flight) -> None:
        self.link.abandon(flight)
        if self._circuit is not None and flight.request.connects and flight.connection.fresh:
            self._circuit.abandoned()
        self.link.close(flight.connection)
        flight.request = flight.work = None  # as in `_landed`

    def close(self) -> None:
        """The attempt is over, or dead: every connection ends."""
        for request in self._waiting:
            request.done = request.work = None
        self._waiting.clear()
        for flight in list(self._flying):
            flight.request.done = flight.request.work = None
            self._hang_up(flight)
        self._flying.clear()
        while self.free:
            self.link.close(self.free.pop())
