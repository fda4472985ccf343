"""A suspension: a process is stopped, as the system itself says, and goes on when the block ends, however it ends.

Answers to Jepsen's `Pause`. Invariants: only the very process that was meant is signalled, by pid and start time; and
if the harness itself dies meanwhile, a guard of one shell lets the process go on, which then sees that it is alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from harness.clock import Deadline, monotonic_us, wait_until
from harness.errors import WorldError
from harness.process_identity import ProcessIdentity, is_alive

__all__ = ["Facts", "awaited", "resume", "suspended"]

_STATE_LIMIT_S = 5.0
"""The longest that a process may take to stop: it is asleep in the kernel, on a disk that hangs."""
_AWAIT_S = 5.0
_GUARD = 'read -r line; kill -CONT "$1"'

Facts = Callable[..., None]
"""`found(**facts)`: what the fault itself saw."""


def awaited(process: Callable[[], ProcessIdentity | None]) -> ProcessIdentity | None:
    """The process, for which it may take a moment: there is none between two attempts. None: there came none."""
    wait_until(lambda: process() is not None, deadline=Deadline(_AWAIT_S))
    return process()


@contextmanager
def suspended(who: ProcessIdentity, found: Facts) -> Iterator[None]:
    """Stopped while the block lasts; that it did stop, and that it goes on, is told to `found`."""
    with _guarded(who):
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
        process = psutil.Process(who.pid)  # remembers the start time, and compares it again before the signal
        if is_alive(who):
            process.suspend()
    if not wait_until(lambda: _state(who) in {"T", None}, deadline=Deadline(_STATE_LIMIT_S)):
        message = f"process {who.pid} did not stop within {_STATE_LIMIT_S:g} s"
        raise WorldError(message, fix="look at its state in /proc: a process in state D hangs in the kernel")
    if _state(who) is None:
        raise WorldError(f"process {who.pid} ended before it could be stopped", fix="run it again")


def _state(who: ProcessIdentity) -> str | None:
    """`T` where it is stopped, anything else where it is not, None where it is gone."""
    if not is_alive(who):
        return None
    try:
        return "T" if psutil.Process(who.pid).status() == psutil.STATUS_STOPPED else "another"
    except psutil.NoSuchProcess:
        return None


def resume(who: ProcessIdentity) -> bool:
    """Let exactly this process go on; whether it was there and does."""
    try:
        process = psutil.Process(who.pid)
        if not is_alive(who):
            return False
        process.resume()
    except psutil.NoSuchProcess:
        return False
    wait_until(lambda: _state(who) != "T", deadline=Deadline(_STATE_LIMIT_S))
    return True


@contextmanager
def _guarded(who: ProcessIdentity) -> Iterator[None]:
    """With somebody who lets it go on when our end of a pipe closes, which the system sees to if we die."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", str(who.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.kill()
        guard.communicate()
