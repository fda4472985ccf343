"""Defects of a lookup: it answers from the past, asks for a key that lost something, or takes another call's reply.

Answers to a cache without expiry, a snapshot that stays open, a column that is narrower than the key, a client that
normalises texts, and one that matches replies to calls by their order. Invariant: each differs from the reference in
which rows a call gets, and gives them the call's own nonce only where the mistake would keep it.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from harness.scenario.workloads.shape import Key
from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect
from harness.sut.registry import LookupFunction
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.pools import trusting

Rows = list[tuple[Any, ...]]
_NONCE, _ROWS_KEY = 3, 3
"""The place of the nonce in a row, and of the key in the arguments of the reference lookup."""


def caching(under: Callable[[Sequence[Any]], Any]) -> Callable[[Kind], Kind]:
    """A pool that asks once for each key, named by `under` from its parts, and keeps the rows."""

    @made_once
    def of(pool: Kind) -> Kind:
        class CachingPool(pool):  # type: ignore[misc]  # a class made of a class
            def __init__(self, *args: Any, **parts: Any) -> None:
                super().__init__(*args, **parts)
                self._kept: dict[Any, Rows] = {}

            async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> Rows:
                name = under(args[_ROWS_KEY:])
                if name not in self._kept:
                    self._kept[name] = await super().fetch_all(sql, args)
                return [(*row[:_NONCE], args[1], *row[_NONCE + 1 :]) for row in self._kept[name]]

        return CachingPool

    return of


def asking_for(other: Callable[[Key], Key]) -> Callable[[LookupFunction], LookupFunction]:
    """A lookup that asks for the key that `other` makes of the record's."""

    def of(lookup: LookupFunction) -> LookupFunction:
        async def of_other_key(record: Any, pool: Any) -> Any:
            return await lookup(replace(record, key=other(record.key)), pool)

        return of_other_key

    return of


def _in_bits(bits: int) -> Callable[[Key], Key]:
    """A key as a signed integer of so many bits holds it."""
    half = 1 << (bits - 1)
    return lambda key: (key + half) % (2 * half) - half if isinstance(key, int) else key


def _without_sign(key: Key) -> Key:
    return abs(key) if isinstance(key, int) else key


def _folded(key: Key) -> Key:
    """As a collation compares that ignores case, width and normal form."""
    return unicodedata.normalize("NFKC", key).casefold() if isinstance(key, str) else key


def decoding(value: Callable[[Any], Any]) -> Callable[[Kind], Kind]:
    """A pool that makes `value` of each name, city and number of a row."""

    @made_once
    def of(pool: Kind) -> Kind:
        class DecodingPool(pool):  # type: ignore[misc]
            async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> Rows:
                rows: Rows = await super().fetch_all(sql, args)
                # A name that is None stands for no row.
                return [row if row[0] is None else (*map(value, row[:_NONCE]), *row[_NONCE:]) for row in rows]

        return DecodingPool

    return of


def _in_latin_1(value: Any) -> Any:
    return value.encode("latin-1", "replace").decode("latin-1") if isinstance(value, str) else value


@made_once
def in_one_transaction(pool: Kind) -> Kind:
    """`pool`, whose connections begin a transaction with their first statement, and never end it."""

    class NeverCommittingPool(pool):  # type: ignore[misc]
        async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> Rows:
            async with self.connection() as connection, connection.cursor() as cursor:
                await cursor.execute("SET AUTOCOMMIT = 0")
                await cursor.execute(sql, args)
                return list(await cursor.fetchall())

    return NeverCommittingPool


@made_once
def in_order_of_asking(pool: Kind) -> Kind:
    """`pool`, which gives each reply to the call that has waited longest, whichever connection it came over."""

    class OrderlyPool(pool):  # type: ignore[misc]
        def __init__(self, *args: Any, **parts: Any) -> None:
            super().__init__(*args, **parts)
            self._unanswered: deque[asyncio.Future[Rows]] = deque()

        async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> Rows:
            mine: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
            self._unanswered.append(mine)
            try:
                rows: Rows = await super().fetch_all(sql, args)
            except Exception as error:  # noqa: BLE001 - it goes to the oldest call, too
                self._unanswered.popleft().set_exception(error)
            else:
                self._unanswered.popleft().set_result(rows)
            return await mine

    return OrderlyPool


OF_LOOKUPS = (
    Defect(
        name="stale-cache",
        about="rows are kept for each key, and a change of the table is never noticed",
        mirrors="a cache in front of a lookup join, without expiry",
        convicted_by=("V8",),
        variant=Variant(pool=caching(tuple)),
        where="rows of the looked-up table change",
        applies=NEVER,
        scenario="rows-change",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="stale-snapshot",
        about="the connections of the pool stay in one transaction, and read its snapshot for ever",
        mirrors="a pool without autocommit, at isolation level REPEATABLE READ",
        convicted_by=("V8",),
        variant=Variant(pool=in_one_transaction),
        where="rows of the looked-up table change",
        applies=NEVER,
        scenario="rows-change-under-faults",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="key-in-8-bits",
        about="a key is asked for as a signed integer of 8 bits",
        mirrors="a key column of type TINYINT",
        convicted_by=("V8",),
        variant=Variant(lookup=asking_for(_in_bits(8))),
        where="keys are numbers beyond 127",
        applies=NEVER,
        scenario="keys-beyond-a-byte",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="key-in-16-bits",
        about="a key is asked for as a signed integer of 16 bits",
        mirrors="a key column of type SMALLINT",
        convicted_by=("V8",),
        variant=Variant(lookup=asking_for(_in_bits(16))),
        where="keys are numbers beyond 32 767",
        applies=NEVER,
        scenario="keys-beyond-two-bytes",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="key-without-sign",
        about="a negative key is asked for without its sign",
        mirrors="an unsigned column, or a hash that loses the sign",
        convicted_by=("V8",),
        variant=Variant(lookup=asking_for(_without_sign)),
        where="keys are numbers and their negatives",
        applies=NEVER,
        scenario="keys-signed",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="key-folded",
        about="a text is normalised and folded before it is asked for",
        mirrors="a collation that ignores case and accents",
        convicted_by=("V8",),
        variant=Variant(lookup=asking_for(_folded)),
        where="keys are texts equal but for case, accents or normal form",
        applies=NEVER,
        scenario="keys-unicode",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="key-parts-joined",
        about="a cache keeps rows under the parts of a composite key, joined to one text",
        mirrors="a cache key without a separator",
        convicted_by=("V8",),
        variant=Variant(pool=caching(lambda parts: "".join(map(str, parts)))),
        where="keys are a text and a number",
        applies=NEVER,
        scenario="keys-composite",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="texts-in-latin-1",
        about="a character of a result that Latin-1 lacks becomes a question mark",
        mirrors="a connection whose character set is not that of the table",
        convicted_by=("V8",),
        variant=Variant(pool=decoding(_in_latin_1)),
        where="rows hold odd values",
        applies=NEVER,
        scenario="values-odd",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="crossed-replies",
        about="a reply goes to the call that has waited longest, whichever connection it came over",
        mirrors="a multiplexing client that matches replies to calls by their order",
        convicted_by=("V19",),
        variant=Variant(pool=in_order_of_asking, lookup=trusting),
        where="several calls wait at once, and their answers take different times",
        applies=NEVER,
        scenario="replies-overtake",
        levels=SIM_AND_LIVE,
    ),
)
