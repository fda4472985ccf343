"""The past of a subtask: phase hits and fault acts of its earlier attempts, read from their files.

Invariant: it counts only recorded lines; of a killed attempt all lines up to the last complete one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.history.recorder import attempt_file
from harness.scenario_parts.triggers import PHASE_FORMS

__all__ = ["Past", "read_past"]

_PHASE_OF = {kind: name for name, form in PHASE_FORMS.items() for kind in form.shown_by}
"""The phase that each kind of recorded line shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Counts over the earlier attempts of one subtask."""

    hits: Mapping[str, int] = field(default_factory=dict)
    """How often each phase was reached."""
    acted: Counter[str] = field(default_factory=Counter)
    """How often each fault has acted."""
    first_record_us: int | None = None
    """When its first record was taken."""


def read_past(folder: Path, *, subtask: int, attempt: int) -> Past:
    """Reads what the attempts before `attempt` recorded."""
    decode = msgspec.json.Decoder().decode
    hits: Counter[str] = Counter()
    acted: Counter[str] = Counter()
    first_us: int | None = None
    for earlier in range(1, attempt):
        path = attempt_file(folder, subtask=subtask, attempt=earlier)
        if not path.exists():
            continue  # it died before its first line
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        for line in map(decode, whole.split(b"\n") if whole else []):
            if first_us is None and line["k"] == "in":
                first_us = line["t"]
            _count(line, hits, acted)
    return Past(hits=hits, acted=acted, first_record_us=first_us)


def _count(line: Mapping[str, Any], hits: Counter[str], acted: Counter[str]) -> None:
    match line["k"]:
        case "~reached":
            hits[line["phase"]] += 1
        case "~dies":
            acted[line["fault"]] += 1
        case "~acted" | "~stops":
            acted[line["f"]] += 1
        case kind if kind in _PHASE_OF:
            hits[_PHASE_OF[kind]] += 1
