"""Planted defect: of a thousand calls that go well, three are never heard of again.

Answers to a completion that gets lost on its way to the mailbox (FLINK-40456). Without a timeout the record keeps its
slot for ever. Which records: those whose value's checksum says so, in each attempt the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack
from zlib import crc32

from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts
from reference_impl.operator.build import build_operator as build_honest
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from reference_impl.operator.result import ResultHandle, Supplier

__all__ = ["build_operator", "three_in_a_thousand"]


def three_in_a_thousand(value: Any) -> bool:
    """Whether the completion of `value`'s call is lost."""
    return crc32(repr(value).encode()) % 1000 < 3  # noqa: PLR2004 - as the name says


class _DeafHandle:
    """Hears of failures only."""

    def __init__(self, handle: ResultHandle) -> None:
        self._handle = handle
        self.fail = handle.fail

    @property
    def record_key(self) -> object:
        return self._handle.record_key

    @property
    def done(self) -> bool:
        return self._handle.done

    def complete(self, results: Sequence[Any]) -> None:
        """Lost."""

    def supply(self, supplier: Supplier) -> None:
        """Lost."""


class _LosingFunction:
    """`function`, some of whose completions nobody hears."""

    def __init__(self, function: AsyncFunction, is_lost: Callable[[Any], bool]) -> None:
        self._function = function
        self._is_lost = is_lost
        self.timeout = function.timeout

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self._function.invoke(value, _DeafHandle(handle) if self._is_lost(value) else handle)

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)


def build_operator(
    *,
    mode: Mode,
    capacity: int,
    is_lost: Callable[[Any], bool] = three_in_a_thousand,
    **parts: Unpack[Parts],
) -> AsyncWaitOperator:
    """An operator that loses some of its completions."""
    parts["function"] = _LosingFunction(parts["function"], is_lost)
    return build_honest(mode=mode, capacity=capacity, **parts)
