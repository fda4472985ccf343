"""The calm twin: what a user's lookup returns without any fault, one call at a time, each on a fresh client.

Answers to metamorphic testing's source run. Invariants: no call begins before the one before it has ended or was
given up; equal questions are asked in equal order; every pass, call and wait has a limit. It runs in a process of its
own, so that nothing that the function keeps in its module reaches the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from harness.database.driver import AsyncDriver
from harness.database.endpoint import NOWHERE, Endpoint
from harness.database.pool import ConnectionPool
from harness.history.values import same
from harness.scenario.workloads.shape import Lookup, OwnLookup, StampedLookup
from harness.sut.registry import LookupFunction
from harness.sut.user_lookup import OF_KEY, UserLookup, as_list, observing, raised_at
from harness.system.choices import Draw
from harness.system.errors import SutError
from harness.system.json_types import Json

ASKED_MAX: Final = 500
"""The most keys, or records, that are asked for; of more, a sample drawn by the seed."""
CALL_S: Final = 10.0
"""How long one call may take; the time of a query is limited to as much by the pool."""
ALL_S: Final = 20.0
"""How long all calls may take; what is not asked by then has no expected results."""
_BYTES_MAX: Final = 32 << 20
"""The size of all results together, which go into the plan of every attempt."""
_GIVEN_UP_S: Final = 1.0
"""How long a call that was cancelled may take to end."""
_FAILURES_MAX: Final = 20
"""If so many first calls fail, and none before succeeded, the rest is not asked."""
_LATE_MAX: Final = 2
"""If so many calls took longer than `CALL_S`, the rest is not asked."""
_TWICE_MIN: Final = 3
"""The least number of records that are asked twice; of many records, a tenth is."""
_SERVICE_MS: Final = 5
"""The longest service time of a second call; first calls have none, for the time decides no result."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A record to ask for, and another record of the same key for the second call."""

    record: dict[str, Any]
    other: dict[str, Any]


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """What the twin is asked; at most `ASKED_MAX` of each, in the order in which they are asked."""

    sut: str
    seed: int
    connections: int
    """The size of the pool of each call."""
    keys: list[Question]
    """One for each distinct key."""
    records: list[Question]
    """One for each record; `other` is the record itself."""
    path: list[str] = []
    lookups: Endpoint | None = None
    """None: the database is simulated."""


class Pass(StrEnum):
    """What one pass over the questions takes the results to depend on."""

    KEY = "key"
    RECORD = "record"
    WHOLE = "whole"
    """On the record with its service time."""


Tell = Callable[[dict[str, Any]], None]
"""Gets a line of the twin's report: `pass`, `answer`, `failed`, `late`, `differs`, `refused` and `end`."""


async def call_alone(
    lookup: LookupFunction, record: Lookup, driver: AsyncDriver, questions: Questions
) -> object:
    """One call of the user's function on a fresh client, which is closed afterwards.

    A lookup that is an object is opened before the call and closed after it.
    """
    pool = ConnectionPool(driver, size=questions.connections, seed=questions.seed)
    alive = lookup.alive if isinstance(lookup, UserLookup) else None
    try:
        if alive is not None:
            await alive.open(questions.lookups or NOWHERE, threads=1)
        try:
            return await lookup(record, pool)
        finally:
            if alive is not None:
                await alive.close()
    finally:
        pool.close()


class _Answer(NamedTuple):
    kind: str
    """`answer`, `failed` or `late`."""
    v: list[Any]
    error: str = ""


