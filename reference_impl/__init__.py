"""The reference operator: Flink's asynchronous wait operator, its mailbox and its task, in plain Python.

Read `elements`, `mailbox`, `async_wait`, in that order: they are the whole idea. Only the standard library is
needed; what needs Spark is in `reference_impl.spark`, planted defects are in `reference_impl.mutants`.
"""

from __future__ import annotations

from reference_impl.async_function import AsyncFunction, from_coroutine
from reference_impl.async_wait import (
    AsyncWaitOperator,
    BuildOperator,
    Mode,
    build_operator,
    ordered_wait,
    unordered_wait,
)
from reference_impl.elements import Barrier, EndOfInput, QueueElement, Record, StreamElement, Watermark
from reference_impl.errors import (
    CallbackFailed,
    CallTimedOut,
    MailboxClosed,
    OperatorError,
    StreamElementFailed,
    WrongState,
)
from reference_impl.loops import now_ms, real_loop
from reference_impl.mailbox import Mail, Mailbox, MailboxExecutor, MailboxState
from reference_impl.mailbox_loop import MailboxLoop, Suspension
from reference_impl.probe import Ending, Probe, SilentProbe
from reference_impl.result import ResultHandle
from reference_impl.timers import Timer, Timers

__all__ = [
    "AsyncFunction",
    "AsyncWaitOperator",
    "Barrier",
    "BuildOperator",
    "CallTimedOut",
    "CallbackFailed",
    "EndOfInput",
    "Ending",
    "Mail",
    "Mailbox",
    "MailboxClosed",
    "MailboxExecutor",
    "MailboxLoop",
    "MailboxState",
    "Mode",
    "OperatorError",
    "Probe",
    "QueueElement",
    "Record",
    "ResultHandle",
    "SilentProbe",
    "StreamElement",
    "StreamElementFailed",
    "Suspension",
    "Timer",
    "Timers",
    "Watermark",
    "WrongState",
    "build_operator",
    "from_coroutine",
    "now_ms",
    "ordered_wait",
    "real_loop",
    "unordered_wait",
]
