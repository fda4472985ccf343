"""`kill_worker`: an attempt's process ends by SIGKILL at a named phase, once.

The attempt kills itself at the exact point, after writing down that it will; the harness never guesses a
moment. Evidence: the note before the kill, nothing of the attempt after it, its process gone, and a later
attempt in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.faults.fault import Evidence

__all__ = ["Killing", "find_killing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """One SIGKILL as the run recorded it: from the note before it to the start of the next attempt."""

    began_us: int
    ended_us: int | None
    """When the next attempt started; None: none did."""
    evidence: Evidence
    """Empty unless the process is gone and a later attempt took its place."""


def find_killing(fault: str, lines: Sequence[Mapping[str, Any]]) -> Killing | None:
    """Find the kill of `fault` in a run's lines; None if its phase never came."""
    note = next((line for line in lines if line["k"] == "~dies" and line["fault"] == fault), None)
    if note is None:
        return None
    subtask, attempt = note["s"], note["a"]
    mine = [line for line in lines if line.get("s") == subtask]
    reaped = any(line["k"] == "kill" and line["a"] == attempt for line in mine)
    spoke_after = any(_is_speech(line) and line["a"] == attempt and line["i"] > note["i"] for line in mine)
    successor = next((line for line in mine if line["k"] == "start" and line["a"] > attempt), None)
    if successor is None:
        return Killing(began_us=note["t"], ended_us=None, evidence={})
    evidence = {
        "subtask": subtask,
        "phase": note["phase"],
        "hit": note["hit"],
        "attempt": attempt,
        "next_attempt": successor["a"],
        "restart_ms": round((successor["t"] - note["t"]) / 1000, 1),
    }
    return Killing(
        began_us=note["t"], ended_us=successor["t"], evidence=evidence if reaped and not spoke_after else {}
    )


def _is_speech(line: Mapping[str, Any]) -> bool:
    """Whether the attempt itself wrote `line`; its `kill` is the harness's word."""
    return "a" in line and line["k"] not in {"kill", "commit"}
