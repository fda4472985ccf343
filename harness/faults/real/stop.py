"""The stop: an attempt stops its own process at a phase, for somebody outside to let it go on.

Answers to a pause that hits one exact point, which no signal from outside could. Invariant: it is written down first,
for a stopped process says nothing.
"""

from __future__ import annotations

import os
import signal

from harness.faults.real.attempt_site import AttemptSite

__all__ = ["stop"]


def stop(fault: str, attempt: AttemptSite) -> None:
    """Stop; return when somebody has sent SIGCONT. The watch takes it from the note."""
    attempt.journal.about_to_stop(fault=fault)
    os.kill(os.getpid(), signal.SIGSTOP)
