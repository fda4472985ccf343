"""The errors of the reference operator, one tree.

Answers to the exceptions that Flink's task and operator raise (`IllegalStateException`,
`MailboxClosedException`, `TimeoutException`, what `failExternally` is given). Invariant: whatever a user's
function raised is the `__cause__` of what we raise for it, never lost.

    OperatorError
    +- WrongState             a call in a state, or on a thread, where it must not come (M3, M29, M36, A13)
    |  +- MailboxClosed       mail for, or from, a mailbox that no longer takes part (M2, M3)
    +- StreamElementFailed    the call for a record failed, so the task fails (A41)
    +- CallTimedOut           no outcome came in time (A44)
    +- CallbackFailed         a function of the user raised where it must not (A34, A42, A47, A87)
    +- SimulationStuck        in virtual time: everything waits, and nothing is left to happen
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_impl.elements import Record

__all__ = [
    "CallTimedOut",
    "CallbackFailed",
    "MailboxClosed",
    "OperatorError",
    "SimulationStuck",
    "StreamElementFailed",
    "WrongState",
]


class OperatorError(Exception):
    """Any error of the reference operator."""


class WrongState(OperatorError):
    """Something was called in a state, or on a thread, where it must not be called."""


class MailboxClosed(WrongState):
    """The mailbox takes no mail any more, or gives none out; the mail in question is in no structure."""


class StreamElementFailed(OperatorError):
    """The call for `record` failed with `cause`; the task fails with this."""

    def __init__(self, record: Record, cause: BaseException) -> None:
        super().__init__(f"Could not complete the stream element: {record}.")
        self.record = record
        self.__cause__ = cause


class CallTimedOut(OperatorError):
    """The default answer to a record's timeout."""

    def __init__(self) -> None:
        super().__init__("Async function call has timed out.")


class CallbackFailed(OperatorError):
    """The user's `callback` raised `cause` instead of giving an answer."""

    def __init__(self, callback: str, value: Any, cause: BaseException) -> None:
        super().__init__(
            f"{callback}() raised {type(cause).__name__} for {value!r}; report a failure through the handle",
        )
        self.callback = callback
        self.__cause__ = cause


class SimulationStuck(OperatorError):
    """At `now_ms` of virtual time all of `waiting` wait for each other, or for something that never comes."""

    def __init__(self, now_ms: int, waiting: Sequence[str]) -> None:
        who = "; ".join(waiting) or "no task, so whoever turns the loop waits for mail that nobody will put"
        super().__init__(f"stuck at {now_ms} ms: nothing is ready and no timer is pending. Waiting: {who}")
        self.now_ms = now_ms
        self.waiting = tuple(waiting)
