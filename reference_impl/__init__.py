"""The reference operator: Flink's asynchronous wait operator, its mailbox and its task, in plain Python.

Read `elements`, `mailbox`, `async_wait`, in that order: they are the whole idea. Only the standard library and
msgspec are needed; planted defects are in `reference_impl.mutants`.
"""

from __future__ import annotations

from reference_impl.async_function import AsyncFunction, Closing, Opening
from reference_impl.async_wait import AsyncWaitOperator
from reference_impl.async_wait_build import (
    BuildOperator,
    Mode,
    build_operator,
    ordered_wait,
    ordered_wait_with_retry,
    unordered_wait,
    unordered_wait_with_retry,
)
from reference_impl.blocking_function import from_blocking
from reference_impl.coroutine_function import from_coroutine
from reference_impl.elements import (
    EndOfInput,
    LatencyMarker,
    OperatorInput,
    QueueElement,
    Record,
    RecordAttributes,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from reference_impl.errors import (
    CallbackFailed,
    CallTimedOut,
    MailboxClosed,
    OperatorError,
    SimulationStuck,
    StreamElementFailed,
    WrongState,
)
from reference_impl.events import CheckpointBarrier
from reference_impl.loops import now_ms, real_loop, virtual_loop
from reference_impl.mailbox import Mail, Mailbox, MailboxState
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mailbox_processor import MailboxProcessor, Suspension
from reference_impl.probe import Ending, Probe
from reference_impl.quirks import FLINK, STRICT, Quirks
from reference_impl.result import ResultHandle
from reference_impl.retry import NO_RETRY, ExponentialBackoff, FixedDelay, RetryStrategy
from reference_impl.timers import Timer, Timers
from reference_impl.virtual_loop import VirtualLoop

__all__ = [
    "FLINK",
    "NO_RETRY",
    "STRICT",
    "AsyncFunction",
    "AsyncWaitOperator",
    "BuildOperator",
    "CallTimedOut",
    "CallbackFailed",
    "CheckpointBarrier",
    "Closing",
    "EndOfInput",
    "Ending",
    "ExponentialBackoff",
    "FixedDelay",
    "LatencyMarker",
    "Mail",
    "Mailbox",
    "MailboxClosed",
    "MailboxExecutor",
    "MailboxProcessor",
    "MailboxState",
    "Mode",
    "Opening",
    "OperatorError",
    "OperatorInput",
    "Probe",
    "QueueElement",
    "Quirks",
    "Record",
    "RecordAttributes",
    "ResultHandle",
    "RetryStrategy",
    "SimulationStuck",
    "StreamElement",
    "StreamElementFailed",
    "Suspension",
    "Timer",
    "Timers",
    "VirtualLoop",
    "Watermark",
    "WatermarkStatus",
    "WrongState",
    "build_operator",
    "from_blocking",
    "from_coroutine",
    "now_ms",
    "ordered_wait",
    "ordered_wait_with_retry",
    "real_loop",
    "unordered_wait",
    "unordered_wait_with_retry",
    "virtual_loop",
]
