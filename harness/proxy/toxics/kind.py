"""A kind of toxic: its name, attributes with defaults, refused settings, what it does; and `HeldBytes`.

`HeldBytes` are what a stage holds back, in order, each chunk with what the stage must remember of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.proxy.toxics.stage import Attributes, Place, Receiver, Stage

__all__ = ["HELD_MAX", "HeldBytes", "ToxicKind", "nothing_refused"]


def nothing_refused(attributes: Attributes) -> str:
    """For a kind that can do something sensible with any number."""
    del attributes
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicKind:
    """One type of toxic."""

    name: str
    attributes: Mapping[str, int | str]
    """Name to default, in the order in which they are listed; a default's type is the attribute's type."""
    refuse: Callable[[Attributes], str] = nothing_refused
    """Why complete attributes cannot be (a sentence), or nothing."""
    stage: Callable[[Place, Attributes], Stage] | None
    """What stands in the chain of a connection; None where the link or the packet gate does the work."""
    own: bool = False
    """Whether Toxiproxy does not know it."""


HELD_MAX = 8 * 1024 * 1024
"""Bytes that one stage holds before its source is no longer read."""

Due = TypeVar("Due")


class HeldBytes(Generic[Due]):
    """A queue of chunks and perhaps, at its end, the peer's FIN; mutable."""

    __slots__ = ("_eof", "_offset", "_queue", "bytes")

    def __init__(self) -> None:
        self._queue: deque[tuple[Due, bytes]] = deque()
        self._offset = 0  # bytes of the oldest chunk that were split off; the rest is not copied each time
        self._eof = False
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def first_due(self) -> Due:
        """What is remembered of the oldest chunk."""
        return self._queue[0][0]

    @property
    def first_length(self) -> int:
        """How much of the oldest chunk is held."""
        return len(self._queue[0][1]) - self._offset

    def put(self, due: Due, chunk: bytes) -> None:
        """Hold it."""
        self._queue.append((due, chunk))
        self.bytes += len(chunk)

    def take(self) -> bytes:
        """What is left of the oldest chunk, no longer held."""
        _, chunk = self._queue.popleft()
        rest, self._offset = chunk[self._offset :], 0
        self.bytes -= len(rest)
        return rest

    def split(self, length: int) -> bytes:
        """The next bytes of the oldest chunk; its rest is held on."""
        if length >= self.first_length:
            return self.take()
        begin = self._offset
        self._offset += length
        self.bytes -= length
        return self._queue[0][1][begin : self._offset]

    def end(self, after: Receiver) -> None:
        """The peer's FIN: passed on to `after` now, or behind what is held."""
        self._eof = True
        self.pass_end(after)

    def pass_end(self, after: Receiver) -> None:
        """Pass on the FIN if it came and nothing is held before it; once."""
        if self._eof and not self._queue:
            self._eof = False
            after.eof()

    def let_go(self, after: Receiver) -> None:
        """Everything, now and in order."""
        while self._queue:
            after.data(self.take())
        self.pass_end(after)

    def drop(self) -> None:
        """Everything is lost."""
        self._queue.clear()
        self._offset = 0
        self.bytes = 0
        self._eof = False
