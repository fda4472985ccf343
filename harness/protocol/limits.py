"""What a system under test may take: seconds, bytes and events.

Invariant: every wait and every buffer of the driver is bounded by one of these, whose name is in its error.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one program; the defaults bear a Java machine's start and states of 10^5 elements."""

    start_s: float = 60.0
    """Between its start and its first answer."""
    answer_s: float = 30.0
    """Between a command (or the answer before) and the whole answer."""
    exit_s: float = 10.0
    """Between the end of its input and its exit."""
    line_bytes: int = 64 << 20
    """One event; also bytes without a line feed."""
    answer_bytes: int = 512 << 20
    """One command's whole answer."""
    events: int = 1_000_000
    """Lines of one command's answer."""
    last_words_bytes: int = 2_000
    """How much of standard error is kept for messages; all of it is read."""
