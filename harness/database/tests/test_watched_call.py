"""What a call hides, keeps and hurries is told, with the line of the user's code; what it gets over is not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.database.watched_call import CALL, WatchedCall, watch_connects
from reference_impl.mailbox.loops import real_loop

HERE = Path(__file__).name
QUERY = ("SELECT 1", (7,))
OTHER = ("SELECT 2", (7,))


class Lost(Exception):
    """An error of the pool."""


async def lost(call: WatchedCall, statement: Any = QUERY) -> None:
    """A statement that meets an error."""
    await asyncio.sleep(0)
    call.asks()
    error = Lost("gone")
    call.note_error(error, statement)
    raise error


async def found(call: WatchedCall, statement: Any = QUERY) -> None:
    call.asks()
    call.answers(statement)


Body = Callable[[WatchedCall], Awaitable[Any]]


def watched(body: Body, *, now_s: Callable[[], float] = lambda: 0.0) -> WatchedCall:
    """`body` was called, and returned."""
    call = WatchedCall(home=__file__, line=f"{HERE}:1", now_s=now_s)

    async def made() -> None:
        call.coroutine = body(call)
        await call.coroutine

    with real_loop() as loop:
        loop.run_until_complete(made())
    return call


def line_of(body: Any, offset: int) -> str:
    return f"{HERE}:{body.__code__.co_firstlineno + offset}"


async def by_its_class(call: WatchedCall) -> Any:
    try:
        await lost(call)
    except (ValueError, Lost):
        return []


async def by_a_later_handler(call: WatchedCall) -> Any:
    try:
        return await lost(call)
    except ValueError:
        return None
    except BaseException:  # noqa: BLE001 - as a user may write it
        return None


async def by_suppress(call: WatchedCall) -> Any:
    with suppress(Lost):
        await lost(call)


async def by_a_return_at_the_end(call: WatchedCall) -> Any:
    try:
        await lost(call)
    finally:
        return []  # noqa: B012 - as a user may write it


async def through_a_task(call: WatchedCall) -> Any:
    try:
        await asyncio.wait_for(lost(call), 60)
    except Exception:  # noqa: BLE001
        return None


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (by_its_class, 3),
        (by_a_later_handler, 5),
        (by_suppress, 1),
        (by_a_return_at_the_end, 4),
        (through_a_task, 3),
    ],
)
def test_an_error_that_the_call_hides_is_told_with_the_line_that_caught_it_u2(body: Any, offset: int) -> None:
    [hidden] = watched(body).hidden()

    assert hidden.error == "Lost: gone"
    assert hidden.caught_at is not None
    assert hidden.caught_at.endswith(line_of(body, offset))


async def by_gather(call: WatchedCall) -> Any:
    return await asyncio.gather(lost(call), return_exceptions=True)


def test_where_no_handler_caught_it_the_line_that_met_it_is_told_u2() -> None:
    [hidden] = watched(by_gather).hidden()

    assert hidden.caught_at is None
    assert hidden.met_at.split(":")[0].endswith(HERE)


async def asks_again(call: WatchedCall) -> Any:
    with suppress(Lost):
        await lost(call)
    await found(call)


async def asks_something_else(call: WatchedCall) -> Any:
    with suppress(Lost):
        await lost(call)
    await found(call, OTHER)


async def connects_again(call: WatchedCall) -> Any:
    with suppress(Lost):
        await lost(call, None)
    await found(call, OTHER)


@pytest.mark.parametrize(("body", "hides"), [(asks_again, 0), (asks_something_else, 1), (connects_again, 0)])
def test_only_the_same_statement_gets_over_an_error_u2(body: Any, hides: int) -> None:
    assert len(list(watched(body).hidden())) == hides


async def asks_and_asks(call: WatchedCall) -> Any:
    for _ in range(9):
        with suppress(Lost):
            await lost(call)


def test_a_row_of_retries_without_a_pause_is_told_with_its_length_u6() -> None:
    hurried = watched(asks_and_asks).hurried

    assert hurried is not None
    assert hurried.times == 8


async def asks_now_and_then(call: WatchedCall) -> Any:
    for _ in range(9):
        with suppress(Lost):
            await lost(call)
        for _ in range(3):
            await asyncio.sleep(0)


def test_retries_with_a_pause_are_not_u6() -> None:
    seconds = iter(range(1000))

    assert watched(asks_now_and_then, now_s=lambda: float(next(seconds))).hurried is None


def test_a_slow_loop_makes_no_pause_of_a_retry_at_once_u6() -> None:
    seconds = iter(range(1000))

    assert watched(asks_and_asks, now_s=lambda: float(next(seconds))).hurried is not None


def test_a_connection_that_a_task_keeps_beyond_its_end_is_told_u6() -> None:
    async def keeps(call: WatchedCall) -> Any:
        call.lends("one", is_users=True)
        call.lends("another", is_users=True)
        call.returns("another")

    [kept] = watched(keeps).kept()
    assert kept.endswith(line_of(keeps, 1))


def test_a_connection_that_a_call_makes_itself_is_told_with_its_line_u6() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        watch_connects(server.getsockname()[1])

        async def dials(call: WatchedCall) -> Any:
            CALL.set(call)
            for port in (server.getsockname()[1], other.getsockname()[1]):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()

        connected = watched(dials).connected

    [(line, times)] = connected.items()
    assert times == 1
    assert line.endswith(line_of(dials, 3))
