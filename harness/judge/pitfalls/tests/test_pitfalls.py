"""Each pitfall is named where it shows, with what was measured, and not where something else is to blame."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from harness.database.audit import ServerCounts
from harness.history.event import Call, Failed, Res, Start
from harness.history.notes import (
    Alive,
    HiddenError,
    KeptConnections,
    Line,
    LoopBlocked,
    LoopHeld,
    LostConnection,
    NestedAcquire,
    OwnConnections,
    PoolUse,
)
from harness.history.tests.lines import line
from harness.judge.pitfalls.finding import RunSeen, find_pitfalls
from harness.scenario.catalogue import resolve
from harness.scenario.file import load_many
from harness.scenario.model import Scenario

SECOND_US = 1_000_000


def scenario(**operator: Any) -> Scenario:
    settings = {"mode": "unordered", "timeout": "300ms", "on_timeout": [None], "capacity": 10, **operator}
    return Scenario.model_validate(
        {
            "scenario": "of-a-test",
            "about": "Made by a test, for its settings.",
            "operator": settings,
            "workload": {"records": 100, "subtasks": 1},
            "decisive": ["V8"],
            "levels": ["live"],
        }
    )


def call(record: int, at_us: int, *, subtask: int = 0) -> Line:
    return line(Call, at_us, s=subtask, id=record, try_=1)


def result(record: int, at_us: int, *, subtask: int = 0) -> Line:
    return line(Res, at_us, s=subtask, id=record, try_=1, r="ok")


def answered(count: int, *, from_us: int = 0, first: int = 100) -> list[Line]:
    """Calls one after the other, each answered before the next."""
    lines = [
        (call(first + number, from_us + number * 1000), result(first + number, from_us + number * 1000 + 900))
        for number in range(count)
    ]
    return [line for pair in lines for line in pair]


def alive(*seconds: float) -> list[Line]:
    return [line(Alive, int(at * SECOND_US), s=0) for at in seconds]


def named(
    lines: list[Line], *, of: Scenario | None = None, ended_s: float = 10, server: ServerCounts | None = None
) -> list[str]:
    in_order = sorted(lines, key=lambda line: line.t)
    seen = RunSeen(
        scenario=of or scenario(), lines=in_order, ended_us=int(ended_s * SECOND_US), server=server
    )
    return [pitfall.name for pitfall in find_pitfalls(seen)]


def blocked(*times_ms: float) -> list[Line]:
    return [line(LoopBlocked, t, ms=ms, where="lookup (enrich.py:7)") for t, ms in enumerate(times_ms)]


def test_a_loop_that_stood_still_in_the_function_is_a_blocking_call() -> None:
    assert named(blocked(150, 200, 120)) == ["blocking-call"]


def test_a_single_short_stop_may_have_been_the_machine() -> None:
    assert named(blocked(150)) == []


def test_as_many_connections_as_calls_is_no_pool() -> None:
    server = ServerCounts(opened=60, at_once=3)

    assert named(answered(50), server=server) == ["no-pool"]


@pytest.mark.parametrize(("times", "names"), [(45, ["no-pool"]), (12, [])])
def test_calls_that_each_connect_have_no_pool_whatever_the_server_counts_u6(
    times: int, names: list[str]
) -> None:
    note = line(OwnConnections, 9, times=times, where="mine.py:3")

    assert named([*answered(50), note]) == names


def hidden(record: int, *, caught: str | None = "mine.py:3") -> Line:
    return line(HiddenError, record, id=record, error="Lost: gone", met="mine.py:2", caught=caught)


@pytest.mark.parametrize(
    ("caught", "says"),
    [("mine.py:3", "caught at mine.py:3"), (None, "met at mine.py:2 (where it was caught is not known)")],
)
def test_a_hidden_error_is_told_with_its_record_and_where_it_was_caught_if_known_u2(
    caught: str | None, says: str
) -> None:
    seen = RunSeen(scenario=scenario(), lines=[hidden(4, caught=caught), hidden(5)], ended_us=9, server=None)

    [pitfall] = find_pitfalls(seen)

    assert pitfall.says == (
        "The calls for 2 records met an error, did not ask again with success, and returned as if all were well: "
        f"for record 4 it was Lost: gone, {says}."
    )


def kept(times: int) -> Line:
    return line(KeptConnections, 9, times=times, where="mine.py:3")


def test_a_pool_whose_connections_never_come_back_is_not_called_small_u6() -> None:
    assert named([*answered(50), pool(waited=45, size=3), kept(3)]) == ["never-given-back"]


def test_calls_that_wait_while_they_hold_a_connection_are_no_small_pool_l2() -> None:
    nested = line(NestedAcquire, 9, times=45, got=40, held="mine.py:3", where="mine.py:5")
    lines = [*answered(50), pool(waited=45, size=3), nested]
    seen = RunSeen(scenario=scenario(), lines=lines, ended_us=9, server=None)

    [pitfall] = find_pitfalls(seen)

    assert pitfall.says.startswith(
        "45 times a call that held a connection, taken at mine.py:3, waited for another one at mine.py:5, and 5 of them"
    )


def test_one_connection_that_is_kept_for_all_calls_is_no_pitfall_u6() -> None:
    assert named([*answered(50), pool(waited=0, size=10), kept(1)]) == []


@pytest.mark.parametrize(("ms", "names"), [(1200, ["blocking-call"]), (900, [])])
def test_a_function_that_holds_the_thread_of_a_simulated_run_blocks_u6(ms: int, names: list[str]) -> None:
    note = LoopHeld(t=9, where="lookup (mine.py:3)", ms=ms)

    assert named([note]) == names
    assert named([note], ended_s=600) == []


def test_the_scenarios_own_settings_are_no_mistake_of_a_users_lookup_u6() -> None:
    failed = line(Failed, 9, error="StreamElementFailed: (CallTimedOut: ...)")
    lines = [*answered(50), pool(waited=45, size=3), failed]

    seen = RunSeen(scenario=scenario(), lines=lines, ended_us=9, server=None, is_users=True)

    assert find_pitfalls(seen) == ()


def test_connections_that_were_lost_and_made_again_are_no_pitfall() -> None:
    lost = [line(LostConnection, 5, link="lookups", code=2013)] * 50

    assert named([*answered(50), *lost], server=ServerCounts(opened=60, at_once=10)) == []


def test_calls_that_share_one_connection_have_no_pool() -> None:
    lines = [call(record, record) for record in range(30)] + [
        result(record, 100 + record) for record in range(30)
    ]

    assert named(lines, server=ServerCounts(opened=4, at_once=2)) == ["no-pool"]


def test_one_connection_is_enough_where_one_call_is_open_at_a_time() -> None:
    assert named(answered(50), server=ServerCounts(opened=4, at_once=2)) == []


def test_a_server_that_was_restarted_accuses_nobody() -> None:
    lines = [call(record, record) for record in range(30)] + [
        result(record, 100 + record) for record in range(30)
    ]

    assert named(lines, server=None) == []


def pool(*, waited: int, size: int) -> Line:
    return line(
        PoolUse, 9, size=size, opened=size, waited=waited, longest_wait_ms=80.0, calm_asked=waited, calm_waited=waited
    )  # fmt: skip


def test_a_pool_smaller_than_the_capacity_for_which_calls_wait_is_too_small() -> None:
    assert named([*answered(50), pool(waited=45, size=3)]) == ["small-pool"]


@pytest.mark.parametrize(
    ("waited", "size"), [(10, 3), (45, 10)], ids=["few waited", "as large as the capacity"]
)
def test_a_pool_is_large_enough_if_few_wait_or_it_has_the_capacity(waited: int, size: int) -> None:
    assert named([*answered(50), pool(waited=waited, size=size)]) == []


def test_an_attempt_that_a_timeout_ended_is_named() -> None:
    failed = line(Failed, 9, id=4, error="StreamElementFailed: ... (CallTimedOut: ...)")

    assert named([failed]) == ["failing-timeout"]


def test_an_attempt_that_failed_for_another_reason_is_not() -> None:
    failed = line(Failed, 9, error="StreamElementFailed: ... (OperationalError: 1290)")

    assert named([failed]) == []


def test_a_call_without_an_outcome_long_after_its_timeout_lost_its_slot() -> None:
    assert named([call(1, 0), *answered(5), *alive(2, 3, 4)]) == ["silent-timeout"]


def test_a_call_whose_attempt_stood_still_meanwhile_did_not() -> None:
    assert named([call(1, 0), *answered(5), *alive(9.9)]) == []


def test_a_call_whose_attempt_died_before_its_timeout_did_not() -> None:
    successor = line(Start, 200_000, s=0, a=2)

    assert named([call(1, 0), *answered(5), successor]) == []


def test_a_call_that_is_open_while_later_ones_were_answered_was_lost() -> None:
    without = scenario(timeout="0ms", on_timeout="fail")

    assert named([call(1, 0), *answered(5, from_us=1000), *alive(2, 3, 4)], of=without) == ["lost-completion"]


def test_calls_that_nobody_answers_any_more_are_the_databases_silence() -> None:
    without = scenario(timeout="0ms", on_timeout="fail")

    assert named([*answered(5), call(1, 900_000), *alive(3, 4, 5)], of=without) == []


def test_more_connections_than_calls_were_ever_open_are_not_closed() -> None:
    assert "open-connections" in named(answered(50), server=ServerCounts(opened=60, at_once=55))


def test_a_run_that_grows_has_connections_for_the_calls_of_all_its_subtasks() -> None:
    [grows] = load_many(resolve(["rescale-twice"]))
    stays = grows.model_copy(update={"rescale": None})
    lines: list[Line] = []
    for subtask, turn in product(range(4), range(3)):  # three times 20 calls at once
        for record in range(20):
            at_us = 10_000 * turn + record
            lines += [
                call(100 * turn + record, at_us, subtask=subtask),
                result(100 * turn + record, at_us + 1000, subtask=subtask),
            ]

    assert named(lines, of=grows, server=ServerCounts(opened=78, at_once=75)) == []
    assert named(lines, of=stays, server=ServerCounts(opened=78, at_once=75)) == ["open-connections"]


def test_connections_for_every_open_call_are_closed() -> None:
    lines = [call(record, record) for record in range(30)] + [
        result(record, 100 + record) for record in range(30)
    ]

    assert named(lines, server=ServerCounts(opened=33, at_once=33)) == ["no-pool"]


def test_every_pitfall_of_the_catalogue_has_its_scenario() -> None:
    files = resolve(["pitfalls"])
    loaded = load_many([str(file) for file in files])

    assert {of_file.pitfall for of_file in loaded} == {
        "blocking-call",
        "no-pool",
        "small-pool",
        "failing-timeout",
        "silent-timeout",
        "open-connections",
        "lost-completion",
    }
