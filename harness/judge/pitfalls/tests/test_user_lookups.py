"""Pitfalls of a user's lookup at level sim: each is named with its line, and right lookups have none."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.engine.level import Opening, RunRecord, RunSite
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.file import apply_settings, load_many
from harness.scenario.order import Order
from harness.scenario.outcome import Pitfall
from harness.testing import MayAskAgain
from tools.cases import each

HERE = Path(__file__).name
QUERY = "SELECT name, SLEEP(%s) FROM customer WHERE k = %s"
SMALL = ("workload.records=60", "expects.records=120", "expects.checkpoints=1", "faults.cut.when.call=20")


def recorded(function: Any, *settings: str, seed: int = 3) -> RunRecord:
    [scenario] = load_many(["connections-cut"])
    order = Order(
        scenario=apply_settings(scenario, (*SMALL, *settings)),
        level="sim",
        seed=seed,
        sut=f"{__name__}:{function.__name__}",
    )
    with SimulatedLevel().open(Opening()) as play:
        record = play(order, RunSite(run_id="test", folder=Path()))
    assert isinstance(record, RunRecord)
    return record


def pitfalls(function: Any, *settings: str, seed: int = 3) -> dict[str, Pitfall]:
    return {told.name: told for told in recorded(function, *settings, seed=seed).pitfalls or ()}


async def swallows(record: Any, pool: Any) -> Any:
    """Takes an error for no rows."""
    try:
        return await pool.fetch_one(QUERY, (0.05, record.key))
    except MayAskAgain:
        return []


async def swallows_at_the_cursor(record: Any, pool: Any) -> Any:
    """Takes an error for no rows before the pool sees it."""
    async with pool.connection() as connection, connection.cursor() as cursor:
        try:
            await cursor.execute(QUERY, (0.05, record.key))
            return await cursor.fetchone()
        except Exception:  # noqa: BLE001 - as a user may write it
            return None


@pytest.mark.parametrize(("function", "line"), [(swallows, 4), (swallows_at_the_cursor, 6)])
@pytest.mark.parametrize("seed", [1])
def test_an_error_taken_for_no_rows_is_named_with_its_line_u2(function: Any, line: int, seed: int) -> None:
    told = pitfalls(function, seed=seed)

    assert list(told) == ["swallowed-error"]
    says = told["swallowed-error"].says
    assert f"caught at {_place(function, line)}" in says.replace("\\", "/")
    assert f"record {told['swallowed-error'].evidence['record']}" in says


def _place(function: Any, line: int) -> str:
    path = Path(__file__)
    folder = path.parent.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.parent
    return f"{folder / path.name}:{function.__code__.co_firstlineno + line}"


async def asks_again(record: Any, pool: Any) -> Any:
    """As the documentation says."""
    for pause_s in (0.05, 0.1, 0.2, 0.4, 0.8):
        try:
            return await pool.fetch_one(QUERY, (0.05, record.key))
        except MayAskAgain:
            await asyncio.sleep(pause_s)
    raise TimeoutError("no answer")


async def fails(record: Any, pool: Any) -> Any:
    """Lets the error through."""
    return await pool.fetch_one(QUERY, (0.05, record.key))


async def uses_a_connection(record: Any, pool: Any) -> Any:
    """Sends its statements itself, and asks again."""
    for pause_s in (0.05, 0.1, 0.2, 0.4, 0.8):
        try:
            async with pool.connection() as connection, connection.cursor() as cursor:
                await cursor.execute(QUERY, (0.05, record.key))
                return list(await cursor.fetchall())
        except MayAskAgain:
            await asyncio.sleep(pause_s)
    raise TimeoutError("no answer")


async def asks_the_connection(record: Any, pool: Any) -> Any:
    """Uses no cursor, and asks again."""
    for pause_s in (0.05, 0.1, 0.2, 0.4, 0.8):
        try:
            async with pool.connection() as connection:
                return await connection.ask(QUERY, (0.05, record.key))
        except MayAskAgain:
            await asyncio.sleep(pause_s)
    raise TimeoutError("no answer")


@pytest.mark.sweep
@each("function", [asks_again, fails, uses_a_connection, asks_the_connection])
def test_a_right_lookup_has_no_pitfall_u6(function: Any) -> None:
    assert pitfalls(function, seed=1) == {}


async def keeps(record: Any, pool: Any) -> Any:
    """Gives nothing back."""
    connection = await pool.connection().__aenter__()
    cursor = connection.cursor()
    await cursor.execute(QUERY, (0.05, record.key))
    return await cursor.fetchone()


@pytest.mark.sweep
@pytest.mark.parametrize("settings", [(), ("operator.connections=5",)])
def test_connections_that_are_never_given_back_are_no_small_pool_u6(settings: tuple[str, ...]) -> None:
    told = pitfalls(keeps, *settings)

    assert list(told) == ["never-given-back"]
    assert _place(keeps, 2) in told["never-given-back"].says


async def asks_while_it_holds(record: Any, pool: Any) -> Any:
    """Asks the pool for a second connection."""
    async with pool.connection() as connection, connection.cursor() as cursor:
        await cursor.execute(QUERY, (0.05, record.key))
        await cursor.fetchone()
        return await pool.fetch_one(QUERY, (0.05, record.key))


async def asks_from_a_task_while_it_holds(record: Any, pool: Any) -> Any:
    """Has a task ask for it."""
    async with pool.connection():
        return await asyncio.create_task(pool.fetch_one(QUERY, (0.05, record.key)))


async def asks_twice_at_once(record: Any, pool: Any) -> Any:
    """Two tasks ask, and neither holds a connection while it waits."""
    asked = (pool.fetch_one(QUERY, (0.05, record.key)) for _ in range(2))
    return (await asyncio.gather(*asked))[0]


@each(
    ("function", "named"),
    [
        (asks_while_it_holds, "nested-acquire"),
        (asks_from_a_task_while_it_holds, "nested-acquire"),
        (asks_twice_at_once, "small-pool"),
    ],
)
def test_a_call_that_waits_while_it_holds_a_connection_is_told_with_both_lines_l2(
    function: Any, named: str
) -> None:
    told = pitfalls(function, "operator.connections=5")

    assert list(told) == [named]
    if named == "nested-acquire":
        assert f"taken at {_place(function, 2)}, waited for another" in told[named].says


async def computes(record: Any) -> Any:
    """Takes its answer from the key alone."""
    return {"name": f"customer {record.key}"}


async def asks_once_in_a_while(record: Any, pool: Any) -> Any:
    """Asks for one key only."""
    return await pool.fetch_one(QUERY, (0.05, record.key)) if record.key == 1 else {"name": "nobody"}


def test_a_lookup_that_never_asks_the_database_is_named_r4() -> None:
    told = pitfalls(computes)

    assert list(told) == ["never-asked"]
    assert told["never-asked"].says.startswith("None of 120 calls asked the database for anything")


def test_a_lookup_that_asks_at_all_is_not_said_never_to_ask_r4() -> None:
    assert "never-asked" not in pitfalls(asks_once_in_a_while)


_kept: list[Any] = []


async def one_for_all(record: Any, pool: Any) -> Any:
    """Sends the statements of all calls, of both subtasks too, on the first connection that it took."""
    if not _kept:
        _kept.append(await pool.connection().__aenter__())
    async with _kept[0].cursor() as cursor:
        await cursor.execute(QUERY, (0.05, record.key))
        return await cursor.fetchone()


def test_a_connection_that_outlives_its_attempt_is_the_functions_error_not_the_harness_s_r4() -> None:
    """A call that is cancelled with its attempt closes the connection, so no answer is under way to a closed loop."""
    [scenario] = load_many(["one-way-latency"])
    order = Order(scenario=scenario, level="sim", seed=1, sut=f"{__name__}:one_for_all")

    with SimulatedLevel().open(Opening()) as play:
        record = play(order, RunSite(run_id="test", folder=Path()))

    assert record.error is not None
    assert "the lookup raised SimulatedError: (2013, 'lost connection" in record.error


async def hurries(record: Any, pool: Any) -> Any:
    """Asks again for ever, at once."""
    while True:
        try:
            return await pool.fetch_one(QUERY, (0.05, record.key))
        except MayAskAgain:
            continue


def test_retries_without_a_pause_are_named_u6() -> None:
    told = pitfalls(hurries, "faults.cut.for=1s")

    assert list(told) == ["no-pause"]
    assert _place(hurries, 4) in told["no-pause"].says


def test_a_pool_for_which_calls_wait_is_small_only_if_the_scenario_chose_its_size_u6() -> None:
    small = pitfalls(asks_again, "operator.connections=3", "workload.rate=2000/s")

    assert list(small) == ["small-pool"]
    assert pitfalls(asks_again, "operator.connections=3", "workload.rate=10/s") == {}


def test_a_pool_for_which_calls_wait_in_an_outage_only_is_not_small_u6() -> None:
    outage = ("operator.connections=12", "workload.rate=200/s", "faults.cut.for=1s")

    ran = recorded(asks_again, *outage)

    assert [told.name for told in ran.pitfalls or ()] == []


async def blocks(record: Any, pool: Any) -> Any:
    """Waits on the thread of all."""
    if record.id == 7:
        threading.Event().wait(1.2)
    return await pool.fetch_one(QUERY, (0.05, record.key))


@pytest.mark.sweep
def test_a_lookup_that_holds_the_thread_is_named_although_time_is_virtual_u6() -> None:
    told = pitfalls(blocks)

    assert list(told) == ["blocking-call"]
    assert f"blocks ({HERE}:{blocks.__code__.co_firstlineno + 3})" in told["blocking-call"].says
