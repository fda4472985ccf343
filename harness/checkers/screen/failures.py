"""Failures: what went wrong in one life, and whether anybody was told.

Answers to V20, and to what a failed attempt excuses in V15. Invariant: what nobody was told of stays in `untold`.
Mutable; memory grows with dead letters.
"""

from __future__ import annotations

from msgspec import UNSET

from harness.history.event import Call, Failed, Id

__all__ = ["Failures"]


class Failures:
    """Of one life."""

    __slots__ = ("_dead", "_named", "reported_t", "unanswered_t", "untold")

    def __init__(self) -> None:
        self.untold: dict[Id, None] = {}
        """Records that failed."""
        self.reported_t: int | None = None
        """When the attempt first reported that it fails."""
        self.unanswered_t: int | None = None
        """The earliest first call of a record that went to the dead letters without a final answer."""
        self._dead: dict[Id, None] = {}
        self._named: dict[Id, None] = {}
        """Records that the attempt named when it failed."""

    def report(self, event: Failed) -> bool:
        """The attempt fails; whether the record that it names went to the dead letters as well."""
        self.untold.clear()
        if self.reported_t is None:
            self.reported_t = event.t
        if event.id is UNSET:
            return False
        self._named[event.id] = None
        return event.id in self._dead

    def bury(self, record: Id) -> bool:
        """A record goes to the dead letters; whether the attempt named it when it failed."""
        self._dead[record] = None
        return record in self._named

    def leave_unanswered(self, first: Call) -> None:
        """A record that was called goes to the dead letters, and no final answer has come."""
        before = self.unanswered_t
        self.unanswered_t = first.t if before is None else min(before, first.t)
