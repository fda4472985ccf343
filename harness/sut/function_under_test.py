"""The function under test as the operator calls it: the lookup with its client, timeout handler and dead letters.

Answers to a Flink side output for failed records. The call's failure becomes a result, so the operator emits it once,
in its place, and a checkpoint contains it. Invariant: after all its tries, a failed record either goes to the dead
letters or fails the task, never both.

Invariant: a result carries its record's id and its index up to the sink, so the rows alone show a result that was
emitted for a wrong record, twice, or not at all.

Answers to the `RichAsyncFunction` of a job. Invariant: all settings of a scenario for calls wrap the lookup here, in
this order: client, timeout handler, faults of calls, dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from harness.database.driver import AsyncDriver
from harness.database.pool import ConnectionPool
from harness.history.event import cause_of
from harness.history.journal import CallLog, Journal
from harness.history.notes import LostConnection, OwnClient, PoolUse, ServerError
from harness.scenario.model import Operator
from harness.scenario.plan import RunPlan
from harness.scenario.workloads.shape import Lookup, StampedLookup
from harness.sut.phases import Phases
from harness.sut.registry import SUTS, LookupFunction, load_lookup
from harness.sut.user_lookup import UserLookup, as_list, met_by
from harness.sut.variant import Variant
from harness.system.errors import SutError
from reference_impl.elements import Record
from reference_impl.operator.functions import (
    AnswersTimeouts,
    AsyncFunction,
    OnTimeout,
    close_function,
    from_coroutine,
    open_function,
)
from reference_impl.operator.result import Ending, ResultHandle, Supplier


class Enriched(msgspec.Struct, frozen=True, kw_only=True):
    """The `j`-th result of record `id`."""

    id: int
    j: int
    value: Any


def enrich(
    function: LookupFunction, pool: object, *, journal: CallLog
) -> Callable[[Lookup], Coroutine[object, None, list[Enriched]]]:
    """Wraps `function` to return a list of results; None becomes no result, a single value one result.

    The error of a call is journalled here, where it is raised: all that could change it comes after.
    """

    async def call(lookup: Lookup) -> list[Enriched]:
        try:
            return _enriched(lookup, stamped(lookup, as_list(await function(lookup, pool))))
        except BaseException as error:
            journal.raised(lookup.id, error)
            raise

    return call


def stamped(lookup: Lookup, values: list[object]) -> list[object]:
    """`values` with the stamp of the keyed operator in front of the lookup, if there is one."""
    if not isinstance(lookup, StampedLookup):
        return values
    return [{**lookup.stamp, **(value if isinstance(value, dict) else {"value": value})} for value in values]


def _enriched(lookup: Lookup, values: Sequence[object]) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=j, value=value) for j, value in enumerate(values)]


def answer_timeouts(values: Sequence[object]) -> Callable[[Lookup], list[Enriched]]:
    """The default results of a record that timed out (A45)."""
    return lambda lookup: _enriched(lookup, values)


class JournalProbe:
    """The operator's probe: journals calls and outcomes, and reports the phases `call` and `result`.

    `cause_of` gives the cause of a call's error, if it is known. Not `timeout_answers`: the function's timeout handler
    completes nothing (A46), so an outcome that comes after the timeout is the call's own.
    """

    def __init__(
        self,
        journal: Journal,
        phases: Phases,
        *,
        cause_of: Callable[[BaseException], str | None] = cause_of,
        timeout_answers: bool = True,
    ) -> None:
        self._journal = journal
        self._phases = phases
        self._cause_of = cause_of
        self._timeout_answers = timeout_answers

    def called(self, record: Record, *, attempt: int) -> None:
        self._journal.called(id=record.value.id, attempt=attempt)
        self._phases.reach("call")

    def settled(
        self,
        record: Record,
        *,
        attempt: int,
        ending: Ending,
        final: bool,
        results: Sequence[Enriched | DeadLetter] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """See `reference_impl.operator.result.Probe`; a dead letter is journalled as the failure behind it."""
        if ending is Ending.TIMEOUT and not self._timeout_answers:
            ending = Ending.OK if error is None else Ending.FAIL
        if results and type(letter := results[0]) is DeadLetter:
            self._journal.settled(
                id=record.value.id,
                attempt=attempt,
                ending=(Ending.FAIL if ending is Ending.OK else ending).value,
                final=final,
                values=None,
                error=letter.error,
                by=letter.by,
            )
        else:
            self._journal.settled(
                id=record.value.id,
                attempt=attempt,
                ending=ending.value,
                final=final,
                values=None if results is None else _values(results),
                error=None if error is None else f"{type(error).__name__}: {error}",
                by=None if error is None else self._cause_of(error),
                met=None if error is None else met_by(error),
            )
        self._phases.reach("result")


def _values(results: Sequence[Enriched | DeadLetter]) -> list[object]:
    if len(results) == 1:  # the usual case, without the cost of a comprehension
        return [results[0].value]  # type: ignore[union-attr]  # dead letters are handled by the caller
    return [result.value for result in results]  # type: ignore[union-attr]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The result of record `id` whose lookup failed with `error`."""

    id: int
    error: str
    by: str | None = None
    """The fault or the part of the scenario that caused it, if one did."""


