"""Where Flink 2.3.0 differs from its own specification: one named flag for each difference, and two profiles.

Answers to decision 12 (`strict` and `flink`). Invariant: a flag that is off changes nothing, and each can be
set alone; the profile `flink` sets those of 2.3.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """Which deviations of Flink 2.3.0 to reproduce. All of them concern retry."""

    late_outcome_counts_for_next_attempt: bool = False
    """A76: an outcome of attempt k that arrives while attempt k+1 runs counts as the outcome of k+1."""
    timeout_outcome_is_judged: bool = False
    """A80: at exactly the timeout, the outcome given by `timeout` is judged like an attempt's, and may be retried."""
    attempt_outcome_beats_timeout: bool = False
    """A81: an attempt's outcome between the timer's mail and the outcome given by `timeout` replaces it
    (FLINK-40456).
    """
    backoff_is_shared: bool = False
    """A82: exponential delays grow from the last delay of any record (FLINK-33698)."""
    last_calls_follow_registration: bool = False
    """A86: the end of input also repeats retries that are running, and calls that timed out in their first
    backoff.
    """
    retries_past_the_timeout: bool = False
    """A72: an outcome is retried however long the timeout has passed. Flink 1.20.5 only, which does not have the
    check of FLINK-38082; later releases have it, so profile `flink` does not set it.
    """


STRICT = Quirks()
"""What the specification intends."""

FLINK = Quirks(
    late_outcome_counts_for_next_attempt=True,
    timeout_outcome_is_judged=True,
    attempt_outcome_beats_timeout=True,
    backoff_is_shared=True,
    last_calls_follow_registration=True,
)
"""What Flink 2.3.0 does."""

FLINK_1_20 = replace(FLINK, retries_past_the_timeout=True)
"""What Flink 1.20.5 does."""

PROFILES = {"strict": STRICT, "flink": FLINK}
"""Each profile by name."""
