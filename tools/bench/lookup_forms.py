"""The same lookups in four forms: synchronous, on a thread pool, asynchronous ordered and asynchronous unordered.

Answers to the experiments of articles on Flink's asynchronous I/O. Invariant: every form sends the same statement for
the same records to the same server and returns each record once with its row; only the way of waiting differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from pymysql.connections import Connection

from harness.database.driver import AsyncMySqlDriver
from harness.database.endpoint import Endpoint, connect
from harness.database.pool import ConnectionPool
from harness.system.clock import monotonic_us
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.loops import real_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode, build_operator
from reference_impl.operator.functions import AsyncFunction, close_function, from_blocking, from_coroutine

QUERY = "SELECT name, SLEEP(%s) FROM customer WHERE k = %s"
"""Reads one row by key; the server sleeps for the given time."""

_TIMEOUT_MS = 60_000

FORMS = ("synchronous", "thread pool", "ordered", "unordered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One record: the key that it looks up, and the server's sleep in ms."""

    key: int
    service_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """One result, and when it was emitted, in us since the first record."""

    key: int
    name: str
    at_us: int


class LookupForm(Protocol):
    """One form, connected and warmed up."""

    def run(self, records: Sequence[Asked]) -> Sequence[Emission]:
        """Look up all records; returns the results in the order of emission."""


@contextmanager
def opened_forms(endpoint: Endpoint, *, at_once: int) -> Iterator[Mapping[str, LookupForm]]:
    """All four forms by name, each with at most `at_once` connections; closed when the block ends."""
    with ExitStack() as stack:
        connections = [_opened(stack, endpoint) for _ in range(at_once)]
        loop = stack.enter_context(real_loop())
        pool = ConnectionPool(AsyncMySqlDriver(endpoint), size=at_once)
        stack.callback(pool.close)
        ask = _asked_through(pool)
        idle: SimpleQueue[Connection[Any]] = SimpleQueue()
        for connection in connections:
            idle.put(connection)
        threads = from_blocking(_borrowing(idle), loop=loop, threads=at_once)
        stack.callback(close_function, threads)
        yield {
            "synchronous": _Synchronous(connections[0]),
            "thread pool": _InOperator(loop, threads, mode="ordered", capacity=at_once),
            "ordered": _InOperator(loop, from_coroutine(ask, loop=loop), mode="ordered", capacity=at_once),
            "unordered": _InOperator(
                loop, from_coroutine(ask, loop=loop), mode="unordered", capacity=at_once
            ),
        }


def _opened(stack: ExitStack, endpoint: Endpoint) -> Connection[Any]:
    connection = connect(endpoint)
    stack.callback(connection.close)
    connection.autocommit(True)
    return connection


def _look_up(connection: Connection[Any], asked: Asked) -> str:
    with connection.cursor() as cursor:
        cursor.execute(QUERY, (asked.service_ms / 1000, asked.key))
        row = cursor.fetchone()
    return str(row[0])


class _Synchronous:
    """One connection; one record after the other."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def run(self, records: Sequence[Asked]) -> Sequence[Emission]:
        began_us = monotonic_us()
        return [
            Emission(key=asked.key, name=_look_up(self._connection, asked), at_us=monotonic_us() - began_us)
            for asked in records
        ]


def _borrowing(idle: SimpleQueue[Connection[Any]]) -> Callable[[Asked], list[Any]]:
    """A blocking lookup on a connection borrowed from `idle`."""

    def look_up(asked: Asked) -> list[Any]:
        connection = idle.get()
        try:
            return [(asked.key, _look_up(connection, asked))]
        finally:
            idle.put(connection)

    return look_up


def _asked_through(pool: ConnectionPool) -> Callable[[Asked], Any]:
    async def look_up(asked: Asked) -> list[Any]:
        row = await pool.fetch_one(QUERY, (asked.service_ms / 1000, asked.key))
        return [] if row is None else [(asked.key, row[0])]

    return look_up


class _InOperator:
    """The reference operator around a function; a new operator for each run, with the same function and connections."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: AsyncFunction, *, mode: Mode, capacity: int
    ) -> None:
        self._loop = loop
        self._function = _Kept(function)
        self._mode: Mode = mode
        self._capacity = capacity

    def run(self, records: Sequence[Asked]) -> Sequence[Emission]:
        mailbox = Mailbox(loop=self._loop)
        executor = MailboxExecutor(mailbox, 0)
        processor = MailboxProcessor(mailbox)
        emissions: list[Emission] = []
        began_us = monotonic_us()

        def emit(element: OperatorInput) -> None:
            assert isinstance(element, Record), "no watermarks were sent"
            key, name = element.value
            emissions.append(Emission(key=key, name=name, at_us=monotonic_us() - began_us))

        operator = build_operator(
            mode=self._mode,
            capacity=self._capacity,
            function=self._function,
            timeout_ms=_TIMEOUT_MS,
            executor=executor,
            timers=Timers(self._loop, executor),
            emit=emit,
            fail=processor.report_throwable,
        )
        source = iter(records)

        def next_record() -> None:
            asked = next(source, None)
            if asked is None:
                operator.end_input()
                processor.all_actions_completed()
            else:
                operator.process(Record(value=asked))

        try:
            operator.open()
            processor.run_mailbox_loop(next_record)
        finally:
            operator.close()
            processor.close()
        return emissions


class _Kept:
    """Hides the function's `open` and `close`, since its connections outlive the operator."""

    def __init__(self, function: AsyncFunction) -> None:
        self.invoke = function.invoke
        self.timeout = function.timeout
