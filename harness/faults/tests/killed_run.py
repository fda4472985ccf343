"""The lines of a small run in which fault `kill` takes a worker at a phase."""

from __future__ import annotations

from harness.history.event import Close, Kill, Start
from harness.history.notes import Dies, Line
from harness.history.tests.lines import line


def killed_run(*, how: str = "sigkill") -> list[Line]:
    """Attempt 1 of subtask 1 dies at its third snapshot, is reaped, and attempt 2 goes on."""
    return [
        line(Start, 100, n=0, s=0),
        line(Start, 110, n=0),
        line(Dies, 5000, n=1, fault="kill", how=how, phase="snap.end", hit=3),
        line(Kill, 7000, n=0),
        line(Start, 9000, n=0, a=2),
        line(Close, 9900, n=1, a=2),
    ]
