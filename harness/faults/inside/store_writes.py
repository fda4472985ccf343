"""Writes of the checkpoint store that a fault held or refused: when it acted, and what the writers met.

Invariant: the evidence is what a writer met, never what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.faults.found import Found, Line, acts
from harness.scenario import Fault

__all__ = ["found_writes"]


def found_writes(
    fault: Fault, lines: Sequence[Line], *, met: Sequence[Line], evidence: Mapping[str, Any]
) -> Found | None:
    """`fault` from its act to the end of its while; `met` are the notes of the writes."""
    begun = acts(fault.id, lines)
    if not begun:
        return None
    over_us = begun[-1]["t"] + (fault.lasts or 0) * 1000
    return Found(
        began_us=begun[0]["t"],
        measured_us=met[0]["t"] if met else None,
        ended_us=over_us if over_us <= lines[-1]["t"] else None,
        evidence=evidence if met else {},
    )
