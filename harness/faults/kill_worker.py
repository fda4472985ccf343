"""`kill_worker`: the worker of one subtask ends itself at a named phase, by a signal, an exit or an exception.

Answers to Jepsen's `kill`, at a point that a signal from outside could not hit. Evidence: the attempt's journal line
before it dies, no line after it, the exit code of its process, and the start of the next attempt.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Sequence
from typing import Annotated, Literal, NoReturn

from harness.faults.model.fault import FoundFault
from harness.faults.model.fields import Subtask, Way
from harness.faults.real.evidence import RecordedFault, is_speech, reaped_code, successor_of
from harness.history.event import Caused, Failed, Kill
from harness.history.notes import Dies, Line, Note

EXIT_CODE = 137
"""The exit code of `exit`: what container runtimes report for a killed process."""
_CODES = {"sigkill": -signal.SIGKILL, "sigsegv": -signal.SIGSEGV, "exit": EXIT_CODE, "exception": 1}
"""The exit codes to expect, where the process is reaped by the harness."""


class InjectedFailure(Caused):
    """The failure that `how: exception` raises in the attempt."""


class KillWorker(FoundFault):
    """Kills the worker of one subtask, once."""

    about = "The worker of one subtask dies at a phase, once: by SIGKILL, SIGSEGV, an exit or an exception."
    must_show = "The attempt wrote nothing after its note, its process ended as requested, and a next attempt started."
    by = "process"
    triggers = ("phase",)
    can = ()
    acts_alone = True

    do: Literal["kill_worker"]
    subtask: Subtask
    how: Annotated[Literal["sigkill", "sigsegv", "exit", "exception"], Way] = "sigkill"

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """The span from the attempt's note to the start of the next attempt; None if the phase was not reached."""
        note = next((line for line in lines if isinstance(line, Dies) and line.fault == self.id), None)
        if note is None:
            return None
        subtask, attempt = note.s, note.a
        successor = successor_of(lines, subtask=subtask, attempt=attempt)
        if successor is None:
            return RecordedFault(began_us=note.t)
        over = _over(note, lines)
        code = reaped_code(subtask, attempt, lines)
        if over is None or code not in {None, _CODES[note.how]}:
            return RecordedFault(began_us=note.t, ended_us=successor.t)
        evidence = {
            "subtask": subtask,
            "phase": note.phase,
            "hit": note.hit,
            "how": note.how,
            **({} if code is None else {"code": code}),
            "attempt": attempt,
            "next_attempt": successor.a,
            "restart_ms": round((successor.t - note.t) / 1000, 1),
        }
        return RecordedFault(began_us=note.t, measured_us=over.t, ended_us=successor.t, evidence=evidence)


def _over(note: Dies, lines: Sequence[Line]) -> Line | None:
    """The line that shows the attempt's end; None: there is none, or the attempt wrote more lines."""
    # The note may be in another file than the attempt's own, whose lines have other numbers.
    own = [line for line in lines if is_speech(line) and (line.s, line.a) == (note.s, note.a)]
    spoken = [line for line in own if line.t >= note.t and line.n > note.n]
    if note.how == "exception":
        events = [line for line in spoken if not isinstance(line, Note)]
        return events[0] if [type(event) for event in events] == [Failed] else None
    kills = (line for line in lines if isinstance(line, Kill) and (line.s, line.a) == (note.s, note.a))
    return next(kills, None) if not spoken else None


def die(how: str, *, why: str, by: str) -> NoReturn:
    """Ends this process for fault `by` without executing another step of the task, or raises `InjectedFailure`."""
    match how:
        case "exception":
            raise InjectedFailure(why, by=by)
        case "exit":
            os._exit(EXIT_CODE)
        case "sigsegv":
            _, hard = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # core dumps would fill the disk
            os.kill(os.getpid(), signal.SIGSEGV)
        case _:
            os.kill(os.getpid(), signal.SIGKILL)
    while True:  # the signal may be delivered to another thread first; this one must not go on
        signal.pause()
