"""What every share of a history is told of the rest, and which events make up a share.

A share is one subtask: the events of its attempts, its commits and its rows. The coordinator's events and the faults
are few, and every share is told all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from harness.history.event import (
    Abort,
    Ack,
    AttemptEvent,
    Commit,
    Done,
    Effect,
    Event,
    FaultEvent,
    GiveUp,
    Retire,
)
from harness.history.header import Header

TOLD_TO_ALL = (Done, Abort, Retire, FaultEvent, GiveUp, Ack)
"""The events that every share is told."""
OF_SHARES = (AttemptEvent, Commit, Effect)
"""The events that belong to one share, that of their `s`."""

by_number = attrgetter("n")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEvents:
    """The rest of the history, as far as a share needs it."""

    header: Header
    told: Sequence[Event]
    """Those of `TOLD_TO_ALL`, in order."""
    last: Event
    """The last event of the whole history."""
    events: int
    """How many events the whole history has."""

    def told_to(self, s: int) -> list[Event]:
        """Without the acknowledgements of other subtasks."""
        return [event for event in self.told if not isinstance(event, Ack) or event.s == s]

    @property
    def has_acks(self) -> bool:
        """Whether any subtask acknowledged anything."""
        return any(isinstance(event, Ack) for event in self.told)


def with_told(batches: Iterable[Sequence[Event]], told: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """The batches of a share, in order, with what it is told sorted in between."""
    at = 0
    for batch in batches:
        if not batch:
            continue
        first, until = at, batch[-1].n
        while at < len(told) and told[at].n < until:
            at += 1
        yield batch if first == at else sorted([*batch, *told[first:at]], key=by_number)
    if at < len(told):
        yield told[at:]
