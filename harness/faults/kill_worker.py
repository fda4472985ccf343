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
from harness.faults.real.evidence import Line, RecordedFault, is_speech, reaped_code
from harness.history.causes import Caused

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
        """From the attempt's note to the start of the next attempt; None if its phase was never reached."""
        note = next((line for line in lines if line["k"] == "~dies" and line["fault"] == self.id), None)
        if note is None:
            return None
        subtask, attempt = note["s"], note["a"]
        mine = [line for line in lines if line.get("s") == subtask]
        successor = next((line for line in mine if line["k"] == "start" and line["a"] > attempt), None)
        if successor is None:
            return RecordedFault(began_us=note["t"])
        over = _over(note, mine)
        code = reaped_code(subtask, attempt, lines)
        if over is None or code not in {None, _CODES[note["how"]]}:
            return RecordedFault(began_us=note["t"], ended_us=successor["t"])
        evidence = {
            "subtask": subtask,
            "phase": note["phase"],
            "hit": note["hit"],
            "how": note["how"],
            **({} if code is None else {"code": code}),
            "attempt": attempt,
            "next_attempt": successor["a"],
            "restart_ms": round((successor["t"] - note["t"]) / 1000, 1),
        }
        return RecordedFault(
            began_us=note["t"], measured_us=over["t"], ended_us=successor["t"], evidence=evidence
        )


def _over(note: Line, mine: Sequence[Line]) -> Line | None:
    """The line that shows the attempt's end; None: there is none, or the attempt wrote more lines."""
    own = [line for line in mine if line.get("a") == note["a"]]
    # The note may be in another file than the attempt's own, whose lines have other numbers.
    spoken = [line for line in own if is_speech(line) and line["t"] >= note["t"] and line["i"] > note["i"]]
    if note["how"] == "exception":
        events = [line for line in spoken if not line["k"].startswith("~")]
        return events[0] if [event["k"] for event in events] == ["failed"] else None
    return next((line for line in own if line["k"] == "kill"), None) if not spoken else None


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
