"""Crashes that an attempt does to itself: SIGKILL at the named phase, at the planned hit, once.

Invariant: hits are counted over the subtask's whole life and a kill happens once in it, both read from the
files of earlier attempts, for a killed attempt remembers nothing.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from harness.history.journal import Journal
from harness.history.recorder import attempt_file
from harness.plan import Crash

__all__ = ["Crashes"]

_PHASE_OF = {"snap": "snapshot-taken", "commit": "committed", "call": "call"}
"""Which recorded line shows that a phase was reached."""


class Crashes:
    """The kills planned for `subtask`; `reach` does not return when one is due. Mutable: counts hits."""

    def __init__(
        self, planned: Iterable[Crash], *, subtask: int, attempt: int, folder: Path, journal: Journal
    ) -> None:
        self._journal = journal
        mine = [crash for crash in planned if crash.subtask == subtask]
        hits, fired = _earlier_attempts(folder, subtask, attempt) if mine else (Counter[str](), set[str]())
        self._hits = hits
        self._due: Sequence[Crash] = [crash for crash in mine if crash.fault not in fired]

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`."""
        if not self._due:
            return
        self._hits[phase] += 1
        for crash in self._due:
            if crash.phase == phase and crash.hit == self._hits[phase]:
                self._journal.about_to_die(fault=crash.fault, phase=phase, hit=crash.hit)
                os.kill(os.getpid(), signal.SIGKILL)


def _earlier_attempts(folder: Path, subtask: int, attempt: int) -> tuple[Counter[str], set[str]]:
    """How often earlier attempts reached each phase, and which kills have happened."""
    decode = msgspec.json.Decoder().decode
    hits: Counter[str] = Counter()
    fired: set[str] = set()
    for earlier in range(1, attempt):
        path = attempt_file(folder, subtask=subtask, attempt=earlier)
        if not path.exists():
            continue  # it died before it could write
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        for line in map(decode, whole.split(b"\n") if whole else []):
            if line["k"] == "~dies":
                fired.add(line["fault"])
                hits[line["phase"]] += line["phase"] == "committed"  # it died before it could write `commit`
            elif line["k"] in _PHASE_OF:
                hits[_PHASE_OF[line["k"]]] += 1
    return hits, fired
