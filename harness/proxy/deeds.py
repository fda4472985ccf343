"""The log of deeds: what each toxic did to each connection of a link, kept as evidence.

Answers to Jepsen's nemesis log; Toxiproxy keeps none. Invariant: the log is bounded, what fell out is counted, and
what is added up (bytes held, swallowed, delayed) is complete at the latest `WINDOW_S` after it happened.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import IO

from harness.clock import monotonic_us

__all__ = ["DEEDS_MAX", "PAGE_MAX", "WINDOW_S", "Deed", "DeedLog", "DeedPage"]

DEEDS_MAX = 100_000
"""Deeds of a link that are kept; the oldest make room."""
PAGE_MAX = 10_000
"""Deeds of one answer; the next question goes on behind them."""
WINDOW_S = 0.05
"""How long deeds that come in floods are added up to one."""

_ADDED_UP = {"delayed": None, "dropped": None, "held": None, "paced": None, "sliced": None, "swallowed": None}
_LONGEST = "ms"
_ALONE = "match"
"""A deed that says which match it was for is not added to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One thing that was done."""

    n: int
    t: int
    """The machine's monotonic microseconds."""
    connection: int
    stream: str
    toxic: str
    """The toxic's name; empty for a deed of the link itself (a cut)."""
    did: str
    numbers: Mapping[str, int | str]

    def as_json(self) -> dict[str, int | str]:
        """As the control API and the log file say it."""
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
class DeedPage:
    """The deeds after a number, in order."""

    deeds: list[Deed]
    next: int
    """Ask for what is after this number the next time."""
    lost: int
    """Deeds after the number asked for that are no longer kept."""

    def as_json(self) -> dict[str, object]:
        """As the control API says it."""
        return {"deeds": [deed.as_json() for deed in self.deeds], "next": self.next, "lost": self.lost}


_Key = tuple[int, str, str, str, str]


class DeedLog:
    """The deeds of one link; mutable: it is written to while the link works."""

    def __init__(self, *, link: str, loop: asyncio.AbstractEventLoop, file: IO[str] | None = None) -> None:
        self._link = link
        self._loop = loop
        self._file = file
        self._kept: deque[Deed] = deque(maxlen=DEEDS_MAX)
        self._count = 0
        self._sums: dict[_Key, dict[str, int | str]] = {}
        self._window: asyncio.TimerHandle | None = None

    def note(self, connection: int, stream: str, toxic: str, did: str, **numbers: int | str) -> None:
        """Write a deed down; of a kind that comes in floods, only the first in a window at once."""
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

    def after(self, number: int) -> DeedPage:
        """The deeds after `number`, complete up to now, at most `PAGE_MAX` of them."""
        for key, sums in self._sums.items():
            self._write_sums(key, sums)
        number = max(0, number)
        skipped = self._count - len(self._kept)
        lost = max(0, skipped - number)
        begin = max(0, number - skipped)
        deeds = list(islice(self._kept, begin, begin + PAGE_MAX))
        return DeedPage(deeds=deeds, next=deeds[-1].n if deeds else min(number, self._count), lost=lost)

    def _settle(self, connection: int) -> None:
        """What was added up for a connection happened before its next deed."""
        for key, sums in self._sums.items():
            if key[0] == connection:
                self._write_sums(key, sums)

    def _close_window(self) -> None:
        """Write what came in the window; a flood that goes on stays in windows, a quiet one leaves."""
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
        deed = Deed(
            n=self._count,
            t=monotonic_us(),
            connection=connection,
            stream=stream,
            toxic=toxic,
            did=did,
            numbers=numbers,
        )
        self._kept.append(deed)
        if self._file is not None:
            self._file.write(json.dumps({"link": self._link, **deed.as_json()}) + "\n")
            self._file.flush()


def _add(sums: dict[str, int | str], numbers: Mapping[str, int | str]) -> None:
    for name, number in numbers.items():
        before = sums.get(name)
        if isinstance(number, str) or not isinstance(before, int):
            sums[name] = number
        else:
            sums[name] = max(before, number) if name == _LONGEST else before + number
