"""The crash: an attempt ends itself, by a signal, by an exit without clean-up, or by an exception.

Answers to Jepsen's `kill`, at a point that no signal from outside could hit. Invariant: the process is not given
another step after `die`, but for an exception, which fails the attempt as any other does.
"""

from __future__ import annotations

import os
import resource
import signal
from typing import NoReturn

__all__ = ["EXIT_CODE", "InjectedFailure", "die"]

EXIT_CODE = 137
"""Of `exit`: what a container's runtime reports of a process that was killed."""


class InjectedFailure(Exception):
    """A fault of the scenario asked the attempt to fail here."""


def die(how: str, *, why: str) -> NoReturn:
    """End the process, or raise `InjectedFailure`; `how` is `sigkill`, `sigsegv`, `exit` or `exception`."""
    match how:
        case "exception":
            raise InjectedFailure(why)
        case "exit":
            os._exit(EXIT_CODE)
        case "sigsegv":
            _, hard = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # a core of each crash would fill a disk
            os.kill(os.getpid(), signal.SIGSEGV)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)
    while True:  # another thread may take the signal, and this one must not go on meanwhile
        signal.pause()
