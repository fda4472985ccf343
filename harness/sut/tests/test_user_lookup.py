"""A user's own lookup: what it raises or returns fails its call, and never the harness around it."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.database.pool import ConnectionLost, NoFreeConnection
from harness.scenario.workloads.shape import Lookup
from harness.sut.user_lookup import (
    RESULT_BYTES_MAX,
    CallCancelled,
    UserCodeStopped,
    UserLookup,
    failure_of_lookup,
    failure_of_task,
    met_by,
    user_lookup,
)
from harness.system.errors import SutError
from reference_impl.mailbox.loops import real_loop
from tools.cases import each


def lookup(function: Any) -> UserLookup:
    return UserLookup(function, code=function.__code__)


def outcome(function: Any) -> Any:
    """The result of one call, on a loop of its own."""
    with real_loop() as loop:
        return loop.run_until_complete(_called(lookup(function)))


async def _called(function: UserLookup) -> Any:
    return await function(Lookup(id=4, key=7, service_ms=0), "pool")


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_the_process_is_an_error_of_the_function(error: BaseException) -> None:
    async def ends(record: Any, pool: Any) -> Any:
        raise error

    with pytest.raises((UserCodeStopped, CallCancelled), match=type(error).__name__) as stopped:
        outcome(ends)

    assert stopped.value.__cause__ is error


def test_a_cancellation_from_a_shared_task_names_the_task_trust2() -> None:
    shared: dict[int, asyncio.Task[Any]] = {}

    async def of_key() -> Any: ...

    async def shares(record: Any, pool: Any) -> Any:
        shared.setdefault(record.key, asyncio.create_task(of_key())).cancel()
        return await shared[record.key]

    with pytest.raises(CallCancelled, match=r"task `.*of_key`, which it awaited, was cancelled") as raised:
        outcome(shares)

    assert met_by(raised.value) == "nothing"


class TooSlow(Exception):
    """Says of a limit of the function's own what no class tells."""


async def _passes_a_limit() -> Any:
    async with asyncio.timeout(0.001):
        await asyncio.sleep(1)


async def _hides_a_limit() -> Any:
    try:
        await _passes_a_limit()
    except TimeoutError:
        raise TooSlow from None


async def _loses_a_connection() -> Any:
    raise ConnectionLost(2013, "gone")


async def _finds_no_free_connection() -> Any:
    raise NoFreeConnection("all in use", "for 30 s")


async def _gives_up() -> Any:
    raise TooSlow


async def _makes_a_mistake() -> Any:
    return dict[str, int]()["k"]


@each(
    ("fails", "met"),
    [
        (_passes_a_limit, "limit"),
        (_hides_a_limit, "limit"),
        (_finds_no_free_connection, "limit"),
        (_loses_a_connection, "error"),
        (_gives_up, None),
        (_makes_a_mistake, "nothing"),
    ],
)
def test_what_a_failed_call_had_met_is_told_where_it_is_known_trust2(
    fails: Callable[[], Any], met: str | None
) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any of them
        outcome(lambda record, pool: fails())

    assert met_by(raised.value) == met


@pytest.mark.parametrize("error", [RecursionError("deep"), MemoryError("full"), ValueError("wrong")])
def test_an_exception_passes_unchanged(error: Exception) -> None:
    async def fails(record: Any, pool: Any) -> Any:
        raise error

    with pytest.raises(type(error)) as raised:
        outcome(fails)

    assert raised.value is error


def test_a_task_of_the_functions_that_ends_the_process_is_told_with_its_line_u3() -> None:
    async def ends(record: Any, pool: Any) -> Any:
        async def inner() -> None:
            raise KeyboardInterrupt

        return await asyncio.create_task(inner())

    with pytest.raises(KeyboardInterrupt) as raised:
        outcome(ends)

    told = failure_of_task(raised.value)
    assert told is not None
    assert told.startswith("a task that the lookup started raised KeyboardInterrupt() (")
    assert told.endswith(f"{Path(__file__).name}:{ends.__code__.co_firstlineno + 2})")


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


def _endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@each(
    ("result", "says"),
    [
        (b"x", "bytes"),
        ({1}, "set"),
        ((part for part in "ab"), "generator"),
        ([{"at": datetime(2026, 1, 1, tzinfo=UTC)}], "datetime"),
        (object(), "object"),
        (Decimal(1), "Decimal"),
        ([{"a": float("nan")}], "float nan"),
        (float("inf"), "float inf"),
        ({1: "a"}, "dict with a key of type int"),
        (1 << 64, "int of more than 64 bits"),
        ("\ud800", "str that cannot be written"),
        (_endless(), "nested more than 50 deep"),
        ("x" * RESULT_BYTES_MAX, "RESULT_BYTES_MAX"),
    ],
)
def test_a_result_that_is_not_json_is_refused_with_its_record_and_the_function(
    result: Any, says: str
) -> None:
    async def returns(record: Any, pool: Any) -> Any:
        return result

    with pytest.raises(SutError) as refused:
        outcome(returns)

    assert says in refused.value.what
    assert "for record 4; a result must be JSON" in refused.value.what
    assert f"{Path(__file__).name}:{returns.__code__.co_firstlineno}" in refused.value.what


