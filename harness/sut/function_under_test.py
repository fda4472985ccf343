"""The function under test as the operator calls it: the lookup with its client, timeout handler and dead letters.

Answers to the `RichAsyncFunction` of a job. Invariant: all settings of a scenario for calls wrap the lookup here, in
this order: client, timeout handler, faults of calls, dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from harness.database.driver import AsyncDriver
from harness.database.pool import ConnectionPool
from harness.history.journal import Journal
from harness.history.notes import LostConnection, OwnClient, PoolUse, ServerError
from harness.scenario.model import Operator
from harness.scenario.plan import RunPlan
from harness.sut.dead_letter import DeadLetterFunction, DeadLetterTimeouts
from harness.sut.enrichment import answer_timeouts, enrich
from harness.sut.registry import SUTS, LookupFunction, load_lookup
from harness.sut.user_lookup import UserLookup
from harness.sut.variant import Variant
from reference_impl.operator.functions import AsyncFunction, OnTimeout, answer_timeout, from_coroutine

_CONNECTIONS_MAX = 50
"""The default limit of a subtask's pool; two subtasks stay below a server's default limit of 151 connections."""


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
        client: Callable[[str], Any],
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
        self._threads = connections_of(settings)
        self._client = (
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
        function = _around(variant.lookup(self.lookup), self._client, settings, loop=loop)
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
                longest_wait_ms=pool.longest_wait_ms,
                calm_asked=pool.calm_asked,
                calm_waited=pool.calm_waited,
            )
            self._journal.note(use)


def connections_of(settings: Operator) -> int:
    """How many connections the pool has, or a blocking lookup threads."""
    return settings.connections or min(settings.capacity, _CONNECTIONS_MAX)


def _around(
    lookup: LookupFunction, client: object, settings: Operator, *, loop: asyncio.AbstractEventLoop
) -> AsyncFunction:
    on_timeout = settings.on_timeout
    answer: OnTimeout = answer_timeouts(on_timeout) if isinstance(on_timeout, list) else "fail"
    function = from_coroutine(enrich(lookup, client), loop=loop, on_timeout=answer)
    if not settings.cancels:
        function = _LateAnswers(function, on_timeout=answer)
    match on_timeout:
        case "nothing":
            return _SilentTimeouts(function)
        case "dead-letter":
            return DeadLetterTimeouts(function)
        case _:
            return function


class _SilentTimeouts:
    """A function whose timeout handler completes nothing: its record keeps its slot (A46)."""

    def __init__(self, function: Any) -> None:
        self.invoke = function.invoke
        self._function = function

    def timeout(self, value: object, handle: object) -> None:
        """Completes nothing."""

    def close(self) -> None:
        self._function.close()


class _LateAnswers:
    """A function whose timeout does not cancel the call: its late answer must be ignored by the operator (A45)."""

    def __init__(self, function: Any, *, on_timeout: OnTimeout) -> None:
        self.invoke = function.invoke
        self.close = function.close
        self._on_timeout = on_timeout

    def timeout(self, value: Any, handle: Any) -> None:
        """Completes the record; the call goes on."""
        answer_timeout(self._on_timeout, value, handle)
