"""The past of a subtask: phase hits and fault acts of its earlier attempts, from their files or from marks.

Invariant: it counts only recorded lines; of a killed attempt all lines up to the last complete one. Attempts that share
no folder leave marks in the run's database: the lines that count here, each before its effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.faults.parts.triggers import PHASE_SHOWN
from harness.history.event import In
from harness.history.notes import Acted, Dies, Line, Reached, Stops
from harness.history.recorder import attempt_file, decode_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAttempts:
    """Counts over the earlier attempts of one subtask."""

    hits: Mapping[str, int] = field(default_factory=dict)
    """How often each phase was reached."""
    acted: Counter[str] = field(default_factory=Counter)
    """How often each fault has acted."""
    first_record_us: int | None = None
    """When its first record was taken."""


def read_past(folder: Path, *, subtask: int, attempt: int) -> EarlierAttempts:
    """Reads what the attempts before `attempt` recorded."""
    return past_of(_lines(folder, subtask=subtask, attempt=attempt))


def past_of(lines: Iterable[Line]) -> EarlierAttempts:
    """The counts over these lines, of one subtask and in their order."""
    hits: Counter[str] = Counter()
    acted: Counter[str] = Counter()
    first_us: int | None = None
    for line in lines:
        if first_us is None and isinstance(line, In):
            first_us = line.t
        match line:
            case Reached(phase=phase):
                hits[phase] += 1
            case Dies(fault=fault) | Acted(fault=fault) | Stops(fault=fault):
                acted[fault] += 1
            case _ if (shown := PHASE_SHOWN.get(str(line.__struct_config__.tag))) is not None:
                hits[shown] += 1
    return EarlierAttempts(hits=hits, acted=acted, first_record_us=first_us)


def kinds_that_count(phases: Iterable[str]) -> frozenset[str]:
    """The kinds of lines of which a past is made, if only the hits of these phases matter."""
    shown = {kind for kind, phase in PHASE_SHOWN.items() if phase in set(phases)}
    notes = {str(kind.__struct_config__.tag) for kind in (Reached, Dies, Acted, Stops)}
    return frozenset({"in", *notes, *shown})


def _lines(folder: Path, *, subtask: int, attempt: int) -> Iterator[Line]:
    for earlier in range(1, attempt):
        path = attempt_file(folder, subtask=subtask, attempt=earlier)
        if path.exists():  # else it died before its first line
            yield from decode_lines(path.read_bytes())
