"""The life of a lookup object: opened, called on the loop or on threads, closed; and what goes wrong in it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from harness.database.endpoint import Endpoint
from harness.scenario.workloads.shape import Lookup
from harness.sut import lookup_object
from harness.sut.lookup_object import LookupFailed, LookupObject
from harness.sut.user_lookup import UserLookup, user_lookup
from harness.system.errors import SutError
from reference_impl.mailbox.loops import real_loop, virtual_loop
from tools.cases import each

SERVER = Endpoint(host="127.0.0.1", port=3307, user="ann", password="p@ss/word", database="shop")
NOWHERE = Endpoint(host="", port=0, user="", password="", database="")
RECORD = Lookup(id=4, key=7, service_ms=0)


class Client:
    """As a user writes it."""

    said: list[Any]

    async def open(self, database: Any) -> None:
        self.said = [database.url("asyncmy")]

    async def __call__(self, record: Any) -> Any:
        return [*self.said, record.key]

    async def close(self) -> None:
        self.said.append("closed")


class Blocking:
    def open(self, database: Any) -> None:
        self.threads = {threading.get_ident(): "open"}

    def __call__(self, record: Any) -> Any:
        self.threads[threading.get_ident()] = "call"
        return len(self.threads)

    def close(self) -> None:
        self.threads[threading.get_ident()] = "close"


class OfThePool:
    async def open(self, database: Any) -> None:
        self.database = database

    async def __call__(self, record: Any, pool: Any) -> Any:
        return [pool]


class Asks(OfThePool):
    async def open(self, database: Any) -> None:
        await asyncio.sleep(0)
        self.port = database.port


async def lived(found: Any, *, database: Endpoint = SERVER) -> Any:
    lookup = user_lookup(found, "mine:it")
    alive = alive_of(lookup)
    await alive.open(database, threads=2)
    try:
        return await lookup(RECORD, "pool")
    finally:
        await alive.close()


def alive_of(lookup: UserLookup) -> LookupObject:
    assert lookup.alive is not None
    return lookup.alive


def test_an_object_is_opened_with_the_database_called_and_closed_u4() -> None:
    client = Client()

    with real_loop() as loop:
        assert loop.run_until_complete(lived(client)) == [
            "mysql+asyncmy://ann:p%40ss%2Fword@127.0.0.1:3307/shop",
            7,
        ]

    assert client.said[-1] == "closed"


def test_a_class_gives_each_attempt_an_object_of_its_own_u4() -> None:
    async def twice() -> list[Any]:
        lookups = [user_lookup(Client, "mine:it"), user_lookup(Client, "mine:it")]
        for lookup in lookups:
            await alive_of(lookup).open(SERVER, threads=1)
        first, second = [await lookup(RECORD, "pool") for lookup in lookups]
        await alive_of(lookups[0]).close()
        return [first == second, await lookups[1](RECORD, "pool") == second]

    with real_loop() as loop:
        assert loop.run_until_complete(twice()) == [True, True]


def test_a_blocking_one_never_runs_on_the_tasks_thread_u4() -> None:
    client = Blocking()

    with real_loop() as loop:
        assert loop.run_until_complete(lived(client)) >= 1

    assert threading.get_ident() not in client.threads
    assert "close" in client.threads.values()


def test_it_runs_no_more_threads_than_it_may_and_ends_them_u4() -> None:
    gate = threading.Barrier(2)

    class Meets(Blocking):
        def __call__(self, record: Any) -> Any:
            gate.wait(timeout=60)
            return threading.current_thread().name

    async def two() -> list[Any]:
        lookup = user_lookup(Meets(), "mine:it")
        await alive_of(lookup).open(SERVER, threads=2)
        names = await asyncio.gather(*[lookup(RECORD, None) for _ in range(4)])
        await alive_of(lookup).close()
        return names

    with real_loop() as loop:
        names = loop.run_until_complete(two())

    assert len(set(names)) == 2


@each("raised", [ValueError("no\nway"), SystemExit(0), asyncio.CancelledError()], ids=repr)
@each("method", ["open", "close"])
def test_what_open_or_close_raises_is_the_lookups_error_with_its_line_u4(
    method: str, raised: BaseException
) -> None:
    async def fails(self: Any, *_: Any) -> None:
        raise raised

    fails_at = f"test_lookup_object.py:{fails.__code__.co_firstlineno + 1})"
    found = type("Mine", (Client,), {method: fails})

    with real_loop() as loop, pytest.raises(LookupFailed) as failed:
        loop.run_until_complete(lived(found))

    assert f"the lookup's {method}() raised {type(raised).__name__}" in str(failed.value)
    assert str(failed.value).endswith(fails_at)
    assert failed.value.__cause__ is raised


def test_an_open_without_an_end_is_given_up_u4(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits(Client):
        async def open(self, database: Any) -> None:
            await asyncio.Event().wait()

    with virtual_loop() as loop, pytest.raises(LookupFailed, match=r"open\(\) did not end within 30 s"):
        loop.run_until_complete(lived(Waits))


def test_a_call_that_goes_on_after_close_is_an_error_u4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_object, "_THREADS_S", 0.01)
    goes_on, over = threading.Event(), threading.Event()

    class GoesOn(Blocking):
        def __call__(self, record: Any) -> Any:
            goes_on.set()
            over.wait(timeout=60)

    async def timed_out() -> None:
        lookup = user_lookup(GoesOn(), "mine:it")
        await alive_of(lookup).open(SERVER, threads=1)
        call = asyncio.ensure_future(lookup(RECORD, None))
        await asyncio.get_running_loop().run_in_executor(None, goes_on.wait)
        call.cancel()
        await alive_of(lookup).close()

    try:
        with real_loop() as loop, pytest.raises(LookupFailed, match="1 calls of the lookup still run"):
            loop.run_until_complete(timed_out())
    finally:
        over.set()


def test_without_a_server_only_the_pool_can_be_used_u4() -> None:
    with virtual_loop() as loop:
        assert loop.run_until_complete(lived(OfThePool, database=NOWHERE)) == ["pool"]
        with pytest.raises(SutError, match=r"reads database\.port, and level sim has no server"):
            loop.run_until_complete(lived(Asks, database=NOWHERE))


@pytest.mark.parametrize(
    ("found", "connects", "needs"),
    [(Client, True, True), (Blocking, True, True), (OfThePool, True, False), (lambda: None, None, None)],
)
def test_what_an_object_needs_shows_without_making_it_u4(found: Any, connects: Any, needs: Any) -> None:
    if connects is None:
        with pytest.raises(SutError):
            user_lookup(found, "mine:it")
        return
    form = user_lookup(found, "mine:it").form
    assert form is not None
    assert (form.connects_itself, form.needs_a_server) == (connects, needs)
