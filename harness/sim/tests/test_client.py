"""The simulated client: a bounded pool whose connections never carry another request's answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.choices import Draw
from harness.levels.sim.hub import Hub
from harness.levels.sim.buffer_journal import Tape
from harness.sim.client import Client, Request
from harness.sim.database import Database, Troubles
from harness.sim.link import HubAlarm, Link


@dataclass
class Rig:
    """A client of two connections, and what it was told."""

    troubles: Troubles = field(default_factory=Troubles)
    told: list[tuple[int, Any, Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = Draw(1, "test")
        self.hub = Hub(draw, limit_ms=100_000, steps_max=10_000)
        self.link = Link("lookups", hub=self.hub, draw=draw)
        database = Database(Tape(self.hub), draw, customers={1: "one", 2: "two"}, troubles=self.troubles)
        self.client = Client(self.link, database, alarm=HubAlarm(self.hub), size=2)

    def ask(self, key: int, *, service_ms: int = 10) -> Request:
        def done(value: Any, code: int | str | None, nonce: Any) -> None:
            self.told.append((self.hub.now_ms, value, code, nonce))

        return self.client.ask(key, service_ms=service_ms, done=done, nonce=key * 100)


def test_an_answer_comes_with_its_own_nonce() -> None:
    rig = Rig()
    rig.ask(1)
    rig.ask(2, service_ms=5)

    rig.hub.run()

    assert [(value, code, nonce) for _, value, code, nonce in rig.told] == [
        ("two", None, 200),
        ("one", None, 100),
    ]


def test_a_third_request_waits_for_a_connection() -> None:
    rig = Rig()
    for _ in range(3):
        rig.ask(1, service_ms=50)

    assert len(rig.link.flights) == 2
    rig.hub.run()
    assert rig.told[-1][0] >= 100


def test_a_connection_is_used_again_after_its_answer() -> None:
    rig = Rig()
    rig.ask(1)
    rig.hub.run()
    [used] = rig.client.free

    second = rig.ask(2)

    assert second.flight is not None
    assert second.flight.connection is used


def test_a_cancelled_request_tells_nobody_and_its_connection_is_gone() -> None:
    rig = Rig()
    request = rig.ask(1)
    rig.hub.at(5, lambda: rig.client.cancel(request))

    rig.hub.run()

    assert not rig.told
    assert not rig.client.free


def test_a_request_cancelled_before_it_was_sent_never_is() -> None:
    rig = Rig()
    rig.ask(1)
    rig.ask(1)
    waiting = rig.ask(2)

    rig.client.cancel(waiting)
    rig.hub.run()

    assert [value for _, value, _, _ in rig.told] == ["one", "one"]


def test_a_lost_connection_is_not_used_again() -> None:
    rig = Rig(troubles=Troubles(lost_replies=1000))
    rig.ask(1)

    rig.hub.run()

    assert [(value, code) for _, value, code, _ in rig.told] == [(None, 2013)]
    assert not rig.client.free


def test_an_error_of_the_servers_leaves_the_connection_alive() -> None:
    rig = Rig(troubles=Troubles(error_codes=(1205,), errors=1000))
    rig.ask(1)

    rig.hub.run()

    assert [code for _, _, code, _ in rig.told] == [1205]
    assert len(rig.client.free) == 1


def test_closing_ends_everything_without_a_word() -> None:
    rig = Rig()
    for key in (1, 2, 1):
        rig.ask(key)

    rig.client.close()
    rig.hub.run()

    assert not rig.told
    assert not rig.link.flights
