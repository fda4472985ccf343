"""What a source sent, as the attempts took it: for the evidence of faults that are in what it sends.

Invariant: it is read from `in` and `wm` events, so a source that sent nothing unusual shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.faults.model.fault import WorkloadFault
from harness.faults.real.found import Line

__all__ = ["first_taken", "inputs"]


def inputs(fault: WorkloadFault, lines: Sequence[Line]) -> Iterator[list[Line]]:
    """What each attempt that the fault concerns took from its source, in its order."""
    by_attempt: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        if line["k"] in {"in", "wm"} and fault.of_subtask in {None, line["s"]}:
            by_attempt.setdefault((line["s"], line["a"]), []).append(line)
    yield from by_attempt.values()


def first_taken(fault: WorkloadFault, taken: Sequence[Line]) -> int | None:
    """The place in `taken` of the record at which the fault begins; None: it is not among them.

    Only an attempt that began at the source's first position can tell: records are counted.
    """
    if not taken or taken[0]["pos"] != 0:
        return None
    places = [place for place, line in enumerate(taken) if line["k"] == "in"]
    wanted = fault.first_record - 1
    return places[wanted] if wanted < len(places) else None
