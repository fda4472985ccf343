"""Converts stream elements to plain tuples that can be stored in state, and back.

Answers to Flink's `StreamElementSerializer`. Invariant: an element comes back equal, its value as the state's
serializer decodes it; an unknown kind of element is refused (A61).
"""

from __future__ import annotations

from typing import Any

from reference_impl.elements import (
    LatencyMarker,
    OperatorInput,
    QueueElement,
    Record,
    RecordAttributes,
    Watermark,
    WatermarkStatus,
)
from reference_impl.errors import WrongState


def to_state(element: OperatorInput) -> tuple[Any, ...]:
    """`element` as a tuple that begins with its kind."""
    match element:
        case Record():
            return ("record", element.value, element.timestamp, element.position)
        case Watermark():
            return ("watermark", element.timestamp, element.position)
        case WatermarkStatus():
            return ("status", element.idle, element.position)
        case LatencyMarker():
            return ("latency marker", element.id)
        case RecordAttributes():
            return ("attributes", element.backlog)


def from_state(item: object) -> OperatorInput:
    """The element from such a tuple. Raises WrongState for anything else (A61)."""
    match item:
        case ("record", value, (int() | None) as timestamp, (int() | None) as position):
            return Record(value=value, timestamp=timestamp, position=position)
        case ("watermark", int() as timestamp, (int() | None) as position):
            return Watermark(timestamp=timestamp, position=position)
        case ("status", bool() as idle, (int() | None) as position):
            return WatermarkStatus(idle=idle, position=position)
        case ("latency marker", int() as number):
            return LatencyMarker(id=number)
        case ("attributes", bool() as backlog):
            return RecordAttributes(backlog=backlog)
    raise WrongState(f"{item!r} is no stream element; the state was written by something else (A61)")


def queue_element_from(item: object) -> QueueElement:
    """The same for a queued element; refuses latency markers and attributes, which are never queued (A61)."""
    element = from_state(item)
    if isinstance(element, LatencyMarker | RecordAttributes):
        raise WrongState(f"{element!r} is never queued; the state was written by something else (A61)")
    return element
