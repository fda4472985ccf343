"""The events that a system under test may write, with the exact shape of their fields, and breaches of the protocol.

Answers to the table of events in `sut-protocol.md`. `read_event` returns an event whose every field has its type (no
bool or float for an integer, no NaN, nothing missing, nothing extra), or raises `MalformedEvent`. A
`ProtocolBreach` says its kind, the command at which it happened, and the program's last line.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from harness.system.errors import SutError
from harness.system.json_types import Json

SHOWN_MAX = 300
"""Characters of a line that an error message shows."""


class BreachKind(StrEnum):
    """The kind of a breach."""

    START = "cannot be started"
    DEATH = "died"
    HANG = "hung"
    FLOOD = "flooded"
    NONSENSE = "talked nonsense"
    TURN = "spoke out of turn"
    STATE = "wrote what its state forbids"


class ProtocolBreach(SutError):
    """A program broke the protocol. It was killed before this was raised."""

    def __init__(self, what: str, *, kind: BreachKind, command: int, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.kind = kind
        self.command = command


def shortened(line: bytes | str) -> str:
    """A line, cut to the length that an error message shows."""
    text = line.decode(errors="backslashreplace") if isinstance(line, bytes) else line
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"


_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
Ability = Literal["ordered", "unordered", "keyed", "retry", "snapshot", "status", "marker", "flink-profile"]
Failure = Literal["user-error", "timeout", "callback-error", "internal"]
Refusal = Literal["not-json", "unknown-command", "bad-state", "unsupported", "bad-argument", "unknown-call"]


class MalformedEvent(ValueError):
    """A line that is not an event of the protocol; the message says why."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, tag_field="ev", forbid_unknown_fields=True):
    """Common to all events: the tag `ev`, and no unknown fields."""


class Hello(_Shape, frozen=True, kw_only=True, tag="hello"):
    """The answer to `hello`: the system's name and its abilities."""

    protocol: int
    name: str
    version: str
    abilities: list[Ability]


class FunctionCall(_Shape, frozen=True, kw_only=True, tag="call"):
    """The user function is invoked."""

    call: _Positive
    value: Any
    attempt: _Positive


class Timeout(_Shape, frozen=True, kw_only=True, tag="timeout"):
    """The timeout handler is invoked."""

    value: Any


class Emit(_Shape, frozen=True, kw_only=True, tag="emit"):
    """One result leaves the operator."""

    value: Any
    ts: int | None


class Watermark(_Shape, frozen=True, kw_only=True, tag="watermark"):
    """A watermark leaves the operator."""

    ts: int


class Status(_Shape, frozen=True, kw_only=True, tag="status"):
    """A watermark status leaves the operator."""

    idle: bool


class Marker(_Shape, frozen=True, kw_only=True, tag="marker"):
    """A latency marker leaves the operator."""

    id: int


class Blocked(_Shape, frozen=True, kw_only=True, tag="blocked"):
    """The element sent last waits for a slot."""


class Unblocked(_Shape, frozen=True, kw_only=True, tag="unblocked"):
    """Every waiting element has been admitted."""


class Snapshot(_Shape, frozen=True, kw_only=True, tag="snapshot"):
    """A snapshot was taken; `state` is opaque and keeps its bytes."""

    id: int
    state: msgspec.Raw
    elements: list[dict[str, Any]]


class TaskFailed(_Shape, frozen=True, kw_only=True, tag="failed"):
    """The task failed; afterwards only `stats` and `close` are allowed."""

    error: Failure
    message: str


class DrainEnded(_Shape, frozen=True, kw_only=True, tag="ended"):
    """The drain after `end_input` is complete."""


class Closed(_Shape, frozen=True, kw_only=True, tag="closed"):
    """The answer to `close`: how many mails and timers were left."""

    dropped_mails: _Count
    timers: _Count


class Stats(_Shape, frozen=True, kw_only=True, tag="stats"):
    """The operator's counters at the `stats` command."""

    queue: _Count
    calls_running: _Count
    timers: _Count
    mails: _Count
    now: int


class ErrorAnswer(_Shape, frozen=True, kw_only=True, tag="error"):
    """The command was refused and changed nothing."""

    error: Refusal
    message: str


class Quiet(_Shape, frozen=True, kw_only=True, tag="quiet"):
    """The end of an answer."""


Event = (
    Hello
    | FunctionCall
    | Timeout
    | Emit
    | Watermark
    | Status
    | Marker
    | Blocked
    | Unblocked
    | Snapshot
    | TaskFailed
    | DrainEnded
    | Closed
    | Stats
    | ErrorAnswer
    | Quiet
)

_decode = msgspec.json.Decoder(Event).decode


def read_event(line: bytes) -> Event:
    """The event of one line. Raises `MalformedEvent`."""
    try:
        event: Event = _decode(line)
    except RecursionError:
        raise MalformedEvent("it is nested too deep to be read") from None
    except UnicodeDecodeError as error:
        raise MalformedEvent(f"it is not UTF-8 (byte {error.start + 1})") from None
    except msgspec.MsgspecError as error:
        raise MalformedEvent(str(error)) from None
    if type(event) is Snapshot:
        for place, element in enumerate(event.elements):
            if not _is_element(element):
                raise MalformedEvent(
                    f"elements[{place}] is not one of {{value, ts}}, {{watermark}}, {{idle}} with their types"
                )
    return event


def _is_element(element: Json) -> bool:
    match element:
        case {"value": _, "ts": ts}:
            return len(element) == 2 and (ts is None or type(ts) is int)  # noqa: PLR2004
        case {"watermark": ts}:
            return len(element) == 1 and type(ts) is int
        case {"idle": idle}:
            return len(element) == 1 and type(idle) is bool
        case _:
            return False
