"""The two groups of workload faults: those that act on calls, and those that are in what a source sends.

Invariant: what is done to a call is written down before it is done; a source that is shaped sends the same element at
a position in every attempt.
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
        return measured_calls(self, lines)


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
