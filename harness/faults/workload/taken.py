"""What a source sent, as the attempts took it: for the evidence of faults that are in what it sends.

Invariant: it is read from `in` and `wm` events, so a source that sent nothing unusual shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.faults.found import Line
from harness.scenario import Fault
from harness.scenario_triggers import RecordTaken

__all__ = ["first_record", "inputs"]


def inputs(fault: Fault, lines: Sequence[Line]) -> Iterator[list[Line]]:
    """What each attempt that the fault concerns took from its source, in its order."""
    by_attempt: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        if line["k"] in {"in", "wm"} and fault.subtask in {None, line["s"]}:
            by_attempt.setdefault((line["s"], line["a"]), []).append(line)
    yield from by_attempt.values()


def first_record(fault: Fault, taken: Sequence[Line]) -> int | None:
    """The place in `taken` of the record at which the fault begins; None: it is not among them.

    Only an attempt that began at the source's first position can tell: records are counted.
    """
    assert isinstance(fault.when, RecordTaken), "the workload's faults wait for a record"
    if not taken or taken[0]["pos"] != 0:
        return None
    places = [place for place, line in enumerate(taken) if line["k"] == "in"]
    wanted = fault.when.record - 1
    return places[wanted] if wanted < len(places) else None
