"""`hot_key`: from one record on, a share of the records ask for one key, and wait longer for it.

Evidence: among the records taken from there on, the key's share is at least nearly as high as asked, and higher than
before.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults.found import Found, Line
from harness.faults.kind import FaultKind
from harness.faults.workload.taken import first_record, inputs
from harness.scenario import Fault

__all__ = ["KIND", "find_hot_key"]

_HOT = 0
_SHARE = 0.7
"""How much of the share must be found: it is drawn record by record."""
_RECORDS_MIN = 5
"""Fewer records show no share."""


def find_hot_key(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """Find it in the first attempt that took its first record."""
    for taken in inputs(fault, lines):
        place = first_record(fault, taken)
        if place is not None:
            return _found(fault, [line for line in taken[:place] if line["k"] == "in"], taken[place:])
    return None


def _found(fault: Fault, before: Sequence[Line], since: Sequence[Line]) -> Found:
    records = [line for line in since if line["k"] == "in"][: fault.count]
    began_us, ended_us = records[0]["t"], records[-1]["t"]
    share, usual = _share(records), _share(before)
    asked = (fault.share or 0) / 100
    if len(records) < _RECORDS_MIN or share < asked * _SHARE or share <= usual:
        return Found(began_us=began_us, ended_us=ended_us)
    evidence = {
        "subtask": records[0]["s"],
        "records": len(records),
        "hot": sum(line["key"] == _HOT for line in records),
        "share_percent": round(share * 100),
        "share_before_percent": round(usual * 100),
    }
    return Found(began_us=began_us, measured_us=ended_us, ended_us=ended_us, evidence=evidence)


def _share(records: Sequence[Line]) -> float:
    return sum(line["key"] == _HOT for line in records) / len(records) if records else 0.0


KIND = FaultKind(
    name="hot_key",
    about="From one record on, a share of the records ask for one key, and the database is slow for it.",
    evidence="Of the records taken from there on, at least nearly that share has the key, and more than before.",
    found=find_hot_key,
)
