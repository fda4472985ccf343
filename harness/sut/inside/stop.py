"""The stop: an attempt stops its own process at a phase, for somebody outside to let it go on.

Answers to a pause that hits one exact point, which no signal from outside could. Invariant: it is written down first,
for a stopped process says nothing.
"""

from __future__ import annotations

import os
import signal
from typing import Protocol

__all__ = ["StopJournal", "stop"]


class StopJournal(Protocol):
    """Where the attempt writes that it is about to stop."""

    def about_to_stop(self, *, fault: str) -> None:
        """The watch takes it from here."""


def stop(fault: str, journal: StopJournal) -> None:
    """Stop; return when somebody has sent SIGCONT."""
    journal.about_to_stop(fault=fault)
    os.kill(os.getpid(), signal.SIGSTOP)
