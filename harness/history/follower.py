"""The follower: reads the files of a run while they grow, for progress, triggers and liveness.

Invariant: it only reads, so a run that is followed is the same run; what it counts is what was recorded,
up to the last whole line.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.history.timed_call import CallPairing
from harness.process_identity import ProcessIdentity

__all__ = ["AttemptView", "Follower", "Progress"]


@dataclass(slots=True, kw_only=True)
class AttemptView:
    """One attempt as its file shows it; mutable, for the follower only."""

    subtask: int
    attempt: int
    process: ProcessIdentity | None = None
    """None: it has not said yet."""
    over: bool = False
    """It closed or reported its failure: the process may go on to other work."""
    in_flight: int = 0


@dataclass(slots=True, kw_only=True)
class Progress:
    """What has been recorded so far; mutable, for the follower only."""

    first_record_us: int | None = None
    last_us: int | None = None
    """When anything was recorded last."""
    taken: Counter[int] = field(default_factory=Counter)
    emitted: int = 0
    calls: Counter[int] = field(default_factory=Counter)
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)
    losses: list[tuple[int, str, int | str]] = field(default_factory=list)
    """(when, link, error code) of each connection lost or refused."""
    errors: list[tuple[int, str, int | str]] = field(default_factory=list)
    """(when, link, error code) of each error that a client met, losses among them."""
    stopped: dict[str, int] = field(default_factory=dict)
    """When an attempt stopped itself for a fault, by the fault's id."""
    timed: CallPairing = field(default_factory=CallPairing)
    attempts: dict[tuple[int, int], AttemptView] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Calls without an outcome, of the newest attempt of each subtask."""
        newest = {view.subtask: view for _, view in sorted(self.attempts.items())}
        return sum(view.in_flight for view in newest.values())

    @property
    def epoch(self) -> int:
        """The highest epoch that every subtask with an attempt has committed."""
        subtasks = {subtask for subtask, _ in self.attempts}
        highest = [max((c for s, c in self.commits if s == subtask), default=0) for subtask in subtasks]
        return min(highest, default=0)


class Follower:
    """Call `poll` now and then; `progress` is what the files said by then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._decode = msgspec.json.Decoder().decode
        self.progress = Progress()

    def poll(self) -> Progress:
        """Read what is new."""
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
        progress.last_us = max(progress.last_us or 0, line["t"])
        match line["k"]:
            case "~process":
                view.process = ProcessIdentity(pid=line["pid"], started=line["started"])
            case "in":
                progress.taken[subtask] += 1
                if progress.first_record_us is None:
                    progress.first_record_us = line["t"]
            case "call":
                progress.calls[subtask] += 1
                view.in_flight += 1
            case "res":
                view.in_flight -= 1
            case "out":
                progress.emitted += 1
            case "commit" | "~completed":
                progress.commits[subtask, line["c"]] += 1
            case "~lost":
                progress.losses.append((line["t"], line["link"], line["code"]))
                progress.errors.append((line["t"], line["link"], line["code"]))
            case "~error":
                progress.errors.append((line["t"], line["link"], line["code"]))
            case "~stops":
                progress.stopped.setdefault(line["f"], line["t"])
            case "failed" | "close":
                view.over = True
