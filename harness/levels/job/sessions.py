"""Which start of a job a session of the database belongs to, followed while processes come and go.

Invariant: a session is of a start only if it was opened while that start alone went on, or by a process known to be
its; the start of any other is unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.levels.job.binlog import LogPosition
from harness.levels.job.job_database import JobDatabase
from harness.levels.job.processes import JobStarts
from harness.levels.job.traffic import Message
from harness.system.clock import monotonic_us
from harness.system.process_identity import ProcessIdentity
from harness.world.world import World

_LOOK_EVERY_US: Final = 200_000
_UNSURE_EVERY_US: Final = 2_000_000
_ORPHANS_MAX_US: Final = 5_000_000
"""How long a process may outlive a start that failed before the harness ends it."""
_ENDING_MAX_US: Final = 20_000_000
"""The same after an exit with code 0: on a busy machine a JVM needs more than five seconds to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Boundary:
    """Sessions with a higher number that first write behind `at` belong to `start`; None: their start is unknown."""

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
        """Sessions above `session` are opened while `start` alone lives; `start` None: several do, or it is unknown.

        `session`: the newest one now; None: the server does not answer.
        """
        with self._lock:
            self.is_unsure = session is None
            if session is None:
                # Sessions seen so far were there before; the start of later ones is not known.
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


@dataclass(slots=True, kw_only=True)
class SessionsFollowed:
    """Notes whose sessions are opened now, and follows processes whose start has ended. Mutable."""

    sessions: JobSessions = field(default_factory=JobSessions)
    database: JobDatabase
    starts: JobStarts
    world: World
    end_of_log: Callable[[], LogPosition]
    read_of_log: Callable[[], LogPosition]
    """How far the log has been read."""
    messages: Callable[[], Sequence[Message]]
    """The messages that the proxy has noted so far."""
    outlived: ProcessIdentity | None = None
    """The first process that was ended since it had outlived its start for too long."""
    _orphans_us: int | None = None
    _orphans_max_us: int = 0
    """Since when there may be processes of starts that have ended."""
    _looked_us: int = 0
    _asked_us: int = 0
    _finds_out: bool = False
    _read: int = 0
    """How many messages have been looked at."""
    _learnt: set[tuple[str, int]] = field(default_factory=set)
    """The connections (link, number) whose process was told."""
    _file: str = ""

    def __post_init__(self) -> None:
        self._file = self.read_of_log().file

    @property
    def may_have_orphans(self) -> bool:
        """Whether processes of starts that have ended may still go on."""
        return self._orphans_us is not None

    @property
    def orphans_may_stay(self) -> bool:
        """Whether processes that outlive their start still have time to end by themselves."""
        return self._orphans_us is not None and monotonic_us() - self._orphans_us < self._orphans_max_us

    def begin_start(self, number: int | None) -> None:
        """A start is about to be made, perhaps beside another one; None: one that stood still goes on beside it."""
        is_alone = self._orphans_us is None and set(self.starts.living) <= set(self.starts.frozen)
        self._find_out(on=not is_alone)
        at = self.end_of_log()
        self.sessions.pass_to(number if is_alone else None, session=self.database.sessions(), at=at)

    def note_exit(self, *, code: int) -> None:
        """A start has ended: its processes are looked for at once, since they could open sessions, too."""
        self._orphans_us = monotonic_us() if self._orphans_us is None else self._orphans_us
        self._orphans_max_us = _ORPHANS_MAX_US if code else _ENDING_MAX_US
        self._looked_us = 0

    def forget_orphans(self) -> None:
        """All of them have been ended."""
        self._orphans_us = None

    def look(self) -> None:
        """Ends processes that have outlived their start for too long, and learns whose the sessions are."""
        now_us = monotonic_us()
        if self._orphans_us is not None and now_us - self._looked_us >= _LOOK_EVERY_US:
            self._looked_us = now_us
            self._look_at_orphans()
        self._find_out(on=not self._is_alone())
        self.learn()
        if self.sessions.is_unsure and now_us - self._asked_us >= _UNSURE_EVERY_US:
            self._asked_us = now_us
            self._note_boundary(session=self.database.sessions())
        if (file := self.read_of_log().file) != self._file:
            self._file = file
            if not self.sessions.has(file):
                self._note_boundary(session=0)

    def _look_at_orphans(self) -> None:
        orphans = self.starts.orphans()
        if not orphans:
            self._orphans_us = None
            self._note_boundary(session=self.database.sessions())
        elif not self.orphans_may_stay:
            self.outlived = self.outlived or orphans[0]
            self.starts.end(orphans)

    def _is_alone(self) -> bool:
        """Whether all processes of the job belong to one start."""
        return self._orphans_us is None and len(self.starts.living) <= 1

    def _find_out(self, *, on: bool) -> None:
        """Lets the proxy find out which process opens a session, while several starts may write."""
        if on != self._finds_out:
            self._finds_out = on
            self.world.proxy.identify(on=on)

    def learn(self) -> None:
        """Which session is whose, by the messages whose process the proxy has told."""
        messages = self.messages()
        for one in messages[self._read :]:
            connection = one.link, one.connection
            if one.pid and one.session and connection not in self._learnt:
                self._learnt.add(connection)
                start = self.starts.start_of(one.pid)
                if start is not None:
                    self.sessions.know(one.session, start, at=self.end_of_log())
        self._read = len(messages)

    def _note_boundary(self, *, session: int | None) -> None:
        living, at = self.starts.living, self.end_of_log()
        start = living[0] if living and self._is_alone() else None
        if not self.sessions.has(at.file):
            # The server was restarted: it counts its sessions anew, and may have opened and served some by now.
            session, at = 0, LogPosition(file=at.file, offset=0)
        self.sessions.pass_to(start, session=session, at=at)
