"""The recorder: an attempt's events, each on disk before its effect can be seen.

One `os.write` to a file opened O_APPEND per event: a SIGKILL then loses nothing, for the page cache outlives
the process (`docs/references.md`, Measured). Beside the events of `docs/history.md` a file holds *notes*,
whose kind begins with `~`: what the merge needs to settle commits and to find evidence. Every line of a file
carries `i`, its number, so that a missing line is seen.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import msgspec

from harness.clock import monotonic_us

__all__ = ["HARNESS_FILE", "EventLine", "Recorder", "attempt_file"]

HARNESS_FILE = "harness.jsonl"


def attempt_file(folder: Path, *, subtask: int, attempt: int) -> Path:
    """Where attempt `attempt` of `subtask` appends."""
    return folder / f"subtask-{subtask:03d}-attempt-{attempt:04d}.jsonl"


class EventLine(msgspec.Struct):
    """The fields with which each line begins, in that order. Mutable: `append` gives `i` and `t`."""

    i: int
    t: int
    k: str
    s: int
    a: int


class Recorder:
    """Appends to one file; safe from several threads (of the harness; an attempt has one)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._encode = msgspec.json.Encoder().encode
        self._lock = threading.Lock()
        self._lines = 0

    def record(self, kind: str, **fields: Any) -> None:
        """Append one event or note; it is on disk when this returns. Raises OSError (a full disk)."""
        with self._lock:
            line = self._encode({"i": self._lines, "t": monotonic_us(), "k": kind, **fields}) + b"\n"
            if os.write(self._descriptor, line) != len(line):
                self._raise_full(len(line))
            self._lines += 1

    def append(self, line: EventLine) -> None:
        """As `record`, for the events of each record: a struct is made and encoded faster than a dict."""
        with self._lock:
            line.i = self._lines
            line.t = monotonic_us()
            # As short as can be: whatever stands here is paid for at each event, beside the write itself.
            text = self._encode(line) + b"\n"
            if os.write(self._descriptor, text) != len(text):
                self._raise_full(len(text))
            self._lines += 1

    def _raise_full(self, length: int) -> NoReturn:
        raise OSError(f"not all of the {length} bytes of an event fit into {self.path}; the disk is full")

    def close(self) -> None:
        """Close the file; what was recorded stays."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
