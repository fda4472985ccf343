"""Which start of a job a session of the database belongs to.

Invariant: a session is of a start only if it was opened while that start alone lived, or by a process known to be its;
of any other nobody knows.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from harness.jobs.binlog import LogPosition

__all__ = ["JobSessions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Boundary:
    """Sessions with a higher number that first write behind `at` belong to `start`; None: to nobody knows whom."""

    at: LogPosition
    """Where the log ended then. A restarted server counts its sessions anew, and begins a new file."""
    session: int
    start: int | None


@dataclass(slots=True, kw_only=True)
class JobSessions:
    """Implements `OwnersOfSessions`. Mutable; thread-safe."""

    _boundaries: list[_Boundary] = field(default_factory=list)
    _known: dict[tuple[str, int], int] = field(default_factory=dict)
    is_unsure: bool = False
    """Whether the server did not answer at the last boundary, so that another one is owed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pass_to(self, start: int | None, *, session: int | None, at: LogPosition) -> None:
        """Sessions above `session` are opened while `start` alone lives; None: several do, or nobody knows."""
        with self._lock:
            self.is_unsure = session is None
            if (
                session is None
            ):  # what has written by now was there before; of whoever connects next nobody knows
                passed = (one.session for one in self._boundaries if one.at.file == at.file)
                session, start = max(passed, default=0), None
            self._boundaries.append(_Boundary(at=at, session=session, start=start))

    def has(self, file: str) -> bool:
        """Whether there is a boundary in this file of the log."""
        with self._lock:
            return any(one.at.file == file for one in self._boundaries)

    def know(self, session: int, start: int, *, at: LogPosition) -> None:
        """A process of `start` holds `session`."""
        with self._lock:
            self._known[at.file, session] = start

    def start_of(self, session: int | None, at: LogPosition) -> int | None:
        """See `OwnersOfSessions`; is asked in the order of the log."""
        if session is None:
            return None
        with self._lock:
            known = self._known.get((at.file, session))
            passed = [
                one
                for one in self._boundaries
                if one.at.file == at.file and one.at < at and one.session < session
            ]
            if known is None and passed and passed[-1].start is not None:
                known = self._known[at.file, session] = passed[-1].start
        return known
