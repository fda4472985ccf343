"""The file of `--log`: log entries are appended by a thread of its own, so that a slow or full disk touches no traffic.

Answers to the asynchronous appenders of log4j, which Flink uses. Invariant: `write` neither waits nor raises, whatever
the disk does; an entry that could not be written is counted and told, and later ones are tried again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from harness.system.errors import UsageError

LINES_MAX = 100_000
"""Entries that wait for the disk; further ones are lost."""
CLOSE_LIMIT_S = 5.0
"""How long the end of the process waits for the entries that still wait."""


class RawFile(Protocol):
    """An unbuffered file; a buffered one would keep what it could not write and fail again for it."""

    def write(self, data: bytes, /) -> int | None:
        """Returns how many bytes were written."""

    def close(self) -> None: ...


def opened(path: Path, *, complain: Callable[[str], None]) -> EventFile:
    """Append to that file. Raises UsageError if it cannot be opened."""
    try:
        file = path.open("ab", buffering=0)
    except OSError as error:
        message = f"the log file {path} cannot be written: {error.strerror}"
        raise UsageError(message, fix="name another file with --log") from error
    return EventFile(file, name=str(path), complain=complain)


class EventFile:
    """Mutable: owns a thread and counts what is lost; `close` ends it.

    `complain` gets a sentence at the first failure and one with the number of lost entries at the end; it is called on
    the file's thread or on the closing one.
    """

    def __init__(self, file: RawFile, *, name: str, complain: Callable[[str], None]) -> None:
        self.lost = 0
        self._file = file
        self._name = name
        self._complain = complain
        self._torn = False
        """Whether the last entry was written in part."""
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES_MAX)
        self._thread = threading.Thread(target=self._append_all, name="proxy log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Append a line, which ends with a newline, some time later."""
        try:
            self._lines.put_nowait(line.encode())
        except queue.Full:
            self._lose("the disk is too slow")

    def close(self) -> None:
        """Write what waits, for a limited time, and close the file; a disk that hangs does not hold the process."""
        try:
            self._lines.put(None, timeout=CLOSE_LIMIT_S)
        except queue.Full:
            pass
        else:
            self._thread.join(CLOSE_LIMIT_S)
        waiting = self._lines.qsize() if self._thread.is_alive() else 0
        if self.lost or waiting:
            self._complain(f"{self.lost + waiting} log entries are missing in {self._name}")

    def _append_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._append(line)
            except OSError as error:
                self._lose(error.strerror or str(error))
        self._file.close()

    def _append(self, line: bytes) -> None:
        left = b"\n" + line if self._torn else line
        while left:
            written = self._file.write(left) or 0
            self._torn = written < len(left)
            left = left[written:]

    def _lose(self, why: str) -> None:
        self.lost += 1
        if self.lost == 1:
            self._complain(f"log entries are lost, for {self._name} cannot be written now: {why}")
