"""The user's function of a conversation: each call has a number, and commands complete it.

Invariant: calls are numbered from 1 in order, without gaps; only a limited number of calls of finished records is
kept, so memory does not grow with the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from harness.sut.serve.config import Code, CommandRefused, OperatorConfig, canonical
from reference_impl.elements import Record
from reference_impl.errors import CallTimedOut
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle

_FINISHED_MAX = 1000
"""How many calls of finished records are kept; completing an older one has no effect."""


class CallFailed(Exception):
    """The error of a call that a command failed."""


class _OpenCall(Struct, eq=False):
    handle: ResultHandle
    ended: bool = False


class ScriptedFunction(AsyncFunction):
    """Writes an event for each call, and completes calls by command. Mutable."""

    def __init__(self, config: OperatorConfig, write: Callable[[dict[str, Any]], None]) -> None:
        self._config = config
        self._write = write
        self._calls: dict[int, _OpenCall] = {}
        self._count = 0
        self._attempt = 1
        self._forget_at = _FINISHED_MAX

    @property
    def running(self) -> int:
        """The number of calls without an outcome, of unfinished records."""
        return sum(not (call.ended or call.handle.done) for call in self._calls.values())

    def called(self, record: Record, *, attempt: int) -> None:
        """Called by the operator's probe before `invoke`."""
        del record
        self._attempt = attempt

    def settled(self, *_: object, **__: object) -> None:
        """Called by the operator's probe for an outcome; not needed."""

    def invoke(self, value: object, handle: ResultHandle) -> None:
        self._count += 1
        self._calls[self._count] = _OpenCall(handle)
        if len(self._calls) > self._forget_at:
            self._forget_finished()
        self._write({"ev": "call", "call": self._count, "value": value, "attempt": self._attempt})
        if self._config.invoke_throws and canonical(value) in self._config.invoke_throws:
            self._calls[self._count].ended = True
            raise CallFailed("the invocation of this value raises")

    def timeout(self, value: object, handle: ResultHandle) -> None:
        self._write({"ev": "timeout", "value": value})
        answer = self._config.on_timeout
        match answer.kind:
            case "fail":
                handle.fail(CallTimedOut())
            case "results":
                handle.complete(answer.results)
            case "throw":
                raise CallFailed(answer.text)
            case "nothing":
                return

    def complete(self, number: int, results: list[Any]) -> None:
        """Completes the call with results."""
        call = self._call(number)
        if call is not None:
            call.ended = True
            call.handle.complete(results)

    def fail(self, number: int, error: str) -> None:
        """Completes the call with an error."""
        call = self._call(number)
        if call is not None:
            call.ended = True
            call.handle.fail(CallFailed(error))

    def require(self, number: int) -> None:
        """Refuses a call number that was never used."""
        if not 1 <= number <= self._count:
            raise CommandRefused(
                Code.UNKNOWN_CALL, f"there has been no call {number}; the last one is {self._count}"
            )

    def _call(self, number: int) -> _OpenCall | None:
        self.require(number)
        return self._calls.get(number)

    def _forget_finished(self) -> None:
        """Drops the older calls of finished records."""
        finished = [number for number, call in self._calls.items() if call.handle.done]
        for number in finished[: -_FINISHED_MAX // 2]:
            del self._calls[number]
        self._forget_at = 2 * len(self._calls) + _FINISHED_MAX  # amortized O(1) for each call
