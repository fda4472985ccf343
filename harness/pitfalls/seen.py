"""What a run left that a pitfall may show in: its lines, its settings, and what the server counted.

Invariant: plain facts, gathered once; a pitfall that is named was measured, and none is inferred from a setting alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.database.server_counts import ServerCounts
from harness.scenario import Scenario

__all__ = ["AttemptCalls", "OpenCall", "RunSeen"]

Line = Mapping[str, Any]

_WENT_ON_US = 300_000
"""An attempt that was stopped, and wakes, has not handled its timers yet; one that speaks for so long has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call that its attempt never heard of again."""

    record: int
    began_us: int
    open_us: int
    """From its beginning to the end of its attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCalls:
    """The calls of one attempt."""

    count: int
    at_once: int
    """The most that were open at a time."""
    ended_us: int
    """When the attempt was over: its last word, or the end of the run if it hung until then."""
    never_ended: Sequence[OpenCall]
    last_begun_us_that_ended: int
    """When the latest of the calls that did end began."""
    spoke_us: Sequence[int]
    """When the attempt wrote anything: it went on meanwhile, and did not stand still."""

    def outlived(self, call: OpenCall, *, by_us: int) -> bool:
        """Whether `call` was open for longer than that, while its attempt went on."""
        after = [at_us for at_us in self.spoke_us if at_us > call.began_us + by_us]
        return call.open_us > by_us and bool(after) and after[-1] - after[0] >= _WENT_ON_US


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """One run; made by `RunSeen.of`."""

    scenario: Scenario
    lines: Sequence[Line]
    """Events and notes, in order of time; a note's kind begins with `~`."""
    ended_us: int
    """When the run was over, on the lines' clock."""
    server: ServerCounts | None
    """None: the server was restarted, or did not answer, so its counters say nothing."""
    calls: Sequence[AttemptCalls]
    """Of every attempt that made any."""

    @classmethod
    def of(
        cls, scenario: Scenario, lines: Sequence[Line], *, ended_us: int, server: ServerCounts | None
    ) -> RunSeen:
        """With the calls worked out."""
        calls = tuple(_calls(lines, ended_us=ended_us))
        return cls(scenario=scenario, lines=lines, ended_us=ended_us, server=server, calls=calls)

    def of_kind(self, kind: str) -> Sequence[Line]:
        """All lines of it."""
        return [line for line in self.lines if line["k"] == kind]

    @property
    def call_count(self) -> int:
        """In all attempts."""
        return sum(calls.count for calls in self.calls)


_OF_ATTEMPTS = frozenset({"call", "res", "close", "failed", "ended", "~dies", "~alive"})
_LAST_WORDS = frozenset({"close", "failed", "ended", "~dies"})


def _calls(lines: Sequence[Line], *, ended_us: int) -> Iterator[AttemptCalls]:
    by_attempt: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        if "a" in line and line["k"] in _OF_ATTEMPTS:
            by_attempt[line["s"], line["a"]].append(line)
    dead_us = {
        (line["s"], line["a"] - 1): line["t"] for line in lines if line["k"] == "start" and line["a"] > 1
    }
    for who, its_own in by_attempt.items():
        calls = _calls_of(its_own, over_us=_end_of(its_own, dead_us.get(who, ended_us)))
        if calls.count:
            yield calls


def _end_of(lines: Sequence[Line], otherwise_us: int) -> int:
    """Its own last word, or when somebody else knew that it was over."""
    said = [line["t"] for line in lines if line["k"] in _LAST_WORDS]
    return int(said[0]) if said else otherwise_us


def _calls_of(lines: Sequence[Line], *, over_us: int) -> AttemptCalls:
    running: dict[tuple[int, int], int] = {}
    count = at_once = latest_us = 0
    for line in lines:
        if line["k"] == "call":
            running[line["id"], line["try"]] = line["t"]
            count += 1
            at_once = max(at_once, len(running))
        elif line["k"] == "res":
            began_us = running.pop((line["id"], line["try"]), None)
            latest_us = max(latest_us, began_us or 0)
    never = [
        OpenCall(record=record, began_us=began_us, open_us=over_us - began_us)
        for (record, _), began_us in running.items()
    ]
    return AttemptCalls(
        count=count,
        at_once=at_once,
        ended_us=over_us,
        never_ended=never,
        last_begun_us_that_ended=latest_us,
        spoke_us=[line["t"] for line in lines],
    )
