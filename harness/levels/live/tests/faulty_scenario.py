"""A small scenario with faults, over in a second or two, and the one that bit."""

from __future__ import annotations

from typing import Any

from harness.scenario.model import Scenario
from harness.scenario.outcome import FaultRecord, RunOutcome
from harness.tests.whole_run import told


def faulty(
    *faults: dict[str, Any],
    operator: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
    decisive: list[str] | None = None,
    **fields: Any,
) -> Scenario:
    """Two subtasks of 200 records each, a checkpoint every 40 positions, lookups of a few milliseconds."""
    return Scenario.model_validate(
        {
            "scenario": "faulty",
            "about": "A small one, for one fault.",
            "levels": ["sim", "live"],
            "operator": {"mode": "ordered", "timeout": "5s", **(operator or {})},
            "workload": {
                "records": 200,
                "rate": "400/s",
                "service": "10ms",
                "checkpoint_every": 40,
                **(workload or {}),
            },
            "faults": list(faults),
            "decisive": decisive or ["V8"],
            "budget": "60s",
            **fields,
        }
    )


def what_bit(outcome: RunOutcome) -> FaultRecord:
    """The one fault, which must have left evidence."""
    (fault,) = outcome.faults
    assert fault.bites, told(outcome)
    return fault
