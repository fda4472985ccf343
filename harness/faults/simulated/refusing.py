"""A server that refuses every transaction that writes, or every read.

Invariant: what is refused took no effect; it counts its refusals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.faults.simulated.says import is_write
from harness.faults.simulated.under_way import meet_requests

if TYPE_CHECKING:
    from harness.sim.link import Flight, Link

__all__ = ["Refusing"]


class Refusing:
    """Every transaction that writes, or every read, ends with `code`, also one under way. Mutable: counts."""

    def __init__(self, code: int, *, writes: bool) -> None:
        self._code = code
        self._writes = writes
        self._refused = 0

    def begins(self, link: Link) -> None:
        """Open ones too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it, if it is one of those; its connection lives on."""
        if is_write(flight) is self._writes and flight.is_sound:
            self._refused += 1
            link.answers(flight, self._code)

    def ends(self, link: Link) -> None:
        """It takes them again."""

    def evidence(self) -> dict[str, Any]:
        """How many it refused."""
        return {"codes": {str(self._code): self._refused}} if self._refused else {}
