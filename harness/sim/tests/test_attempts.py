"""Attempts in virtual time: they pass, they die, they go on from the last commit, they are fenced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.checkers.judge import judge
from harness.history.event import Close, Commit, Failed, FaultEvent, GiveUp, Kill, Restore, Start
from harness.history.header import Header, Operator
from harness.runs.plan import Crash
from harness.sim.atomic_sink import AtomicSink
from harness.sim.attempt import Attempt
from harness.levels.sim.crashes import PHASES
from harness.sim.database import Troubles
from harness.sim.tests.sim_rig import SmallRun, small_run
from harness.verdict import Outcome
from reference_impl.async_function import AsyncFunction
from reference_impl.result import ResultHandle

HEADER = Header(operator=Operator(mode="ordered", capacity=4, timeout_ms=0), sink="atomic", effects="outputs")


def verdict(small: SmallRun) -> Outcome:
    return judge(HEADER, small.run.tape.events).outcome


def of(small: SmallRun, kind: type[Any]) -> list[Any]:
    return [event for event in small.run.tape.events if isinstance(event, kind)]


def test_a_small_run_passes() -> None:
    small = small_run()

    small.go()

    assert verdict(small) is Outcome.PASS
    assert small.kinds()[-1] == "effect"
    assert [event.c for event in of(small, Commit)] == [1, 2, 3]


@pytest.mark.parametrize("phase", PHASES)
def test_a_crash_at_any_phase_costs_no_record(phase: str) -> None:
    first = [Crash(fault="first", subtask=0, phase="call", hit=5)] if phase.startswith("restore") else []
    crash = Crash(fault="kill", subtask=0, phase=phase, hit=1 if first else 2 if phase in PHASES[3:11] else 1)
    small = small_run(crashes=[*first, crash])

    small.go()

    assert verdict(small) is Outcome.PASS
    assert len(of(small, Kill)) == len(first) + 1
    ends = [event for event in of(small, FaultEvent) if event.f == "kill" and event.phase == "end"]
    assert [event.evidence["phase"] for event in ends] == [phase]


def test_nothing_of_a_killed_attempt_is_written_after_its_kill() -> None:
    small = small_run(crashes=[Crash(fault="kill", subtask=0, phase="call", hit=5)])

    small.go()

    events = small.run.tape.events
    death = next(place for place, event in enumerate(events) if isinstance(event, Kill))
    dead = events[death]
    assert isinstance(dead, Kill)
    assert not [event for event in events[death + 1 :] if getattr(event, "a", None) == dead.a]


def test_a_successor_restores_what_was_committed_last() -> None:
    small = small_run(crashes=[Crash(fault="kill", subtask=0, phase="call", hit=5)])

    small.go()

    [_, second] = of(small, Start)
    [restore] = of(small, Restore)
    assert (second.from_, second.pos, restore.c) == (2, 6, 2)


@pytest.mark.parametrize("seed", range(10))
def test_a_lost_answer_to_a_commit_is_settled_and_not_committed_twice(seed: int) -> None:
    small = small_run(seed=seed, troubles=Troubles(lost_replies=700))

    small.go()

    assert verdict(small) is Outcome.PASS
    assert [event.c for event in of(small, Commit)] == [1, 2, 3]
    assert small.run.links["sink"].made > 1, "some connection must have been lost"


def test_an_error_of_the_servers_fails_the_attempt_and_the_next_one_goes_on() -> None:
    troubles = Troubles(error_codes=(1146,), errors=100)
    runs = [small_run(seed=seed, troubles=troubles) for seed in range(20)]

    failing = next(small for small in runs if of_failed(small))

    assert verdict(failing) is Outcome.PASS
    assert len(of(failing, Close)) == len(of(failing, Start))


def of_failed(small: SmallRun) -> Sequence[Failed]:
    small.go()
    return [] if small.run.error else of(small, Failed)


def test_a_zombie_is_fenced_inside_the_transaction() -> None:
    small = small_run(records=9)
    run = small.run
    zombie: list[Attempt] = []

    def pause_and_replace() -> None:
        zombie.append(run.attempts[0])
        zombie[0].actor.pause()
        run.begin(small.job, 0, at_ms=run.hub.now_ms + 1)
        run.hub.at(run.hub.now_ms + 300, zombie[0].actor.resume)

    run.hub.at(8, pause_and_replace)
    small.go()

    assert verdict(small) is Outcome.PASS
    assert zombie[0].actor.error is not None
    assert "fenced" in str(zombie[0].actor.error)


class _Silent:
    """A function that never answers."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """See `AsyncFunction`."""

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """See `AsyncFunction`."""


def test_an_operator_that_waits_for_ever_ends_with_a_giveup() -> None:
    def never(attempt: Attempt) -> AsyncFunction:
        del attempt
        return _Silent()

    small = small_run(function=never)

    run = small.go()

    assert run.stuck
    assert "stuck" in str(run.error)
    assert len(of(small, GiveUp)) == 1
    assert judge(HEADER, run.tape.events).outcome is Outcome.FAIL


class _TwiceVisible(AtomicSink):
    """Makes its rows visible, then again."""

    def make_visible(self, epoch: int) -> None:
        """See `AtomicSink`."""
        super().make_visible(epoch)
        super().make_visible(epoch)


def test_the_sink_of_a_run_can_be_a_broken_one_and_is_convicted() -> None:
    small = small_run(sink=_TwiceVisible)

    small.go()

    assert verdict(small) is Outcome.FAIL


def test_more_failures_than_are_allowed_end_the_run_without_a_giveup() -> None:
    crashes = [Crash(fault=f"kill {turn}", subtask=0, phase="open", hit=turn) for turn in range(1, 5)]
    small = small_run(crashes=crashes)

    run = small.go()

    assert "failed 4 times" in str(run.error)
    assert not of(small, GiveUp)
