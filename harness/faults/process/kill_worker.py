"""`kill_worker`: an attempt ends at a named phase, once: by SIGKILL, SIGSEGV, an exit without clean-up, an exception.

The attempt ends itself at the exact point, after writing down that it will; the harness never guesses a
moment. Evidence: the note before the end, nothing of the attempt after it (of an exception: nothing but that it
failed), its process gone as it was meant to go, and a later attempt in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line, is_speech, reaped_code
from harness.faults.kind import FaultKind
from harness.scenario import Fault

__all__ = ["KIND", "find_killing"]

_CODES = {"sigkill": -9, "sigsegv": -11, "exit": 137, "exception": 1}
"""How whoever reaps the process finds that it ended, where anybody can tell."""


def find_killing(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find the kill of `fault` in a run's lines, up to the start of the next attempt; None if its phase never came."""
    note = next((line for line in lines if line["k"] == "~dies" and line["fault"] == fault.id), None)
    if note is None:
        return None
    subtask, attempt = note["s"], note["a"]
    mine = [line for line in lines if line.get("s") == subtask]
    successor = next((line for line in mine if line["k"] == "start" and line["a"] > attempt), None)
    if successor is None:
        return Found(began_us=note["t"])
    over = _over(note, mine)
    code = reaped_code(subtask, attempt, lines)
    if over is None or code not in {None, _CODES[note["how"]]}:
        return Found(began_us=note["t"], ended_us=successor["t"])
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
    return Found(began_us=note["t"], measured_us=over["t"], ended_us=successor["t"], evidence=evidence)


def _over(note: Line, mine: Sequence[Line]) -> Line | None:
    """By which line the attempt was over; None if none says so, or if it spoke on."""
    own = [line for line in mine if line.get("a") == note["a"]]
    spoken = [line for line in own if is_speech(line) and line["i"] > note["i"]]
    if note["how"] == "exception":
        events = [line for line in spoken if not line["k"].startswith("~")]
        return events[0] if [event["k"] for event in events] == ["failed"] else None
    return next((line for line in own if line["k"] == "kill"), None) if not spoken else None


KIND = FaultKind(
    name="kill_worker",
    about="The worker of one subtask dies at the named phase, once: by SIGKILL, SIGSEGV, an exit or an exception.",
    evidence="The attempt is silent after the note, its process ended as asked, and a next attempt started.",
    found=find_killing,
)
