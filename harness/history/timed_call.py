"""Timed calls: an external call as an interval, paired from its `call` and `res` lines.

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

    @property
    def took_ms(self) -> float | None:
        """Its length, if it ended."""
        return None if self.ended_us is None else (self.ended_us - self.began_us) / 1000


class CallPairing:
    """Pairs lines as they come. Mutable: `ended` grows, `open` holds what began and has not ended."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int, int, int], int] = {}
        self._ended: list[TimedCall] = []

    def note(self, line: Mapping[str, Any]) -> None:
        """Take a line; all but `call` and `res` are passed over."""
        if line["k"] == "call":
            self._open[_name(line)] = line["t"]
        elif line["k"] == "res":
            began = self._open.pop(_name(line), None)
            if began is not None:
                self._ended.append(TimedCall(began_us=began, ended_us=line["t"], ending=line["r"]))

    def calls(self) -> list[TimedCall]:
        """All so far: those that ended, in that order, then those that did not."""
        without = [TimedCall(began_us=began, ended_us=None, ending=None) for began in self._open.values()]
        return [*self._ended, *without]


def _name(line: Mapping[str, Any]) -> tuple[int, int, int, int]:
    return line["s"], line["a"], line["id"], line["try"]


def timed_calls(lines: Iterable[Mapping[str, Any]]) -> list[TimedCall]:
    """The calls of `lines`."""
    pairing = CallPairing()
    for line in lines:
        pairing.note(line)
    return pairing.calls()
