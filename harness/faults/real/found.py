"""What is found of a fault that attempts acted out themselves: when it acted, and what shows that it bit.

Answers to an operation of Jepsen's history, read afterwards. Invariant: it is made of recorded lines alone, so it can
be made again from them; a fault that did not act has nothing to be found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Found", "Line", "acts", "attempt_of", "is_speech", "measurements", "reaped_code"]

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One fault as the run recorded it; times are the recorders' microseconds."""

    began_us: int
    measured_us: int | None = None
    """When what shows that it bit was recorded; None: nothing shows it."""
    ended_us: int | None = None
    """None: it had not ended when the run was over."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Empty: nothing shows that it bit."""


def acts(fault: str, lines: Sequence[Line]) -> list[Line]:
    """The notes of what `fault` did inside attempts."""
    return [line for line in lines if line["k"] == "~acted" and line["f"] == fault]


def measurements(fault: str, lines: Sequence[Line]) -> Iterator[Line]:
    """The notes of what attempts measured of `fault`."""
    return (line for line in lines if line["k"] == "~measured" and line["f"] == fault)


def is_speech(line: Line) -> bool:
    """Whether an attempt itself wrote `line`; its `kill` is the harness's word."""
    return "a" in line and line["k"] != "kill"


def attempt_of(pid: int, started: int, lines: Sequence[Line]) -> tuple[int, int] | None:
    """The subtask and the attempt that a process was, the last one of it."""
    own = [
        line for line in lines if line["k"] == "~process" and (line["pid"], line["started"]) == (pid, started)
    ]
    return (own[-1]["s"], own[-1]["a"]) if own else None


def reaped_code(subtask: int, attempt: int, lines: Sequence[Line]) -> int | None:
    """How the process of an attempt ended, as whoever reaped it says; None: nobody says."""
    process = next(
        (line for line in lines if line["k"] == "~process" and (line["s"], line["a"]) == (subtask, attempt)),
        None,
    )
    if process is None:
        return None
    ends = (line for line in lines if line["k"] == "~reaped" and line["pid"] == process["pid"])
    return next((line["code"] for line in ends if line["t"] >= process["t"]), None)
