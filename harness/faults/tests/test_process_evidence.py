"""Pauses and zombies are believed by the system's word and the attempts' files, and not where these lack."""

from __future__ import annotations

from typing import Any

import pytest

from harness.faults.real.evidence import Seen
from harness.faults.tests.entries import made
from harness.history.event import Ack, Commit, Failed, In, Kill, Start
from harness.history.notes import CommitBegun, InProcess, KilledFromOutside, Line
from harness.history.tests.lines import line
from tools.cases import each

STOPPED = {"what": "stopped", "pid": 40, "started": 4, "state": "T", "at_us": 1000}
RESUMED = {"what": "resumed", "pid": 40, "started": 4, "at_us": 401_000}


PROCESS = line(InProcess, 10, pid=40, started=4)


def seen(found: list[dict[str, Any]], events: list[Line]) -> Seen:
    return Seen(armed_us=1000, healed_us=400_000, facts=found, events=events)


def test_a_pause_is_believed_if_its_attempt_was_silent_and_then_spoke() -> None:
    of_others: list[Line] = [
        line(In, 500, a=2),
        line(Kill, 5000),
        line(Ack, 5000),
        line(KilledFromOutside, 5000),
    ]
    events = [PROCESS, line(In, 900), *of_others, line(In, 402_000)]

    evidence = made("pause_worker", subtask=1).evidence(seen([STOPPED, RESUMED], events))

    assert evidence == {"pid": 40, "state": "T", "subtask": 1, "attempt": 1, "silent_ms": 400.0}


def test_while_it_stands_the_systems_word_is_all_there_is() -> None:
    assert made("pause_worker", subtask=1).evidence(seen([STOPPED], [])) == {"pid": 40, "state": "T"}


@pytest.mark.parametrize(
    ("found", "events"),
    [
        ([], [PROCESS, line(In, 402_000)]),
        ([STOPPED], [PROCESS, line(In, 402_000)]),
        ([STOPPED, RESUMED], [PROCESS, line(In, 5000), line(In, 402_000)]),
        ([STOPPED, RESUMED], [PROCESS, line(In, 900)]),
        ([STOPPED, RESUMED], [line(In, 402_000)]),
    ],
    ids=[
        "nobody stopped it",
        "it never went on",
        "it spoke meanwhile",
        "it said nothing more",
        "nobody's process",
    ],
)
def test_a_pause_that_did_not_bite_is_not_believed(found: list[dict[str, Any]], events: list[Line]) -> None:
    assert made("pause_worker", subtask=1).evidence(seen(found, events)) == {}


START = line(Start, 2000, a=2)
LAST_WORDS = line(Failed, 403_000, error="Fenced: attempt 1 of subtask 1 is fenced: attempt 2 took over")


def test_a_zombie_is_believed_if_it_spoke_after_its_successors_start_and_tried_to_commit() -> None:
    events: list[Line] = [PROCESS, START, line(In, 402_000), line(CommitBegun, 402_500), LAST_WORDS]

    evidence = made("zombie", subtask=1).evidence(seen([STOPPED, RESUMED], events))

    assert evidence == {
        "subtask": 1, "attempt": 1, "successor": 2, "events_after_its_start": 3, "commit": "refused"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("events", "commit"),
    [
        ([line(CommitBegun, 402_500), line(Commit, 402_600)], "accepted"),
        ([line(CommitBegun, 402_500)], "unanswered"),
    ],
)
def test_what_became_of_its_commit_is_said(events: list[Line], commit: str) -> None:
    evidence = made("zombie", subtask=1).evidence(seen([STOPPED, RESUMED], [PROCESS, START, *events]))

    assert evidence["commit"] == commit


@each(
    ("found", "events"),
    [
        ([], [PROCESS, START, LAST_WORDS]),
        ([STOPPED, RESUMED], [PROCESS, LAST_WORDS]),
        ([STOPPED, RESUMED], [PROCESS, START, line(In, 402_000)]),
        ([STOPPED, RESUMED], [PROCESS, START]),
        ([STOPPED, RESUMED], [START, LAST_WORDS]),
        ([STOPPED, RESUMED], []),
    ],
    ids=[
        "nobody stopped it",
        "no successor",
        "it tried nothing",
        "it never woke",
        "nobody's process",
        "it still runs",
    ],
)
def test_a_zombie_that_was_none_is_not_believed(found: list[dict[str, Any]], events: list[Line]) -> None:
    assert made("zombie", subtask=1).evidence(seen(found, events)) == {}


def test_a_paused_executor_is_believed_if_it_used_no_processor_time() -> None:
    at_rest, busy = {"what": "used", "cpu_ms": 0}, {"what": "used", "cpu_ms": 300}
    executor = made("pause_executor", **{"for": "400ms"})

    assert executor.evidence(seen([STOPPED, at_rest, RESUMED], [PROCESS])) == {
        "pid": 40, "state": "T", "stopped_ms": 400.0, "cpu_ms": 0
    }  # fmt: skip
    assert executor.evidence(seen([STOPPED, busy, RESUMED], [PROCESS])) == {}
    assert executor.evidence(seen([STOPPED], [PROCESS])) == {}
    assert executor.evidence(seen([], [PROCESS])) == {}
