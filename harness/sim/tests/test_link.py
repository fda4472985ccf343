"""A simulated link: undisturbed, then under each fault, each of which counts what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.choices import Draw
from harness.faults.reset import SimulatedReset as Reset
from harness.faults.simulated.holding import Holding
from harness.faults.simulated.holding import latency as latency_of
from harness.faults.simulated.shut_port import ShutPort as Down
from harness.faults.simulated.swallowing import Swallowing as Blackhole
from harness.levels.sim.hub import Hub
from harness.sim.link import LOST_CONNECTION, REFUSED, Flight, HubAlarm, Link, LinkFault


@dataclass
class Rig:
    """A link, and what landed when with which code."""

    seed: int = 1
    landed: list[tuple[int, int | str | None]] = field(default_factory=list)
    worked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = Draw(self.seed, "test")
        self.hub = Hub(self.draw, limit_ms=100_000, steps_max=10_000)
        self.link = Link("lookups", hub=self.hub, draw=self.draw)
        self.connection = self.link.connect()
        self.connection.fresh = False

    def send(self, *, service_ms: int, fresh: bool = False, work: bool = False) -> Flight:
        connection = self.link.connect() if fresh else self.connection
        flight = Flight(
            connection, alarm=HubAlarm(self.hub), landed=self._land, work=self._work if work else None
        )
        self.link.send(flight, service_ms=service_ms)
        return flight

    def _work(self) -> tuple[Any, int | None, int]:
        self.worked.append(self.hub.now_ms)
        return "done", None, 0

    def _land(self, flight: Flight) -> None:
        self.landed.append((self.hub.now_ms, flight.code))

    def at(self, instant_ms: int, act: Callable[[], object]) -> None:
        def and_no_more() -> None:
            act()

        self.hub.at(instant_ms, and_no_more)

    def between(self, begin_ms: int, end_ms: int, fault: LinkFault) -> None:
        self.hub.at(begin_ms, lambda: self.link.begin(fault))
        self.hub.at(end_ms, lambda: self.link.heal(fault))


def latency(delay_ms: int = 150) -> Holding:
    return latency_of(delay_ms=delay_ms, jitter_ms=0, upward=False)


def test_an_answer_takes_both_ways_and_the_service() -> None:
    rig = Rig()
    rig.send(service_ms=20)

    rig.hub.run()

    [(landed_ms, code)] = rig.landed
    assert 20 <= landed_ms <= 22
    assert code is None


def test_work_is_done_when_the_request_arrives_even_at_one_instant_with_its_answer() -> None:
    for seed in range(20):
        rig = Rig(seed)
        flight = rig.send(service_ms=0, work=True)

        rig.hub.run()

        assert rig.worked
        assert flight.value == "done"
        assert rig.worked[0] <= rig.landed[0][0]


def test_latency_holds_what_is_on_its_way_and_what_is_sent_while_it_lasts() -> None:
    rig, fault = Rig(), latency()
    rig.send(service_ms=20)
    rig.between(10, 1000, fault)
    rig.at(100, lambda: rig.send(service_ms=20))

    rig.hub.run()

    assert [ms >= least for (ms, _), least in zip(rig.landed, (170, 270), strict=True)] == [True, True]
    assert fault.evidence() == {"chunks_held": 2, "held_ms": 300}


def test_healing_lets_what_is_held_flow() -> None:
    rig, fault = Rig(), latency(5000)
    rig.send(service_ms=20)
    rig.between(10, 60, fault)

    rig.hub.run()

    assert [ms for ms, _ in rig.landed] == [60]
    assert 0 < fault.evidence()["held_ms"] <= 60


def test_a_blackhole_swallows_until_the_client_loses_patience() -> None:
    rig, fault = Rig(), Blackhole(upward=True, downward=True)
    rig.between(0, 20_000, fault)
    rig.at(5, lambda: rig.send(service_ms=20))

    rig.hub.run()

    assert rig.landed == [(10_005, "TimeoutError")]
    assert fault.evidence()["chunks_swallowed"] == 1


def test_healing_a_blackhole_cuts_the_connections_that_have_a_hole() -> None:
    rig, fault = Rig(), Blackhole(upward=False, downward=True)
    rig.between(0, 400, fault)
    rig.at(5, lambda: rig.send(service_ms=20, work=True))

    rig.hub.run()

    assert rig.landed == [(400, LOST_CONNECTION)]
    assert rig.worked, "only the answer was swallowed"
    assert fault.evidence()["connections_cut"] == 1


def test_a_request_into_a_blackhole_never_arrives() -> None:
    rig = Rig()
    rig.between(0, 400, Blackhole(upward=True, downward=True))
    rig.at(5, lambda: rig.send(service_ms=20, work=True))

    rig.hub.run()

    assert not rig.worked


def test_down_cuts_live_connections_and_refuses_new_ones() -> None:
    rig, fault = Rig(), Down()
    rig.send(service_ms=200)
    rig.between(50, 300, fault)
    rig.at(100, lambda: rig.send(service_ms=20, fresh=True))
    rig.at(400, lambda: rig.send(service_ms=20, fresh=True))

    rig.hub.run()

    assert rig.landed[:2] == [(50, LOST_CONNECTION), (101, REFUSED)]
    assert rig.landed[2][1] is None
    assert fault.evidence() == {"connections_lost": 2, "codes": {"2003": 1, "2013": 1}}


def test_reset_ends_a_connection_with_its_answer_and_a_new_one_before_its_request() -> None:
    rig, fault = Rig(), Reset()
    rig.send(service_ms=50, work=True)
    rig.between(10, 300, fault)
    rig.at(100, lambda: rig.send(service_ms=50, fresh=True, work=True))

    rig.hub.run()

    (first_ms, first), (second_ms, second) = rig.landed
    assert (first, second) == (LOST_CONNECTION, LOST_CONNECTION)
    assert first_ms >= 50
    assert second_ms == 101
    assert len(rig.worked) == 1
    assert fault.evidence() == {"connections_lost": 2, "codes": {"2013": 2}}


@pytest.mark.parametrize("fault", [latency(), Blackhole(upward=True, downward=True), Down(), Reset()])
def test_a_fault_that_met_nothing_has_no_evidence(fault: LinkFault) -> None:
    rig = Rig()
    rig.link.close(rig.connection)
    rig.between(10, 20, fault)

    rig.hub.run()

    assert fault.evidence() == {}


def test_an_abandoned_request_arrives_in_that_moment_or_never() -> None:
    worked = set()
    for seed in range(30):
        rig = Rig(seed)
        flight = rig.send(service_ms=20, fresh=True, work=True)
        rig.link.abandon(flight)
        rig.hub.run()
        assert not rig.landed
        worked.add(tuple(rig.worked))

    assert worked == {(), (0,)}
