"""The crash points of a sweep: each message of a cycle, before and after it, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.sweep import crash_points, settings_of, spread
from harness.levels.job.traffic import Message

CYCLE = ("insert rows", "commit", "update offsets", "commit")


def messages(*requests: str) -> list[Message]:
    """Requests over one connection, each answered at once, but for QUIT; a COMMIT is of what was written before it."""
    found: list[Message] = []
    answered, changed = 0, dict[str, None]()
    for n, request in enumerate(requests, start=1):
        one = message(request, "request", n)
        tables = tuple(changed) if one.commits else one.tables
        found.append(replace(one, tables=tables))
        if one.writes:
            changed |= dict.fromkeys(tables)
        elif one.commits:
            changed.clear()
        if request != "quit":
            answered += 1
            found.append(replace(message(request, "answer", answered), tables=tables))
    return found


def message(said: str, side: Literal["request", "answer"], n: int) -> Message:
    statement, _, table = said.partition(" ")
    command = statement if statement in {"commit", "quit", "handshake"} else "query"
    return Message(
        t_us=n, link="sink", side=side, n=n, connection=1, peer=1, command=command,
        statement="" if command in {"quit", "handshake"} else statement, table=table,
        writes=statement in {"insert", "update"}, commits=command == "commit",
        tables=(table,) if statement in {"insert", "update"} else (),
    )  # fmt: skip


def test_each_message_is_a_point_before_it_and_after_it() -> None:
    points = crash_points(messages("handshake", "insert rows", "commit"))

    assert [point.name for point in points] == [
        "1 before HANDSHAKE", "1 after HANDSHAKE", "2 before INSERT rows", "2 after INSERT rows", "3 before COMMIT"
    ]  # fmt: skip


def test_what_comes_after_the_last_effect_is_no_point() -> None:
    """A job that is killed there has nothing left to do, so the run would show nothing."""
    points = crash_points(messages("insert rows", "commit", "select rows", "quit"))

    assert points[-1].name == "2 before COMMIT"


def test_after_a_message_is_found_by_the_number_of_its_answer() -> None:
    points = crash_points(messages("quit", "insert rows", "commit"))

    assert [(point.moment, point.nth) for point in points if point.place == 2] == [
        ("before", 2),
        ("after", 1),
    ]


def test_of_a_long_run_some_cycles_are_swept() -> None:
    points = crash_points(messages("handshake", *CYCLE * 100))

    assert max(point.place for point in points) == 32


def test_a_long_cycle_is_swept_as_a_whole() -> None:
    long_cycle = ("insert rows",) * 20 + ("commit",)

    points = crash_points(messages("handshake", *long_cycle * 10))

    assert max(point.place for point in points) == 1 + 4 * 21


def test_messages_of_the_lookups_are_no_crash_points() -> None:
    (sent,) = crash_points(
        [message("commit", "request", 1), replace(message("commit", "request", 2), link="lookups")]
    )

    assert sent.nth == 1
    assert crash_points([]) == []


def test_what_repeats_a_message_without_an_effect_in_between_is_no_point() -> None:
    """A poller that finds nothing asks again, and each question ends with a COMMIT that has changed nothing."""
    poll = ("select inbox", "commit")
    points = crash_points(
        messages("handshake", *poll * 9, "insert rows", "commit", *poll * 9, "update offsets")
    )

    assert [point.name for point in points] == [
        "1 before HANDSHAKE", "1 after HANDSHAKE",
        "2 before SELECT inbox", "2 after SELECT inbox", "3 before COMMIT", "3 after COMMIT",
        "20 before INSERT rows", "20 after INSERT rows", "21 before COMMIT", "21 after COMMIT",
        "22 before SELECT inbox", "22 after SELECT inbox", "23 before COMMIT", "23 after COMMIT",
        "40 before UPDATE offsets",
    ]  # fmt: skip
    assert [point.nth for point in points if point.place == 23] == [23, 23]


def test_a_commit_of_a_transaction_that_only_reads_is_no_last_effect() -> None:
    points = crash_points(messages("insert rows", "commit", "select rows", "commit"))

    assert points[-1].name == "2 before COMMIT"


def test_each_table_that_a_job_makes_is_a_point() -> None:
    points = crash_points(messages("create", "create", "insert rows"))

    assert [point.place for point in points] == [1, 1, 2, 2, 3]


def test_under_a_budget_the_points_are_spread_over_the_cycle() -> None:
    points = crash_points(messages("handshake", *CYCLE * 5))

    places = [points.index(point) for point in spread(points, 3, seed=1)]

    assert spread(points, 99, seed=1) == points
    first, second = len(points) // 3, 2 * len(points) // 3
    assert places[0] < first <= places[1] < second <= places[2]
    assert len({tuple(spread(points, 3, seed=seed)) for seed in range(9)}) > 1


def test_a_point_of_a_scenario_is_said_by_settings() -> None:
    scenario = JobScenario.model_validate(
        {"job_scenario": "some", "about": "A scenario for tests.", "records": 50, "offer": "2s"}
    )
    (point, *_) = crash_points(messages("insert rows"))

    assert settings_of(scenario, point) == [
        "records=50", "keys=40", "keys_come=drawn", "offer=2s", "budget=1m", "faults.kill.when.nth=1",
        "faults.kill.when.moment=before",
    ]  # fmt: skip
