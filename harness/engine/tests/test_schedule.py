"""The schedule: begins when a trigger comes, ends, repeats, and heals whatever happens."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.real.evidence import ProxyEvidence
from harness.faults.tests.fake_site import MS, Stage, scenario
from harness.history.follower import AttemptView
from harness.history.notes import FaultDue, Healed, ProxyActed
from harness.scenario.moments import instant_ms
from harness.system.errors import HarnessError, WorldError


def latency(when: dict[str, Any], *, name: str = "slow", **fields: Any) -> dict[str, Any]:
    fault = {"id": name, "do": "latency", "link": "lookups", "delay": "100ms", "when": when, "for": "300ms"}
    return {**fault, **fields}


DOWN = {"id": "cut", "do": "down", "link": "sink", "when": {"at": "0ms"}, "for": "1s"}
ARMED = ["~due slow", "~arming slow", "+slow.downstream", "~armed slow"]
HEALED = ["~healing slow", "-slow.downstream", "~healed slow"]


def test_a_fault_at_a_time_waits_for_it_since_the_first_record() -> None:
    stage = Stage(latency({"at": "400ms"}))

    assert stage.at(399) == []
    assert stage.at(400) == ARMED


def test_no_time_passes_before_each_subtask_is_at_work() -> None:
    """On a busy machine a worker starts seconds after the other, and the fault would find nothing of it to meet."""
    stage = Stage(latency({"at": "400ms"}))
    stage.schedule.subtasks = 2

    assert stage.at(10_000) == []
    stage.progress.began_us[1] = (5_000 + 10_000) * MS
    assert stage.at(10_399) == []
    assert stage.at(10_400) == ARMED


def test_a_drawn_time_is_the_seeds() -> None:
    fault = latency({"between": ["100ms", "900ms"]})
    (entry,) = scenario(fault).faults
    times = [instant_ms(entry, seed=seed) for seed in range(40)]

    assert all(time is not None and 100 <= time <= 900 for time in times)
    assert len(set(times)) > 30
    drawn = instant_ms(entry, seed=7)
    assert drawn is not None
    stage = Stage(fault, seed=7)
    assert stage.at(drawn - 1) == []
    assert stage.at(drawn) == ARMED


@pytest.mark.parametrize(
    ("when", "subtask", "arms"),
    [
        ({"checkpoint": 3}, 1, True),
        ({"checkpoint": 3, "subtask": 1}, 1, True),
        ({"checkpoint": 3, "subtask": 0}, 1, False),
        ({"checkpoint": 4}, 1, False),
    ],
)
def test_a_fault_at_a_checkpoint_waits_for_its_commit(when: dict[str, Any], subtask: int, arms: bool) -> None:  # noqa: FBT001 - a case
    stage = Stage(latency(when))
    assert stage.at(0) == []

    stage.progress.commits[subtask, 3] += 1

    assert bool(stage.at(1)) is arms


@pytest.mark.parametrize(
    ("when", "arms"),
    [
        ({"call": 7}, True),
        ({"call": 8}, False),
        ({"call": 4, "subtask": 1}, True),
        ({"call": 5, "subtask": 1}, False),
    ],
)
def test_a_fault_at_a_call_counts_those_of_its_subtask_or_of_all(when: dict[str, Any], arms: bool) -> None:  # noqa: FBT001 - a case
    stage = Stage(latency(when))
    assert stage.at(0) == []

    stage.progress.calls.update({0: 3, 1: 4})

    assert bool(stage.at(1)) is arms


@pytest.mark.parametrize(
    ("when", "arms"),
    [
        ({"record": 4}, True),
        ({"record": 5}, False),
        ({"record": 3, "subtask": 0}, True),
        ({"record": 4, "subtask": 0}, False),
    ],
)
def test_a_fault_at_a_record_waits_for_any_source_to_stand_there_or_for_the_one_named(
    when: dict[str, Any],
    arms: bool,  # noqa: FBT001 - a case
) -> None:
    stage = Stage(latency(when))
    assert stage.at(0) == []

    stage.progress.taken.update({0: 3, 1: 4})

    assert bool(stage.at(1)) is arms


def test_a_fault_heals_when_its_time_since_arming_is_over_and_never_comes_again() -> None:
    stage = Stage(latency({"at": "400ms"}))
    stage.at(450)

    assert stage.at(749) == []
    assert stage.schedule.active() == {"slow": False}
    assert stage.at(750) == HEALED
    assert stage.schedule.active() == {}
    assert stage.at(5000) == []


def test_an_active_fault_may_be_ended_early_and_what_repeats_comes_again() -> None:
    stage = Stage(latency({"at": "400ms"}, repeat=2, every="2s"))
    stage.at(450)

    stage.schedule.end_active()

    assert stage.at(460) == HEALED
    assert stage.at(2399) == []
    assert stage.at(2400) == ARMED


def prolonged(*faults: dict[str, Any]) -> Stage:
    stage = Stage(*faults)
    stage.schedule.prolongs_us = 10_000_000
    stage.at(0)
    return stage


def test_where_attempts_come_and_go_a_fault_lasts_until_one_has_met_it() -> None:
    stage = prolonged(DOWN)
    stage.at(1000)
    assert stage.schedule.active() == {"cut": False}

    stage.progress.losses.append((stage.now_us, "sink", 2003))
    stage.progress.errors.append((stage.now_us, "sink", 2003))
    for ms in range(1100, 1400, 50):
        stage.at(ms)

    assert stage.schedule.active() == {}


def test_where_attempts_come_and_go_a_reset_waits_for_a_lookup_in_flight() -> None:
    stage = prolonged({"id": "resets", "do": "reset_now", "link": "lookups", "when": {"at": "300ms"}})
    assert stage.at(400) == []

    stage.progress.attempts[0, 1] = AttemptView(subtask=0, attempt=1, in_flight=2, snapped=True)
    assert stage.at(440) == []

    stage.progress.attempts[0, 5] = AttemptView(subtask=0, attempt=5, in_flight=2)

    assert "cut lookups rst" in stage.at(450)


def test_a_fault_that_nobody_meets_ends_all_the_same() -> None:
    stage = prolonged(DOWN)

    stage.at(10_900)
    assert stage.schedule.active() == {"cut": False}
    stage.at(11_000)

    assert stage.schedule.active() == {}


def test_a_fault_that_repeats_comes_again_at_a_fixed_pace_and_as_often_as_asked() -> None:
    stage = Stage(latency({"at": "0ms"}, repeat=3, every="500ms"))
    acts: list[int] = []

    for ms in range(0, 3000, 50):
        acts += [ms] if "~armed slow" in stage.at(ms) else []

    assert acts == [0, 500, 1000]
    assert [note.cycle for note in stage.lines if isinstance(note, Healed)] == [0, 1, 2]
    assert [note.due for note in stage.lines if isinstance(note, FaultDue)] == [
        5_000_000,
        5_500_000,
        6_000_000,
    ]


def test_a_repeat_waits_for_the_time_before_to_heal() -> None:
    """The pace stays: a late one makes no later one late."""
    stage = Stage(latency({"at": "0ms"}, repeat=3, every="400ms"))
    stage.at(200)

    assert stage.at(400) == []
    assert stage.at(500) == HEALED
    assert stage.at(501) == ARMED
    assert stage.at(801) == HEALED
    assert stage.at(802) == ARMED


def test_faults_may_overlap_on_one_link() -> None:
    stage = Stage(latency({"at": "0ms"}, name="one"), latency({"at": "100ms"}, name="two"))
    stage.at(0)
    stage.at(100)

    assert stage.schedule.active() == {"one": False, "two": False}


@pytest.mark.parametrize("when", [{"at": "0ms"}, {"record": 4}, {"call": 4}, {"checkpoint": 1}])
def test_two_faults_of_one_moment_both_begin(when: dict[str, Any]) -> None:
    """At levels live and spark, and in jobs, by real acts."""
    stage = Stage(latency(when), latency(when, name="other"))
    stage.at(0)
    stage.progress.taken.update({0: 4})
    stage.progress.calls.update({0: 4})
    stage.progress.commits[0, 1] += 1

    stage.at(1)

    assert stage.schedule.active() == {"slow": False, "other": False}


def test_without_a_duration_a_fault_acts_until_it_has_bitten() -> None:
    stage = Stage({"id": "cut", "do": "cut", "link": "sink", "when": {"at": "0ms"}})
    stage.at(0)
    assert stage.at(5_000) == []

    stage.progress.losses.append((stage.now_us, "sink", 2013))

    assert stage.at(5_200) == ["~bit cut", "~healing cut", "~healed cut"]


def test_without_a_duration_a_fault_that_never_bites_is_given_up() -> None:
    stage = Stage({"id": "cut", "do": "cut", "link": "sink", "when": {"at": "0ms"}})
    stage.at(0)

    assert stage.at(10_000) == ["~healing cut", "~healed cut"]


def test_it_is_noted_as_armed_once_it_acts_and_as_healing_before_it_stops() -> None:
    stage = Stage(DOWN)

    with stage.schedule:
        stage.at(0)

    assert stage.log == [
        "~due cut", "~arming cut", "disable sink", "~armed cut", "~healing cut", "enable sink", "~healed cut",
    ]  # fmt: skip


def test_what_is_armed_at_the_end_is_healed_in_the_reverse_order() -> None:
    stage = Stage(
        latency({"at": "0ms"}, name="one"), latency({"at": "5ms"}, name="two"), latency({"at": "9s"})
    )

    with stage.schedule:
        stage.at(0)
        stage.at(5)

    assert [line for line in stage.log if line.startswith("-")] == ["-two.downstream", "-one.downstream"]


@pytest.mark.parametrize("breaks", [KeyboardInterrupt, WorldError("no server")])
def test_what_is_armed_is_healed_when_the_run_breaks(breaks: BaseException | type[BaseException]) -> None:
    stage = Stage(latency({"at": "0ms"}))

    def break_it() -> None:
        with stage.schedule:
            stage.at(0)
            raise breaks

    with pytest.raises((KeyboardInterrupt, WorldError)):
        break_it()
    assert stage.log[-3:] == HEALED


def test_a_note_that_cannot_be_written_does_not_keep_a_fault_from_healing() -> None:
    def full_disk(kind: str, fault: str) -> None:
        if (kind, fault) == ("~healing", "two"):
            raise OSError("disk full")

    stage = Stage(latency({"at": "0ms"}, name="one"), latency({"at": "0ms"}, name="two"), note=full_disk)

    def run() -> None:
        with stage.schedule:
            stage.at(0)

    with pytest.raises(WorldError, match="disk full"):
        run()
    assert sorted(line for line in stage.log if line.startswith("-")) == [
        "-one.downstream",
        "-two.downstream",
    ]


def test_a_fault_that_cannot_be_armed_gives_the_run_up_and_says_which_it_was() -> None:
    stage = Stage(DOWN, latency({"at": "5ms"}), failing=2)

    def run() -> None:
        with stage.schedule:
            stage.at(0)
            stage.at(5)
            stage.at(6)

    with pytest.raises(WorldError, match=r"fault slow \(latency\) could not be armed: the proxy is gone"):
        run()
    assert stage.proxy.acts == []
    assert stage.log[-3:] == ["~healing cut", "enable sink", "~healed cut"]


def test_a_fault_that_broke_in_the_last_moment_is_not_passed_over() -> None:
    stage = Stage(latency({"at": "0ms"}), failing=1)

    def run() -> None:
        with stage.schedule:
            stage.step(0)

    with pytest.raises(WorldError, match="could not be armed"):
        run()


def test_a_fault_that_breaks_by_our_own_mistake_is_a_harness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(latency({"at": "0ms"}))
    monkeypatch.setattr(stage.proxy, "add_toxic", lambda link, toxic: toxic.no_such_thing)
    stage.at(0)

    with pytest.raises(HarnessError, match=r"fault slow \(latency\) could not be armed: AttributeError"):
        stage.at(1)


def test_a_fault_that_acts_says_when_it_bites() -> None:
    stage = Stage(DOWN)
    stage.at(0)
    assert stage.schedule.active() == {"cut": False}

    stage.progress.losses.append((stage.now_us, "sink", 2013))

    assert stage.at(200) == ["~bit cut"]
    assert stage.schedule.active() == {"cut": True}
    assert stage.at(400) == []
    assert stage.told == ["cut begins", "cut took effect: connections_lost 1, codes {'2013': 1}"]


def test_the_proxys_events_of_a_fault_are_noted_and_no_others() -> None:
    stage = Stage(latency({"at": "0ms"}), keeps_log=True)
    assert stage.proxy.events_done is not None
    stage.proxy.events_done.append(ProxyEvidence(t_us=1, did="delayed", toxic="slow.downstream"))

    with stage.schedule:
        stage.at(0)
        for toxic in ("slow.downstream", "slower", "slow-too.downstream"):
            stage.proxy.events_done.append(
                ProxyEvidence(t_us=2, did="delayed", toxic=toxic, ms=100, more={"chunks": 1})
            )

    events = [note.deed for note in stage.lines if isinstance(note, ProxyActed)]
    assert events == [{"t": 2, "did": "delayed", "toxic": "slow.downstream", "ms": 100, "chunks": 1}]


def test_a_kill_is_not_the_schedules_to_do() -> None:
    stage = Stage({"id": "kill", "do": "kill_worker", "subtask": 0, "when": {"phase": "committed", "hit": 1}})

    assert stage.at(10_000) == []
    assert stage.schedule.active() == {}
