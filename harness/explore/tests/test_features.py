"""Features of a run: from the history alone, and only of faults with evidence."""

from __future__ import annotations

from harness.explore.drawing import draw_scenario
from harness.explore.features import features_of
from harness.history.event import Event, FaultEvent, In, Kill, Snap, Start
from harness.history.header import Header, OperatorHeader
from harness.levels.sim.run import simulate_scenario
from harness.scenario.order import Order

HEADER = Header(operator=OperatorHeader(mode="ordered", capacity=2, timeout_ms=0), sink="atomic")
KINDS = {"k": "kill_worker", "slow": "latency"}


def _run(*events: Event) -> list[Event]:
    started = Start(n=1, t=0, s=0, a=1, from_=None, pos=0)
    return [started, *events]


def _record(n: int, record: int) -> In:
    return In(n=n, t=n, s=0, a=1, pos=record, id=record)


def test_a_crash_is_told_with_phase_and_queue() -> None:
    begin = FaultEvent(n=4, t=4, f="k", phase="begin")
    kill = Kill(n=5, t=5, s=0, a=1, by="k")
    end = FaultEvent(n=6, t=9, f="k", phase="end", evidence={"subtask": 0, "phase": "accept", "hit": 2})

    found = features_of(HEADER, _run(_record(2, 1), _record(3, 2), begin, kill, end), kinds=KINDS)

    assert ("kill_worker", "accept") in found
    assert ("kill_worker", "accept", "queue full") in found
    assert ("kill_worker", "ordered, atomic") in found


def test_a_fault_without_evidence_reaches_nothing() -> None:
    begin = FaultEvent(n=3, t=3, f="slow", phase="begin")
    end = FaultEvent(n=4, t=9, f="slow", phase="end", evidence={})

    events = _run(_record(2, 1), begin, end)

    assert not [feature for feature in features_of(HEADER, events, kinds=KINDS) if feature[0] == "latency"]


def test_a_planned_fault_that_never_began_reaches_nothing() -> None:
    found = features_of(HEADER, _run(_record(2, 1)), kinds=KINDS)

    assert not [feature for feature in found if feature[0] in KINDS.values()]


def test_a_fault_that_begins_while_another_acts_is_a_pair() -> None:
    slow = FaultEvent(n=3, t=3, f="slow", phase="begin")
    kill = FaultEvent(n=4, t=4, f="k", phase="begin")
    healed = FaultEvent(n=5, t=8, f="slow", phase="end", evidence={"held": 1})
    end = FaultEvent(n=6, t=9, f="k", phase="end", evidence={"subtask": 0, "phase": "accept"})

    found = features_of(HEADER, _run(_record(2, 1), slow, kill, healed, end), kinds=KINDS)

    assert ("kill_worker", "beside", "latency") in found
    assert ("latency", "beside", "kill_worker") not in found


def test_a_checkpoint_under_way_is_a_state_of_the_operator() -> None:
    snap = Snap(n=3, t=3, s=0, a=1, c=1, pos=1, elements=[])
    begin = FaultEvent(n=4, t=4, f="slow", phase="begin")
    end = FaultEvent(n=5, t=9, f="slow", phase="end", evidence={"held": 1})

    found = features_of(HEADER, _run(_record(2, 1), snap, begin, end), kinds=KINDS)

    assert ("latency", "checkpoint pending") in found


def test_equal_histories_have_equal_features_and_another_seed_has_others() -> None:
    def of(seed: int) -> frozenset[tuple[str, ...]]:
        kinds = {fault.id: fault.do for fault in draw_scenario(seed).faults}
        ran = simulate_scenario(Order(scenario=draw_scenario(seed), level="sim", seed=seed))
        return features_of(ran.header, ran.events, kinds=kinds)

    assert of(3) == of(3)
    assert of(3) != of(4)
