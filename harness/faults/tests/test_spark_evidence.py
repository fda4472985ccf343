"""Faults of a Spark cluster are believed if what they ended was gone and runs again elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from harness.faults.real.evidence import Seen
from harness.faults.tests.entries import made
from harness.history.event import Failed, In, Start
from harness.history.notes import CommitBegun, InProcess, Line, OnHost
from harness.history.tests.lines import line
from tools.cases import each

KILLED = {"what": "killed", "at_us": 1000, "pids": [40], "gone": True, "host": "127.0.0.2"}
REPLACED = {"what": "replaced", "at_us": 801_000, "attempts": [[1, 1, 2]]}
STOPPED = {"what": "stopped", "pid": 40, "started": 4, "state": "T", "at_us": 1000}
USED = {"what": "used", "cpu_ms": 0}
RESUMED = {"what": "resumed", "pid": 40, "started": 4, "at_us": 901_000}


SUCCESSOR = line(Start, 800_000, a=2)
LATE: list[Line] = [
    line(CommitBegun, 850_000, c=3),
    line(Failed, 860_000, error="Fenced: attempt 1 is fenced"),
]
HOSTS = [line(OnHost, 0, host="127.0.0.1"), line(OnHost, 800_000, a=2, host="127.0.0.2")]


def seen(found: list[dict[str, Any]], events: list[Line]) -> Seen:
    return Seen(armed_us=1000, healed_us=900_000, facts=found, events=events)


@pytest.mark.parametrize("do", ["kill_executor", "lose_host"])
def test_a_loss_names_the_host_and_the_attempts_that_took_over(do: str) -> None:
    assert made(do).evidence(seen([KILLED, REPLACED], [SUCCESSOR])) == {
        "pids": [40],
        "host": "127.0.0.2",
        "replaced": [{"subtask": 1, "attempt": 1, "next_attempt": 2}],
        "restart_ms": 800.0,
    }


def test_a_killed_driver_is_named_by_its_number() -> None:
    killed = {**KILLED, "driver": 1}
    del killed["host"]

    assert made("kill_driver").evidence(seen([killed, REPLACED], [SUCCESSOR]))["driver"] == 1


@each("do", ["kill_executor", "lose_host"])
@each(
    "found",
    [[], [{**KILLED, "gone": False}, REPLACED], [KILLED], [KILLED, {**REPLACED, "attempts": []}]],
    ids=["nothing killed", "it lived on", "nobody looked", "nothing took over"],
)
def test_a_loss_that_did_not_bite_is_not_believed(do: str, found: list[dict[str, Any]]) -> None:
    assert made(do).evidence(seen(found, [SUCCESSOR])) == {}


def test_a_zombie_executor_is_believed_by_what_it_wrote_after_its_successor_had_begun() -> None:
    facts = [STOPPED, REPLACED, USED, RESUMED]

    evidence = made("pause_executor").evidence(seen(facts, [SUCCESSOR, *LATE]))

    (zombie,) = evidence["zombies"]
    assert (zombie["attempt"], zombie["successor"], zombie["commit"]) == (1, 2, "refused")
    assert made("pause_executor").evidence(seen(facts, [line(In, 700_000), SUCCESSOR])) == {}


def test_a_copy_is_believed_if_it_ran_elsewhere_while_the_first_attempt_lived() -> None:
    process = line(InProcess, 10, pid=40, started=4)
    facts = [STOPPED, REPLACED, RESUMED]
    speculation = made("speculation", subtask=1)

    evidence = speculation.evidence(seen(facts, [*HOSTS, process, SUCCESSOR, *LATE]))

    assert (evidence["hosts"], evidence["commit"]) == (["127.0.0.1", "127.0.0.2"], "refused")
    same_host = [replace(host, host="127.0.0.1") for host in HOSTS]
    assert speculation.evidence(seen(facts, [*same_host, process, SUCCESSOR, *LATE])) == {}
    assert speculation.evidence(seen(facts, [*HOSTS, process, SUCCESSOR])) == {}
