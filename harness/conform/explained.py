"""Which ticket or line of source explains a difference between the specification and a released Flink.

Invariant: an entry names the statement (`docs/reference/references.md`), the lines of Flink that have the behaviour,
and a place where somebody else can read of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.sut.serve.systems import QUIRK_SYSTEMS

FLINK_1_20 = "A72"
"""Shown by Flink 1.20 only."""

TOGETHER = "A76 to A86"
"""No single quirk explains it, but all of profile `flink` together do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """Why a Flink answers otherwise."""

    say: str
    source: str
    """A ticket, or a class and method of Flink's source."""


EXPLANATIONS: Mapping[str, KnownDifference] = {
    "A76": KnownDifference(
        say="an outcome of attempt k that comes while attempt k+1 runs is taken for that of k+1",
        source="AsyncWaitOperator.RetryableResultHandlerDelegator: one handle and one flag for all attempts",
    ),
    "A80": KnownDifference(
        say="at exactly the timeout the handler's own outcome is judged like an attempt's, and may be retried",
        source="FLINK-38082, FLINK-30477: the check is `now - start > timeout`, so the instant itself is let through",
    ),
    "A81": KnownDifference(
        say="an attempt's outcome between the timer's mail and the handler's takes the handler's place",
        source="FLINK-40456: one guard for attempts and timeout, and the retry's timer is cancelled already",
    ),
    "A82": KnownDifference(
        say="all records of a subtask share one exponential delay",
        source="FLINK-33698: AsyncRetryStrategies.ExponentialBackoffDelayRetryStrategy keeps its last delay",
    ),
    FLINK_1_20: KnownDifference(
        say="an outcome is retried however long the timeout has passed",
        source="FLINK-38082: 1.20.5 has no `isTimeout` in AsyncWaitOperator.RetryableResultHandlerDelegator, 2.0.2 has",
    ),
    TOGETHER: KnownDifference(
        say="several quirks of profile `flink` at once",
        source="docs/reference/flink-map.md, Deviations",
    ),
    "A86": KnownDifference(
        say="the end of input also calls records whose retry runs, and some that are finished",
        source="AsyncWaitOperator.endInput: inFlightDelayRetryHandlers keeps handlers too long",
    ),
}


def systems_by_statement(yardstick: str) -> Mapping[str, str]:
    """The systems of ours that show one deviation from the yardstick each, the nearest first."""
    older = {FLINK_1_20: "reference-flink-1.20"}
    if yardstick == "flink":
        return older
    return {**QUIRK_SYSTEMS, TOGETHER: "reference", **older}
