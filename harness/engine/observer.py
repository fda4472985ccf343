"""Who looks on while runs go on, and may end them: told of phases, asked whether to stop.

Answers to Jepsen's log, which says what is being done. Invariant: an observer changes nothing of what it sees; a
stop ends a campaign early, never a run halfway judged.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

__all__ = ["Observer", "Stop"]


class Stop(threading.Event):
    """Set from outside (Ctrl-C) to end a run early, with all that it owes."""


class Observer:
    """Told how a run goes; the silent one. `harness.cli.progress` has those that speak."""

    def phase(self, name: str, text: str) -> None:
        """A phase begins, a fault is armed or healed: worth a line."""

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        """How it stands now: `faults` are those that act, and whether each bites; a few times a second."""
