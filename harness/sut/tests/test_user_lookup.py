"""A user's own lookup: what it raises or returns fails its call, and never the harness around it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.sut.user_lookup import UserCodeStopped, UserLookup
from reference_impl.mailbox.loops import real_loop


def lookup(function: Any) -> UserLookup:
    return UserLookup(function, code=function.__code__)


def outcome(function: Any) -> Any:
    """The result of one call, on a loop of its own."""
    with real_loop() as loop:
        return loop.run_until_complete(_called(lookup(function)))


async def _called(function: UserLookup) -> Any:
    return await function("record", "pool")


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_the_process_is_an_error_of_the_function(error: BaseException) -> None:
    async def ends(record: Any, pool: Any) -> Any:
        raise error

    with pytest.raises(UserCodeStopped, match=type(error).__name__) as stopped:
        outcome(ends)

    assert stopped.value.__cause__ is error


@pytest.mark.parametrize("error", [RecursionError("deep"), MemoryError("full"), ValueError("wrong")])
def test_an_exception_passes_unchanged(error: Exception) -> None:
    async def fails(record: Any, pool: Any) -> Any:
        raise error

    with pytest.raises(type(error)) as raised:
        outcome(fails)

    assert raised.value is error


def test_a_cancellation_from_outside_passes_unchanged() -> None:
    async def waits(record: Any, pool: Any) -> Any:
        await asyncio.Event().wait()

    async def cancelled() -> bool:
        call = asyncio.ensure_future(_called(lookup(waits)))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled()

    with real_loop() as loop:
        assert loop.run_until_complete(cancelled())


def test_a_limit_of_the_function_itself_is_its_timeout() -> None:
    async def gives_up(record: Any, pool: Any) -> Any:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        outcome(gives_up)
