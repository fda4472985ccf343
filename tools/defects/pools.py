"""Defects of the connection pool: of the connections it gives out, of what a loss answers, of its circuit.

Answers to a defect that asyncmy's pool once had, and to clients that ignore a cancellation. Invariant: each differs
from the honest pool in what becomes of a cancelled or lost call, and does not depend on the driver: it overrides what
users of the pool call (`connection`, `fetch_all`), and where a connection is returned or closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, SIM_ONLY, Defect
from harness.sut.defects.twelve import LOSS_IS_NO_ROW
from harness.sut.lookup import ForeignAnswer
from harness.sut.registry import LookupFunction
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.where import cancels_calls

Rows = list[tuple[Any, ...]]


async def _ask(connection: Any, sql: str, args: Sequence[Any]) -> Rows:
    async with connection.cursor() as cursor:
        await cursor.execute(sql, args)
        return list(await cursor.fetchall())


@made_once
def reusing_cancelled(pool: Kind) -> Kind:
    """`pool`, which takes cancelled connections back with an answer still to be read.

    Answers come in the order of the statements, so the next statement on such a connection gets the rows of the one
    before it, and leaves its own rows to the one after it.
    """

    class MixedUpPool(pool):  # type: ignore[misc]  # a class made of a class
        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._unread: dict[Any, deque[asyncio.Task[Rows]]] = {}
            """The answers of each connection that are not read yet, the oldest first."""

        async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> Rows:
            async with self.connection() as connection:
                unread = self._unread.setdefault(connection, deque())
                before = unread[-1] if unread else None
                unread.append(asyncio.ensure_future(_ask_after(before, connection, sql, args)))
                rows = await asyncio.shield(unread[0])  # cancelled here, it stays the oldest unread answer
                unread.popleft()
                return rows

        def _hang_up(self, connection: Any) -> None:
            unread = self._unread.get(connection)
            if unread and not unread[0].done():  # the call that waited for it was cancelled
                if self._is_closed:
                    for answer in unread:
                        answer.cancel()
                else:
                    self._give_back(connection)
                    return
            self._unread.pop(connection, None)
            super()._hang_up(connection)

    return MixedUpPool


async def _ask_after(
    before: asyncio.Task[Rows] | None, connection: Any, sql: str, args: Sequence[Any]
) -> Rows:
    """Ask when `before` has ended: a server does one statement of a connection after the other."""
    if before is not None:
        with suppress(Exception):  # the reader of that answer gets the error
            await asyncio.shield(before)
    return await _ask(connection, sql, args)


def trusting(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, which does not compare the nonce of an answer with its own."""

    async def trustful(record: Any, pool: Any) -> Any:
        try:
            return await lookup(record, pool)
        except ForeignAnswer as foreign:
            return foreign.values

    return trustful


@made_once
def cancelling_nothing(pool: Kind) -> Kind:
    """`pool`, whose cancelled calls go on until they are answered; by itself this is no defect."""

    class DoggedPool(pool):  # type: ignore[misc]
        async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> Rows:
            asked: asyncio.Task[Rows] = asyncio.ensure_future(super().fetch_all(sql, args))
            while not asked.done():
                try:
                    await asyncio.shield(asked)
                except asyncio.CancelledError:
                    if self._is_closed:  # its connection is closed: there will be no answer
                        asked.cancel()
                        raise
                except Exception:  # noqa: BLE001 - raised below
                    break
            return asked.result()

    return DoggedPool


@made_once
def staying_open(pool: Kind) -> Kind:
    """`pool`, whose circuit makes no trial connect once it is open."""

    class HopelessPool(pool):  # type: ignore[misc]
        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            circuit = self._circuit
            circuit.admits = lambda: circuit.is_closed

    return HopelessPool


@made_once
def keeping_trial(pool: Kind) -> Kind:
    """`pool`, whose circuit takes a cancelled trial connect for one that still runs, so that no other is made."""

    class ForgetfulPool(pool):  # type: ignore[misc]
        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._circuit.abandoned = lambda: None

    return ForgetfulPool


