"""A saved state: a snap, held against what was open when it was taken, and kept for a restart.

Answers to V10 and V11. Invariant: what a snap lists is exactly what was open, in replay order; what is restored is
exactly what was stored. Memory: the elements of the snap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.checkers.screen.irregular import Irregular
from harness.checkers.screen.life import Life
from harness.checkers.screen.queue_entry import Entry
from harness.checkers.screen.rows import Sums
from harness.history.event import Id, In, Restore, Snap

__all__ = ["Saved"]


class Saved:
    """A snap, and how far its life had come by then."""

    __slots__ = (
        "_sources",
        "a",
        "before",
        "c",
        "completed",
        "elements",
        "epoch_filled",
        "final",
        "last_pos",
        "outs",
        "owms",
        "pos",
        "sums",
        "superseded",
    )  # fmt: skip

    def __init__(self, snap: Snap, life: Life) -> None:
        self.a, self.c, self.pos = snap.a, snap.c, snap.pos
        self.elements = snap.elements
        self._sources = _stored(life, snap)
        """The records that it lists, as they were taken in."""
        self.final = life.final
        self.last_pos = life.last_pos
        self.outs, self.owms = life.outs, life.owms
        self.sums = Sums() if life.rows is None else life.rows.sums
        self.completed = False
        self.superseded = life.over_t is not None
        """Another attempt had begun when it was taken."""
        before = life.epoch
        self.before: Saved | None = before
        """The snap before it in the chain, as long as that is not committed."""
        self.epoch_filled = (self.outs, self.owms) != (
            (0, 0) if before is None else (before.outs, before.owms)
        )

    def replay(self, event: Restore, life: Life) -> None:
        """A life goes on with what is stored here."""
        same_segments = not life.account.ordered and _by_segment(event.elements) == _by_segment(self.elements)
        if event.elements != self.elements and not same_segments:
            raise Irregular("another restore than the snap")
        tail = life.tail
        for element in event.elements:
            if "id" in element:
                life.open[element["id"]] = Entry(self._sources[element["id"]], tail)
                tail.open += 1
            else:
                tail = tail.close(element["w"], element["pos"], event.t)
        life.tail = tail
        life.restored = True
        life.reading = not self.final and not life.end


def _stored(life: Life, snap: Snap) -> dict[Id, In]:
    """What a snap lists, if that is exactly what is open, in replay order; and what of it is known."""
    segment, seen, last_pos = life.head, 0, -1
    ordered = life.account.ordered
    sources: dict[Id, In] = {}
    listed: dict[Id, Entry] = {}
    for element in snap.elements:
        if "id" not in element:
            if (element["w"], element["pos"], seen) != (segment.w, segment.pos, segment.open):
                raise Irregular("a watermark is stored out of its place")
            assert segment.next is not None  # its watermark has come
            segment, seen = segment.next, 0
            continue
        record = element["id"]
        entry = life.open.get(record)
        if entry is None:
            entry = listed[record] = life.empties[record]
        else:
            seen += 1
        pos = entry.source.pos
        if entry.segment is not segment or record in sources or (ordered and pos < last_pos):
            raise Irregular("a record is stored out of its place")
        sources[record] = entry.source
        last_pos = pos
    if segment is not life.tail or seen != segment.open:
        raise Irregular("something open is not stored")
    life.empties = listed
    return sources


def _by_segment(elements: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What is stored, up to order between two watermarks."""
    segments: list[Any] = [Counter()]
    for element in elements:
        if "id" in element:
            segments[-1][element["id"]] += 1
        else:
            segments += ((element["w"], element["pos"]), Counter())
    return segments
