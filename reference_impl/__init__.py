"""The reference operator: Flink's asynchronous wait operator, with its mailbox, task and checkpoints, in plain Python.

Begin with `elements`, `mailbox.mailbox`, `operator.async_wait`. It needs only the standard library and msgspec.
Planted defects are in `reference_impl.mutants`.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointBarrier
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
from reference_impl.mailbox.loops import VirtualLoop, now_ms, real_loop, virtual_loop
from reference_impl.mailbox.mailbox import Mail, Mailbox, MailboxExecutor, MailboxState
from reference_impl.mailbox.processor import MailboxProcessor, Suspension
from reference_impl.mailbox.timers import Timer, Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import (
    BuildOperator,
    Mode,
    build_operator,
    ordered_wait,
    ordered_wait_with_retry,
    unordered_wait,
    unordered_wait_with_retry,
)
from reference_impl.operator.functions import AsyncFunction, Closing, Opening, from_blocking, from_coroutine
from reference_impl.operator.probe import Ending, Probe
from reference_impl.operator.quirks import FLINK, STRICT, Quirks
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import NO_RETRY, ExponentialBackoff, FixedDelay, RetryStrategy

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
