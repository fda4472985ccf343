"""The two groups of workload faults: those that act on calls, and those that are in what a source sends.

Invariant: what is done to a call is written down before it is done; a source that is shaped sends the same element at
a position in every attempt. Evidence: the note before an act alone shows nothing, what came of it must have been
recorded too; what a source sent is read from `in` and `wm` events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from harness.faults.model.fault import Fault, WorkloadFault
from harness.faults.model.fields import Subtask, Times
from harness.faults.real.attempt_site import ActJournal
from harness.faults.real.evidence import Found, Line, acts, measurements

if TYPE_CHECKING:
    from harness.faults.simulated.on_attempt import Shaped

__all__ = [
    "CallFault",
    "Element",
    "PassOn",
    "ShapingFault",
    "Shows",
    "Source",
    "StruckCall",
    "find_calls",
    "first_taken",
    "inputs",
]

PassOn = Callable[[str, Callable[[], None]], None]
"""What becomes of the use of a handle: by which of its methods, and the use itself."""
Element = tuple[Any, int | None]
"""What a record asks for (`harness.workloads.shape.Lookup`), and its event time in ms."""


class StruckCall(Protocol):
    """One call that a fault acts on."""

    id: int
    """Of its record."""
    journal: ActJournal

    def invoke(self, pass_on: PassOn) -> None:
        """Make the call; each use of its handle goes through `pass_on`."""

    def fail(self, why: str) -> None:
        """Let it end with an error, without having been made."""

    def die(self, why: str) -> None:
        """End the process."""


class CallFault(WorkloadFault):
    """A fault of calls: of the first of a record, or of several records in a row."""

    shows: ClassVar[str | None] = None
    """What an attempt measures of it; None: the act itself shows it."""

    subtask: Subtask
    times: Times = 1

    @property
    def does(self) -> str:
        """What an attempt writes down that it does to a call."""
        raise NotImplementedError

    @property
    def records(self) -> int:
        """How many records in a row it picks."""
        return self.times

    def strike(self, call: StruckCall) -> None:
        """Act on one call."""
        raise NotImplementedError

    def found(self, lines: Sequence[Line]) -> Found | None:
        """See `FoundFault`."""
        return _measured_calls(self, lines)


class Source(Protocol):
    """What a shaping fault asks of the source that it is in."""

    def position_of(self, record: int) -> int:
        """Of the `record`-th record, counted from 1."""

    def __len__(self) -> int: ...


class ShapingFault(WorkloadFault):
    """A fault that is in what a source sends; each kind has one of the three ways."""

    def reshaped(self, records: list[Element], *, seed: int, subtask: int) -> list[Element]:
        """The records, as the fault has them."""
        del seed, subtask
        return records

    def burst(self, records: int) -> tuple[int, int] | None:
        """Before which record (from 0) how many watermarks come."""
        del records
        return None

    def silence(self) -> tuple[int, int] | None:
        """Before which record (from 0) the source is silent, and for how long (ms)."""
        return None

    def place(self, source: Source, *, records: int) -> range:
        """The positions of the source at which it is."""
        raise NotImplementedError

    def watched(self) -> Shaped:
        """What counts it in a simulated run."""
        raise NotImplementedError


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


def _measured_calls(fault: Fault, lines: Sequence[Line]) -> Found | None:
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
