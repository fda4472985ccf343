"""What a life holds: its open records, and the segments between watermarks.

Answers to Flink's `StreamElementQueue` and its `Segment`. Invariant: a segment counts its open records, so that
whether a watermark may leave is one comparison. Both are mutable, and made for speed.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from harness.history.event import Call, In, W

__all__ = ["Entry", "Segment"]


class Segment:
    """The records between two watermarks, and the watermark that ends them. Mutable."""

    __slots__ = ("came_t", "next", "open", "order", "pos", "settled_t", "w")

    def __init__(self, order: int) -> None:
        self.order = order
        self.open = 0
        self.settled_t = 0
        """When the last of its records was resolved."""
        self.w: W | None = None
        """None while no watermark has ended it."""
        self.pos = 0
        self.came_t = 0
        self.next: Segment | None = None

    def close(self, w: W, pos: int, came_t: int) -> Segment:
        """A watermark ends it; returns the segment that follows."""
        self.w, self.pos, self.came_t = w, pos, came_t
        self.next = Segment(self.order + 1)
        return self.next


class Entry(Struct, eq=False, gc=False):
    """A record in one life, from its `in` or `restore` till nothing of it is open. Mutable."""

    source: In
    segment: Segment
    call: Call | None = None
    """The latest."""
    first: Call | None = None
    """The first, once there is a second."""
    returned: int = 0
    """The latest try that came back and was not final."""
    wanted: list[Any] | None = None
    """Its outputs, once it has an outcome."""
    left: int = 0
    """How many of several outputs have left."""
    substitute: bool = False
    """They are a timeout's answer."""
    unclear: bool = False
    """A call of it ended otherwise than `ok`."""
