"""Situations, one trouble at a time: what must happen does, and nothing of it breaks a promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.history.event import (
    Call,
    Commit,
    Dead,
    Effect,
    Failed,
    FaultEvent,
    Kill,
    Owm,
    Res,
    Restore,
    Snap,
    Start,
)
from harness.sim.situation import Crash, Disturbance, DisturbanceKind, Zombie
from harness.sim.situation_run import header_of
from harness.sim.tests.situations import only, ran, situation, violated
from harness.sim.variant import Variant

SINKS = ("rollback", "append", "atomic", "two-phase")


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("style", ["barriers", "mail"])
def test_with_every_sink_and_style_each_record_leaves_once(sink: str, style: str) -> None:
    calm = situation(checkpoints={"sink": sink, "style": style}, stream={"subtasks": 2})

    left = ran(calm)

    assert left.error is None
    assert left.header.sink == sink
    assert violated(left) == []
    assert len(only(Snap, left.events)) >= 2


def test_equal_situations_and_seeds_leave_equal_histories() -> None:
    stormy = situation(lookups={"slow_share": 20, "slow_ms": 40}, crashes=(_crash("emit", 2),))

    assert ran(stormy, seed=7).events == ran(stormy, seed=7).events
    assert ran(stormy, seed=7).events != ran(stormy, seed=8).events


def _crash(phase: Any, hit: int, subtask: int = 0) -> Crash:
    return Crash(name="crash-1", subtask=subtask, phase=phase, hit=hit)


def test_all_subtasks_restart_together_from_the_latest_completed_checkpoint() -> None:
    left = ran(situation(stream={"subtasks": 2, "records": 12}, crashes=(_crash("snap.end", 3),)))

    assert violated(left) == []
    again = [start for start in only(Start, left.events) if start.from_ is not None]
    assert {start.s for start in again} == {0, 1}
    assert len({start.from_ for start in again}) == 1


def test_over_an_atomic_sink_only_the_crashed_subtask_restarts() -> None:
    crashed = situation(
        checkpoints={"sink": "atomic"},
        stream={"subtasks": 2, "records": 12},
        crashes=(_crash("snap.end", 3),),
    )

    left = ran(crashed)

    assert violated(left) == []
    assert {start.s for start in only(Start, left.events) if start.a > 1} == {0}


def test_what_a_dead_attempt_prepared_for_a_completed_checkpoint_is_committed_by_the_next() -> None:
    left = ran(situation(crashes=(_crash("notify", 1),)))

    assert violated(left) == []
    died = next(event.n for event in left.events if isinstance(event, Kill))
    assert next(commit.a for commit in only(Commit, left.events) if commit.n > died) == 1


def test_a_notification_that_comes_again_commits_nothing_again() -> None:
    left = ran(situation(checkpoints={"notify_again_share": 100}))

    assert violated(left) == []
    numbers = [commit.c for commit in only(Commit, left.events)]
    assert numbers == sorted(set(numbers))


def test_what_a_lost_notification_left_open_the_next_one_commits() -> None:
    left = ran(situation(stream={"records": 12}, checkpoints={"notify_lost_share": 100}))

    assert left.error is None
    assert violated(left) == []
    assert len(only(Commit, left.events)) == len(only(Snap, left.events))


def test_a_statement_whose_answer_was_lost_takes_effect_once() -> None:
    lossy = situation(stream={"records": 12}, checkpoints={"reply_lost_share": 60, "tells_outputs": True})

    left = ran(lossy)

    assert violated(left) == []
    rows = [(row.id, row.j) for row in only(Effect, left.events)]
    assert len(rows) == len(set(rows)) == 12


def test_a_call_whose_answer_was_lost_is_made_again_and_writes_its_row_once() -> None:
    lossy = situation(
        operator={"timeout_ms": 200, "max_tries": 4, "backoff_ms": 2},
        lookups={"loss_share": 70, "unlucky_max": 2, "writes": True},
    )

    left = ran(lossy)

    assert violated(left) == []
    assert max(call.try_ for call in only(Call, left.events)) > 1
    assert len(only(Effect, left.events)) == 6


def test_a_blocked_element_is_in_the_snapshot_and_the_position_behind_it() -> None:
    hard = situation(
        operator={"capacity": 1, "back_pressure": "hard"},
        stream={"every_ms": 0, "watermark_every": 0},
        checkpoints={"style": "mail", "every": 4},
    )

    left = ran(hard)

    assert violated(left) == []
    blocked = [snap for snap in only(Snap, left.events) if len(snap.elements) == 2]
    assert blocked
    assert all(snap.elements[1] == {"id": snap.pos - 1} for snap in blocked)


def test_a_checkpoint_asked_for_during_a_restore_is_cut_after_it() -> None:
    hard = situation(
        operator={"capacity": 1, "back_pressure": "hard"},
        stream={"every_ms": 0, "watermark_every": 0},
        lookups={"latency_ms": (20, 30)},
        checkpoints={"sink": "atomic", "style": "mail", "every": 8},
        crashes=(_crash("commit.post", 2),),
    )

    left = ran(hard)

    assert violated(left) == []
    restore = only(Restore, left.events)[0]
    assert len(restore.elements) == 2
    later = [snap for snap in only(Snap, left.events) if snap.a == restore.a]
    assert len({snap.c for snap in later}) == len(later) > 0


def test_a_zombie_goes_on_after_its_successor_has_begun_and_is_fenced() -> None:
    zombie = Zombie(name="zombie", subtask=0, phase="snap.end", hit=1, paused_ms=80)

    left = ran(situation(stream={"records": 20}, checkpoints={"sink": "atomic"}, zombies=(zombie,)))

    assert violated(left) == []
    successor = next(start for start in only(Start, left.events) if start.a > 1)
    failed = next(event for event in only(Failed, left.events) if event.a == 1)
    assert failed.n > successor.n
    assert "Fenced" in failed.error
    assert all(commit.a == successor.a for commit in only(Commit, left.events))


def test_the_successor_of_a_zombie_may_be_killed_too_and_what_the_zombie_did_does_not_count() -> None:
    zombie = Zombie(name="zombie", subtask=0, phase="snap.end", hit=1, paused_ms=60, then_kill_ms=10)

    left = ran(situation(stream={"records": 20}, zombies=(zombie,)))

    assert violated(left) == []
    assert {start.a for start in only(Start, left.events)} >= {1, 2, 3}
    assert "crash-of-successor" in {fault.f for fault in only(FaultEvent, left.events)}


def test_the_dead_letters_of_a_record_follow_its_failure_and_the_task_goes_on() -> None:
    unlucky = situation(
        operator={"on_error": "dead-letter"},
        lookups={"error_share": 60, "unlucky_max": 1},
        stream={"records": 12},
    )

    left = ran(unlucky)

    assert violated(left) == []
    assert only(Dead, left.events)
    assert not only(Failed, left.events)
    for dead in only(Dead, left.events):
        before = left.events[left.events.index(dead) - 1]
        assert isinstance(before, Res)
        assert (before.id, before.r) == (dead.id, "fail")


def test_reused_objects_are_copied_and_each_record_keeps_its_own_value() -> None:
    left = ran(situation(stream={"reuses_objects": True, "every_ms": 0}))

    assert violated(left) == []


def test_the_final_watermark_is_told_as_the_end() -> None:
    left = ran(situation(stream={"final_watermark": True}))

    assert [mark.w for mark in only(Owm, left.events)][-1] == "end"


@pytest.mark.parametrize(
    "kind", ["latency", "blackhole", "down", "reset", "errors", "lock", "stall", "clock-jump"]
)
def test_each_disturbance_begins_and_ends_with_evidence(kind: DisturbanceKind) -> None:
    disturbance = Disturbance(
        name="trouble", kind=kind, at_call=2, lasts_ms=40, amount_ms=30, links=("lookups", "sink")
    )

    left = ran(situation(stream={"records": 12}, disturbances=(disturbance,)), seed=3)

    assert violated(left) == []
    begun, ended = only(FaultEvent, left.events)
    assert (begun.phase, ended.phase) == ("begin", "end")
    assert ended.evidence
    assert (begun.stalls is True) == (kind == "stall")


def test_a_second_disturbance_may_begin_while_the_first_stalls_an_attempt() -> None:
    stall = Disturbance(name="stall", kind="stall", at_call=2, lasts_ms=40)
    jump = Disturbance(name="jump", kind="clock-jump", at_call=2, lasts_ms=40, amount_ms=5)

    left = ran(situation(stream={"subtasks": 2}, disturbances=(stall, jump)))

    assert violated(left) == []
    assert not only(Failed, left.events)
    assert len(only(FaultEvent, left.events)) == 4


def test_a_run_in_which_nothing_can_happen_any_more_is_given_up() -> None:
    class Deaf:
        """A function that never answers."""

        def invoke(self, value: Any, handle: Any) -> None:
            """Nothing."""

        def timeout(self, value: Any, handle: Any) -> None:
            """Nothing."""

    left = ran(situation(), variant=Variant(function=lambda _honest, _attempt: Deaf()))

    assert left.error is not None
    assert violated(left) == ["V16"]


def test_the_gap_between_checkpoints_is_claimed_only_where_nothing_holds_them_up() -> None:
    calm = situation(checkpoints={"style": "mail", "every": 20})
    disturbed = replace(calm, crashes=(_crash("emit", 2),))

    assert header_of(calm, seed=1, sink="two-phase").bounds.checkpoint_gap is not None
    assert header_of(disturbed, seed=1, sink="two-phase").bounds.checkpoint_gap is None
