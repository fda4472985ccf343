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
    +- StateError             an operator's state was asked for, or given, what it cannot hold; names both (S1, S2, S18)
    |  +- StateMigrationException  its type has changed, and what was restored cannot be read as the new one (S2)
    +- SnapshotCancelled      the asynchronous part of a snapshot was ended from outside (C8, C12)
    +- CancelTaskException    the task was cancelled while it restored or ran: no failure of its own (M49)
    +- StopWithSavepointFailed  the savepoint that was to end the task was aborted (C17)
    +- SimulationStuck        in virtual time: everything waits, and nothing is left to happen
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_impl.elements import Record

__all__ = [
    "CallTimedOut",
    "CallbackFailed",
    "CancelTaskException",
    "MailboxClosed",
    "OperatorError",
    "SimulationStuck",
    "SnapshotCancelled",
    "StateError",
    "StateMigrationException",
    "StopWithSavepointFailed",
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


class CancelTaskException(OperatorError):
    """Somebody has cancelled `task`; whatever it was doing ends here."""

    def __init__(self, task: str) -> None:
        super().__init__(f"The task {task!r} was cancelled.")
        self.task = task


class StopWithSavepointFailed(OperatorError):
    """`task` has ended its data for a savepoint that will never complete: only a restart can go on from here."""

    def __init__(self, task: str, checkpoint_id: int) -> None:
        super().__init__(
            f"Stop-with-savepoint failed. Savepoint {checkpoint_id} of task {task!r} was aborted after the data had"
            " been ended for it; restart the job from its latest checkpoint."
        )
        self.task = task
        self.checkpoint_id = checkpoint_id


class SimulationStuck(OperatorError):
    """At `now_ms` of virtual time all of `waiting` wait for each other, or for something that never comes."""

    def __init__(self, now_ms: int, waiting: Sequence[str]) -> None:
        who = "; ".join(waiting) or "no task, so whoever turns the loop waits for mail that nobody will put"
        super().__init__(f"stuck at {now_ms} ms: nothing is ready and no timer is pending. Waiting: {who}")
        self.now_ms = now_ms
        self.waiting = tuple(waiting)


class StateError(OperatorError):
    """`state` of `operator` was asked for, or given, what it cannot hold; the whole state of it if `state` is None."""

    def __init__(self, problem: str, *, operator: str, state: str | None = None) -> None:
        where = f"operator {operator!r}" + ("" if state is None else f", state {state!r}")
        super().__init__(f"{where}: {problem}")
        self.operator = operator
        self.state = state


class StateMigrationException(StateError):
    """What was restored cannot be read as what is registered now (S2)."""


class SnapshotCancelled(OperatorError):
    """There is no result, for the snapshot was ended from outside."""
