"""Claims about the elements of a queue in operator state: A56, A61."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.elements import LatencyMarker, Record, RecordAttributes, Watermark, WatermarkStatus
from reference_impl.errors import WrongState
from reference_impl.operator.async_wait import from_state, queue_element_from, to_state


@pytest.mark.parametrize(
    "element",
    [
        Record(value=(1, "a"), timestamp=7, position=3),
        Record(value=None),
        Watermark(timestamp=-5, position=2),
        WatermarkStatus(idle=True, position=1),
        LatencyMarker(id=9),
        RecordAttributes(backlog=True),
    ],
)
def test_an_element_comes_back_from_state_equal_a56(element: Any) -> None:
    assert from_state(to_state(element)) == element


@pytest.mark.parametrize(
    "item", [(), ("record",), ("window", 1), ("watermark", "soon", None), None, ("status", 1, None)]
)
def test_what_is_no_element_is_an_illegal_state_a61(item: Any) -> None:
    with pytest.raises(WrongState, match="is no stream element"):
        from_state(item)


@pytest.mark.parametrize("item", [("latency marker", 1), ("attributes", True)])
def test_what_is_never_queued_is_an_illegal_state_of_a_queue_a61(item: Any) -> None:
    with pytest.raises(WrongState, match="is never queued"):
        queue_element_from(item)