def is_dead_letter(results: Sequence[object]) -> bool:
    """Whether these results stand for a failure; the predicate of a retry strategy."""
    return bool(results) and type(results[0]) is DeadLetter


class WrappedFunction:
    """An `AsyncFunction` around another one, with all that a subclass does not change."""

    def __init__(self, function: AsyncFunction) -> None:
        self.function = function

    def open(self) -> None:
        open_function(self.function)

    def close(self) -> None:
        close_function(self.function)

    def invoke(self, value: Lookup, handle: ResultHandle) -> None:
        self.function.invoke(value, handle)

    def timeout(self, value: Lookup, handle: ResultHandle) -> None:
        self.function.timeout(value, handle)


class WrappedHandle:
    """A result handle around another one, with all that a subclass does not change."""

    __slots__ = ("handle",)

    def __init__(self, handle: ResultHandle) -> None:
        self.handle = handle

    @property
    def record_key(self) -> object:
        return self.handle.record_key

    @property
    def done(self) -> bool:
        return self.handle.done

    def complete(self, results: Sequence[object]) -> None:
        self.handle.complete(results)

    def fail(self, error: BaseException) -> None:
        self.handle.fail(error)

    def supply(self, supplier: Supplier) -> None:
        self.handle.supply(supplier)


class DeadLetterTimeouts(WrappedFunction):
    """Wraps an `AsyncFunction` so that only its timeouts become `DeadLetter` results."""

    def timeout(self, value: Lookup, handle: ResultHandle) -> None:
        self.function.timeout(value, _DeadLetterHandle(handle, value))


class DeadLetterFunction(DeadLetterTimeouts):
    """Wraps an `AsyncFunction` so that its failures become `DeadLetter` results."""

    def invoke(self, value: Lookup, handle: ResultHandle) -> None:
        self.function.invoke(value, _DeadLetterHandle(handle, value))


class _DeadLetterHandle(WrappedHandle):
    """Wraps a result handle so that `fail` completes it with a `DeadLetter`, except for a SutError."""

    __slots__ = ("_id",)

    def __init__(self, handle: ResultHandle, record: Lookup) -> None:
        self.handle = handle
        self._id = record.id

    def fail(self, error: BaseException) -> None:
        if isinstance(error, SutError):  # the function breaks the rules, which no scenario allows for
            self.handle.fail(error)
            return
        letter = DeadLetter(id=self._id, error=f"{type(error).__name__}: {error}", by=cause_of(error))
        self.handle.complete([letter])


class Client(Protocol):
    """What asks the database for a lookup: the pool, or a faulty client that a scenario names."""

    def close(self) -> None: ...


