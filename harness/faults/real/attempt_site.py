"""Where a fault acts inside an attempt: its journal, its loop, its clock, its checkpoint store, its process.

A fault writes down what it does before, or as, it does it: a killed attempt remembers nothing. `stop` stops
the attempt's own process at an exact phase, which no signal from outside could; it is written down first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

__all__ = ["ActJournal", "AttemptSite", "Shift", "SiteClock", "SiteLoop", "SiteStore", "stop"]

if TYPE_CHECKING:
    from harness.database.store_files import Files


Shift = Callable[[int], int]
"""By how much (ns) a clock is off at an instant of the monotonic one (ns)."""


class ActJournal(Protocol):
    """Where an attempt writes what a fault does in it."""

    def acted(self, fault: str, what: str, **facts: Any) -> None:
        """Before, or as, it is done."""

    def measured(self, fault: str, what: str, **facts: Any) -> None:
        """What came of it."""

    def about_to_stop(self, *, fault: str) -> None:
        """The attempt stops its own process; a stopped process says nothing."""


class SiteLoop(Protocol):
    """What a fault uses of the attempt's event loop."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> object: ...


class SiteClock(Protocol):
    """The attempt's wall clock."""

    shift: Shift

    def offset_ms(self) -> float:
        """How far it is ahead of the monotonic clock, less what it was ahead when it was made."""

    def set_right(self) -> None:
        """Take a shift back."""


class SiteStore(Protocol):
    """The attempt's checkpoint store."""

    @property
    def files(self) -> Files:
        """The files of its subtask, the newest last."""

    def meets(self, meet: Callable[[], None], *, lasts_ms: int) -> None:
        """For a while, `meet` is called before each write: it takes time, or raises an OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSite:
    """What a fault may get hold of inside one attempt."""

    journal: ActJournal
    loop: SiteLoop
    clock: SiteClock
    store: SiteStore


def stop(fault: str, attempt: AttemptSite) -> None:
    """Stop this process (SIGSTOP); return when another process has sent SIGCONT.

    The watch sees the note, and lets the process go on.
    """
    attempt.journal.about_to_stop(fault=fault)
    os.kill(os.getpid(), signal.SIGSTOP)