class CalmTwin:
    """Asks all questions once. Mutable: counts its calls and notes what the function reads of a record."""

    def __init__(
        self, questions: Questions, *, lookup: LookupFunction, driver: AsyncDriver, tell: Tell
    ) -> None:
        self._questions = questions
        self._lookup = lookup
        self._driver = driver
        self._tell = tell
        self._read: set[str] = set()
        self._kinds = {kind: observing(kind, self._read) for kind in (Lookup, OwnLookup, StampedLookup)}
        self._calls = self._bytes = self._late = self._failed = self._answered = 0
        self._until_s = 0.0

    async def ask(self) -> None:
        """Asks by key, then by record, then with service times, until a pass shows that results depend on no more."""
        self._until_s = asyncio.get_running_loop().time() + ALL_S
        try:
            for what in Pass:
                self._tell({"k": "pass", "what": what})
                if await self._asks(what):
                    break
        except SutError as refusal:
            self._tell({"k": "refused", "what": refusal.what, "fix": refusal.fix})
        self._tell({"k": "end", "calls": self._calls})

    async def _asks(self, what: Pass) -> bool:
        """Whether the pass holds: the results depend on no more than `what`."""
        asked = self._questions.keys if what is Pass.KEY else self._questions.records
        twice = _drawn_tenth(len(asked), seed=self._questions.seed)
        for place, question in enumerate(asked):
            is_late = asyncio.get_running_loop().time() >= self._until_s or self._late >= _LATE_MAX
            is_hopeless = self._failed >= _FAILURES_MAX and not self._answered
            if is_late or is_hopeless or self._bytes >= _BYTES_MAX:
                return True
            first = await self._answer(question.record, service_ms=_service(question.record, what, 0))
            if what is Pass.KEY and not self._read <= OF_KEY:
                return False
            if not await self._stands(first, question, what, twice=place in twice):
                return what is Pass.WHOLE
            self._tell_answer(first, question)
        return True

    async def _stands(self, first: _Answer, question: Question, what: Pass, *, twice: bool) -> bool:
        """Whether a second call gives the same; tells of a difference that the record does not explain."""
        if first.kind == "failed":
            again = await self._answer(question.record, service_ms=_service(question.record, what, 0))
            is_sure = again.kind == "failed"
            line = {"k": "failed", "id": question.record["id"], "key": question.record["key"]}
            self._tell({**line, "error": first.error, "sure": is_sure})
            return True
        if first.kind != "answer" or not twice:
            return True
        second = await self._answer(question.other, service_ms=_service(question.other, what, _SERVICE_MS))
        if second.kind != "answer" or same(first.v, second.v):
            return True
        if what is not Pass.WHOLE:
            third = await self._answer(question.record, service_ms=_service(question.record, what, 0))
            if third.kind == "answer" and same(first.v, third.v):
                return False
        self._tell({"k": "differs", "key": question.record["key"], "one": first.v, "other": second.v})
        self._late = _LATE_MAX  # nothing more is asked
        return True

    def _tell_answer(self, answer: _Answer, question: Question) -> None:
        line = {"id": question.record["id"], "key": question.record["key"]}
        if answer.kind == "answer":
            self._answered += 1
            self._bytes += len(msgspec.json.encode(answer.v))
            self._tell({"k": "answer", **line, "v": answer.v})
        elif answer.kind == "late":
            self._late += 1
            self._tell({"k": "late", **line})
        else:
            self._failed += 1

    async def _answer(self, told: Json, *, service_ms: int) -> _Answer:
        kind = StampedLookup if "stamp" in told else OwnLookup if "fields" in told else Lookup
        record = msgspec.convert({**told, "service_ms": service_ms}, self._kinds[kind])
        self._calls += 1
        call = asyncio.ensure_future(call_alone(self._lookup, record, self._driver, self._questions))
        await asyncio.wait({call}, timeout=CALL_S)
        if not call.done():
            call.cancel()
            await asyncio.wait({call}, timeout=_GIVEN_UP_S)
            return _Answer("late", [])
        error = call.exception()
        if error is None:
            # As a history holds them: tuples are lists, and nothing is shared with the function.
            return _Answer("answer", msgspec.json.decode(msgspec.json.encode(as_list(call.result()))))
        if isinstance(error, SutError):
            raise error
        where = raised_at(error)
        return _Answer("failed", [], f"{type(error).__name__}: {error}" + (f" ({where})" if where else ""))


def _service(told: Json, what: Pass, most_ms: int) -> int:
    service_ms: int = told["service_ms"]
    return service_ms if what is Pass.WHOLE else min(service_ms, most_ms)


def _drawn_tenth(count: int, *, seed: int) -> set[int]:
    """The places of those that are asked twice; only membership is asked of the set."""
    draw = Draw(seed, "calm twin: asked twice")
    wanted = min(count, max(_TWICE_MIN, count // 10))
    chosen: set[int] = set()
    while len(chosen) < wanted:
        chosen.add(draw.index(count))
    return chosen
