"""Follows the files of a run while they grow, for progress, triggers and liveness; pairs calls with outcomes.

Invariant: it only reads, so following a run does not change it; it counts up to the last whole line of each file.
`timed_calls` returns external calls as intervals, with the link that each crosses: a lookup spans `call` to
`res`, a sink's transaction `CommitBegun` to `commit`. Answers to Jepsen's invoke/complete pairs; a call without
an outcome is kept with no end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UnsetType

from harness.history.event import AttemptEvent, Call, Close, Commit, Ended, Failed, In, Out, Res, Snap
from harness.history.notes import (
    Acted,
    Alive,
    AttemptNote,
    ClientError,
    CommitBegun,
    Dies,
    HeardComplete,
    InProcess,
    Line,
    LostConnection,
    Made,
    OwnClient,
    Stops,
)
from harness.history.recorder import decode_lines
from harness.system.process_identity import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """One external call: when it began and ended (microseconds), and with what outcome."""

    began_us: int
    ended_us: int | None
    """None: no outcome was recorded (the attempt died, the run ended, or the call is still running)."""
    ending: str | None
    """`ok`, `fail`, `timeout`."""
    link: str = "lookups"
    """`lookups` or `sink`: a fault on one link does not affect calls over the other."""

    @property
    def took_ms(self) -> float | None:
        return None if self.ended_us is None else (self.ended_us - self.began_us) / 1000


class CallPairing:
    """Pairs the begin and end of calls, line by line. Mutable."""

    def __init__(self) -> None:
        self._open: dict[_Name, int] = {}
        self._ended: list[TimedCall] = []

    def note(self, line: Line) -> None:
        """Take the next line; kinds that neither begin nor end a call are ignored."""
        match line:
            case Call(s=s, a=a, id=id_, try_=try_):
                self._open["lookups", s, a, id_, try_] = line.t
            case Res(s=s, a=a, id=id_, try_=try_):
                self._end(("lookups", s, a, id_, try_), line.t, ending=line.r)
            case CommitBegun(s=s, a=a, c=c):
                self._open["sink", s, a, c, 1] = line.t
            case Commit(s=s, a=a, c=c):
                self._end(("sink", s, a, c, 1), line.t, ending="ok")

    def _end(self, name: _Name, ended_us: int, *, ending: str) -> None:
        began = self._open.pop(name, None)
        if began is not None:
            self._ended.append(TimedCall(began_us=began, ended_us=ended_us, ending=ending, link=name[0]))

    def calls(self, link: str) -> list[TimedCall]:
        """All calls over `link` so far: ended ones in the order of their ends, then open ones."""
        without = [
            TimedCall(began_us=began, ended_us=None, ending=None, link=name[0])
            for name, began in self._open.items()
        ]
        return [call for call in (*self._ended, *without) if call.link == link]


_Name = tuple[str, int, int | UnsetType, int | str, int]
"""(link, subtask, attempt, record id or checkpoint, try)."""


def timed_calls(lines: Iterable[Line], *, link: str) -> list[TimedCall]:
    """The calls over `link` in these lines."""
    pairing = CallPairing()
    for line in lines:
        pairing.note(line)
    return pairing.calls(link)


@dataclass(slots=True, kw_only=True)
class AttemptView:
    """The state of one attempt, from its file. Mutable; only the follower changes it."""

    subtask: int
    attempt: int
    process: ProcessIdentity | None = None
    """None: not recorded yet."""
    over: bool = False
    """Whether it closed or failed; its process may then run another attempt."""
    drained: bool = False
    """Whether it has emitted all data and ended."""
    dies_for: str | None = None
    """The fault for which it was about to end its own process, if that was its last line."""
    in_flight: int = 0
    snapped: bool = False
    """Whether it has taken a snapshot, after which an attempt in a batch is over."""

    def note(self, line: Line) -> None:
        """Takes the next line of its file."""
        self.dies_for = fatal_fault(line)
        match line:
            case InProcess():
                self.process = ProcessIdentity(pid=line.pid, started=line.started)
            case Call():
                self.in_flight += 1
            case Res():
                self.in_flight -= 1
            case Snap():
                self.snapped = True
            case Ended():
                self.drained = True
            case Made():  # its journal is closed; what was in flight was cancelled
                self.in_flight = 0
            case Failed() | Close():
                self.over = True


@dataclass(slots=True, kw_only=True)
class Progress:
    """Counts over everything recorded so far. Mutable; only the follower changes it."""

    began_us: dict[int, int] = field(default_factory=dict)
    """When each subtask took its first record, or ended without one."""
    last_us: int | None = None
    """Time of the latest line; one that says only that an attempt's loop runs does not count: it may still hang."""
    taken: Counter[int] = field(default_factory=Counter)
    emitted: int = 0
    calls: Counter[int] = field(default_factory=Counter)
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)
    losses: list[tuple[int, str, int | str]] = field(default_factory=list)
    """(when, link, error code) of each connection lost or refused."""
    errors: list[tuple[int, str, int | str]] = field(default_factory=list)
    """(when, link, error code) of each error that a client received, including losses."""
    has_own_client: bool = False
    """Whether the lookup has a client of its own, which records neither losses nor errors."""
    stopped: dict[str, int] = field(default_factory=dict)
    """When an attempt stopped itself (SIGSTOP) for a fault, by the fault's id."""
    timed: CallPairing = field(default_factory=CallPairing)
    attempts: dict[tuple[int, int], AttemptView] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Open calls of the newest attempt of each subtask."""
        return sum(view.in_flight for view in self._newest())

    @property
    def in_flight_of_batches(self) -> int:
        """Open calls of the newest attempts that are not at the end of their batch."""
        return sum(view.in_flight for view in self._newest() if not view.snapped)

    def _newest(self) -> Iterable[AttemptView]:
        return {view.subtask: view for _, view in sorted(self.attempts.items())}.values()

    @property
    def epoch(self) -> int:
        """The highest epoch that every subtask with an attempt has committed."""
        subtasks = {subtask for subtask, _ in self.attempts}
        highest = [max((c for s, c in self.commits if s == subtask), default=0) for subtask in subtasks]
        return min(highest, default=0)


class Follower:
    """Reads the files of a run's folder; `progress` is the state at the latest `poll`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self.progress = Progress()

    def poll(self) -> Progress:
        """Read the lines added since the last call."""
        for path in sorted(self._folder.glob("subtask-*.jsonl")):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
            self._offsets[path] = offset + data.rfind(b"\n") + 1
            for line in decode_lines(data):
                self._note(line)
        return self.progress

    def _note(self, line: Line) -> None:
        progress = self.progress
        if not isinstance(line, AttemptEvent | AttemptNote | Commit):
            return
        subtask, attempt = line.s, line.a or 0
        view = progress.attempts.setdefault((subtask, attempt), AttemptView(subtask=subtask, attempt=attempt))
        progress.timed.note(line)
        if not isinstance(line, Alive):
            progress.last_us = max(progress.last_us or 0, line.t)
        view.note(line)
        match line:
            case In():
                progress.taken[subtask] += 1
                progress.began_us.setdefault(subtask, line.t)
            case Ended():
                progress.began_us.setdefault(subtask, line.t)
            case Call():
                progress.calls[subtask] += 1
            case Out():
                progress.emitted += 1
            case Commit() | HeardComplete():
                progress.commits[subtask, line.c] += 1
            case ClientError():
                error = (line.t, line.link, line.code)
                progress.errors.append(error)
                if isinstance(line, LostConnection):
                    progress.losses.append(error)
            case OwnClient():
                progress.has_own_client = True
            case Stops():
                progress.stopped.setdefault(line.fault, line.t)


def fatal_fault(line: Line) -> str | None:
    """The fault for which the attempt that wrote `line` ends its own process next; None: it goes on."""
    match line:
        case Dies(fault=fault) | Acted(what="kills", fault=fault):
            return fault
        case _:
            return None
