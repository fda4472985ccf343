"""The log of a link: what each toxic did to each connection, kept as evidence that a fault took effect.

Answers to Jepsen's nemesis operations in the history; Toxiproxy keeps no log.
Invariant: the log is bounded and dropped entries are counted. Frequent kinds (bytes held, swallowed, delayed)
are summed per window; a sum is in the log at most `WINDOW_S` after the last thing that it counts.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from harness.system.clock import monotonic_us

EVENTS_MAX = 100_000
"""Entries kept for each link; then the oldest are dropped."""
PAGE_MAX = 10_000
"""Entries in one answer; the client asks again for those after the last."""
WINDOW_S = 0.05
"""How long entries of a frequent kind are summed into one."""

_ADDED_UP = {"delayed": None, "dropped": None, "held": None, "paced": None, "sliced": None, "swallowed": None}
_LONGEST = "ms"
_ALONE = "match"
"""An entry with this field belongs to one matched message, so it is never summed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvent:
    """One log entry."""

    n: int
    t: int
    """Microseconds of the machine's monotonic clock."""
    connection: int
    stream: str
    toxic: str
    """The toxic's name; empty for an act of the link itself (a cut)."""
    did: str
    numbers: Mapping[str, int | str]

    def as_json(self) -> dict[str, int | str]:
        """The object that the control API shows and the log file stores."""
        return {
            "n": self.n,
            "t": self.t,
            "connection": self.connection,
            "stream": self.stream,
            "toxic": self.toxic,
            "did": self.did,
            **self.numbers,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLogPage:
    """The entries after a given number, in order."""

    events: list[LinkEvent]
    next: int
    """Pass this as `after` of the next request."""
    lost: int
    """How many entries after the given number were dropped already."""

    def as_json(self) -> dict[str, object]:
        return {"deeds": [event.as_json() for event in self.events], "next": self.next, "lost": self.lost}


_Key = tuple[int, str, str, str, str]


class LineSink(Protocol):
    """Gets every entry as a line of JSON; must neither wait nor raise, for it is called where bytes pass."""

    def write(self, line: str, /) -> object: ...


class LinkLog:
    """The log of one link. Mutable: grows while the link works."""

    def __init__(self, *, link: str, loop: asyncio.AbstractEventLoop, file: LineSink | None = None) -> None:
        self._link = link
        self._loop = loop
        self._file = file
        self._kept: deque[LinkEvent] = deque(maxlen=EVENTS_MAX)
        self._count = 0
        self._sums: dict[_Key, dict[str, int | str]] = {}
        self._window: asyncio.TimerHandle | None = None

    def note(self, connection: int, stream: str, toxic: str, did: str, **numbers: int | str) -> None:
        """Append an entry. A frequent kind: appends the first of a window at once and sums the others."""
        if did not in _ADDED_UP or _ALONE in numbers:
            self._settle(connection)
            self._append(connection, stream, toxic, did, numbers)
            return
        key = (connection, stream, toxic, did, str(numbers.get("command", "")))
        sums = self._sums.get(key)
        if sums is not None:
            _add(sums, numbers)
            return
        self._append(connection, stream, toxic, did, numbers)
        self._sums[key] = {}
        if self._window is None:
            self._window = self._loop.call_later(WINDOW_S, self._close_window)

    def after(self, number: int) -> LinkLogPage:
        """The entries after `number`, running sums included, at most `PAGE_MAX` of them."""
        for key, sums in self._sums.items():
            self._write_sums(key, sums)
        number = max(0, number)
        skipped = self._count - len(self._kept)
        lost = max(0, skipped - number)
        begin = max(0, number - skipped)
        events = list(islice(self._kept, begin, begin + PAGE_MAX))
        return LinkLogPage(
            events=events, next=events[-1].n if events else min(number, self._count), lost=lost
        )

    def _settle(self, connection: int) -> None:
        """Write the connection's sums now, since they happened before its next entry."""
        for key, sums in self._sums.items():
            if key[0] == connection:
                self._write_sums(key, sums)

    def _close_window(self) -> None:
        """Write the sums of the window; a key that got nothing in a whole window is no longer summed."""
        self._window = None
        for key, sums in list(self._sums.items()):
            if sums:
                self._write_sums(key, sums)
            else:
                del self._sums[key]
        if self._sums:
            self._window = self._loop.call_later(WINDOW_S, self._close_window)

    def _write_sums(self, key: _Key, sums: dict[str, int | str]) -> None:
        if not sums:
            return
        connection, stream, toxic, did, _ = key
        self._append(connection, stream, toxic, did, dict(sums))
        sums.clear()

    def _append(
        self, connection: int, stream: str, toxic: str, did: str, numbers: Mapping[str, int | str]
    ) -> None:
        self._count += 1
        event = LinkEvent(
            n=self._count,
            t=monotonic_us(),
            connection=connection,
            stream=stream,
            toxic=toxic,
            did=did,
            numbers=numbers,
        )
        self._kept.append(event)
        if self._file is not None:
            self._file.write(json.dumps({"link": self._link, **event.as_json()}) + "\n")


def _add(sums: dict[str, int | str], numbers: Mapping[str, int | str]) -> None:
    for name, number in numbers.items():
        before = sums.get(name)
        if isinstance(number, str) or not isinstance(before, int):
            sums[name] = number
        else:
            sums[name] = max(before, number) if name == _LONGEST else before + number
