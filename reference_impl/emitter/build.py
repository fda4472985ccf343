"""The entry point: the operator of the first design, for each mode.

Answers to `AsyncDataStream` and to the setup of `AsyncWaitOperator` in Flink 1.2 to 1.9. Invariant: what cannot work,
and what that design did not have, is refused here by the name of the field (A2, A3, A5).
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.async_wait_build import Mode, Parts, checked_timeout_ms
from reference_impl.emitter.buffers import Buffer, OrderedBuffer, UnorderedBuffer
from reference_impl.emitter.wait_operator import EmitterWaitOperator
from reference_impl.queues.protocol import checked_capacity
from reference_impl.quirks import STRICT
from reference_impl.retry import NO_RETRY

__all__ = ["build_operator"]


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> EmitterWaitOperator:
    """The operator of that mode. Raises ValueError for what cannot work, or is not of that design."""
    _refuse_what_came_later(parts)
    return EmitterWaitOperator(
        function=parts["function"],
        buffer=_buffer_for(mode, checked_capacity(capacity)),
        timeout_ms=checked_timeout_ms(parts["timeout_ms"]),
        executor=parts["executor"],
        timers=parts["timers"],
        emit=parts["emit"],
        fail=parts["fail"],
        probe=parts.get("probe"),
        copy_value=parts.get("copy_value"),
    )


def _refuse_what_came_later(parts: Parts) -> None:
    later = {
        "retry": parts.get("retry", NO_RETRY) is not NO_RETRY,
        "quirks": parts.get("quirks", STRICT) != STRICT,
        "downstream": parts.get("downstream") is not None,
    }
    for name, given in later.items():
        if given:
            raise ValueError(
                f"{name} is given, but the first design has none; leave it out, or take the reference operator"
            )


def _buffer_for(mode: Mode, capacity: int) -> Buffer:
    match mode:
        case "ordered":
            return OrderedBuffer(capacity)
        case "unordered":
            return UnorderedBuffer(capacity)
        case _:  # a name from a file or a command line: the type does not hold it off
            raise ValueError(f"no output mode {mode!r}; there are 'ordered' and 'unordered'")