@each("result", [None, [], 1, "x", 2.5, [{"a": None, "b": [True]}], [1 << 63, -(1 << 63)]])
def test_a_result_that_is_json_passes_as_it_is(result: Any) -> None:
    async def returns(record: Any, pool: Any) -> Any:
        return result

    assert outcome(returns) == result


def test_a_result_is_not_copied_so_that_one_object_for_all_calls_shows() -> None:
    shared = [("a", 1), {"b": [2.5, None]}]

    async def returns(record: Any, pool: Any) -> Any:
        return shared

    assert outcome(returns) is shared


def test_what_the_function_raised_is_told_with_all_its_lines_its_record_and_its_line() -> None:
    async def fails(record: Any, pool: Any) -> Any:
        del record
        raise ValueError("one\ntwo")

    with pytest.raises(ValueError, match="one") as raised:
        outcome(fails)

    place = f"{Path(__file__).name}:{fails.__code__.co_firstlineno + 2}"
    told = failure_of_lookup(raised.value, 4)
    assert told is not None
    assert told.startswith("the lookup raised ValueError: one\ntwo for record 4 (")
    assert told.endswith(f"{place})")


def test_an_error_that_no_lookup_raised_has_no_such_words() -> None:
    assert failure_of_lookup(ValueError("ours"), 4) is None


async def both(record: Any, pool: Any) -> Any:
    return ["both", pool]


async def alone(record: Any) -> Any:
    return ["alone"]


async def with_defaults(record: Any, pool: Any = None, *, tries: int = 3) -> Any:
    return ["defaults", pool, tries]


async def with_a_limit(record: Any, limit: int = 5) -> Any:
    return ["limit", limit]


async def with_more(more: str, record: Any, pool: Any) -> Any:
    return [more, pool]


async def with_any(*arguments: Any) -> Any:
    return ["any", arguments[1]]


@functools.wraps(both)
def decorated(*arguments: Any, **named: Any) -> Any:
    return both(*arguments, **named)


class Client:
    """As a user writes it."""

    async def __call__(self, record: Any, pool: Any) -> Any:
        return ["object", pool]

    async def find(self, record: Any) -> Any:
        return ["method"]


@each(
    ("found", "answers"),
    [
        (both, ["both", "pool"]),
        (alone, ["alone"]),
        (with_defaults, ["defaults", "pool", 3]),
        (with_a_limit, ["limit", 5]),
        (functools.partial(with_more, "partial"), ["partial", "pool"]),
        (functools.partial(both, pool="mine"), ["both", "mine"]),
        (with_any, ["any", "pool"]),
        (decorated, ["both", "pool"]),
        (Client(), ["object", "pool"]),
        (Client().find, ["method"]),
    ],
)
def test_what_is_called_like_an_async_function_is_a_lookup(found: Any, answers: list[Any]) -> None:
    function = user_lookup(found, "mine:it")

    with real_loop() as loop:
        assert loop.run_until_complete(_called(function)) == answers


class Needing(Client):
    def __init__(self, size: int) -> None:
        self.size = size


class Callless:
    """As a user forgets it."""


class Blocking(Needing):
    def __call__(self, record: Any, pool: Any) -> Any:
        return []


class Opening(Client):
    async def open(self, database: Any, size: int) -> None:
        """One parameter too many."""


def blocking(record: Any, pool: Any) -> Any:
    return []


async def yields(record: Any, pool: Any) -> Any:
    yield record


async def with_needs(record: Any, pool: Any, *, needs: int) -> Any:
    return needs


@each(
    ("found", "says"),
    [
        (Needing, "write `lookup = Needing(...)`"),
        (Callless, "is a class without `__call__`"),
        (Blocking(1), "`def __call__` blocks"),
        (Opening, "write `async def open(self, database)`"),
        (blocking, "write `async def lookup(record, pool)"),
        (yields, "is a generator"),
        (with_needs, "takes 3 arguments"),
        (4, "is int"),
        (json, "is module"),
    ],
)
def test_what_is_not_is_refused_with_the_line_to_write(found: Any, says: str) -> None:
    with pytest.raises(SutError) as refused:
        user_lookup(found, "mine:it")

    assert says in str(refused.value)
    assert "write `" in refused.value.fix
