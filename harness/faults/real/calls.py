"""Evidence of workload faults: the calls that they acted on with their outcomes, and the elements that sources sent.

Invariant: the line before an act is no evidence; its effect must have been recorded too. What a source sent is read
from the `in` and `wm` events of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.faults.model.fault import Fault, WorkloadFault
from harness.faults.real.evidence import Found, Line, acts, measurements

__all__ = ["find_calls", "first_taken", "inputs", "measured_calls"]

Shows = Callable[[Line, Sequence[Line]], Line | None]
"""Finds the line that shows the effect of an act; None: there is none."""
_IDS_MAX = 5
"""How many record ids the evidence lists at most."""


def find_calls(fault: Fault, lines: Sequence[Line], shows: Shows) -> Found | None:
    """From its first act to the last recorded effect."""
    done = acts(fault.id, lines)
    if not done:
        return None
    shown = [(act, line) for act in done if (line := shows(act, lines)) is not None]
    if not shown:
        return Found(began_us=done[0]["t"], ended_us=done[-1]["t"])
    ids = list(dict.fromkeys(act["id"] for act, _ in shown))
    evidence = {
        "subtask": done[0]["s"],
        "what": shown[0][0]["what"],
        "calls": len(shown),
        "records": ids[:_IDS_MAX],
    }
    ended_us = max(line["t"] for _, line in shown)
    return Found(began_us=done[0]["t"], measured_us=shown[0][1]["t"], ended_us=ended_us, evidence=evidence)


def measured_calls(fault: Fault, lines: Sequence[Line]) -> Found | None:
    """As `find_calls`, for a fault whose effect the attempt records as a measurement."""
    measured = {(line["s"], line["a"], line["id"]): line for line in measurements(fault.id, lines)}
    return find_calls(fault, lines, lambda act, _lines: measured.get((act["s"], act["a"], act["id"])))


def inputs(fault: WorkloadFault, lines: Sequence[Line]) -> Iterator[list[Line]]:
    """For each attempt of the fault's subtask (or of all), the elements that it took from its source, in order."""
    by_attempt: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        if line["k"] in {"in", "wm"} and fault.of_subtask in {None, line["s"]}:
            by_attempt.setdefault((line["s"], line["a"]), []).append(line)
    yield from by_attempt.values()


def first_taken(fault: WorkloadFault, taken: Sequence[Line]) -> int | None:
    """The index in `taken` of the record at which the fault begins; None: it is not there.

    Records are counted, so only an attempt that began at the source's first position can be used.
    """
    if not taken or taken[0]["pos"] != 0:
        return None
    places = [place for place, line in enumerate(taken) if line["k"] == "in"]
    wanted = fault.first_record - 1
    return places[wanted] if wanted < len(places) else None
