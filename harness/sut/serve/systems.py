"""The systems that this project serves, and the function of a conversation, whose calls commands complete.

Invariant: calls are numbered from 1 in order, without gaps; only a limited number of calls of finished records is
kept, so memory does not grow with the conversation.

Invariant: a command that needs an unlisted ability is refused before the operator gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypedDict, Unpack

from msgspec import Struct

from harness.sut.serve.config import Code, CommandRefused, OperatorConfig, canonical, key_of
from harness.system.json_types import Json
from reference_impl.elements import OperatorInput, QueueElement, Record
from reference_impl.errors import CallTimedOut
from reference_impl.flip12.wait_operator import build_operator as build_emitter_operator
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import build_operator
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FLINK_1_20, PROFILES, STRICT, Quirks

_FINISHED_MAX = 1000
"""How many calls of finished records are kept; completing an older one has no effect."""


class CallFailed(Exception):
    """The error of a call that a command failed."""


class _OpenCall(Struct, eq=False):
    handle: ResultHandle
    ended: bool = False


class ScriptedFunction(AsyncFunction):
    """Writes an event for each call, and completes calls by command. Mutable."""

    def __init__(self, config: OperatorConfig, write: Callable[[Json], None]) -> None:
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

    def complete(self, number: int, results: list[object]) -> None:
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


class ServedOperator(Protocol):
    """The operator methods that a conversation uses."""

    def open(self, restored: Sequence[QueueElement] = ()) -> None:
        """Opens the operator and replays a snapshot."""

    def process(self, element: OperatorInput) -> None:
        """Takes one element."""

    def snapshot(self) -> Sequence[QueueElement]:
        """The elements in the operator's queue."""

    def end_input(self) -> None:
        """Drains the operator."""

    def close(self) -> None:
        """Releases all resources."""

    def __len__(self) -> int: ...


class Collaborators(TypedDict):
    """The collaborators of an operator in a conversation."""

    function: ScriptedFunction
    executor: MailboxExecutor
    timers: Timers
    emit: Callable[[OperatorInput], None]
    fail: Callable[[BaseException], None]
    probe: ScriptedFunction


class BuildServed(Protocol):
    """Builds an operator for a conversation."""

    def __call__(self, config: OperatorConfig, **around: Unpack[Collaborators]) -> ServedOperator:
        """Builds the operator for `config`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One built-in system under test."""

    name: str
    abilities: Sequence[str]
    build: BuildServed


def _build_reference(
    config: OperatorConfig, *, quirks: Quirks | None = None, **around: Unpack[Collaborators]
) -> ServedOperator:
    """Shows the given `quirks`, whatever the configuration's profile."""
    return build_operator(
        mode=config.mode,
        capacity=config.capacity,
        timeout_ms=config.timeout_ms,
        retry=config.retry,
        quirks=PROFILES[config.profile] if quirks is None else quirks,
        key_of=None if config.key is None else partial(key_of, member=config.key),
        **around,
    )


def _build_emitter(config: OperatorConfig, **around: Unpack[Collaborators]) -> ServedOperator:
    """Without `retry` and `quirks`, which this system does not support and so refuses."""
    return build_emitter_operator(
        mode=config.mode, capacity=config.capacity, timeout_ms=config.timeout_ms, **around
    )


_OF_REFERENCE = (
    "ordered",
    "unordered",
    "keyed",
    "retry",
    "snapshot",
    "status",
    "marker",
    "flink-profile",
)
_QUIRKS: Mapping[str, Quirks] = {
    "A76": Quirks(late_outcome_counts_for_next_attempt=True),
    "A80": Quirks(timeout_outcome_is_judged=True),
    "A81": Quirks(attempt_outcome_beats_timeout=True),
    "A82": Quirks(backoff_is_shared=True),
    "A86": Quirks(last_calls_follow_registration=True),
}
QUIRK_SYSTEMS: Mapping[str, str] = MappingProxyType(
    {statement: f"reference-{statement.lower()}" for statement in _QUIRKS}
)
"""The reference with one quirk of Flink, by the statement's number; with it a difference from Flink is named."""


def _of_quirks(name: str, quirks: Quirks) -> System:
    """The reference with exactly these quirks, whatever profile a configuration asks for."""
    return System(name=name, abilities=_OF_REFERENCE, build=partial(_build_reference, quirks=quirks))


SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "reference": System(name="reference", abilities=_OF_REFERENCE, build=_build_reference),
        "reference-emitter": System(
            name="reference-emitter",
            abilities=("ordered", "unordered", "snapshot", "marker"),
            build=_build_emitter,
        ),
        "reference-flink-1.20": _of_quirks("reference-flink-1.20", FLINK_1_20),
        "reference-strict": _of_quirks("reference-strict", STRICT),
        **{name: _of_quirks(name, _QUIRKS[statement]) for statement, name in QUIRK_SYSTEMS.items()},
    }
)
"""The systems by name."""
