"""The lookup of a situation: reads, or writes its row too, and ends each call as its policy says.

Answers to a user's `AsyncFunction` with an idempotent writer and a dead-letter output. Invariant: what is written has
the token of the attempt and is checked where it is written; a record goes to the dead letters or fails the
task, never both.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from harness.database.connection_lost import ConnectionLost
from harness.database.epoch import Fenced
from harness.sim.effects import EffectTable
from harness.sim.link import LOST_CONNECTION
from harness.sim.reference_lookup import LookupFailed, enriched
from harness.sim.situation import Operator
from harness.sim.situation_source import results_of
from harness.sim.weather import Fate
from harness.workloads.lookups import Lookup
from reference_impl.errors import CallTimedOut, MailboxClosed
from reference_impl.result import ResultHandle

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from harness.sim.client import Request
    from harness.sim.situated_run import SituatedRun

__all__ = ["DeadLetters", "SituatedLookup"]

_FENCED = -1
"""No server's error code: the transaction's own answer."""
_SUBSTITUTE = "substitute"


class DeadLetters:
    """Where records go that nobody can help. `attempt` is the one that gives them up."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def route(self, handle: ResultHandle, lookup: Lookup, error: BaseException) -> None:
        """Write it there, once the operator has heard that the record has no results."""
        journal = self._attempt.journal
        assert journal is not None, "an attempt that calls has a journal"
        journal.gives_up(id=lookup.id, error=f"{type(error).__name__}: {error}")
        handle.complete([])


class _Ongoing(Struct, eq=False):
    """One call. Mutable: `over` once nobody wants its answer."""

    function: SituatedLookup
    lookup: Lookup
    handle: ResultHandle
    nonce: int | None
    request: Request | None = None
    over: bool = False

    def work(self) -> tuple[Any, int | None, int]:
        """On the server, at one instant; a slow statement takes effect at its end."""
        return self.function.serve(self)

    def answered(self, value: Any, code: int | str | None, echoed: Any) -> None:
        """By the client, in a callback of the loop."""
        if not self.over:
            self.over = True
            self.function.accept(self, value, code, echoed)


class SituatedLookup:
    """A `reference_impl.async_function.AsyncFunction`. Mutable: holds the calls that run."""

    def __init__(self, attempt: Attempt) -> None:
        run = cast("SituatedRun", attempt.run)
        assert attempt.journal is not None, "an attempt that calls has a journal"
        self._attempt = attempt
        self._journal = attempt.journal
        self._effects: EffectTable | None = run.effects
        self._situation = run.situation
        self._weather = run.weather
        self._dead_letters = run.variant.dead_letters(DeadLetters)(attempt)
        self._latest: dict[object, _Ongoing] = {}

    def invoke(self, lookup: Lookup, handle: ResultHandle) -> None:
        """See `AsyncFunction`."""
        attempt = self._attempt
        ongoing = _Ongoing(self, lookup, handle, self._journal.nonce_of(lookup.id))
        self._latest[handle.record_key] = ongoing
        ongoing.request = attempt.client.ask(
            lookup.key,
            service_ms=lookup.service_ms,
            done=ongoing.answered,
            nonce=ongoing.nonce,
            work=ongoing.work,
        )

    def serve(self, ongoing: _Ongoing) -> tuple[Any, int | None, int]:
        """What the server does with the request, as the weather has it."""
        hub, lookup = self._attempt.run.hub, ongoing.lookup
        fate = self._weather.fate(lookup.id, now_ms=hub.now_ms)
        if fate.error is not None:
            return None, fate.error, 0
        if fate.lost is not None and ongoing.request is not None and ongoing.request.flight is not None:
            ongoing.request.flight.doom = LOST_CONNECTION
            if fate.lost == "request":
                return None, None, 0
        return self._take_effect(ongoing, fate)

    def _take_effect(self, ongoing: _Ongoing, fate: Fate) -> tuple[Any, int | None, int]:
        results = results_of(ongoing.lookup, stream=self._situation.stream)
        if self._effects is None or not results:
            return results, None, fate.more_ms
        if fate.more_ms:
            hub = self._attempt.run.hub
            hub.at(hub.now_ms + fate.more_ms, lambda: self._write_late(ongoing, results))
            return results, None, fate.more_ms
        try:
            self._write(ongoing, results)
        except Fenced:
            return None, _FENCED, 0
        return results, None, 0

    def _write_late(self, ongoing: _Ongoing, results: list[Any]) -> None:
        """At the end of a slow statement, whoever still waits for it."""
        flight = None if ongoing.request is None else ongoing.request.flight
        try:
            self._write(ongoing, results)
        except Fenced:
            if flight is not None:
                flight.value, flight.code = None, _FENCED

    def _write(self, ongoing: _Ongoing, results: list[Any]) -> None:
        assert self._effects is not None, "only what writes comes here"
        attempt = self._attempt
        self._effects.write(
            subtask=attempt.subtask, token=attempt.number, id=ongoing.lookup.id, results=results
        )

    def accept(self, ongoing: _Ongoing, value: Any, code: int | str | None, echoed: Any) -> None:
        """An answer, or word that there will be none."""
        if self._latest.get(ongoing.handle.record_key) is ongoing:
            del self._latest[ongoing.handle.record_key]
        if code is None:
            self._journal.answered(ongoing.nonce, echoed)
            results = enriched(ongoing.lookup.id, value)
            if self._situation.lookups.supplies:
                ongoing.handle.supply(lambda: results)
            else:
                ongoing.handle.complete(results)
            return
        error: Exception = LookupFailed(code)
        if code == _FENCED:
            error = Fenced(f"attempt {self._attempt.number} of subtask {self._attempt.subtask} is fenced")
        elif code == LOST_CONNECTION:
            error = ConnectionLost(code, "its answer will not come")
        with suppress(MailboxClosed):
            # By mail: a failure is accepted in the frame of whoever reports it, which here is the loop's.
            self._attempt.executor.execute(lambda: self._give_up(ongoing, error), "a lookup failed")

    def _give_up(self, ongoing: _Ongoing, error: Exception) -> None:
        """Fail it, so that it is tried again or fails the task; or give the record up."""
        if self._situation.operator.on_error == "dead-letter" and not isinstance(error, Fenced):
            if not ongoing.handle.done:
                self._dead_letters.route(ongoing.handle, ongoing.lookup, error)
        else:
            ongoing.handle.fail(error)

    def timeout(self, lookup: Lookup, handle: ResultHandle) -> None:
        """Answer for the call as the policy says; then cancel it, or let its answer come late."""
        self._answer(lookup, handle, self._situation.operator)
        ongoing = self._latest.pop(handle.record_key, None)
        if ongoing is None or ongoing.over or not self._situation.lookups.cancels:
            return
        ongoing.over = True
        if ongoing.request is not None:
            self._attempt.client.cancel(ongoing.request)

    def _answer(self, lookup: Lookup, handle: ResultHandle, operator: Operator) -> None:
        if operator.on_timeout == "dead-letter":
            self._dead_letters.route(handle, lookup, CallTimedOut())
        elif operator.on_timeout == "answer":
            handle.complete(enriched(lookup.id, [_SUBSTITUTE]))
        else:
            handle.fail(CallTimedOut())
