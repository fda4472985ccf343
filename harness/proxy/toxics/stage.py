"""A stage: one toxic at work on one direction of one connection; the kinds of toxics; bytes held back.

Answers to Toxiproxy's toxic `Pipe`, without a goroutine for each: a stage is called with what arrives and pushes what
it lets through to the next stage, now or later. Invariants: bytes leave a stage in the order in which they came; a
stage never blocks: it holds bytes, reports how many (`held`), and asks its `StagePlace` for a timer. `Toxic`
is the setting that the control interface made.

`HeldBytes` keeps chunks in order, each with a value that the stage remembers for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from harness.system.choices import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic of a link: its name, kind, direction, toxicity and attributes. A change makes a new value."""

    name: str
    type: str
    stream: str
    """The direction as the request spelled it."""
    direction: Stream
    toxicity: float = 1.0
    """The probability (0 to 1) that it acts on a connection; decided once for each connection."""
    attributes: Attributes


Attributes = Mapping[str, int | str]
"""All attributes of a toxic's kind, validated."""


class Stream(StrEnum):
    """The direction that a toxic acts on, in Toxiproxy's words."""

    UPSTREAM = "upstream"
    """The direction from the client to the server."""
    DOWNSTREAM = "downstream"
    """The direction from the server to the client."""


class Receiver(Protocol):
    """The next element of the chain: a stage, or the socket at the end."""

    def data(self, chunk: bytes) -> None:
        """The bytes of the chunk, at least one."""

    def eof(self) -> None:
        """The source sent its FIN; the other direction may go on."""

    def reset(self) -> None:
        """The source reset the connection: no more bytes come, and none can be sent to it."""


class Stage(Receiver, Protocol):
    """One toxic at one direction of one connection."""

    next: Receiver
    """The next element of the chain; may be replaced while bytes pass."""

    @property
    def held(self) -> int:
        """Bytes that it holds back now."""

    @property
    def held_max(self) -> int:
        """While it holds this many bytes or more, the source is not read."""

    def update(self, attributes: Attributes) -> None:
        """The toxic's attributes changed."""

    def removed(self) -> None:
        """The toxic was removed: pass on what is held, in order, or end the connection, as the toxic documents."""


class Gate(Receiver, Protocol):
    """The packet gate: it comes before all stages of a direction and knows where MySQL's packets begin."""

    next: Receiver
    """The first stage; set by the chain."""

    @property
    def held(self) -> int: ...

    @property
    def held_max(self) -> int: ...

    @property
    def tracking(self) -> bool:
        """Whether it only follows the packets; then the direction calls `track` and passes the bytes on itself."""

    def track(self, chunk: bytes) -> None:
        """Follow bytes that bypass the gate."""


class Timer(Protocol):
    """A callback that will run unless it is cancelled."""

    def cancel(self) -> None: ...


class Wire(Protocol):
    """What a stage may do with its connection."""

    @property
    def id(self) -> int:
        """Its number on this link, counted from 1."""

    def reset(self) -> None:
        """RST to both ends now; held bytes are lost."""

    def close(self) -> None:
        """FIN to both ends after what already left the last stage; bytes that stages hold are lost."""

    def close_behind(self, stream: Stream) -> None:
        """FIN to both ends after this direction's FIN and everything before it have passed all stages."""


class StagePlace(Protocol):
    """The surroundings of a stage: its connection, direction, random choices, timers and log."""

    @property
    def wire(self) -> Wire: ...

    @property
    def stream(self) -> Stream: ...

    @property
    def choices(self) -> Choices:
        """Draws from the proxy's seed, the link, the connection's number and the toxic's name."""

    def now(self) -> float:
        """The loop's time in seconds."""

    def later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Call `act` after this many seconds, unless the connection ends first."""

    def eased(self) -> None:
        """The stage holds fewer bytes than before: check whether the source may be read again."""

    def log_event(self, did: str, **numbers: int | str) -> None:
        """Add an entry to the link's log."""


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
