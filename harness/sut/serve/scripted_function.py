"""The user's function of a conversation: each call is a number, and the harness says how it ends.

Invariant: call numbers are dense from 1, in the order of the calls; a call of a finished record is remembered only
as long as there are few, so memory does not grow with the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from harness.sut.serve.config import Code, OperatorConfig, Refusal, canonical
from reference_impl.elements import Record
from reference_impl.errors import CallTimedOut
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle

__all__ = ["CallFailed", "ScriptedFunction"]

_FINISHED_MAX = 1000
"""Calls of finished records that are kept, for what still reaches the operator from them changes nothing."""


class CallFailed(Exception):
    """The external call ended with an error, as the harness said."""


class _Call(Struct, eq=False):
    handle: ResultHandle
    ended: bool = False


class ScriptedFunction(AsyncFunction):
    """Writes each call, and ends it when told. Mutable."""

    def __init__(self, config: OperatorConfig, write: Callable[[dict[str, Any]], None]) -> None:
        self._config = config
        self._write = write
        self._calls: dict[int, _Call] = {}
        self._count = 0
        self._attempt = 1
        self._forget_at = _FINISHED_MAX

    @property
    def running(self) -> int:
        """Calls without an outcome, of records that are not finished."""
        return sum(not (call.ended or call.handle.done) for call in self._calls.values())

    def called(self, record: Record, *, attempt: int) -> None:
        """The probe's word before `invoke`."""
        del record
        self._attempt = attempt

    def settled(self, *_: object, **__: object) -> None:
        """The probe's word on an outcome, which the harness knows already."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """One more call."""
        self._count += 1
        self._calls[self._count] = _Call(handle)
        if len(self._calls) > self._forget_at:
            self._forget_finished()
        self._write({"ev": "call", "call": self._count, "value": value, "attempt": self._attempt})
        if self._config.invoke_throws and canonical(value) in self._config.invoke_throws:
            self._calls[self._count].ended = True
            raise CallFailed("the invocation of this value raises")

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """As the configuration says."""
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
        """The call ends well."""
        call = self._call(number)
        if call is not None:
            call.ended = True
            call.handle.complete(results)

    def fail(self, number: int, error: str) -> None:
        """The call ends with an error."""
        call = self._call(number)
        if call is not None:
            call.ended = True
            call.handle.fail(CallFailed(error))

    def require(self, number: int) -> None:
        """Refuse a number that no call has had."""
        if not 1 <= number <= self._count:
            raise Refusal(
                Code.UNKNOWN_CALL, f"there has been no call {number}; the last one is {self._count}"
            )

    def _call(self, number: int) -> _Call | None:
        self.require(number)
        return self._calls.get(number)

    def _forget_finished(self) -> None:
        """All but the unfinished, and the newest half of the rest."""
        finished = [number for number, call in self._calls.items() if call.handle.done]
        for number in finished[: -_FINISHED_MAX // 2]:
            del self._calls[number]
        self._forget_at = 2 * len(self._calls) + _FINISHED_MAX  # so that a call costs O(1), however many run
