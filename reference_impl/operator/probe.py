"""The probe: an observer to which the operator reports its calls and their outcomes.

Flink has no such class, and its operator has no metrics of its own (A92). Invariant: a report precedes the
visible effect of what it reports, and never changes what the operator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

from reference_impl.elements import Record


class Ending(StrEnum):
    """How one attempt of a record's call ended, as the operator accepted it."""

    OK = "ok"
    FAIL = "fail"
    TIMEOUT = "timeout"


class Probe(Protocol):
    """Receives each call and each accepted outcome, on the task's thread."""

    def called(self, record: Record, *, attempt: int) -> None:
        """The function is about to be invoked for `record`; the first attempt is 1."""

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
        """An outcome was accepted: the `results` of OK or TIMEOUT, or the `error` of a failure."""
