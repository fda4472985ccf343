"""Resolves `FILE...` of `floodmark check`: files, patterns and streams, each as a file that can be read twice.

A stream (standard input, a pipe) is copied to a temporary file while the block lasts, because checking may read a
history twice. Invariant: all unreadable files are reported together before the first one is checked.
"""

from __future__ import annotations

import glob
import os
import select
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO

from harness.history.text import parts_of
from harness.system.errors import UsageError, WorldError
from harness.system.whole_file import temporary_folder

STDIN = "-"
_STDIN_NAME = "<stdin>"
_CHUNK = 1 << 20
_PLAIN = ".jsonl"
_FORMS = (
    (b"\x1f\x8b", ".jsonl.gz"),
    (b"\x28\xb5\x2f\xfd", ".jsonl.zst"),
    (b"ARROW1", ".arrow"),
    (b"PAR1", ".parquet"),
)
"""The first bytes of each format, because a stream has no file name."""
_FORMS_TOLD = (
    "name history files: .jsonl, .jsonl.gz, .jsonl.zst, .arrow or .parquet, or a folder of .parquet files; "
    "`-` is standard input"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFile:
    """One history to check: a regular file, and its name in the output."""

    name: str
    path: Path


@contextmanager
def opened(words: Sequence[str]) -> Iterator[Sequence[HistoryFile]]:
    """The files that `words` name, in order; raises UsageError if one of them cannot be read."""
    names, problems = _expanded(words)
    problems += [problem for name in names if (problem := _problem(name))]
    if names.count(STDIN) > 1:
        problems.append("`-` is given twice, but standard input can be read only once")
    if problems:
        raise UsageError("; ".join(problems), fix=_FORMS_TOLD)
    with ExitStack() as kept:
        yield [_file(name, kept) for name in names]


def _expanded(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """File names, and patterns without a match; an existing file of a pattern's own name takes precedence."""
    names: list[str] = []
    problems: list[str] = []
    for word in words:
        if not glob.has_magic(word) or os.path.lexists(word):
            names.append(word)
            continue
        found = glob.glob(word, recursive=True)  # noqa: PTH207 - a Path takes no absolute pattern
        if files := sorted(name for name in found if not Path(name).is_dir()):
            names += files
        else:
            problems.append(f"no file matches {_printable(word)}")
    return names, problems


def _problem(name: str) -> str:
    """Why a file cannot be read; the empty string if it can."""
    if name == STDIN:
        return ""
    path, shown = Path(name), _printable(name)
    try:
        if not name:
            return "a file's name is empty"
        if path.is_dir():
            return "" if parts_of(path) else f"{shown} is a directory without Parquet files, not a history"
        if path.exists() and not path.is_file():
            return "" if os.access(path, os.R_OK) else f"{shown} cannot be read: no permission"
        with path.open("rb"):
            return ""
    except FileNotFoundError:
        return f"there is no file {shown}"
    except OSError as error:
        return f"{shown} cannot be read: {error.strerror or error}"


def _printable(name: str) -> str:
    """A file name with unprintable characters escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def _file(name: str, kept: ExitStack) -> HistoryFile:
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed", fix=_FORMS_TOLD)
        return HistoryFile(name=_STDIN_NAME, path=_spooled(sys.stdin.buffer, "standard input", kept))
    path, shown = Path(name), _printable(name)
    if path.is_file() or path.is_dir():
        return HistoryFile(name=shown, path=path)
    with path.open("rb") as pipe:
        return HistoryFile(name=shown, path=_spooled(pipe, shown, kept))


def _spooled(source: BinaryIO, name: str, kept: ExitStack) -> Path:
    """Copies `source` to a temporary file, which is deleted when `kept` is closed."""
    woken = kept.enter_context(_woken_by_signals())
    chunk = _read(source, name, woken)
    form = next((suffix for magic, suffix in _FORMS if chunk.startswith(magic)), _PLAIN)
    try:
        folder = kept.enter_context(temporary_folder("floodmark-check-"))
        with (folder / f"spooled{form}").open("wb") as copy:
            while chunk:
                copy.write(chunk)
                chunk = _read(source, name, woken)
    except OSError as error:
        message = f"{name} cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}"
        raise WorldError(message, fix="free disk space there, set TMPDIR, or name a file") from error
    return folder / f"spooled{form}"


def _read(source: BinaryIO, name: str, woken: int) -> bytes:
    """Reads one chunk; fewer bytes only at the end."""
    chunk = bytearray()
    try:
        while len(chunk) < _CHUNK and (part := _part(source, _CHUNK - len(chunk), woken)):
            chunk += part
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}", fix=_FORMS_TOLD) from error
    return bytes(chunk)


def _part(source: BinaryIO, size: int, woken: int) -> bytes:
    """Waits until data is available and reads it.

    A plain read that begins after a Ctrl-C arrived, but before Python has raised it, would block with the interrupt
    pending; this wait ends, because the signal makes `woken` readable.
    """
    try:
        number = source.fileno()
    except UnsupportedOperation:  # a stream in memory, from a program that calls `main`
        return source.read(size)
    while woken in select.select([number, woken], [], [])[0]:
        os.read(woken, _CHUNK)  # the signal handler runs before this returns; for Ctrl-C it raises
    return os.read(number, size)


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """A file descriptor that becomes readable on every signal."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    before = signal.set_wakeup_fd(waker)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(before)
        os.close(waker)
        os.close(woken)
