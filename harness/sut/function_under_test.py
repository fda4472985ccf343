"""The function under test as the operator calls it: the lookup, its client, and what becomes of its failures.

Answers to the `RichAsyncFunction` of a job. Invariant: what a scenario says of calls (their client, their timeout,
their faults, dead letters) is put around the lookup here and nowhere else, in that order.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from harness.database.pool import ConnectionPool
from harness.history.journal import Journal
from harness.plan import RunPlan
from harness.scenario import Operator
from harness.sut.clients import CLIENTS, SilentTimeouts
from harness.sut.dead_letter import DeadLetterFunction
from harness.sut.enrichment import answer_timeouts, enrich
from harness.sut.inside.inside_faults import InsideFaults
from harness.sut.loop_watch import LoopWatch, code_of
from harness.sut.registry import LookupFunction, load_lookup
from harness.sut.variant import Variant
from reference_impl.async_function import AsyncFunction
from reference_impl.coroutine_function import from_coroutine

__all__ = ["FunctionUnderTest"]

_CONNECTIONS_MAX = 50
"""Of one subtask's pool, unless the scenario says otherwise; two subtasks stay below a server's usual limit of 151."""


class FunctionUnderTest:
    """Of one attempt: `function`, and the client that it asks through, which is closed with it."""

    def __init__(
        self,
        plan: RunPlan,
        settings: Operator,
        *,
        journal: Journal,
        inside: InsideFaults,
        loop: asyncio.AbstractEventLoop,
        variant: Variant,
    ) -> None:
        self.journal = journal
        self._client = _client(plan, settings, journal, variant.pool(ConnectionPool))
        lookup = variant.lookup(load_lookup(plan.sut))
        self.watch = LoopWatch(loop, journal, function=code_of(lookup))
        function = _around(lookup, self._client, settings, inside=inside, loop=loop)
        self.function = variant.function(function, self)

    def close(self) -> None:
        """Give the client up, and write down what its pool counted."""
        self._client.close()
        if isinstance(self._client, ConnectionPool):
            pool = self._client
            self.journal.used_pool(
                size=pool.size,
                opened=pool.opened,
                waited=pool.waited,
                longest_wait_ms=pool.longest_wait_ms,
            )


def _client(plan: RunPlan, settings: Operator, journal: Journal, pool: type[ConnectionPool]) -> Any:
    """The pool, or a client with a mistake that the scenario asks for."""
    if settings.client is not None:
        return CLIENTS[settings.client](plan.lookups)
    return pool(
        plan.lookups,
        size=settings.connections or min(settings.capacity, _CONNECTIONS_MAX),
        seed=plan.seed,
        on_loss=partial(journal.lost_connection, "lookups"),
        on_error=partial(journal.server_error, "lookups"),
    )


def _around(
    lookup: LookupFunction,
    client: Any,
    settings: Operator,
    *,
    inside: InsideFaults,
    loop: asyncio.AbstractEventLoop,
) -> AsyncFunction:
    on_timeout = settings.on_timeout
    lifted = from_coroutine(
        enrich(lookup, client),
        loop=loop,
        on_timeout=answer_timeouts(on_timeout) if isinstance(on_timeout, list) else "fail",
    )
    function: AsyncFunction = SilentTimeouts(lifted) if on_timeout == "nothing" else lifted
    function = inside.around_calls(function)
    return DeadLetterFunction(function) if settings.on_error == "dead-letter" else function
