"""Functions that build the operator, for each output mode, with or without retry.

Answers to Flink's `AsyncDataStream` and `AsyncWaitOperatorFactory`. Invariant: arguments that cannot work
raise an error that names them here, not at the first record (A2, A3, A5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NotRequired, Protocol, TypedDict, Unpack

from reference_impl.elements import OperatorInput
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.queues import ElementQueue, KeyOf, OrderedQueue, UnorderedQueue, keyed_queue
from reference_impl.operator.result import Probe
from reference_impl.operator.retry import NO_RETRY, STRICT, Quirks, RetryStrategy

DEFAULT_CAPACITY = 100
"""Default limit of elements in the queue (A1)."""

Mode = Literal["ordered", "unordered", "keyed"]


class PlainParts(TypedDict):
    """Arguments of an operator without retry, except mode and capacity."""

    function: AsyncFunction
    timeout_ms: int
    """0 means no timeout."""
    executor: MailboxExecutor
    timers: Timers
    emit: Callable[[OperatorInput], None]
    fail: Callable[[BaseException], None]
    probe: NotRequired[Probe | None]
    quirks: NotRequired[Quirks]
    copy_value: NotRequired[Callable[..., object] | None]
    """Copies a record's value; needed if the sender reuses its objects (A27, A29)."""
    downstream: NotRequired[Callable[[], Availability] | None]
    """Whether the next operator can take output; without it, output is never held back (A33)."""


class SizedParts(PlainParts):
    """The same with the limit of elements in the queue."""

    capacity: NotRequired[int]


class KeyedParts(SizedParts):
    """Arguments of an operator in mode `keyed`."""

    key_of: KeyOf


class RetryParts(SizedParts):
    """Arguments of an operator with retry."""

    retry: RetryStrategy


class KeyedRetryParts(KeyedParts, RetryParts):
    """Arguments of an operator in mode `keyed` with retry."""


class Parts(PlainParts):
    """Arguments of an operator in any mode, with or without retry."""

    retry: NotRequired[RetryStrategy]
    key_of: NotRequired[KeyOf | None]
    """The key of a record's value; mode `keyed` needs it, the others ignore it."""


class BuildOperator(Protocol):
    """Builds an operator: the one of this module, or a variant of it with a planted defect."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator: ...


def ordered_wait(**parts: Unpack[SizedParts]) -> AsyncWaitOperator:
    """Results are emitted in the order of their input records."""
    return build_operator(mode="ordered", **parts)


def unordered_wait(**parts: Unpack[SizedParts]) -> AsyncWaitOperator:
    """Results are emitted in the order of completion, but never across a watermark."""
    return build_operator(mode="unordered", **parts)


def keyed_wait(**parts: Unpack[KeyedParts]) -> AsyncWaitOperator:
    """Results of one key are emitted in the order of their records; otherwise as `unordered_wait` (FLIP-519)."""
    return build_operator(mode="keyed", **parts)


def ordered_wait_with_retry(**parts: Unpack[RetryParts]) -> AsyncWaitOperator:
    """As `ordered_wait`; outcomes that `retry` rejects lead to another call."""
    return build_operator(mode="ordered", **parts)


def unordered_wait_with_retry(**parts: Unpack[RetryParts]) -> AsyncWaitOperator:
    """As `unordered_wait`; outcomes that `retry` rejects lead to another call."""
    return build_operator(mode="unordered", **parts)


def keyed_wait_with_retry(**parts: Unpack[KeyedRetryParts]) -> AsyncWaitOperator:
    """As `keyed_wait`; outcomes that `retry` rejects lead to another call."""
    return build_operator(mode="keyed", **parts)


def build_operator(
    *, mode: Mode, capacity: int = DEFAULT_CAPACITY, **parts: Unpack[Parts]
) -> AsyncWaitOperator:
    """An operator in that mode. Raises a ValueError that names the argument which cannot work."""
    return operator_around(queue_for(mode, capacity, parts.get("key_of")), **parts)


def operator_around(
    queue: ElementQueue,
    *,
    kind: type[AsyncWaitOperator] = AsyncWaitOperator,
    **parts: Unpack[Parts],
) -> AsyncWaitOperator:
    """An operator of class `kind` with `queue`."""
    timeout_ms, retry = checked_timeout_ms(parts["timeout_ms"]), parts.get("retry", NO_RETRY)
    if retry is not NO_RETRY and timeout_ms == 0:
        raise ValueError(
            "timeout_ms is 0, but retry needs a timeout, which ends all attempts; give 1 or more (A3)"
        )
    return kind(
        queue=queue,
        function=parts["function"],
        timeout_ms=timeout_ms,
        executor=parts["executor"],
        timers=parts["timers"],
        emit=parts["emit"],
        fail=parts["fail"],
        probe=parts.get("probe"),
        retry=retry,
        quirks=parts.get("quirks", STRICT),
        copy_value=parts.get("copy_value"),
        downstream=parts.get("downstream"),
    )


def checked_timeout_ms(timeout_ms: int) -> int:
    """`timeout_ms`, or ValueError if it is not a whole number of at least 0."""
    if type(timeout_ms) is not int or timeout_ms < 0:
        raise ValueError(f"the timeout_ms is {timeout_ms!r}; give a whole number, 0 for no timeout")
    return timeout_ms


def queue_for(mode: Mode, capacity: int, key_of: KeyOf | None = None) -> ElementQueue:
    """An empty queue for that output mode; `keyed` needs `key_of`."""
    match mode:
        case "ordered":
            return OrderedQueue(capacity)
        case "unordered":
            return UnorderedQueue(capacity)
        case "keyed":
            if key_of is None:
                raise ValueError(
                    "mode 'keyed' has no key_of; give a function from a record's value to its key"
                )
            return keyed_queue(capacity, key_of)
        case _:  # reached when the name comes from a file or a command line
            raise ValueError(f"no output mode {mode!r}; there are 'ordered', 'unordered' and 'keyed'")
