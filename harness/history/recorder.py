"""The recorder: writes each event of an attempt to its file before the event takes effect.

Each event is one `os.write` to a file opened with O_APPEND: SIGKILL loses nothing, since the page cache outlives
the process (`docs/reference/references.md`, Measured). Besides the events of `docs/reference/history.md` a file holds
*notes*, whose kind begins with `~`; the merge uses them to reconstruct commits and to find evidence. Every line
carries its number `i`, so that a missing line is detected.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, get_args

import msgspec

from harness.history.event import AttemptEvent, OfAttempt
from harness.system.clock import monotonic_us

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


def _line_of(kind: type[AttemptEvent]) -> Any:
    """The struct of a line of that kind: the fields of `docs/reference/history.md`, with `i` in place of `n`."""
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in {"n", "t", "mail"}]
    fields.sort(key=lambda field: field.name == "thread")  # thread comes last
    own = [
        (field.name, Any, msgspec.field(name=field.encode_name, default=msgspec.UNSET)) for field in fields
    ]
    begins: list[Any] = [("i", int), ("t", int), ("k", str, kind.__struct_config__.tag)]
    return msgspec.defstruct(f"{kind.__name__}Line", [*begins, *own], kw_only=True, gc=False)


_LINES: dict[type[AttemptEvent], Any] = {kind: _line_of(kind) for kind in get_args(OfAttempt)}


class Recorder:
    """An `EventLog` that appends to one file; thread-safe. Mutable: counts its lines."""

    def __init__(self, path: Path, *, now_us: Callable[[], int] = monotonic_us) -> None:
        self.path = path
        self._now_us = now_us
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._encode = msgspec.json.Encoder().encode
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

    def event(self, kind: type[AttemptEvent], **fields: Any) -> None:
        """Records an event given as a struct, which is built and encoded faster than a dict."""
        with self._lock:
            self._write(self._lines, self._encode(_LINES[kind](i=self._lines, t=self._now_us(), **fields)))
            self._lines += 1

    def record(self, kind: str, **fields: Any) -> None:
        """Append one event or note, written when this returns. Raises OSError if the disk is full."""
        with self._lock:
            line = {"i": self._lines, "t": self._now_us(), "k": kind, **fields}
            self._write(self._lines, self._encode(line))
            self._lines += 1

    def claim(self, **fields: Any) -> None:
        """See `EventLog`: always written, since only the attempt records its commits."""
        self.record("commit", **fields)

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
