"""The errors of the reference operator, as one tree.

Answers to the exceptions of Flink's task and operator (`IllegalStateException`, `MailboxClosedException`,
`TimeoutException`, the argument of `failExternally`). Invariant: an exception of a user's function is the `__cause__`
of the error that is raised for it.

    OperatorError
    +- WrongState             a call in a state, or on a thread, where it is not allowed (M3, M29, M36, A13)
    |  +- MailboxClosed       mail for, or from, a mailbox that is closed or quiesced (M2, M3)
    +- StreamElementFailed    the call for a record failed, which fails the task (A41)
    +- CallTimedOut           no outcome was reported in time (A44)
    +- CallbackFailed         a function of the user raised where it must not (A34, A42, A47, A87)
    +- StateError             a request that a state cannot serve, or a value that it cannot hold (S1, S2, S18)
    |  +- StateMigrationException  restored values cannot be read with the new type (S2)
    +- SnapshotCancelled      the asynchronous part of a snapshot was cancelled (C8, C12)
    +- CancelTaskException    the task was cancelled; no failure of its own (M49)
    +- StopWithSavepointFailed  the savepoint that was to end the task was aborted (C17)
    +- SimulationStuck        in virtual time, everything waits and no timer is pending
"""

from __future__ import annotations

from collections.abc import Sequence

from reference_impl.elements import Record


class OperatorError(Exception):
    """Any error of the reference operator."""


class WrongState(OperatorError):
    """A call in a state, or on a thread, where it is not allowed."""


class MailboxClosed(WrongState):
    """The mailbox accepts or gives out no more mail; the mail in question was not stored."""


class StreamElementFailed(OperatorError):
    """The call for `record` failed with `cause`; fails the task."""

    def __init__(self, record: Record, cause: BaseException) -> None:
        super().__init__(f"Could not complete the stream element: {record}.")
        self.record = record
        self.__cause__ = cause


class CallTimedOut(OperatorError):
    """The default outcome of a record's timeout."""

    def __init__(self) -> None:
        super().__init__("Async function call has timed out.")


class CallbackFailed(OperatorError):
    """The user's `callback` raised `cause` instead of reporting it to the handle."""

    def __init__(self, callback: str, value: object, cause: BaseException) -> None:
        super().__init__(
            f"{callback}() raised {type(cause).__name__} for {value!r}; report a failure through the handle",
        )
        self.callback = callback
        self.__cause__ = cause


class CancelTaskException(OperatorError):
    """`task` was cancelled."""

    def __init__(self, task: str) -> None:
        super().__init__(f"The task {task!r} was cancelled.")
        self.task = task


class StopWithSavepointFailed(OperatorError):
    """`task` ended its data for a savepoint that was then aborted; the job must be restarted."""

    def __init__(self, task: str, checkpoint_id: int) -> None:
        super().__init__(
            f"Stop-with-savepoint failed. Savepoint {checkpoint_id} of task {task!r} was aborted after the data had"
            " been ended for it; restart the job from its latest checkpoint."
        )
        self.task = task
        self.checkpoint_id = checkpoint_id


class SimulationStuck(OperatorError):
    """Virtual time stands at `now_ms`: all of `waiting` wait, and no timer is pending."""

    def __init__(self, now_ms: int, waiting: Sequence[str]) -> None:
        who = "; ".join(waiting) or "no task, so whoever turns the loop waits for mail that nobody will put"
        super().__init__(f"stuck at {now_ms} ms: nothing is ready and no timer is pending. Waiting: {who}")
        self.now_ms = now_ms
        self.waiting = tuple(waiting)


class StateError(OperatorError):
    """A request that `state` of `operator` cannot serve, or a value that it cannot hold; None for all its states."""

    def __init__(self, problem: str, *, operator: str, state: str | None = None) -> None:
        where = f"operator {operator!r}" + ("" if state is None else f", state {state!r}")
        super().__init__(f"{where}: {problem}")
        self.operator = operator
        self.state = state


class StateMigrationException(StateError):
    """Restored values cannot be read with the type that is registered now (S2)."""


class SnapshotCancelled(OperatorError):
    """The snapshot was cancelled, so there is no result."""