class FunctionUnderTest:
    """The function of one attempt and its client, which is closed with it. A lookup object lives from `open` to `end`.

    `client` creates a faulty client that the scenario names; `around_calls` wraps the function with the faults of
    calls.
    """

    def __init__(
        self,
        plan: RunPlan,
        settings: Operator,
        *,
        driver: AsyncDriver,
        client: Callable[[str], Client],
        journal: Journal,
        around_calls: Callable[[AsyncFunction], AsyncFunction],
        loop: asyncio.AbstractEventLoop,
        variant: Variant,
        tells_versions: bool = False,
    ) -> None:
        """`tells_versions`: whether our own lookup records the version of the rows of each answer."""
        self._journal = journal
        self._loop = loop
        self._database = plan.lookups
        self._threads = settings.pool_size
        self._client: Client = (
            variant.pool(ConnectionPool)(
                driver,
                size=self._threads,
                seed=plan.seed,
                on_loss=lambda code: journal.note(LostConnection(link="lookups", code=code)),
                on_error=lambda code: journal.note(ServerError(link="lookups", code=code)),
            )
            if settings.client is None
            else client(settings.client)
        )
        self.lookup: LookupFunction = load_lookup(
            plan.sut, nonces=journal if plan.sut in SUTS else None, tells_versions=tells_versions
        )
        """The unwrapped lookup, for the loop watch."""
        if isinstance(self.lookup, UserLookup):
            self.lookup.tell(journal)
        call = enrich(variant.lookup(self.lookup), self._client, journal=journal)
        function = _around(call, settings, loop=loop, journal=journal)
        function = around_calls(function)
        self.function = DeadLetterFunction(function) if settings.on_error == "dead-letter" else function

    def open(self) -> None:
        """Opens a lookup that is an object, on the task's loop. Raises LookupFailed, or SutError."""
        lookup = self.lookup
        if isinstance(lookup, UserLookup) and lookup.alive is not None:
            assert lookup.form is not None, "an object has its form"
            if lookup.form.connects_itself:
                self._journal.note(OwnClient())
            self._loop.run_until_complete(lookup.alive.open(self._database, threads=self._threads))

    def end(self, *, has_failed: bool = False) -> None:
        """Closes a lookup that is an object, after its last call. Raises LookupFailed."""
        if isinstance(self.lookup, UserLookup) and self.lookup.alive is not None:
            self._loop.run_until_complete(self.lookup.alive.close(has_failed=has_failed))

    def close(self) -> None:
        """Closes the client and journals how it was used."""
        if isinstance(self.lookup, UserLookup):
            self.lookup.close()
        self._client.close()
        if isinstance(self._client, ConnectionPool):
            pool = self._client
            use = PoolUse(
                size=pool.size,
                opened=pool.opened,
                waited=pool.waited,
                longest_wait_ms=pool.longest_wait_ms(now_s=self._loop.time()),
                calm_asked=pool.calm_asked,
                calm_waited=pool.calm_waited,
            )
            self._journal.note(use)


def _around(
    call: Callable[[Lookup], Coroutine[object, None, list[Enriched]]],
    settings: Operator,
    *,
    loop: asyncio.AbstractEventLoop,
    journal: CallLog,
) -> AsyncFunction:
    on_timeout = settings.on_timeout
    answer: OnTimeout = answer_timeouts(on_timeout) if isinstance(on_timeout, list) else "fail"
    function = from_coroutine(call, loop=loop, on_timeout=answer)
    if not settings.cancels:
        function = _LateAnswers(function, on_timeout=answer)
    if settings.timeout and answer == "fail":
        function = _JournalledTimeouts(function, journal)
    match on_timeout:
        case "nothing":
            return _SilentTimeouts(function)
        case "dead-letter":
            return DeadLetterTimeouts(function)
        case _:
            return function


class _JournalledTimeouts(WrappedFunction):
    """A function whose timeout handler's error is journalled before any policy turns it into something else."""

    def __init__(self, function: AsyncFunction, journal: CallLog) -> None:
        super().__init__(function)
        self._journal = journal

    def timeout(self, value: Lookup, handle: ResultHandle) -> None:
        self.function.timeout(value, _JournalledHandle(handle, value, self._journal))


class _JournalledHandle(WrappedHandle):
    __slots__ = ("_journal", "_record")

    def __init__(self, handle: ResultHandle, record: Lookup, journal: CallLog) -> None:
        super().__init__(handle)
        self._record = record
        self._journal = journal

    def fail(self, error: BaseException) -> None:
        self._journal.raised(self._record.id, error, by_timeout=True)
        self.handle.fail(error)


class _SilentTimeouts(WrappedFunction):
    """A function whose timeout handler completes nothing: its record keeps its slot (A46)."""

    def timeout(self, value: Lookup, handle: ResultHandle) -> None:
        """Completes nothing."""


class _LateAnswers(AnswersTimeouts, WrappedFunction):
    """A function whose timeout does not cancel the call: its late answer must be ignored by the operator (A45)."""

    def __init__(self, function: AsyncFunction, *, on_timeout: OnTimeout) -> None:
        super().__init__(function)
        self._on_timeout = on_timeout
