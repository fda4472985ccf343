"""Histories for tests of the screen: read with or without their breaches, and judged both ways."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from harness.history.event import Event
from harness.history.event_fields import claims_of, well_formed
from harness.history.header import Header
from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.screen import Screen
from harness.judge.checkers.screen.totals import Irregular
from harness.judge.checkers.screen_verdicts import acquit

Json = dict[str, Any]


class Told(NamedTuple):
    """Header and events; `sound` if they keep the rules between events."""

    header: Header
    events: list[Event]
    sound: bool


def told(lines: list[Json]) -> Told | None:
    """The history of these lines; None where a line by itself is no event."""
    reader = open_text("\n".join(map(json.dumps, lines)).encode())
    sound = list(reader.events())
    if reader.header is None:
        return None
    if not reader.breaches:
        return Told(reader.header, sound, sound=True)
    claims = claims_of(reader.header)
    events = [event for line in lines[1:] if (event := well_formed(line, claims).event) is not None]
    return Told(reader.header, events, sound=False) if len(events) == len(lines) - 1 else None


def acquitted(history: Told) -> set[str] | None:
    """Which invariants the screen vouches for; None: the history is irregular."""
    try:
        screen = Screen(history.header)
        screen.feed(history.events)
        screen.finish()
    except Irregular:
        return None
    return set(acquit(screen, CHECKERS).verdicts)


def both_ways(history: Told) -> tuple[Judgement, Judgement]:
    """Judged with the screen and without."""
    screened = judge(history.header, history.events)
    return screened, judge(history.header, history.events, screened=False)


def evenly_told(lines: list[Json]) -> list[Json]:
    """Rows of which none tells its value: where some do and some do not, the screen leaves them alone."""
    return [{k: v for k, v in line.items() if line.get("k") != "effect" or k != "v"} for line in lines]
