"""The schedule at level sim: triggers, times, cycles, and the order of healing."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.parts.triggers import PHASES
from harness.history.event import Call, FaultEvent, In, Kill, Snap, Start
from harness.history.verdict import Outcome
from harness.levels.sim.run import Simulated
from harness.levels.sim.tests.fault_samples import sample, simulated
from harness.scenario.model import Scenario
from harness.scenario.moments import instant_ms
from harness.tests.simulated_run import judgement_of
from tools.cases import each

WHERE = each(
    "phase",
    [
        phase
        for phase in PHASES
        if phase not in {"store", "ack", "notify", "align", "timer"} and not phase.startswith("restore")
    ],
)


def of_fault(ran: Simulated, name: str = "f0") -> list[FaultEvent]:
    return [event for event in ran.events if isinstance(event, FaultEvent) and event.f == name]


def first_record_us(ran: Simulated) -> int:
    return next(event.t for event in ran.events if isinstance(event, In))


def with_fault(kind: str, *, sink: str = "atomic", **fields: Any) -> Scenario:
    plain = sample(kind).model_dump(mode="json", by_alias=True)
    plain["faults"][0] |= fields
    return Scenario.model_validate({**plain, "sink": sink})


def test_a_time_counts_from_the_first_record() -> None:
    ran = simulated(sample("latency"))

    assert of_fault(ran)[0].t - first_record_us(ran) == 60_000


def test_a_time_that_is_drawn_is_the_one_of_all_levels() -> None:
    scenario = with_fault("latency", when={"between": ["20ms", "90ms"]})

    ran = simulated(scenario, seed=5)

    assert of_fault(ran)[0].t - first_record_us(ran) == 1000 * (instant_ms(scenario.faults[0], seed=5) or 0)


def test_a_record_begins_it_when_the_source_stands_there() -> None:
    ran = simulated(with_fault("latency", when={"record": 30, "subtask": 1}))

    taken = next(event for event in ran.events if isinstance(event, In) and event.s == 1 and event.id == 59)
    assert of_fault(ran)[0].t == taken.t


def test_a_call_begins_it() -> None:
    ran = simulated(with_fault("latency", when={"call": 40}))

    assert of_fault(ran)[0].t == [event for event in ran.events if isinstance(event, Call)][39].t


@WHERE
def test_an_attempt_dies_at_the_named_phase_and_another_one_goes_on(phase: str) -> None:
    ran = simulated(with_fault("kill_worker", when={"phase": phase, "hit": 1}))

    begin, end = of_fault(ran)

    assert isinstance(end.evidence, dict)
    assert end.evidence["phase"] == phase
    assert any(isinstance(event, Kill) and event.t == begin.t for event in ran.events)
    assert judgement_of(ran).outcome is Outcome.PASS


@each("phase", ["store", "ack", "notify", "commit.pre", "commit.post", "snap.mid"])
def test_a_two_phase_sink_has_phases_of_its_own(phase: str) -> None:
    ran = simulated(with_fault("kill_worker", sink="two-phase", when={"phase": phase, "hit": 2}))

    assert of_fault(ran)[1].evidence
    assert judgement_of(ran).outcome is Outcome.PASS


@pytest.mark.parametrize("phase", ["restore.begin", "restore.mid", "restore.end"])
def test_an_attempt_dies_in_its_restore(phase: str) -> None:
    plain = sample("kill_worker").model_dump(mode="json", by_alias=True)
    plain["faults"].append({**plain["faults"][0], "id": "f1", "when": {"phase": phase, "hit": 1}})

    ran = simulated(Scenario.model_validate(plain))

    assert [event.a for event in ran.events if isinstance(event, Start) and event.s == 0] == [1, 2, 3]
    assert of_fault(ran, "f1")[1].evidence


@pytest.mark.parametrize("how", ["sigkill", "sigsegv", "exit", "exception"])
def test_there_are_four_ways_to_end(how: str) -> None:
    ran = simulated(with_fault("kill_worker", how=how))

    assert any(isinstance(event, Kill) for event in ran.events) is (how != "exception")
    assert judgement_of(ran).outcome is Outcome.PASS


def test_a_fault_comes_again_as_often_as_it_should_each_time_with_its_own_evidence() -> None:
    scenario = with_fault("latency", when={"at": "20ms"}, repeat=3, every="50ms", **{"for": "20ms"})

    ran = simulated(scenario)

    begins = [event.t for event in of_fault(ran) if event.phase == "begin"]
    assert [later - begins[0] for later in begins] == [0, 50_000, 100_000]
    assert all(event.evidence for event in of_fault(ran) if event.phase == "end")
    assert [one.planned_us for one in ran.noted["f0"]] == begins


def test_what_acts_when_the_run_ends_is_healed_the_last_one_first() -> None:
    plain = sample("latency", "jitter", "one_way").model_dump(mode="json", by_alias=True)
    for place, fault in enumerate(plain["faults"]):
        fault |= {"for": "60s", "when": {"at": f"{20 * place}ms"}}

    ran = simulated(Scenario.model_validate(plain))

    ends = [event.f for event in ran.events if isinstance(event, FaultEvent) and event.phase == "end"]
    assert ends == ["f2", "f1", "f0"]


def test_without_a_duration_it_lasts_until_it_has_bitten() -> None:
    ran = simulated(sample("lost_commit"))

    begin, end = of_fault(ran)
    assert end.evidence
    assert end.t > begin.t
    assert ran.noted["f0"][0].measured_us is not None


def test_one_that_never_bites_is_given_up_in_the_end() -> None:
    scenario = with_fault("reset_at_packet", statement="DROP TABLE")

    ran = simulated(scenario)

    assert of_fault(ran)[1].evidence == {}
    assert judgement_of(ran).outcome is Outcome.VACUOUS


def test_what_stops_the_process_says_so() -> None:
    for kind in ("pause_worker", "zombie", "loop_stall", "store_slow"):
        assert of_fault(simulated(sample(kind)))[0].stalls is True


def test_nothing_of_a_stalled_attempt_happens_meanwhile() -> None:
    ran = simulated(with_fault("loop_stall", when={"phase": "snap.end", "hit": 2}))

    begin, end = of_fault(ran)
    meanwhile = [e for e in ran.events if begin.t < e.t < begin.t + 80_000 and getattr(e, "s", None) == 0]
    assert isinstance(end.evidence, dict)
    assert end.evidence["lag_ms"] == 80
    assert [e for e in meanwhile if not isinstance(e, Snap)] == []
