"""Evidence at level sim is what clients got: an act that counts and changes nothing has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.database.simulated.link import Flight
from harness.faults import db_pause, hold_reply, stalled_handshake
from harness.faults.simulated import link_acts
from harness.history.event import FaultEvent
from harness.levels.sim.run import simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from tools.cases import each

Json = dict[str, Any]

FAULTS: list[tuple[str, Json]] = [
    ("latency", {"do": "latency", "link": "lookups", "direction": "down", "delay": "30ms"}),
    ("latency of requests", {"do": "latency", "link": "lookups", "direction": "up", "delay": "30ms"}),
    ("latency of the sink", {"do": "latency", "link": "sink", "direction": "down", "delay": "30ms"}),
    ("jitter", {"do": "jitter", "link": "lookups", "direction": "down", "jitter": "60ms"}),
    ("one way", {"do": "one_way", "link": "lookups", "direction": "down", "delay": "30ms"}),
    ("blackhole", {"do": "blackhole", "link": "lookups"}),
    ("half open", {"do": "half_open", "link": "lookups", "direction": "down"}),
    ("held replies", {"do": "hold_reply", "link": "lookups", "command": "query", "times": 5}),
    ("paused server", {"do": "db_pause"}),
]
"""Each acts on flights of a link, or of all."""


def scenario(fault: Json) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "effect",
            "about": "A fault among lookups of 20 ms.",
            "levels": ["sim"],
            "operator": {"mode": "unordered", "timeout": "5s", "on_timeout": ["no answer"]},
            "workload": {
                "records": 40, "subtasks": 1, "rate": "100/s", "service": "20ms", "checkpoint_every": 10,
            },
            "faults": [{"id": "f", "when": {"at": "100ms"}, "for": "200ms", **fault}],
            "decisive": ["V8"],
        }
    )  # fmt: skip


def evidence_of(fault: Json) -> Any:
    run = simulate_scenario(Order(scenario=scenario(fault), level="sim", seed=1))
    (end,) = [event for event in run.events if type(event) is FaultEvent and event.phase == "end"]
    return end.evidence


_ACTED = ("due_ms", "arrive_ms", "doom", "held", "kept", "swallowed", "works")


def without_effect(honest: Callable[..., None]) -> Callable[..., None]:
    """`on_message`, which counts as ever, and leaves the flight as it was."""

    def on_message(self: Any, link: Any, flight: Flight) -> None:
        before = {name: getattr(flight, name) for name in _ACTED}
        honest(self, link, flight)
        for name, value in before.items():
            setattr(flight, name, value)
        if not flight.served and flight.arrival is None and flight.departed:
            link.arrives(flight)

    return on_message


@each(("name", "fault"), FAULTS)
def test_an_act_on_flights_leaves_evidence(name: str, fault: Json) -> None:
    assert evidence_of(fault), name


@each(("name", "fault"), FAULTS)
def test_an_act_that_counts_flights_and_changes_none_leaves_no_evidence(name: str, fault: Json) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for act in (
            link_acts.Holding,
            link_acts.Swallowing,
            hold_reply.SimulatedHold,
            stalled_handshake.SimulatedStalledHandshake,
            db_pause._Paused,
        ):
            patch.setattr(act, "on_message", without_effect(act.on_message))

        assert evidence_of(fault) == {}, name
