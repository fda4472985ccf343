"""What a coordination hears of a task besides records: latency markers and statuses leave no event behind."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.event import Event, Wm
from harness.sut.coordination import AttemptLog, JournalledSubtask, LatencyMarkerHeld
from harness.sut.tests.keyed_rig import MemoryPhases
from reference_impl.elements import LatencyMarker, Watermark, WatermarkStatus


class MemoryJournal:
    """The kinds of what was journalled. Mutable."""

    def __init__(self) -> None:
        self.lines: list[type[Event]] = []

    def event(self, kind: type[Event], **fields: Any) -> None:
        del fields
        self.lines.append(kind)


def subtask(journal: MemoryJournal) -> JournalledSubtask:
    unused: Any = None
    made: Any = journal
    return JournalledSubtask(AttemptLog(journal=made, phases=MemoryPhases()), sink=unused)


def test_a_latency_marker_that_leaves_at_once_leaves_no_event_a54_trust7() -> None:
    journal = MemoryJournal()
    hears = subtask(journal)

    hears.takes(LatencyMarker(id=3))
    hears.emit(LatencyMarker(id=3))
    hears.takes(Watermark(timestamp=5, position=4))

    assert journal.lines == [Wm]


def test_one_that_is_still_inside_when_the_next_element_comes_fails_the_task_a54_trust7() -> None:
    hears = subtask(MemoryJournal())
    hears.takes(LatencyMarker(id=3))

    with pytest.raises(LatencyMarkerHeld, match="marker 3 has not left"):
        hears.takes(Watermark(timestamp=5, position=4))


def test_one_that_a_watermark_leaves_before_fails_the_task_a54_trust7() -> None:
    hears = subtask(MemoryJournal())
    hears.takes(LatencyMarker(id=3))

    with pytest.raises(LatencyMarkerHeld, match="marker 3 waits"):
        hears.emit(Watermark(timestamp=5, position=4))


def test_a_status_that_leaves_is_no_event_trust7() -> None:
    journal = MemoryJournal()

    subtask(journal).emit(WatermarkStatus(idle=True))

    assert journal.lines == []
