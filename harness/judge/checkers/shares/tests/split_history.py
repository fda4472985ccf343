"""A history in memory as shares: what a cluster does with files, in one process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from harness.history.event import Event
from harness.history.header import Header
from harness.judge.checkers.shares.fold import ShareFound, examine_share
from harness.judge.checkers.shares.seen import OF_SHARES, TOLD_TO_ALL, SharedEvents, ShareSeen, see_share


class SplitHistory:
    """The `Shares` of a history in memory, each of whose events is well-formed by itself."""

    def __init__(self, header: Header, events: Sequence[Event], *, batch: int = 1000) -> None:
        self._header = header
        self._events = events
        self._batch = batch
        self._shares: dict[int, list[Event]] = {}

    def around(self) -> SharedEvents | None:
        """See `Shares`."""
        told = [event for event in self._events if isinstance(event, TOLD_TO_ALL)]
        for event in self._events:
            if isinstance(event, OF_SHARES):
                self._shares.setdefault(event.s, []).append(event)
            elif not isinstance(event, TOLD_TO_ALL):
                return None
        rises = all(before.n < later.n and before.t <= later.t for before, later in pairwise(self._events))
        if not self._events or not rises:
            return None
        return SharedEvents(header=self._header, told=told, last=self._events[-1], events=len(self._events))

    def see(self, around: SharedEvents) -> Iterator[ShareSeen]:
        """See `Shares`."""
        for s in sorted(self._shares):
            yield see_share(s, around, self._batches(s))

    def examine(
        self, around: SharedEvents, names: Mapping[int, Collection[str]], *, finished: bool
    ) -> Iterator[ShareFound]:
        """See `Shares`."""
        for s in sorted(names):
            yield examine_share(s, around, self._batches(s), names=names[s], finished=finished)

    def _batches(self, s: int) -> Iterator[Sequence[Event]]:
        own = self._shares[s]
        for first in range(0, len(own), self._batch):
            yield own[first : first + self._batch]
