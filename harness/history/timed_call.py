"""Timed calls: an external call as an interval, and the link that it crosses.

A lookup is paired from its `call` and `res` lines, a sink's transaction from `~committing` and `commit`.
Answers to Jepsen's invoke/complete pairs. Invariant: a call without an outcome is kept, as one that never
ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CallPairing", "TimedCall", "timed_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """One external call: when it began and ended (microseconds), and how."""

    began_us: int
    ended_us: int | None
    """None: no outcome was recorded (its attempt died, the run ended, or it is still under way)."""
    ending: str | None
    """`ok`, `fail`, `timeout`."""
    link: str = "lookups"
    """A fault of one link is not shown by the calls over the other."""

    @property
    def took_ms(self) -> float | None:
        """Its length, if it ended."""
        return None if self.ended_us is None else (self.ended_us - self.began_us) / 1000


class CallPairing:
    """Pairs lines as they come. Mutable: `ended` grows, `open` holds what began and has not ended."""

    def __init__(self) -> None:
        self._open: dict[_Name, int] = {}
        self._ended: list[TimedCall] = []

    def note(self, line: Mapping[str, Any]) -> None:
        """Take a line; what begins and ends no call is passed over."""
        match line["k"]:
            case "call":
                self._open[_lookup(line)] = line["t"]
            case "res":
                self._end(_lookup(line), line, ending=line["r"])
            case "~committing":
                self._open[_commit(line)] = line["t"]
            case "commit":
                self._end(_commit(line), line, ending="ok")

    def _end(self, name: _Name, line: Mapping[str, Any], *, ending: str) -> None:
        began = self._open.pop(name, None)
        if began is not None:
            self._ended.append(TimedCall(began_us=began, ended_us=line["t"], ending=ending, link=name[0]))

    def calls(self, link: str) -> list[TimedCall]:
        """All over `link` so far: those that ended, in that order, then those that did not."""
        without = [
            TimedCall(began_us=began, ended_us=None, ending=None, link=name[0])
            for name, began in self._open.items()
        ]
        return [call for call in (*self._ended, *without) if call.link == link]


_Name = tuple[str, int, int, int, int]
"""The link, subtask and attempt, then what the call is about."""


def _lookup(line: Mapping[str, Any]) -> _Name:
    return "lookups", line["s"], line["a"], line["id"], line["try"]


def _commit(line: Mapping[str, Any]) -> _Name:
    return "sink", line["s"], line["a"], line["c"], 1


def timed_calls(lines: Iterable[Mapping[str, Any]], *, link: str) -> list[TimedCall]:
    """The calls of `lines` over `link`."""
    pairing = CallPairing()
    for line in lines:
        pairing.note(line)
    return pairing.calls(link)
