"""The fields that kinds of faults share: type, limits, description, and an example for the hint of an error message.

Invariant: a field of one name has one type and one meaning in every kind; a default belongs to the kind.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.faults.parts.parts import Link
from harness.faults.parts.values import Bandwidth, Duration, Percent, Shift, Span, Whole

Command = Literal[
    "any", "handshake", "query", "prepare", "execute", "commit", "rollback", "ping", "quit", "other"
]
"""The MySQL command of a request, or the command that a reply answers."""

OnLink = Annotated[Link, Field(description="The link whose connections it disturbs.", examples=["lookups"])]
Direction = Annotated[
    Literal["up", "down"],
    Field(
        description="`up`: bytes to the database; `down`: bytes to the client. "
        "Absent: `blackhole` acts on both directions, every other fault on `down`.",
        examples=["down"],
    ),
]
Delay = Annotated[
    Span,
    Field(
        description="How long a message is held, or how much longer an operation takes.", examples=["150ms"]
    ),
]
Jitter = Annotated[
    Duration, Field(description="The largest random deviation from `delay`.", examples=["50ms"])
]
Rate = Annotated[Bandwidth, Field(description="The largest transfer rate.", examples=["64kB/s"])]
Size = Annotated[
    Whole, Field(gt=0, description="A number of bytes; each kind of fault says of what.", examples=[100])
]
Gap = Annotated[Span, Field(description="Time between two acts of the fault.", examples=["50ms"])]
Open = Annotated[
    Span, Field(description="For `flap`: how long the link is up in each turn.", examples=["200ms"])
]
Closed = Annotated[
    Span, Field(description="For `flap`: how long the link is down in each turn.", examples=["300ms"])
]
Which = Annotated[
    Command,
    Field(description="Select messages by the command they send or answer. Absent: the kind's default."),
]
Statement = Annotated[
    str, Field(min_length=1, description="Select messages whose statement begins with this text.")
]
Packet = Annotated[
    Whole, Field(gt=0, description="Number of the packet in the message. Absent: the kind's own default.")
]
Nth = Annotated[
    Whole,
    Field(
        gt=0,
        description="The first matching message to act on, counted from the fault's beginning. Absent: 1.",
    ),
]
Times = Annotated[Whole, Field(gt=0, description="On how many messages or calls to act. Absent: one.")]
Code = Field(description="The server's error number.", examples=[1205])
Connections = Annotated[Whole, Field(gt=0, description="A number of connections.")]
Count = Annotated[Whole, Field(gt=0, description="A number; each kind of fault says of what.", examples=[10])]
Share = Annotated[Percent, Field(description="A share in percent.", examples=["90%"])]
Way = Field(description="The variant of the fault; each kind has its own.", examples=["raises"])
ShiftBy = Annotated[
    Shift, Field(description="How far the clock is shifted; negative: backwards.", examples=["60m"])
]
Subtask = Annotated[
    Whole, Field(ge=0, description="The subtask whose worker or source is disturbed.", examples=[1])
]
Lag = Annotated[
    Duration,
    Field(
        description="How long the replica gets nothing before it is promoted. Absent: not at all.",
        examples=["2s"],
    ),
]
Lasts = Annotated[Span, Field(alias="for", description="How long until the fault heals.", examples=["400ms"])]
UntilEffective = Annotated[
    Span | None,
    Field(alias="for", description="How long until the fault heals. Absent: until its evidence is found."),
]
Repeat = Annotated[Whole, Field(gt=1, le=1000, description="How many times the fault begins.")]
Every = Annotated[Span, Field(description="Time from one beginning to the next, with `repeat`.")]
