"""Pools of connections at level sim: one gives out what is not free yet, one takes a loss for an answer.

Answers to a defect that asyncmy's pool once had; two others are only slow to hang up, which is none. Invariant: but
for what becomes of a request that nobody waits for any more, or that was lost, the client is the honest one.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import cache
from typing import Any

from harness.database.error_classes import ErrorClass, class_of
from harness.levels.sim.hub import Killed
from harness.sim.client import Client, Done, Request
from harness.sim.link import Connection, Flight, HubAlarm

__all__ = ["answering_after_close", "cancelling_nothing", "losing_rows", "reusing_cancelled"]


@cache
def reusing_cancelled(client: type[Client]) -> type[Client]:
    """`client`, whose cancelled connections go back to the pool, with an answer still to be read."""

    class MixedUpClient(client):  # type: ignore[misc, valid-type]  # whatever kind of client it is
        compares_nonces = False

        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._unread: dict[Connection, deque[Flight]] = {}

        def discard(self, flight: Flight) -> None:
            self.link.abandon(flight)
            if flight.connection.alive:
                self._unread.setdefault(flight.connection, deque()).append(flight)
                self.free.append(flight.connection)

        def answer(self, flight: Flight) -> tuple[Any, Any]:
            """The oldest on its connection that nobody has read."""
            unread = self._unread.get(flight.connection)
            if not unread:
                return super().answer(flight)  # type: ignore[no-any-return]
            unread.append(flight)
            return super().answer(unread.popleft())  # type: ignore[no-any-return]

    mixed_up: type[Client] = MixedUpClient
    return mixed_up


@cache
def cancelling_nothing(client: type[Client]) -> type[Client]:
    """`client`, whose requests go on when their record has timed out, and are answered late: no defect."""

    class DoggedClient(client):  # type: ignore[misc, valid-type]
        gives_up = False

    dogged: type[Client] = DoggedClient
    return dogged


@cache
def losing_rows(client: type[Client]) -> type[Client]:
    """`client`, for which a lost connection, or a statement that the server ended, is an answer without rows."""

    class CarelessClient(client):  # type: ignore[misc, valid-type]
        def tell(self, done: Done, request: Request, value: Any, code: int | str | None, nonce: Any) -> None:
            if code is not None and class_of(code) is not ErrorClass.FAIL:
                value, code, nonce = [], None, request.nonce
            super().tell(done, request, value, code, nonce)

    careless: type[Client] = CarelessClient
    return careless


@cache
def answering_after_close(client: type[Client]) -> type[Client]:
    """`client`, whose requests go on when it is closed: no defect, for nobody has to listen any more."""

    class LingeringClient(client):  # type: ignore[misc, valid-type]
        def close(self) -> None:
            if isinstance(sys.exception(), Killed):  # a killed process has no connections
                super().close()
                return
            alarm = HubAlarm(self.link.hub)
            for flight in self._flying:
                flight.alarm.drop(flight.timer)
                flight.alarm, flight.timer = alarm, None
                self.link.aim(flight)
            self._waiting.clear()

    lingering: type[Client] = LingeringClient
    return lingering
