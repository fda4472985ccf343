"""The findings: for each fault of a scenario, when it acted in a run and what shows that it bit.

Invariant: a finding rests on the run's recorded lines alone, so it can be made again from them; a fault whose
trigger never came has a finding too, one without times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.faults.fault import Seen
from harness.faults.kill_worker import find_killing
from harness.faults.schedule import network_fault
from harness.history.timed_call import timed_calls
from harness.outcome import FaultRecord
from harness.scenario import Fault, Scenario

__all__ = ["fault_events", "findings"]

Line = Mapping[str, Any]


def findings(scenario: Scenario, lines: Sequence[Line]) -> list[FaultRecord]:
    """One a fault of the scenario, in its order."""
    losses = [(line["t"], line["link"], line["code"]) for line in lines if line["k"] == "~lost"]
    return [_finding(fault, lines, losses) for fault in scenario.faults]


def _finding(
    fault: Fault,
    lines: Sequence[Line],
    losses: Sequence[tuple[int, str, int | str]],
) -> FaultRecord:
    action = network_fault(fault)
    if action is None:
        killing = find_killing(fault.id, lines)
        if killing is None:
            return _record(fault, armed_us=None, healed_us=None, evidence={})
        began, ended = killing.began_us, killing.ended_us
        return _record(fault, armed_us=began, healed_us=ended, evidence=killing.evidence)
    armed_us = _time_of("~armed", fault.id, lines)
    healed_us = _time_of("~healing", fault.id, lines)
    if armed_us is None or healed_us is None:
        return _record(fault, armed_us=armed_us, healed_us=healed_us, evidence={})
    calls = timed_calls(lines, link=action.link)
    seen = Seen(armed_us=armed_us, healed_us=healed_us, calls=calls, losses=losses)
    return _record(fault, armed_us=armed_us, healed_us=healed_us, evidence=action.evidence(seen))


def _record(
    fault: Fault, *, armed_us: int | None, healed_us: int | None, evidence: Mapping[str, Any]
) -> FaultRecord:
    plan = fault.model_dump(mode="json", by_alias=True, exclude_none=True)
    return FaultRecord(
        id=fault.id,
        kind=fault.do,
        plan=plan,
        armed_us=armed_us,
        healed_us=healed_us,
        evidence=evidence,
        bites=bool(evidence),
    )


def _time_of(note: str, fault: str, lines: Sequence[Line]) -> int | None:
    return next((line["t"] for line in lines if line["k"] == note and line["f"] == fault), None)


def fault_events(records: Sequence[FaultRecord]) -> list[dict[str, Any]]:
    """The `fault` events of the history, on the recorders' clock."""
    events: list[dict[str, Any]] = []
    for record in records:
        if record.armed_us is None:
            continue
        events.append({"t": record.armed_us, "k": "fault", "f": record.id, "phase": "begin"})
        if record.healed_us is not None:
            evidence = dict(record.evidence)
            events.append(
                {"t": record.healed_us, "k": "fault", "f": record.id, "phase": "end", "evidence": evidence}
            )
    return sorted(events, key=lambda event: event["t"])
