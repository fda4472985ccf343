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
    """Sessions with a higher number, as long as the server writes this file of its log, belong to `start`."""

    file: str
    """A restarted server counts its sessions anew, and begins a new file."""
    session: int
    start: int | None


@dataclass(slots=True, kw_only=True)
class JobSessions:
    """Implements `OwnersOfSessions`. Mutable; thread-safe."""

    _boundaries: list[_Boundary] = field(default_factory=list)
    _known: dict[tuple[str, int], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pass_to(self, start: int | None, *, session: int | None, at: LogPosition) -> None:
        """Sessions above `session` are opened while `start` alone lives; None: several do, or nobody knows."""
        with self._lock:
            if session is None:  # the server does not answer, so whoever connects now is not known
                session = max((one.session for one in self._boundaries if one.file == at.file), default=0)
                start = None
            self._boundaries.append(_Boundary(file=at.file, session=session, start=start))

    def know(self, session: int, start: int, *, at: LogPosition) -> None:
        """A process of `start` holds `session`."""
        with self._lock:
            self._known[at.file, session] = start

    def start_of(self, session: int | None, at: LogPosition) -> int | None:
        """See `OwnersOfSessions`."""
        if session is None:
            return None
        with self._lock:
            known = self._known.get((at.file, session))
            passed = [one for one in self._boundaries if one.file == at.file and one.session < session]
        if known is not None:
            return known
        return passed[-1].start if passed else None
