"""The state of a snapshot in the protocol: elements to JSON and back.

Invariant: `elements_of` reads what `shown` wrote as equal elements and refuses anything else. The state is opaque to
the harness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.sut.serve.config import Code, CommandFields, CommandRefused, a_bool, a_list, a_whole, anything
from reference_impl.elements import QueueElement, Record, Watermark, WatermarkStatus


def shown(elements: Iterable[QueueElement]) -> list[dict[str, Any]]:
    """The JSON form of each element."""
    return [_shown(element) for element in elements]


def _shown(element: QueueElement) -> dict[str, Any]:
    match element:
        case Record():
            return {"value": element.value, "ts": element.timestamp}
        case Watermark():
            return {"watermark": element.timestamp}
        case WatermarkStatus():
            return {"idle": element.idle}


def elements_of(state: object) -> Sequence[QueueElement]:
    """The elements of a state; none for null."""
    if state is None:
        return ()
    if not isinstance(state, dict):
        raise CommandRefused(
            Code.BAD_ARGUMENT, "restore must be a state that a snapshot of this program gave, or null"
        )
    fields = CommandFields("restore", state)
    elements = fields.take("elements", a_list)
    fields.end()
    return [_element(element) for element in elements]


def _element(raw: object) -> QueueElement:
    fields = CommandFields("restore: an element", raw if isinstance(raw, dict) else {})
    element: QueueElement
    if isinstance(raw, dict) and "watermark" in raw:
        element = Watermark(timestamp=fields.take("watermark", a_whole()))
    elif isinstance(raw, dict) and "idle" in raw:
        element = WatermarkStatus(idle=fields.take("idle", a_bool))
    else:
        value = fields.take("value", anything)
        element = Record(value=value, timestamp=fields.take("ts", a_whole(or_null=True)))
    fields.end()
    return element
