"""Defects of the harness itself: a recorder that loses events, a judge that does not look at everything.

Answers to a green that means nothing (M30). Invariant: neither can be told by an invariant, for the history, or who
reads it, is what is wrong; the recording's numbers and the canaries tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from harness.history.event import Event
from harness.history.header import Header
from harness.sim.buffer_journal import BufferJournal
from harness.verdict import Judgement

__all__ = ["Judge", "dropping", "skipping_last_attempt"]

Judge = Callable[[Header, Iterable[Event]], Judgement]

_ONE_IN = 1000


@cache
def dropping(journal: type[BufferJournal]) -> type[BufferJournal]:
    """`journal`, which loses the events whose number one in a thousand has."""

    class LeakyJournal(journal):  # type: ignore[misc, valid-type]  # whatever kind of journal it is
        def _write(self, event: Event) -> None:
            if (event.n * 2_654_435_761 >> 7) % _ONE_IN:  # spread over all numbers, and no draw
                super()._write(event)

    leaky: type[BufferJournal] = LeakyJournal
    return leaky


def skipping_last_attempt(judge: Judge) -> Judge:
    """`judge`, who is not shown what the last attempt of each subtask did."""

    def judge_the_others(header: Header, events: Iterable[Event]) -> Judgement:
        listed = list(events)
        last: dict[Any, int] = {}
        for event in listed:
            attempt = getattr(event, "a", None)
            if isinstance(attempt, int):
                subtask = getattr(event, "s", None)
                last[subtask] = max(attempt, last.get(subtask, 0))
        return judge(header, [event for event in listed if not _is_of(event, last)])

    return judge_the_others


def _is_of(event: Event, last: dict[Any, int]) -> bool:
    attempt = getattr(event, "a", None)
    return isinstance(attempt, int) and last.get(getattr(event, "s", None)) == attempt
