"""Findings: what a run's lines show of each fault, again from the lines alone."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from harness.engine.findings import findings, outside_events, unseen_by_the_client
from harness.faults.tests.killed_run import killed_run
from harness.history.event import Call, Change, Commit, FaultEvent, Res
from harness.history.notes import (
    Armed,
    Arming,
    CommitBegun,
    FaultDue,
    Found,
    Healed,
    Healing,
    Line,
    OwnClient,
    ProxyActed,
    TookEffect,
)
from harness.history.tests.lines import line
from harness.scenario.model import Scenario
from harness.scenario.outcome import FaultRecord

LATENCY = {
    "id": "slow",
    "do": "latency",
    "link": "lookups",
    "delay": "100ms",
    "when": {"at": "1s"},
    "for": "1s",
}
KILL = {"id": "kill", "do": "kill_worker", "subtask": 1, "when": {"phase": "snap.end", "hit": 3}}


def scenario(*faults: dict[str, Any]) -> Scenario:
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


def found(one: Scenario, lines: list[Line]) -> list[FaultRecord]:
    return findings(one, lines)


def answered(id_: int, began_ms: int, took_ms: int) -> list[Line]:
    of = {"s": 0, "id": id_, "try_": 1}
    return [line(Call, began_ms * 1000, **of), line(Res, (began_ms + took_ms) * 1000, r="ok", **of)]


def acted(fault: str, armed_ms: int, healing_ms: int, *, cycle: int = 0) -> list[Line]:
    """The notes of one time that it acted, without a proxy's log; it bit half-way, and took 5 ms to arm and to heal."""
    of = {"fault": fault, "cycle": cycle}
    return [
        line(FaultDue, (armed_ms - 4) * 1000, due=(armed_ms - 5) * 1000, **of),
        line(Arming, (armed_ms - 2) * 1000, **of),
        line(Armed, armed_ms * 1000, logged=False, **of),
        line(TookEffect, (armed_ms + healing_ms) // 2 * 1000, **of),
        line(Healing, healing_ms * 1000, **of),
        line(Healed, (healing_ms + 5) * 1000, **of),
    ]


def latency_run(took_ms: int) -> list[Line]:
    """Ten calls before the fault, of 20 ms each, and ten under it."""
    lines = acted("slow", 1000, 2000)
    for n in range(10):
        lines += answered(n, 100 + n, 20) + answered(100 + n, 1100 + n, took_ms)
    return sorted(lines, key=attrgetter("t"))


def test_a_fault_that_bit_has_its_times_and_its_evidence() -> None:
    (record,) = found(scenario(LATENCY), latency_run(took_ms=120))

    assert (record.first.planned_us, record.armed_us) == (995_000, 998_000)
    assert (record.first.measured_us, record.healed_us) == (1_500_000, 2_005_000)
    assert record.bites
    assert record.evidence["median_ms_inside"] == 120.0


def test_a_history_whose_calls_bypassed_the_proxy_leaves_no_evidence() -> None:
    (record,) = found(scenario(LATENCY), latency_run(took_ms=20))

    assert (record.bites, record.evidence, record.first.measured_us) == (False, {}, None)


def commits(*, took_ms: int) -> list[Line]:
    """Ten transactions of the sink before the fault, of 20 ms each, and five under it."""
    began = [(n, 100 + 40 * n, 20) for n in range(10)] + [(20 + n, 1010 + 190 * n, took_ms) for n in range(5)]
    lines: list[Line] = []
    for checkpoint, began_ms, length_ms in began:
        lines.append(line(CommitBegun, began_ms * 1000, s=0, c=checkpoint))
        lines.append(line(Commit, (began_ms + length_ms) * 1000, s=0, c=checkpoint))
    return lines


@pytest.mark.parametrize(("took_ms", "bites"), [(130, True), (20, False)])
def test_a_fault_of_the_sinks_link_is_shown_by_its_transactions_not_by_slow_lookups(
    took_ms: int,
    bites: bool,  # noqa: FBT001 - a case
) -> None:
    lines = sorted([*latency_run(took_ms=120), *commits(took_ms=took_ms)], key=attrgetter("t"))

    (record,) = found(scenario({**LATENCY, "link": "sink"}), lines)

    assert record.bites is bites


def test_a_fault_of_the_lookups_link_is_not_shown_by_slow_transactions() -> None:
    lines = sorted([*latency_run(took_ms=20), *commits(took_ms=130)], key=attrgetter("t"))

    (record,) = found(scenario(LATENCY), lines)

    assert not record.bites


def test_calls_are_told_apart_by_attempt_and_try() -> None:
    """A call that its attempt never ended must not end with the same record's answer in the next attempt."""
    orphan = line(Call, 1_500_000, s=0, a=9, id=0, try_=1)
    lines = sorted([*latency_run(took_ms=120), orphan], key=attrgetter("t"))

    (record,) = found(scenario(LATENCY), lines)

    assert record.evidence["median_ms_inside"] == 120.0


@pytest.mark.parametrize("missing", [Armed, Healing])
def test_a_fault_that_was_not_armed_or_not_healed_has_no_evidence(missing: type[Line]) -> None:
    lines = [one for one in latency_run(took_ms=120) if not isinstance(one, missing)]

    (record,) = found(scenario(LATENCY), lines)

    assert not record.bites


def test_findings_stand_in_the_scenarios_order_with_those_that_never_came() -> None:
    records = found(scenario(KILL, LATENCY), latency_run(took_ms=120))

    assert [(record.id, record.armed_us is None, record.bites) for record in records] == [
        ("kill", True, False),
        ("slow", False, True),
    ]


def test_the_records_become_events_in_time_order_with_the_evidence_at_the_end() -> None:
    records = found(scenario(LATENCY, KILL), latency_run(took_ms=120) + killed_run())

    events = outside_events(records, [])

    assert [(event.f, event.phase) for event in events if isinstance(event, FaultEvent)] == [
        ("kill", "begin"), ("kill", "end"), ("slow", "begin"), ("slow", "end"),
    ]  # fmt: skip
    assert all(isinstance(event, FaultEvent) and event.evidence for event in events if event.phase == "end")


def test_a_fault_that_never_came_is_no_event() -> None:
    assert outside_events(found(scenario(LATENCY), []), []) == []


def test_a_fault_that_repeats_has_a_beginning_and_an_end_each_time_and_bites_if_each_bit() -> None:
    lines = acted("slow", 1000, 2000) + acted("slow", 4000, 5000, cycle=1)
    for n in range(10):
        lines += (
            answered(n, 100 + n, 20) + answered(100 + n, 1100 + n, 120) + answered(200 + n, 4100 + n, 120)
        )
    lines.sort(key=attrgetter("t"))
    without = [one for one in lines if not isinstance(one, Call | Res) or int(one.id) < 200]

    (both,), (one,) = found(scenario(LATENCY), lines), found(scenario(LATENCY), without)

    assert [event.t for event in outside_events([both], [])] == [998_000, 2_005_000, 3_998_000, 5_005_000]
    assert both.bites
    assert [bool(time.evidence) for time in one.times] == [True, False]
    assert not one.bites


def test_a_fault_that_was_due_when_the_run_was_over_has_not_acted() -> None:
    (record,) = found(scenario(LATENCY), acted("slow", 1000, 2000)[:1])

    assert (record.first.planned_us, record.armed_us, record.bites) == (995_000, None, False)
    assert outside_events([record], []) == []


def test_the_proxys_events_and_what_a_fault_found_come_back_from_the_lines() -> None:
    """A proxy that keeps a log and delayed nothing contradicts calls that were slow."""
    quiet = [replace(one, logged=True) if isinstance(one, Armed) else one for one in latency_run(took_ms=120)]
    event = {
        "t": 1_200_000,
        "did": "delayed",
        "stream": "downstream",
        "toxic": "slow.downstream",
        "ms": 100,
        "bytes": 9,
        "chunks": 5,
    }
    noted = ProxyActed(t=1_300_000, fault="slow", cycle=0, deed=event)
    busy = sorted([*quiet, noted], key=attrgetter("t"))

    (without,), (with_it,) = found(scenario(LATENCY), quiet), found(scenario(LATENCY), busy)

    assert not without.bites
    assert with_it.evidence["longest_delay_ms"] == 100


def test_each_key_of_a_change_has_an_event_at_the_time_of_its_note_trust6() -> None:
    def found_at(t: int, facts: dict[str, Any]) -> Line:
        return Found(t=t, fault="migration", cycle=0, facts=facts)

    changed = {"ver": 1, "keys": [3, ["a", -1]]}
    begin, end = (
        found_at(t, {"change": phase, **changed}) for t, phase in ((7_000, "begin"), (9_000, "end"))
    )

    events = outside_events([], [begin, found_at(8_000, {"began_us": 8_000}), end])

    assert events == [
        Change(n=0, t=7_000, phase="begin", ver=1, key=3),
        Change(n=0, t=7_000, phase="begin", ver=1, key=["a", -1]),
        Change(n=0, t=9_000, phase="end", ver=1, key=3),
        Change(n=0, t=9_000, phase="end", ver=1, key=["a", -1]),
    ]


CUT = {"id": "cut", "do": "down", "link": "lookups", "when": {"at": "1s"}, "for": "1s"}
OWN_CLIENT = OwnClient(t=500_000, a=1)


def cut_by_a_proxy(*dids: str) -> list[Line]:
    events = [
        ProxyActed(t=1_100_000, fault="cut", cycle=0, deed={"t": 1_050_000, "did": did, "connection": n})
        for n, did in enumerate(dids)
    ]
    lines = [
        replace(one, logged=True) if isinstance(one, Armed) else one for one in acted("cut", 1_000, 2_000)
    ]
    return sorted([OWN_CLIENT, *lines, *events], key=attrgetter("t"))


def test_what_the_proxy_cut_stands_for_the_losses_of_a_client_that_nobody_sees_u4() -> None:
    lines = cut_by_a_proxy("cut", "cut", "delayed")
    seen = {"connections_lost": 2, "codes": {"proxy: cut": 2}}

    (time,) = found(scenario(CUT), lines)[0].times
    (of_the_pool,) = found(scenario(CUT), [line for line in lines if line != OWN_CLIENT])[0].times
    (of_nothing,) = found(scenario(CUT), cut_by_a_proxy("delayed"))[0].times

    assert (time.evidence, time.witnesses) == (seen, ("the proxy's log",))
    assert of_the_pool.evidence == {}
    assert of_nothing.evidence == {}


def test_a_fault_that_a_client_of_its_own_cannot_show_is_told_with_what_could_u4() -> None:
    one = scenario(CUT)
    lines = [OWN_CLIENT, *acted("cut", 1_000, 2_000)]

    (told,) = unseen_by_the_client(one, found(one, lines), lines)

    assert "fault cut (down) had to show in" in told
    assert "--proxy own" in told
    assert unseen_by_the_client(one, found(one, lines[1:]), lines[1:]) == []
    shown = cut_by_a_proxy("cut")
    assert unseen_by_the_client(one, found(one, shown), shown) == []


def test_while_its_link_is_at_fault_a_lookup_may_fail_to_open_u4() -> None:
    lines = cut_by_a_proxy("cut")
    records = found(scenario(CUT), lines)

    assert [getattr(event, "can", None) for event in outside_events(records, lines)] == [
        ["failed", "res"],
        UNSET,
    ]
    assert [getattr(event, "can", None) for event in outside_events(records, [])] == [["res"], UNSET]
