"""Stopping a process by SIGSTOP for the length of a block.

Answers to Jepsen's `Pause`. Invariants: the process is identified by pid and start time; it is resumed when the block
ends, also by an exception; and if the harness itself dies, a guard process (one shell) resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from harness.system.child import Child
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, is_alive

_STATE_LIMIT_S = 5.0
"""How long a process may take to stop; it may hang in the kernel, for example on a disk."""
_AWAIT_S = 5.0
_GUARD = 'read -r line; kill -CONT "$1"'

Facts = Callable[..., None]
"""`found(**facts)` records facts that the fault itself observed."""


def awaited(process: Callable[[], ProcessIdentity | None]) -> ProcessIdentity | None:
    """Waits for the process, because there is none between two attempts; None: none appeared."""
    wait_until(lambda: process() is not None, deadline=Deadline(_AWAIT_S))
    return process()


@contextmanager
def suspended(who: ProcessIdentity, found: Facts) -> Iterator[None]:
    """Stops the process while the block lasts; records to `found` that it stopped and that it was resumed."""
    # A shell that resumes the process when our end of a pipe closes, which also happens if we die.
    with Child(["/bin/sh", "-c", _GUARD, "sh", str(who.pid)], talks=True):
        try:
            _stop(who)
            found(what="stopped", pid=who.pid, started=who.started, state="T", at_us=monotonic_us())
            yield
        finally:
            at_us = monotonic_us()
            if resume(who):
                found(what="resumed", pid=who.pid, started=who.started, at_us=at_us)


def _stop(who: ProcessIdentity) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(who.pid)  # compares the start time again before it sends the signal
        if is_alive(who):
            process.suspend()
    if not wait_until(lambda: _state(who) in {"T", None}, deadline=Deadline(_STATE_LIMIT_S)):
        message = f"process {who.pid} did not stop within {_STATE_LIMIT_S:g} s"
        raise WorldError(message, fix="look at its state in /proc: a process in state D hangs in the kernel")
    if _state(who) is None:
        raise WorldError(f"process {who.pid} ended before it could be stopped", fix="run it again")


def _state(who: ProcessIdentity) -> str | None:
    """`T`: stopped; another text: not stopped; None: gone."""
    if not is_alive(who):
        return None
    try:
        return "T" if psutil.Process(who.pid).status() == psutil.STATUS_STOPPED else "another"
    except psutil.NoSuchProcess:
        return None


def resume(who: ProcessIdentity) -> bool:
    """Resumes exactly this process; returns whether it existed."""
    try:
        process = psutil.Process(who.pid)
        if not is_alive(who):
            return False
        process.resume()
    except psutil.NoSuchProcess:
        return False
    wait_until(lambda: _state(who) != "T", deadline=Deadline(_STATE_LIMIT_S))
    return True
