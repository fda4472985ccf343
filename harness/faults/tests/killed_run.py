"""The lines of a small run in which fault `kill` takes a worker at a phase."""

from __future__ import annotations

from typing import Any

Line = dict[str, Any]


def killed_run() -> list[Line]:
    """Attempt 1 of subtask 1 dies at its third snapshot, is reaped, and attempt 2 goes on."""
    lines: list[Line] = [
        {"i": 0, "t": 100, "k": "start", "s": 0, "a": 1},
        {"i": 0, "t": 110, "k": "start", "s": 1, "a": 1},
        {
            "i": 1,
            "t": 5000,
            "k": "~dies",
            "s": 1,
            "a": 1,
            "fault": "kill",
            "how": "sigkill",
            "phase": "snap.end",
            "hit": 3,
        },
        {"i": 0, "t": 7000, "k": "kill", "s": 1, "a": 1},
        {"i": 0, "t": 9000, "k": "start", "s": 1, "a": 2},
        {"i": 1, "t": 9900, "k": "close", "s": 1, "a": 2},
    ]
    return lines
