"""Lets through the records that a predicate wants, and everything that is no record.

Answers to Flink's `StreamFilter`. Invariant: what passes is the element itself, in its place in the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.elements import OperatorInput, Record

__all__ = ["StreamFilter"]


class StreamFilter:
    """Stateless."""

    __slots__ = ("_emit", "_predicate")

    def __init__(self, *, predicate: Callable[[Any], bool], emit: Callable[[OperatorInput], None]) -> None:
        self._predicate = predicate
        self._emit = emit

    def process(self, element: OperatorInput) -> None:
        """Pass it on or drop it; what the predicate raises fails the task."""
        if not isinstance(element, Record) or self._predicate(element.value):
            self._emit(element)
