"""The probe: what the operator tells an observer about its calls and their outcomes.

There is no such class in Flink, whose operator has no metrics of its own (A92). Invariant: a probe is
told before the effect is visible, and never changes what the operator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

from reference_impl.elements import Record

__all__ = ["Ending", "Probe"]


class Ending(StrEnum):
    """How one attempt of a record's external call ended, as the operator accepted it."""

    OK = "ok"
    FAIL = "fail"
    TIMEOUT = "timeout"


class Probe(Protocol):
    """Told of each call and each accepted outcome, on the task's thread."""

    def called(self, record: Record, *, attempt: int) -> None:
        """The user function is about to be invoked for `record`, the `attempt`-th time (1, 2, ...)."""

    def settled(
        self,
        record: Record,
        *,
        attempt: int,
        ending: Ending,
        final: bool,
        results: Sequence[Any] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """An outcome was accepted: `results` of an `ok` or a `timeout`, or the `error` it failed with."""
