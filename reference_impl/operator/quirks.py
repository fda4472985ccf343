"""Profiles: where released Flink differs from what its own specification intends, one named quirk each.

Answers to decision 12 (`strict` and `flink`). Invariant: a quirk that is off changes nothing, and each can be
switched alone; what is measured on Flink 2.3.0 is the profile in which all are on.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FLINK", "PROFILES", "STRICT", "Quirks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """What to reproduce of Flink 2.3.0; all of them concern retry."""

    late_outcome_counts_for_next_attempt: bool = False
    """A76: an outcome of attempt k that comes while k+1 runs is taken for that of k+1."""
    timeout_outcome_is_judged: bool = False
    """A80: at exactly the timeout the handler's outcome is judged like an attempt's, and may be retried."""
    attempt_outcome_beats_timeout: bool = False
    """A81: an attempt's outcome between the timer's mail and the handler's replaces the latter (FLINK-40456)."""
    backoff_is_shared: bool = False
    """A82: exponential delays grow from the last one that any record got (FLINK-33698)."""
    last_calls_follow_registration: bool = False
    """A86: at end of input also a running retry is called again, and one that timed out in its first backoff."""


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

PROFILES = {"strict": STRICT, "flink": FLINK}
"""Each profile by name."""
