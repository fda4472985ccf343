"""Carrying down: faults get the events at which they began, calls their recorded outcomes, and the rest is named."""

from __future__ import annotations

import pytest

from harness.explore import carry
from harness.explore.carry import Recorded, calls_of, carry_down
from harness.explore.find import Find
from harness.explore.shrink import Runs, SeenRun, open_runs, shrink
from harness.explore.smaller import by_event
from harness.faults.registry import fault_of
from harness.history.event import Call, Event, FaultEvent, In, Kill, Res
from harness.scenario.file import loads
from harness.scenario.model import Scenario

LIVE = """\
scenario: live
about: A run of level live, with a fault by time.
levels: [live, spark]
operator: {mode: ordered}
workload: {records: 4, subtasks: 1, checkpoint_every: 2}
faults:
  - {id: spike, do: latency, link: lookups, delay: 20ms, for: 100ms, when: {at: 5ms}}
decisive: [V8]
"""


@pytest.fixture(scope="module")
def run() -> Runs:
    with open_runs() as runs:
        return runs


def taken(n: int, *, s: int = 0) -> list[Event]:
    return [
        In(n=10 * n, t=1000 * n, s=s, a=1, pos=n, id=n),
        Call(n=10 * n + 1, t=1000 * n, s=s, a=1, id=n, try_=1),
    ]


def begins(fault: str) -> FaultEvent:
    return FaultEvent(n=5, t=5, f=fault, phase="begin")


def the_run(events: list[Event], *, text: str = LIVE, mutant: str | None = None) -> Recorded:
    find = Find(scenario=loads(text), seed=1, invariant="V10", kind="skipped", mutant=mutant)
    return Recorded(find=find, level="live", runner="continuous", shown=(("V10", "skipped"),), events=events)


def test_a_fault_by_time_gets_the_last_call_before_it_began() -> None:
    events = [*taken(1), *taken(2), begins("spike"), *taken(3)]
    (fault,) = loads(LIVE).faults

    assert list(by_event(fault, events))[:2] == [{"call": 2}, {"call": 3}]


def test_a_fault_of_one_subtask_counts_the_calls_of_that_subtask() -> None:
    fault = fault_of({"id": "p", "do": "pause_worker", "subtask": 1, "for": "1s", "when": {"at": "5ms"}})
    events = [*taken(1), *taken(2, s=1), *taken(3), begins("p")]

    assert next(by_event(fault, events)) == {"call": 1, "subtask": 1}


def test_a_fault_that_begins_by_an_event_keeps_it() -> None:
    fault = fault_of({"id": "k", "do": "kill_worker", "subtask": 0, "when": {"phase": "emit", "hit": 2}})

    assert list(by_event(fault, [*taken(1), begins("k")])) == []


def test_a_call_is_recorded_with_its_time_and_a_failure_without_a_cause() -> None:
    events: list[Event] = [
        Call(n=1, t=0, s=0, a=1, id=7, try_=1),
        Res(n=2, t=12_400, s=0, a=1, id=7, try_=1, r="fail", final=False),
        Call(n=3, t=20_000, s=0, a=1, id=7, try_=2),
        Res(n=4, t=25_000, s=0, a=1, id=7, try_=2, r="ok", final=True),
    ]

    assert list(calls_of(events)) == [
        {"id": 7, "call": 1, "takes": "12ms", "ends": "error"},
        {"id": 7, "call": 2, "takes": "5ms"},
    ]


def test_a_failure_that_a_fault_caused_is_left_to_the_fault() -> None:
    events: list[Event] = [
        Call(n=1, t=0, s=0, a=1, id=7, try_=1),
        Res(n=2, t=3_000, s=0, a=1, id=7, try_=1, r="fail", final=True, by="poison"),
    ]

    assert list(calls_of(events)) == [{"id": 7, "call": 1, "takes": "3ms"}]


