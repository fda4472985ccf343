"""Follows the files of a run while they grow, for progress, triggers and liveness; pairs calls with outcomes.

Invariant: it only reads, so following a run does not change it; it counts up to the last whole line of each file.
`timed_calls` returns external calls as intervals, with the link that each crosses: a lookup spans `call` to
`res`, a sink's transaction `~committing` to `commit`. Answers to Jepsen's invoke/complete pairs; a call without
an outcome is kept with no end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

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

    def note(self, line: Mapping[str, Any]) -> None:
        """Take the next line; kinds that neither begin nor end a call are ignored."""
        match line["k"]:
            case "call":
                self._open[_lookup(line)] = line["t"]
            case "res":
                self._end(_lookup(line), line, ending=line["r"])
            case "~committing":
                self._open[_commit(line)] = line["t"]
            case "commit":
                self._end(_commit(line), line, ending="ok")

    def _end(self, name: _Name, line: Mapping[str, Any], *, ending: str) -> None:
        began = self._open.pop(name, None)
        if began is not None:
            self._ended.append(TimedCall(began_us=began, ended_us=line["t"], ending=ending, link=name[0]))

    def calls(self, link: str) -> list[TimedCall]:
        """All calls over `link` so far: ended ones in the order of their ends, then open ones."""
        without = [
            TimedCall(began_us=began, ended_us=None, ending=None, link=name[0])
            for name, began in self._open.items()
        ]
        return [call for call in (*self._ended, *without) if call.link == link]


_Name = tuple[str, int, int, int, int]
"""(link, subtask, attempt, record id or checkpoint, try)."""


def _lookup(line: Mapping[str, Any]) -> _Name:
    return "lookups", line["s"], line["a"], line["id"], line["try"]


def _commit(line: Mapping[str, Any]) -> _Name:
    return "sink", line["s"], line["a"], line["c"], 1


def timed_calls(lines: Iterable[Mapping[str, object]], *, link: str) -> list[TimedCall]:
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

    def note(self, line: Mapping[str, Any]) -> None:
        """Takes the next line of its file."""
        self.dies_for = fatal_fault(line)
        match line["k"]:
            case "~process":
                self.process = ProcessIdentity(pid=line["pid"], started=line["started"])
            case "call":
                self.in_flight += 1
            case "res":
                self.in_flight -= 1
            case "snap":
                self.snapped = True
            case "ended":
                self.drained = True
            case "~made":  # its journal is closed; what was in flight was cancelled
                self.in_flight = 0
            case "failed" | "close":
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

    def met(self, line: Mapping[str, Any]) -> None:
        """A client received an error; `~lost`: its connection was lost or refused."""
        error = (line["t"], line["link"], line["code"])
        self.errors.append(error)
        if line["k"] == "~lost":
            self.losses.append(error)

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
        self._decode = msgspec.json.Decoder().decode
        self.progress = Progress()

    def poll(self) -> Progress:
        """Read the lines added since the last call."""
        for path in sorted(self._folder.glob("subtask-*.jsonl")):
            for line in self._new_lines(path):
                self._note(self._decode(line))
        return self.progress

    def _new_lines(self, path: Path) -> list[bytes]:
        offset = self._offsets.get(path, 0)
        with path.open("rb") as file:
            file.seek(offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offsets[path] = offset + len(whole) + len(newline)
        return whole.split(b"\n") if whole else []

    def _note(self, line: dict[str, Any]) -> None:
        progress = self.progress
        subtask, attempt = line["s"], line["a"]
        view = progress.attempts.setdefault((subtask, attempt), AttemptView(subtask=subtask, attempt=attempt))
        progress.timed.note(line)
        if line["k"] != "~alive":
            progress.last_us = max(progress.last_us or 0, line["t"])
        view.note(line)
        match line["k"]:
            case "in":
                progress.taken[subtask] += 1
                progress.began_us.setdefault(subtask, line["t"])
            case "ended":
                progress.began_us.setdefault(subtask, line["t"])
            case "call":
                progress.calls[subtask] += 1
            case "out":
                progress.emitted += 1
            case "commit" | "~completed":
                progress.commits[subtask, line["c"]] += 1
            case "~lost" | "~error":
                progress.met(line)
            case "~own-client":
                progress.has_own_client = True
            case "~stops":
                progress.stopped.setdefault(line["f"], line["t"])


def fatal_fault(line: Mapping[str, object]) -> str | None:
    """The fault for which the attempt that wrote `line` ends its own process next; None: it goes on."""
    match line:
        case {"k": "~dies", "fault": str(fault)} | {"k": "~acted", "what": "kills", "f": str(fault)}:
            return fault
        case _:
            return None
