"""Findings: what a run's lines show of each fault, again from the lines alone."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.findings import fault_events, findings
from harness.faults.kill_worker import find_killing
from harness.scenario import Scenario

Line = dict[str, Any]

LATENCY = {
    "id": "slow",
    "do": "latency",
    "link": "lookups",
    "delay": "100ms",
    "when": {"at": "1s"},
    "for": "1s",
}
KILL = {"id": "kill", "do": "kill_worker", "subtask": 1, "when": {"phase": "snapshot-taken", "hit": 3}}


def scenario(*faults: Line) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "small",
            "about": "A small one for tests.",
            "operator": {"mode": "ordered"},
            "workload": {"records": 400},
            "faults": list(faults),
            "decisive": ["V8"],
        }
    )


def answered(id_: int, began_ms: int, took_ms: int) -> list[Line]:
    of = {"s": 0, "a": 1, "id": id_, "try": 1}
    return [
        {"k": "call", "t": began_ms * 1000, **of},
        {"k": "res", "t": (began_ms + took_ms) * 1000, "r": "ok", **of},
    ]


def latency_run(took_ms: int) -> list[Line]:
    """Ten calls before the fault, of 20 ms each, and ten under it."""
    lines = [{"k": "~armed", "f": "slow", "t": 1_000_000}, {"k": "~healing", "f": "slow", "t": 2_000_000}]
    for n in range(10):
        lines += answered(n, 100 + n, 20) + answered(100 + n, 1100 + n, took_ms)
    return sorted(lines, key=lambda line: line["t"])


def killed_run() -> list[Line]:
    """Attempt 1 of subtask 1 dies at its third snapshot, is reaped, and attempt 2 goes on."""
    lines: list[Line] = [
        {"i": 0, "t": 100, "k": "start", "s": 0, "a": 1},
        {"i": 0, "t": 110, "k": "start", "s": 1, "a": 1},
        {
            "i": 1,
            "t": 5000,
            "k": "~dies",
            "s": 1,
            "a": 1,
            "fault": "kill",
            "phase": "snapshot-taken",
            "hit": 3,
        },
        {"i": 0, "t": 7000, "k": "kill", "s": 1, "a": 1},
        {"i": 0, "t": 9000, "k": "start", "s": 1, "a": 2},
        {"i": 1, "t": 9900, "k": "close", "s": 1, "a": 2},
    ]
    return lines


def test_a_fault_that_bit_has_its_times_and_its_evidence() -> None:
    (record,) = findings(scenario(LATENCY), latency_run(took_ms=120))

    assert (record.armed_us, record.healed_us, record.bites) == (1_000_000, 2_000_000, True)
    assert record.evidence["median_ms_inside"] == 120.0


def test_a_history_whose_calls_bypassed_the_proxy_leaves_no_evidence() -> None:
    (record,) = findings(scenario(LATENCY), latency_run(took_ms=20))

    assert (record.bites, record.evidence) == (False, {})


def commits(*, took_ms: int) -> list[Line]:
    """Ten transactions of the sink before the fault, of 20 ms each, and five under it."""
    began = [(n, 100 + 40 * n, 20) for n in range(10)] + [(20 + n, 1010 + 190 * n, took_ms) for n in range(5)]
    lines: list[Line] = []
    for checkpoint, began_ms, length_ms in began:
        of = {"s": 0, "a": 1, "c": checkpoint}
        lines += [
            {"k": "~committing", "t": began_ms * 1000, **of},
            {"k": "commit", "t": (began_ms + length_ms) * 1000, **of},
        ]
    return lines


@pytest.mark.parametrize(("took_ms", "bites"), [(130, True), (20, False)])
def test_a_fault_of_the_sinks_link_is_shown_by_its_transactions_not_by_slow_lookups(
    took_ms: int,
    bites: bool,  # noqa: FBT001 - a case
) -> None:
    lines = sorted([*latency_run(took_ms=120), *commits(took_ms=took_ms)], key=lambda line: line["t"])

    (record,) = findings(scenario({**LATENCY, "link": "sink"}), lines)

    assert record.bites is bites


def test_a_fault_of_the_lookups_link_is_not_shown_by_slow_transactions() -> None:
    lines = sorted([*latency_run(took_ms=20), *commits(took_ms=130)], key=lambda line: line["t"])

    (record,) = findings(scenario(LATENCY), lines)

    assert not record.bites


def test_calls_are_told_apart_by_attempt_and_try() -> None:
    """A call that its attempt never ended must not end with the same record's answer in the next attempt."""
    orphan = {"k": "call", "t": 1_500_000, "s": 0, "a": 9, "id": 0, "try": 1}
    lines = sorted([*latency_run(took_ms=120), orphan], key=lambda line: line["t"])

    (record,) = findings(scenario(LATENCY), lines)

    assert record.evidence["median_ms_inside"] == 120.0


@pytest.mark.parametrize("missing", ["~armed", "~healing"])
def test_a_fault_that_was_not_armed_or_not_healed_has_no_evidence(missing: str) -> None:
    lines = [line for line in latency_run(took_ms=120) if line["k"] != missing]

    (record,) = findings(scenario(LATENCY), lines)

    assert not record.bites


def test_findings_stand_in_the_scenarios_order_with_those_that_never_came() -> None:
    records = findings(scenario(KILL, LATENCY), latency_run(took_ms=120))

    assert [(record.id, record.armed_us is None, record.bites) for record in records] == [
        ("kill", True, False),
        ("slow", False, True),
    ]


def test_a_kill_is_believed_when_it_was_reaped_nothing_followed_and_a_next_attempt_began() -> None:
    killing = find_killing("kill", killed_run())

    assert killing is not None
    assert (killing.began_us, killing.ended_us) == (5000, 9000)
    assert killing.evidence == {
        "subtask": 1, "phase": "snapshot-taken", "hit": 3, "attempt": 1, "next_attempt": 2, "restart_ms": 4.0,
    }  # fmt: skip


def test_a_kill_whose_phase_never_came_is_none() -> None:
    assert find_killing("other", killed_run()) is None


def test_a_kill_that_nobody_reaped_is_not_believed() -> None:
    killing = find_killing("kill", [line for line in killed_run() if line["k"] != "kill"])

    assert killing is not None
    assert killing.evidence == {}


def test_a_kill_after_which_the_attempt_still_spoke_is_not_believed() -> None:
    killing = find_killing("kill", [*killed_run(), {"i": 2, "t": 5100, "k": "out", "s": 1, "a": 1}])

    assert killing is not None
    assert killing.evidence == {}


@pytest.mark.parametrize(
    "successor", [{"s": 1, "a": 1}, {"s": 0, "a": 2}], ids=["same attempt", "other subtask"]
)
def test_a_kill_without_a_successor_is_not_believed(successor: Line) -> None:
    lines = [line for line in killed_run() if line.get("a") != 2]

    killing = find_killing("kill", [*lines, {"i": 0, "t": 9000, "k": "start", **successor}])

    assert killing is not None
    assert (killing.ended_us, killing.evidence) == (None, {})


def test_the_records_become_events_in_time_order_with_the_evidence_at_the_end() -> None:
    records = findings(scenario(LATENCY, KILL), latency_run(took_ms=120) + killed_run())

    events = fault_events(records)

    assert [(event["f"], event["phase"]) for event in events] == [
        ("kill", "begin"), ("kill", "end"), ("slow", "begin"), ("slow", "end"),
    ]  # fmt: skip
    assert all(event.get("evidence") for event in events if event["phase"] == "end")


def test_a_fault_that_never_came_is_no_event() -> None:
    assert fault_events(findings(scenario(LATENCY), [])) == []
