"""Two faults at one moment both begin at level sim, or the scenario is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.engine.level import Opening, RunSite
from harness.history.event import FaultEvent
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.mistakes import validated
from harness.scenario.model import Scenario
from harness.scenario.order import Order

LATENCY = {"do": "latency", "link": "lookups", "delay": "30ms", "for": "200ms"}
PAUSE = {"do": "pause_worker", "subtask": 1, "for": "200ms"}
STALL = {"do": "loop_stall", "subtask": 1, "for": "200ms"}
KILL = {"do": "kill_worker", "subtask": 1}
SILENT = {"do": "missing_completion", "subtask": 1}


def at_one_moment(when: dict[str, Any], *faults: dict[str, Any]) -> Any:
    """The scenario, or the mistakes that it has."""
    return validated(
        {
            "scenario": "pair",
            "about": "Two faults at one moment.",
            "operator": {"mode": "ordered", "timeout": "5s"},
            "workload": {"records": 100, "subtasks": 2, "rate": "400/s", "checkpoint_every": 40},
            "decisive": ["V8"],
            "faults": [{"id": f"f{number}", "when": when, **fault} for number, fault in enumerate(faults)],
        }
    )


@pytest.mark.parametrize(
    ("when", "faults"),
    [
        ({"at": "100ms"}, (LATENCY, LATENCY)),
        ({"record": 30}, (LATENCY, SILENT)),
        ({"call": 30}, (LATENCY, LATENCY)),
        ({"checkpoint": 1}, (LATENCY, LATENCY)),
        ({"phase": "emit", "hit": 30}, (PAUSE, KILL)),
        ({"phase": "emit", "hit": 30}, (STALL, STALL)),
    ],
    ids=["at", "record", "call", "checkpoint", "phase", "phase-inside"],
)
def test_both_begin(when: dict[str, Any], faults: tuple[dict[str, Any], ...]) -> None:
    scenario = at_one_moment(when, *faults)
    assert isinstance(scenario, Scenario), scenario

    with SimulatedLevel().open(Opening()) as play:
        record = play(Order(scenario=scenario, level="sim", seed=7), RunSite(run_id="pair", folder=Path()))

    begun = {one.f for one in record.events if isinstance(one, FaultEvent) and one.phase == "begin"}
    assert begun == {"f0", "f1"}


@pytest.mark.parametrize(
    ("when", "fault"),
    [({"phase": "emit", "hit": 30}, KILL), ({"record": 30}, SILENT)],
    ids=["kill", "completion"],
)
def test_the_second_of_two_that_leave_each_other_nothing_is_refused(
    when: dict[str, Any], fault: dict[str, Any]
) -> None:
    mistakes = at_one_moment(when, fault, fault)

    assert [one.path for one in mistakes] == [("faults", 1, "when")]
    assert "at the moment of `f0`, which leaves it nothing to act on" in mistakes[0].say
