"""Work in a forked child of this process, so that what it leaves in modules reaches no other work.

Answers to `multiprocessing.Process`, which would run the exit handlers of the parent's libraries. Invariant: the child
is killed and reaped when its work's result is there, or is not to come.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn, TypeVar

from harness.system.clock import Deadline
from harness.system.errors import HarnessError, SutError

_T = TypeVar("_T")
_POLL_S: Final = 0.2


def in_child(
    work: Callable[[], _T], *, what: str, limit_s: float | None = None, stop: threading.Event | None = None
) -> _T:
    """The result of `work`, which must be picklable, from a forked child, which is killed when this returns.

    So what a user's code keeps in its modules reaches no other run. Raises what `work` raises, and SutError if the
    child ended without a result, or after `limit_s`; `what` names the work in that error. If `stop` is set, it is set
    in the child too.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        _hear_the_parent_only(stop)
        _work_and_exit(work, writes)
    os.close(writes)
    try:
        told = _read_all(reads, child, limit_s=limit_s, stop=stop)
    finally:
        os.close(reads)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if told is None:
        raise SutError(f"{what} does not end: no answer for {limit_s:g} s", fix=_ALONE)
    if not told:
        code = os.waitstatus_to_exitcode(status)
        raise SutError(f"{what} ended its process, with exit code {code}", fix=_ALONE)
    result = pickle.loads(told)  # noqa: S301 - our own child wrote it
    if isinstance(result, _Raised):
        raise result.error
    found: _T = result
    return found


_ALONE: Final = "call the function alone; it must neither end its process nor block it for ever"


class _Raised:
    """An error of the work."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _hear_the_parent_only(stop: threading.Event | None) -> None:
    """A terminal sends its Ctrl-C to the child too, whose parent handles it, and passes it on as SIGTERM."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop is not None:
            stop.set()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if stop is None else on_signal)


def _work_and_exit(work: Callable[[], object], pipe: int) -> NoReturn:
    """The child's life; it runs no exit handler of the parent."""
    code = 1
    try:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised again by the parent
            result = _Raised(_picklable(error))
        told = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
        sys.stdout.flush()
        sys.stderr.flush()
        with os.fdopen(pipe, "wb") as out:
            out.write(told)
        code = 0
    finally:
        os._exit(code)


def _picklable(error: Exception) -> Exception:
    """The error itself if it survives the way to the parent."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - written here
    except Exception:  # noqa: BLE001 - any error means that it does not survive
        return HarnessError(f"{type(error).__name__}: {error}", fix="please report it, with the command")
    return error


def _read_all(pipe: int, child: int, *, limit_s: float | None, stop: threading.Event | None) -> bytes | None:
    """All that the child writes; None: it wrote nothing for `limit_s`."""
    told: list[bytes] = []
    deadline = None if limit_s is None else Deadline(limit_s)
    is_told = False
    while True:
        if select.select([pipe], [], [], _POLL_S)[0]:
            read = os.read(pipe, 1 << 20)
            if not read:
                return b"".join(told)
            told.append(read)
        elif deadline is not None and deadline.passed:
            return None
        if stop is not None and stop.is_set() and not is_told:
            is_told = True
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
