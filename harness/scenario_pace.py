"""How long a scenario takes at a real level, told before it runs.

Answers to the estimates of a test runner. Invariant: an estimate comes from what the scenario says alone, the pace of
its source and the times of its faults; what a slow machine adds is not in it.
"""

from __future__ import annotations

from harness.scenario import At, Between, Call, CheckpointDone, Fault, RecordTaken, Scenario, Workload

__all__ = ["expected_s"]

_AROUND_S = 1.5
"""From the order to the first record, and from the last to the verdict."""


def expected_s(scenario: Scenario) -> float:
    """Seconds of one run at level live, its world being open: until the source is read and every fault is over."""
    source_s = _source_s(scenario.workload)
    over_s = [_begins_s(fault, scenario.workload) + _lasts_s(fault) for fault in scenario.faults]
    return _AROUND_S + max(source_s, *over_s, 0.0)


def _source_s(workload: Workload) -> float:
    return workload.records / workload.rate


def _begins_s(fault: Fault, workload: Workload) -> float:
    """When it begins, if the source is read at its pace; a phase may be at any time, so it counts as none."""
    match fault.when:
        case At(at=at_ms):
            return at_ms / 1000
        case Between(between=(_, latest_ms)):
            return latest_ms / 1000
        case Call(call=call, subtask=subtask):
            return call / workload.rate / (1 if subtask is not None else workload.subtasks)
        case RecordTaken(record=record):
            return record / workload.rate
        case CheckpointDone(checkpoint=checkpoint):
            if workload.checkpoint_every is None:
                return checkpoint * (workload.checkpoint_interval or 0) / 1000
            share = checkpoint * workload.checkpoint_every / workload.positions
            return share * _source_s(workload)
        case _:
            return 0.0


def _lasts_s(fault: Fault) -> float:
    return ((fault.comes - 1) * fault.every_ms + (fault.lasts_ms or 0)) / 1000