@made_once
def keeping_slot(pool: Kind) -> Kind:
    """`pool`, which keeps the slot of a call that is cancelled while it connects."""

    class LeakingPool(pool):  # type: ignore[misc]
        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._cancelled: dict[Any, None] = {}

        async def _dial(self) -> object:
            try:
                return await super()._dial()
            except asyncio.CancelledError:
                self._cancelled[asyncio.current_task()] = None
                raise

        async def _end(self, limit: Any, error: BaseException | None) -> None:
            if asyncio.current_task() not in self._cancelled:
                await super()._end(limit, error)
            else:
                await limit.__aexit__(type(error), error, None)

    return LeakingPool


@made_once
def keeping_slot_of_late_connect(pool: Kind) -> Kind:
    """`pool`, which keeps the slot of a call whose connect passed its own limit."""

    class LateLeakingPool(pool):  # type: ignore[misc]
        async def _end(self, limit: Any, error: BaseException | None) -> None:
            if not isinstance(error, TimeoutError):
                await super()._end(limit, error)
                return
            await limit.__aexit__(type(error), error, None)
            self._raise(error)

    return LateLeakingPool


_OUTAGE_S, _FAILS_EACH = 1.0, 10


def failing_now_and_then(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, of whose calls every tenth fails for ever, once an answer has taken more than a second."""
    asked, is_limping = 0, False

    async def limping(record: Any, pool: Any) -> Any:
        nonlocal asked, is_limping
        asked += 1
        if is_limping and asked % _FAILS_EACH == 0:
            raise ConnectionError("no healthy endpoint")
        began_s = asyncio.get_running_loop().time()
        answer = await lookup(record, pool)
        is_limping = is_limping or asyncio.get_running_loop().time() - began_s > _OUTAGE_S
        return answer

    return limping


OF_POOLS = (
    LOSS_IS_NO_ROW,
    Defect(
        number=19,
        name="cancelled-connection-reused",
        about="a connection whose request was cancelled goes back to the pool, with the answer still to come",
        mirrors="asyncmy#103",
        convicted_by=("V19",),
        variant=Variant(pool=reusing_cancelled, lookup=trusting),
        where="a timeout is answered, and cancels its call",
        applies=cancels_calls,
        scenario="cancel-storm",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="circuit-stays-open",
        about="the pool's circuit, once open, makes no trial connect, so no lookup is answered any more",
        mirrors="a circuit breaker without its half-open state",
        convicted_by=("V16",),
        variant=Variant(pool=staying_open),
        where="`circuit-opens`",
        applies=NEVER,
        scenario="circuit-opens",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="cancelled-trial-is-the-last",
        about="after a trial connect was cancelled, the pool's circuit waits for its end for ever",
        mirrors="a circuit breaker that counts successes and failures, and no cancellation",
        convicted_by=("V16",),
        variant=Variant(pool=keeping_trial),
        where="`trial-cancelled`",
        applies=NEVER,
        scenario="trial-cancelled",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="cancelled-connect-keeps-slot",
        about="a call that is cancelled while it connects keeps its slot of the pool",
        mirrors="a release behind `except Exception`, which a cancellation passes",
        convicted_by=("V16",),
        variant=Variant(pool=keeping_slot),
        where="`handshakes-cancelled`",
        applies=NEVER,
        scenario="handshakes-cancelled",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="tenth-endpoint-stays-dead",
        about="after an outage one call in ten fails for ever",
        mirrors="a client that balances among endpoints, and never tries a dead one again",
        convicted_by=("V16",),
        variant=Variant(lookup=failing_now_and_then),
        where="`all-answer-again`",
        applies=NEVER,
        scenario="all-answer-again",
        levels=SIM_ONLY,
    ),
    Defect(
        name="late-connect-keeps-slot",
        about="a call whose connect passes its limit keeps its slot of the pool",
        mirrors="a release in the handler of the driver's own errors, of which a passed limit is none",
        convicted_by=("V16",),
        variant=Variant(pool=keeping_slot_of_late_connect),
        where="`connects-past-limit`",
        applies=NEVER,
        scenario="connects-past-limit",
        levels=SIM_AND_LIVE,
    ),
)
