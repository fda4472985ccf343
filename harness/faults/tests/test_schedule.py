"""The schedule: arms when its trigger comes, heals when its time is over, and heals whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.faults.fault import Evidence
from harness.faults.schedule import Schedule
from harness.history.follower import Progress
from harness.scenario import Scenario

MS = 1000


class Proxy:
    """A control that remembers what was done to it; `log` is shared with the notes."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def add_toxic(self, link: str, toxic: Any) -> None:
        self._log.append(f"+{toxic.name}")

    def remove_toxic(self, link: str, name: str) -> None:
        self._log.append(f"-{name}")

    def disable(self, link: str) -> None:
        self._log.append(f"disable {link}")

    def enable(self, link: str) -> None:
        self._log.append(f"enable {link}")


class Stage:
    """A schedule of `faults` over a proxy, with its log and a clock to set."""

    def __init__(
        self, *faults: dict[str, Any], note: Callable[[str, str], None] = lambda kind, fault: None
    ) -> None:
        self.log: list[str] = []
        self.now_us = 5_000 * MS
        self.progress = Progress(first_record_us=5_000 * MS)
        self._note = note
        self.schedule = Schedule(_scenario(*faults), control=Proxy(self.log), note=self._noted)

    def _noted(self, kind: str, fault: str, evidence: Evidence) -> int:
        self.log.append(f"{kind} {fault}")
        self._note(kind, fault)
        return self.now_us

    def at(self, ms: int) -> list[str]:
        """Step at `ms` after the first record; what that did."""
        self.now_us = (5_000 + ms) * MS
        before = len(self.log)
        self.schedule.step(self.progress, now_us=self.now_us)
        return self.log[before:]


def _scenario(*faults: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(
        {
            "scenario": "small",
            "about": "A small one for tests.",
            "operator": {"mode": "ordered"},
            "workload": {"records": 400, "checkpoint_every": 40},
            "faults": list(faults),
            "decisive": ["V8"],
        }
    )


def latency(when: dict[str, Any], *, name: str = "slow", lasts: str = "300ms") -> dict[str, Any]:
    return {"id": name, "do": "latency", "link": "lookups", "delay": "100ms", "when": when, "for": lasts}


def test_a_fault_at_a_time_waits_for_it_since_the_first_record() -> None:
    stage = Stage(latency({"at": "400ms"}))

    assert stage.at(399) == []
    assert stage.at(400) == ["+slow", "~armed slow"]


def test_no_time_passes_before_the_first_record() -> None:
    stage = Stage(latency({"at": "0ms"}))
    stage.progress.first_record_us = None

    assert stage.at(10_000) == []


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


def test_a_fault_heals_when_its_time_since_arming_is_over_and_never_comes_again() -> None:
    stage = Stage(latency({"at": "400ms"}))
    stage.at(450)

    assert stage.at(749) == []
    assert stage.schedule.active(now_us=stage.now_us) == {"slow": False}
    assert stage.at(750) == ["~healing slow", "-slow"]
    assert stage.schedule.active(now_us=stage.now_us) == {}
    assert stage.at(5000) == []


def test_it_is_noted_as_armed_once_it_acts_and_as_healing_before_it_stops() -> None:
    stage = Stage({"id": "cut", "do": "down", "link": "sink", "when": {"at": "0ms"}, "for": "1s"})

    with stage.schedule:
        stage.at(0)

    assert stage.log == ["disable sink", "~armed cut", "~healing cut", "enable sink"]


def test_what_is_armed_at_the_end_is_healed_in_the_reverse_order() -> None:
    stage = Stage(
        latency({"at": "0ms"}, name="one"), latency({"at": "5ms"}, name="two"), latency({"at": "9s"})
    )

    with stage.schedule:
        stage.at(0)
        stage.at(5)

    assert [line for line in stage.log if line.startswith("-")] == ["-two", "-one"]


def test_what_is_armed_is_healed_when_the_run_breaks() -> None:
    stage = Stage(latency({"at": "0ms"}))

    def break_it() -> None:
        with stage.schedule:
            stage.at(0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_it()
    assert stage.log[-2:] == ["~healing slow", "-slow"]


def test_a_note_that_cannot_be_written_does_not_keep_a_fault_from_healing() -> None:
    def full_disk(kind: str, fault: str) -> None:
        if (kind, fault) == ("~healing", "two"):
            raise OSError("disk full")

    stage = Stage(latency({"at": "0ms"}, name="one"), latency({"at": "0ms"}, name="two"), note=full_disk)

    def run() -> None:
        with stage.schedule:
            stage.at(0)

    with pytest.raises(OSError, match="disk full"):
        run()
    assert [line for line in stage.log if line.startswith("-")] == ["-two", "-one"]


def test_a_blackhole_without_a_direction_acts_on_both() -> None:
    stage = Stage({"id": "hole", "do": "blackhole", "link": "lookups", "when": {"at": "0ms"}, "for": "1s"})

    with stage.schedule:
        stage.at(0)

    assert sorted(stage.log[:2]) == ["+hole-downstream", "+hole-upstream"]
    assert sorted(stage.log[-2:]) == ["-hole-downstream", "-hole-upstream"]


def test_a_fault_that_acts_says_whether_it_bites_yet() -> None:
    stage = Stage({"id": "cut", "do": "down", "link": "sink", "when": {"at": "0ms"}, "for": "1s"})
    stage.at(0)
    assert stage.schedule.active(now_us=stage.now_us) == {"cut": False}

    stage.progress.losses.append((stage.now_us, "sink", 2013))

    assert stage.schedule.active(now_us=stage.now_us) == {"cut": True}


def test_a_kill_is_not_the_schedules_to_do() -> None:
    stage = Stage({"id": "kill", "do": "kill_worker", "subtask": 0, "when": {"phase": "committed", "hit": 1}})

    assert stage.at(10_000) == []
    assert stage.schedule.active(now_us=stage.now_us) == {}
