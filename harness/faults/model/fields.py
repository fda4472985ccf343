"""The fields that kinds of faults share: type, limits, what each means, and an example for the hint that asks for it.

Invariant: a field of one name has one type and one meaning in every kind; a default belongs to the kind.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.scenario_parts.parts import Link
from harness.scenario_parts.values import Bandwidth, Duration, Percent, Shift, Span, Whole

__all__ = [
    "Closed",
    "Code",
    "Command",
    "Connections",
    "Count",
    "Delay",
    "Direction",
    "Every",
    "Gap",
    "Jitter",
    "Lasts",
    "Nth",
    "OnLink",
    "Open",
    "Packet",
    "Rate",
    "Repeat",
    "Share",
    "ShiftBy",
    "Size",
    "Statement",
    "Subtask",
    "Times",
    "UntilEffective",
    "Way",
    "Which",
]

Command = Literal[
    "any", "handshake", "query", "prepare", "execute", "commit", "rollback", "ping", "quit", "other"
]
"""What a MySQL packet asks for, or answers."""

OnLink = Annotated[Link, Field(description="The connections that it disturbs.", examples=["lookups"])]
Direction = Annotated[
    Literal["up", "down"],
    Field(
        description="`up`: on the way to the database; `down`: on the way back. "
        "Absent: `blackhole` acts on both, every other on the way back.",
        examples=["down"],
    ),
]
Delay = Annotated[
    Span, Field(description="How long something is held, or how much longer it takes.", examples=["150ms"])
]
Jitter = Annotated[Duration, Field(description="More or less by at most this.", examples=["50ms"])]
Rate = Annotated[Bandwidth, Field(description="What may flow, at most.", examples=["64kB/s"])]
Size = Annotated[Whole, Field(gt=0, description="How many bytes, of what the kind counts.", examples=[100])]
Gap = Annotated[Span, Field(description="Between two acts of one fault.", examples=["50ms"])]
Open = Annotated[
    Span, Field(description="Of `flap`: how long the link is up in each turn.", examples=["200ms"])
]
Closed = Annotated[Span, Field(description="Of `flap`: how long it is down.", examples=["300ms"])]
Which = Annotated[
    Command,
    Field(description="Which messages: by what they ask for, or answer. Absent: as the kind means it."),
]
Statement = Annotated[
    str, Field(min_length=1, description="Which messages: those whose statement begins like this.")
]
Packet = Annotated[
    Whole, Field(gt=0, description="Which packet of the message. Absent: as the kind means it.")
]
Nth = Annotated[
    Whole,
    Field(gt=0, description="The first matching message to act on, counted from arming. Absent: 1."),
]
Times = Annotated[Whole, Field(gt=0, description="How many to act on. Absent: one.")]
Code = Field(description="The server's error number.", examples=[1205])
Connections = Annotated[Whole, Field(gt=0, description="How many connections.")]
Count = Annotated[Whole, Field(gt=0, description="How many of what the kind counts.", examples=[10])]
Share = Annotated[Percent, Field(description="How many of a hundred.", examples=["90%"])]
Way = Field(description="Which way; each kind names its own.", examples=["raises"])
ShiftBy = Annotated[Shift, Field(description="How far a clock jumps; back with a minus.", examples=["60m"])]
Subtask = Annotated[Whole, Field(ge=0, description="Whose worker, or whose source.", examples=[1])]
Lasts = Annotated[Span, Field(alias="for", description="Until it heals.", examples=["400ms"])]
UntilEffective = Annotated[
    Span | None,
    Field(alias="for", description="Until it heals; absent: until its evidence is there."),
]
Repeat = Annotated[Whole, Field(gt=1, le=1000, description="How often it comes, in all.")]
Every = Annotated[Span, Field(description="From one beginning to the next, if it repeats.")]
