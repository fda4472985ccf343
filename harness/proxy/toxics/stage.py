"""A stage: one toxic at work on one direction of one connection; the stages form a chain from peer to peer.

Answers to Toxiproxy's toxic `Pipe`, without a goroutine for each: a stage is called with what arrives and pushes what
it lets through to the next stage, now or later. Invariants: bytes leave a stage in the order in which they came; a
stage never blocks: it holds bytes, reports how many (`held`), and asks its `StagePlace` for a timer. `Toxic`
is the setting that the control interface made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

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
