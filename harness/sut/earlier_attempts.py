"""The past of a subtask: phase hits and fault acts of its earlier attempts, from their files or from marks.

Invariant: it counts only recorded lines; of a killed attempt all lines up to the last complete one. Attempts that share
no folder leave marks in the run's database: the lines that count here, each before its effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.faults.parts.triggers import PHASE_SHOWN
from harness.history.recorder import attempt_file


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


def past_of(lines: Iterable[Mapping[str, Any]]) -> EarlierAttempts:
    """The counts over these lines, of one subtask and in their order."""
    hits: Counter[str] = Counter()
    acted: Counter[str] = Counter()
    first_us: int | None = None
    for line in lines:
        if first_us is None and line["k"] == "in":
            first_us = line["t"]
        match line["k"]:
            case "~reached":
                hits[line["phase"]] += 1
            case "~dies":
                acted[line["fault"]] += 1
            case "~acted" | "~stops":
                acted[line["f"]] += 1
            case kind if kind in PHASE_SHOWN:
                hits[PHASE_SHOWN[kind]] += 1
    return EarlierAttempts(hits=hits, acted=acted, first_record_us=first_us)


def kinds_that_count(phases: Iterable[str]) -> frozenset[str]:
    """The kinds of lines of which a past is made, if only the hits of these phases matter."""
    shown = {kind for kind, phase in PHASE_SHOWN.items() if phase in set(phases)}
    return frozenset({"in", "~reached", "~dies", "~acted", "~stops", *shown})


def _lines(folder: Path, *, subtask: int, attempt: int) -> Iterator[Mapping[str, Any]]:
    decode = msgspec.json.Decoder().decode
    for earlier in range(1, attempt):
        path = attempt_file(folder, subtask=subtask, attempt=earlier)
        if not path.exists():
            continue  # it died before its first line
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        yield from map(decode, whole.split(b"\n") if whole else [])