def test_a_defect_of_a_real_level_is_shown_at_level_sim_with_its_recorded_calls(run: Runs) -> None:
    events = [
        *taken(0),
        *taken(1),
        begins("spike"),
        Res(n=99, t=9000, s=0, a=1, id=1, try_=1, r="ok", final=True),
    ]

    carried = carry_down(the_run(events, mutant="offset-one-late"), run)

    assert carried.find is not None
    assert carried.find.shows == "V10 skipped"
    assert carried.form == "faults by event, 1 recorded calls"
    assert [fault.when.model_dump() for fault in carried.find.scenario.faults] == [{"call": 2}]
    assert carried.left == ()


def test_what_level_sim_does_not_show_is_said_with_the_fault_that_it_lacks() -> None:
    text = LIVE.replace(
        "{id: spike, do: latency, link: lookups, delay: 20ms, for: 100ms, when: {at: 5ms}}",
        "{id: clock, do: server_clock, for: 600ms, shift: 60m, when: {at: 5ms}}",
    )

    def shows_nothing(find: Find) -> SeenRun | None:
        del find
        return None

    carried = carry_down(the_run([*taken(1)], text=text), shows_nothing)

    assert carried.find is None
    assert carried.tried > 1
    assert any("server_clock" in sentence and "live, spark" in sentence for sentence in carried.left)


def test_a_host_that_is_lost_becomes_the_kill_of_its_attempts() -> None:
    text = LIVE.replace("levels: [live, spark]", "levels: [spark]").replace(
        "{id: spike, do: latency, link: lookups, delay: 20ms, for: 100ms, when: {at: 5ms}}",
        "{id: host, do: lose_host, subtask: 0, when: {call: 2}}",
    )
    tried = list[Scenario]()

    def noted(find: Find) -> SeenRun | None:
        tried.append(find.scenario)
        return None

    carry_down(the_run([*taken(1), *taken(2), Kill(n=50, t=9, s=0, a=1, by="host")], text=text), noted)

    (kill,) = tried[0].faults
    assert (kill.do, kill.of_subtask) == ("kill_worker", 0)
    assert kill.when.model_dump() == {"phase": "call", "hit": 2}


def test_a_recorded_call_takes_its_time_at_level_sim(run: Runs) -> None:
    calls = [{"id": 0, "call": 1, "takes": "300ms"}, {"id": 1, "call": 1, "takes": "40ms", "ends": "error"}]
    plain = loads(LIVE).model_dump(mode="json", by_alias=True)
    scenario = Scenario.model_validate(
        {**plain, "levels": ["sim"], "faults": [], "choices": {"seed": 1, "order": "fifo", "calls": calls}}
    )

    seen = run(Find(scenario=scenario, seed=1, invariant="V8", kind="lost"))

    assert seen is not None
    events = seen.record.events
    begun = {event.id: event.t for event in events if isinstance(event, Call) and event.a == 1}
    over = {
        event.id: (event.t - begun[event.id]) // 1000
        for event in events
        if isinstance(event, Res) and event.a == 1
    }
    failed = [event.id for event in events if isinstance(event, Res) and event.r == "fail"]
    assert over[1] == 40
    assert failed == [1]
    assert 0 not in over or over[0] == 300


def test_a_table_of_calls_is_dropped_if_it_does_not_matter(run: Runs) -> None:
    recorded = the_run(
        [
            *taken(0),
            *taken(1),
            begins("spike"),
            Res(n=99, t=9000, s=0, a=1, id=1, try_=1, r="ok", final=True),
        ],
        mutant="offset-one-late",
    )
    carried = carry_down(recorded, run)
    assert carried.find is not None

    small = shrink(carried.find, run=run)

    assert small.scenario.choices is None or small.scenario.choices.calls is None
    assert small.scenario.faults == ()


def test_calls_that_are_too_many_for_a_scenario_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "_CALLS_MAX", 1)
    events = [
        *taken(1),
        *taken(2),
        *(Res(n=90 + n, t=9000, s=0, a=1, id=n, try_=1, r="ok", final=True) for n in (1, 2)),
    ]

    carried = carry_down(the_run(events), lambda find: None)

    assert "1 of 2 recorded calls: the first 1 are kept" in carried.left
