"""The recorder: writes each event of an attempt to its file before the event takes effect.

Each event is one `os.write` to a file opened with O_APPEND: SIGKILL loses nothing, since the page cache outlives
the process (`docs/reference/references.md`, Measured). Besides the events of `docs/reference/history.md` a file holds
*notes* (`harness.history.notes`). Every line carries its number `i`, so that a missing line is detected.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Self

import msgspec

from harness.history.event import Commit, Event
from harness.history.notes import Line, Note
from harness.system.clock import monotonic_us
from harness.system.errors import HarnessError

HARNESS_FILE = "harness.jsonl"


def attempt_file(folder: Path, *, subtask: int, attempt: int) -> Path:
    """The file of one attempt of one subtask."""
    return folder / f"subtask-{subtask:03d}-attempt-{attempt:04d}.jsonl"


def newest_attempt(folder: Path, *, subtask: int) -> int:
    """The highest number of an attempt of `subtask` that has a file; 0: none has."""
    files = folder.glob(f"subtask-{subtask:03d}-attempt-*.jsonl")
    return max((int(file.stem.rpartition("-")[2]) for file in files), default=0)


def driver_file(folder: Path, *, start: int) -> Path:
    """The file of the `start`-th driver of a run that commits for its subtasks; followed like theirs."""
    return folder / f"subtask-driver-{start:04d}.jsonl"


_encode: Callable[[Line], bytes] = msgspec.json.Encoder().encode


def _kinds(of: type[Note]) -> list[type[Note]]:
    """All kinds of notes below a base."""
    return [kind for below in of.__subclasses__() for kind in _kinds(below) or [below]]


_decode: Callable[[bytes], Line] = msgspec.json.Decoder(reduce(or_, _kinds(Note), Event)).decode


def encode_line(line: Line) -> bytes:
    """The JSON of a line, which has its number as `i`: `n` is the number of an event in a history."""
    return _encode(line).replace(b'"n":', b'"i":', 1)


def decode_line(text: bytes) -> Line:
    """The event or note of a line. Raises HarnessError."""
    try:
        return _decode(text.replace(b'"i":', b'"n":', 1))
    except msgspec.MsgspecError as error:
        message = f"our own recording breaks its format: {error}: {text.decode(errors='replace')}"
        raise HarnessError(
            message, fix="please report it, with the files in the run's folder `raw`"
        ) from error


def decode_lines(data: bytes) -> list[Line]:
    """The lines of a file with this content; what follows the last whole line is dropped."""
    return [decode_line(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


class Recorder:
    """An `EventLog` that appends to one file; thread-safe. Mutable: counts its lines."""

    def __init__(self, path: Path, *, now_us: Callable[[], int] = monotonic_us) -> None:
        self.path = path
        self._now_us = now_us
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._lock = threading.Lock()
        self._lines = 0
        self._thread_id = 0
        self._thread_name = ""

    @property
    def thread(self) -> str:
        """See `EventLog`. The name of the latest thread is cached, since it is nearly always the task's."""
        if self._thread_id != (thread_id := threading.get_ident()):
            self._thread_id, self._thread_name = thread_id, threading.current_thread().name
        return self._thread_name

    def event(self, kind: type[Event | Note], **fields: Any) -> None:
        """Append an event or note with these fields, written when this returns. Raises OSError if the disk is full."""
        with self._lock:
            self._append(kind(n=self._lines, t=self._now_us(), **fields))

    def write(self, line: Line) -> None:
        """As `event`, for a value; its `n` and `t` are replaced."""
        with self._lock:
            self._append(msgspec.structs.replace(line, n=self._lines, t=self._now_us()))

    def claim(self, *, s: int, a: int, c: int) -> None:
        """See `EventLog`: always written, since only the attempt records its commits."""
        self.event(Commit, s=s, a=a, c=c)

    def _append(self, line: Line) -> None:
        self._write(self._lines, encode_line(line))
        self._lines += 1

    def _write(self, number: int, line: bytes) -> None:
        """Write one line. Defective recorders override this to lose lines."""
        del number
        text = line + b"\n"
        if os.write(self._descriptor, text) != len(text):
            raise OSError(
                f"not all of the {len(text)} bytes of an event fit into {self.path}; the disk is full"
            )

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
