"""The two groups of workload faults: those that act on calls, and those that change what a source sends.

Invariants: an act on a call is journalled before it is performed; a changed source sends the same element at a
position in every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from harness.faults.model.fault import Fault, WorkloadFault
from harness.faults.model.fields import Subtask, Times
from harness.faults.real.evidence import RecordedFault, acts, measurements
from harness.history.event import In, Wm
from harness.history.notes import Acted, Line, Measured, NoteLog

if TYPE_CHECKING:
    from harness.faults.simulated.acts import Shaped

PassOn = Callable[[str, Callable[[], None]], None]
"""Called for each use of a call's result handle, with the name of the method and the use itself."""
Turn = Literal["before", "at", "after"]
"""Before the mail of a record's timer is put, while it waits, or when it has run, before any other mail."""
Element = tuple[Any, int | None]
"""The lookup of a record (`harness.scenario.workloads.shape.Lookup`) and its event time in ms."""


class StruckCall(Protocol):
    """One external call that a fault acts on."""

    id: int
    """The id of its record."""
    journal: NoteLog

    def invoke(self, pass_on: PassOn) -> None:
        """Make the call; pass each use of its result handle to `pass_on`."""

    def at_timeout(self, turn: Turn, act: Callable[[], None]) -> None:
        """Perform `act` when the record times out; at level sim only."""

    def fail(self, why: str) -> None:
        """Complete the call with an error without making it."""

    def die(self, why: str) -> None:
        """End the attempt's process."""


class CallFault(WorkloadFault):
    """A fault of calls, beginning at one record and acting on `records` records in a row."""

    shows: ClassVar[str | None] = None
    """The name of the measurement that is its evidence; None: the act itself is."""

    subtask: Subtask
    times: Times = 1

    @property
    def does(self) -> str:
        """The word for the act in the journal."""
        raise NotImplementedError

    @property
    def records(self) -> int:
        """On how many records in a row it acts."""
        return self.times

    def act_on_call(self, call: StruckCall) -> None:
        """Act on one call."""
        raise NotImplementedError

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        measured = {_call(one): one for one in measurements(self.id, lines)}
        return find_calls(self, lines, lambda act, _lines: measured.get(_call(act)))


def _call(note: Acted | Measured) -> tuple[int, int, int]:
    return note.s, note.a, note.facts["id"]


class ShapedSource(Protocol):
    """What a shaping fault needs to know about a source."""

    def position_of(self, record: int) -> int:
        """The position of the `record`-th record, counted from 1."""

    def __len__(self) -> int: ...


class ShapingFault(WorkloadFault):
    """A fault that changes what a source sends; each kind overrides one of `reshaped`, `burst` and `silence`."""

    def reshaped(self, records: list[Element], *, seed: int, subtask: int) -> list[Element]:
        """The records as the fault changes them."""
        del seed, subtask
        return records

    def burst(self, records: int) -> tuple[int, int] | None:
        """The index of a record (from 0) and how many watermarks the source sends before it."""
        del records
        return None

    def silence(self) -> tuple[int, int] | None:
        """The index of a record (from 0) and for how long (ms) the source is silent before it."""
        return None

    def place(self, source: ShapedSource, *, records: int) -> range:
        """The source positions that the fault changes."""
        raise NotImplementedError

    def watched(self) -> Shaped:
        """The counter of its evidence in a simulated run."""
        raise NotImplementedError

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """Looks at the first attempt that took its record."""
        for taken in inputs(self, lines):
            place = first_taken(self, taken)
            found = None if place is None else self.found_at(taken, place)
            if found is not None:
                return found
        return None

    def found_at(self, taken: Sequence[In | Wm], place: int) -> RecordedFault | None:
        """What an attempt's elements show of it, whose record is the one at `place`; None: too little was taken."""
        raise NotImplementedError


Shows = Callable[[Acted, Sequence[Line]], Line | None]
"""Finds the line that shows the effect of an act; None: it had none."""
_IDS_MAX = 5
"""So many records are named."""


def find_calls(fault: Fault, lines: Sequence[Line], shows: Shows) -> RecordedFault | None:
    """The span from the fault's first act to the last effect of one."""
    done = acts(fault.id, lines)
    if not done:
        return None
    shown = [(act, line) for act in done if (line := shows(act, lines)) is not None]
    if not shown:
        return RecordedFault(began_us=done[0].t, ended_us=done[-1].t)
    ids = list(dict.fromkeys(act.facts["id"] for act, _ in shown))
    evidence = {
        "subtask": done[0].s,
        "what": shown[0][0].what,
        "calls": len(shown),
        "records": ids[:_IDS_MAX],
    }
    ended_us = max(line.t for _, line in shown)
    return RecordedFault(began_us=done[0].t, measured_us=shown[0][1].t, ended_us=ended_us, evidence=evidence)


def inputs(fault: WorkloadFault, lines: Sequence[Line]) -> Iterator[list[In | Wm]]:
    """What each attempt that the fault concerns took from its source, in its order; then of all attempts together.

    Of what was taken again after a restart, the last time counts there. An attempt in a batch takes a few records only.
    """
    by_attempt: dict[tuple[int, int], list[In | Wm]] = {}
    for line in lines:
        if isinstance(line, In | Wm) and fault.of_subtask in {None, line.s}:
            by_attempt.setdefault((line.s, line.a), []).append(line)
    yield from by_attempt.values()
    together: dict[int, list[In | Wm]] = {}
    for (subtask, _), taken in sorted(by_attempt.items()):
        before = together.get(subtask, [])
        together[subtask] = [line for line in before if line.pos < taken[0].pos] + taken
    yield from together.values()


def first_taken(fault: WorkloadFault, taken: Sequence[In | Wm]) -> int | None:
    """The place in `taken` of the record at which the fault begins; None: it is not among them.

    Only what begins at the source's first position can tell: records are counted.
    """
    if not taken or taken[0].pos != 0:
        return None
    places = [place for place, line in enumerate(taken) if isinstance(line, In)]
    wanted = fault.first_record - 1
    return places[wanted] if wanted < len(places) else None
