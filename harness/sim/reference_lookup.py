"""The reference lookup at level sim: the rows of its key, with the nonce of its call, again if no answer came.

The callback form of `harness.sut.lookup.lookup`, for a coroutine costs as much as the whole operator. Invariant: as
there, an answer is accepted only with the nonce that was asked with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from harness.choices import Choices
from harness.database.backoff import Backoff
from harness.database.error_classes import ErrorClass, class_of
from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.levels.sim.buffer_journal import BufferJournal
from harness.sim.client import Client, Request
from harness.sut.enrichment import Enriched, stamped
from harness.sut.lookup import ForeignAnswer
from harness.workloads.lookups import Lookup
from reference_impl.async_function import OnTimeout, answer_timeout
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.result import ResultHandle

__all__ = ["LookupFailed", "ReferenceLookup", "enriched"]

_GIVE_UP_MS = 60_000
"""As long as a lookup asks again."""


_AGAIN = (ErrorClass.RECONNECT, ErrorClass.RETRY, ErrorClass.BACK_OFF)


class LookupFailed(Exception):
    """The database answered with an error of its own."""

    def __init__(self, code: int | str) -> None:
        super().__init__(f"the database answers with error {code}")
        self.code = code


def enriched(id_: int, values: list[Any]) -> list[Enriched]:
    """The results of record `id_`."""
    return [Enriched(id=id_, j=j, value=value) for j, value in enumerate(values)]


class _Ongoing(Struct, eq=False):
    """One call. Mutable."""

    function: ReferenceLookup
    lookup: Lookup
    handle: ResultHandle
    nonce: int | None
    request: Request | None = None
    over: bool = False
    backoff: Backoff | None = None
    until_ms: int = 0

    def ask(self) -> None:
        """Ask, for the first time or again."""
        if not self.over:
            lookup = self.lookup
            self.request = self.function.client.ask(
                lookup.key, service_ms=lookup.service_ms, done=self.answered, nonce=self.nonce
            )

    def answered(self, value: Any, code: int | str | None, echoed: Any) -> None:
        """By the client, in a callback of the loop. A read may be made again, if its error's class allows it."""
        if code is None:
            self.function.accept(self, value, echoed)
        elif class_of(code) not in _AGAIN or not self._again():
            self.function.reject(self, LookupFailed(code))

    def _again(self) -> bool:
        """Ask once more, later each time; not for ever."""
        loop = self.function.loop
        now_ms = loop.now_ms()
        if self.backoff is None:
            self.backoff = Backoff(Choices(self.lookup.id, "waits of a lookup"))
            self.until_ms = now_ms + _GIVE_UP_MS
        if now_ms >= self.until_ms:
            return False
        loop.call_at_ms(now_ms + self.backoff.next_ms(), self.ask)
        return True


class ReferenceLookup:
    """A `reference_impl.async_function.AsyncFunction`. Mutable: holds the calls that run."""

    def __init__(
        self,
        *,
        client: Client,
        journal: BufferJournal,
        loop: SubtaskLoop,
        executor: MailboxExecutor,
        on_timeout: OnTimeout,
        results: Callable[[Any], list[Any]] = lambda row: [] if row is None else [row],
    ) -> None:
        self.client = client
        self.loop = loop
        self._journal = journal
        self._executor = executor
        self._on_timeout = on_timeout
        self._results = results
        self._latest: dict[object, _Ongoing] = {}

    def invoke(self, lookup: Lookup, handle: ResultHandle) -> None:
        """See `AsyncFunction`."""
        ongoing = _Ongoing(self, lookup, handle, self._journal.nonce_of(lookup.id))
        self._latest[handle.record_key] = ongoing
        ongoing.ask()

    def accept(self, ongoing: _Ongoing, value: Any, echoed: Any) -> None:
        """An answer: of this request, or the connection was mixed up."""
        self._end(ongoing)
        if self.is_foreign(ongoing.nonce, echoed):
            text = f"asked with nonce {ongoing.nonce}, answered with nonce {echoed}"
            self._fail(ongoing, ForeignAnswer(text))
            return
        self._journal.answered(ongoing.nonce, echoed)
        lookup = ongoing.lookup
        ongoing.handle.complete(enriched(lookup.id, stamped(lookup, self._results(value))))

    def is_foreign(self, asked: int | None, echoed: Any) -> bool:
        """Whether an answer is not the one to this request."""
        return self.client.compares_nonces and bool(asked != echoed)

    def reject(self, ongoing: _Ongoing, error: Exception) -> None:
        """The call failed, definitely."""
        self._end(ongoing)
        self._fail(ongoing, error)

    def _fail(self, ongoing: _Ongoing, error: Exception) -> None:
        """By mail: a failure is accepted in the frame of whoever reports it, which here is the loop's."""
        self._executor.execute(lambda: ongoing.handle.fail(error), "a lookup failed")

    def _end(self, ongoing: _Ongoing) -> None:
        ongoing.over = True
        key = ongoing.handle.record_key
        if self._latest.get(key) is ongoing:
            del self._latest[key]

    def timeout(self, lookup: Lookup, handle: ResultHandle) -> None:
        """Answer for the call, then cancel it."""
        answer_timeout(self._on_timeout, lookup, handle)
        ongoing = self._latest.pop(handle.record_key, None)
        if ongoing is not None and not ongoing.over:
            ongoing.over = True
            if ongoing.request is not None and self.client.gives_up:
                self.client.cancel(ongoing.request)
