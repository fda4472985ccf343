"""Damage to files of the checkpoint store: which they were, and the restores that met them.

Invariant: a later restore met that very file, said what is wrong with it, and passed it over; one that nobody read
again shows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line, acts
from harness.scenario import Fault

__all__ = ["find_damage"]


def find_damage(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find the files that it damaged and the restores that met them."""
    damaged = acts(fault.id, lines)
    if not damaged:
        return None
    what = {(line["file"], line["what"]) for line in damaged}
    met = [line for line in lines if line["k"] == "~store" and (line["file"], line["what"]) in what]
    began_us, last_us = damaged[0]["t"], lines[-1]["t"]
    if not met:
        return Found(began_us=began_us, ended_us=last_us)
    evidence = {
        "subtask": met[0]["s"],
        "what": met[0]["what"],
        "checkpoints": sorted({line["c"] for line in met}),
        "bytes": [line.get("bytes", 0) for line in damaged],
        "of": [line["of"] for line in damaged],
        "restored": met[-1]["to"],
    }
    return Found(began_us=began_us, measured_us=met[0]["t"], ended_us=met[-1]["t"], evidence=evidence)
