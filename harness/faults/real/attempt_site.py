"""What a fault inside an attempt acts on: the attempt's journal, event loop, wall clock, checkpoint store and process.

Invariant: a fault journals each act before it performs it, because a killed attempt can record nothing afterwards.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.history.notes import NoteLog, Stops
from harness.system.clock import monotonic_us, utc_now

if TYPE_CHECKING:
    from harness.database.store_files import Files


Shift = Callable[[int], int]
"""Maps an instant of the monotonic clock (ns) to the offset of the wall clock (ns)."""


class SiteLoop(Protocol):
    """The methods of the attempt's event loop that faults use."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> object: ...


class SiteStore(Protocol):
    """The attempt's checkpoint store."""

    @property
    def files(self) -> Files:
        """The checkpoint files of its subtask, the newest last."""

    def before_writes(self, meet: Callable[[], None], *, lasts_ms: int) -> None:
        """For `lasts_ms`, calls `meet` before each write; it may block, or raise an OSError."""


_NS_PER_US = 1000
_NS_PER_MS = 1_000_000


class WallClock:
    """The wall clock of an attempt, which faults may set, stop or make drift.

    Answers to `System.currentTimeMillis`; a correct operator never reads it (T1). The evidence of a clock fault is
    measured through it too. Mutable: faults replace `shift`.
    """

    def __init__(self) -> None:
        self._origin_ns = round(utc_now().timestamp() * 1_000_000_000) - monotonic_us() * _NS_PER_US
        self.set_right()

    def now_ns(self) -> int:
        """The shifted time of day."""
        now_ns = monotonic_us() * _NS_PER_US
        return self._origin_ns + now_ns + self.shift(now_ns)

    def offset_ms(self) -> float:
        """Its offset to the monotonic clock, relative to the offset at its creation."""
        now_ns = monotonic_us() * _NS_PER_US
        return round((self.now_ns() - self._origin_ns - now_ns) / _NS_PER_MS, 1)

    def set_right(self) -> None:
        """Removes the shift."""
        self.shift: Shift = lambda at_ns: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSite:
    """What a fault may use inside one attempt."""

    journal: NoteLog
    loop: SiteLoop
    clock: WallClock
    store: SiteStore


def stop(fault: str, attempt: AttemptSite) -> None:
    """Stops this process (SIGSTOP) and returns when another process has sent SIGCONT.

    The harness reads the journal line that precedes it and resumes the process.
    """
    attempt.journal.note(Stops(fault=fault))
    os.kill(os.getpid(), signal.SIGSTOP)
