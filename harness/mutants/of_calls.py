"""Defects of what becomes of a record whose call went wrong, at level sim.

Answers to a bare `except`, and to a record that is routed twice. Invariant: whatever the call did, only the policy
behind it differs from the honest one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Unpack

from harness.sut.enrichment import Enriched
from reference_impl.async_wait import AsyncWaitOperator
from reference_impl.async_wait_build import Mode, Parts
from reference_impl.mutants import swallows_errors
from reference_impl.result import ResultHandle

__all__ = ["build_quiet_operator", "failing_too"]


def build_quiet_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator for which a failed lookup is an empty one."""
    return swallows_errors.build_operator(mode=mode, capacity=capacity, default=_nothing_known, **parts)


def _nothing_known(lookup: Any) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=0, value=None)]


@cache
def failing_too(dead_letters: type[Any]) -> type[Any]:
    """`dead_letters`, which lets the task fail as well."""

    class DoubleRouting(dead_letters):  # type: ignore[misc]
        def route(self, handle: ResultHandle, lookup: Any, error: BaseException) -> None:
            super().route(_NoHandle(handle), lookup, error)
            handle.fail(error)

    return DoubleRouting


class _NoHandle:
    """`handle`, which nobody completes through it."""

    def __init__(self, handle: ResultHandle) -> None:
        self._handle = handle

    def complete(self, results: Any) -> None:
        """Not yet: the failure is the outcome."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)
