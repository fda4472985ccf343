"""A stage: what one toxic does to one direction of one connection; stages form a chain from peer to peer.

Answers to Toxiproxy's toxic `Pipe`, but without a goroutine each: a stage is called with what arrives and
pushes on what it lets through, at once or later. Bytes leave a stage in the order in which they came, and a
stage never waits: it holds bytes, says how many (`held`), and asks its place to be called later. `Toxic` is
the toxic as it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from harness.choices import Choices

__all__ = ["Attributes", "Gate", "Place", "Receiver", "Stage", "Stream", "Timer", "Toxic", "Wire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic of a link: name, kind, direction, how often it acts, attributes; a change makes a new value."""

    name: str
    type: str
    stream: str
    """The direction as it was written by who asked."""
    direction: Stream
    toxicity: float = 1.0
    """Of so many connections (0 to 1) it acts on; decided once for each."""
    attributes: Attributes


Attributes = Mapping[str, int | str]
"""What a toxic is set to: every attribute of its kind, complete and already found good."""


class Stream(StrEnum):
    """The direction a toxic acts on, in Toxiproxy's words."""

    UPSTREAM = "upstream"
    """From the client to the server."""
    DOWNSTREAM = "downstream"
    """From the server to the client."""


class Receiver(Protocol):
    """Whoever takes what the stage before lets through: the next stage, or the socket at the end."""

    def data(self, chunk: bytes) -> None:
        """Some bytes, never none."""

    def eof(self) -> None:
        """The peer will send no more; it may still receive."""

    def reset(self) -> None:
        """The peer reset the connection: nothing more will come, and nothing reaches it any more."""


class Stage(Receiver, Protocol):
    """One toxic at one direction of one connection."""

    next: Receiver
    """Whom it pushes on to; set by the chain, also while it works."""

    @property
    def held(self) -> int:
        """The bytes that it holds back now."""

    @property
    def held_max(self) -> int:
        """From so many on, the peer is not read until it holds less."""

    def update(self, attributes: Attributes) -> None:
        """The toxic was changed while the connection lives."""

    def removed(self) -> None:
        """The toxic is gone: let go of what is held, in order, or end the connection, as this toxic documents."""


class Gate(Receiver, Protocol):
    """What stands before all stages of a direction and knows where packets begin."""

    next: Receiver
    """The first stage; set by the chain."""

    @property
    def held(self) -> int:
        """As of a stage."""

    @property
    def held_max(self) -> int:
        """As of a stage."""

    @property
    def tracking(self) -> bool:
        """Whether it only counts: then it is told of bytes by `track`, and they go on without it."""

    def track(self, chunk: bytes) -> None:
        """Bytes that pass by."""


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """It shall not happen any more."""


class Wire(Protocol):
    """A connection as a stage sees it."""

    @property
    def id(self) -> int:
        """Its number on this link, from 1."""

    def reset(self) -> None:
        """RST to both ends, now; what is held is lost."""

    def close(self) -> None:
        """FIN to both ends once they have what already left the last stage; what stages hold is lost."""

    def close_behind(self, stream: Stream) -> None:
        """FIN to both ends once this direction's FIN has passed all stages, and what is before it."""


class Place(Protocol):
    """Where a stage stands: its connection, direction and toxic, and what it may ask for there."""

    @property
    def wire(self) -> Wire:
        """The connection."""

    @property
    def stream(self) -> Stream:
        """The direction."""

    @property
    def choices(self) -> Choices:
        """Draws from the proxy's seed, the link, the connection's number and the toxic's name."""

    def now(self) -> float:
        """The loop's time in seconds."""

    def later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Run `act` after so many seconds, unless the connection has ended by then."""

    def eased(self) -> None:
        """The stage holds less than before: the peer may be read again."""

    def deed(self, did: str, **numbers: int | str) -> None:
        """Write down that the toxic did something to this connection; bytes, packets and ms are added up."""
