"""Evidence of workload faults: which calls they picked and what came of them, and what sources sent.

The note before the act alone shows nothing; what came of it must have been recorded too. What a source sent
is read from `in` and `wm` events, so a source that sent nothing unusual shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.faults.model.fault import Fault, WorkloadFault
from harness.faults.real.evidence import Found, Line, acts, measurements

__all__ = ["Shows", "find_calls", "first_taken", "inputs", "measured_calls"]

Shows = Callable[[Line, Sequence[Line]], Line | None]
"""The line that shows what came of an act; None: nothing did."""
_IDS_MAX = 5
"""So many records are named."""


def find_calls(fault: Fault, lines: Sequence[Line], shows: Shows) -> Found | None:
    """From its first act to the last thing that came of one."""
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
    """Of a fault whose act is measured where it happens."""
    measured = {(line["s"], line["a"], line["id"]): line for line in measurements(fault.id, lines)}
    return find_calls(fault, lines, lambda act, _lines: measured.get((act["s"], act["a"], act["id"])))


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
