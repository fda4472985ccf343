"""What a fault inside an attempt acts on: the attempt's journal, event loop, wall clock, checkpoint store and process.

Invariant: a fault journals each act before it performs it, because a killed attempt can record nothing afterwards.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from harness.history.notes import NoteLog, Stops

if TYPE_CHECKING:
    from harness.database.store_files import Files


Shift = Callable[[int], int]
"""Maps an instant of the monotonic clock (ns) to the offset of the wall clock (ns)."""


class SiteLoop(Protocol):
    """The methods of the attempt's event loop that faults use."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> object: ...


class SiteClock(Protocol):
    """The attempt's wall clock."""

    shift: Shift

    def offset_ms(self) -> float:
        """Its offset to the monotonic clock, relative to the offset at its creation."""

    def set_right(self) -> None:
        """Removes the shift."""


class SiteStore(Protocol):
    """The attempt's checkpoint store."""

    @property
    def files(self) -> Files:
        """The checkpoint files of its subtask, the newest last."""

    def before_writes(self, meet: Callable[[], None], *, lasts_ms: int) -> None:
        """For `lasts_ms`, calls `meet` before each write; it may block, or raise an OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSite:
    """What a fault may use inside one attempt."""

    journal: NoteLog
    loop: SiteLoop
    clock: SiteClock
    store: SiteStore


def stop(fault: str, attempt: AttemptSite) -> None:
    """Stops this process (SIGSTOP) and returns when another process has sent SIGCONT.

    The harness reads the journal line that precedes it and resumes the process.
    """
    attempt.journal.note(Stops(fault=fault))
    os.kill(os.getpid(), signal.SIGSTOP)
