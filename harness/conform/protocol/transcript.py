"""What an answer says, with the freedom that the protocol gives taken out of it.

Written apart from `harness.conform.protocol.comparison`, so that neither hides a mistake of the other. Free are: where
`blocked` and `unblocked` stand, and calls among emissions where something waited; the order of a snapshot inside a
segment; texts; how many mails, if any; whatever else a failing command did, and the counts of what has failed.
Invariant: all else is compared to the letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

_NUMBERED = {"stats": "mails", "closed": "dropped_mails"}
_FREE_TEXTS = {"message", "state", "name", "version", "abilities"}


class Transcript:
    """What must be the same in two answers, answer after answer. Mutable: it knows what waits, and the mode."""

    def __init__(self) -> None:
        self._blocked = False
        self._failed = False
        self._ordered = True

    def take(self, told: str, answer: Sequence[str]) -> list[str]:
        """The next answer, as texts of which equal ones mean the same."""
        if '"open"' in told:
            self._ordered = '"ordered"' in told
            self._failed = self._failed and '"bad-state"' in "".join(answer)
        events = [json.loads(line) for line in answer]
        kinds = [event["ev"] for event in events]
        if "failed" in kinds:
            self._failed = True
            return [_text(event) for event in events if event["ev"] == "failed"]
        if self._failed and kinds in (["stats"], ["closed"]):
            return kinds
        waited = self._blocked or "blocked" in kinds
        self._blocked = (self._blocked or "blocked" in kinds) and not {"unblocked", "closed"} & {*kinds}
        told_events = [self._plain(event) for event in events if event["ev"] not in {"blocked", "unblocked"}]
        if waited:  # by its place among calls and among the rest, but not among both
            told_events.sort(key=lambda event: event["ev"] == "call")
        return [*map(_text, told_events), f"blocked: {self._blocked}"]

    def _plain(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["ev"] == "snapshot":
            event["elements"] = list(self._in_segments(event["elements"]))
        number = _NUMBERED.get(event["ev"])
        if number is not None:
            event[number] = "some" if event[number] else "none"
        return event

    def _in_segments(self, elements: Sequence[dict[str, Any]]) -> Iterator[str]:
        segment = list[str]()
        for element in elements:
            segment.append(_text(element))
            if self._ordered or "value" not in element:
                yield from sorted(segment[:-1])
                yield segment[-1]
                segment = []
        yield from sorted(segment)


def _text(event: dict[str, Any]) -> str:
    """Equal for equal values only: 1, 1.0 and true are three."""
    return json.dumps({key: value for key, value in event.items() if key not in _FREE_TEXTS}, sort_keys=True)
