"""What scenarios of the catalogue are meant to reach, they reach at level sim."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from harness.database.pool import Circuit
from harness.history.event import Ack, Commit, Done, Failed, FaultEvent, Kill, Snap, Start
from harness.history.verdict import Outcome
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.file import apply_settings, load_many
from harness.scenario.order import Order
from harness.sut.defects import variant_of
from harness.sut.defects.twelve import building
from harness.sut.registry import REFERENCE_EMITTER
from harness.sut.variant import HONEST, Kind, Variant
from harness.tests.simulated_run import judgement_of
from reference_impl.elements import QueueElement, WatermarkStatus
from reference_impl.operator.async_wait import AsyncWaitOperator

SHORT = {
    "chained-operators": (
        "workload.records=60",
        "workload.checkpoint_every=20",
        "faults.dies.when.hit=2",
        "expects.records=120",
        "expects.checkpoints=2",
    ),
    "circuit-opens": (
        "workload.records=60",
        "workload.rate=100/s",
        "workload.checkpoint_every=20",
        "faults.refused.when.at=100ms",
        "faults.ended.when.at=150ms",
        "expects.records=120",
        "expects.checkpoints=2",
    ),
    "commits-overlap": (
        "workload.records=80",
        "workload.checkpoint_every=12",
        "expects.records=160",
        "expects.checkpoints=4",
    ),
    "declared-dead-too-early": (
        "workload.records=240",
        "workload.rate=20/s",
        "workload.checkpoint_every=6",
        "expects.records=480",
        "expects.checkpoints=20",
    ),
    "late-behind-idle-inputs": (
        "workload.records=80",
        "workload.checkpoint_every=16",
        "faults.dies.when.hit=3",
        "expects.records=160",
        "expects.checkpoints=3",
    ),
    "kill-before-store": (
        "workload.records=60",
        "workload.checkpoint_every=12",
        "expects.records=120",
        "expects.checkpoints=4",
    ),
    "late-acknowledgement": (
        "workload.records=60",
        "workload.rate=20/s",
        "workload.checkpoint_every=12",
        "expects.records=120",
    ),
    "old-acknowledgement": (
        "workload.records=60",
        "workload.checkpoint_every=12",
        "expects.records=120",
        "expects.checkpoints=4",
    ),
    "sessions-alignment-timeout": (
        "workload.records=80",
        "workload.checkpoint_every=16",
        "faults.dies.when.hit=3",
        "expects.records=160",
        "expects.checkpoints=3",
    ),
    "sessions-unaligned": (
        "workload.records=80",
        "workload.checkpoint_every=16",
        "faults.dies.when.hit=3",
        "expects.records=160",
        "expects.checkpoints=3",
    ),
    "zombie-between-fence-and-commit": (
        "workload.records=120",
        "workload.rate=20/s",
        "workload.checkpoint_every=12",
        "faults.sleeper.when.hit=2",
        "expects.records=240",
        "expects.checkpoints=4",
    ),
    "zombie-in-transaction": (
        "workload.records=120",
        "workload.rate=20/s",
        "workload.checkpoint_every=12",
        "faults.sleeper.when.hit=2",
        "expects.records=240",
        "expects.checkpoints=4",
    ),
}
"""Cut to what still reaches it. The trial of the catalogue tells reference and planted defect apart in each."""


def ran(name: str, *settings: str, variant: Variant = HONEST, seed: int = 3) -> Simulated:
    scenario = apply_settings(load_many([name])[0], (*SHORT[name], *settings))
    return simulate_scenario(Order(scenario=scenario, level="sim", seed=seed), variant=variant)


def numbers(run: Simulated, kind: type[Any], **wanted: object) -> list[int]:
    """The numbers of the events of that kind with these fields."""
    return [
        event.n
        for event in run.events
        if isinstance(event, kind) and all(getattr(event, name) == value for name, value in wanted.items())
    ]


def test_an_old_acknowledgement_stands_while_the_new_attempt_has_none_trust7() -> None:
    run = ran("old-acknowledgement")

    [old], [new] = numbers(run, Ack, s=1, a=1, c=4), numbers(run, Ack, s=1, a=2, c=4)
    [other], [done] = numbers(run, Ack, s=0, c=4), numbers(run, Done, c=4)
    assert old < numbers(run, Start, s=1, a=2)[0] < other < new < done


def test_the_old_attempt_that_stood_before_its_commit_commits_nothing_trust7() -> None:
    run = ran("zombie-between-fence-and-commit")

    [snap], [successor] = numbers(run, Snap, s=1, a=1, c=2), numbers(run, Start, s=1, a=2)
    [failed] = numbers(run, Failed, s=1, a=1)
    assert snap < successor < failed
    assert numbers(run, Commit, s=1, a=1, c=2) == []


def test_the_old_attempt_inside_its_transaction_outlives_the_take_over_and_commits_nothing_trust7() -> None:
    run = ran("zombie-in-transaction")

    [snap], [successor] = numbers(run, Snap, s=1, a=1, c=2), numbers(run, Start, s=1, a=2)
    [failed] = numbers(run, Failed, s=1, a=1)
    assert snap < successor < failed
    assert numbers(run, Commit, s=1, a=1, c=2) == []


def test_the_old_attempt_commits_between_the_start_and_the_fence_of_its_successor_trust7() -> None:
    run = ran("declared-dead-too-early")

    [replaced] = numbers(run, FaultEvent, f="runs-on", phase="begin")
    [start] = [event for event in run.events if isinstance(event, Start) and (event.s, event.a) == (1, 2)]
    late = [event for event in run.events if isinstance(event, Commit) and (event.s, event.a) == (1, 1)]
    assert replaced < late[-1].n < start.n
    assert late[-1].c == start.from_


def test_a_worker_dies_before_its_file_when_its_part_alone_was_missing_trust7() -> None:
    run = ran("kill-before-store")

    [other], [killed] = numbers(run, Ack, s=0, c=1), numbers(run, Kill, s=1, a=1)
    [new], [done] = numbers(run, Ack, s=1, c=1), numbers(run, Done, c=1)
    assert other < killed < numbers(run, Start, s=1, a=2)[0] < new < done


def test_a_late_acknowledgement_is_refused_while_the_checkpoint_is_open_trust7() -> None:
    run = ran("late-acknowledgement")

    [mine], [failed] = numbers(run, Ack, s=1, c=6), numbers(run, Failed, s=1, a=1)
    [last], [done] = numbers(run, Ack, s=0, c=6), numbers(run, Done, c=6)
    assert mine < failed < last < done


def test_one_subtask_commits_while_the_other_stands_inside_its_transaction_trust7() -> None:
    run = ran("commits-overlap")

    for standing, epoch in ((1, 2), (0, 4)):
        [snap], [commit] = numbers(run, Snap, s=standing, c=epoch), numbers(run, Commit, s=standing, c=epoch)
        assert any(snap < other < commit for other in numbers(run, Commit, s=1 - standing))


def test_the_circuit_opens_and_tries_and_closes_again_trust7() -> None:
    seen: list[str] = []

    class Told(Circuit):
        def admits(self) -> bool:
            was_open, admitted = not self.is_closed, super().admits()
            if was_open:
                seen.append("tries" if admitted else "refuses")
            return admitted

        def succeeded(self) -> None:
            if not self.is_closed:
                seen.append("closes")
            super().succeeded()

    def told(pool: Kind) -> Kind:
        class ToldPool(pool):  # type: ignore[misc]  # a class made of a class
            def __init__(self, *args: Any, **parts: Any) -> None:
                super().__init__(*args, **parts)
                honest: Any = self.__dict__["_circuit"]
                self._circuit = Told(now_s=honest._now_s, backoff=honest._backoff)

        return ToldPool

    run = ran("circuit-opens", variant=Variant(pool=told))

    assert judgement_of(run).outcome is Outcome.PASS
    assert seen.count("tries") > seen.count("closes") >= 1
    assert seen.index("refuses") < seen.index("closes")


def restored_from(run: Simulated) -> tuple[Start, list[dict[str, Any]]]:
    """The start of attempt 2 of subtask 1, and the elements of its checkpoint in stored form."""
    [start] = [event for event in run.events if isinstance(event, Start) and (event.s, event.a) == (1, 2)]
    _, position, elements = run.tables.epoch.newest((1, start.from_)) or (0, 0, "[]")
    assert start.pos == position
    return start, json.loads(elements)


def test_what_the_operator_in_front_holds_is_restored_behind_what_the_lookups_hold_trust7() -> None:
    start, stored = restored_from(ran("chained-operators"))

    held = [element["upstream"]["pos"] for element in stored if "upstream" in element]
    assert held == list(range(start.pos, start.pos + len(held)))
    assert held
    assert stored[-len(held) :] == [element for element in stored if "upstream" in element]


@pytest.mark.parametrize("name", ["sessions-unaligned", "sessions-alignment-timeout"])
def test_what_barriers_overtook_is_restored_from_the_first_element_not_read_trust7(name: str) -> None:
    start, [_, channels, *_] = restored_from(ran(name))

    held = sorted({element["pos"] for _, element in channels["channels"]})
    assert held == list(range(start.pos, channels["until"]))
    assert held
    assert {number for number, _ in channels["channels"]} == {0, 1}


@pytest.mark.parametrize("name", ["sessions-unaligned", "sessions-alignment-timeout"])
def test_what_barriers_overtook_is_counted_by_the_clock_as_if_they_had_not_trust7(name: str) -> None:
    run = ran(name, "task.timers=processing-time", "task.ttl=40ms", "task.gap=30ms")

    assert (run.error, judgement_of(run).outcome) == (None, Outcome.PASS)


@pytest.mark.parametrize("name", ["sessions-unaligned", "sessions-alignment-timeout"])
def test_latency_markers_that_barriers_overtook_come_again_behind_what_stood_before_them_a54_trust7(
    name: str,
) -> None:
    run = ran(name, "task.latency_markers=3")
    _, [_, channels, *_] = restored_from(run)

    assert (run.error, judgement_of(run).outcome) == (None, Outcome.PASS)
    held = [[element for of, element in channels["channels"] if of == number] for number in (0, 1)]
    marked = [
        (marker["marker"], record["pos"])
        for elements in held
        for marker, record in pairwise(elements)
        if "marker" in marker
    ]
    assert marked
    assert all(marker == position for marker, position in marked)


def test_markers_that_wait_are_convicted_also_beside_barriers_that_overtake_a54_trust7() -> None:
    planted = variant_of("tools.defects:latency_markers_wait")

    judgement = judgement_of(
        ran("sessions-unaligned", "task.latency_markers=3", variant=planted), variant=planted
    )

    assert judgement.outcome is Outcome.FAIL


def test_the_first_design_whose_statuses_overtake_is_convicted_a55_trust7() -> None:
    scenario = apply_settings(load_many(["late-behind-idle-inputs"])[0], SHORT["late-behind-idle-inputs"])
    run = simulate_scenario(Order(scenario=scenario, level="sim", seed=3, sut=REFERENCE_EMITTER))

    verdicts = judgement_of(run).invariants

    assert {verdict.invariant for verdict in verdicts if verdict.outcome is Outcome.FAIL} == {"V8", "V9"}


class _OmitsStatuses(AsyncWaitOperator):
    """Its snapshots hold no statuses."""

    def snapshot(self) -> tuple[QueueElement, ...]:
        return tuple(element for element in super().snapshot() if not isinstance(element, WatermarkStatus))


def test_a_snapshot_that_lacks_a_status_is_convicted_after_the_restart_a55_trust7() -> None:
    omitting = Variant(build_operator=building(_OmitsStatuses))

    run = ran("late-behind-idle-inputs", variant=omitting)

    assert judgement_of(run, variant=omitting).outcome is Outcome.FAIL
