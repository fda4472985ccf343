"""The two groups of workload faults: those that act on calls, and those that change what a source sends.

Invariants: an act on a call is journalled before it is performed; a changed source sends the same element at a
position in every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from harness.faults.model.fault import WorkloadFault
from harness.faults.model.fields import Subtask, Times
from harness.faults.real.attempt_site import ActJournal
from harness.faults.real.calls import measured_calls
from harness.faults.real.evidence import Found, Line

if TYPE_CHECKING:
    from harness.faults.simulated.on_attempt import Shaped

__all__ = ["CallFault", "Element", "PassOn", "ShapingFault", "Source", "StruckCall"]

PassOn = Callable[[str, Callable[[], None]], None]
"""Called for each use of a call's result handle, with the name of the method and the use itself."""
Element = tuple[Any, int | None]
"""The lookup of a record (`harness.workloads.shape.Lookup`) and its event time in ms."""


class StruckCall(Protocol):
    """One external call that a fault acts on."""

    id: int
    """The id of its record."""
    journal: ActJournal

    def invoke(self, pass_on: PassOn) -> None:
        """Make the call; pass each use of its result handle to `pass_on`."""

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

    def strike(self, call: StruckCall) -> None:
        """Act on one call."""
        raise NotImplementedError

    def found(self, lines: Sequence[Line]) -> Found | None:
        return measured_calls(self, lines)


class Source(Protocol):
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

    def place(self, source: Source, *, records: int) -> range:
        """The source positions that the fault changes."""
        raise NotImplementedError

    def watched(self) -> Shaped:
        """The counter of its evidence in a simulated run."""
        raise NotImplementedError
