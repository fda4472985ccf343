"""User code in the harness's own process: kept from ending it, and from writing among its results.

At level sim lookups run there, and at every level the module is imported there first. Invariant: after `set_aside`
standard output and `os._exit` are as before.
"""

from __future__ import annotations

import ctypes
import dis
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from types import TracebackType
from typing import NoReturn

_OUT, _ERR = 1, 2
_RAISE = dis.opmap["RAISE_VARARGS"]


class ProcessEnded(SystemExit):
    """Raised where user code calls `os._exit`, which would end the harness."""

    def __repr__(self) -> str:
        return f"os._exit({self.code})"


class _Aside:
    """How many blocks set user code aside now. Mutable; threads share it, as they share the process."""

    lock = threading.Lock()
    blocks = 0
    undone = ExitStack()


@contextmanager
def set_aside() -> Iterator[None]:
    """While the block lasts, what is written to standard output goes to standard error, and `os._exit` raises."""
    with _Aside.lock:
        _Aside.blocks += 1
        if _Aside.blocks == 1:
            _Aside.undone.enter_context(_output_aside())
            _Aside.undone.enter_context(redirect_stdout(sys.stderr))
            _Aside.undone.enter_context(_exit_raises())
    try:
        yield
    finally:
        with _Aside.lock:
            _Aside.blocks -= 1
            if _Aside.blocks == 0:
                _Aside.undone.close()


@contextmanager
def _output_aside() -> Iterator[None]:
    """Lets the descriptor of standard output lead to standard error: C code and child processes write to it."""
    _flush()
    try:
        kept = os.dup(_OUT)
    except OSError:  # closed: there is nothing to keep apart
        yield
        return
    try:
        with suppress(OSError):  # standard error is closed
            os.dup2(_ERR, _OUT)
        yield
    finally:
        _flush()
        os.dup2(kept, _OUT)
        os.close(kept)


def _flush() -> None:
    """Writes what Python and the C library hold back, to where the descriptor leads now."""
    with suppress(ValueError, OSError, AttributeError):  # closed, or no stream
        sys.stdout.flush()
    ctypes.pythonapi.fflush(None)


@contextmanager
def _exit_raises() -> Iterator[None]:
    exits, process = os._exit, os.getpid()

    def ended(status: int) -> NoReturn:
        if os.getpid() != process:  # a child that user code has forked
            exits(status)
        raise ProcessEnded(status)

    os._exit = ended
    try:
        yield
    finally:
        os._exit = exits


def is_interruption(error: BaseException) -> bool:
    """Whether `error` is Ctrl-C, which ends the harness, and not a KeyboardInterrupt that user code raised."""
    return isinstance(error, KeyboardInterrupt) and not is_raised_by_code(error)


def is_raised_by_code(error: BaseException) -> bool:
    """Whether a `raise` raised `error`, and not a signal (Ctrl-C) that was handled between two instructions."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE
