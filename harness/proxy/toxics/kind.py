"""The kind of a toxic (`ToxicKind`) and `HeldBytes`, the queue of a stage that holds bytes back.

`HeldBytes` keeps chunks in order, each with a value that the stage remembers for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from harness.proxy.toxics.stage import Attributes, Receiver, Stage, StagePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicKind:
    """One kind of toxic."""

    name: str
    attributes: Mapping[str, int | str]
    """Default by name, in the order in which they are listed; the default's type is the attribute's type."""
    refuse: Callable[[Attributes], str] = lambda _: ""
    """Returns why these attributes are invalid (one sentence), or an empty text; the default accepts any value."""
    stage: Callable[[StagePlace, Attributes], Stage] | None
    """Creates the stage of a connection; None where the link or the packet gate implements the toxic."""
    own: bool = False
    """Whether it is ours and unknown to Toxiproxy."""


HELD_MAX = 8 * 1024 * 1024
"""Bytes that one stage holds before its source is no longer read."""

Due = TypeVar("Due")


class HeldBytes(Generic[Due]):
    """A queue of chunks that may end with the peer's FIN. Mutable."""

    __slots__ = ("_eof", "_offset", "_queue", "bytes")

    def __init__(self) -> None:
        self._queue: deque[tuple[Due, bytes]] = deque()
        self._offset = 0  # bytes of the oldest chunk that were taken already; avoids a copy of its rest
        self._eof = False
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def first_due(self) -> Due:
        """The value remembered for the oldest chunk."""
        return self._queue[0][0]

    @property
    def first_length(self) -> int:
        """How many bytes of the oldest chunk are still held."""
        return len(self._queue[0][1]) - self._offset

    def put(self, due: Due, chunk: bytes) -> None:
        self._queue.append((due, chunk))
        self.bytes += len(chunk)

    def take(self) -> bytes:
        """Remove and return the rest of the oldest chunk."""
        _, chunk = self._queue.popleft()
        rest, self._offset = chunk[self._offset :], 0
        self.bytes -= len(rest)
        return rest

    def split(self, length: int) -> bytes:
        """Remove and return at most `length` bytes of the oldest chunk."""
        if length >= self.first_length:
            return self.take()
        begin = self._offset
        self._offset += length
        self.bytes -= length
        return self._queue[0][1][begin : self._offset]

    def end(self, after: Receiver) -> None:
        """The peer sent its FIN: pass it to `after`, now or behind what is held."""
        self._eof = True
        self.pass_end(after)

    def pass_end(self, after: Receiver) -> None:
        """Pass the FIN, once, if it came and nothing is held before it."""
        if self._eof and not self._queue:
            self._eof = False
            after.eof()

    def let_go(self, after: Receiver) -> None:
        """Pass everything on now, in order."""
        while self._queue:
            after.data(self.take())
        self.pass_end(after)

    def drop(self) -> None:
        """Lose everything."""
        self._queue.clear()
        self._offset = 0
        self.bytes = 0
        self._eof = False
